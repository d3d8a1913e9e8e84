"""What a plan settled, as a request for an estimate that leaves nothing open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ._verbs import machines, plain

if TYPE_CHECKING:
    from ._results import Estimate, Plan
    from .answers import Cluster

_OPEN = {"search", "alternatives", "why_not", "current"}
"""Fields of a plan's request that an estimate's does not have."""


def recipe_of(answered: Plan | Estimate) -> dict[str, Any]:
    """The recipe of the request, with what the search chose of it."""
    recipe = dict(answered.request.get("recipe") or {})
    chosen = getattr(answered, "chosen", None)
    if chosen is not None:
        recipe |= {"optimizer": chosen.optimizer, "compute": chosen.compute}
    return recipe


def estimate_request_of(answered: Plan | Estimate) -> dict[str, Any]:
    """The request for an estimate that gives the figures of the best plan."""
    best = answered.best
    request = {k: v for k, v in answered.request.items() if k not in _OPEN}
    recipe = recipe_of(answered)
    if recipe:
        request["recipe"] = recipe
    if getattr(answered, "chosen", None) is not None:
        rows = request.get("catalog")
        request["cluster"] = next(
            (m for m in _considered(answered) if _same(machines(m, rows), best.cluster)),
            request["cluster"],
        )
    return plain({**request, "layout": best.layout, "global_batch": best.global_batch})


def _same(one: Cluster, other: Cluster) -> bool:
    """Whether these are the same machines; networks go with them and their number."""
    return replace(one, networks=()) == replace(other, networks=())


def _considered(answered: Plan | Estimate) -> Iterator[str | Mapping[str, Any]]:
    """The machines that a plan may have chosen: those named, and as many nodes of them."""
    best = answered.best.cluster
    rows = answered.request.get("catalog")
    for given in (answered.request["cluster"], *(answered.request.get("alternatives") or ())):
        yield given
        if isinstance(given, Mapping):
            yield {**given, "nodes": best.nodes}
        else:
            named = machines(given, rows)
            place = {"cloud": named.cloud, "region": named.region}
            kind = (
                {"accelerator": named.accelerator, "gpus_per_node": named.gpus_per_node}
                if named.instance is None
                else {"instance": named.instance, **{k: v for k, v in place.items() if v}}
            )
            yield {**kind, "nodes": best.nodes}
    if best.instance is not None:
        shape = {"instance": best.instance, "nodes": best.nodes}
        yield shape
        yield {**shape, "cloud": best.cloud}
        yield {**shape, "cloud": best.cloud, "region": best.region}
