"""Answers that print themselves: as the core's text in a terminal, as HTML in a notebook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ._applied import Applied
from ._native import call_text
from .answers import CatalogRows, EstimateAnswer, Layout, ModelSummary, PlanAnswer

if TYPE_CHECKING:
    import pandas as pd


class _Printed:
    """An answer that keeps its request, so that the core can print it."""

    request: Mapping[str, Any]
    _verb: str

    @cached_property
    def text(self) -> str:
        """The answer as the core prints it."""
        return call_text(self._verb, json.dumps(self.request))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(_Printed, EstimateAnswer, Applied):
    """What one layout needs."""

    _verb = "estimate"
    request: Mapping[str, Any] = field(compare=False)
    """What was asked."""

    @property
    def fits(self) -> bool:
        """Whether the fullest rank fits its accelerator."""
        return self.fit.headroom >= 0

    @property
    def best(self) -> Estimate:
        """Itself: what takes a plan takes an estimate too."""
        return self

    def _repr_html_(self) -> str:
        from ._html import estimate_html

        return estimate_html(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(_Printed, Applied, PlanAnswer):
    """The best layout, the next best, and why not the others."""

    _verb = "plan"
    request: Mapping[str, Any] = field(compare=False)
    """What was asked."""

    @property
    def layout(self) -> Layout:
        """The best layout."""
        return self.best.layout

    @property
    def gradient_accumulation(self) -> int:
        """Micro-batches per optimizer step on each data-parallel rank."""
        return self.best.gradient_accumulation

    def to_pandas(self) -> pd.DataFrame:
        """The ranked plans, one a row. Needs pandas."""
        from ._frame import plan_frame

        return plan_frame(self)

    def _repr_html_(self) -> str:
        from ._html import plan_html

        return plan_html(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class Catalog(_Printed, CatalogRows):
    """The accelerators, links, cloud shapes and prices that are known."""

    _verb = "catalog"
    request: Mapping[str, Any] = field(compare=False)
    """What was asked."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelDescription(_Printed, ModelSummary):
    """What a model is made of."""

    _verb = "describe_model"
    request: Mapping[str, Any] = field(compare=False)
    """What was asked."""
