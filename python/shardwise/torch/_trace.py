"""Traces steps of a module at two batch sizes: every figure becomes a line in the batch.

Nothing is computed: tensors are fake, so it takes no weights, no GPU and seconds. What comes out
is the block list that the core reads as ``{"model_type": "traced", ...}``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointError, checkpoint

from .._error import Error
from ._dialect import cuda_dialect
from ._fake import batched, fake_copy, values_assumed
from ._meter import Instant, Meter, Part
from ._temporaries import FEW_ROWS, WORKSPACE
from ._units import Units, find_units

Loss = Callable[[Any], torch.Tensor]


@dataclass(frozen=True)
class Regime:
    """A way to mix number formats, as the core tells them apart."""

    name: str
    dtype: torch.dtype | None
    autocast: bool


REGIMES = (
    Regime("fp32", torch.float32, autocast=False),
    Regime("autocast", torch.float32, autocast=True),
    Regime("bf16", torch.bfloat16, autocast=False),
)
"""All in fp32; fp32 parameters with ``torch.autocast``; all in bf16 (also what the compute of a
16-bit engine or of FSDP's mixed precision amounts to)."""


@dataclass(frozen=True)
class Example:
    """What the model is called with: tensors whose first dimension is the batch."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def batch(self) -> int:
        """Samples in the example."""
        leaves = pytree.tree_leaves((self.args, dict(self.kwargs)))
        sizes = [t.shape[0] for t in leaves if isinstance(t, torch.Tensor) and t.dim()]
        return max(sizes, default=1)

    @property
    def numbers(self) -> int:
        """Floating numbers in the example."""
        leaves = pytree.tree_leaves((self.args, dict(self.kwargs)))
        floats = [t for t in leaves if isinstance(t, torch.Tensor) and t.is_floating_point()]
        return sum(t.numel() for t in floats)


def total_loss(output: Any) -> torch.Tensor:
    """The output's own loss, else the sum of its floating tensors."""
    own = getattr(output, "loss", None)
    if own is None and isinstance(output, Mapping):
        own = output.get("loss")
    if isinstance(own, torch.Tensor):
        return own
    leaves = pytree.tree_leaves(output)
    floats = [t.sum() for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    if not floats:
        raise ValueError("the model's output holds no tensor that requires a gradient; give a loss")
    return torch.stack(floats).sum()


def trace(
    model: nn.Module,
    example: Example,
    loss: Loss | None,
    units: Units,
    tokens: int,
    *,
    on_gpu: bool,
) -> list[dict[str, Any]]:
    """The parts of the model in the order in which they run, as the core reads them."""

    def step(regime: Regime, times: int, recomputed: bool) -> _Step:
        run = partial(_step, model, example, loss, units, regime, times, on_gpu=on_gpu)
        if recomputed:
            # A unit that runs differently the second time (it fills a cache) keeps what it keeps.
            with contextlib.suppress(CheckpointError):
                return run(recomputed=True)
        return run(recomputed=False)

    dialect = cuda_dialect() if on_gpu else contextlib.nullcontext()
    with dialect, values_assumed(), _values_are_unknown(model):
        steps = {
            regime.name: [step(regime, n, again) for again in (False, True) for n in (1, 2)]
            for regime in REGIMES
        }
    runs = steps["fp32"][0].parts
    groups = _groups(runs)
    traced = {
        name: _Traced(*(_Step(_joined(s.parts, groups), s.held) for s in of))
        for name, of in steps.items()
    }
    first = traced["fp32"]
    names = [part.name for part in first.small.parts]
    weights = _weights(model, units, names)
    trained = [weights[n]["parameters"] - weights[n]["frozen"] for n in names]
    samples = example.batch * tokens
    blocks = []
    for i, part in enumerate(first.small.parts):
        block: dict[str, Any] = {"name": part.name, "unit": part.unit, **weights[part.name]}
        block["products"] = _products(part, first.large.parts[i], samples)
        block["kernels"] = part.kernels
        block["input_free"] = all(p.input_free for p in runs if p.name == part.name)
        block["inputs"] = 0 if i else example.numbers / samples
        above = sum(trained[i + 1 :])
        scale = _Scale(example.batch, tokens, above)
        block["regimes"] = {name: _regime(of, i, scale) for name, of in traced.items()}
        blocks.append(block)
    return blocks


@contextlib.contextmanager
def _values_are_unknown(model: nn.Module) -> Iterator[None]:
    """A step that reads values cannot be traced; says in which module, and what to do.

    The innermost module whose forward ran is the one that asked.
    """
    inside: list[nn.Module] = []

    def enter(module: nn.Module, _: object) -> None:
        inside.append(module)

    def leave(module: nn.Module, _: object, __: object) -> None:
        inside.pop()

    hooks = [
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave),
    ]
    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException) as cause:
        where = type(inside[-1]).__name__ if inside else f"the loss of {type(model).__name__}"
        raise Error.of(
            "model",
            "conflict",
            f"{where} reads the values of a tensor ({cause.func})",
            "a forward whose course and shapes do not depend on values: take a fixed capacity, a "
            "mask or torch.where in its place, or describe the module with that branch fixed",
        ) from cause
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True)
class _Step:
    parts: list[Part]
    held: int
    """Bytes alive after backward beside the gradients of parameters."""


