"""The command line: what it prints, where, and its exit status."""

import json
import subprocess
import sys

import pytest
from test_conformance import refusals

import shardwise
from shardwise.cli import main

PLAN = ["plan", "gpt2", "--on", "8xH100", "--seq-len", "1024", "--global-batch", "64"]


def test_a_plan_that_fits(capsys):
    assert main([*PLAN, "--tokens", "1e9"]) == 0
    out, err = capsys.readouterr()
    assert out == str(shardwise.plan("gpt2", "8xH100", seq_len=1024, global_batch=64, tokens=1e9))
    assert err == ""


def test_a_plan_as_json(capsys):
    assert main([*PLAN, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["feasible"] is True


def test_nothing_fits(capsys):
    assert (
        main(["plan", "llama-3.1-405b", "--on", "T4", "--seq-len", "64", "--global-batch", "1"])
        == 1
    )
    assert "Does not fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["plan", "gpt2", "--on", "8xH1000", "--seq-len", "64", "--global-batch", "8"],
            "cluster: got",
        ),
        ([*PLAN, "--set", "recipe.optimizr=sgd"], "recipe.optimizr: got"),
        ([*PLAN, "--set", "seq_len.x=1"], "seq_len.x: got 1024"),
        ([*PLAN, "--optimizer", "magic"], 'recipe.optimizer: got "magic"'),
        ([*PLAN, "--catalog", "no-such-file"], "catalog: got no-such-file"),
        (["describe", "no-such-model"], "model: got"),
    ],
)
def test_bad_input_is_told_on_stderr(capsys, arguments, said):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"shardwise: {said}")


