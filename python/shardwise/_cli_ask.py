"""The commands that hold one answer against another: why-not, compare."""

from __future__ import annotations

import argparse
import copy
import json
import shlex
from typing import Any

from ._error import Error
from ._fields import assignment, cluster_of, put
from ._model import model_spec
from ._native import call, call_text


def why_not(given: argparse.Namespace, request: dict[str, Any]) -> int:
    """Says why the layout that was asked about is not the plan."""
    layout = request.pop("layout", None)
    if layout is None:
        raise Error.of("layout", "missing_field", "nothing", "a layout, as --sharding ddp")
    answer = json.loads(call("plan", json.dumps({**request, "why_not": [layout]})))
    said = answer["why_not"][0]
    print(json.dumps(said) if given.json else said["reason"])
    if not given.json:
        print(answer["best"]["fit"]["reason"].join((f"The plan, {answer['best']['name']}, ", ".")))
    return 0 if answer["feasible"] else 1


def compare(given: argparse.Namespace, request: dict[str, Any]) -> int:
    """Prints the answers to the request and to each changed one, side by side."""
    asked = [("as asked", request)]
    for changes in given.against:
        changed = copy.deepcopy(request)
        for word in _words(changes):
            field, value = assignment(word)
            put(changed, field, _READ.get(field, _as_it_is)(value))
        asked.append((changes, changed))
    # A layout of its own is estimated; where the batch alone is given, the best plan is found.
    columns = [
        {"name": name, "plan" if "global_batch" in r and "layout" not in r else "estimate": r}
        for name, r in asked
    ]
    text = json.dumps({"requests": columns})
    print(call("compare", text) if given.json else call_text("compare", text), end="")
    if given.json:
        print()
    return 0


def _words(changes: str) -> list[str]:
    try:
        words = shlex.split(changes)
    except ValueError as e:
        raise Error.of("against", "syntax", changes, f"FIELD=VALUE ...: {e}") from e
    if not words or not all("=" in word for word in words):
        raise Error.of("against", "syntax", changes, "FIELD=VALUE ...")
    return words


def _as_it_is(value: object) -> object:
    return value


_READ: dict[str, Any] = {"model": model_spec, "cluster": cluster_of}
