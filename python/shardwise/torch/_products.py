"""Matrix products in a stream of operations, as (m, n, k, count)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

Shape = tuple[int, int, int, int]


def _mm(args: tuple[Any, ...], made: list[torch.Tensor]) -> Shape:
    (m, k), n = args[0].shape, args[1].shape[1]
    return m, n, k, 1


def _addmm(args: tuple[Any, ...], made: list[torch.Tensor]) -> Shape:
    return _mm(args[1:], made)


def _bmm(args: tuple[Any, ...], made: list[torch.Tensor]) -> Shape:
    (b, m, k), n = args[0].shape, args[1].shape[2]
    return m, n, k, b


def _baddbmm(args: tuple[Any, ...], made: list[torch.Tensor]) -> Shape:
    return _bmm(args[1:], made)


def _convolution(args: tuple[Any, ...], made: list[torch.Tensor]) -> Shape:
    # An implicit product: one row for each output pixel, one column for each output channel.
    weight, transposed, groups = args[1], args[6], args[8]
    pixels = args[0] if transposed else made[0]
    rows = pixels.shape[0] * prod(pixels.shape[2:])
    return rows, weight.shape[0] // groups, prod(weight.shape[1:]), groups


def _attention(args: tuple[Any, ...], made: list[torch.Tensor]) -> Shape:
    # Scores and weighted sum: two products of the same size for each head.
    b, h, s, d = args[0].shape
    return s, args[1].shape[2], d, 2 * b * h


_ATEN = torch.ops.aten
_SHAPES: dict[Any, Callable[[tuple[Any, ...], list[torch.Tensor]], Shape]] = {
    _ATEN.mm: _mm,
    _ATEN.addmm: _addmm,
    _ATEN.bmm: _bmm,
    _ATEN.baddbmm: _baddbmm,
    _ATEN.convolution: _convolution,
    _ATEN._scaled_dot_product_flash_attention: _attention,  # noqa: SLF001
    _ATEN._scaled_dot_product_efficient_attention: _attention,  # noqa: SLF001
}


def product(func: Any, args: tuple[Any, ...], made: list[torch.Tensor]) -> Shape | None:
    """Rows, columns, depth and number of the matrix products an operation makes, if it does."""
    shape = _SHAPES.get(getattr(func, "overloadpacket", None))
    return None if shape is None else shape(args, made)