@dataclass(frozen=True)
class _Traced:
    """Steps of the example and of one twice as large, then the same with every unit recomputed."""

    small: _Step
    large: _Step
    small_recomputed: _Step
    large_recomputed: _Step


@dataclass(frozen=True)
class _Scale:
    """How figures of one example become lines in the tokens."""

    batch: int
    tokens: int
    above: int
    """Trained elements of the parts that come after."""

    def line(self, small: float, large: float) -> list[float]:
        """``[fixed, per token]`` through the figures at one and at two examples."""
        slope = (large - small) / (self.batch * self.tokens)
        return [2 * small - large, slope]


def _step(
    model: nn.Module,
    example: Example,
    loss: Loss | None,
    units: Units,
    regime: Regime,
    times: int,
    *,
    recomputed: bool,
    on_gpu: bool,
) -> _Step:
    """Runs forward and backward once under the meter."""
    mode = FakeTensorMode()
    fake = fake_copy(model, mode, regime.dtype)
    fake.train(model.training)
    args, kwargs = batched((example.args, dict(example.kwargs)), mode, times, regime.dtype)
    meter = Meter([*fake.parameters(), *fake.buffers()], on_gpu=on_gpu)
    for parameter in fake.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(meter.finish)  # type: ignore[no-untyped-call]
    if recomputed:
        _recompute(fake, units)
    with mode, meter, _parts(fake, units, meter), _autocast(regime):
        meter.begin("inputs", unit=False)
        for leaf in pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                meter.add(leaf)
        output = fake(*args, **kwargs)
        value = (loss or total_loss)(output)
    with mode, meter:
        meter.start_backward()
        value.backward()  # type: ignore[no-untyped-call]
        del value
    return _Step(meter.parts, meter.held)


def _recompute(model: nn.Module, units: Units) -> None:
    """Every unit runs its forward again in backward."""
    for module in find_units(model, units).values():
        module.forward = partial(
            checkpoint, module.forward, use_reentrant=False, preserve_rng_state=False
        )


def _autocast(regime: Regime) -> contextlib.AbstractContextManager[None]:
    if not regime.autocast:
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=torch.bfloat16)


@contextlib.contextmanager
def _parts(model: nn.Module, units: Units, meter: Meter) -> Iterator[None]:
    """Hooks that tell the meter where units begin and end."""
    handles = []
    depth = 0
    for name, module in find_units(model, units).items():

        def enter(
            _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str = name
        ) -> None:
            nonlocal depth
            depth += 1
            if depth == 1:
                meter.begin(name, unit=True, inputs=(args, kwargs))

        def leave(_: nn.Module, args: object, output: object, name: str = name) -> None:
            nonlocal depth
            depth -= 1
            if depth == 0:
                meter.begin(f"after {name}", unit=False)

        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _groups(parts: list[Part]) -> list[int]:
    """Which stretches of forward make one part.

    An idle one between units, or a unit that runs again, joins what precedes it.
    """
    groups: list[int] = []
    seen: set[str] = set()
    for part in parts:
        joins = part.name in seen or not (part.unit or part.kernels)
        seen.add(part.name)
        last = groups[-1] if groups else -1
        groups.append(last if joins and groups else last + 1)
    return groups


def _joined(parts: list[Part], groups: list[int]) -> list[Part]:
    """The stretches of forward as parts."""
    out: list[Part] = []
    for part, group in zip(parts, groups, strict=True):
        if group == len(out):
            out.append(part)
            continue
        last = out[group]
        last.alive_after = part.alive_after
        last.forward += part.forward
        last.backward += part.backward
        last.products += part.products
        last.traffic += part.traffic
        last.traffic_backward += part.traffic_backward
        last.kernels += part.kernels
    return out


def _weights(model: nn.Module, units: Units, parts: list[str]) -> dict[str, dict[str, int]]:
    """Parameters of each part: a unit's own; all others belong to the first part."""
    owners = {name: list(module.parameters()) for name, module in find_units(model, units).items()}
    taken: set[int] = set()
    out: dict[str, dict[str, int]] = {}
    for name in parts:
        mine = [p for p in owners.get(name, []) if id(p) not in taken]
        taken.update(id(p) for p in mine)
        out[name] = _count(mine)
    rest = [p for p in model.parameters() if id(p) not in taken]
    out[parts[0]] = _count(rest)
    out[parts[0]]["buffers"] = sum(_words(b) for b in model.buffers())
    return out


