"""Answers as HTML for a notebook: the memory bar, the step's timeline, the plans.

Every figure is the core's; only the drawing is made here. Colours are the reader's own theme
where possible, and each part of a bar is also named in words below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ._error import Error

if TYPE_CHECKING:
    from ._results import Estimate, Plan
    from ._sweep import Sweep
    from .answers import EstimateAnswer, PlanLine, Term

_HUES = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#97bbf5", "#9c6b4e")
_GIB = 2.0**30
_WIDTH = 640


def gib(amount: float) -> str:
    """Bytes in GiB.

    >>> gib(3 * 2**30)
    '3.00 GiB'
    """
    return f"{amount / _GIB:.2f} GiB"


def _seconds(amount: float) -> str:
    return f"{amount:.3g} s"


def _bar(title: str, terms: Sequence[Term], whole: float, unit: str, limit: str) -> str:
    """A stacked bar as SVG, its parts named below."""
    show = gib if unit == "bytes" else _seconds
    x, rects, legend = 0.0, [], []
    for i, term in enumerate(terms):
        width = _WIDTH * term.amount / whole if whole > 0 else 0.0
        hue = _HUES[i % len(_HUES)]
        told = f"{escape(term.name)}: {show(term.amount)}"
        rects.append(
            f'<rect x="{x:.1f}" y="0" width="{max(width, 0.5):.1f}" height="22" fill="{hue}">'
            f"<title>{told}\n{escape(term.formula)}\n{escape(term.source)}</title></rect>"
        )
        legend.append(
            f'<span style="white-space:nowrap;margin-right:1em">'
            f'<span style="color:{hue}">&#9632;</span> {told}</span>'
        )
        x += width
    label = escape(f"{title}: " + ", ".join(f"{t.name} {show(t.amount)}" for t in terms))
    return (
        f"<div><strong>{escape(title)}</strong> {escape(limit)}</div>"
        f'<svg role="img" aria-label="{label}" width="100%" viewBox="0 0 {_WIDTH} 24" '
        f'style="max-width:{_WIDTH}px"><rect width="{_WIDTH}" height="22" fill="none" '
        f'stroke="currentColor"/>{"".join(rects)}</svg>'
        f'<div style="font-size:85%">{"".join(legend)}</div>'
    )


def _bars(answer: EstimateAnswer) -> str:
    fit, memory, step = answer.fit, answer.memory, answer.step
    out = ""
    if memory.phases:
        phase = memory.phases[memory.peak]
        whole = max(fit.capacity, phase.allocated.total)
        out += _bar(
            f"Memory, peaking at {phase.name}",
            phase.allocated.terms,
            whole,
            "bytes",
            f"{gib(memory.device.total)} on the device of {gib(fit.capacity)}",
        )
    spent = [t for t in step.time.terms if t.amount > 0]
    return out + _bar(
        "Step", spent, step.time.total, "s", f"{_seconds(step.time.total)}, MFU {step.mfu:.1%}"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}>{escape(c)}</{tag}>" for c in row)

    body = "".join(f"<tr>{cells('td', r)}</tr>" for r in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _row(i: int, line: PlanLine) -> list[str]:
    layout = line.layout
    return [
        str(i),
        layout.sharding,
        str(layout.micro_batch),
        str(line.gradient_accumulation),
        layout.recompute,
        gib(line.memory),
        gib(line.headroom),
        _seconds(line.step_time),
        f"{line.tokens_per_second:,.0f}",
        f"{line.mfu:.1%}",
        "" if line.run_time is None else f"{line.run_time / 3600:.1f}",
        "" if line.cost is None else f"${line.cost:,.0f}",
    ]


_HEAD = (
    "#",
    "sharding",
    "micro-batch",
    "accumulation",
    "recompute",
    "memory",
    "headroom",
    "step",
    "tokens/s",
    "MFU",
    "hours",
    "cost",
)


def _pareto(lines: Sequence[PlanLine], capacity: float) -> str:
    """Memory against step time, one dot a plan; those that no other beats in both are filled."""
    if len(lines) < 2:
        return ""
    height, pad = 220, 40
    slowest = max(line.step_time for line in lines)
    dots = []
    for i, line in enumerate(lines, 1):
        beaten = any(
            o.step_time <= line.step_time and o.memory <= line.memory and o != line for o in lines
        )
        x = pad + (_WIDTH - 2 * pad) * line.memory / capacity
        y = height - pad - (height - 2 * pad) * line.step_time / slowest
        fill = "none" if beaten else _HUES[0]
        told = escape(
            f"{i}: {line.layout.sharding}, {gib(line.memory)}, {_seconds(line.step_time)}"
        )
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}" stroke="{_HUES[0]}">'
            f'<title>{told}</title></circle><text x="{x + 7:.1f}" y="{y + 4:.1f}" '
            f'font-size="11" fill="currentColor">{i}</text>'
        )
    axis = (
        f'<path d="M{pad} {pad / 2}V{height - pad}H{_WIDTH - pad}" fill="none" '
        f'stroke="currentColor"/><text x="{_WIDTH / 2}" y="{height - 8}" font-size="12" '
        f'text-anchor="middle" fill="currentColor">memory, to {gib(capacity)}</text>'
        f'<text x="{pad}" y="{pad / 2 - 6}" font-size="12" fill="currentColor">'
        f"step time, to {_seconds(slowest)}</text>"
    )
    return (
        f'<svg role="img" aria-label="step time against memory of {len(lines)} plans" '
        f'width="100%" viewBox="0 0 {_WIDTH} {height}" style="max-width:{_WIDTH}px">'
        f"{axis}{''.join(dots)}</svg>"
    )


def estimate_html(answer: Estimate) -> str:
    """An estimate: the verdict, the memory bar, the step's timeline."""
    return f"<div><p>{escape(answer.text.splitlines()[0])}</p>{_bars(answer)}</div>"


def plan_html(answer: Plan) -> str:
    """A plan: the best one's bars, the ranked list, the Pareto plot, why not the others."""
    out = [f"<p>{escape(answer.text.splitlines()[0])}</p>", _bars(answer.best)]
    if answer.ranked:
        out.append(_table(_HEAD, (_row(i, line) for i, line in enumerate(answer.ranked, 1))))
        out.append(_pareto(answer.ranked, answer.best.fit.capacity))
    for title, said in (
        ("Why not", [r.reason for r in answer.rejected]),
        ("Would fit with", answer.nearest_changes),
    ):
        if said:
            items = "".join(f"<li>{escape(s)}</li>" for s in said)
            out.append(f'<details open="open"><summary>{title}</summary><ul>{items}</ul></details>')
    return f"<div>{''.join(out)}</div>"


def sweep_html(answers: Sweep) -> str:
    """A sweep: one point a row, with its best plan."""
    head = [*answers.axes, *_HEAD[1:]]
    rows = []
    for point, plan in answers:
        values = [str(v) for v in point.values()]
        if isinstance(plan, Error):
            rows.append([*values, str(plan), *[""] * (len(_HEAD) - 2)])
        elif not plan.ranked:
            rows.append([*values, plan.best.fit.reason, *[""] * (len(_HEAD) - 2)])
        else:
            rows.append([*values, *_row(1, plan.ranked[0])[1:]])
    return _table(head, rows)
