"""Reads a model that exists: exact parameters, and the model as the core understands it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .._error import Error
from .._native import call
from ._peft import adapters
from ._units import Units, find_units

if TYPE_CHECKING:
    from ._trace import Loss


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a module is made of. ``shardwise.plan`` and ``estimate`` take it for a model."""

    name: str
    """The class, or what the config calls itself."""

    parameters: int
    """All parameters, shared ones once."""

    trainable: int
    """Those that require a gradient."""

    dtypes: Mapping[str, int]
    """Parameters by number format."""

    tied: tuple[tuple[str, ...], ...]
    """Names that hold the same parameter."""

    units: tuple[str, ...]
    """Modules that FSDP gathers one at a time."""

    spec: Mapping[str, Any] = field(repr=False)
    """The model as the core reads it: its config, or what a trace found."""

    recipe: Mapping[str, Any] = field(repr=False)
    """What the module says of the training: adapters, format of the parameters."""

    tokens: int | None
    """Tokens of a sample, where the trace fixed them; none for a known family."""

    @property
    def traced(self) -> bool:
        """Whether the blocks come from a trace rather than from a known family."""
        return self.spec.get("model_type") == "traced"

    def __str__(self) -> str:
        said = [
            f"{self.name}: {self.parameters:,} parameters, {self.trainable:,} trained",
            "  " + ", ".join(f"{n:,} in {dtype}" for dtype, n in self.dtypes.items()),
            f"  {len(self.units)} FSDP units, {'traced' if self.traced else 'a known family'}",
        ]
        said += [f"  tied: {' = '.join(names)}" for names in self.tied]
        return "\n".join(said)


def describe(
    model: nn.Module | object,
    *args: Any,
    loss: Loss | None = None,
    units: Units = None,
    tokens: int = 1,
    name: str | None = None,
    on_gpu: bool = True,
    **kwargs: Any,
) -> Description:
    """Describes a module, real or on the meta device, with or without adapters.

    A Transformers model of a family that the core knows is read from its config. Any other module
    is traced: give it inputs to be called with, whose first dimension is the batch. Nothing is
    computed and no memory is taken. A module that ``torch.compile`` wraps is described as it runs
    eagerly: compiled kernels keep fewer tensors, so that the need is an upper bound.

    Args:
        model: an ``nn.Module``, a Transformers or PEFT model, or a Transformers config.
        *args: example inputs for the trace.
        loss: makes a scalar of the output; without it the output's own ``loss``, else its sum.
        units: FSDP units, by name or class; without it the repeated blocks.
        tokens: tokens of one sample, for the reports (1 for images and the like).
        name: what to call it.
        on_gpu: whether a trace follows a GPU's kernels, wherever it is made, or a processor's.
        **kwargs: example inputs by name.

    Raises:
        Error: when the module is unknown and there are no inputs to trace it with.
    """
    if not isinstance(model, nn.Module):
        return _from_config(model, name)
    model = _eager(model)
    base, recipe = adapters(model)
    config = getattr(base, "config", None)
    known = _known(config, model, recipe)
    if known is None and not args and not kwargs:
        raise Error.of(
            "model",
            "missing_field",
            type(model).__name__,
            "a family that is known, or example inputs: describe(model, inputs)",
        )
    if known is None:
        from ._trace import Example, trace

        recipe = {}
        spec: dict[str, Any] = {
            "model_type": "traced",
            "name": name or type(model).__name__,
            "tokens": tokens,
            "parts": trace(model, Example(args, kwargs), loss, units, tokens, on_gpu=on_gpu),
        }
    else:
        spec = {**known, **({"name": name} if name else {})}
    return _describe(model, spec, {**recipe, **_format(model, recipe)}, units, tokens)


def _describe(
    model: nn.Module, spec: dict[str, Any], recipe: dict[str, Any], units: Units, tokens: int
) -> Description:
    formats: Counter[str] = Counter()
    for parameter in model.parameters():
        formats[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    names: dict[int, list[str]] = {}
    for key, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(key)
    return Description(
        name=str(spec.get("name") or spec.get("_name_or_path") or type(model).__name__),
        parameters=sum(p.numel() for p in model.parameters()),
        trainable=sum(p.numel() for p in model.parameters() if p.requires_grad),
        dtypes=dict(formats),
        tied=tuple(tuple(n) for n in names.values() if len(n) > 1),
        units=tuple(find_units(model, units)),
        spec=spec,
        recipe=recipe,
        tokens=tokens if spec["model_type"] == "traced" else None,
    )


def _eager(model: nn.Module) -> nn.Module:
    """What ``torch.compile`` or a data-parallel wrapper holds inside."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.parallel.DistributedDataParallel):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def _from_config(config: object, name: str | None) -> Description:
    """A config alone: the counts are the core's."""
    if not hasattr(config, "to_dict"):
        raise Error.of("model", "wrong_type", type(config).__name__, "a torch module or a config")
    spec: dict[str, Any] = _plain(config.to_dict())
    if name:
        spec["name"] = name
    counts = json.loads(call("describe_model", json.dumps({"model": spec})))
    total = counts["parameters"]["total"]
    return Description(
        name=counts["name"],
        parameters=total,
        trainable=total,
        dtypes={},
        tied=(),
        units=(),
        spec=spec,
        recipe={},
        tokens=None,
    )


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    """A config as JSON would hold it."""
    plain: dict[str, Any] = json.loads(json.dumps(config, default=str))
    return plain


def _known(config: object, model: nn.Module, recipe: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config, when the core builds the very same parameters from it."""
    if not hasattr(config, "to_dict"):
        return None
    spec = _plain(config.to_dict())
    try:
        counts = json.loads(call("describe_model", json.dumps({"model": spec})))
    except Error:
        return None
    ours = sum(p.numel() for n, p in model.named_parameters() if not _added(n))
    return (
        spec if recipe.get("method") == "qlora" or counts["parameters"]["total"] == ours else None
    )


def _added(name: str) -> bool:
    """Whether PEFT added the parameter."""
    return any(part.startswith("lora_") or part == "modules_to_save" for part in name.split("."))


_FORMATS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def _format(model: nn.Module, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The format of the base parameters, when it is one of the usual."""
    if recipe.get("method") == "qlora":
        return {}
    sizes: Counter[torch.dtype] = Counter()
    for key, parameter in model.named_parameters():
        if not _added(key):
            sizes[parameter.dtype] += parameter.numel()
    most = sizes.most_common(1)
    return {"params_dtype": _FORMATS[most[0][0]]} if most and most[0][0] in _FORMATS else {}
