"""For Accelerate: an ``Accelerator`` as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin

from ..formats import Setup
from ._apply import compute_dtype

if TYPE_CHECKING:
    from .._results import Estimate, Plan


def accelerator(plan: Plan | Estimate, **own: Any) -> Accelerator:
    """An ``accelerate.Accelerator`` with the plan's accumulation, precision and FSDP settings."""
    setup = Setup.of(plan)
    settings: dict[str, Any] = {
        "gradient_accumulation_steps": plan.best.gradient_accumulation,
        "mixed_precision": setup.mixed_precision,
    }
    layout = plan.layout
    if layout.sharding == "fsdp2":
        settings["fsdp_plugin"] = FullyShardedDataParallelPlugin(
            fsdp_version=2,
            reshard_after_forward=layout.reshard_after_forward != "never",
            activation_checkpointing=layout.recompute == "full",
            cpu_offload="param" in layout.offload,
            auto_wrap_policy="transformer_based_wrap",
            mixed_precision_policy=_policy(plan),
        )
    return Accelerator(**{**settings, **own})


def _policy(plan: Plan | Estimate) -> Any:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    compute = compute_dtype(plan)
    if compute is torch.float32:
        return None
    return MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32)
