"""Plans in the words of the tools people launch with, and their files read as requests.

>>> import shardwise
>>> layouts = search("torchtune")  # what the tool has words for
>>> plan = shardwise.plan("llama-3.1-8b", "8xH100", seq_len=4096, global_batch=64, search=layouts)
>>> print(export(plan, "torchrun"), end="")
torchrun --standalone --nproc-per-node=8 train.py
>>> read(export(plan, "accelerate"), "accelerate").layout["sharding"]
'fsdp2'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._error import Error
from . import accelerate, deepspeed, launchers, megatron, torchtitan, torchtune, transformers
from ._setup import Found, Setup

if TYPE_CHECKING:
    from .._results import Estimate, Plan

__all__ = ["READERS", "SHARDINGS", "WRITERS", "Found", "Setup", "export", "guess", "read", "search"]

WRITERS: dict[str, Callable[[Setup], str]] = {
    "accelerate": accelerate.write,
    "deepspeed": deepspeed.write,
    "megatron": megatron.write,
    "skypilot": launchers.skypilot,
    "slurm": launchers.slurm,
    "torchrun": launchers.torchrun,
    "torchtitan": torchtitan.write,
    "torchtune": torchtune.write,
    "transformers": transformers.write,
}
"""Formats that a plan can be written in."""

READERS: dict[str, Callable[[str], Found]] = {
    "accelerate": accelerate.read,
    "deepspeed": deepspeed.read,
    "megatron": megatron.read,
    "skypilot": launchers.read_skypilot,
    "slurm": launchers.read_slurm,
    "torchrun": launchers.read_torchrun,
    "torchtitan": torchtitan.read,
    "torchtune": torchtune.read,
    "transformers": transformers.read,
}
"""Formats that can be read back."""

_FSDP1 = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD")
SHARDINGS: dict[str, tuple[str, ...]] = {
    "accelerate": ("ddp", *_FSDP1, "fsdp2", "zero1", "zero2", "zero3"),
    "deepspeed": ("ddp", "zero1", "zero2", "zero3"),
    "megatron": ("ddp", "distributed_optimizer"),
    "torchtitan": ("ddp", "fsdp2"),
    "torchtune": ("fsdp2",),
    "transformers": ("ddp", *_FSDP1, "fsdp2", "zero1", "zero2", "zero3"),
}
"""Strategies that a tool can run on several accelerators: what to search when it is the target."""


RECOMPUTES_SOME = ("megatron",)
"""Tools that can recompute some layers and keep the others; the rest know all or none."""


def search(to: str) -> dict[str, Any]:
    """What a search may vary, so that a tool has words for all that it finds.

    >>> search("torchtitan")
    {'shardings': ['ddp', 'fsdp2'], 'recompute_every': [1]}

    Raises:
        Error: for a tool that has no config file of its own.
    """
    if to not in SHARDINGS:
        raise Error.of("to", "unknown_name", f'"{to}"', ", ".join(SHARDINGS))
    some: dict[str, Any] = {} if to in RECOMPUTES_SOME else {"recompute_every": [1]}
    return {"shardings": list(SHARDINGS[to]), **some}


def export(answer: Plan | Estimate, to: str, *, layer_classes: Sequence[str] = ()) -> str:
    """The best layout in the words of a tool.

    Args:
        answer: a plan or an estimate.
        to: one of ``WRITERS``.
        layer_classes: classes that FSDP wraps, for models whose library does not say.

    Raises:
        Error: when the tool has no word for the layout.
    """
    if to not in WRITERS:
        raise Error.of("to", "unknown_name", f'"{to}"', ", ".join(WRITERS))
    setup = Setup.of(answer, tuple(layer_classes))
    if to in SHARDINGS and to not in RECOMPUTES_SOME:
        setup.recomputes_alike(to)
    return WRITERS[to](setup)


def read(text: str, of: str | None = None) -> Found:
    """What a config file of a tool says; without ``of`` its format is guessed."""
    kind = guess(text) if of is None else of
    if kind not in READERS:
        raise Error.of("of", "unknown_name", f'"{kind}"', ", ".join(READERS))
    return READERS[kind](text)


_MARKS = {
    "torchtitan": r"\b(TrainingConfig|ParallelismConfig)\b",
    "megatron": r"--(tensor-model-parallel-size|micro-batch-size|use-distributed-optimizer)\b",
    "accelerate": r"\bdistributed_type\b",
    "deepspeed": r'"(zero_optimization|train_micro_batch_size_per_gpu)"',
    "transformers": r"\b(per_device_train_batch_size|gradient_checkpointing|fsdp)\b",
    "torchtune": r"^\s*(batch_size|enable_activation_checkpointing|fsdp_cpu_offload)=",
    # A script may hold a trainer's words and a launcher's; the trainer's say more.
    "skypilot": r"^\s*accelerators:",
    "slurm": r"^#SBATCH\b",
    "torchrun": r"\b(torchrun|torch\.distributed\.run)\b",
}


def guess(text: str) -> str:
    """The format of a config file, by words that only it uses.

    >>> guess('{"zero_optimization": {"stage": 2}}')
    'deepspeed'
    """
    own = re.search(_MARKS["transformers"], text) is not None
    for kind, mark in _MARKS.items():
        # DeepSpeed's words also stand inside a Transformers file.
        if kind == "deepspeed" and own:
            continue
        if re.search(mark, text, re.MULTILINE):
            return kind
    raise Error.of("config", "unknown_name", text[:60], ", ".join(READERS))
