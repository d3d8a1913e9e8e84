"""Grids of plans."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import shardwise
from shardwise._frame import line_of

OVER = {"cluster": ["H100", "8xH100"], "recipe.optimizer": ["adamw", "adamw_8bit"]}


def test_a_grid_is_every_combination_in_order():
    grid = shardwise.sweep("gpt2", over=OVER, seq_len=1024, global_batch=64, tokens=1e9)
    assert [tuple(point.values()) for point, _ in grid] == [
        (c, o) for c in OVER["cluster"] for o in OVER["recipe.optimizer"]
    ]
    point, plan = list(grid)[3]
    alone = shardwise.plan(
        "gpt2",
        point["cluster"],
        seq_len=1024,
        global_batch=64,
        tokens=1e9,
        recipe={"optimizer": point["recipe.optimizer"]},
    )
    assert plan == alone


def test_an_executor_changes_nothing():
    asked = {"over": OVER, "seq_len": 1024, "global_batch": 64}
    with ThreadPoolExecutor(2) as pool:
        assert (
            shardwise.sweep("gpt2", executor=pool, **asked).results
            == shardwise.sweep("gpt2", **asked).results
        )


def test_progress_is_told():
    seen = []
    shardwise.sweep(
        "gpt2",
        "H100",
        over={"seq_len": [64, 128, 256]},
        global_batch=8,
        progress=lambda done, whole: seen.append((done, whole)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_point_that_cannot_be_asked_holds_its_error():
    grid = shardwise.sweep("gpt2", over={"cluster": ["H100", "Z9000"]}, seq_len=64, global_batch=8)
    assert isinstance(grid.results[0], shardwise.Plan)
    assert isinstance(grid.results[1], shardwise.Error)
    assert "Z9000" in grid._repr_html_()


def test_layouts_are_estimated(capsys):
    over = {"layout.sharding": ["ddp", "fsdp2"], "layout.micro_batch": [1, 2]}
    grid = shardwise.sweep("gpt2", "8xH100", over=over, seq_len=512, progress=True)
    assert capsys.readouterr().err.endswith("4 of 4\n")
    for point, it in grid:
        assert it.layout.sharding == point["layout.sharding"]
        assert it.layout.micro_batch == point["layout.micro_batch"]
        layout = {"sharding": it.layout.sharding, "micro_batch": it.layout.micro_batch}
        assert it == shardwise.estimate("gpt2", "8xH100", seq_len=512, layout=layout)
        # As the core would list it.
        line = line_of(it)
        plan = shardwise.plan(
            "gpt2",
            "8xH100",
            seq_len=512,
            global_batch=it.global_batch,
            search={"shardings": [it.layout.sharding], "recompute": ["none"]}
            | {"micro_batches": [it.layout.micro_batch]},
        )
        assert line == plan.ranked[0]
    assert grid._repr_html_().count("<tr>") == 5


def test_tables_of_answers():
    pytest.importorskip("pandas")
    plan = shardwise.plan(
        "llama-3.1-8b",
        "8xH100",
        seq_len=4096,
        global_batch=64,
        tokens=1e9,
        search={"scaling": True, "sensitivity": True},
        current={"sharding": "fsdp2"},
    )
    for name, rows in {
        "front": plan.front,
        "scaling": plan.scaling.points,
        "sensitivity": plan.sensitivity,
        "changes": plan.changes,
    }.items():
        assert len(plan.to_pandas(name)) == len(rows) > 0
    terms = plan.estimate().to_pandas()
    step = terms[terms["of"] == "step"]
    assert step["amount"].sum() == pytest.approx(plan.best.step.time.total)
    assert set(terms.columns) == {"of", "name", "amount", "formula", "source"}
    table = shardwise.compare(plan, plan).to_pandas()
    assert table.loc["step time"].iloc[1] == table.loc["step time"].iloc[2]


def test_frames():
    pytest.importorskip("pandas")
    over = {"cluster": ["H100", "8xH100", "T4", "Z9000"]}
    grid = shardwise.sweep("llama-3.1-8b", over=over, seq_len=1024, global_batch=64)
    frame = grid.to_pandas()
    assert list(frame["cluster"]) == over["cluster"]
    assert list(frame["feasible"]) == [False, True, False, False]
    assert frame["error"].notna().tolist() == [False, False, False, True]
    plan = grid.results[1]
    ranked = plan.to_pandas()
    assert len(ranked) == len(plan.ranked)
    assert ranked["step_time"].is_monotonic_increasing
