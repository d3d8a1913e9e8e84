"""Applies a plan's layout to a module: sharding, activation checkpointing, data loading."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .._error import Error
from ._units import Units, find_units

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from .._results import Estimate, Plan
    from ..answers import Layout

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def _layout(answer: Plan | Estimate) -> Layout:
    return answer.layout


def compute_dtype(answer: Plan | Estimate) -> torch.dtype:
    """Format of the matrix products, as parameters and activations hold it."""
    return DTYPES.get(str(answer.recipe.get("compute", "bf16")), torch.bfloat16)


def reduce_dtype(answer: Plan | Estimate) -> torch.dtype:
    """Format in which gradients are reduced: fp32 unless the recipe says otherwise."""
    return DTYPES[str(answer.recipe.get("reduce_dtype") or "fp32")]


def _sharded_by(answer: Plan | Estimate, *names: str) -> None:
    sharding = _layout(answer).sharding
    if sharding not in names:
        raise Error.of("layout.sharding", "conflict", sharding, " or ".join(names))


def device_mesh(answer: Plan | Estimate, device: str | None = None) -> DeviceMesh:
    """The mesh of the data-parallel ranks: two dimensions where there are replicas."""
    from torch.distributed.device_mesh import init_device_mesh

    layout = _layout(answer)
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if layout.data_parallel_replicate > 1:
        sizes = (layout.data_parallel_replicate, layout.data_parallel_shard)
        return init_device_mesh(kind, sizes, mesh_dim_names=("replicate", "shard"))
    return init_device_mesh(kind, (layout.data_parallel_shard,), mesh_dim_names=("shard",))


def checkpoint_activations(answer: Plan | Estimate, model: nn.Module, units: Units = None) -> int:
    """Wraps the units that the plan recomputes; gives how many."""
    return _checkpoint(model, _recomputed(answer, model, units))


def _recomputed(answer: Plan | Estimate, model: nn.Module, units: Units) -> list[nn.Module]:
    layout = _layout(answer)
    if layout.recompute == "none":
        return []
    if layout.recompute != "full":
        raise Error.of(
            "layout.recompute", "conflict", layout.recompute, "none or full for a module"
        )
    return list(find_units(model, units).values())[:: layout.recompute_every]


def _checkpoint(model: nn.Module, chosen: list[nn.Module]) -> int:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        CheckpointImpl,
        apply_activation_checkpointing,
        checkpoint_wrapper,
    )

    wrapped = {id(module) for module in chosen}
    wrap = partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    apply_activation_checkpointing(
        model, checkpoint_wrapper_fn=wrap, check_fn=lambda module: id(module) in wrapped
    )
    return len(wrapped)


def apply_fully_shard(
    answer: Plan | Estimate,
    model: nn.Module,
    *,
    mesh: DeviceMesh | None = None,
    units: Units = None,
) -> nn.Module:
    """FSDP2 as planned: units, mesh, mixed precision, resharding, offload, recompute."""
    _sharded_by(answer, "fsdp2")
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    layout = _layout(answer)
    modules = list(find_units(model, units).values())
    checkpoint_activations(answer, model, units)
    settings: dict[str, Any] = {"mesh": mesh if mesh is not None else device_mesh(answer)}
    compute = compute_dtype(answer)
    if compute is not torch.float32:
        reduce = reduce_dtype(answer)
        settings["mp_policy"] = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduce)
    if "param" in layout.offload:
        settings["offload_policy"] = CPUOffloadPolicy()
    reshard: bool | int | None = {"default": None, "always": True, "never": False}.get(
        layout.reshard_after_forward
    )
    if layout.reshard_after_forward == "node":
        reshard = layout.reshard_within
    settings["reshard_after_forward"] = reshard
    if layout.wrap != "model":
        # A checkpointed unit runs its wrapper; the module inside is still the unit.
        for module in modules:
            fully_shard(module, **settings)
    fully_shard(model, **settings)
    return model


def apply(
    answer: Plan | Estimate,
    model: nn.Module,
    *,
    mesh: DeviceMesh | None = None,
    units: Units = None,
) -> nn.Module:
    """The module as planned: DDP, FSDP1 or FSDP2, or by itself, with its units recomputed."""
    sharding = _layout(answer).sharding
    if sharding == "fsdp2":
        return apply_fully_shard(answer, model, mesh=mesh, units=units)
    if sharding in {"none", "ddp"}:
        checkpoint_activations(answer, model, units)
        return model if sharding == "none" else nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import FullyShardedDataParallel

    # Recomputed inside its wrapper, so that a unit is not gathered once more for it.
    recomputed = _recomputed(answer, model, units)
    wrapped = FullyShardedDataParallel(model, **fsdp1_kwargs(answer, model, units))
    _checkpoint(wrapped, recomputed)
    return wrapped


def fsdp1_kwargs(answer: Plan | Estimate, model: nn.Module, units: Units = None) -> dict[str, Any]:
    """Keyword arguments of ``FullyShardedDataParallel`` as planned."""
    _sharded_by(
        answer, "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"
    )
    from torch.distributed.fsdp import CPUOffload, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy

    layout = _layout(answer)
    kinds = {id(m) for m in find_units(model, units).values()}
    out: dict[str, Any] = {
        "sharding_strategy": ShardingStrategy[layout.sharding],
        "use_orig_params": True,
    }
    if layout.wrap != "model":
        out["auto_wrap_policy"] = partial(
            lambda_auto_wrap_policy, lambda_fn=lambda module: id(module) in kinds
        )
    compute = compute_dtype(answer)
    if compute is not torch.float32:
        out["mixed_precision"] = MixedPrecision(
            param_dtype=compute, reduce_dtype=reduce_dtype(answer), buffer_dtype=compute
        )
    if "param" in layout.offload:
        out["cpu_offload"] = CPUOffload(offload_params=True)
    return out


def dataloader_kwargs(answer: Plan | Estimate) -> dict[str, Any]:
    """Keyword arguments of ``DataLoader`` for each rank."""
    cluster = answer.best.cluster
    out: dict[str, Any] = {
        "batch_size": _layout(answer).micro_batch,
        "drop_last": True,
        "pin_memory": torch.cuda.is_available(),
    }
    if cluster.vcpus:
        # A rank's share of the host's threads, one left to the training loop itself.
        workers = max(1, cluster.vcpus // max(1, cluster.gpus_per_node) - 1)
        out |= {"num_workers": min(workers, 8), "persistent_workers": True}
    return out
