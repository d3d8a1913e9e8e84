"""The shared cases: the same bytes as from every other face."""

from pathlib import Path

import pytest

import shardwise

CASES = Path(__file__).resolve().parents[2] / "tests" / "conformance" / "cases"
REQUESTS = sorted(p for p in CASES.glob("*/*.json") if not p.name.endswith(".answer.json"))


def call_json(verb, request):
    """The answer or the fault, as every face prints it."""
    try:
        return f'{{"answer":{shardwise.call(verb, request)}}}'
    except shardwise.Error as e:
        return f'{{"error":{e.args[0]}}}'


def test_there_are_cases():
    assert len(REQUESTS) > 10


@pytest.mark.parametrize("path", REQUESTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_case(path):
    verb, request = path.parent.name, path.read_text(encoding="utf-8")
    answer = path.with_suffix(".answer.json").read_text(encoding="utf-8")
    assert call_json(verb, request) == answer
    text = path.with_suffix(".answer.txt")
    if text.exists():
        assert shardwise.call_text(verb, request) == text.read_text(encoding="utf-8")
