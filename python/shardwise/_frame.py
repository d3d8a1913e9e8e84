"""Answers as pandas frames."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from ._results import Plan
    from .answers import PlanLine


def row(line: PlanLine) -> dict[str, Any]:
    """One plan, flat: the layout's fields beside the figures."""
    flat = asdict(line)
    layout = flat.pop("layout")
    layout["offload"] = " ".join(layout["offload"])
    return {**layout, **flat}


def plan_frame(answer: Plan) -> pd.DataFrame:
    """The ranked plans, best first; amounts in base units."""
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame([row(line) for line in answer.ranked])
    return frame
