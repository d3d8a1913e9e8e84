"""Which CUDA kernels of PyTorch copy an argument that does not lie row by row in memory.

Source: PyTorch 2.15 aten/src/ATen/native, calls of ``contiguous()`` before a kernel is launched;
each observed in the caching allocator. The copies are given back when the operation ends.
"""

from __future__ import annotations

from typing import Any

import torch

_ATEN = torch.ops.aten
_ROWS: dict[Any, tuple[int, ...]] = {
    _ATEN.convolution: (0,),
    _ATEN.convolution_backward: (1,),
    _ATEN.native_layer_norm: (0,),
    _ATEN.native_layer_norm_backward: (0, 1),
    _ATEN._softmax: (0,),  # noqa: SLF001 - ATen's name
    _ATEN._log_softmax: (0,),  # noqa: SLF001 - as above
    _ATEN._log_softmax_backward_data: (0,),  # noqa: SLF001 - as above
    _ATEN.nll_loss2d_forward: (0,),
    _ATEN.cumsum: (0,),
    _ATEN.topk: (0,),
    _ATEN.roll: (0,),
    _ATEN.embedding_dense_backward: (0,),
    _ATEN.index_put: (2,),
    _ATEN.im2col: (0,),
    _ATEN.col2im: (0,),
    _ATEN.reflection_pad1d: (0,),
    _ATEN.reflection_pad2d: (0,),
    _ATEN.reflection_pad1d_backward: (0,),
    _ATEN.reflection_pad2d_backward: (0,),
    _ATEN.adaptive_max_pool2d: (0,),
    _ATEN.upsample_bicubic2d_backward: (0,),
}
"""Positions of the tensors that these want row by row. cuDNN takes a convolution's channels side by
side, in a workspace of its own choice that is not public; the copy of the input stands for it."""

_ROWS_OR_CHANNELS: dict[Any, tuple[int, ...]] = {
    _ATEN.convolution_backward: (0,),
    _ATEN.native_group_norm: (0,),
    _ATEN.native_group_norm_backward: (0, 1),
    _ATEN.upsample_nearest2d: (0,),
    _ATEN.upsample_nearest2d_backward: (0,),
    _ATEN.upsample_bilinear2d_backward: (0,),
    _ATEN.max_pool2d_with_indices: (0,),
    _ATEN.max_pool2d_with_indices_backward: (0, 1),
    _ATEN.avg_pool2d: (0,),
    _ATEN.avg_pool2d_backward: (0, 1),
    _ATEN._adaptive_avg_pool2d: (0,),  # noqa: SLF001 - as above
}
"""The same for kernels that also take channels side by side."""


_RESIZES = {
    _ATEN.upsample_nearest2d,
    _ATEN.upsample_nearest2d_backward,
    _ATEN.upsample_bilinear2d_backward,
    _ATEN.upsample_bicubic2d_backward,
}
"""Where nothing changes its size these are mere copies."""


def copies(func: Any, args: tuple[Any, ...], made: list[torch.Tensor]) -> int:
    """Bytes of the arguments that the operation copies first."""
    packet = getattr(func, "overloadpacket", None)
    if packet in _RESIZES and args[0].shape == made[0].shape:
        return 0
    strict, lax = (table.get(packet, ()) for table in (_ROWS, _ROWS_OR_CHANNELS))
    wrong = [args[i] for i in strict if i < len(args) and not _in_rows(args[i])]
    wrong += [args[i] for i in lax if not _in_rows(args[i]) and not _in_channels(args[i])]
    return sum(x.numel() * x.element_size() for x in wrong)


def _in_rows(x: object) -> bool:
    return not isinstance(x, torch.Tensor) or x.is_contiguous()


def _in_channels(x: torch.Tensor) -> bool:
    return x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
