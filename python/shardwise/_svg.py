"""Drawings for a notebook, as SVG: sharp, printable, and named in words for those who hear them.

Nothing is computed here but places on the paper. Lines and letters take the reader's own colour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ._palette import hue

if TYPE_CHECKING:
    from .answers import Phase, Term

WIDTH = 640
POINT = hue("parameters")
Show = Callable[[float], str]


def gib(amount: float) -> str:
    """Bytes in GiB.

    >>> gib(3 * 2**30)
    '3.00 GiB'
    """
    return f"{amount / 2.0**30:.2f} GiB"


def seconds(amount: float) -> str:
    """Seconds, in the unit a person would choose.

    >>> seconds(0.25), seconds(90), seconds(7200 * 24)
    ('0.25 s', '90 s', '48.0 h')
    """
    if amount < 1000:
        return f"{amount:.3g} s"
    return f"{amount / 3600:.1f} h" if amount < 100 * 3600 else f"{amount / 86400:.1f} days"


def dollars(amount: float) -> str:
    """US dollars.

    >>> dollars(1234.5)
    '$1,234'
    """
    return f"${amount:,.0f}" if amount >= 100 else f"${amount:,.2f}"


def drawing(label: str, height: int, inside: str) -> str:
    """An SVG as wide as the notebook lets it."""
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="100%" '
        f'viewBox="0 0 {WIDTH} {height}" style="max-width:{WIDTH}px">{inside}</svg>'
    )


def text(x: float, y: float, said: str, *, size: int = 12, anchor: str = "start") -> str:
    """Letters in a drawing."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="currentColor">{escape(said)}</text>'
    )


def bar(title: str, terms: Sequence[Term], whole: float, show: Show, limit: str) -> str:
    """A stacked bar, its parts named below; each part opens into formula and source."""
    x, rects, legend = 0.0, [], []
    for term in terms:
        width = WIDTH * term.amount / whole if whole > 0 else 0.0
        told = f"{escape(term.name)}: {show(term.amount)}"
        fill = hue(term.name)
        rects.append(
            f'<rect x="{x:.1f}" y="0" width="{max(width, 0.5):.1f}" height="22" fill="{fill}">'
            f"<title>{told}\n{escape(term.formula)}\n{escape(term.source)}</title></rect>"
        )
        legend.append(
            f'<span style="white-space:nowrap;margin-right:1em">'
            f'<span style="color:{fill}">&#9632;</span> {told}</span>'
        )
        x += width
    frame = f'<rect width="{WIDTH}" height="22" fill="none" stroke="currentColor"/>'
    label = f"{title}: " + ", ".join(f"{t.name} {show(t.amount)}" for t in terms)
    return (
        f"<div><strong>{escape(title)}</strong> {escape(limit)}</div>"
        f"{drawing(label, 24, frame + ''.join(rects))}"
        f'<div style="font-size:85%">{" ".join(legend)}</div>'
    )


def phases(all_of_them: Sequence[Phase], capacity: float) -> str:
    """What is alive at each instant of a step: a column each; the device's memory is a line."""
    height, low, pad = 180, 140, 30
    whole = max(capacity, *(p.allocated.total for p in all_of_them))
    step = (WIDTH - pad) / len(all_of_them)
    drawn = []
    for i, phase in enumerate(all_of_them):
        y = float(low)
        for term in phase.allocated.terms:
            tall = (low - 20) * term.amount / whole
            y -= tall
            drawn.append(
                f'<rect x="{pad + i * step:.1f}" y="{y:.1f}" width="{step * 0.7:.1f}" '
                f'height="{tall:.1f}" fill="{hue(term.name)}">'
                f"<title>{escape(f'{phase.name}, {term.name}')}: {gib(term.amount)}</title></rect>"
            )
        middle = pad + (i + 0.35) * step
        drawn.append(text(middle, y - 3, gib(phase.allocated.total), size=10, anchor="middle"))
        drawn.append(text(middle, low + 14 + 12 * (i % 2), phase.name, size=10, anchor="middle"))
    line = low - (low - 20) * capacity / whole
    drawn.append(
        f'<path d="M0 {line:.1f}H{WIDTH}" stroke="currentColor" stroke-dasharray="4 3">'
        f"<title>{gib(capacity)} on the device</title></path>"
    )
    label = "memory through the step: " + ", ".join(
        f"{p.name} {gib(p.allocated.total)}" for p in all_of_them
    )
    return drawing(label, height, "".join(drawn))


@dataclass(frozen=True)
class Dot:
    """One point of a plot."""

    x: float
    y: float
    told: str
    filled: bool = True


@dataclass(frozen=True)
class Axis:
    """What an axis counts, and how a figure on it is written."""

    name: str
    show: Show


def plot(title: str, dots: Sequence[Dot], x: Axis, y: Axis, *, joined: bool = False) -> str:
    """Dots over two axes that begin at zero."""
    height, pad, top = 240, 46, 28
    right = max(d.x for d in dots) or 1.0
    high = max(d.y for d in dots) or 1.0

    def place(dot: Dot) -> tuple[float, float]:
        return (
            pad + (WIDTH - 2 * pad) * dot.x / right,
            height - pad - (height - pad - top) * dot.y / high,
        )

    drawn = [
        f'<path d="M{pad} {top}V{height - pad}H{WIDTH - pad}" fill="none" stroke="currentColor"/>',
        text(WIDTH - pad, height - 12, f"{x.name}, to {x.show(right)}", anchor="end"),
        text(4, 14, f"{y.name}, to {y.show(high)}"),
    ]
    if joined:
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in map(place, dots))
        drawn.append(f'<path d="M{path}" fill="none" stroke="{POINT}"/>')
    for dot in dots:
        px, py = place(dot)
        fill = POINT if dot.filled else "none"
        drawn.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{fill}" stroke="{POINT}">'
            f"<title>{escape(dot.told)}</title></circle>"
        )
    label = f"{title}: " + "; ".join(d.told for d in dots)
    return f"<div><strong>{escape(title)}</strong></div>{drawing(label, height, ''.join(drawn))}"
