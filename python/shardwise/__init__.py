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
    from ._results import Catalog, Estimate, ModelDescription, Plan
    from ._sweep import Sweep, sweep
    from ._verbs import catalog, describe_model, estimate, estimate_request, plan, plan_request
    from .torch import Description, DoesNotFit, describe, prelaunch

__version__ = version()

__all__ = [
    "Catalog",
    "Cluster",
    "Description",
    "DoesNotFit",
    "Error",
    "Estimate",
    "ModelDescription",
    "Plan",
    "Sweep",
    "__version__",
    "call",
    "call_text",
    "catalog",
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
]

# What is loaded at first use, by the module that holds it: the import stays quick, and torch is
# touched only by those who use it.
_LATER = {
    "torch": ("Description", "DoesNotFit", "describe", "prelaunch"),
    "_cluster": ("Cluster",),
    "_sweep": ("Sweep", "sweep"),
    "_results": ("Catalog", "Estimate", "ModelDescription", "Plan"),
    "_verbs": (
        "catalog",
        "describe_model",
        "estimate",
        "estimate_request",
        "plan",
        "plan_request",
    ),
}
_HOME = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
