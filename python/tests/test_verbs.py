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


def test_a_plan_takes_all_that_the_core_asks():
    plan = shardwise.plan(
        "llama-3.1-8b",
        "8xA100-SXM4-80GB",
        alternatives=["8xH100"],
        why_not=[{"sharding": "ddp"}],
        current={"sharding": "zero3", "recompute": "full"},
        search={"scaling": True, "sensitivity": True},
        **ASKED,
    )
    assert plan.best.cluster.accelerator == "h100-sxm"
    assert {line.machines for line in plan.front} >= {str(plan.ranked[0].machines)}
    assert "DDP" in plan.why_not[0].name
    assert plan.changes[0].saves > 0
    assert plan.scaling.points[0].efficiency == 1.0
    assert {s.change for s in plan.sensitivity} >= {"half the global batch"}


@pytest.mark.parametrize(
    "left_open",
    [
        {},
        {"alternatives": ["8xH100"]},
        {"search": {"nodes": [1, 2]}, "tokens": 1e9},
        {"search": {"instances": ["p5.48xlarge"]}},
        {"search": {"instances": ["any"], "objective": "cost"}, "tokens": 1e9},
        {"search": {"optimizers": ["adamw", "adamw_8bit"], "computes": ["bf16", "fp32"]}},
        {"search": {"global_batch_range": [32, 256]}},
        {"search": {"nodes": [1, 2]}, "cluster": {"accelerator": "h100-sxm", "gpus_per_node": 8}},
        {"search": {"nodes": [1, 4]}, "cluster": "2 x p4de.24xlarge@us-east-1"},
    ],
)
def test_the_choice_is_a_request_that_gives_the_same_figures(left_open):
    asked = {"cluster": "8xA100-SXM4-80GB", **ASKED, **left_open}
    plan = shardwise.plan("llama-3.1-8b", **asked)
    it = shardwise.estimate_request(plan.estimate_request)
    assert it.cluster.nodes == plan.best.cluster.nodes
    assert it.cluster.instance == plan.best.cluster.instance
    assert it.global_batch == plan.best.global_batch
    assert it.step == plan.best.step
    assert it.memory == plan.best.memory
    assert it == plan.estimate()


def test_a_layout_of_an_answer_can_be_asked_again():
    plan = shardwise.plan("gpt2", "8xH100", **ASKED)
    it = shardwise.estimate("gpt2", "8xH100", layout=plan.layout, **ASKED)
    assert it.step == plan.best.step


def test_why_not_says_a_figure_or_a_rule():
    plan = shardwise.plan("llama-3.1-8b", "8xH100", **ASKED)
    said = shardwise.why_not(plan, sharding="ddp")
    assert said.shortfall > 0
    assert "needs" in said.reason
    said = shardwise.why_not(plan, {"sharding": "fsdp2"}, expert_parallel=8)
    assert said.rule == "experts"
    assert said.shortfall is None


def test_a_comparison_is_held_against_the_first():
    one = shardwise.estimate("gpt2", "8xH100", seq_len=512, layout={"sharding": "ddp"})
    two = shardwise.plan("gpt2", "8xH100", seq_len=512, global_batch=64)
    table = shardwise.compare(one, two, names=["mine", "best"])
    assert [c.name for c in table.compared] == ["mine", "best"]
    line = table["step time"]
    assert line.values == (one.step.time.total, two.best.step.time.total)
    assert line.ratios[0] == 1
    assert str(table) == shardwise.call_text("compare", json.dumps(table.request))
    with pytest.raises(KeyError):
        table["no such line"]
    with pytest.raises(shardwise.Error) as caught:
        shardwise.compare(one)
    assert caught.value.field == "requests"


def test_what_measured_runs_teach_goes_into_later_requests(tmp_path):
    run = {"model": "llama-3.1-8b", "cluster": "8xH100", "seq_len": 4096}
    before = shardwise.estimate(**run)
    seen = 1.3 * before.step.time.total
    memory = 1.1 * before.memory.allocated
    learnt = shardwise.calibrate([{"estimate": run, "step_time": seen, "allocated": memory}])
    assert learnt.after < learnt.before
    after = shardwise.estimate(**run, calibration=learnt)
    assert before.step.time.total < after.step.time.total < seen
    assert before.memory.allocated_interval80 != after.memory.allocated_interval80
    assert shardwise.estimate(**run, calibration=learnt.calibration) == after
    learnt.save(tmp_path / "learnt.json")
    saved = json.loads((tmp_path / "learnt.json").read_text())
    assert shardwise.estimate(**run, calibration=saved) == after
    plan = shardwise.plan(**run, global_batch=64, calibration=learnt)
    assert plan.request["calibration"] == saved
    assert shardwise.estimate_request(plan.estimate_request).step == plan.best.step
