"""Replays the cases of every face through Python; tests/conformance/README.md says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwise import _native

CASES = Path(__file__).resolve().parents[2] / "tests" / "conformance" / "cases"
REQUESTS = sorted(path for path in CASES.glob("*/*.json") if not path.name.endswith(".answer.json"))


def text(path: Path) -> str:
    return path.read_bytes().decode()


def test_there_are_cases():
    assert len(REQUESTS) >= 50


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_kept_bytes(path):
    verb, request = path.parent.name, text(path)
    assert _native.call_json(verb, request) == text(path.with_suffix(".answer.json"))
    prose = path.with_suffix(".answer.txt")
    if prose.exists():
        assert _native.call_text(verb, request) == text(prose)
