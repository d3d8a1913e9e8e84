"""Watches every storage that a step makes: what is alive, and in which part of the model.

Forward, the parts are told by the hooks of the units; backward, by the number that autograd gave
each node when forward made it. Sizes are rounded up to 512 bytes as the CUDA allocator does.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .._error import Error
from ._products import product
from ._temporaries import NONE, Temporary, temporary

ROUNDING = 512
"""Source: PyTorch c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize."""


def rounded(size: int) -> int:
    """Bytes as the CUDA allocator hands them out."""
    return -(-size // ROUNDING) * ROUNDING


@dataclass(frozen=True)
class Instant:
    """What is alive during one operation."""

    alive: int
    """Bytes, in backward but for finished gradients of parameters."""
    finished: int = 0
    """Elements of these."""
    also: Temporary = NONE


@dataclass
class Part:
    """A stretch of forward: a unit, or what runs between units."""

    name: str
    unit: bool
    start: int
    """Sequence number of the first autograd node made in it."""
    input_free: bool = False
    """Whether none of its inputs wants a gradient."""
    alive_before: int = 0
    """Bytes alive when it began."""
    alive_after: int = 0
    """Bytes alive when it ended."""
    forward: list[Instant] = field(default_factory=list)
    """Each operation of its forward."""
    backward: list[Instant] = field(default_factory=list)
    """Each operation of its backward."""
    products: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    traffic: int = 0
    """Bytes that its other kernels read and write forward."""
    traffic_backward: int = 0
    kernels: int = 0


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what is alive while a step runs under it."""

    def __init__(self, resting: list[torch.Tensor], *, on_gpu: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._on_gpu = on_gpu
        self.alive = 0
        self.finished = 0
        """Bytes of finished gradients of parameters, and their elements."""
        self.finished_elements = 0
        self.backward = False
        self.parts: list[Part] = []
        self._known: set[int] = set()
        self._starts: list[int] = []
        self._current = 0
        for tensor in resting:
            self._known.add(tensor.untyped_storage()._cdata)  # noqa: SLF001 - its identity

    def begin(self, name: str, *, unit: bool, inputs: Any = None) -> None:
        """Another part of forward begins; a unit is called with ``inputs``."""
        self.end()
        number = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]  # noqa: SLF001
        given = (x for x in pytree.tree_leaves(inputs) if isinstance(x, torch.Tensor))
        free = unit and not any(x.requires_grad for x in given)
        part = Part(name, unit, number, free, alive_before=self.alive)
        self.parts.append(part)
        self._starts.append(number)

    def end(self) -> None:
        """The part that runs ends."""
        if self.parts:
            self.parts[-1].alive_after = self.alive

    def finish(self, parameter: torch.Tensor) -> None:
        """The gradient of a parameter is complete."""
        if parameter.grad is not None:
            self.finished += rounded(parameter.grad.untyped_storage().nbytes())
            self.finished_elements += parameter.numel()

    @property
    def held(self) -> int:
        """Bytes alive beside finished gradients."""
        return self.alive - self.finished

    def start_backward(self) -> None:
        """Forward is over."""
        self.end()
        self.backward = True
        self._current = len(self.parts) - 1
        self.parts[-1].backward.append(Instant(self.alive))

    def add(self, tensor: torch.Tensor) -> None:
        """Takes a tensor's storage in, until it is let go."""
        if tensor.layout is not torch.strided:
            given, allowed = str(tensor.layout), "dense tensors: embeddings with sparse=False"
            raise Error.of("model", "conflict", given, allowed)
        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001 - its identity
        if key in self._known:
            return
        self._known.add(key)
        size = rounded(storage.nbytes())
        self.alive += size
        weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.alive -= size

    def _part(self) -> Part:
        if not self.backward:
            return self.parts[-1]
        node = torch._C._current_autograd_node()  # noqa: SLF001 - the public way sees Python's own nodes only
        number = node._sequence_nr() if node is not None else -1  # noqa: SLF001
        # Nodes that accumulate into a parameter have no number of forward.
        if 0 <= number < 1 << 62:
            self._current = max(bisect_right(self._starts, number) - 1, 0)
        return self.parts[self._current]

    def __torch_dispatch__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.namespace == "prim":
            # A question about a tensor.
            return out
        part = self._part()
        made = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
        for tensor in made:
            self.add(tensor)
        also = temporary(func, args, made) if self._on_gpu else NONE
        if self.backward:
            part.backward.append(Instant(self.held, self.finished_elements, also))
        else:
            part.forward.append(Instant(self.alive, 0, also))
        self._work(part, func, args, made)
        return out

    def _work(self, part: Part, func: Any, args: tuple[Any, ...], made: list[torch.Tensor]) -> None:
        if getattr(func, "is_view", False):
            return
        shape = product(func, args, made)
        if not self.backward:
            part.kernels += 1
            if shape is not None:
                part.products[shape[:3]] += shape[3]
        if shape is not None:
            return
        given = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
        moved = sum(t.numel() * t.element_size() for t in (*given, *made))
        if self.backward:
            part.traffic_backward += moved
        else:
            part.traffic += moved
