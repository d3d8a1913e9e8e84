"""The verbs: one request, one answer, each answered by the core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ._decode import decode
from ._model import Described, Model, model_spec
from ._native import call
from ._results import Catalog, Estimate, ModelDescription, Plan

if TYPE_CHECKING:
    from . import requests


def plan(
    model: Model,
    cluster: str | requests.Machines,
    *,
    seq_len: int | None = None,
    global_batch: int,
    tokens: float | None = None,
    recipe: requests.Recipe | None = None,
    search: requests.Search | None = None,
    run: requests.Run | None = None,
    catalog: requests.CatalogRows | None = None,
) -> Plan:
    """The best layout for the machines, a ranked list, and why not the rest.

    That nothing fits is an answer (``feasible`` is false), not an error.

    Args:
        model: a preset's name, a Hub id, a path, a config, or a described module.
        cluster: as ``8xH100-SXM-80GB`` or ``4 x p5.48xlarge``, or in full.
        seq_len: tokens per sequence; a traced module knows its own.
        global_batch: sequences per optimizer step, all ranks together.
        tokens: tokens to train on; without it only the step is reported.
        recipe: method, number formats, kernels, optimizer.
        search: what may vary, and what is made least.
        run: how much is trained, and at which price.
        catalog: catalogue rows of one's own.

    Raises:
        Error: for a request that cannot be read.

    >>> import shardwise
    >>> best = shardwise.plan("llama-3.1-8b", "8xH100", seq_len=4096, global_batch=64)
    >>> best.feasible, best.micro_batch * best.gradient_accumulation
    (True, 8)
    """
    request = _request(
        **about(model, seq_len, recipe),
        cluster=cluster,
        global_batch=global_batch,
        search=search,
        run=_run(run, tokens),
        catalog=catalog,
    )
    return plan_request(request)


def plan_request(request: Mapping[str, Any]) -> Plan:
    """The plan for a request given whole, as in ``schema/``."""
    return decode(Plan, answer("plan", request), request=request)


def estimate(
    model: Model,
    cluster: str | requests.Machines,
    *,
    seq_len: int | None = None,
    global_batch: int | None = None,
    tokens: float | None = None,
    layout: requests.Layout | None = None,
    recipe: requests.Recipe | None = None,
    run: requests.Run | None = None,
    catalog: requests.CatalogRows | None = None,
) -> Estimate:
    """What one given layout needs: memory, time, money.

    Args:
        model: a preset's name, a Hub id, a path, a config, or a described module.
        cluster: as ``8xH100-SXM-80GB`` or ``4 x p5.48xlarge``, or in full.
        seq_len: tokens per sequence; a traced module knows its own.
        global_batch: sequences per optimizer step; without it one micro-batch a rank.
        tokens: tokens to train on; without it only the step is reported.
        layout: how the work is split; what is left out takes the rest of the cluster.
        recipe: method, number formats, kernels, optimizer.
        run: how much is trained, and at which price.
        catalog: catalogue rows of one's own.

    Raises:
        Error: for a request that cannot be read.

    >>> import shardwise
    >>> layout = {"sharding": "fsdp2", "recompute": "full"}
    >>> it = shardwise.estimate("llama-3.1-8b", "8xH100", seq_len=4096, layout=layout)
    >>> it.fit.verdict, it.layout.data_parallel_shard
    ('fits', 8)
    """
    request = _request(
        **about(model, seq_len, recipe),
        cluster=cluster,
        global_batch=global_batch,
        layout=layout,
        run=_run(run, tokens),
        catalog=catalog,
    )
    return estimate_request(request)


def estimate_request(request: Mapping[str, Any]) -> Estimate:
    """The estimate for a request given whole, as in ``schema/``."""
    return decode(Estimate, answer("estimate", request), request=request)


def catalog(rows: requests.CatalogRows | None = None) -> Catalog:
    """The accelerators, links, cloud shapes and prices that are known, with one's own ``rows``.

    >>> import shardwise
    >>> any(row.id == "h100-sxm" for row in shardwise.catalog().accelerators)
    True
    """
    request = _request(catalog=rows)
    return decode(Catalog, answer("catalog", request), request=request)


def describe_model(model: Model) -> ModelDescription:
    """What a model is made of: exact parameter counts.

    >>> import shardwise
    >>> shardwise.describe_model("llama-3.1-8b").parameters.total
    8030261248
    """
    request = _request(model=model_spec(model))
    return decode(ModelDescription, answer("describe_model", request), request=request)


def about(model: Model, seq_len: int | None, recipe: requests.Recipe | None) -> dict[str, object]:
    """The fields that a model given as a module fills in; what the caller says goes before."""
    if hasattr(model, "named_parameters"):
        from .torch import describe

        model = describe(model)
    if isinstance(model, Described):
        seq_len = seq_len or model.tokens
        recipe = cast("requests.Recipe", {**model.recipe, **(recipe or {})}) or None
    return {"model": model_spec(model), "seq_len": seq_len, "recipe": recipe}


def _run(run: requests.Run | None, tokens: float | None) -> Mapping[str, Any] | None:
    if tokens is None:
        return run
    return {**(run or {}), "tokens": tokens}


def _request(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def answer(verb: str, request: Mapping[str, Any]) -> Any:
    return json.loads(call(verb, to_json(request)))


def to_json(request: Mapping[str, Any]) -> str:
    """The request as JSON text; NumPy's and torch's numbers pass as numbers.

    >>> to_json({"seq_len": 1})
    '{"seq_len": 1}'
    """

    def plain(value: Any) -> Any:
        if hasattr(value, "item"):
            return value.item()
        return str(value)

    return json.dumps(request, default=plain)
