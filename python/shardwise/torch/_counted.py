"""The peak of a step on the CPU: what rests in the model and its optimizer, and every allocation.

torch's profiler sees each allocation and release of the CPU's allocator, FSDP's gathers too. (The
memory tracker of ``torch.distributed._tools`` intercepts operators instead; under it the ranks of
FSDP2 on gloo wait for each other forever.)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, profile

if TYPE_CHECKING:
    from torch import nn

_MEMORY = "[memory]"
"""Source: PyTorch torch/autograd/profiler_util.py, MEMORY_EVENT_NAME."""


class Counted:
    """Counts from its making until :meth:`peak` is asked for."""

    def __init__(self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._resting = resting(model, optimizers)
        # Its library tells everyone that there is no GPU.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self._profile.start()

    def peak(self) -> float:
        """Most bytes alive at once; ends the count."""
        self._profile.stop()
        results: Any = self._profile.profiler.kineto_results  # type: ignore[union-attr]
        changes = sorted(
            (e.start_ns(), e.nbytes()) for e in results.events() if e.name() == _MEMORY
        )
        return self._resting + highest(size for _, size in changes)


def highest(changes: Iterable[int]) -> int:
    """The highest level that allocations and releases reach, from 0.

    >>> highest([10, 5, -10, 7])
    15
    """
    level = most = 0
    for change in changes:
        level += change
        most = max(most, level)
    return most


def resting(model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> float:
    """Bytes that this rank keeps between steps: parameters, buffers, gradients, states."""
    sizes = {}
    for tensor in _tensors(model, optimizers):
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        storage = local.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
    return float(sum(sizes.values()))


def _tensors(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> Iterator[torch.Tensor]:
    yield from model.buffers()
    for parameter in model.parameters():
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad
    for optimizer in optimizers:
        for states in optimizer.state.values():
            yield from (value for value in states.values() if isinstance(value, torch.Tensor))
