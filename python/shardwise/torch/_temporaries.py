"""What PyTorch's CUDA kernels take from the allocator for themselves while they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from ._copies import copies

if TYPE_CHECKING:
    from collections.abc import Sequence


WORKSPACE = 32 * 2**20
"""Of a cuBLAS product. Source: as the core's ``GEMM_WORKSPACE``."""


@dataclass(frozen=True)
class Temporary:
    """Taken and given back by one operation."""

    size: int = 0
    """Bytes."""
    workspaces: float = 0.0
    """Workspaces of a cuBLAS product."""
    columns: int = 0
    """Columns of a matrix that is summed over its rows, which leaves partial sums."""
    rows: int = 0


NONE = Temporary()
Rule = Callable[[tuple[Any, ...], list[torch.Tensor]], Temporary]


def _product(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    return Temporary(sum(_copied(x) for x in args if isinstance(x, torch.Tensor)), 1.0)


def _copied(x: torch.Tensor) -> int:
    """Bytes of the copy of a matrix whose strides BLAS does not take, as those of an expanded one.

    Source: PyTorch aten/src/ATen/native/cuda/Blas.cpp, prepare_matrix_for_cublas.
    """
    if x.dim() < 2:
        return 0
    (rows, columns), (down, across) = x.shape[-2:], x.stride()[-2:]
    taken = (across == 1 and down >= max(1, columns)) or (down == 1 and across >= max(1, rows))
    return 0 if taken else x.numel() * x.element_size()


def _with_bias(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    # cublasLt adds a bias in the same kernel, with a workspace of 1 MiB, but not for a vector.
    # Source: aten/src/ATen/native/cuda/Blas.cpp, isInputCompliesAddmmCudaLt.
    fused = args[0].dim() == 1 and min(args[2].shape) > 1
    return Temporary(_product(args[1:], made).size, 1 / 32 if fused else 1.0)


def _convolved(
    weight: torch.Tensor, pixels: torch.Tensor, groups: int, *, plain: bool
) -> Temporary:
    """The columns of one sample, as PyTorch's own kernels lay them out beside a product.

    cuDNN's workspace is of its choice and not public; this stands for it.
    Source: aten/src/ATen/native/cuda/ConvolutionMM2d.cu, native/vol2col.h.
    """
    if groups > 1 and weight.shape[1] == 1:
        # One filter a channel is no matrix product.
        return NONE
    columns = 0 if plain else prod(weight.shape[1:]) * prod(pixels.shape[2:])
    return Temporary(columns * weight.element_size(), workspaces=1.0)


def _is_plain(weight: torch.Tensor, stride: list[int], padding: list[int]) -> bool:
    """Whether a flat kernel of one pixel takes its input as it is."""
    flat = len(stride) < 3
    return flat and prod(weight.shape[2:]) == prod(stride) == 1 and not any(padding)


def _convolution(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    pixels = args[0] if args[6] else made[0]
    return _convolved(args[1], pixels, args[8], plain=_is_plain(args[1], args[3], args[4]))


def _convolution_backward(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    pixels = args[1] if args[7] else args[0]
    # The gradient of the input is laid out in columns whatever the kernel.
    return _convolved(args[2], pixels, args[9], plain=False)


FEW_ROWS = 1024
"""Below, one block sums a column. Source: as the core's ``column_sum``."""


def _sum(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    # Numbers that are no 16-bit floats are cast before they are summed.
    # Source: aten/src/ATen/native/ReduceOpsUtils.h, make_reduction_from_ty.
    x, out = args[0], made[0]
    cast = x.dtype != out.dtype and x.dtype not in (torch.bfloat16, torch.float16)
    size = x.numel() * out.element_size() if cast else 0
    dims = args[1] if len(args) > 1 else None
    if dims is None or dims == []:
        return Temporary(size)
    columns, rows = _summed(x, dims if isinstance(dims, list | tuple) else [dims])
    return Temporary(size, columns=columns, rows=rows)


VECTOR = 4
"""Columns that a thread adds up side by side. Source: Reduce.cuh, get_output_vec_size."""


def _summed(x: torch.Tensor, dims: Sequence[int]) -> tuple[int, int]:
    """Columns and rows of a sum that leaves what lies side by side; else next to nothing is."""
    summed = {d % x.dim() for d in dims} if x.dim() else set()
    sides = [d for d in range(x.dim()) if x.shape[d] > 1]
    nearest = min(sides, key=x.stride, default=-1)
    if nearest < 0 or nearest in summed or not summed.intersection(sides):
        return 0, 0
    columns = prod(x.shape[d] for d in sides if d not in summed)
    strides = (x.stride(d) for d in sides if d != nearest)
    wide = x.shape[nearest] % VECTOR == 0 and all(s % VECTOR == 0 for s in strides)
    # In the core the number of columns tells whether they are taken side by side.
    if wide != (columns % VECTOR == 0):
        return 0, 0
    return columns, prod(x.shape[d] for d in sides if d in summed)


def _extreme(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    # Partial results in the type itself, where sums of 16 bits are kept in fp32.
    return _sum(args, made) if made[0].dtype == torch.float32 else NONE


def _norm(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    return _sum((args[0], *args[2:3]), made)


def _softmax_backward(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    # Source: aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out: grad * output, lying
    # as the gradient does and is then laid out row by row.
    size = args[1].numel() * args[1].element_size()
    dense = torch.empty_like(args[0])
    return Temporary(size if dense.is_contiguous() else 2 * size)


def _loss(elements: int) -> Rule:
    """A loss that is reduced makes its elements first, and as many numbers on the way to them."""

    def rule(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
        reduced = made[0].numel() < args[0].numel()
        return Temporary(elements * args[0].numel() * args[0].element_size() if reduced else 0)

    return rule


def _log_sum(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    # Source: aten/src/ATen/native/ReduceOps.cpp, logsumexp_out_impl: the exponentials.
    return Temporary(args[0].numel() * args[0].element_size())


def _soft_margin(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    return Temporary(2 * made[0].numel() * made[0].element_size())


SORTED = 48
"""Bytes an index: keys and values of a sort, before and after, and the segments."""
FEW_INDICES = 3072
"""Up to here one kernel does without sorting. Source: aten/src/ATen/native/cuda/Embedding.cu."""
SEGMENT = 10
"""Indices that one thread adds up. Source: EmbeddingBackwardKernel.cu, NROWS_PER_THREAD."""


def _rows_added(indices: int, table: int, width: int) -> Temporary:
    """Gradients of looked-up rows: sorted by index, then added up by segments in fp32."""
    if indices <= FEW_INDICES:
        return NONE
    segments = indices // SEGMENT + min(indices, table)
    return Temporary(segments * width * 4 + SORTED * indices)


def _embedding_backward(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    return _rows_added(args[1].numel(), made[0].shape[0], made[0].shape[-1])


def _index_put(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    if len(args) < 4 or not args[3]:
        return NONE
    return Temporary(SORTED * max((i.numel() for i in args[1] if i is not None), default=0))


def _blocks(size: int, block: int) -> int:
    return -(-size // block) * block


def _fused_attention(q: torch.Tensor, rows: int, columns: int) -> int:
    """Gradients of the queries in fp32 and the sums of each row."""
    batch, heads, length, size = q.shape
    return batch * heads * _blocks(length, rows) * (_blocks(size, columns) + 1) * 4


def _flash_backward(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    # Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp, mha_bwd; gradient and
    # output are laid out token by token first.
    grad, q, out = args[0], args[1], args[4]
    copied = [x for x in (grad, out) if not x.transpose(1, 2).is_contiguous()]
    size = sum(x.numel() * x.element_size() for x in copied)
    return Temporary(_fused_attention(q, 128, 32) + size)


def _efficient_backward(args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    # Source: the same folder, mem_eff_attention/kernel_backward.h, workspace_elements_gq.
    return Temporary(_fused_attention(args[1], 64, 64))


_ATEN = torch.ops.aten
_RULES: dict[Any, Rule] = {
    _ATEN.mm: _product,
    _ATEN.bmm: _product,
    _ATEN.baddbmm: _product,
    _ATEN.addmm: _with_bias,
    _ATEN.convolution: _convolution,
    _ATEN.convolution_backward: _convolution_backward,
    _ATEN.sum: _sum,
    _ATEN.mean: _sum,
    _ATEN.amax: _extreme,
    _ATEN.amin: _extreme,
    _ATEN.linalg_vector_norm: _norm,
    _ATEN._euclidean_dist: _product,  # noqa: SLF001 - ATen's name
    _ATEN._softmax_backward_data: _softmax_backward,  # noqa: SLF001 - ATen's name
    # Source: aten/src/ATen/native/Loss.cpp.
    _ATEN.mse_loss: _loss(1),
    _ATEN.smooth_l1_loss: _loss(1),
    _ATEN.huber_loss: _loss(1),
    _ATEN.binary_cross_entropy_with_logits: _loss(2),
    _ATEN.soft_margin_loss_backward: _soft_margin,
    _ATEN.logsumexp: _log_sum,
    _ATEN.embedding_dense_backward: _embedding_backward,
    _ATEN._embedding_bag_dense_backward: _embedding_backward,  # noqa: SLF001 - as above
    _ATEN.index_put: _index_put,
    _ATEN.index_put_: _index_put,
    _ATEN._index_put_impl_: _index_put,
    _ATEN._unsafe_index_put: _index_put,  # noqa: SLF001 - as above
    _ATEN._scaled_dot_product_flash_attention_backward: _flash_backward,  # noqa: SLF001 - as above
    _ATEN._scaled_dot_product_efficient_attention_backward: _efficient_backward,  # noqa: SLF001 - as above
}


def temporary(func: Any, args: tuple[Any, ...], made: list[torch.Tensor]) -> Temporary:
    """What the operation takes and gives back."""
    rule = _RULES.get(getattr(func, "overloadpacket", None))
    own = NONE if rule is None else rule(args, made)
    more = copies(func, args, made)
    return replace(own, size=own.size + more) if more else own
