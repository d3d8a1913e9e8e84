"""Answers as pandas frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ._error import Error
from ._results import Estimate
from .answers import PlanLine

if TYPE_CHECKING:
    import pandas as pd

    from ._results import Plan, SideBySide
    from ._sweep import Sweep


def row(line: Any) -> dict[str, Any]:
    """A line of a plan's table, flat: the layout's fields beside the figures."""
    flat: dict[str, Any] = asdict(line)
    layout = flat.pop("layout", {})
    if "offload" in layout:
        layout["offload"] = " ".join(layout["offload"])
    return {**layout, **flat}


def line_of(answer: Estimate) -> PlanLine:
    """An estimate as the line that it would be in a plan's list."""
    run = answer.run
    ahead = None if run is None else run.outlook
    ledger = None if ahead is None else ahead.ledger
    return PlanLine(
        name=answer.name,
        layout=answer.layout,
        machines=None,
        gradient_accumulation=answer.gradient_accumulation,
        memory=answer.memory.device.total,
        headroom=answer.fit.headroom,
        verdict=answer.fit.verdict,
        step_time=answer.step.time.total,
        tokens_per_second=answer.step.tokens / answer.step.time.total,
        mfu=answer.step.mfu,
        run_time=None if run is None else run.time,
        cost=None if run is None or run.cost is None else run.cost.total,
        expected_time=None if ahead is None else ahead.time.total,
        time_p90=None if ahead is None else ahead.time_spread.p90,
        expected_cost=None if ledger is None else ledger.total,
    )


def _frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame(list(rows))
    return frame


def estimate_frame(answer: Estimate) -> pd.DataFrame:
    """Every term, one a row: of what, its name, amount, formula and source."""
    memory, run = answer.memory, answer.run
    parts: list[tuple[str, Any]] = [
        *((f"memory at {phase.name}", phase.allocated) for phase in memory.phases),
        ("memory reserved", memory.reserved),
        ("memory on the device", memory.device),
        ("host memory", memory.host),
        ("step", answer.step.time),
        ("hidden behind the step", answer.step.hidden),
    ]
    if run is not None:
        ahead = run.outlook
        parts += [("cost", run.cost)]
        parts += [] if ahead is None else [("run", ahead.time), ("bill", ahead.ledger)]
    return _frame(
        {"of": of, **asdict(term)}
        for of, terms in parts
        if terms is not None
        for term in terms.terms
    )


def plan_frame(answer: Plan, table: str) -> pd.DataFrame:
    """One of a plan's tables; amounts in base units."""
    if table == "scaling":
        return _frame(map(row, () if answer.scaling is None else answer.scaling.points))
    return _frame(map(row, getattr(answer, table)))


def compare_frame(answer: SideBySide) -> pd.DataFrame:
    """A line a row, an answer a column; equal names are numbered."""
    names = [c.name for c in answer.compared]
    columns = [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]
    frame: pd.DataFrame = _frame(
        {"line": line.name, "unit": line.unit, **dict(zip(columns, line.values, strict=True))}
        for line in answer.lines
    )
    indexed: pd.DataFrame = frame.set_index("line")
    return indexed


def sweep_frame(answers: Sweep) -> pd.DataFrame:
    """One point of a sweep a row: its values, then its best plan's figures."""
    rows = []
    for point, answer in answers:
        if isinstance(answer, Error):
            rows.append({**point, "feasible": False, "error": str(answer)})
            continue
        if isinstance(answer, Estimate):
            figures, feasible = row(line_of(answer)), answer.fits
        else:
            figures, feasible = row(answer.ranked[0]) if answer.ranked else {}, answer.feasible
        # A layout's field may be an axis of the grid; the axis says what was asked.
        rows.append({**figures, **point, "feasible": feasible, "error": None})
    return _frame(rows)
