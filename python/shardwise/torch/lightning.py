"""For Lightning's ``Trainer``: a callback that sets the accumulation and compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytorch_lightning import Callback

from ._watch import Watch

if TYPE_CHECKING:
    from .._results import Estimate, Plan


class PlanCallback(Callback):
    """A Lightning callback that sets gradient accumulation and watches the first steps."""

    def __init__(self, plan: Plan | Estimate, *, steps: int = 3) -> None:
        super().__init__()
        self.plan = plan
        self.steps = steps
        self.watch: Watch | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Sets the accumulation that makes up the global batch."""
        trainer.accumulate_grad_batches = self.plan.best.gradient_accumulation

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begins to watch."""
        self.watch = Watch(self.plan, pl_module, steps=self.steps)

    def on_train_batch_start(
        self,
        trainer: Any,
        pl_module: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Starts the clock with the first micro-batch of a step."""
        if self.watch is not None and batch_idx % self.plan.best.gradient_accumulation == 0:
            self.watch.begin()

    def on_train_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Stops it with the last."""
        accumulation = self.plan.best.gradient_accumulation
        if self.watch is not None and batch_idx % accumulation == accumulation - 1:
            self.watch.end()
