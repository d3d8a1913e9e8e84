"""Every exported file is read by its own tool, and read back it says the same.

Two tools cannot be installed beside the pinned torch, so what they publish stands in: Megatron-LM's
arguments are checked against the config dataclasses of Megatron-Core that they are named after, and
torchtune's overrides against the recipe configs that its wheel ships, merged as torchtune merges.
"""

import importlib.util
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import shardwise
from shardwise import formats

yaml = pytest.importorskip("yaml")

LAYOUTS = {
    "ddp": {"sharding": "ddp", "micro_batch": 2},
    "fsdp1": {"sharding": "SHARD_GRAD_OP", "micro_batch": 2, "recompute": "full"},
    "fsdp2": {"sharding": "fsdp2", "micro_batch": 2, "recompute": "full"},
    "fsdp2 kept": {"sharding": "fsdp2", "reshard_after_forward": "never"},
    "hsdp": {"sharding": "fsdp2", "data_parallel_replicate": 2},
    "zero2": {"sharding": "zero2", "micro_batch": 4},
    "zero3": {"sharding": "zero3", "offload": ["optimizer", "param"]},
    "infinity": {"sharding": "zero3", "offload": ["optimizer_nvme", "param_nvme"]},
}


def estimate(name, recipe=None, cluster="2x8xH100"):
    layout = LAYOUTS[name] if isinstance(name, str) else name
    return shardwise.estimate(
        "llama-3.1-8b", cluster, seq_len=4096, global_batch=128, layout=layout, recipe=recipe
    )


def same(found, answer, *fields):
    """What was read is what was written, as far as the format says it."""
    for key, value in found.layout.items():
        if key == "data_parallel_shard" and value == 0:
            continue
        ours = getattr(answer.layout, key)
        assert (list(ours) if isinstance(ours, tuple) else ours) == value, key
    for key in fields:
        assert getattr(found, key) == getattr(answer, key), key


@pytest.mark.parametrize("name", LAYOUTS)
def test_accelerate(tmp_path, name):
    config_args = pytest.importorskip("accelerate.commands.config.config_args")
    answer = estimate(name)
    text = formats.export(answer, "accelerate", layer_classes=["LlamaDecoderLayer"])
    path = tmp_path / "accelerate.yaml"
    path.write_text(text)
    config = config_args.load_config_from_file(str(path))
    assert config.num_processes == 16
    assert config.mixed_precision == "bf16"
    section = config.fsdp_config or config.deepspeed_config
    sharding = answer.layout.sharding
    if sharding == "fsdp2":
        assert section["fsdp_version"] == 2
        assert section["fsdp_reshard_after_forward"] is (name != "fsdp2 kept")
        assert section["fsdp_transformer_layer_cls_to_wrap"] == "LlamaDecoderLayer"
    elif sharding.startswith("zero"):
        assert section["zero_stage"] == int(sharding[-1])
    same(formats.read(text), answer)


def test_accelerate_builds_its_fsdp_plugin(tmp_path, monkeypatch):
    """The environment that ``accelerate launch`` makes of the file gives the plugin we meant."""
    launch = pytest.importorskip("accelerate.commands.launch")
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    path = tmp_path / "accelerate.yaml"
    path.write_text(formats.export(estimate("fsdp2"), "accelerate"))
    args = launch.launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    args, _, _ = launch._validate_launch_command(args)
    for key, value in prepare_multi_gpu_env(args).items():
        monkeypatch.setenv(key, value)
    plugin = FullyShardedDataParallelPlugin()
    assert (plugin.fsdp_version, plugin.reshard_after_forward) == (2, True)
    assert plugin.activation_checkpointing is True


