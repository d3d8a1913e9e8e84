"""What a CUDA build of PyTorch calls where the CPU build calls something else.

A trace runs on fake CPU tensors, yet its bytes are to be those of a GPU: one-byte masks of dropout,
fused attention, cuDNN's recurrent layers, and autocast's list of operations that run in fp32. Each
is put in place of the CPU's in PyTorch's dispatcher, so that composite operations of C++ meet them
too, and taken away after the trace.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional

_ATEN = torch.ops.aten
_BELOW_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)  # noqa: SLF001 - no public way around a dispatch key
SIXTEEN_BIT = (torch.bfloat16, torch.float16)

_FP32 = (
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "rms_norm",
    "group_norm",
    "frobenius_norm.dim",
    "nuclear_norm",
    "nuclear_norm.dim",
    "cosine_similarity",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "margin_ranking_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "pdist",
    "cdist",
    "renorm",
    "logsumexp",
    "norm.Scalar",
    "norm.ScalarOpt_dim",
    "upsample_nearest1d",
    "_upsample_nearest_exact1d",
    "upsample_nearest2d",
    "_upsample_nearest_exact2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "_upsample_bilinear2d_aa",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bicubic2d_aa",
)
"""Autocast hands these fp32. Source: PyTorch 2.15 aten/src/ATen/autocast_mode.h, AT_FORALL_FP32."""

_FP32_RESULT = (
    "prod",
    "prod.dim_int",
    "softmax.int",
    "log_softmax.int",
    "cumprod",
    "cumsum",
    "linalg_vector_norm",
    "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord",
    "sum",
    "sum.dim_IntList",
)
"""These are told to give fp32. Source: the same, AT_FORALL_FP32_SET_OPT_DTYPE."""

_WIDEST = (
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sampler",
    "index_put",
    "tensordot",
    "scatter_add",
)
"""These take the widest type among their inputs. Source: the same, AT_FORALL_PROMOTE."""

_NARROW = (
    "convolution",
    "einsum",
    "chain_matmul",
    "linalg_multi_dot",
    "rnn_tanh_cell",
    "rnn_relu_cell",
    "prelu",
    "addmv",
    "addr",
    "mv",
)
"""These run in 16 bits, though not on the CPU. Source: the same, AT_FORALL_LOWER_PRECISION_FP."""


def _as_they_are() -> Iterator[str]:
    """What only the CPU's autocast casts: losses, poolings, transforms, solvers."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001 - no public list of kernels
    for name in torch._C._dispatch_get_all_op_names():  # noqa: SLF001 - as above
        own = name.startswith("aten::") and has(name, "AutocastCPU")
        if own and not has(name, "AutocastCUDA"):
            yield name.removeprefix("aten::")


@contextlib.contextmanager
def cuda_dialect() -> Iterator[None]:
    """Until its end, the CPU's operations call what the GPU's do."""
    as_they_are = list(_as_they_are())
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        # That a kernel of the CPU is overridden is the point.
        warnings.simplefilter("ignore")
        for name, cast in _casts():
            op = _overload(name)
            library.impl(name, _below_autocast(op, cast), "AutocastCPU")
        for name in as_they_are:
            library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
        for name, kernel in _KERNELS.items():
            library.impl(name, kernel, "AutogradCPU")
    try:
        yield
    finally:
        library._destroy()  # noqa: SLF001 - the library's own end


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(_ATEN, packet), overload or "default")


Cast = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


def _casts() -> Iterator[tuple[str, Cast]]:
    for name in _FP32:
        yield name, _to(lambda _: torch.float32)
    for name in _FP32_RESULT:
        yield name, _result
    for name in _WIDEST:
        yield name, _to(lambda found: torch.float32 if torch.float32 in found else None)
    for name in _NARROW:
        yield name, _to(lambda _: torch.get_autocast_dtype("cpu"))


