"""Which modules of a model form the units that FSDP gathers one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

Units = Sequence[str | type] | None
"""Names of modules, or classes whose instances are units; none leaves it to :func:`find_units`."""


def find_units(model: nn.Module, units: Units = None) -> dict[str, nn.Module]:
    """The units by name, in the order of the model; none lies inside another.

    Without ``units``, the repeated blocks: children of lists and sequences whose class occurs more
    than once there. A model without such blocks gives its own larger children.
    """
    if units is not None:
        classes = tuple(u for u in units if isinstance(u, type))
        chosen = {
            name: module
            for name, module in model.named_modules()
            if name in units or isinstance(module, classes)
        }
        return _outermost(chosen)
    blocks = _outermost(_repeated(model))
    return blocks or {
        name: child
        for name, child in _callable(model)
        if _parameters(child) > 0 and ("." in name or not _is_primitive(child))
    }


def _callable(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The children; of those that are mere lists, which nobody calls, their entries."""
    for name, child in model.named_children():
        if type(child).__name__ in {"ModuleList", "ModuleDict"}:
            yield from ((f"{name}.{key}", entry) for key, entry in child.named_children())
        elif type(child).__name__ not in {"ParameterList", "ParameterDict"}:
            yield name, child


def _repeated(model: nn.Module) -> dict[str, nn.Module]:
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if type(module).__name__ not in {"ModuleList", "Sequential", "ModuleDict"}:
            continue
        children = dict(module.named_children())
        kinds = Counter(type(c) for c in children.values() if not _is_primitive(c))
        # A list of one block is a stage of a network whose stages differ (a U-Net, a small ResNet).
        for key, child in children.items():
            if kinds[type(child)] >= 1 and _parameters(child) > 0:
                found[f"{name}.{key}" if name else key] = child
    return found


def _outermost(modules: dict[str, nn.Module]) -> dict[str, nn.Module]:
    """Without those that lie inside another, or are containers of them."""
    containers = {"ModuleList", "Sequential", "ModuleDict"}

    def holds(name: str) -> bool:
        return any(other.startswith(f"{name}.") for other in modules)

    # A sequence of plain layers is a block; one that holds blocks is their list.
    plain = {n: m for n, m in modules.items() if type(m).__name__ not in containers or not holds(n)}
    return {n: m for n, m in plain.items() if not any(n.startswith(f"{outer}.") for outer in plain)}


def _is_primitive(module: nn.Module) -> bool:
    """One layer of ``torch.nn``, not a block made of layers."""
    return next(module.children(), None) is None


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