@pytest.mark.parametrize("name", ["ddp", "zero2", "zero3"])
def test_deepspeed(monkeypatch, name):
    config = pytest.importorskip("deepspeed.runtime.config")
    answer = estimate(name)
    text = formats.export(answer, "deepspeed")
    # As on sixteen ranks: it checks the product of the batches.
    monkeypatch.setattr(config.dist, "get_rank", lambda *_: 0)
    monkeypatch.setattr(config.dist, "get_world_size", lambda *_: 16)
    read = config.DeepSpeedConfig(json.loads(text))
    assert read.train_batch_size == 128
    assert read.train_micro_batch_size_per_gpu == answer.layout.micro_batch
    assert read.gradient_accumulation_steps == answer.gradient_accumulation
    assert read.zero_config.stage == {"ddp": 0, "zero2": 2, "zero3": 3}[name]
    assert read.bfloat16_config.enabled
    if name == "zero3":
        assert read.zero_config.offload_optimizer.device == "cpu"
    same(formats.read(text), answer, "global_batch", "gradient_accumulation")


def test_deepspeed_swaps_to_drives(monkeypatch):
    config = pytest.importorskip("deepspeed.runtime.config")
    nvme = {
        "pipeline_read": True,
        "sub_group_size": 100_000_000,
        "param_buffer_count": 12,
        "max_in_cpu": 0,
    }
    text = formats.export(
        estimate("infinity", {"framework": "deepspeed", "runtime": {"nvme": nvme}}), "deepspeed"
    )
    monkeypatch.setattr(config.dist, "get_rank", lambda *_: 0)
    monkeypatch.setattr(config.dist, "get_world_size", lambda *_: 16)
    zero = config.DeepSpeedConfig(json.loads(text)).zero_config
    optimizer, param = zero.offload_optimizer, zero.offload_param
    assert (optimizer.device, param.device) == ("nvme", "nvme")
    assert (optimizer.pipeline_read, optimizer.pipeline_write) == (True, False)
    assert (optimizer.buffer_count, param.buffer_count, param.max_in_cpu) == (8, 12, 0)
    assert zero.sub_group_size == 100_000_000
    found = formats.read(text)
    assert found.recipe["runtime"]["nvme"].items() >= nvme.items()
    assert found.layout["offload"] == ["optimizer_nvme", "param_nvme"]


