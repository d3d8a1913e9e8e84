"""Arguments of ``transformers.TrainingArguments``, as JSON that ``HfArgumentParser`` reads."""

from __future__ import annotations

import json
from typing import Any

from . import _yaml, deepspeed
from ._given import section, whole
from ._setup import FSDP1, ZERO, Found, Setup, read_wrap

_OPTIMIZERS = {
    "adamw": "adamw_torch",
    "adamw_fused": "adamw_torch_fused",
    "adamw_8bit": "adamw_bnb_8bit",
    "paged_adamw": "paged_adamw_32bit",
    "paged_adamw_8bit": "paged_adamw_8bit",
    "adafactor": "adafactor",
    "sgd": "sgd",
}


def arguments(setup: Setup) -> dict[str, Any]:
    """The keyword arguments of ``TrainingArguments``."""
    layout = setup.layout
    setup.only_data_parallel("TrainingArguments")
    out: dict[str, Any] = {
        "per_device_train_batch_size": layout.micro_batch,
        "gradient_accumulation_steps": setup.gradient_accumulation,
        "bf16": setup.mixed_precision == "bf16",
        "fp16": setup.mixed_precision == "fp16",
    }
    optimizer = setup.recipe.get("optimizer", "adamw")
    if optimizer in _OPTIMIZERS:
        out["optim"] = _OPTIMIZERS[optimizer]
    if layout.sharding in ZERO:
        out["deepspeed"] = json.loads(deepspeed.write(setup))
        out["activation_checkpointing"] = layout.recompute == "full"
    elif layout.sharding == "fsdp2" or layout.sharding in FSDP1:
        out |= _fsdp(setup)
    elif layout.sharding in {"ddp", "none"}:
        out["activation_checkpointing"] = layout.recompute == "full"
    else:
        raise setup.cannot("TrainingArguments", "none, ddp, an FSDP or a ZeRO strategy")
    if setup.recipe.get("loss") == "fused_linear":
        out["use_liger_kernel"] = True
    return out


def _fsdp(setup: Setup) -> dict[str, Any]:
    layout = setup.layout
    two = layout.sharding == "fsdp2"
    config: dict[str, Any] = {
        "version": 2 if two else 1,
        **setup.wrap_policy("TrainingArguments"),
        "activation_checkpointing": layout.recompute == "full",
        "cpu_ram_efficient_loading": True,
    }
    if two:
        if layout.reshard_after_forward == "node":
            allowed = "default, always, never"
            raise setup.cannot("TrainingArguments", allowed, "reshard_after_forward")
        config["reshard_after_forward"] = layout.reshard_after_forward != "never"
    else:
        config["reshard_after_forward"] = FSDP1[layout.sharding]
    if setup.layer_classes:
        config["transformer_layer_cls_to_wrap"] = list(setup.layer_classes)
    if setup.offloads("param"):
        config["cpu_offload"] = True
    return {"fsdp": True, "fsdp_config": config}


def write(setup: Setup) -> str:
    """The arguments as a JSON file."""
    return json.dumps(arguments(setup), indent=2) + "\n"


def read(text: str) -> Found:
    """What a file of arguments says."""
    given = _yaml.load(text)
    layout: dict[str, Any] = {"micro_batch": given.get("per_device_train_batch_size", 8)}
    compute = "bf16" if given.get("bf16") else "fp16" if given.get("fp16") else "fp32"
    recipe: dict[str, Any] = {"compute": compute}
    if (given.get("optim") or "adamw_torch_fused") in _OPTIMIZERS.values():
        names = {theirs: ours for ours, theirs in _OPTIMIZERS.items()}
        recipe["optimizer"] = names[given.get("optim") or "adamw_torch_fused"]
    config = section(given, "fsdp_config")
    if isinstance(given.get("deepspeed"), dict):
        inner = deepspeed.read(json.dumps(given["deepspeed"]))
        layout = {**layout, **inner.layout}
        recipe = {**recipe, **inner.recipe}
    elif given.get("fsdp"):
        layout |= _read_fsdp(config)
    else:
        layout["sharding"] = "ddp"
    # Before Transformers 5.24 the argument was called gradient_checkpointing.
    switches = ("activation_checkpointing", "gradient_checkpointing")
    if config.get(switches[0]) or any(given.get(name) for name in switches):
        layout["recompute"] = "full"
    return Found(
        layout=layout,
        recipe=recipe,
        gradient_accumulation=given.get("gradient_accumulation_steps", 1),
    )


def _read_fsdp(config: dict[str, Any]) -> dict[str, Any]:
    reshard = config.get("reshard_after_forward", True)
    names = {theirs: ours for ours, theirs in FSDP1.items()}
    if whole("fsdp_config.version", config.get("version", 2)) == 1:
        return {"sharding": names.get(str(reshard).upper(), "FULL_SHARD"), **read_wrap("", config)}
    kept = "default" if reshard else "never"
    return {"sharding": "fsdp2", "reshard_after_forward": kept, **read_wrap("", config)}
