"""The generated types are those of the schema, and hold what the core answers."""

import dataclasses
import json
import sys

import pytest

import shardwise
from shardwise import answers
from shardwise._decode import decode


def generator(root):
    sys.path.insert(0, str(root / "python" / "tools"))
    import generate_types

    return generate_types


def test_generated_modules_are_up_to_date(root):
    for path, text in generator(root).modules().items():
        assert path.read_text() == text, f"run python tools/generate_types.py: {path.name}"


def test_every_answer_field_of_the_schema_is_a_dataclass_field(root):
    definitions = generator(root).load(root / "schema", "answer")
    checked = 0
    for name, schema in definitions.items():
        kind = getattr(answers, name, None)
        if kind is None or "properties" not in schema:
            continue
        assert {f.name for f in dataclasses.fields(kind)} == set(schema["properties"]), name
        checked += 1
    assert checked > 30


def undo(value):
    """A dataclass as JSON would show it."""
    if dataclasses.is_dataclass(value):
        return {f.name: undo(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [undo(v) for v in value]
    return value


def without_none(value):
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items() if v is not None and v != []}
    return [without_none(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("verb", "kind", "request_"),
    [
        (
            "plan",
            answers.PlanAnswer,
            {"model": "gpt2", "cluster": "2x8xH100", "seq_len": 1024, "global_batch": 64},
        ),
        (
            "estimate",
            answers.EstimateAnswer,
            {"model": "gpt2", "cluster": "p5.48xlarge", "seq_len": 64, "run": {"tokens": 1e9}},
        ),
        ("describe_model", answers.ModelSummary, {"model": "mixtral-8x7b"}),
    ],
)
def test_answers_survive_decoding(verb, kind, request_):
    value = json.loads(shardwise.call(verb, json.dumps(request_)))
    # Absent fields come back as none; every given one must be there.
    assert without_none(undo(decode(kind, value))) == without_none(value)


def test_catalog_rows_survive_decoding():
    value = json.loads(shardwise.call("catalog", "{}"))
    read = undo(decode(answers.CatalogRows, value))
    # Absent fields come back as none; every given one must be there.
    assert read["schema_version"] == value.pop("schema_version")
    for table, rows in value.items():
        for given, got in zip(rows, read[table], strict=True):
            assert given.items() <= got.items()


def test_answers_are_frozen():
    answer = shardwise.describe_model("gpt2")
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.name = "other"