@pytest.mark.parametrize(
    "arguments", [[], ["plan"], [*PLAN, "--seq-len", "many"], [*PLAN, "--set", "nonsense"]]
)
def test_a_malformed_command_is_bad_input(arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_estimate_takes_a_layout(capsys):
    arguments = ["estimate", "gpt2", "--on", "8xH100", "--seq-len", "512", "--sharding", "ddp"]
    assert main([*arguments, "--micro-batch", "4", "--set", "recipe.lora.rank=8", "--json"]) == 0
    layout = json.loads(capsys.readouterr().out)["layout"]
    assert (layout["sharding"], layout["micro_batch"], layout["data_parallel_replicate"]) == (
        "ddp",
        4,
        8,
    )


def test_a_cluster_from_a_file(capsys, tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"accelerator": "a100-sxm-80", "nodes": 2, "gpus_per_node": 4}))
    arguments = ["estimate", "gpt2", "--on", str(path), "--seq-len", "512", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["cluster"]["nodes"] == 2


def test_why_not_gives_the_figure(capsys):
    asked = ["why-not", "llama-3.1-8b", "--on", "8xH100", "--seq-len", "4096"]
    asked += ["--global-batch", "64"]
    assert main([*asked, "--sharding", "ddp"]) == 0
    said, plan = capsys.readouterr().out.splitlines()
    assert said.startswith("DDP: needs")
    assert plan.startswith("The plan, ")
    assert main([*asked, "--sharding", "ddp", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shortfall"] > 0
    assert main(asked) == 2
    assert "layout: got nothing" in capsys.readouterr().err


def test_compare_changes_fields(capsys):
    asked = ["compare", "gpt2", "--on", "8xH100", "--seq-len", "512", "--global-batch", "64"]
    changes = ["--against", "cluster=8xA100-SXM4-80GB recipe.optimizer=sgd"]
    assert main([*asked, *changes, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in answer["compared"]] == ["as asked", changes[1]]
    assert "a100" in answer["compared"][1]["cluster"]
    best = shardwise.plan("gpt2", "8xH100", seq_len=512, global_batch=64)
    step = next(line for line in answer["lines"] if line["name"] == "step time")
    assert step["values"][0] == best.best.step.time.total
    # A layout is estimated as it is, beside the best plan.
    assert main([*asked, "--against", "layout.sharding=ddp layout.micro_batch=8"]) == 0
    assert "2. layout.sharding=ddp" in capsys.readouterr().out
    for wrong in ("cluster", "recipe.optimizer='sgd"):
        assert main([*asked, "--against", wrong]) == 2
        assert capsys.readouterr().err.startswith("shardwise: against: got")


def test_other_machines_may_be_the_better_ones(capsys):
    asked = ["plan", "llama-3.1-8b", "--on", "8xA100-SXM4-80GB", "--or-on", "8xH100"]
    asked += ["--seq-len", "2048", "--global-batch", "64", "--json", "--scaling", "true"]
    assert main(asked) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["best"]["cluster"]["accelerator"] == "h100-sxm"
    assert answer["scaling"]["points"]


def test_measured_runs_teach_later_commands(capsys, tmp_path):
    runs, learnt = tmp_path / "runs.json", tmp_path / "learnt.json"
    run = {"model": "gpt2", "cluster": "8xH100", "seq_len": 512}
    runs.write_text(json.dumps([{"estimate": run, "step_time": 0.1}]))
    assert main(["calibrate", str(runs), "-o", str(learnt)]) == 0
    assert capsys.readouterr().out.strip()
    asked = ["estimate", "gpt2", "--on", "8xH100", "--seq-len", "512", "--json"]
    assert main([*asked, "--calibration", str(learnt)]) == 0
    later = json.loads(capsys.readouterr().out)
    answer = shardwise.estimate(**run, calibration=json.loads(learnt.read_text()))
    assert later["step"]["mfu"] == answer.step.mfu
    assert main([*asked, "--calibration", str(tmp_path / "no-such.json")]) == 2
    assert capsys.readouterr().err.startswith("shardwise: calibration: got")


def test_check_reads_what_starts_the_processes(capsys, tmp_path):
    path = tmp_path / "task.yaml"
    path.write_text("num_nodes: 2\nresources:\n  accelerators: H100:8\n")
    asked = ["check", str(path), "--model", "llama-3.1-8b", "--seq-len", "2048"]
    assert main([*asked, "--set", "layout.sharding=fsdp2"]) == 0
    assert "2 x 8 x h100-sxm" in capsys.readouterr().out
    assert main([*asked, "--set", "layout.sharding=ddp"]) == 1
    capsys.readouterr()
    assert main([*asked, "--on", "8xH100"]) == 2
    assert "config: got 16 processes; allowed: 8" in capsys.readouterr().err
    path.write_text("torchrun --nproc-per-node=8 train.py\n")
    assert main(asked) == 2
    assert capsys.readouterr().err.startswith("shardwise: cluster: got nothing")


def test_describe_and_catalog(capsys):
    assert main(["describe", "gpt2"]) == 0
    assert "124,439,808" in capsys.readouterr().out
    assert main(["catalog"]) == 0
    assert "h100-sxm" in capsys.readouterr().out


def test_as_a_module():
    command = [sys.executable, "-m", "shardwise", "--version"]
    assert subprocess.check_output(command, text=True) == f"shardwise {shardwise.__version__}\n"


def test_a_reader_that_stops_early_is_no_fault():
    command = f"{sys.executable} -m shardwise catalog --json | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{", "")


def leaves(fields, path=""):
    """Every field of a request as PATH, VALUE."""
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def test_refusals_of_the_core_are_told_in_its_own_words(capsys):
    """The kept refusals that options can say: status 2 and the core's text, whatever the field."""
    asked = 0
    for _, verb, text, _ in refusals():
        if verb != "estimate" or not text.startswith('{"model": "gpt2", "cluster": "8xH100", '):
            continue
        try:
            request = json.loads(text)
        except ValueError:
            continue
        given = list(
            leaves({k: v for k, v in request.items() if k not in ("model", "cluster", "seq_len")})
        )
        if any(isinstance(value, list | dict | str) for _, value in given):
            continue
        with pytest.raises(shardwise.Error) as caught:
            shardwise.call(verb, text)
        options = [
            word for path, value in given for word in ("--set", f"{path}={json.dumps(value)}")
        ]
        command = ["estimate", "gpt2", "--on", "8xH100", "--seq-len", str(request["seq_len"])]
        assert main([*command, *options]) == 2, text
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"shardwise: {json.loads(caught.value.args[0])['message']}\n"), (
            text
        )
        asked += 1
    assert asked > 100
