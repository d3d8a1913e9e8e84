"""Plain YAML of mappings, lists and scalars, so that writing needs no library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .._error import Error


def dump(value: Mapping[str, Any], indent: int = 0) -> str:
    """A mapping as block YAML; texts of several lines stand as they are.

    >>> print(dump({"a": {"b": True, "c": [1]}, "d": "x"}), end="")
    a:
      b: true
      c: [1]
    d: x
    """
    pad = "  " * indent
    out = []
    for key, item in value.items():
        if isinstance(item, Mapping):
            out.append(f"{pad}{key}:\n{dump(item, indent + 1)}")
        elif isinstance(item, str) and "\n" in item:
            lines = "".join(f"{pad}  {line}\n" if line else "\n" for line in item.splitlines())
            out.append(f"{pad}{key}: |\n{lines}")
        else:
            out.append(f"{pad}{key}: {_scalar(item)}\n")
    return "".join(out)


def _scalar(item: object) -> str:
    if isinstance(item, str):
        plain = item.replace("_", "").replace("-", "").replace(".", "").replace("/", "")
        words = {"true", "false", "yes", "no", "null", "on", "off", "y", "n"}
        safe = plain.isalnum() and not plain[0].isdigit() and item.lower() not in words
        return item if safe else json.dumps(item)
    if isinstance(item, Sequence):
        return f"[{', '.join(_scalar(i) for i in item)}]"
    return json.dumps(item)


def load(text: str, field: str = "config") -> dict[str, Any]:
    """Reads YAML; JSON is YAML too. Anything beyond JSON needs PyYAML."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            import yaml
        except ImportError as e:
            raise Error.of(field, "syntax", "YAML", "JSON, or install PyYAML") from e
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as e:
            raise Error.of(field, "syntax", e, "YAML text") from e
    if not isinstance(value, dict):
        raise Error.of(field, "wrong_type", type(value).__name__, "a mapping")
    return value
