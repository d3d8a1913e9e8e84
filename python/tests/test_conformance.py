"""The shared cases: the same bytes as from every other face."""

import hashlib
import json
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


def test_requests_drawn_at_random_keep_their_answers():
    lines = (CASES.parent / "drawn.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 300
    for i, line in enumerate(lines):
        verb, digest, request = line.split(" ", 2)
        answer = call_json(verb, request)
        assert hashlib.sha256(answer.encode()).hexdigest()[:16] == digest, f"drawn.txt:{i + 1}"


def refusals():
    """The refusals of every file: place, verb, request, what is said."""
    for path in sorted((CASES.parent / "errors").iterdir()):
        lines = path.read_text(encoding="utf-8").split("\n")
        for i, line in enumerate(lines):
            if line and not line.startswith("    "):
                verb, _, request = line.partition(" ")
                yield f"{path.name}:{i + 1}", verb, request, lines[i + 1][4:]


def test_every_refusal_says_the_kept_words():
    seen = 0
    for place, verb, request, kept in refusals():
        with pytest.raises(shardwise.Error) as caught:
            shardwise.call(verb, request)
        error = json.loads(caught.value.args[0])
        assert f"{error['code']}: {error['message']}" == kept, place
        seen += 1
    assert seen >= 400
