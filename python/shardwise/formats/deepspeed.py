"""DeepSpeed's JSON config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import _yaml
from ._setup import ZERO, Found, Setup


def write(setup: Setup) -> str:
    """The JSON file."""
    sharding = setup.layout.sharding
    if sharding not in ZERO and sharding not in {"ddp", "none"}:
        raise setup.cannot("DeepSpeed", "none, ddp, zero1, zero2 or zero3")
    setup.only_data_parallel("DeepSpeed's config")
    zero: dict[str, Any] = {"stage": ZERO.get(sharding, 0)}
    for what, key in (("optimizer", "offload_optimizer"), ("param", "offload_param")):
        if setup.offloads(what):
            zero[key] = {"device": "cpu", "pin_memory": True}
    out: dict[str, Any] = {
        "train_batch_size": setup.global_batch,
        "train_micro_batch_size_per_gpu": setup.layout.micro_batch,
        "gradient_accumulation_steps": setup.gradient_accumulation,
        "bf16": {"enabled": setup.mixed_precision == "bf16"},
        "fp16": {"enabled": setup.mixed_precision == "fp16"},
        "zero_optimization": zero,
    }
    return json.dumps(out, indent=2) + "\n"


def layout_of(stage: object, zero: Mapping[str, Any]) -> dict[str, Any]:
    """The layout of a ZeRO stage with its offloads."""
    strategies = {number: name for name, number in ZERO.items()}
    layout: dict[str, Any] = {"sharding": strategies.get(int(str(stage)), "ddp")}
    offload = []
    for what, key in (("optimizer", "offload_optimizer"), ("param", "offload_param")):
        section = zero.get(key)
        device = section.get("device") if isinstance(section, Mapping) else None
        if (device or zero.get(f"{key}_device", "none")) != "none":
            offload.append(what)
    if offload:
        layout["offload"] = offload
    return layout


def read(text: str) -> Found:
    """What a JSON file says; ``auto`` leaves a value open."""
    given = _yaml.load(text)

    def number(key: str) -> int | None:
        value = given.get(key)
        return value if isinstance(value, int) else None

    zero = given.get("zero_optimization") or {}
    layout = layout_of(zero.get("stage", 0), zero)
    if (micro := number("train_micro_batch_size_per_gpu")) is not None:
        layout["micro_batch"] = micro
    recipe: dict[str, Any] = {"framework": "deepspeed", "compute": "fp32"}
    for name in ("bf16", "fp16"):
        if (given.get(name) or {}).get("enabled") in {True, "auto"}:
            recipe["compute"] = name
            break
    return Found(
        layout=layout,
        recipe=recipe,
        global_batch=number("train_batch_size"),
        gradient_accumulation=number("gradient_accumulation_steps"),
    )
