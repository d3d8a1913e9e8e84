"""After the first real steps: the prediction beside what was measured, and what that teaches."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, cast

import torch

from ._counted import Counted

if TYPE_CHECKING:
    from torch import nn

    from .._results import Calibrated, Estimate, Plan
    from ..requests import EstimateRequest, MeasuredRun


_LEAST = 1e6
"""Bytes from which a peak teaches anything: the least that the verb ``calibrate`` takes."""


@dataclass(frozen=True)
class Comparison:
    """Predicted and measured, in bytes and seconds."""

    predicted_memory: float
    """Peak of tensors on the fullest rank."""

    measured_memory: float | None
    """The same as allocated on this rank; none without a GPU where the watch knows no model."""

    predicted_step: float
    measured_step: float

    def __str__(self) -> str:
        said = []
        if self.measured_memory is not None:
            off = self.predicted_memory / self.measured_memory - 1.0
            said.append(
                f"peak {self.measured_memory / 2**20:,.1f} MiB allocated, "
                f"{self.predicted_memory / 2**20:,.1f} predicted ({off:+.1%})"
            )
        off = self.predicted_step / self.measured_step - 1.0
        said.append(
            f"step {self.measured_step:.3g} s, {self.predicted_step:.3g} predicted ({off:+.1%})"
        )
        return "shardwise: " + "; ".join(said)


class Watch:
    """Measures a few optimizer steps and compares them with the plan.

    The first step is not timed: it allocates and compiles. On a GPU the peak is
    ``torch.cuda.max_memory_allocated`` of the steps after it. On the CPU the second step is not
    timed either: in it every allocation is counted, to the byte::

        watch = plan.watch(model).optimizer(optimizer)
        for batch in loader:
            with watch.step():
                ...

    With ``save`` rank 0 keeps what the steps taught in a file that ``SHARDWISE_CALIBRATION`` names
    to later launches.
    """

    def __init__(
        self,
        answer: Plan | Estimate,
        model: nn.Module | None = None,
        *,
        steps: int = 3,
        save: str | os.PathLike[str] | None = None,
    ) -> None:
        self.answer = answer
        self._save = save
        self.comparison: Comparison | None = None
        self._model = model
        self._optimizers: list[torch.optim.Optimizer] = []
        self._steps = max(steps, 2)
        self._seen = 0
        self._times: list[float] = []
        self._memory: float | None = None
        self._started = 0.0
        self._counted: Counted | None = None

    def optimizer(self, optimizer: torch.optim.Optimizer) -> Watch:
        """Names the optimizer, whose states a run without a GPU counts too."""
        self._optimizers.append(optimizer)
        return self

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """One optimizer step."""
        self.begin()
        yield
        self.end()

    def begin(self) -> None:
        """A step begins."""
        if self._seen == 1 and self.comparison is None:
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            elif self._model is not None:
                self._counted = Counted(self._model, self._optimizers)
        self._started = time.perf_counter()

    def end(self) -> None:
        """A step has ended; after the last that is watched, rank 0 prints the comparison."""
        if self.comparison is not None:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            self._memory = float(torch.cuda.max_memory_allocated())
        took = time.perf_counter() - self._started
        if self._counted is not None:
            self._memory = self._counted.peak()
            self._counted = None
        elif self._seen > 0:
            self._times.append(took)
        self._seen += 1
        if self._seen > self._steps:
            self._compare()

    def _compare(self) -> None:
        best = self.answer.best
        self.comparison = Comparison(
            predicted_memory=best.memory.allocated,
            measured_memory=self._memory,
            predicted_step=best.step.time.total,
            measured_step=median(self._times),
        )
        if _first_rank():
            print(self.comparison, file=sys.stderr)
            if self._save is not None:
                self.calibrate().save(self._save)

    @property
    def measured(self) -> MeasuredRun:
        """This run as ``shardwise.calibrate`` takes it: what was asked, and what was measured."""
        if self.comparison is None:
            raise RuntimeError(f"nothing measured yet: {self._steps + 1} steps are needed")
        # What an earlier calibration taught is learnt anew.
        asked = {
            k: v for k, v in self.answer.estimate_request.items() if k not in {"calibration", "run"}
        }
        run: MeasuredRun = {
            "estimate": cast("EstimateRequest", asked),
            "step_time": self.comparison.measured_step,
        }
        memory = self.comparison.measured_memory
        # Of a toy model the core takes no reading.
        if memory is not None and memory > _LEAST:
            run["allocated"] = memory
        return run

    def calibrate(self, others: Sequence[MeasuredRun] = ()) -> Calibrated:
        """What this run teaches, together with ``others`` measured before.

        Its ``calibration`` goes into later plans::

            shardwise.plan(..., calibration=watch.calibrate())
        """
        from .._verbs import calibrate

        return calibrate([*others, self.measured])


def _first_rank() -> bool:
    import torch.distributed as dist

    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
