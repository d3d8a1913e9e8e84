"""Reads the core's JSON into the generated dataclasses."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any], Any]


def decode(kind: type[T], value: Mapping[str, Any], **more: object) -> T:
    """The dataclass of that kind that a JSON object holds, with further fields from ``more``.

    >>> from shardwise.answers import Assumption
    >>> decode(Assumption, {"field": "cluster.nodes", "value": "2", "why": "usual"}).value
    '2'
    """
    fields = {name: read(value[name]) for name, read in _readers(kind).items() if name in value}
    return kind(**fields, **more)


_KNOWN: dict[type, dict[str, Reader]] = {}


def _readers(kind: type) -> dict[str, Reader]:
    """How each field of a dataclass is read."""
    if kind not in _KNOWN:
        hints = get_type_hints(kind)
        fields = dataclasses.fields(kind)
        _KNOWN[kind] = {f.name: _reader(hints[f.name]) for f in fields}
    return _KNOWN[kind]


def _reader(hint: object) -> Reader:
    """How a value of that type is read; plain values pass as they are."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return lambda value: decode(hint, value)
    if get_origin(hint) is tuple:
        item = _reader(get_args(hint)[0])
        return lambda value: tuple(item(v) for v in value)
    if get_origin(hint) in {Union, types.UnionType}:
        inner = [_reader(a) for a in get_args(hint) if a is not type(None)]
        if len(inner) == 1:
            return lambda value: None if value is None else inner[0](value)
    return lambda value: value
