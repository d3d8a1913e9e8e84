"""What a tool's file says, or the error that names the place where it says something else."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from .._error import Error


def whole(field: str, given: object) -> int:
    """A whole number.

    >>> whole("num_nodes", "4")
    4
    """
    try:
        return int(given if isinstance(given, (int, float)) else str(given))
    except (ValueError, OverflowError) as e:
        raise Error.of(f"config.{field}", "wrong_type", _short(given), "a whole number") from e


def section(given: Mapping[str, Any], field: str) -> dict[str, Any]:
    """A mapping within the file; nothing where there is none."""
    value = given.get(field)
    if not value:
        return {}
    if not isinstance(value, dict):
        raise Error.of(f"config.{field}", "wrong_type", _short(value), "a mapping")
    return value


def words(text: str) -> list[str]:
    """A command line's words."""
    try:
        return shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as e:
        raise Error.of("config", "syntax", e, "words as a shell reads them") from e


def _short(given: object) -> str:
    return str(given)[:60]
