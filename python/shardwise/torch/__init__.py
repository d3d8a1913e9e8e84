"""What needs torch: reading a model that exists, applying a plan, and the hooks around a run."""

from __future__ import annotations

from ._apply import (
    apply,
    apply_fully_shard,
    checkpoint_activations,
    dataloader_kwargs,
    device_mesh,
    fsdp1_kwargs,
)
from ._calibrate import calibrate
from ._describe import Description, describe
from ._detect import detect
from ._launch import DoesNotFit, prelaunch
from ._units import Units, find_units
from ._watch import Comparison, Watch

__all__ = [
    "Comparison",
    "Description",
    "DoesNotFit",
    "Units",
    "Watch",
    "apply",
    "apply_fully_shard",
    "calibrate",
    "checkpoint_activations",
    "dataloader_kwargs",
    "describe",
    "detect",
    "device_mesh",
    "find_units",
    "fsdp1_kwargs",
    "prelaunch",
]
