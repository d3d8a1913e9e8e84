"""For Lightning's ``Trainer``: the plan as its arguments, and a callback that compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytorch_lightning import Callback

from .._error import Error
from ..formats import Setup
from ._apply import fsdp1_kwargs
from ._watch import Watch

if TYPE_CHECKING:
    import os

    from torch import nn

    from .._results import Estimate, Plan
    from ._units import Units

_PRECISION = {"bf16": "bf16-mixed", "fp16": "16-mixed", "no": "32-true"}


def trainer_kwargs(
    plan: Plan | Estimate, model: nn.Module, *, units: Units = None, **own: Any
) -> dict[str, Any]:
    """Keyword arguments of ``pytorch_lightning.Trainer`` as planned; the caller's go before.

    For FSDP2 Lightning leaves sharding to the module: call ``plan.fully_shard(self,
    mesh=self.device_mesh["data_parallel"])`` in its ``configure_model``.
    """
    setup = Setup.of(plan)
    layout = plan.layout
    settings: dict[str, Any] = {
        "accumulate_grad_batches": setup.gradient_accumulation,
        "precision": _PRECISION[setup.mixed_precision],
        "devices": setup.cluster.gpus_per_node,
        "num_nodes": setup.cluster.nodes,
        "strategy": "auto",
    }
    if layout.sharding == "ddp":
        settings["strategy"] = "ddp"
    elif layout.sharding == "fsdp2":
        from pytorch_lightning.strategies import ModelParallelStrategy

        size = layout.data_parallel_replicate * layout.data_parallel_shard
        settings["strategy"] = ModelParallelStrategy(
            data_parallel_size=size, tensor_parallel_size=1
        )
    elif layout.sharding != "none":
        from pytorch_lightning.strategies import FSDPStrategy

        # The precision is the trainer's to say.
        said = {k: v for k, v in fsdp1_kwargs(plan, model, units).items() if k != "mixed_precision"}
        settings["strategy"] = FSDPStrategy(**said)
    return {**settings, **own}


class PlanCallback(Callback):
    """A Lightning callback that sets gradient accumulation and watches the first steps.

    It raises when the loader's batch is not the planned one, for then the prediction is of another
    run. With ``save`` it keeps what the steps taught in a file.
    """

    def __init__(
        self,
        plan: Plan | Estimate,
        *,
        steps: int = 3,
        save: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self.plan = plan
        self.steps = steps
        self.save = save
        self.watch: Watch | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Sets the accumulation that makes up the global batch."""
        trainer.accumulate_grad_batches = self.plan.best.gradient_accumulation

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Compares the batch with the plan's, and begins to watch."""
        batch, planned = (
            getattr(trainer.train_dataloader, "batch_size", None),
            self.plan.micro_batch,
        )
        if batch is not None and batch != planned:
            raise Error.of("batch_size", "conflict", batch, f"{planned}, as planned")
        self.watch = Watch(self.plan, pl_module, steps=self.steps, save=self.save)
        for optimizer in trainer.optimizers:
            self.watch.optimizer(optimizer)

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
