"""torchtitan's config: Python dataclasses since the TOML job file is gone."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from .._error import Error
from ._given import whole
from ._setup import Found, Setup

_SCHEDULES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved_1f1b": "Interleaved1F1B",
    "zero_bubble_h1": "InterleavedZeroBubble",
    "zero_bubble_v": "ZBVZeroBubble",
    "dualpipe": "DualPipeV",
}
_DTYPES = {"fp32": "float32", "bf16": "bfloat16"}

_HEAD = '''"""Planned by shardwise: training, parallelism and recompute of a torchtitan job.

Assign them to the fields of the same names of a ``Trainer.Config``.
"""

from torchtitan.config import ParallelismConfig, TrainingConfig
'''


def write(setup: Setup) -> str:
    """A Python file that makes the config's dataclasses."""
    layout = setup.layout
    if layout.sharding not in {"none", "ddp", "fsdp2"}:
        raise setup.cannot("torchtitan", "none, ddp or fsdp2")
    params = str(setup.recipe.get("params_dtype") or "fp32")
    training = {
        "local_batch_size": layout.micro_batch,
        "global_batch_size": setup.global_batch,
        "seq_len": setup.seq_len,
        "enable_cpu_offload": setup.offloads("param"),
        "dtype": _DTYPES.get(params, "float32"),
        "mixed_precision_param": "float32" if setup.mixed_precision == "no" else "bfloat16",
        "mixed_precision_reduce": "float32",
    }
    reshard = layout.reshard_after_forward
    if reshard == "node":
        raise setup.cannot("torchtitan", "default, always, never", "reshard_after_forward")
    parallelism = {
        "data_parallel_replicate_degree": layout.data_parallel_replicate,
        "data_parallel_shard_degree": layout.data_parallel_shard,
        "fsdp_reshard_after_forward": reshard,
        "tensor_parallel_degree": layout.tensor_parallel,
        "enable_sequence_parallel": layout.sequence_parallel or layout.tensor_parallel == 1,
        "pipeline_parallel_degree": layout.pipeline_parallel,
        "pipeline_parallel_schedule": _schedule(setup),
        "context_parallel_degree": layout.context_parallel,
        "expert_parallel_degree": layout.expert_parallel,
    }
    policy = {"none": None, "selective": "SelectiveAC", "full": "FullAC"}[layout.recompute]
    out = _HEAD
    if policy:
        out += f"from torchtitan.distributed.activation_checkpoint import {policy}\n"
    out += f"\ntraining = TrainingConfig(\n{_fields(training)})\n"
    out += f"\nparallelism = ParallelismConfig(\n{_fields(parallelism)})\n"
    return out + f"\nactivation_checkpoint = {f'{policy}.Config()' if policy else None}\n"


def _schedule(setup: Setup) -> str:
    schedule = setup.layout.pipeline_schedule
    if schedule not in _SCHEDULES:
        raise Error.of("layout.pipeline_schedule", "conflict", schedule, ", ".join(_SCHEDULES))
    return _SCHEDULES[schedule]


def _fields(fields: Mapping[str, object]) -> str:
    return "".join(f"    {name}={value!r},\n".replace("'", '"') for name, value in fields.items())


def read(text: str) -> Found:
    """What a Python file of such dataclasses says; nothing in it is run."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise Error.of("config", "syntax", e, "Python text") from e
    calls: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls[node.func.id] = {
                k.arg: k.value.value
                for k in node.keywords
                if k.arg and isinstance(k.value, ast.Constant)
            }
    training = calls.get("TrainingConfig", {})
    parallel = calls.get("ParallelismConfig", {})

    def degree(name: str, default: int) -> int:
        return whole(name, parallel.get(name, default))

    replicate = degree("data_parallel_replicate_degree", 1)
    shard = degree("data_parallel_shard_degree", -1)
    tensor = degree("tensor_parallel_degree", 1)
    schedules = {theirs: ours for ours, theirs in _SCHEDULES.items()}
    layout: dict[str, Any] = {
        "sharding": "fsdp2" if shard != 1 else "ddp" if replicate > 1 else "none",
        "data_parallel_replicate": replicate,
        "data_parallel_shard": max(shard, 0),
        "reshard_after_forward": parallel.get("fsdp_reshard_after_forward", "default"),
        "tensor_parallel": tensor,
        "sequence_parallel": tensor > 1 and parallel.get("enable_sequence_parallel", True),
        "pipeline_parallel": degree("pipeline_parallel_degree", 1),
        "pipeline_schedule": schedules.get(
            parallel.get("pipeline_parallel_schedule", "1F1B"), "1f1b"
        ),
        "context_parallel": degree("context_parallel_degree", 1),
        "expert_parallel": degree("expert_parallel_degree", 1),
        "micro_batch": training.get("local_batch_size", 8),
        "recompute": "full"
        if "FullAC" in names
        else "selective"
        if "SelectiveAC" in names
        else "none",
    }
    if training.get("enable_cpu_offload"):
        layout["offload"] = ["param", "gradient", "optimizer"]
    params = {theirs: ours for ours, theirs in _DTYPES.items()}

    def dtype(name: str, default: str) -> str:
        said = training.get(name, default)
        if said not in params:
            raise Error.of(f"config.{name}", "unknown_name", str(said)[:60], ", ".join(params))
        return params[said]

    batch = whole("global_batch_size", training.get("global_batch_size", -1))
    return Found(
        layout=layout,
        recipe={
            "framework": "torchtitan",
            "params_dtype": dtype("dtype", "float32"),
            "compute": dtype("mixed_precision_param", "bfloat16"),
        },
        seq_len=training.get("seq_len", 2048),
        global_batch=batch if batch > 0 else None,
        gradient_accumulation=None if batch > 0 else 1,
    )
