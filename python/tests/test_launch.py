"""The line before launch: plans that are applied, agreed on and compared, on real processes."""

import json
import os
import re
import runpy
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

import shardwise

torch = pytest.importorskip("torch")

from archs import Decoder, example  # noqa: E402
from machines import PROCESSOR  # noqa: E402

from shardwise.torch import Watch, find_units, prelaunch  # noqa: E402
from shardwise.torch._launch import DoesNotFit, agreed  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PLAN = {"seq_len": 512, "global_batch": 64}


@pytest.fixture(scope="session")
def cpu_cluster(tmp_path_factory):
    """A cluster file as `shardwise calibrate` writes it."""
    path = tmp_path_factory.mktemp("cluster") / "cluster.json"
    command = [sys.executable, "-m", "shardwise", "calibrate", "--seconds", "2", "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "TFLOP/s" in done.stdout
    assert "gloo" in done.stdout
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(script, *arguments, processes=2, **env):
    """Two real processes, given long enough for a machine that is busy with other things."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={processes}",
        str(script),
        *map(str, arguments),
    ]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
    )


def test_a_calibrated_cluster_can_be_planned_on(cpu_cluster):
    cluster = shardwise.Cluster.load(cpu_cluster)
    plan = shardwise.plan("gpt2", cluster, **PLAN)
    row = cluster["accelerator"]
    assert plan.best.cluster.gpus_per_node == 2
    assert plan.best.cluster.peaks.bf16 == pytest.approx(row["bf16_tflops"] * 1e12)
    assert 0 < plan.best.step.mfu < 1


def test_the_example_trains_on_two_processes(cpu_cluster):
    done = torchrun(EXAMPLES / "train_fsdp2.py", SHARDWISE_CLUSTER=str(cpu_cluster))
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"step \d: loss ([\d.]+)", done.stdout)]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    # One line of the plan and one of the comparison, from rank 0 alone.
    planned, compared = re.findall(r"shardwise: (.*)", done.stderr)
    assert planned.startswith("fsdp2, micro-batch ")
    measured = re.search(r"peak ([\d,.]+) MiB allocated, ([\d,.]+) predicted", compared)
    measured, predicted = (float(figure.replace(",", "")) for figure in measured.groups())
    assert predicted == pytest.approx(measured, rel=0.1)


def test_the_example_trains_without_the_hook(monkeypatch, capsys):
    """As a plain script of one process: no plan, no sharding, no word from shardwise."""
    for name, value in {
        "SHARDWISE": "off",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }.items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(EXAMPLES / "train_fsdp2.py"), run_name="__main__")
    out, err = capsys.readouterr()
    assert out.count("loss") == 5
    assert "shardwise:" not in err


AGREE = """
import json, os, pathlib, sys, torch, shardwise

rank = int(os.environ["RANK"])
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))

def ask(**asked):
    try:
        plan = shardwise.prelaunch(model, torch.zeros(2, 8), **asked)
    except (shardwise.Error, shardwise.DoesNotFit) as e:
        return [type(e).__name__, str(e)]
    return [plan.best.global_batch, plan.layout.sharding]

