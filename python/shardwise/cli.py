"""The command line: the verbs, their fields as options, the core's own words.

Exit status: 0 when it fits, 1 when nothing fits, 2 for bad input. What fits tightly (a part of
the 80 % interval of its need exceeds what there is) counts as fitting unless ``--tight refuse``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_args

from . import _cli_ask as ask
from . import _cli_launch as launch
from ._error import Error
from ._fields import assignment, cluster_of, json_file, put, value_of
from ._model import model_spec
from ._native import call, call_text, version
from ._verdict import Tight, accepted

FITS, NOTHING_FITS, BAD_INPUT = 0, 1, 2

# Options that set a field of the request by its path; --set reaches every other field.
_RECIPE = {
    "--method": ("recipe.method", "full, lora, qlora, qat or qat_lora"),
    "--optimizer": ("recipe.optimizer", "adamw, adamw_fused, adamw_8bit, ..."),
    "--framework": ("recipe.framework", "torch, deepspeed, megatron, torchtitan, ..."),
    "--price": ("run.price", "on_demand, spot, reserved_1y or reserved_3y"),
}
_LAYOUT = {
    "--sharding": ("layout.sharding", "ddp, zero3, FULL_SHARD, fsdp2, ..."),
    "--micro-batch": ("layout.micro_batch", "sequences a rank works on at once"),
    "--recompute": ("layout.recompute", "none, selective or full"),
    "--tensor-parallel": ("layout.tensor_parallel", "tensor-parallel ranks"),
    "--pipeline-parallel": ("layout.pipeline_parallel", "pipeline stages"),
}
_SEARCH = {
    "--objective": ("search.objective", "time, cost or headroom"),
    "--headroom": ("search.headroom", "share of memory to leave free, 0 to 0.9"),
    "--scaling": ("search.scaling", "true: the curve over the number of nodes"),
    "--sensitivity": ("search.sensitivity", "true: the plan under half and twice of things"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    # What follows the first -- of `run` is the command to launch, whatever it looks like.
    words, command = _split(words) if words[:1] == ["run"] else (words, [])
    given = _parser().parse_args(words)
    given.command = command
    run: Callable[[argparse.Namespace], int] = given.run
    try:
        status = run(given)
        sys.stdout.flush()
    except Error as e:
        print(f"shardwise: {e}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FITS
    return status


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shardwise",
        description="Plans the training of a model before any GPU is rented.",
    )
    parser.add_argument("--version", action="version", version=f"shardwise {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    plan = _training(commands, "plan", "the best layout, a ranked list, why not the rest", _SEARCH)
    plan.add_argument("--global-batch", type=int, required=True, help="sequences per step")
    plan.add_argument(
        "--or-on", action="append", metavar="CLUSTER", help="other machines it could have instead"
    )
    estimate = _training(commands, "estimate", "what one given layout needs", _LAYOUT)
    estimate.add_argument("--global-batch", type=int, help="sequences per step")
    asking = _asking(commands)
    launching = _launching(commands)
    describe = commands.add_parser("describe", help="what a model is made of")
    describe.add_argument("model", metavar="MODEL", help=_MODEL)
    describe.set_defaults(run=_describe)
    catalog = commands.add_parser("catalog", help="accelerators, links, cloud shapes, prices")
    catalog.set_defaults(run=_catalog)
    for command in (plan, estimate, describe, catalog, *asking, *launching):
        command.add_argument("--json", action="store_true", help="the whole report as JSON")
        command.add_argument("--catalog", metavar="FILE", help="catalogue rows of your own, JSON")
    return parser


_MODEL = "preset (llama-3.1-8b), Hub id, or path of a config.json"


def _training(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    verb: str,
    help_text: str,
    options: dict[str, tuple[str, str]],
) -> argparse.ArgumentParser:
    """A command that asks about a training: model, machines, batch, and fields of the request."""
    command = commands.add_parser(verb, help=help_text)
    command.add_argument("model", metavar="MODEL", help=_MODEL)
    command.add_argument("--on", metavar="CLUSTER", required=True, help=_CLUSTER)
    command.add_argument("--seq-len", type=int, required=True, help="tokens per sequence")
    command.add_argument("--tokens", type=float, help="tokens to train on, as 10e9")
    for option, (field, meaning) in {**_RECIPE, **options}.items():
        command.add_argument(option, dest=field, metavar="VALUE", type=value_of, help=meaning)
    _settable(command)
    command.add_argument(
        "--calibration", metavar="FILE", help="what calibrate learnt from measured runs"
    )
    command.set_defaults(
        run=_train,
        act=None,
        verb=verb,
        or_on=None,
        fields=[f for f, _ in {**_RECIPE, **options}.values()],
    )
    return command


def _settable(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set",
        action="append",
        default=[],
        type=assignment,
        metavar="FIELD=VALUE",
        help="any field of the request, as recipe.lora.rank=32",
    )
    command.add_argument(
        "--tight",
        choices=get_args(Tight),
        default="accept",
        help="whether a tight fit, which a part of the 80 %% interval of the need exceeds, passes",
    )


def _asking(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> list[argparse.ArgumentParser]:
    """The commands that hold one answer against another."""
    why_not = _training(commands, "why-not", "why a layout is not the plan", _LAYOUT)
    why_not.add_argument("--global-batch", type=int, required=True, help="sequences per step")
    why_not.set_defaults(act=ask.why_not)
    compare = _training(commands, "compare", "answers side by side, line by line", _LAYOUT)
    compare.add_argument(
        "--global-batch", type=int, help="sequences per step; with it and no layout, best plans"
    )
    compare.add_argument(
        "--against",
        action="append",
        required=True,
        metavar="CHANGES",
        help="one more column: fields that differ, as 'cluster=8xA100 recipe.optimizer=sgd'",
    )
    compare.set_defaults(act=ask.compare)
    return [why_not, compare]


def _launching(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> list[argparse.ArgumentParser]:
    """The commands around a launch; gives those that take a whole request."""
    export = _training(commands, "export", "the best layout in the words of a tool", _SEARCH)
    export.add_argument("--global-batch", type=int, required=True, help="sequences per step")
    export.add_argument("--to", metavar="TOOL", required=True, help=_TOOLS)
    export.set_defaults(act=launch.export)
    run = _training(commands, "run", "plan, then launch: run MODEL ... -- torchrun ...", _SEARCH)
    run.add_argument("--global-batch", type=int, required=True, help="sequences per step")
    run.set_defaults(act=launch.run)
    check = commands.add_parser("check", help="whether what a config file of a tool says fits")
    check.add_argument(
        "config", metavar="CONFIG", help="a file of Accelerate, DeepSpeed, Slurm, ..."
    )
    check.add_argument("--model", metavar="MODEL", required=True, help=_MODEL)
    check.add_argument("--on", metavar="CLUSTER", help=f"{_CLUSTER}; without it the file's own")
    check.add_argument("--seq-len", type=int, help="tokens per sequence, if the file does not say")
    check.add_argument(
        "--global-batch", type=int, help="sequences per step, in place of the file's"
    )
    check.add_argument("--format", metavar="TOOL", help="its format, where the guess is wrong")
    _settable(check)
    check.set_defaults(run=launch.check)
    calibrate = commands.add_parser(
        "calibrate", help="measure this machine (needs torch), or learn from measured runs"
    )
    calibrate.add_argument(
        "runs", nargs="?", metavar="RUNS", help="measured runs, JSON: what they teach is saved"
    )
    calibrate.add_argument(
        "-o", "--output", metavar="FILE", help="cluster.json, of runs calibration.json"
    )
    calibrate.add_argument("--seconds", type=float, default=10.0, help="about how long")
    calibrate.add_argument("--processes", type=int, default=2, help="ranks of CPU collectives")
    calibrate.set_defaults(run=launch.calibrate)
    return [export, run]


_TOOLS = "accelerate, deepspeed, torchtitan, transformers, slurm, torchrun, skypilot, ..."
_CLUSTER = "8xH100-SXM-80GB, '4 x p5.48xlarge', or a cluster file (JSON)"


def _train(given: argparse.Namespace) -> int:
    request: dict[str, Any] = {
        "model": model_spec(given.model),
        "cluster": cluster_of(given.on),
        "seq_len": given.seq_len,
    }
    if given.global_batch is not None:
        request["global_batch"] = given.global_batch
    if given.tokens is not None:
        put(request, "run.tokens", given.tokens)
    if given.catalog is not None:
        request["catalog"] = json_file(given.catalog, "catalog")
    if given.calibration is not None:
        request["calibration"] = json_file(given.calibration, "calibration")
    if given.or_on is not None:
        request["alternatives"] = [cluster_of(name) for name in given.or_on]
    for field in given.fields:
        if getattr(given, field) is not None:
            put(request, field, getattr(given, field))
    for field, value in given.set:
        put(request, field, value)
    if given.act is not None:
        act: Callable[[argparse.Namespace, dict[str, Any]], int] = given.act
        return act(given, request)
    answer = json.loads(_print(given, request))
    feasible, best = answer.get("feasible", True), answer.get("best", answer)
    fits = feasible and accepted(best["fit"]["verdict"], given.tight)
    return FITS if fits else NOTHING_FITS


def _print(given: argparse.Namespace, request: dict[str, Any]) -> str:
    """Prints the answer as asked for, and gives it as JSON."""
    text = json.dumps(request)
    answer = call(given.verb, text)
    print(answer if given.json else call_text(given.verb, text), end="\n" if given.json else "")
    return answer


def _describe(given: argparse.Namespace) -> int:
    given.verb = "describe_model"
    _print(given, {"model": model_spec(given.model)})
    return FITS


def _catalog(given: argparse.Namespace) -> int:
    given.verb = "catalog"
    rows = {} if given.catalog is None else {"catalog": json_file(given.catalog, "catalog")}
    _print(given, rows)
    return FITS
