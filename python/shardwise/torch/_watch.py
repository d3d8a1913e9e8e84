"""After the first real steps: the prediction beside what was measured."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import nn

    from .._results import Estimate, Plan


@dataclass(frozen=True)
class Comparison:
    """Predicted and measured, in bytes and seconds."""

    predicted_memory: float
    measured_memory: float | None
    predicted_step: float
    measured_step: float
    kind: str = "allocated"
    """What was measured: ``allocated`` by torch, or ``resident`` in the process."""

    def __str__(self) -> str:
        said = []
        if self.measured_memory is not None:
            off = self.predicted_memory / self.measured_memory - 1.0
            said.append(
                f"peak {self.measured_memory / 2**20:,.1f} MiB {self.kind}, "
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
    ``torch.cuda.max_memory_allocated``. On the CPU a process alone is counted by torch's memory
    tracker in its second step, to the byte; of several, resident memory is read, which also holds
    what the allocator and gloo keep and so is coarse. (Under the tracker the ranks of FSDP2 on
    gloo wait for each other forever.)::

        watch = plan.watch(model)
        for batch in loader:
            with watch.step():
                ...
    """

    def __init__(
        self, answer: Plan | Estimate, model: nn.Module | None = None, *, steps: int = 3
    ) -> None:
        self.answer = answer
        self.comparison: Comparison | None = None
        self._model = model
        self._optimizers: list[torch.optim.Optimizer] = []
        self._steps = max(steps, 2)
        self._seen = 0
        self._times: list[float] = []
        self._memory: float | None = None
        self._started = 0.0
        # Of several processes without a GPU: bytes at rest in the model, less what is resident.
        self._resting: float | None = None
        if model is not None and not torch.cuda.is_available() and _ranks() > 1:
            self._resting = _bytes(model) - _resident("VmRSS")

    def optimizer(self, optimizer: torch.optim.Optimizer) -> Watch:
        """Names the optimizer, whose states a run without a GPU counts too."""
        self._optimizers.append(optimizer)
        return self

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """One optimizer step."""
        counted = self._resting is None and self._seen == 1 and self._model is not None
        counted = counted and not torch.cuda.is_available()
        with self._counted() if counted else contextlib.nullcontext():
            self.begin()
            yield
            self.end(timed=not counted)

    def begin(self) -> None:
        """A step begins."""
        if self._seen == 1 and torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        self._started = time.perf_counter()

    def end(self, *, timed: bool = True) -> None:
        """A step has ended; after the last that is watched, rank 0 prints the comparison."""
        if self.comparison is not None:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            self._memory = float(torch.cuda.max_memory_allocated())
        elif self._resting is not None:
            self._memory = self._resting + _resident("VmHWM")
        if self._seen > 0 and timed:
            self._times.append(time.perf_counter() - self._started)
        self._seen += 1
        if self._seen > self._steps and self._times:
            self._compare()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        from torch.distributed._tools.mem_tracker import MemTracker

        tracker = MemTracker()
        watched = [] if self._model is None else [self._model]
        tracker.track_external(*watched, *self._optimizers)
        with tracker:
            yield
        peak = tracker.get_tracker_snapshot("peak")
        self._memory = float(sum(held["Total"] for held in peak.values()))

    def _compare(self) -> None:
        best = self.answer.best
        self.comparison = Comparison(
            predicted_memory=best.memory.allocated,
            measured_memory=self._memory,
            predicted_step=best.step.time.total,
            measured_step=median(self._times),
            kind="allocated" if self._resting is None else "resident",
        )
        if _first_rank():
            print(self.comparison, file=sys.stderr)

    def cluster(self) -> dict[str, Any]:
        """The plan's cluster with what was seen.

        Memory that the prediction did not know of is no longer counted as free, so that the next
        plan keeps clear of it.
        """
        if self.comparison is None or self.comparison.measured_memory is None:
            raise RuntimeError(f"nothing measured yet: {self._steps + 1} steps are needed")
        best = self.answer.best
        unseen = max(0.0, self.comparison.measured_memory - self.comparison.predicted_memory)
        return {
            "accelerator": best.cluster.accelerator,
            "nodes": best.cluster.nodes,
            "gpus_per_node": best.cluster.gpus_per_node,
            "usable_gib": (best.fit.capacity - unseen) / 2**30,
        }


def _bytes(model: nn.Module) -> float:
    """Bytes of this rank's share of parameters and buffers."""
    tensors = (*model.parameters(), *model.buffers())
    local = (t.to_local() if hasattr(t, "to_local") else t for t in tensors)
    return float(sum(t.numel() * t.element_size() for t in local))


def _resident(field: str) -> float:
    """Resident bytes of this process, now (``VmRSS``) or at most so far (``VmHWM``)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return float(line.split()[1]) * 1024.0
    return 0.0


def _ranks() -> int:
    import torch.distributed as dist

    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _first_rank() -> bool:
    import torch.distributed as dist

    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