def _to(choose: Callable[[set[torch.dtype]], torch.dtype | None]) -> Cast:
    """Casts the floating tensors among the arguments to the type that is chosen for theirs."""

    def cast(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        given = [*args, *kwargs.values()]
        given += [x for it in given if isinstance(it, list | tuple) for x in it]
        wanted = choose({x.dtype for x in given if _eligible(x)})

        def one(x: Any) -> Any:
            if isinstance(x, list | tuple):
                return [one(it) for it in x]
            return x.to(wanted) if wanted is not None and _eligible(x) else x

        return tuple(one(x) for x in args), {name: one(x) for name, x in kwargs.items()}

    return cast


def _result(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    told = kwargs.get("dtype") is not None or any(isinstance(it, torch.dtype) for it in args)
    if _eligible(args[0]) and args[0].dtype in SIXTEEN_BIT and not told:
        kwargs = {**kwargs, "dtype": torch.float32}
    return args, kwargs


def _eligible(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64


def _below_autocast(op: Any, cast: Cast) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_BELOW_AUTOCAST):  # noqa: SLF001 - as above
            args, kwargs = cast(args, kwargs)
            return op(*args, **kwargs)

    return kernel


def _gates(
    x: torch.Tensor, hidden: torch.Tensor, weights: Sequence[Any], kept: int
) -> torch.Tensor:
    """A step of a recurrent cell: its two products and what the fused cell keeps beside them."""
    if torch.is_autocast_enabled("cpu"):
        hidden = hidden.to(torch.get_autocast_dtype("cpu"))
    products = [functional.linear(a, w) for a, w in zip((x, hidden), weights, strict=False)]
    out: torch.Tensor = _Cell.apply(*products, hidden, kept, *weights[2:])
    return out


def _gru_cell(x: torch.Tensor, hidden: torch.Tensor, *weights: torch.Tensor | None) -> torch.Tensor:
    return _gates(x, hidden, weights, 5)


def _lstm_cell(
    x: torch.Tensor, states: Sequence[torch.Tensor], *weights: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    out = _gates(x, states[0], weights, 5)
    return out, torch.empty_like(out)


class _Cell(torch.autograd.Function):
    """The fused cell. Source: PyTorch aten/src/ATen/native/cuda/RNN.cu and its derivatives."""

    @staticmethod
    def forward(
        ctx: Any,
        first: torch.Tensor,
        second: torch.Tensor,
        hidden: torch.Tensor,
        kept: int,
        *biases: torch.Tensor | None,
    ) -> torch.Tensor:
        workspace = hidden.new_empty(*hidden.shape[:-1], kept * hidden.shape[-1])
        ctx.save_for_backward(first, second, hidden, workspace, *biases)
        return torch.empty_like(hidden)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        first, second, hidden, _, *biases = ctx.saved_tensors
        gates = [torch.empty_like(it) for it in (first, second)]
        sums = [None if b is None else gates[0].sum(0) for b in biases]
        return *gates, torch.empty_like(hidden), None, *sums


class _RmsNorm(torch.autograd.Function):
    """The fused norm keeps its input and one number a row. Source: aten layer_norm_kernel.cu."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, shape: list[int], weight: torch.Tensor | None
    ) -> torch.Tensor:
        out, _, scale = torch.native_layer_norm(x, shape, weight, None, 0.0)
        ctx.save_for_backward(x, scale.float(), weight)
        ctx.shape = shape
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, scale, weight = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[2], False]
        to_x, to_weight, _ = _ATEN.native_layer_norm_backward(
            grads[0], x, ctx.shape, scale, scale, weight, None, wanted
        )
        return to_x, None, to_weight


def _rms_norm(
    x: torch.Tensor,
    shape: list[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    """Fused where the weight has its input's type. Source: aten layer_norm.cpp, rms_norm_symint."""
    if weight is None or weight.dtype == x.dtype:
        made: torch.Tensor = _RmsNorm.apply(x, shape, weight)
        return made
    wide = x.float()
    return (wide * (wide.square().mean(-1, keepdim=True) + 1.0).rsqrt() * weight).to(x.dtype)


def _dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """Keeps a mask of one byte an element. Source: PyTorch aten/src/ATen/native/Dropout.cpp."""
    if train and 0 < p < 1 and x.numel() > 0:
        return torch.native_dropout(x, p, train)[0]
    return x * 0 if train and p == 1 else x


class _Ctc(torch.autograd.Function):
    """Paths of every sample forward, and again backward. Source: aten native/cuda/LossCTC.cu."""

    @staticmethod
    def forward(ctx: Any, log_probs: torch.Tensor, labels: int) -> torch.Tensor:
        steps, samples, _ = log_probs.shape
        alpha = log_probs.new_empty(samples, steps, 2 * labels + 1)
        ctx.save_for_backward(log_probs, alpha)
        return log_probs.new_empty(samples)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        log_probs, alpha = ctx.saved_tensors
        beta = torch.empty_like(alpha)
        to_probs = torch.empty_like(log_probs)
        del beta
        return to_probs, None


def _ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    steps: object,
    lengths: Sequence[int] | torch.Tensor,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> torch.Tensor:
    """The lengths are values: labels as many as targets have columns, or on average."""
    samples = log_probs.shape[1]
    if targets.dim() == 2:
        labels = targets.shape[1]
    elif isinstance(lengths, torch.Tensor):
        labels = -(-targets.numel() // max(samples, 1))
    else:
        labels = max(lengths, default=0)
    out: torch.Tensor = _Ctc.apply(log_probs, labels)
    return out if reduction == 0 else out.mean() if reduction == 1 else out.sum()


FLASH_HEAD = 256
"""Largest head of the flash kernel. Source: PyTorch transformers/cuda/sdp_utils.cpp."""
ALIGNED_BYTES = 16
"""The memory-efficient kernel loads so many at once: widths of heads and biases are multiples."""


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """The kernel that CUDA's dispatch chooses: flash, memory-efficient, or plain mathematics."""
    fused = q.dim() == k.dim() == v.dim() == 4 and q.shape[-1] == k.shape[-1] == v.shape[-1]
    size = q.shape[-1]
    if fused and q.dtype in SIXTEEN_BIT and mask is None and size <= FLASH_HEAD:
        scale = size**-0.5 if scale is None else scale
        padding = -size % 8
        q, k, v = (functional.pad(x, (0, padding)) if padding else x for x in (q, k, v))
        made: torch.Tensor = _ATEN._scaled_dot_product_flash_attention(  # noqa: SLF001 - ATen's name
            q, k, v, dropout, causal, scale=scale
        )[0]
        return made[..., :size] if padding else made
    grouped = q.shape[-3] != k.shape[-3]
    if fused and size % (ALIGNED_BYTES // q.element_size()) == 0 and not grouped:
        needs = any(x.requires_grad for x in (q, k, v)) and torch.is_grad_enabled()
        bias = None if mask is None else _bias(mask, q, k)
        out: torch.Tensor = _ATEN._scaled_dot_product_efficient_attention(  # noqa: SLF001 - as above
            q, k, v, bias, needs, dropout, causal, scale=scale
        )[0]
        return out
    plain: torch.Tensor = _ATEN._scaled_dot_product_attention_math(  # noqa: SLF001 - as above
        q, k, v, mask, dropout, causal, scale=scale, enable_gqa=enable_gqa
    )[0]
    return plain


def _bias(mask: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The mask as the kernel adds it: in the type of the queries, its rows aligned."""
    if mask.dtype == torch.bool:
        mask = torch.empty_like(mask, dtype=q.dtype)
    keys = mask.shape[-1]
    padding = -keys % ALIGNED_BYTES
    if padding:
        mask = functional.pad(mask, (0, padding))[..., :keys]
    return mask.expand(*q.shape[:3], k.shape[2])


CHUNKS = 16
"""Nodes that a recurrent layer's graph is made of; what each keeps is let go when it is done."""
_KEPT = {"lstm": 13, "gru": 11, "rnn": 0}
"""Elements kept a step and unit of width beside inputs and outputs: the products with input and
state (4 H each, 3 H), the workspace (4 H, 5 H) and an LSTM's cell state. Source: the fused cells of
PyTorch aten/src/ATen/native/cuda/RNN.cu and their derivatives; cuDNN's reserve is not public."""


class _Steps(torch.autograd.Function):
    """Some steps of a recurrent layer in one direction."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, state: torch.Tensor, kept: int, *weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        steps, batch, _ = x.shape
        out = x.new_empty(steps, batch, state.shape[-1])
        reserve = x.new_empty(steps, batch, kept * state.shape[-1])
        for weight, rows in zip(weights, (x, out), strict=False):
            torch.mm(rows.reshape(steps * batch, -1)[:, : weight.shape[1]], weight.t())
        ctx.save_for_backward(x, state, out, reserve, *weights)
        return out, torch.empty_like(state)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, state, out, _, *weights = ctx.saved_tensors
        gates = x.new_empty(x.shape[1], weights[0].shape[0])
        matrices = [
            torch.mm(gates.t(), rows[0][:, : w.shape[1]])
            for w, rows in zip(weights, (x, out), strict=False)
        ]
        biases = [torch.empty_like(w) for w in weights[len(matrices) :]]
        return torch.empty_like(x), torch.empty_like(state), None, *matrices, *biases


def _layer(
    x: torch.Tensor, state: torch.Tensor, weights: Sequence[torch.Tensor], kept: int
) -> tuple[torch.Tensor, torch.Tensor]:
    size = -(-x.shape[0] // CHUNKS)
    outs = []
    for chunk in torch.split(x, size):
        out, state = _Steps.apply(chunk, state, kept, *weights)
        outs.append(out)
    return torch.cat(outs), state


def _recurrent(kind: str) -> Callable[..., tuple[torch.Tensor, ...]]:
    def kernel(
        x: torch.Tensor,
        states: Any,
        weights: Sequence[torch.Tensor],
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[torch.Tensor, ...]:
        hidden, *cell = states if kind == "lstm" else [states]
        if torch.is_autocast_enabled("cpu"):
            narrow = torch.get_autocast_dtype("cpu")
            x, hidden = x.to(narrow), hidden.to(narrow)
            weights = [w.to(narrow) for w in weights]
        x = x.transpose(0, 1) if batch_first else x
        directions = 2 if bidirectional else 1
        each = len(weights) // (layers * directions)
        last = []
        for layer in range(layers):
            outs = []
            for i in range(layer * directions, (layer + 1) * directions):
                own = weights[i * each : (i + 1) * each]
                out, state = _layer(x, hidden[i], own, _KEPT[kind])
                outs.append(out)
                last.append(state)
            x = torch.cat(outs, -1) if bidirectional else outs[0]
            if layer + 1 < layers:
                x = torch.dropout(x, dropout, train)
        x = x.transpose(0, 1) if batch_first else x
        return (x, torch.stack(last), *(torch.empty_like(c) for c in cell))

    return kernel


_KERNELS: dict[str, Callable[..., Any]] = {
    "dropout": _dropout,
    "rms_norm": _rms_norm,
    "ctc_loss.IntList": _ctc_loss,
    "ctc_loss.Tensor": _ctc_loss,
    "scaled_dot_product_attention": _attention,
    "gru_cell": _gru_cell,
    "lstm_cell": _lstm_cell,
    "lstm.input": _recurrent("lstm"),
    "gru.input": _recurrent("gru"),
    "rnn_tanh.input": _recurrent("rnn"),
    "rnn_relu.input": _recurrent("rnn"),
}
