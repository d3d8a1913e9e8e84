"""What a user has at hand of a model, as the core reads it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ._error import Error
from ._native import call


@runtime_checkable
class Configured(Protocol):
    """A configuration object of Transformers, known by its method."""

    def to_dict(self) -> dict[str, Any]:
        """All settings."""


@runtime_checkable
class Described(Protocol):
    """What ``shardwise.describe`` found out about a module."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The model as the core reads it."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What the module says of the training."""

    @property
    def tokens(self) -> int | None:
        """Tokens of a sample, where they are fixed."""


Model: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Configured | Described"
"""A preset's name, a Hub id, the path of a ``config.json`` or its folder, the config itself as a
mapping or a Transformers object, or what ``shardwise.describe`` returned for a module."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def model_spec(model: Model) -> str | dict[str, Any]:
    """The value of a request's ``model``.

    >>> model_spec("llama-3.1-8b")
    'llama-3.1-8b'
    >>> model_spec({"model_type": "gpt2"})
    {'model_type': 'gpt2'}
    """
    if isinstance(model, Mapping):
        return dict(model)
    if isinstance(model, str | os.PathLike):
        return _named(model)
    if isinstance(model, Described):
        return dict(model.spec)
    if isinstance(model, Configured):
        return model.to_dict()
    raise Error.of(
        "model", "wrong_type", type(model).__name__, "a name, a path, a config or a torch module"
    )


def _named(model: str | os.PathLike[str]) -> str | dict[str, Any]:
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if path.is_file():
        return _read(path)
    name = os.fspath(model)
    if path.suffix == ".json" or not isinstance(model, str):
        raise Error.of("model", "unknown_name", f'"{name}"', "a file that exists")
    if _HUB_ID.fullmatch(name) and not _is_preset(name):
        cached = _from_hub_cache(name)
        return name if cached is None else _read(cached, name)
    return name


def _is_preset(name: str) -> bool:
    try:
        call("describe_model", json.dumps({"model": name}))
    except Error as e:
        return e.code != "unknown_name"
    return True


def _from_hub_cache(name: str) -> Path | None:
    """The config of a model that was downloaded before; nothing is fetched."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    return Path(found) if isinstance(found, str) else None


def _read(path: Path, name: str | None = None) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as e:
        raise Error.of("model", "syntax", f"{path}: {e}", "a file that holds JSON") from e
    if not isinstance(config, dict):
        raise Error.of("model", "wrong_type", path, "a file that holds a JSON object")
    own = path.parent.name if path.name == "config.json" else path.stem
    config.setdefault("name", name or own)
    return config