@pytest.mark.parametrize("name", [n for n in LAYOUTS if n != "hsdp"])
def test_transformers(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    answer = estimate(name, {"optimizer": "adamw_fused"})
    path = tmp_path / "arguments.json"
    path.write_text(formats.export(answer, "transformers"))
    fields = json.loads(path.read_text())
    # TrainingArguments starts FSDP's plugin from the environment that torchrun sets.
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    (read,) = parser.parse_dict(
        {"output_dir": str(tmp_path), "use_cpu": True, **fields, "fsdp": None, "deepspeed": None}
    )
    assert read.per_device_train_batch_size == answer.layout.micro_batch
    assert read.gradient_accumulation_steps == answer.gradient_accumulation
    assert read.optim == "adamw_torch_fused"
    assert read.bf16
    same(formats.read(path.read_text()), answer, "gradient_accumulation")


@pytest.mark.parametrize(
    "layout",
    [
        LAYOUTS["ddp"],
        LAYOUTS["fsdp2"],
        LAYOUTS["hsdp"],
        {"sharding": "fsdp2", "tensor_parallel": 4, "sequence_parallel": True},
        {"sharding": "fsdp2", "pipeline_parallel": 2, "recompute": "selective"},
    ],
)
def test_torchtitan(layout):
    pytest.importorskip("torchtitan.distributed.activation_checkpoint")
    answer = estimate(layout)
    text = formats.export(answer, "torchtitan")
    made = {}
    exec(compile(text, "config", "exec"), made)
    assert made["training"].local_batch_size == answer.layout.micro_batch
    assert made["training"].global_batch_size == 128
    parallelism = made["parallelism"]
    assert parallelism.data_parallel_shard_degree == answer.layout.data_parallel_shard
    assert parallelism.tensor_parallel_degree == answer.layout.tensor_parallel
    recompute = answer.layout.recompute
    policy = type(made["activation_checkpoint"]).__qualname__
    expected = {"none": "NoneType", "full": "FullAC.Config", "selective": "SelectiveAC.Config"}
    assert policy == expected[recompute]
    same(formats.read(text), answer, "seq_len", "global_batch")


def test_torchtitan_schedules_are_pytorchs():
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    from shardwise.formats.torchtitan import _SCHEDULES

    for name in _SCHEDULES.values():
        assert schedules.get_schedule_class(name)


@pytest.mark.parametrize(
    "layout",
    [
        {"sharding": "ddp"},
        {"sharding": "distributed_optimizer", "tensor_parallel": 4, "sequence_parallel": True},
        {
            "sharding": "distributed_optimizer",
            "pipeline_parallel": 4,
            "pipeline_schedule": "interleaved_1f1b",
            "pipeline_chunks": 2,
            "recompute": "full",
        },
        {"sharding": "ddp", "recompute": "selective", "offload": ["optimizer"]},
    ],
)
def test_megatron(layout):
    core = pytest.importorskip("megatron.core")
    from dataclasses import fields

    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer import TransformerConfig

    answer = estimate(layout, {"framework": "megatron"})
    words = shlex.split(formats.export(answer, "megatron").replace("\\\n", " "))
    known = {
        f.name
        for kind in (
            core.ModelParallelConfig,
            DistributedDataParallelConfig,
            OptimizerConfig,
            TransformerConfig,
        )
        for f in fields(kind)
    }
    # Options of the training script itself, and those it names unlike the dataclass.
    # Source: Megatron-LM megatron/training/arguments.py (core 0.16).
    script = {"micro_batch_size", "global_batch_size", "seq_length"}
    renamed = {
        "tensor_model_parallel_size",
        "fp8_format",
        "num_virtual_stages_per_pipeline_rank",
    }
    for word in words:
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            assert name in known | script | renamed, name
    same(formats.read(shlex.join(words), "megatron"), answer, "seq_len", "global_batch")


def test_megatron_parameters_in_eight_bits():
    recipe = {"framework": "megatron", "compute": "fp8", "runtime": {"fp8_param_gather": True}}
    answer = estimate({"sharding": "distributed_optimizer"}, recipe)
    text = formats.export(answer, "megatron")
    assert "--fp8-param-gather" in text
    found = formats.read(text.replace("\\\n", " "), "megatron")
    assert found.recipe["runtime"] == {"fp8_param_gather": True}


@pytest.mark.parametrize("name", ["fsdp2", "fsdp2 kept"])
def test_torchtune(name):
    omegaconf = pytest.importorskip("omegaconf")
    found = importlib.util.find_spec("recipes")
    if found is None:
        pytest.skip("torchtune's recipes are not installed")
    recipes = Path(found.origin).parent
    base = omegaconf.OmegaConf.load(recipes / "configs" / "llama3_1" / "8B_full.yaml")
    answer = estimate(name)
    text = formats.export(answer, "torchtune")
    overrides = omegaconf.OmegaConf.from_dotlist(text.split())
    # The two switches of FSDP are read by the distributed recipe with cfg.get.
    recipe = (recipes / "full_finetune_distributed.py").read_text()
    for key in overrides:
        assert key in base or f'"{key}"' in recipe, key
    merged = omegaconf.OmegaConf.merge(base, overrides)
    assert merged.batch_size == answer.layout.micro_batch
    assert merged.tokenizer.max_seq_len == 4096
    assert merged.gradient_accumulation_steps == answer.gradient_accumulation
    same(formats.read(text, "torchtune"), answer, "seq_len", "gradient_accumulation")


@pytest.mark.parametrize("price", ["spot", "on_demand"])
def test_skypilot(price):
    jsonschema = pytest.importorskip("jsonschema")
    schemas = pytest.importorskip("sky.utils.schemas")
    answer = shardwise.estimate(
        "llama-3.1-8b", "2 x p5.48xlarge@us-east-1", seq_len=4096, run={"price": price}
    )
    text = formats.export(answer, "skypilot")
    task = yaml.safe_load(text)
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())
    assert task["num_nodes"] == 2
    assert task["resources"]["accelerators"] == "H100:8"
    # Spot machines are taken away; the task then goes on in another zone.
    assert task["resources"].get("use_spot", False) is (price == "spot")
    assert ("job_recovery" in task["resources"]) is (price == "spot")
    found = formats.read(text)
    cluster = shardwise.estimate("gpt2", found.cluster, seq_len=64).cluster
    assert (cluster.accelerator, found.world) == ("h100-sxm", 16)
    assert cluster.instance == answer.cluster.instance


