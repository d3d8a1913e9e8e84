"""Megatron-LM's command-line arguments."""

from __future__ import annotations

from math import ceil
from typing import Any

from .._error import Error
from . import _given
from ._setup import Found, Setup


def arguments(setup: Setup) -> list[str]:
    """The arguments, one a word."""
    layout = setup.layout
    if layout.sharding not in {"none", "ddp", "distributed_optimizer", "zero1"}:
        raise setup.cannot("Megatron-LM", "none, ddp or distributed_optimizer")
    if layout.pipeline_schedule not in {"1f1b", "interleaved_1f1b"}:
        schedule = layout.pipeline_schedule
        raise Error.of("layout.pipeline_schedule", "conflict", schedule, "1f1b, interleaved_1f1b")
    out: list[tuple[str, object]] = [
        ("--tensor-model-parallel-size", layout.tensor_parallel),
        ("--pipeline-model-parallel-size", layout.pipeline_parallel),
        ("--context-parallel-size", layout.context_parallel),
        ("--expert-model-parallel-size", layout.expert_parallel),
        ("--micro-batch-size", layout.micro_batch),
        ("--global-batch-size", setup.global_batch),
        ("--seq-length", setup.seq_len),
    ]
    flags = []
    if layout.sharding in {"distributed_optimizer", "zero1"}:
        flags.append("--use-distributed-optimizer")
    if layout.sequence_parallel:
        flags.append("--sequence-parallel")
    if layout.pipeline_chunks > 1:
        chunks = ("--num-virtual-stages-per-pipeline-rank", layout.pipeline_chunks)
        out.append(chunks)
    if layout.recompute == "full" and layout.recompute_every > 1:
        # The first so many layers of each (virtual) pipeline stage.
        stages = layout.pipeline_parallel * layout.pipeline_chunks
        recomputed = ceil(ceil(setup.layers / stages) / layout.recompute_every)
        out += [
            ("--recompute-granularity", "full"),
            ("--recompute-method", "block"),
            ("--recompute-num-layers", recomputed),
        ]
    elif layout.recompute == "full":
        out += [
            ("--recompute-granularity", "full"),
            ("--recompute-method", "uniform"),
            ("--recompute-num-layers", 1),
        ]
    elif layout.recompute == "selective":
        out.append(("--recompute-granularity", "selective"))
    if setup.mixed_precision in {"bf16", "fp16"}:
        flags.append(f"--{setup.mixed_precision}")
    elif setup.mixed_precision == "fp8":
        flags.append("--bf16")
        out.append(("--fp8-format", "hybrid"))
        if (setup.recipe.get("runtime") or {}).get("fp8_param_gather"):
            flags.append("--fp8-param-gather")
    if setup.offloads("optimizer"):
        flags.append("--optimizer-cpu-offload")
    return [word for key, value in out for word in (key, str(value))] + flags


def write(setup: Setup) -> str:
    """The arguments, ready to paste after ``pretrain_gpt.py``."""
    words = arguments(setup)
    lines: list[str] = []
    for word in words:
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return " \\\n".join(lines) + "\n"


def read(text: str) -> Found:
    """What a line of arguments says."""
    words = _given.words(text)
    given: dict[str, Any] = {}
    for i, word in enumerate(words):
        if not word.startswith("--"):
            continue
        key, equals, value = word.partition("=")
        following = words[i + 1] if i + 1 < len(words) else "--"
        given[key] = value if equals else True if following.startswith("--") else following

    def number(key: str, default: int | None = None) -> int | None:
        return _given.whole(key, given[key]) if key in given else default

    distributed = "--use-distributed-optimizer" in given
    chunks = number("--num-virtual-stages-per-pipeline-rank", 1)
    layout: dict[str, Any] = {
        "sharding": "distributed_optimizer" if distributed else "ddp",
        "tensor_parallel": number("--tensor-model-parallel-size", 1),
        "pipeline_parallel": number("--pipeline-model-parallel-size", 1),
        "context_parallel": number("--context-parallel-size", 1),
        "expert_parallel": number("--expert-model-parallel-size", 1),
        "micro_batch": number("--micro-batch-size", 1),
        "sequence_parallel": "--sequence-parallel" in given,
        "pipeline_chunks": chunks,
        "pipeline_schedule": "interleaved_1f1b" if chunks and chunks > 1 else "1f1b",
        "recompute": given.get("--recompute-granularity", "none"),
    }
    if "--optimizer-cpu-offload" in given:
        layout["offload"] = ["optimizer"]
    compute = "fp8" if "--fp8-format" in given else "bf16" if "--bf16" in given else "fp32"
    return Found(
        layout=layout,
        recipe={
            "framework": "megatron",
            "compute": "fp16" if "--fp16" in given else compute,
            **({"runtime": {"fp8_param_gather": True}} if "--fp8-param-gather" in given else {}),
        },
        recomputed=number("--recompute-num-layers")
        if given.get("--recompute-method") == "block"
        else None,
        seq_len=number("--seq-length"),
        global_batch=number("--global-batch-size"),
    )
