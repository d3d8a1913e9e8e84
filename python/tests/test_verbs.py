"""The verbs, their errors, and what they take for a model."""

import json
import pickle
import threading

import pytest

import shardwise

ASKED = {"seq_len": 2048, "global_batch": 64}


def test_a_plan_prints_as_the_core_does():
    plan = shardwise.plan("gpt2", "8xH100", tokens=1e9, **ASKED)
    asked = {"model": "gpt2", "cluster": "8xH100", "run": {"tokens": 1e9}, **ASKED}
    assert str(plan) == repr(plan) == shardwise.call_text("plan", json.dumps(asked))
    assert plan.ranked[0].layout == plan.layout


def test_a_plan_covers_the_global_batch():
    plan = shardwise.plan("gpt2", "8xH100", **ASKED)
    ranks = plan.layout.data_parallel_replicate * plan.layout.data_parallel_shard
    assert plan.micro_batch * plan.gradient_accumulation * ranks == ASKED["global_batch"]


def test_nothing_fits_is_an_answer():
    plan = shardwise.plan("llama-3.1-405b", "1xT4", seq_len=128, global_batch=1)
    assert not plan.feasible
    assert plan.best.fit.headroom < 0


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"model": "no-such"}, "model", "unknown_name"),
        ({"cluster": "8xZ9000"}, "cluster", "unknown_name"),
        ({"seq_len": 0}, "seq_len", "out_of_range"),
        ({"seq_len": "long"}, "seq_len", "wrong_type"),
        ({"recipe": {"optimizer": "magic"}}, "recipe.optimizer", "unknown_name"),
        ({"recipe": {"lora": {"rnk": 4}}}, "recipe.lora.rnk", "unknown_field"),
    ],
)
def test_errors_carry_the_path_of_the_field(change, field, code):
    asked = {"model": "gpt2", "cluster": "8xH100", **ASKED, **change}
    with pytest.raises(shardwise.Error) as caught:
        shardwise.plan(**asked)
    e = caught.value
    assert (e.field, e.code) == (field, code)
    assert str(e) == e.message
    assert e.given in str(e)
    assert e.allowed in str(e)


def test_an_error_survives_a_process_boundary():
    with pytest.raises(shardwise.Error) as caught:
        shardwise.describe_model("no-such")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.field, str(again)) == (caught.value.field, str(caught.value))


GPT2 = {"model_type": "gpt2", "n_layer": 2}


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_model_from_a_path(tmp_path, place):
    (tmp_path / "tiny").mkdir()
    path = tmp_path / "tiny" / "config.json"
    path.write_text(json.dumps(GPT2))
    given = path if place == "file" else str(path.parent)
    model = shardwise.describe_model(given)
    assert model.name == "tiny"
    assert model.parameters == shardwise.describe_model(GPT2).parameters


def test_a_hub_id_names_its_preset():
    assert shardwise.describe_model("meta-llama/Llama-3.1-8B").name == "llama-3.1-8b"


def test_a_hub_id_is_looked_up_in_the_local_cache(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GPT2))
    monkeypatch.setattr(
        hub, "try_to_load_from_cache", lambda repo, name: str(path) if repo == "me/own" else None
    )
    assert shardwise.describe_model("me/own").name == "me/own"
    with pytest.raises(shardwise.Error, match="me/other"):
        shardwise.describe_model("me/other")


@pytest.mark.parametrize(
    ("given", "code"), [("missing.json", "unknown_name"), (7, "wrong_type"), (None, "wrong_type")]
)
def test_a_model_that_is_none(given, code):
    with pytest.raises(shardwise.Error) as caught:
        shardwise.describe_model(given)
    assert (caught.value.field, caught.value.code) == ("model", code)


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_file_that_holds_no_config(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(shardwise.Error) as caught:
        shardwise.describe_model(path)
    assert caught.value.field == "model"


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    plan = shardwise.plan("gpt2", "H100", seq_len=numpy.int64(64), global_batch=numpy.int32(8))
    assert plan.best.seq_len == 64


def test_the_search_lets_other_threads_run():
    asked = {"model": "llama-3.1-8b", "cluster": "128xH100", "seq_len": 4096, "global_batch": 4096}
    asked["search"] = {"tensor_parallel": [1, 2, 4, 8], "pipeline_parallel": [1, 2, 4, 8]}
    running = threading.Event()
    searcher = threading.Thread(
        target=lambda: (shardwise.call("plan", json.dumps(asked)), running.set())
    )
    searcher.start()
    turns = 0
    while not running.is_set():
        turns += 1
    searcher.join()
    # Under a held interpreter lock this thread would get at most a turn or two.
    assert turns > 100


def test_own_catalogue_rows():
    rows = {
        "accelerators": [
            {"id": "mine", "memory_gb": 64, "bandwidth_gb_s": 1000, "bf16_tflops": 100}
        ]
    }
    assert shardwise.catalog(rows).accelerators[-1].id in {"mine", "v100-sxm-32"} or any(
        a.id == "mine" for a in shardwise.catalog(rows).accelerators
    )
    plan = shardwise.plan("gpt2", "4xmine", catalog=rows, **ASKED)
    assert plan.best.cluster.accelerator == "mine"
