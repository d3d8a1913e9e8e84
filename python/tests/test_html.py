"""Answers in a notebook."""

import xml.etree.ElementTree as ET
from html import unescape

import shardwise


def parts(html):
    """The HTML as a tree; it is written so that XML reads it too."""
    return ET.fromstring(html.replace("&#9632;", "x"))


def test_a_plan_shows_bars_table_and_reasons():
    plan = shardwise.plan("llama-3.1-8b", "8xH100", seq_len=8192, global_batch=64, tokens=1e10)
    tree = parts(plan._repr_html_())
    bars = [svg for svg in tree.iter("svg") if "aria-label" in svg.attrib]
    phase = plan.best.memory.phases[plan.best.memory.peak]
    assert len(bars) == 3
    # One rectangle for each part, and the frame.
    assert len(list(bars[0].iter("rect"))) == len(phase.allocated.terms) + 1
    assert len(list(tree.iter("tr"))) == len(plan.ranked) + 1
    text = "".join(tree.itertext())
    assert all(unescape(r.reason) in text for r in plan.rejected)


def test_an_estimate_shows_its_verdict():
    it = shardwise.estimate("llama-3.1-8b", "1xT4", seq_len=64)
    tree = parts(it._repr_html_())
    assert "Does not fit" in "".join(tree.itertext())
    # A bar is never wider than its frame, also when memory is short.
    widths = [float(r.attrib["width"]) for r in next(tree.iter("svg")).iter("rect")]
    assert sum(widths[1:]) <= widths[0] + len(widths)


def test_names_from_outside_are_escaped():
    html = shardwise.estimate(
        {"model_type": "gpt2", "name": "<b>x"}, "H100", seq_len=64
    )._repr_html_()
    assert "<b>" not in html
