"""Plans or estimates over a grid: every combination of values, in order, in parallel if asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from ._decode import decode
from ._error import Error
from ._results import Estimate, Plan
from ._verbs import about, answer, plain

if TYPE_CHECKING:
    import pandas as pd

    from ._model import Model


@dataclass(frozen=True)
class Sweep:
    """Answers of a grid, in its order; a point that cannot be asked holds its error."""

    axes: Mapping[str, Sequence[Any]]
    """The values of each axis, by the path of its field."""

    points: tuple[Mapping[str, Any], ...]
    """The value on each axis, point by point."""

    results: tuple[Plan | Estimate | Error, ...] = field(repr=False)
    """What came out, point by point."""

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[tuple[Mapping[str, Any], Plan | Estimate | Error]]:
        return iter(zip(self.points, self.results, strict=True))

    def to_pandas(self) -> pd.DataFrame:
        """One point a row: its values, and its best plan's figures in base units. Needs pandas."""
        from ._frame import sweep_frame

        return sweep_frame(self)

    def _repr_html_(self) -> str:
        from ._html import sweep_html

        return sweep_html(self)


def sweep(
    model: Model | None = None,
    cluster: object = None,
    *,
    over: Mapping[str, Sequence[Any]],
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | bool = False,
    **request: Any,
) -> Sweep:
    """Plans every combination of the values in ``over``.

    Where a ``layout`` is given, or a field of it is an axis, these are estimates of it.

    Args:
        model: as for ``plan``, unless it is an axis.
        cluster: as for ``plan``, unless it is an axis.
        over: values by the path of their field, as ``cluster`` or ``recipe.optimizer``.
        executor: any ``concurrent.futures`` executor, those of Dask and Ray too; threads suffice
            here, for the core lets others run while it searches.
        progress: called with (done, all) after each point; true counts on stderr.
        **request: the other fields of the request.

    >>> grid = sweep("gpt2", over={"cluster": ["H100", "8xH100"]}, seq_len=1024, global_batch=64)
    >>> [(point["cluster"], plan.feasible) for point, plan in grid]
    [('H100', True), ('8xH100', True)]
    """
    tell = _counter if progress is True else progress or None
    points = [dict(zip(over, values, strict=True)) for values in product(*over.values())]
    asked = [_request(model, cluster, request, point) for point in points]
    results: list[Plan | Estimate | Error] = []
    outcomes = map(_ask, asked) if executor is None else executor.map(_ask, asked)
    for done, (outcome, fields) in enumerate(zip(outcomes, asked, strict=True), 1):
        results.append(outcome if isinstance(outcome, Error) else _read(outcome, fields))
        if tell is not None:
            tell(done, len(points))
    return Sweep(over, tuple(points), tuple(results))


def _request(
    model: Model | None, cluster: object, fixed: Mapping[str, Any], point: Mapping[str, Any]
) -> dict[str, Any]:
    request: dict[str, Any] = {"model": model, "cluster": cluster, **fixed}
    if "tokens" in request:
        request["run"] = {**request.get("run", {}), "tokens": request.pop("tokens")}
    for path, value in point.items():
        *outer, last = path.split(".")
        inner = request
        for name in outer:
            inner[name] = dict(inner.get(name) or {})
            inner = inner[name]
        inner[last] = value
    request |= about(request["model"], request.get("seq_len"), request.get("recipe"))
    return plain({name: value for name, value in request.items() if value is not None})


def _ask(request: Mapping[str, Any]) -> Any:
    """One point, as plain values that pass between processes."""
    try:
        return answer("estimate" if "layout" in request else "plan", request)
    except Error as e:
        return e


def _read(outcome: Any, request: Mapping[str, Any]) -> Plan | Estimate:
    if "layout" in request:
        return decode(Estimate, outcome, request=request)
    return decode(Plan, outcome, request=request)


def _counter(done: int, whole: int) -> None:
    end = "\n" if done == whole else ""
    print(f"\r{done} of {whole}", end=end, file=sys.stderr, flush=True)
