"""A copy of a model without weights: every tensor fake, so that it runs anywhere in seconds."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributions import Distribution
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode


def fake_copy(model: nn.Module, mode: FakeTensorMode, dtype: torch.dtype | None) -> nn.Module:
    """The model with fake tensors on the CPU in place of its own, also of those on meta.

    Floating parameters and buffers take ``dtype`` when it is given.
    """
    memo: dict[int, Any] = {}
    with mode:
        for tensor in (*model.parameters(), *model.buffers()):
            wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
            fake = torch.empty_strided(tensor.size(), tensor.stride(), dtype=wanted, device="cpu")
            if isinstance(tensor, nn.Parameter):
                memo[id(tensor)] = nn.Parameter(fake, requires_grad=tensor.requires_grad)
            else:
                memo[id(tensor)] = fake
        return copy.deepcopy(model, memo)


def batched(inputs: Any, mode: FakeTensorMode, times: int, dtype: torch.dtype | None) -> Any:
    """The inputs with their first dimension ``times`` as long, fake; floats take ``dtype``."""

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        wanted = dtype if dtype is not None and leaf.is_floating_point() else leaf.dtype
        size = (leaf.shape[0] * times, *leaf.shape[1:]) if leaf.dim() else ()
        with mode:
            return torch.empty(size, dtype=wanted, device="cpu")

    return pytree.tree_map(one, inputs)


@contextlib.contextmanager
def values_assumed() -> Iterator[None]:
    """Until its end, what modules commonly ask of values goes as it goes in most steps.

    A drawn number without dimensions is 1, so that no layer that is skipped at random is
    (``if torch.rand([]) < self.layerdrop`` in Transformers), and distributions take their
    parameters for valid.
    """
    drawn, checked = torch.rand, Distribution._validate_args  # noqa: SLF001 - there is no public getter

    def rand(*size: Any, **kwargs: Any) -> torch.Tensor:
        plain = size in (([],), ((),), (torch.Size(),)) and not kwargs
        return torch.tensor(1.0) if plain else drawn(*size, **kwargs)

    torch.rand = rand
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.rand = drawn
        Distribution.set_default_validate_args(checked)
