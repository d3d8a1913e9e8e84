"""The command line: what it prints, where, and its exit status."""

import json
import subprocess
import sys

import pytest

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
