"""The line before launch: plan, agree on it over all ranks, stop early when nothing fits."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from .._error import Error
from .._fields import json_file
from .._model import model_spec
from .._results import Calibrated
from .._verbs import estimate_request, plan_request, to_json
from .._verdict import Tight, accepted
from ._describe import describe
from ._detect import detect

if TYPE_CHECKING:
    from torch import nn

    from .. import requests
    from .._results import Estimate, Plan
    from .._verbs import Learnt

SWITCH = "SHARDWISE"
"""Environment: ``off`` disables the hook."""

CHOICE = "SHARDWISE_REQUEST"
"""Environment: an estimate request that was chosen before, as ``shardwise run`` passes it."""

CLUSTER = "SHARDWISE_CLUSTER"
"""Environment: a cluster by name, or the path of a cluster file."""

CALIBRATION = "SHARDWISE_CALIBRATION"
"""Environment: the path of what ``calibrate`` learnt."""

_PLANNED = count()
"""Numbers the plans of this process; every rank makes them in the same order."""

_TORCH = ("ddp", "fsdp2")
"""Strategies that torch alone runs on several ranks."""


class DoesNotFit(RuntimeError):  # noqa: N818 - the answer's own verdict
    """No layout fits the machines; ``plan`` says by how much."""

    def __init__(self, plan: Plan | Estimate) -> None:
        self.plan = plan
        best = plan.best
        # Only one that is refused is here with a verdict other than that it does not fit.
        tight = getattr(plan, "feasible", True) and best.fit.verdict == "tight"
        said = f"{'fits too tightly' if tight else 'nothing fits'}: {best.fit.reason}"
        changes = getattr(plan, "nearest_changes", ())
        if changes:
            said += "; would fit with " + "; or ".join(changes[:3])
        super().__init__(said)


def prelaunch(
    model: nn.Module | object,
    *inputs: Any,
    seq_len: int | None = None,
    global_batch: int,
    cluster: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    recipe: requests.Recipe | None = None,
    search: requests.Search | None = None,
    calibration: Learnt | None = None,
    tight: Tight = "accept",
    environ: Mapping[str, str] | None = None,
    **describing: Any,
) -> Plan | Estimate | None:
    """Plans the run that is about to start; the same plan on every rank.

    Call it before ``init_process_group``: when nothing fits, every rank raises before NCCL starts.
    Rank 0 prints one line. With ``SHARDWISE=off`` it does nothing and gives none.

    Args:
        model: what is trained; an unknown module needs example ``inputs``.
        *inputs: example inputs, for the trace of an unknown module.
        seq_len: tokens per sequence; a traced module knows its own.
        global_batch: sequences per optimizer step, all ranks together.
        cluster: the machines; without it ``SHARDWISE_CLUSTER``, else what is detected.
        recipe: method, number formats, kernels, optimizer.
        search: what may vary; without it DDP and FSDP2.
        calibration: what measured runs taught; without it the file ``SHARDWISE_CALIBRATION``.
        tight: whether a plan that fits tightly, its need's 80 % interval reaching beyond what there
            is, may start (``accept``) or not (``refuse``); ``search={"headroom": 0.17}`` looks for
            one that fits with room to spare.
        environ: in place of ``os.environ``.
        **describing: further arguments of ``describe``.

    Raises:
        DoesNotFit: when no layout fits, or the best fits but tightly and that is refused.
        Error: for a request that cannot be read.
    """
    env = os.environ if environ is None else environ
    if env.get(SWITCH, "").lower() == "off":
        return None

    def ask() -> dict[str, Any]:
        if CHOICE in env:
            chosen: dict[str, Any] = json.loads(env[CHOICE])
            return chosen
        where = machines(cluster, env)
        described = describe(model, *inputs, **{"on_gpu": _on_gpu(where), **describing})
        length = seq_len or described.tokens
        if length is None:
            raise Error.of("seq_len", "missing_field", "nothing", "tokens per sequence")
        request = {
            "model": model_spec(described),
            "cluster": where,
            "seq_len": length,
            "global_batch": global_batch,
            "recipe": {**described.recipe, **(recipe or {})},
            "search": _search(search, env),
        }
        learnt = _calibration(calibration, env)
        return request if learnt is None else {**request, "calibration": learnt}

    request = agreed(ask, env)
    answer: Plan | Estimate = (
        estimate_request(request) if "layout" in request else plan_request(request)
    )
    if not (getattr(answer, "feasible", True) and accepted(answer.best.fit.verdict, tight)):
        raise DoesNotFit(answer)
    if _rank(env) == 0:
        print(f"shardwise: {one_line(answer)}", file=sys.stderr)
    return answer


def one_line(answer: Plan | Estimate) -> str:
    """A plan in one line: what will run, its memory and its time."""
    best = answer.best
    layout = best.layout
    return (
        f"{layout.sharding}, micro-batch {layout.micro_batch} x "
        f"{best.gradient_accumulation}, recompute {layout.recompute}: "
        f"{best.memory.allocated / 2**30:.2f} GiB of {best.fit.capacity / 2**30:.2f} allocated, "
        f"{best.step.time.total:.3g} s a step"
    )


def machines(
    cluster: str | os.PathLike[str] | Mapping[str, Any] | None, env: Mapping[str, str]
) -> str | dict[str, Any]:
    """The cluster that is meant: given, named by the environment, or detected."""
    given = env.get(CLUSTER) if cluster is None else cluster
    if given is None:
        return detect(env)
    if isinstance(given, Mapping):
        return dict(given)
    if str(given).endswith(".json"):
        read: dict[str, Any] = json_file(str(given), "cluster")
        return read
    return str(given)


def _on_gpu(where: str | dict[str, Any]) -> bool:
    row = where.get("accelerator") if isinstance(where, dict) else None
    return not (isinstance(row, dict) and row.get("form") == "CPU")


def _calibration(given: Learnt | None, env: Mapping[str, str]) -> Any:
    if given is None:
        return json_file(env[CALIBRATION], "calibration") if CALIBRATION in env else None
    return given.calibration if isinstance(given, Calibrated) else given


def _search(search: requests.Search | None, env: Mapping[str, str]) -> dict[str, Any]:
    asked: dict[str, Any] = dict(search or {})
    if not asked.get("shardings"):
        asked["shardings"] = list(_TORCH) if int(env.get("WORLD_SIZE", "1")) > 1 else []
    return asked


def _rank(env: Mapping[str, str]) -> int:
    return int(env.get("RANK", env.get("SLURM_PROCID", "0")))


def agreed(ask: Callable[[], dict[str, Any]], env: Mapping[str, str]) -> dict[str, Any]:
    """The request that rank 0 makes, on every rank; the core then gives each the same answer.

    The ranks meet in a process group that is there, else in the store that torchrun keeps. Without
    either each rank asks for itself.
    """
    import torch.distributed as dist
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    if dist.is_available() and dist.is_initialized():
        box: list[str | None] = [_outcome(ask) if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(box, src=0)
        return _read(box[0] or "{}")
    if int(env.get("WORLD_SIZE", "1")) > 1 and env.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        port = int(env["MASTER_PORT"])
        wait = timedelta(seconds=300)
        store = TCPStore(env["MASTER_ADDR"], port, is_master=False, timeout=wait)
        # A script may plan more than once, and be started again.
        key = f"shardwise/{env.get('TORCHELASTIC_RESTART_COUNT', '0')}/{next(_PLANNED)}"
        if _rank(env) == 0:
            store.set(key, _outcome(ask))
        return _read(store.get(key).decode())
    return ask()


def _outcome(ask: Callable[[], dict[str, Any]]) -> str:
    """The request or the fault, so that no rank waits for one that failed."""
    try:
        return to_json({"request": ask()})
    except Error as e:
        return json.dumps({"fault": e.args[0]})


def _read(text: str) -> dict[str, Any]:
    outcome = json.loads(text)
    if "fault" in outcome:
        raise Error(outcome["fault"])
    request: dict[str, Any] = outcome["request"]
    return request
