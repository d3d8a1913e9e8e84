"""For Transformers' ``Trainer``: the plan as arguments, and a callback that compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainingArguments

from .._error import Error
from ..formats import Setup
from ..formats.transformers import arguments
from ._watch import Watch

if TYPE_CHECKING:
    import os

    from .._results import Estimate, Plan


def training_arguments(plan: Plan | Estimate, **own: Any) -> TrainingArguments:
    """``transformers.TrainingArguments`` as planned; what the caller says goes before."""
    return TrainingArguments(**{**arguments(Setup.of(plan)), **own})


class PlanCallback(TrainerCallback):
    """A ``transformers.TrainerCallback`` that checks the batch and watches the first steps.

    It raises before the first step when the trainer's batch is not the planned one, for then the
    prediction is of another run. With ``save`` it keeps what the steps taught in a file.
    """

    def __init__(
        self,
        plan: Plan | Estimate,
        *,
        steps: int = 3,
        save: str | os.PathLike[str] | None = None,
    ) -> None:
        self.plan = plan
        self.steps = steps
        self.save = save
        self.watch: Watch | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Compares the batch with the plan's."""
        for name, planned in (
            ("per_device_train_batch_size", self.plan.micro_batch),
            ("gradient_accumulation_steps", self.plan.best.gradient_accumulation),
        ):
            if getattr(args, name) != planned:
                raise Error.of(name, "conflict", getattr(args, name), f"{planned}, as planned")
        self.watch = Watch(self.plan, more.get("model"), steps=self.steps, save=self.save)
        if more.get("optimizer") is not None:
            self.watch.optimizer(more["optimizer"])

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Starts the clock."""
        if self.watch is not None:
            self.watch.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Stops it."""
        if self.watch is not None:
            self.watch.end()
