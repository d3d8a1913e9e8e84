"""Answers that print themselves: as the core's text in a terminal, as HTML in a notebook."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ._applied import Applied
from ._native import call_text
from ._verdict import accepted
from .answers import (
    CalibrateAnswer,
    CatalogRows,
    CompareAnswer,
    CompareLine,
    EstimateAnswer,
    Layout,
    ModelSummary,
    PlanAnswer,
)

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
        """Whether the fullest rank fits its accelerator, be it tightly."""
        return accepted(self.fit.verdict)

    @property
    def best(self) -> Estimate:
        """Itself: what takes a plan takes an estimate too."""
        return self

    def to_pandas(self) -> pd.DataFrame:
        """Every term of memory, step, time and money, one a row. Needs pandas."""
        from ._frame import estimate_frame

        return estimate_frame(self)

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

    def estimate(self) -> Estimate:
        """The best layout's own estimate: the same figures, with the ways to show them."""
        from ._verbs import estimate_request

        return estimate_request(self.estimate_request)

    def to_pandas(
        self, table: Literal["ranked", "front", "scaling", "sensitivity", "changes"] = "ranked"
    ) -> pd.DataFrame:
        """One of the plan's tables, a line a row, amounts in base units. Needs pandas."""
        from ._frame import plan_frame

        return plan_frame(self, table)

    def _repr_html_(self) -> str:
        from ._html import plan_html

        return plan_html(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class SideBySide(_Printed, CompareAnswer):
    """Answers side by side, held against the first."""

    _verb = "compare"
    request: Mapping[str, Any] = field(compare=False)
    """What was asked."""

    def __getitem__(self, name: str) -> CompareLine:
        """The line of that name, as ``step time`` or ``memory: parameters``."""
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(name)

    def to_pandas(self) -> pd.DataFrame:
        """A line a row, an answer a column, amounts in base units. Needs pandas."""
        from ._frame import compare_frame

        return compare_frame(self)

    def _repr_html_(self) -> str:
        from ._html import compare_html

        return compare_html(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class Calibrated(_Printed, CalibrateAnswer):
    """What measured runs taught; plans and estimates take it as ``calibration``."""

    _verb = "calibrate"
    request: Mapping[str, Any] = field(compare=False)
    """What was asked."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the factors to a file, which the command line takes after ``--calibration``."""
        text = json.dumps(asdict(self.calibration), indent=2) + "\n"
        Path(path).write_text(text, encoding="utf-8")


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
