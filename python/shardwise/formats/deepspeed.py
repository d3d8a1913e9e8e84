"""DeepSpeed's JSON config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import _yaml
from ._given import section, whole
from ._setup import NVME_PATH, ZERO, Found, Setup

OFFLOADED = {"optimizer": "offload_optimizer", "param": "offload_param"}
"""What leaves the device, and the section that says so."""

SWAPPING = {
    "optimizer": {name: name for name in ("buffer_count", "pipeline_read", "pipeline_write")},
    "param": {
        "param_buffer_count": "buffer_count",
        "param_buffer_size": "buffer_size",
        "max_in_cpu": "max_in_cpu",
    },
}
"""How it is swapped to NVMe drives, as shardwise and as DeepSpeed say it."""


def write(setup: Setup) -> str:
    """The JSON file."""
    sharding = setup.layout.sharding
    if sharding not in ZERO and sharding not in {"ddp", "none"}:
        raise setup.cannot("DeepSpeed", "none, ddp, zero1, zero2 or zero3")
    setup.only_data_parallel("DeepSpeed's config")
    zero: dict[str, Any] = {"stage": ZERO.get(sharding, 0)}
    for what, key in OFFLOADED.items():
        device = setup.device(what)
        if device != "none":
            zero[key] = {"device": device, "pin_memory": True}
        if device == "nvme":
            zero[key] |= {"nvme_path": NVME_PATH, **_buffers(what, setup.nvme)}
            if size := setup.nvme.get("sub_group_size"):
                zero["sub_group_size"] = size
    out: dict[str, Any] = {
        "train_batch_size": setup.global_batch,
        "train_micro_batch_size_per_gpu": setup.layout.micro_batch,
        "gradient_accumulation_steps": setup.gradient_accumulation,
        "bf16": {"enabled": setup.mixed_precision == "bf16"},
        "fp16": {"enabled": setup.mixed_precision == "fp16"},
        "zero_optimization": zero,
    }
    return json.dumps(out, indent=2) + "\n"


def _buffers(what: str, nvme: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        theirs: nvme[ours] for ours, theirs in SWAPPING[what].items() if nvme.get(ours) is not None
    }
    if what == "optimizer":
        # Adam passes four tensors for each tile under way.
        tiles = 1 + sum(bool(nvme.get(f"pipeline_{way}")) for way in ("read", "write"))
        given.setdefault("buffer_count", 4 * tiles)
    return given


def _swapping(zero: Mapping[str, Any]) -> dict[str, Any]:
    """How states are swapped to NVMe drives."""
    out: dict[str, Any] = {}
    for what, key in OFFLOADED.items():
        section = zero.get(key)
        if isinstance(section, Mapping) and section.get("device") == "nvme":
            for ours, theirs in SWAPPING[what].items():
                value = section.get(theirs)
                if isinstance(value, bool):
                    out[ours] = value
                elif isinstance(value, (int, float)):
                    out[ours] = whole(f"{key}.{theirs}", value)
            if isinstance(size := zero.get("sub_group_size"), (int, float)):
                out["sub_group_size"] = whole("sub_group_size", size)
    return out


def layout_of(stage: object, zero: Mapping[str, Any]) -> dict[str, Any]:
    """The layout of a ZeRO stage with its offloads."""
    strategies = {number: name for name, number in ZERO.items()}
    layout: dict[str, Any] = {"sharding": strategies.get(whole("stage", stage), "ddp")}
    offload = []
    for what, key in OFFLOADED.items():
        section = zero.get(key)
        device = section.get("device") if isinstance(section, Mapping) else None
        device = device or zero.get(f"{key}_device", "none")
        if device != "none":
            # The first two stages take one for the other.
            swapped = device == "nvme" and layout["sharding"] == "zero3"
            offload.append(f"{what}_nvme" if swapped else what)
    if offload:
        layout["offload"] = offload
    return layout


def read(text: str) -> Found:
    """What a JSON file says; ``auto`` leaves a value open."""
    given = _yaml.load(text)

    def number(key: str) -> int | None:
        value = given.get(key)
        return value if isinstance(value, int) else None

    zero = section(given, "zero_optimization")
    layout = layout_of(zero.get("stage", 0), zero)
    if (micro := number("train_micro_batch_size_per_gpu")) is not None:
        layout["micro_batch"] = micro
    recipe: dict[str, Any] = {"framework": "deepspeed", "compute": "fp32"}
    for name in ("bf16", "fp16"):
        if section(given, name).get("enabled") in (True, "auto"):
            recipe["compute"] = name
            break
    if swapping := _swapping(zero):
        recipe["runtime"] = {"nvme": swapping}
    return Found(
        layout=layout,
        recipe=recipe,
        global_batch=number("train_batch_size"),
        gradient_accumulation=number("gradient_accumulation_steps"),
    )
