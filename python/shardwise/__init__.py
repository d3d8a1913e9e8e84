"""Plans the training of a model before any GPU is rented.

How to split it over the machines, whether it fits, how long it takes and what it costs.

>>> import shardwise
>>> plan = shardwise.plan("llama-3.1-8b", "8xH100-SXM-80GB", seq_len=8192, global_batch=64)
>>> plan.feasible
True
"""

from __future__ import annotations

from ._error import Error
from ._native import call, call_text, preset_names, version

# typing.TYPE_CHECKING without the cost of importing typing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._cluster import Cluster
    from ._results import Calibrated, Catalog, Estimate, ModelDescription, Plan, SideBySide
    from ._sweep import Sweep, sweep
    from ._verbs import (
        calibrate,
        catalog,
        compare,
        compare_request,
        describe_model,
        estimate,
        estimate_request,
        plan,
        plan_request,
        why_not,
    )
    from .torch import Description, DoesNotFit, describe, prelaunch

__version__ = version()

__all__ = [
    "Calibrated",
    "Catalog",
    "Cluster",
    "Description",
    "DoesNotFit",
    "Error",
    "Estimate",
    "ModelDescription",
    "Plan",
    "SideBySide",
    "Sweep",
    "__version__",
    "calibrate",
    "call",
    "call_text",
    "catalog",
    "compare",
    "compare_request",
    "describe",
    "describe_model",
    "estimate",
    "estimate_request",
    "plan",
    "plan_request",
    "prelaunch",
    "preset_names",
    "sweep",
    "version",
    "why_not",
]

# What is loaded at first use, by the module that holds it: the import stays quick, and torch is
# touched only by those who use it.
_LATER = {
    "torch": ("Description", "DoesNotFit", "describe", "prelaunch"),
    "_cluster": ("Cluster",),
    "_sweep": ("Sweep", "sweep"),
    "_results": ("Calibrated", "Catalog", "Estimate", "ModelDescription", "Plan", "SideBySide"),
    "_verbs": (
        "calibrate",
        "catalog",
        "compare",
        "compare_request",
        "describe_model",
        "estimate",
        "estimate_request",
        "plan",
        "plan_request",
        "why_not",
    ),
}
# Modules that are reached by name without an import of their own.
_SUBMODULES = ("answers", "formats", "requests", "torch")
_HOME = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in _SUBMODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
