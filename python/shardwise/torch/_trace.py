"""Traces one step of a module at two batch sizes: every figure becomes a line in the batch.

Nothing is computed: tensors are fake, so it takes no weights, no GPU and seconds. What comes out
is the block list that the core reads as ``{"model_type": "traced", ...}``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ._fake import batched, fake_copy
from ._meter import Meter, Part
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
    model: nn.Module, example: Example, loss: Loss | None, units: Units, tokens: int
) -> list[dict[str, Any]]:
    """The parts of the model in the order in which they run, as the core reads them."""
    steps = {
        regime.name: [_step(model, example, loss, units, regime, times) for times in (1, 2)]
        for regime in REGIMES
    }
    weights = _weights(model, units, [p.name for p in steps["fp32"][0].parts])
    blocks = []
    for i, part in enumerate(steps["fp32"][0].parts):
        block: dict[str, Any] = {"name": part.name, "unit": part.unit, **weights[part.name]}
        samples = example.batch * tokens
        block["products"] = _products(part, steps["fp32"][1].parts[i], samples)
        block["kernels"] = part.kernels
        block["regimes"] = {
            name: _regime(small, large, i, weights, samples)
            for name, (small, large) in steps.items()
        }
        blocks.append(block)
    return blocks


@dataclass(frozen=True)
class _Step:
    parts: list[Part]
    gradient_width: int


def _step(
    model: nn.Module, example: Example, loss: Loss | None, units: Units, regime: Regime, times: int
) -> _Step:
    """Runs forward and backward once under the meter."""
    mode = FakeTensorMode()
    fake = fake_copy(model, mode, regime.dtype)
    fake.train(model.training)
    args, kwargs = batched((example.args, dict(example.kwargs)), mode, times, regime.dtype)
    meter = Meter([*fake.parameters(), *fake.buffers()])
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
    width = 2 if regime.dtype is torch.bfloat16 else 4
    return _Step(_joined(meter.parts), width)


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
                meter.begin(name, unit=True)

        def leave(_: nn.Module, args: tuple[Any, ...], output: object, name: str = name) -> None:
            nonlocal depth
            depth -= 1
            if depth == 0:
                meter.leave(output)
                meter.begin(f"after {name}", unit=False)

        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _joined(parts: list[Part]) -> list[Part]:
    """Without empty stretches between units; a unit that runs again joins what follows it."""
    out: list[Part] = []
    seen: set[str] = set()
    for part in parts:
        idle = not part.kernels and part.alive_after == part.alive_before and not part.peak
        if not part.unit and idle and part.name != "inputs":
            continue
        if part.name in seen and out:
            last = out[-1]
            last.alive_after = part.alive_after
            last.peak = max(last.peak, part.peak)
            last.products += part.products
            last.traffic += part.traffic
            last.traffic_backward += part.traffic_backward
            last.kernels += part.kernels
            continue
        seen.add(part.name)
        out.append(part)
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
    out[parts[0]]["buffers"] = sum(b.numel() for b in model.buffers())
    return out


def _count(parameters: list[nn.Parameter]) -> dict[str, int]:
    return {
        "parameters": sum(p.numel() for p in parameters),
        "frozen": sum(p.numel() for p in parameters if not p.requires_grad),
        "tensors": len(parameters),
        "largest": max((p.numel() for p in parameters), default=0),
    }


def _line(small: float, large: float, samples: int) -> list[float]:
    """``[fixed, per token]`` through the figures at one and at two examples."""
    slope = (large - small) / samples
    return [small - slope * samples, slope]


def _products(small: Part, large: Part, samples: int) -> list[list[float]]:
    """``[rows a token, columns, depth, products]``; what grows with the batch is rows."""
    out = []
    for (m, n, k), count in sorted(small.products.items()):
        # Batched products (attention) grow in number; all others in rows.
        grows = (m, n, k) in large.products and large.products[m, n, k] >= 2 * count
        rows = m * count / samples if grows else m / samples
        out.append([rows, float(n), float(k), 1.0 if grows else float(count)])
    return out


def _regime(
    small: _Step, large: _Step, i: int, weights: dict[str, dict[str, int]], samples: int
) -> dict[str, Any]:
    """The figures of one part in one regime."""

    def line(figure: Callable[[_Step], float]) -> list[float]:
        return _line(figure(small), figure(large), samples)

    def gradients(step: _Step, part: Part) -> int:
        counts = weights[part.name]
        return (counts["parameters"] - counts["frozen"]) * step.gradient_width

    def backward(step: _Step) -> float:
        # Alive while its backward ran, less what the parts before it keep and the gradients of the
        # weights of the parts after it.
        part = step.parts[i]
        above = sum(gradients(step, p) for p in step.parts[i + 1 :])
        return max(part.peak - part.alive_before - above, 0)

    return {
        "kept": line(lambda s: s.parts[i].alive_after - s.parts[i].alive_before),
        "checkpoint": line(lambda s: s.parts[i].checkpoint),
        "backward": line(backward),
        "traffic": line(lambda s: s.parts[i].traffic),
        "traffic_backward": line(lambda s: s.parts[i].traffic_backward),
    }
