"""Answers in a notebook."""

import xml.etree.ElementTree as ET
from html import unescape

import shardwise


def parts(html):
    """The HTML as a tree; it is written so that XML reads it too."""
    return ET.fromstring(html.replace("&#9632;", "x"))


def drawings(tree):
    """The drawings by what they are called."""
    return {svg.attrib["aria-label"].partition(":")[0]: svg for svg in tree.iter("svg")}


ASKED = {"seq_len": 8192, "global_batch": 64, "tokens": 1e10}


def test_a_plan_shows_bars_table_and_reasons():
    plan = shardwise.plan("llama-3.1-8b", "8xH100", **ASKED)
    tree = parts(plan._repr_html_())
    shown = drawings(tree)
    phase = plan.best.memory.phases[plan.best.memory.peak]
    # One rectangle for each part, and the frame.
    bar = shown[f"Memory, peaking at {phase.name}"]
    assert len(list(bar.iter("rect"))) == len(phase.allocated.terms) + 1
    columns = shown["memory through the step"]
    assert len(list(columns.iter("rect"))) == sum(
        len(p.allocated.terms) for p in plan.best.memory.phases
    )
    spent = [t for t in plan.best.step.time.terms if t.amount > 0]
    assert len(list(shown["Step"].iter("rect"))) == len(spent) + 1
    assert {"Hidden behind it", "Run"} <= set(shown)
    assert len(list(tree.iter("tr"))) == len(plan.ranked) + 1
    text = "".join(tree.itertext())
    assert all(unescape(r.reason) in text for r in (*plan.rejected, *plan.neighbours))


def test_the_front_is_filled_and_the_rest_is_hollow():
    plan = shardwise.plan("llama-3.1-8b", "8xH100", **ASKED)
    drawn = drawings(parts(plan._repr_html_()))["Filled"]
    dots = list(drawn.iter("circle"))
    filled = [dot for dot in dots if dot.attrib["fill"] != "none"]
    assert len(filled) == len(plan.front)
    assert len(dots) == len({*map(repr, plan.front), *map(repr, plan.ranked)})
    assert "memory on the device" in "".join(drawn.itertext())
    # Money tells plans apart only where the machines differ.
    plan = shardwise.plan("llama-3.1-8b", "8xH100", alternatives=["8xA100-SXM4-80GB"], **ASKED)
    drawn = drawings(parts(plan._repr_html_()))["Filled"]
    assert "money of the run" in "".join(drawn.itertext())


def test_all_that_a_plan_was_asked_is_shown():
    plan = shardwise.plan(
        "llama-3.1-8b",
        "2x8xH100",
        search={"scaling": True, "sensitivity": True},
        why_not=[{"sharding": "ddp"}],
        current={"sharding": "fsdp2", "recompute": "full"},
        **{**ASKED, "global_batch": 8192},
    )
    tree = parts(plan._repr_html_())
    text = "".join(tree.itertext())
    assert len(list(drawings(tree)["Scaling"].iter("circle"))) == len(plan.scaling.points)
    assert plan.why_not
    assert plan.why_not[0].reason in text
    assert plan.changes
    assert all(c.change in text for c in plan.changes)
    assert plan.sensitivity
    assert all(f"with {s.change}" in text for s in plan.sensitivity)
    assert plan.warnings
    assert all(w.says in text for w in plan.warnings)


def test_a_run_at_risk_shows_its_spread():
    run = {"price": "spot", "faults": {}, "deadline_hours": 60, "offers": True}
    plan = shardwise.plan("llama-3.1-8b", "8xH100", run=run, **ASKED)
    tree = parts(plan._repr_html_())
    text = "".join(tree.itertext())
    ahead = plan.best.run.outlook
    assert {"Time of the run", "Bill"} <= set(drawings(tree))
    assert f"with a chance of {ahead.deadline.chance:.1%}" in text
    assert "99 in 100" in text
    assert all(offer.offer in text for offer in plan.best.run.offers)


def test_a_comparison_is_a_table():
    asked = {"seq_len": 1024, "global_batch": 64}
    plans = [shardwise.plan("gpt2", on, **asked) for on in ("8xH100", "8xA100-SXM4-80GB")]
    table = shardwise.compare(*plans, names=["new", "old"])
    tree = parts(table._repr_html_())
    rows = [[cell.text or "" for cell in row] for row in tree.iter("tr")]
    assert rows[0] == ["", "new", "old", "against the first"]
    assert len(rows) == len(table.lines) + 1
    step = next(row for row in rows if row[0] == "step time")
    assert step[3] == f"x {table['step time'].ratios[1]:.2f}"


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
