"""What the command line takes: fields of a request by their path, and files that hold them."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ._error import Error


def value_of(text: str) -> Any:
    """A number, list or truth value as JSON writes it, else the text itself.

    >>> value_of("8"), value_of("true"), value_of("fsdp2")
    (8, True, 'fsdp2')
    """
    try:
        return json.loads(text)
    except ValueError:
        return text


def assignment(text: str) -> tuple[str, Any]:
    """A path and its value.

    >>> assignment("recipe.lora.rank=32")
    ('recipe.lora.rank', 32)
    """
    field, equals, value = text.partition("=")
    if not (field and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=VALUE")
    return field, value_of(value)


def put(request: dict[str, Any], path: str, value: object) -> None:
    """Sets the field at a path as ``recipe.lora.rank``."""
    *outer, last = path.split(".")
    for name in outer:
        inner = request.setdefault(name, {})
        if not isinstance(inner, dict):
            raise Error.of(path, "conflict", inner, f"{name} as an object")
        request = inner
    request[last] = value


def json_file(path: str, field: str) -> Any:
    """What a file holds; its fault is that of the field."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs at start
            return json.load(file)
    except (OSError, ValueError) as e:
        raise Error.of(field, "syntax", f"{path}: {e}", "a file that holds JSON") from e


def cluster_of(text: str) -> Any:
    """A cluster by name, or the contents of a cluster file."""
    return json_file(text, "cluster") if text.endswith(".json") else text
