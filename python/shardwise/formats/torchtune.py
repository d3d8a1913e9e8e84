"""torchtune's command-line overrides (``tune run ... KEY=VALUE``)."""

from __future__ import annotations

from typing import Any

from ._given import whole, words
from ._setup import Found, Setup


def write(setup: Setup) -> str:
    """The overrides, one a line."""
    layout = setup.layout
    setup.only_data_parallel("torchtune")
    if layout.sharding not in {"none", "fsdp2"}:
        raise setup.cannot("torchtune", "none or fsdp2")
    out: dict[str, Any] = {
        "batch_size": layout.micro_batch,
        "gradient_accumulation_steps": setup.gradient_accumulation,
        "tokenizer.max_seq_len": setup.seq_len,
        "dtype": "bf16" if setup.compute != "fp32" else "fp32",
        "enable_activation_checkpointing": layout.recompute == "full",
        "enable_activation_offloading": setup.offloads("activation"),
    }
    if layout.sharding == "fsdp2":
        out["fsdp_cpu_offload"] = setup.offloads("param")
        out["fsdp_reshard_after_forward"] = layout.reshard_after_forward != "never"
        if layout.data_parallel_replicate > 1:
            out["data_parallel_replicate_dim"] = layout.data_parallel_replicate
            out["data_parallel_shard_dim"] = layout.data_parallel_shard
    return "".join(f"{key}={_value(value)}\n" for key, value in out.items())


def _value(value: object) -> str:
    return str(value)


def read(text: str) -> Found:
    """What overrides say."""
    pairs = (word.partition("=") for word in words(text))
    given = {key: value for key, equals, value in pairs if equals}

    def on(key: str, default: bool = False) -> bool:
        return given.get(key, str(default)).lower() == "true"

    distributed = any(key.startswith(("fsdp_", "data_parallel_")) for key in given)
    layout: dict[str, Any] = {
        "sharding": "fsdp2" if distributed else "none",
        "micro_batch": whole("batch_size", given.get("batch_size", 1)),
        "recompute": "full" if on("enable_activation_checkpointing") else "none",
    }
    if distributed:
        layout["reshard_after_forward"] = (
            "default" if on("fsdp_reshard_after_forward", default=True) else "never"
        )
        replicate = "data_parallel_replicate_dim"
        layout["data_parallel_replicate"] = whole(replicate, given.get(replicate, 1))
    offload = ["param", "gradient", "optimizer"] if on("fsdp_cpu_offload") else []
    if on("enable_activation_offloading"):
        offload.append("activation")
    if offload:
        layout["offload"] = offload
    dtype, longest = given.get("dtype", "bf16"), given.get("tokenizer.max_seq_len")
    return Found(
        layout=layout,
        # torchtune keeps the parameters in the format it computes in.
        recipe={"framework": "torchtune", "compute": dtype, "params_dtype": dtype},
        seq_len=None if longest is None else whole("tokenizer.max_seq_len", longest),
        gradient_accumulation=whole(
            "gradient_accumulation_steps", given.get("gradient_accumulation_steps", 1)
        ),
    )
