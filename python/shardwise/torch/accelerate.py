"""For Accelerate: an ``Accelerator`` as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin

from ..formats import Setup
from ..formats._setup import FSDP1
from ._apply import compute_dtype, reduce_dtype

if TYPE_CHECKING:
    from .._results import Estimate, Plan


def accelerator(plan: Plan | Estimate, **own: Any) -> Accelerator:
    """An ``accelerate.Accelerator`` with the plan's accumulation, precision and FSDP settings."""
    setup = Setup.of(plan)
    settings: dict[str, Any] = {
        "gradient_accumulation_steps": plan.best.gradient_accumulation,
        "mixed_precision": setup.mixed_precision,
    }
    plugin = _plugin(plan, setup)
    if plugin is not None:
        settings["fsdp_plugin"] = plugin
    return Accelerator(**{**settings, **own})


def _plugin(plan: Plan | Estimate, setup: Setup) -> FullyShardedDataParallelPlugin | None:
    """FSDP's settings, of either version; none for another strategy."""
    layout = plan.layout
    shared: dict[str, Any] = {
        "activation_checkpointing": layout.recompute == "full",
        "cpu_offload": "param" in layout.offload,
        "auto_wrap_policy": "no_wrap" if layout.wrap == "model" else "transformer_based_wrap",
    }
    if layout.sharding == "fsdp2":
        return FullyShardedDataParallelPlugin(
            fsdp_version=2,
            reshard_after_forward=layout.reshard_after_forward != "never",
            mixed_precision_policy=_policy(plan),
            **shared,
        )
    if layout.sharding in FSDP1:
        return FullyShardedDataParallelPlugin(
            fsdp_version=1,
            sharding_strategy=FSDP1[layout.sharding],
            use_orig_params=True,
            # Accelerate makes FSDP1's formats of the trainer's own precision.
            **shared,
        )
    return None


def _policy(plan: Plan | Estimate) -> Any:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    compute = compute_dtype(plan)
    if compute is torch.float32:
        return None
    return MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduce_dtype(plan))
