"""Accelerate's YAML (``accelerate launch --config_file``): DDP, FSDP1, FSDP2 and DeepSpeed."""

from __future__ import annotations

from typing import Any

from . import _yaml, deepspeed
from ._given import section, whole
from ._setup import FSDP1, NVME_PATH, ZERO, Found, Setup, read_wrap

_RESHARD = {"default": True, "always": True, "never": False}


def write(setup: Setup) -> str:
    """The YAML file."""
    setup_cluster = setup.cluster
    sharding = setup.layout.sharding
    out: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": _distributed_type(setup),
        "mixed_precision": setup.mixed_precision,
        "num_machines": setup_cluster.nodes,
        "num_processes": setup.world,
        "machine_rank": 0,
        "main_training_function": "main",
        "use_cpu": False,
    }
    if sharding == "fsdp2" or sharding in FSDP1:
        setup.only_data_parallel("Accelerate's FSDP")
        out["fsdp_config"] = _fsdp(setup)
        if sharding == "fsdp2" and setup.layout.data_parallel_replicate > 1:
            out["parallelism_config"] = {
                "parallelism_config_dp_replicate_size": setup.layout.data_parallel_replicate,
                "parallelism_config_dp_shard_size": setup.layout.data_parallel_shard,
            }
    elif sharding in ZERO:
        out["deepspeed_config"] = {
            "zero_stage": ZERO[sharding],
            "gradient_accumulation_steps": setup.gradient_accumulation,
            "zero3_init_flag": sharding == "zero3",
        }
        for what in ("optimizer", "param"):
            out["deepspeed_config"][f"offload_{what}_device"] = setup.device(what)
            if setup.device(what) == "nvme":
                out["deepspeed_config"][f"offload_{what}_nvme_path"] = NVME_PATH
    return _yaml.dump(out)


def _distributed_type(setup: Setup) -> str:
    sharding = setup.layout.sharding
    if sharding == "fsdp2" or sharding in FSDP1:
        return "FSDP"
    if sharding in ZERO:
        return "DEEPSPEED"
    if sharding == "ddp":
        return "MULTI_GPU"
    if sharding == "none":
        return "NO"
    raise setup.cannot("Accelerate", "none, ddp, an FSDP or a ZeRO strategy")


def _fsdp(setup: Setup) -> dict[str, Any]:
    layout = setup.layout
    two = layout.sharding == "fsdp2"
    out: dict[str, Any] = {
        "fsdp_version": 2 if two else 1,
        **{f"fsdp_{name}": value for name, value in setup.wrap_policy("Accelerate").items()},
        "fsdp_offload_params": setup.offloads("param"),
        "fsdp_activation_checkpointing": layout.recompute == "full",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_cpu_ram_efficient_loading": True,
    }
    if two:
        out["fsdp_reshard_after_forward"] = _RESHARD[_expressible(setup)]
    else:
        out["fsdp_sharding_strategy"] = FSDP1[layout.sharding]
        out["fsdp_use_orig_params"] = True
    if setup.layer_classes:
        out["fsdp_transformer_layer_cls_to_wrap"] = ",".join(setup.layer_classes)
    return out


def _expressible(setup: Setup) -> str:
    reshard = setup.layout.reshard_after_forward
    if reshard not in _RESHARD:
        raise setup.cannot("Accelerate", "default, always, never", "reshard_after_forward")
    return reshard


def read(text: str) -> Found:
    """What a YAML file says."""
    given = _yaml.load(text)
    kind = str(given.get("distributed_type", "NO"))
    recipe: dict[str, Any] = {"compute": _compute(str(given.get("mixed_precision", "no")))}
    layout: dict[str, Any] = {}
    accumulation = None
    if kind == "FSDP":
        layout = _read_fsdp(section(given, "fsdp_config"), section(given, "parallelism_config"))
    elif kind == "DEEPSPEED":
        plugin = section(given, "deepspeed_config")
        layout = deepspeed.layout_of(plugin.get("zero_stage", 0), plugin)
        accumulation = plugin.get("gradient_accumulation_steps")
        recipe["framework"] = "deepspeed"
    else:
        layout["sharding"] = "ddp" if kind.startswith("MULTI") else "none"
    return Found(
        layout=layout,
        recipe=recipe,
        gradient_accumulation=accumulation if isinstance(accumulation, int) else None,
        world=given.get("num_processes"),
    )


def _compute(precision: str) -> str:
    return "fp32" if precision == "no" else precision


def _read_fsdp(config: dict[str, Any], parallelism: dict[str, Any]) -> dict[str, Any]:
    reshard = config.get("fsdp_reshard_after_forward", True)
    if whole("fsdp_config.fsdp_version", config.get("fsdp_version", 1)) == 2:
        layout: dict[str, Any] = {
            "sharding": "fsdp2",
            "reshard_after_forward": "never" if str(reshard).lower() == "false" else "default",
        }
        replicate = "parallelism_config_dp_replicate_size"
        replicas = whole(replicate, parallelism.get(replicate, 1))
        if replicas > 1:
            layout["data_parallel_replicate"] = replicas
    else:
        names = {theirs: ours for ours, theirs in FSDP1.items()}
        named = str(config.get("fsdp_sharding_strategy", reshard))
        by_number = (
            "FULL_SHARD",
            "SHARD_GRAD_OP",
            "NO_SHARD",
            "HYBRID_SHARD",
            "HYBRID_SHARD_ZERO2",
        )
        named = dict(zip("12345", by_number, strict=True)).get(named, named)
        layout = {"sharding": names.get(named, "FULL_SHARD")}
    layout.update(read_wrap("fsdp_", config))
    if config.get("fsdp_activation_checkpointing"):
        layout["recompute"] = "full"
    if config.get("fsdp_offload_params"):
        layout["offload"] = ["param", "gradient", "optimizer"]
    return layout