# Each rank would ask something else; rank 0's word counts, in every call.
said = [
    ask(global_batch=16 * (1 + rank), cluster="2xH100"),
    ask(global_batch=64 * (1 + rank), cluster="2xA100"),
    ask(global_batch=16, cluster=["2xZ9000", "2xH100"][rank]),
    ask(global_batch=16, cluster={"accelerator": "t4", "gpus_per_node": 2, "usable_gib": 0.1}),
    torch.distributed.is_initialized(),
]
pathlib.Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(said))
"""


def test_ranks_agree_on_what_rank_zero_says(tmp_path):
    script = tmp_path / "agree.py"
    script.write_text(AGREE)
    done = torchrun(script, tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    assert [said[0] for said in first[:2]] == [16, 64]
    # A fault of rank 0 reaches every rank, so that none waits for it.
    kind, message = first[2]
    assert kind == "Error"
    assert "cluster: got" in message
    # Nothing fits: every rank stops, before there is a process group.
    kind, message = first[3]
    assert kind == "DoesNotFit"
    assert message.startswith("nothing fits")
    assert first[4] is False
    # Rank 0 alone prints, once for each plan.
    assert done.stderr.count("shardwise: ") == 2


def test_prelaunch_is_switched_off_by_environment():
    assert prelaunch(object(), global_batch=8, environ={"SHARDWISE": "off"}) is None


def test_prelaunch_says_what_would_fit(capsys):
    model = Decoder()
    with pytest.raises(DoesNotFit, match="nothing fits") as caught:
        prelaunch(
            model,
            example("ids", 2),
            tokens=256,
            global_batch=4096,
            cluster={"accelerator": "t4", "usable_gib": 0.5},
            environ={},
        )
    assert caught.value.plan.best.fit.headroom < 0
    plan = prelaunch(
        model, example("ids", 2), tokens=256, global_batch=8, cluster="H100", environ={}
    )
    assert plan.feasible
    assert capsys.readouterr().err.count("shardwise: ") == 1


def test_a_tight_plan_may_be_refused():
    asked = {"seq_len": 2048, "global_batch": 8, "environ": {}}
    asked |= {"recipe": {"optimizer": "adamw"}, "search": {"shardings": ["none"]}}
    config = pytest.importorskip("transformers").GPT2Config()
    roomy = prelaunch(config, cluster="H100", **asked)
    assert roomy.best.fit.verdict in {"fits", "tight"}
    # Room for what is needed, not for the error of the estimate.
    needed = roomy.best.fit.capacity - roomy.best.fit.headroom
    cluster = {"accelerator": "h100-sxm", "nodes": 1, "gpus_per_node": 1}
    cluster["usable_gib"] = 1.05 * needed / 2**30
    plan = prelaunch(config, cluster=cluster, **asked)
    assert plan.best.fit.verdict == "tight"
    with pytest.raises(DoesNotFit, match="fits too tightly: uses"):
        prelaunch(config, cluster=cluster, tight="refuse", **asked)


def test_run_passes_its_choice_by_environment(tmp_path):
    script = tmp_path / "show.py"
    script.write_text(
        "import os, shardwise\n"
        "plan = shardwise.prelaunch(None, global_batch=1)\n"
        "print(plan.layout.sharding, plan.micro_batch, plan.best.global_batch)\n"
    )
    command = [sys.executable, "-m", "shardwise", "run", "gpt2", "--on", "H100"]
    command += ["--seq-len", "512", "--global-batch", "32", "--", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    plan = shardwise.plan(
        "gpt2", "H100", search={"shardings": ["none"]}, seq_len=512, global_batch=32
    )
    assert done.stdout.split() == ["none", str(plan.micro_batch), "32"]


@pytest.mark.parametrize(
    ("model", "status"), [("llama-3.1-8b", 0), ("llama-3.1-70b", 1), ("no-such", 2)]
)
def test_check_is_a_gate(tmp_path, model, status):
    path = tmp_path / "ds.json"
    zero = {"stage": 2}
    batch = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2}
    path.write_text(json.dumps({"zero_optimization": zero, "bf16": {"enabled": True}, **batch}))
    command = [sys.executable, "-m", "shardwise", "check", str(path), "--model", model]
    command += ["--on", "8xH100", "--seq-len", "2048"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert ("shardwise: model: got" in done.stderr) is (status == 2)


def test_the_gate_goes_by_the_verdict(tmp_path, capsys):
    from shardwise.cli import main

    path = tmp_path / "task.yaml"
    path.write_text("num_nodes: 1\nresources:\n  accelerators: H100:1\n")
    asked = ["check", str(path), "--model", "gpt2", "--seq-len", "1024", "--global-batch", "8"]
    asked += ["--set", "layout.micro_batch=8"]
    estimate = shardwise.estimate(
        "gpt2", "H100", seq_len=1024, global_batch=8, layout={"micro_batch": 8}
    )
    needed = (estimate.fit.capacity - estimate.fit.headroom) / 2**30
    for room, accept, refuse in ((1.5, 0, 0), (1.05, 0, 1), (0.95, 0, 1), (0.5, 1, 1)):
        row = {"accelerator": "h100-sxm", "usable_gib": room * needed}
        machines = tmp_path / "cluster.json"
        machines.write_text(json.dumps({**row, "nodes": 1, "gpus_per_node": 1}))
        for tight, status in (("accept", accept), ("refuse", refuse)):
            assert main([*asked, "--on", str(machines), "--tight", tight]) == status, (room, tight)
    capsys.readouterr()


def test_export_from_the_command_line():
    command = [sys.executable, "-m", "shardwise", "export", "llama-3.1-8b", "--on", "8xH100"]
    command += ["--seq-len", "4096", "--global-batch", "64", "--to", "deepspeed"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["train_batch_size"] == 64


def estimate(**layout):
    return shardwise.estimate("gpt2", "8xH100", seq_len=128, layout=layout)


def test_recomputed_units_are_wrapped():
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

    for every, wrapped in ((1, 4), (2, 2)):
        model = Decoder()
        answer = estimate(sharding="ddp", recompute="full", recompute_every=every)
        assert answer.checkpoint_activations(model) == wrapped
        assert sum(isinstance(m, CheckpointWrapper) for m in model.modules()) == wrapped
        assert len(find_units(model)) == 4
    assert estimate(sharding="ddp").checkpoint_activations(Decoder()) == 0


@pytest.fixture
def group(monkeypatch):
    """A process group of this process alone."""
    address = f"tcp://127.0.0.1:{free_port()}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


# FSDP1 does not run without an accelerator; its arguments are tested below.
@pytest.mark.parametrize("sharding", ["none", "ddp", "fsdp2"])
def test_a_module_is_wrapped_as_planned_and_trains(group, sharding):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper
    from torch.distributed.fsdp import FSDPModule
    from torch.nn.parallel import DistributedDataParallel

    model = Decoder(width=32, layers=2, vocabulary=64)
    answer = shardwise.estimate(
        "gpt2",
        "H100",
        seq_len=128,
        layout={"sharding": sharding, "recompute": "full"},
        recipe={"compute": "fp32"},
    )
    wrapped = answer.apply(model)
    kinds = {"none": Decoder, "ddp": DistributedDataParallel, "fsdp2": FSDPModule}
    assert isinstance(wrapped, kinds[sharding])
    assert sum(isinstance(m, CheckpointWrapper) for m in wrapped.modules()) == 2
    wrapped(example("ids", 2)).sum().backward()
    assert all(p.grad is not None for p in wrapped.parameters())


def test_fsdp1_arguments_are_torchs():
    from torch.distributed.fsdp import ShardingStrategy

    model = Decoder()
    kwargs = estimate(sharding="SHARD_GRAD_OP").fsdp1_kwargs(model)
    assert kwargs["sharding_strategy"] is ShardingStrategy.SHARD_GRAD_OP
    assert kwargs["mixed_precision"].param_dtype is torch.bfloat16
    policy = kwargs["auto_wrap_policy"]
    assert policy(module=model.layers[0], recurse=False, nonwrapped_numel=0)
    assert not policy(module=model.norm, recurse=False, nonwrapped_numel=0)
    with pytest.raises(shardwise.Error):
        estimate(sharding="ddp").fsdp1_kwargs(model)


def test_data_loading_follows_the_plan():
    plan = shardwise.plan("gpt2", "p5.48xlarge", **PLAN)
    kwargs = plan.dataloader_kwargs()
    assert kwargs["batch_size"] == plan.micro_batch
    assert kwargs["num_workers"] == 8
    data = torch.utils.data.TensorDataset(torch.zeros(64, 1))
    (first,) = next(
        iter(
            torch.utils.data.DataLoader(
                data, **{**kwargs, "num_workers": 0, "persistent_workers": False}
            )
        )
    )
    assert len(first) == plan.micro_batch


def test_agreement_without_a_launcher_asks_here():
    assert agreed(lambda: {"a": 1}, {}) == {"a": 1}


def test_a_watch_compares_and_learns(tmp_path):
    model = Decoder(width=32, layers=1, vocabulary=64)
    described = shardwise.describe(model, example("ids", 2), tokens=256, on_gpu=False)
    answer = shardwise.estimate(
        described,
        PROCESSOR,
        global_batch=2,
        layout={"sharding": "none", "micro_batch": 2},
        recipe={"compute": "fp32"},
    )
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    saved = tmp_path / "learnt.json"
    watch = answer.watch(model, steps=2, save=saved).optimizer(optimizer)
    with pytest.raises(RuntimeError, match="nothing measured"):
        watch.calibrate()
    while watch.comparison is None:
        with watch.step():
            out = model(example("ids", 2))
            out.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    compared = watch.comparison
    assert compared.predicted_memory == pytest.approx(compared.measured_memory, rel=0.1)
    assert compared.measured_step > 0
    # The run as the core asks for it, and what it teaches, also in the file.
    assert watch.measured["step_time"] == compared.measured_step
    assert watch.measured["allocated"] == compared.measured_memory
    learnt = watch.calibrate()
    residual = learnt.runs[0]
    assert residual.step_time_before == pytest.approx(compared.predicted_step)
    assert residual.step_time_before < residual.step_time_after
    assert json.loads(saved.read_text()) == asdict(learnt.calibration)
    # The next launch plans with it.
    asked = {"global_batch": 2, "cluster": PROCESSOR, "recipe": {"compute": "fp32"}, "tokens": 256}
    search = {"shardings": ["none"], "micro_batches": [2], "recompute": ["none"]}
    environ = {"SHARDWISE_CALIBRATION": str(saved)}
    plan = prelaunch(model, example("ids", 2), search=search, environ=environ, **asked)
    assert plan.request["calibration"] == asdict(learnt.calibration)
    assert plan.best.step.time.total == pytest.approx(residual.step_time_after)
    again = prelaunch(
        model, example("ids", 2), search=search, environ={}, calibration=learnt, **asked
    )
    assert again.best.step == plan.best.step


def test_the_count_of_a_step_is_torchs_own():
    """Against the memory tracker of torch's distributed tools, operator by operator."""
    from torch.distributed._tools.mem_tracker import MemTracker

    from shardwise.torch._counted import Counted

    # Sizes that the tracker's rounding to 512 bytes leaves alone.
    model = torch.nn.Sequential(*(torch.nn.Linear(128, 128, bias=False) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        model(torch.ones(64, 128)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    counted = Counted(model, [optimizer])
    step()
    ours = counted.peak()
    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        step()
    peak = sum(held["Total"] for held in tracker.get_tracker_snapshot("peak").values())
    assert ours == pytest.approx(peak, rel=0.02)


def test_the_trainer_follows_the_plan(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from shardwise.torch.hf import PlanCallback, training_arguments

    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        vocab_size=4096,
    )
    model = transformers.LlamaForCausalLM(config)
    plan = shardwise.plan(
        model,
        "H100",
        seq_len=16,
        global_batch=8,
        search={"micro_batches": [2]},
        recipe={"compute": "fp32"},
    )
    own = {
        "output_dir": str(tmp_path),
        "use_cpu": True,
        "max_steps": 5,
        "report_to": [],
        "optim": "adamw_torch",
    }
    arguments = training_arguments(plan, **own)
    assert arguments.per_device_train_batch_size == 2
    assert arguments.gradient_accumulation_steps == 4
    rows = [{"input_ids": [1] * 16, "labels": [1] * 16} for _ in range(64)]
    callback = PlanCallback(plan, steps=2, save=tmp_path / "learnt.json")
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[callback])
    trainer.train()
    compared = callback.watch.comparison
    assert compared.measured_step > 0
    # Parameters, gradients and two states; the prediction has the workspace of a GPU's library too.
    assert 4 * 4 * model.num_parameters() < compared.measured_memory < compared.predicted_memory
    assert json.loads((tmp_path / "learnt.json").read_text())["allocated"] > 0
    other = training_arguments(plan, **own, per_device_train_batch_size=4)
    trainer = transformers.Trainer(model, other, train_dataset=rows, callbacks=[PlanCallback(plan)])
    with pytest.raises(shardwise.Error, match="2, as planned"):
        trainer.train()


def test_lightning_follows_the_plan(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")
    from shardwise.torch.lightning import PlanCallback

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 1)

        def training_step(self, batch, _):
            return self.inner(batch[0]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    plan = shardwise.plan("gpt2", "H100", seq_len=64, global_batch=8, search={"micro_batches": [2]})
    callback = PlanCallback(plan, steps=2)
    own = {
        "max_epochs": 1,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "default_root_dir": tmp_path,
    }
    trainer = lightning.Trainer(callbacks=[callback], **own)
    data = torch.utils.data.TensorDataset(torch.randn(64, 8))
    trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=plan.micro_batch))
    assert trainer.accumulate_grad_batches == 4
    assert trainer.global_step == 8
    assert callback.watch.comparison.measured_step > 0
    assert callback.watch.comparison.measured_memory > 0
    loader = torch.utils.data.DataLoader(data, batch_size=plan.micro_batch + 1)
    with pytest.raises(shardwise.Error, match="2, as planned"):
        lightning.Trainer(callbacks=[PlanCallback(plan)], **own).fit(Module(), loader)


def test_lightning_takes_the_plans_arguments():
    lightning = pytest.importorskip("pytorch_lightning")
    from pytorch_lightning.strategies import FSDPStrategy, ModelParallelStrategy

    from shardwise.torch.lightning import trainer_kwargs

    own = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    kinds = {"FULL_SHARD": FSDPStrategy, "fsdp2": ModelParallelStrategy}
    for sharding, kind in kinds.items():
        kwargs = trainer_kwargs(estimate(sharding=sharding), Decoder())
        assert isinstance(kwargs["strategy"], kind)
        assert (kwargs["devices"], kwargs["num_nodes"]) == (8, 1)
    ddp = trainer_kwargs(estimate(sharding="ddp"), Decoder(), **own, devices=2)
    trainer = lightning.Trainer(**ddp)
    assert trainer.num_devices == 2
    assert type(trainer.strategy).__name__ == "DDPStrategy"
    assert trainer.precision == "bf16-mixed"


def test_accelerate_follows_the_plan():
    pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState

    from shardwise.torch.accelerate import accelerator

    # One state for each process, which a trainer of another test may have left behind.
    AcceleratorState._reset_state(reset_partial_state=True)
    plan = shardwise.plan("gpt2", "H100", search={"micro_batches": [8]}, **PLAN)
    made = accelerator(plan, cpu=True)
    assert made.gradient_accumulation_steps == 8
    assert made.mixed_precision == "bf16"


def test_accelerate_gets_either_fsdp():
    pytest.importorskip("accelerate")
    from torch.distributed.fsdp import ShardingStrategy

    from shardwise.formats import Setup
    from shardwise.torch.accelerate import _plugin

    answer = estimate(sharding="SHARD_GRAD_OP", recompute="full")
    made = _plugin(answer, Setup.of(answer))
    assert made.fsdp_version == 1
    assert made.sharding_strategy is ShardingStrategy.SHARD_GRAD_OP
    assert made.activation_checkpointing
    answer = estimate(sharding="fsdp2", reshard_after_forward="never")
    made = _plugin(answer, Setup.of(answer))
    assert made.fsdp_version == 2
    assert made.reshard_after_forward is False
    assert made.mixed_precision_policy.param_dtype is torch.bfloat16
    answer = estimate(sharding="ddp")
    assert _plugin(answer, Setup.of(answer)) is None


def test_a_watch_of_few_steps_times_at_least_one():
    assert Watch(estimate(sharding="ddp"), steps=0)._steps == 2