def _words(buffer: torch.Tensor) -> int:
    """Its numbers, or as many as numbers of four bytes would take the room of others."""
    floats = buffer.is_floating_point()
    return buffer.numel() if floats else -(-buffer.numel() * buffer.element_size() // 4)


def _count(parameters: list[nn.Parameter]) -> dict[str, int]:
    return {
        "parameters": sum(p.numel() for p in parameters),
        "frozen": sum(p.numel() for p in parameters if not p.requires_grad),
        "tensors": len(parameters),
        "largest": max((p.numel() for p in parameters), default=0),
    }


def _products(small: Part, large: Part, samples: int) -> list[list[float]]:
    """``[rows a token, columns, depth, products]``; what grows with the batch is rows."""
    out = []
    for (m, n, k), count in sorted(small.products.items()):
        # Batched products (attention) grow in number; all others in rows.
        grows = (m, n, k) in large.products and large.products[m, n, k] >= 2 * count
        rows = m * count / samples if grows else m / samples
        out.append([rows, float(n), float(k), 1.0 if grows else float(count)])
    return out


def _regime(of: _Traced, i: int, scale: _Scale) -> dict[str, Any]:
    """The figures of one part in one regime."""

    def line(figure: Callable[[_Step], float]) -> list[float]:
        return scale.line(figure(of.small), figure(of.large))

    return {
        "whole": _peaks(of.small.parts[i], of.large.parts[i], scale),
        "recomputed": _peaks(of.small_recomputed.parts[i], of.large_recomputed.parts[i], scale),
        "held": line(lambda s: s.held) if i == 0 else [0, 0],
        "traffic": line(lambda s: s.parts[i].traffic),
        "traffic_backward": line(lambda s: s.parts[i].traffic_backward),
    }


def _peaks(small: Part, large: Part, scale: _Scale) -> dict[str, Any]:
    """What is alive in the part, less what the parts before it keep."""
    before = scale.line(small.alive_before, large.alive_before)

    def above(first: float, second: float) -> list[float]:
        instant = scale.line(first, second)
        return [instant[0] - before[0], instant[1] - before[1]]

    def line(a: Instant, b: Instant, others: int) -> list[float]:
        finished = float(a.finished - others)
        taken = (b.also.size - a.also.size) / (scale.batch * scale.tokens)
        # What a kernel takes whatever the batch, counted in workspaces.
        fixed = max(2 * a.also.size - b.also.size, 0) / WORKSPACE
        summed = a.also.rows < b.also.rows or a.also.rows >= FEW_ROWS
        columns = scale.line(a.also.columns, b.also.columns) if summed else [0.0, 0.0]
        rows = scale.line(a.also.rows, b.also.rows) if summed else [0.0, 0.0]
        figures = [finished, a.also.workspaces + fixed, taken, *columns, *rows]
        return [*above(a.alive, b.alive), *figures]

    forward = [line(a, b, 0) for a, b in _pairs(small.forward, large.forward)]
    backward = [line(a, b, scale.above) for a, b in _pairs(small.backward, large.backward)]
    return {
        "kept": above(small.alive_after, large.alive_after),
        "forward": _fullest(forward, scale),
        "backward": _fullest(backward, scale),
    }


def _pairs(small: list[Instant], large: list[Instant]) -> list[tuple[Instant, Instant]]:
    """The same operations at both sizes; where there are not, the fullest of each."""
    if len(small) == len(large):
        return list(zip(small, large, strict=True))
    if not small or not large:
        return []
    return [(max(small, key=_fullness), max(large, key=_fullness))]


def _fullness(instant: Instant) -> float:
    also = instant.also
    return instant.alive + also.size + also.workspaces * WORKSPACE


GRADIENT_WIDTHS = (0, 2, 4)
"""Bytes of a finished gradient: it joined one that was there, 16-bit, fp32."""


def _fullest(instants: list[list[float]], scale: _Scale) -> list[list[float]]:
    """Those that are the fullest of their kind for some number of samples.

    What a kernel takes beside, workspaces and partial sums, makes their kind.
    """
    kinds: dict[tuple[float, ...], set[tuple[float, ...]]] = {}
    for it in instants:
        kinds.setdefault(tuple(it[3:]), set()).add(tuple(it[:3]))
    best: dict[tuple[float, ...], None] = {}
    for kind, distinct in sorted(kinds.items()):
        for doublings in range(-4, 13):
            tokens = scale.tokens * scale.batch * 2.0**doublings
            for width in GRADIENT_WIDTHS:
                at = (1.0, tokens, float(width))
                most = max(sorted(distinct), key=lambda it, at=at: sum(map(mul, it, at)))  # type: ignore[misc]
                best[most + kind] = None
    return [list(it) for it in best]
