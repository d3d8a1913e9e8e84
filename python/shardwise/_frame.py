"""Answers as pandas frames."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ._error import Error

if TYPE_CHECKING:
    import pandas as pd

    from ._results import Plan
    from ._sweep import Sweep
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


def sweep_frame(answers: Sweep) -> pd.DataFrame:
    """One point of a sweep a row: its values, then its best plan's figures."""
    import pandas as pd

    rows = []
    for point, plan in answers:
        if isinstance(plan, Error):
            rows.append({**point, "feasible": False, "error": str(plan)})
            continue
        best = plan.ranked[0] if plan.ranked else None
        figures = {} if best is None else row(best)
        # A layout's field may be an axis of the grid; the axis says what was asked.
        rows.append({**figures, **point, "feasible": plan.feasible, "error": None})
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame
