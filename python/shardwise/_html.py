"""Answers as HTML for a notebook: memory bars, the step's timeline, the plans and their front.

Every figure is the core's; only the arrangement is made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ._error import Error
from ._frame import line_of
from ._results import Estimate
from ._svg import Axis, Dot, bar, dollars, gib, phases, plot, seconds

if TYPE_CHECKING:
    from ._results import Plan, SideBySide
    from ._sweep import Sweep
    from .answers import CompareLine, EstimateAnswer, PlanLine, RunReport, Scaling, Sensitivity

_COUNT = "{:,.0f}".format


def _bars(answer: EstimateAnswer) -> str:
    fit, memory, step = answer.fit, answer.memory, answer.step
    out = ""
    if memory.phases:
        phase = memory.phases[memory.peak]
        out += bar(
            f"Memory, peaking at {phase.name}",
            phase.allocated.terms,
            max(fit.capacity, phase.allocated.total),
            gib,
            f"{gib(memory.device.total)} on the device of {gib(fit.capacity)}",
        )
        if len(memory.phases) > 1:
            out += phases(memory.phases, fit.capacity)
    spent = [t for t in step.time.terms if t.amount > 0]
    hidden = [t for t in step.hidden.terms if t.amount > 0]
    whole = max(step.time.total, step.hidden.total)
    out += bar("Step", spent, whole, seconds, f"{seconds(step.time.total)}, MFU {step.mfu:.1%}")
    if hidden:
        out += bar("Hidden behind it", hidden, whole, seconds, seconds(step.hidden.total))
    return out + ("" if answer.run is None else _run(answer.run))


def _run(run: RunReport) -> str:
    """The run: what it costs undisturbed, and what it may come to."""
    out = ""
    if run.cost is not None:
        spent = [t for t in run.cost.terms if t.amount > 0]
        out += bar("Run", spent, run.cost.total, dollars, f"{seconds(run.time)} undisturbed")
    ahead = run.outlook
    if ahead is not None:
        spent = [t for t in ahead.time.terms if t.amount > 0]
        limit = f"{seconds(ahead.time.total)} expected"
        if ahead.deadline is not None:
            chance = f"{ahead.deadline.chance:.1%}"
            limit += f"; within {seconds(ahead.deadline.after)} with a chance of {chance}"
        out += bar("Time of the run", spent, ahead.time.total, seconds, limit)
        if ahead.ledger is not None:
            owed = [t for t in ahead.ledger.terms if t.amount > 0]
            total = ahead.ledger.total
            out += bar("Bill", owed, total, dollars, f"{dollars(total)} expected")
        spreads = [("time", ahead.time_spread, seconds)]
        if ahead.cost_spread is not None:
            spreads.append(("cost", ahead.cost_spread, dollars))
        rows = [[name, show(s.p50), show(s.p90), show(s.p99)] for name, s, show in spreads]
        out += _table(("", "1 in 2 below", "9 in 10", "99 in 100"), rows)
    if run.offers:
        head = ("offer", "per hour", "expected time", "cost", "owed in all")
        rows = [
            [
                o.offer,
                dollars(3600 * o.price),
                seconds(o.time),
                dollars(o.cost),
                "" if o.committed is None else dollars(o.committed),
            ]
            for o in run.offers
        ]
        out += _table(head, rows)
    return out


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}>{escape(c)}</{tag}>" for c in row)

    body = "".join(f"<tr>{cells('td', r)}</tr>" for r in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _named(line: PlanLine) -> str:
    """The layout, and what else was chosen for it."""
    said = [line.name if line.machines is None else f"{line.name} on {line.machines}"]
    said += [word for word in (line.optimizer, line.compute) if word is not None]
    said += [] if line.global_batch is None else [f"batch {line.global_batch}"]
    return ", ".join(said)


def _row(i: int, line: PlanLine) -> list[str]:
    layout = line.layout
    return [
        str(i),
        _named(line),
        str(layout.micro_batch),
        str(line.gradient_accumulation),
        layout.recompute,
        gib(line.memory),
        gib(line.headroom),
        seconds(line.step_time),
        _COUNT(line.tokens_per_second),
        f"{line.mfu:.1%}",
        "" if line.run_time is None else seconds(line.expected_time or line.run_time),
        "" if line.cost is None else dollars(line.expected_cost or line.cost),
    ]


_HEAD = (
    "#",
    "layout",
    "micro-batch",
    "accumulation",
    "recompute",
    "memory",
    "headroom",
    "step",
    "tokens/s",
    "MFU",
    "run",
    "cost",
)


def _pareto(answer: Plan) -> str:
    """The front filled, the other ranked plans hollow: money against time, or memory against time.

    Money tells plans apart only where machines differ.
    """
    lines = [*answer.front, *(p for p in answer.ranked if p not in answer.front)]
    if len(lines) < 2:
        return ""
    money = all(p.cost is not None for p in lines) and any(p.machines for p in lines)
    across = Axis("money of the run", dollars) if money else Axis("memory on the device", gib)
    dots = [
        Dot(
            (line.cost or 0.0) if money else line.memory,
            line.step_time,
            f"{_named(line)}, micro-batch {line.layout.micro_batch}, recompute "
            f"{line.layout.recompute}: {seconds(line.step_time)}, {gib(line.memory)}"
            + ("" if line.cost is None else f", {dollars(line.cost)}"),
            filled=i < len(answer.front),
        )
        for i, line in enumerate(lines)
    ]
    title = "Filled: none is better in time, money and memory left"
    return plot(title, dots, across, Axis("step time", seconds))


def _scaling(scaling: Scaling) -> str:
    dots = [
        Dot(
            p.gpus,
            p.tokens_per_second,
            f"{p.gpus} GPUs, {p.name}: {_COUNT(p.tokens_per_second)} tokens/s, "
            f"{p.efficiency:.0%} of the first point's for each GPU",
        )
        for p in scaling.points
    ]
    said = []
    if scaling.knee is not None:
        said.append(f"The knee is at {scaling.knee} GPUs.")
    if scaling.half is not None:
        said.append(f"Past {scaling.half} GPUs the next brings less than half of the first.")
    axes = Axis("GPUs", _COUNT), Axis("tokens/s", _COUNT)
    return plot("Scaling", dots, *axes, joined=True) + f"<p>{escape(' '.join(said))}</p>"


def _changed(s: Sensitivity) -> list[str]:
    return [
        f"with {s.change}",
        (s.name or "nothing fits") if s.other_plan or s.name is None else "the same plan",
        "" if s.step_time is None else seconds(s.step_time),
        "" if s.tokens_per_second is None else _COUNT(s.tokens_per_second),
        "" if s.cost is None else dollars(s.cost),
    ]


def estimate_html(answer: Estimate) -> str:
    """An estimate: the verdict, the memory bars, the step's timeline, the run."""
    return f"<div><p>{escape(answer.text.splitlines()[0])}</p>{_bars(answer)}</div>"


def plan_html(answer: Plan) -> str:
    """A plan: the best one's bars, the lists, the front, the curves, why not the others."""
    out = [f"<p>{escape(answer.text.splitlines()[0])}</p>", _bars(answer.best)]
    if answer.ranked:
        out.append(_table(_HEAD, (_row(i, line) for i, line in enumerate(answer.ranked, 1))))
        out.append(_pareto(answer))
    if answer.scaling is not None and answer.scaling.points:
        out.append(_scaling(answer.scaling))
    if answer.sensitivity:
        head = ("", "plan", "step", "tokens/s", "cost")
        out.append(_table(head, map(_changed, answer.sensitivity)))
    changes = [
        f"{c.change}: {seconds(c.step_time)} a step"
        + ("" if c.saves is None else f", {seconds(c.saves)} less")
        + ("" if c.saves_money is None else f", {dollars(c.saves_money)} over the run")
        for c in answer.changes
    ]
    for title, said in (
        ("Asked about", [r.reason for r in answer.why_not]),
        ("Change first", changes),
        ("Mind", [f"{w.says} ({w.source})" for w in answer.warnings]),
        ("Why not", [r.reason for r in answer.rejected]),
        ("One change away", [r.reason for r in answer.neighbours]),
        ("Would fit with", answer.nearest_changes),
    ):
        if said:
            items = "".join(f"<li>{escape(s)}</li>" for s in said)
            out.append(f'<details open="open"><summary>{title}</summary><ul>{items}</ul></details>')
    return f"<div>{''.join(out)}</div>"


_UNITS = {
    "bytes": gib,
    "seconds": seconds,
    "usd": dollars,
    "count": _COUNT,
    "share": "{:.1%}".format,
}


def _compared(line: CompareLine) -> list[str]:
    show = _UNITS[line.unit]
    out = [line.name]
    for i, (value, ratio) in enumerate(zip(line.values, line.ratios, strict=True)):
        out.append("" if value is None else show(value))
        if i:
            out.append("" if ratio is None else f"x {ratio:.2f}")
    return out


def compare_html(answer: SideBySide) -> str:
    """A comparison: who is compared, and line by line the figures, held against the first."""
    said = "".join(
        f"<li><strong>{escape(c.name)}</strong>: {escape(c.model)} on {escape(c.cluster)}, "
        f"{escape(c.layout)}: {escape(c.reason)}</li>"
        for c in answer.compared
    )
    head = ["", answer.compared[0].name]
    for c in answer.compared[1:]:
        head += [c.name, "against the first"]
    return f"<div><ol>{said}</ol>{_table(head, map(_compared, answer.lines))}</div>"


def sweep_html(answers: Sweep) -> str:
    """A sweep: one point a row, with its best plan."""
    head = [*answers.axes, *_HEAD[1:]]
    rows = []
    for point, answer in answers:
        values = [str(v) for v in point.values()]
        if isinstance(answer, Error):
            rows.append([*values, str(answer), *[""] * (len(_HEAD) - 2)])
        elif isinstance(answer, Estimate):
            rows.append([*values, *_row(1, line_of(answer))[1:]])
        elif not answer.ranked:
            rows.append([*values, answer.best.fit.reason, *[""] * (len(_HEAD) - 2)])
        else:
            rows.append([*values, *_row(1, answer.ranked[0])[1:]])
    return _table(head, rows)
