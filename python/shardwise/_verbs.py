"""The verbs: one request, one answer, each answered by the core."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ._decode import decode
from ._model import Described, Model, model_spec
from ._native import call
from ._results import Calibrated, Catalog, Estimate, ModelDescription, Plan, SideBySide

if TYPE_CHECKING:
    from typing import TypeAlias

    from . import answers, requests

    Learnt: TypeAlias = requests.Calibration | answers.Calibration | Calibrated


def plan(
    model: Model,
    cluster: str | requests.Machines,
    *,
    seq_len: int | None = None,
    global_batch: int,
    tokens: float | None = None,
    recipe: requests.Recipe | None = None,
    search: requests.Search | None = None,
    alternatives: Sequence[str | requests.Machines] | None = None,
    why_not: Sequence[requests.Layout | answers.Layout] | None = None,
    current: requests.Layout | answers.Layout | None = None,
    run: requests.Run | None = None,
    calibration: Learnt | None = None,
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
        alternatives: other machines that the run could have instead.
        why_not: layouts to explain: why not these?
        current: the layout in use; the plan then says what to change first.
        run: how much is trained, at which price, and what may befall it.
        calibration: what ``calibrate`` learnt from measured runs.
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
        alternatives=alternatives,
        why_not=why_not,
        current=current,
        run=_run(run, tokens),
        calibration=_learnt(calibration),
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
    layout: requests.Layout | answers.Layout | None = None,
    recipe: requests.Recipe | None = None,
    run: requests.Run | None = None,
    calibration: Learnt | None = None,
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
        run: how much is trained, at which price, and what may befall it.
        calibration: what ``calibrate`` learnt from measured runs.
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
        calibration=_learnt(calibration),
        catalog=catalog,
    )
    return estimate_request(request)


def estimate_request(request: Mapping[str, Any]) -> Estimate:
    """The estimate for a request given whole, as in ``schema/``."""
    return decode(Estimate, answer("estimate", request), request=request)


def why_not(plan: Plan, layout: requests.Layout | None = None, **fields: Any) -> answers.Rejection:
    """Why a layout is not the plan: in one sentence, with its figure.

    >>> import shardwise
    >>> best = shardwise.plan("llama-3.1-8b", "8xH100", seq_len=4096, global_batch=64)
    >>> shardwise.why_not(best, sharding="ddp").reason
    'DDP: needs 206.80 GiB of 79.10 GiB'

    Args:
        plan: what was planned.
        layout: what is asked about; a shard degree left out takes the ranks that are left.
        **fields: the same as keywords.
    """
    asked = {**plan.request, "why_not": [{**(layout or {}), **fields}]}
    return plan_request(asked).why_not[0]


def machines(
    cluster: str | Mapping[str, Any], rows: requests.CatalogRows | None = None
) -> answers.Cluster:
    """A cluster as the core reads it; any small model will do to ask.

    >>> machines("2x8xH100").nodes
    2
    """
    request = _request(model="gpt2", cluster=cluster, seq_len=1, catalog=rows)
    return estimate_request(request).cluster


def compare(
    *contenders: Plan | Estimate | requests.Contender, names: Sequence[str] = ()
) -> SideBySide:
    """Two or more answers side by side, line by line, held against the first.

    Args:
        *contenders: plans, of which the best layout counts, estimates, or requests for either.
        names: what each is called; without it by its layout.

    Raises:
        Error: for a request that cannot be read.

    >>> import shardwise
    >>> asked = {"seq_len": 4096, "global_batch": 64}
    >>> plans = [shardwise.plan("llama-3.1-8b", on, **asked) for on in ("8xH100", "8xA100-SXM4")]
    >>> table = shardwise.compare(*plans, names=["H100", "A100"])
    >>> table["step time"].ratios[1] > 1.5
    True
    """
    columns: list[dict[str, Any]] = [
        {asked._verb: asked.request} if isinstance(asked, (Plan, Estimate)) else dict(asked)  # noqa: SLF001 - this package's own
        for asked in contenders
    ]
    for column, name in zip(columns, names, strict=False):
        column["name"] = name
    return compare_request(_request(requests=columns))


def compare_request(request: Mapping[str, Any]) -> SideBySide:
    """The comparison for a request given whole, as in ``schema/``."""
    return decode(SideBySide, answer("compare", request), request=request)


def calibrate(runs: Sequence[requests.MeasuredRun]) -> Calibrated:
    """What measured runs teach: a few factors, for later plans and estimates.

    Args:
        runs: each a request for an estimate, with the step time, the peak of tensors, or both, that
            were measured; ``Watch.measured`` is one.

    Raises:
        Error: for a run that cannot be read.

    >>> import shardwise
    >>> run = {"model": "gpt2", "cluster": "8xH100", "seq_len": 1024}
    >>> seen = 1.2 * shardwise.estimate(**run).step.time.total
    >>> learnt = shardwise.calibrate([{"estimate": run, "step_time": seen}])
    >>> shardwise.estimate(**run, calibration=learnt).step.time.total > seen / 1.2
    True
    """
    request = _request(runs=[dict(run) for run in runs])
    return decode(Calibrated, answer("calibrate", request), request=request)


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


def _learnt(calibration: Learnt | None) -> object:
    return calibration.calibration if isinstance(calibration, Calibrated) else calibration


def _request(**fields: object) -> dict[str, Any]:
    """The fields that are given, as plain values."""
    return plain({name: value for name, value in fields.items() if value is not None})


def answer(verb: str, request: Mapping[str, Any]) -> Any:
    """What the core answers, as plain values."""
    return json.loads(call(verb, to_json(request)))


def to_json(request: Mapping[str, Any]) -> str:
    """The request as JSON text; NumPy's and torch's numbers pass as numbers, answers as objects.

    >>> to_json({"seq_len": 1})
    '{"seq_len": 1}'
    """

    def written(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        if hasattr(value, "item"):
            return value.item()
        return str(value)

    return json.dumps(request, default=written)


def plain(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request as JSON would hold it."""
    read: dict[str, Any] = json.loads(to_json(request))
    return read
