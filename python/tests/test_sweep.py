"""Grids of plans."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import shardwise

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
