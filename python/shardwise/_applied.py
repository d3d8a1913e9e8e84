"""What a plan is good for in a script: its numbers, and itself applied to a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import os

    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh

    from ._results import Estimate, Plan
    from .answers import EstimateAnswer
    from .torch import Units, Watch


class Applied:
    """Methods of plans and estimates alike. All but the numbers need torch."""

    @property
    def _opened(self) -> EstimateAnswer:
        return cast("Plan | Estimate", self).best

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the request, with what the search chose of it."""
        from ._settled import recipe_of

        return recipe_of(cast("Plan | Estimate", self))

    @property
    def estimate_request(self) -> dict[str, Any]:
        """The layout as a request for an estimate: it gives the plan's very figures."""
        from ._settled import estimate_request_of

        return estimate_request_of(cast("Plan | Estimate", self))

    @property
    def micro_batch(self) -> int:
        """Sequences a data-parallel rank works on at once."""
        return self._opened.layout.micro_batch

    def apply(
        self, model: nn.Module, *, mesh: DeviceMesh | None = None, units: Units = None
    ) -> nn.Module:
        """The module as planned: DDP, FSDP1, FSDP2 or by itself, with its units recomputed."""
        from .torch import apply

        return apply(cast("Plan | Estimate", self), model, mesh=mesh, units=units)

    def fully_shard(
        self, model: nn.Module, *, mesh: DeviceMesh | None = None, units: Units = None
    ) -> nn.Module:
        """FSDP2 as planned: units, mesh, mixed precision, resharding, offload, recompute."""
        from .torch import apply_fully_shard

        return apply_fully_shard(cast("Plan | Estimate", self), model, mesh=mesh, units=units)

    def fsdp1_kwargs(self, model: nn.Module, units: Units = None) -> dict[str, Any]:
        """Keyword arguments of ``FullyShardedDataParallel`` as planned."""
        from .torch import fsdp1_kwargs

        return fsdp1_kwargs(cast("Plan | Estimate", self), model, units)

    def checkpoint_activations(self, model: nn.Module, units: Units = None) -> int:
        """Wraps the units that the plan recomputes; gives how many."""
        from .torch import checkpoint_activations

        return checkpoint_activations(cast("Plan | Estimate", self), model, units)

    def dataloader_kwargs(self) -> dict[str, Any]:
        """Keyword arguments of ``DataLoader`` for each rank."""
        from .torch import dataloader_kwargs

        return dataloader_kwargs(cast("Plan | Estimate", self))

    def watch(
        self,
        model: nn.Module | None = None,
        *,
        steps: int = 3,
        save: str | os.PathLike[str] | None = None,
    ) -> Watch:
        """Compares the prediction with the first real steps; ``save`` keeps what they teach."""
        from .torch import Watch

        return Watch(cast("Plan | Estimate", self), model, steps=steps, save=save)

    def export(self, to: str, *, layer_classes: Sequence[str] = ()) -> str:
        """The layout in the words of a tool: ``accelerate``, ``deepspeed``, ``torchtitan``, ..."""
        from .formats import export

        return export(cast("Plan | Estimate", self), to, layer_classes=layer_classes)