def test_slurm_is_a_script():
    text = formats.export(estimate("fsdp2"), "slurm")
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    directives = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --nodes=2" in directives
    assert "#SBATCH --gpus-per-node=8" in directives
    assert formats.guess(text) == "slurm"
    assert formats.read(text).world == 16


@pytest.mark.parametrize(("cluster", "nodes"), [("8xH100", 1), ("2x8xH100", 2)])
def test_torchrun(cluster, nodes):
    run = pytest.importorskip("torch.distributed.run")
    line = formats.export(estimate({"sharding": "fsdp2"}, cluster=cluster), "torchrun")
    args = run.parse_args(shlex.split(line)[1:])
    assert (args.nnodes, args.nproc_per_node) == (str(nodes) if nodes > 1 else "1:1", "8")
    assert args.training_script == "train.py"
    assert formats.read(line).world == 8 * nodes


@pytest.mark.parametrize(
    ("text", "world"),
    [
        ("#SBATCH -N 2\n#SBATCH --gres=gpu:4\nsrun python train.py", 8),
        ("python -m torch.distributed.run --nproc_per_node 4 train.py", 4),
        ("torchrun --nnodes 1:4 --nproc-per-node=8 train.py", 32),
        ("resources:\n  accelerators: {A100-80GB: 8}\nnum_nodes: 2\n", 16),
        ("resources:\n  accelerators: L4\n", 1),
    ],
)
def test_launchers_say_how_many(text, world):
    assert formats.read(text).world == world


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc-per-node=auto train.py",
        "torchrun --nnodes=$N --nproc-per-node=8 train.py",
        "#SBATCH --nodes=2\nsrun python train.py",
        "resources:\n  accelerators: [H100, A100]\n",
    ],
)
def test_a_launcher_that_does_not_say_is_a_fault(text):
    with pytest.raises(shardwise.Error) as caught:
        formats.read(text)
    assert caught.value.field == "config"


@pytest.mark.parametrize(
    ("to", "layout"),
    [
        ("deepspeed", LAYOUTS["fsdp2"]),
        ("torchtitan", LAYOUTS["zero2"]),
        ("torchtune", LAYOUTS["ddp"]),
        ("megatron", LAYOUTS["fsdp2"]),
        ("accelerate", {"sharding": "distributed_optimizer"}),
    ],
)
def test_what_a_tool_cannot_say_is_an_error(to, layout):
    with pytest.raises(shardwise.Error) as caught:
        formats.export(estimate(layout), to)
    assert caught.value.field == "layout.sharding"


NODE = {"reshard_after_forward": "node", "reshard_within": 4}


@pytest.mark.parametrize(
    ("to", "told", "field"),
    [
        ("accelerate", NODE, "reshard_after_forward"),
        ("transformers", NODE, "reshard_after_forward"),
        ("torchtitan", NODE, "reshard_after_forward"),
        ("accelerate", {"wrap": "layers+embed+head"}, "wrap"),
        ("transformers", {"wrap": "layers+embed+head"}, "wrap"),
    ],
)
def test_what_a_tool_cannot_say_of_units_is_an_error(to, told, field):
    with pytest.raises(shardwise.Error) as caught:
        formats.export(estimate(LAYOUTS["fsdp2"] | told), to)
    assert caught.value.field == f"layout.{field}"


@pytest.mark.parametrize("to", ["accelerate", "transformers"])
@pytest.mark.parametrize(
    ("sharding", "wrap"),
    [
        ("FULL_SHARD", "layers"),
        ("FULL_SHARD", "size"),
        ("FULL_SHARD", "model"),
        ("fsdp2", "layers"),
        ("fsdp2", "model"),
    ],
)
def test_units_are_written_and_read(to, wrap, sharding):
    answer = estimate(LAYOUTS["fsdp2"] | {"sharding": sharding, "wrap": wrap})
    found = formats.read(formats.export(answer, to), to)
    assert found.layout.get("wrap", "layers") == wrap


def test_units_of_another_kind_or_size_are_refused():
    by_size = {"sharding": "FULL_SHARD", "wrap": "size"}
    text = formats.export(estimate(LAYOUTS["fsdp2"] | by_size), "accelerate")
    for other in (text.replace("SIZE_BASED", "COLOUR_BASED"), text.replace("100000000", "5000")):
        with pytest.raises(shardwise.Error, match="fsdp_config"):
            formats.read(other, "accelerate")


@pytest.mark.parametrize(
    "to", sorted(set(formats.SHARDINGS) & set(formats.WRITERS) & set(formats.READERS))
)
def test_a_searched_plan_can_be_written_and_asked_about_again(to):
    plan = shardwise.plan(
        "llama-3.1-8b",
        "8xH100",
        seq_len=4096,
        global_batch=64,
        search={"shardings": formats.SHARDINGS[to], "recompute_every": [1]},
    )
    found = formats.read(formats.export(plan, to))
    request = found.request("llama-3.1-8b", "8xH100", seq_len=4096, world=8)
    again = shardwise.estimate_request(request)
    assert again.layout == plan.layout
    assert again.gradient_accumulation == plan.gradient_accumulation


def test_megatron_recomputes_the_first_layers_of_each_stage():
    layout = {"sharding": "distributed_optimizer", "recompute": "full", "recompute_every": 2}
    layout |= {"pipeline_parallel": 4, "pipeline_chunks": 2, "tensor_parallel": 2}
    layout["pipeline_schedule"] = "interleaved_1f1b"
    asked = {"seq_len": 4096, "recipe": {"framework": "megatron"}}
    answer = shardwise.estimate("llama-3.1-8b", "8xH100", global_batch=16, layout=layout, **asked)
    text = formats.export(answer, "megatron")
    # 32 layers in 8 virtual stages.
    assert "--recompute-method block" in text
    assert "--recompute-num-layers 2" in text
    found = formats.read(text, "megatron")
    request = found.request("llama-3.1-8b", "8xH100", seq_len=4096, world=8)
    assert request["layout"]["recompute_every"] == 2


@pytest.mark.parametrize("to", sorted(set(formats.SHARDINGS) - set(formats.RECOMPUTES_SOME)))
def test_recomputing_some_layers_only_is_an_error(to):
    layout = {
        "sharding": formats.SHARDINGS[to][-1],
        "recompute": "full",
        "recompute_every": 2,
    }
    answer = shardwise.estimate("llama-3.1-8b", "8xH100", seq_len=4096, layout=layout)
    with pytest.raises(shardwise.Error) as caught:
        formats.export(answer, to)
    assert caught.value.field == "layout.recompute_every"


def test_an_unknown_file_is_an_error():
    with pytest.raises(shardwise.Error):
        formats.read("hello")
    with pytest.raises(shardwise.Error):
        formats.read("- a\n", "accelerate")


def test_nothing_of_a_python_config_is_run(tmp_path):
    mark = tmp_path / "ran"
    formats.read(f"open({str(mark)!r}, 'w')\nt = TrainingConfig(seq_len=8)\n")
    assert not mark.exists()
    assert sys.version_info
