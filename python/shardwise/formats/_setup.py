"""What every format says in its own words: the layout, the recipe and the batch of one training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._error import Error
from .._native import call

if TYPE_CHECKING:
    from .._results import Estimate, Plan
    from ..answers import Cluster, Layout

FSDP1 = {
    "FULL_SHARD": "FULL_SHARD",
    "SHARD_GRAD_OP": "SHARD_GRAD_OP",
    "NO_SHARD": "NO_SHARD",
    "HYBRID_SHARD": "HYBRID_SHARD",
    "_HYBRID_SHARD_ZERO2": "HYBRID_SHARD_ZERO2",
}
"""FSDP1's strategies, as shardwise and as Accelerate name them."""

ZERO = {"zero1": 1, "zero2": 2, "zero3": 3}
"""DeepSpeed's stages."""

WRAP = {"layers": "TRANSFORMER_BASED_WRAP", "size": "SIZE_BASED_WRAP", "model": "NO_WRAP"}
"""Which modules form FSDP's units, as shardwise and as Accelerate name them."""

MIN_UNIT = 100_000_000
"""Parameters from which a module is a unit by size, PyTorch's own figure."""

NVME_PATH = "/local_nvme"
"""Where a node's drives are mounted, in DeepSpeed's own examples; for the user to change."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One training as it will be launched."""

    layout: Layout
    cluster: Cluster
    recipe: Mapping[str, Any]
    seq_len: int
    global_batch: int
    gradient_accumulation: int
    layer_classes: tuple[str, ...] = ()
    """Classes that FSDP wraps; without them the format's own default for the model."""

    layers: int = 1
    """Layers of the model."""

    spot: bool = False
    """Whether the machines are paid as spot, and may be taken away."""

    @classmethod
    def of(cls, answer: Plan | Estimate, layer_classes: tuple[str, ...] = ()) -> Setup:
        """The setup of an estimate, or of the best of a plan."""
        best = answer.best
        return cls(
            layout=best.layout,
            cluster=best.cluster,
            recipe=answer.recipe,
            seq_len=best.seq_len,
            global_batch=best.global_batch,
            gradient_accumulation=best.gradient_accumulation,
            layer_classes=layer_classes,
            layers=best.model.parameters.layers,
            spot=(answer.request.get("run") or {}).get("price") == "spot",
        )

    @property
    def world(self) -> int:
        """Accelerators in all."""
        return self.cluster.nodes * self.cluster.gpus_per_node

    @property
    def compute(self) -> str:
        """Format of the matrix products; the core's default is bf16."""
        return str(self.recipe.get("compute", "bf16"))

    @property
    def mixed_precision(self) -> str:
        """The same as Accelerate and DeepSpeed say it: ``bf16``, ``fp16``, ``fp8`` or ``no``."""
        return {"fp32": "no", "tf32": "no", "mxfp8": "fp8", "nvfp4": "fp8"}.get(
            self.compute, self.compute
        )

    def offloads(self, what: str) -> bool:
        """Whether something leaves the device between uses."""
        return what in self.layout.offload

    def device(self, what: str) -> str:
        """Where it rests, as DeepSpeed says it: ``nvme``, ``cpu`` or ``none``."""
        if self.offloads(f"{what}_nvme"):
            return "nvme"
        return "cpu" if self.offloads(what) else "none"

    @property
    def nvme(self) -> Mapping[str, Any]:
        """How states are swapped to NVMe drives, as far as the request says."""
        nvme: Mapping[str, Any] = self.recipe.get("runtime", {}).get("nvme", {})
        return nvme

    def wrap_policy(self, tool: str) -> dict[str, Any]:
        """The automatic wrapping that makes the layout's units, as Accelerate names it."""
        if self.layout.wrap not in WRAP:
            raise self.cannot(tool, ", ".join(WRAP), "wrap")
        out: dict[str, Any] = {"auto_wrap_policy": WRAP[self.layout.wrap]}
        if self.layout.wrap == "size":
            out["min_num_params"] = MIN_UNIT
        return out

    def cannot(self, tool: str, allowed: str, field: str = "sharding") -> Error:
        """The fault that a tool has no word for what the layout says."""
        given = getattr(self.layout, field)
        return Error.of(f"layout.{field}", "conflict", given, f"for {tool}: {allowed}")

    def recomputes_alike(self, tool: str) -> None:
        """Refuses recomputation of some layers only, for a tool that has no word for it."""
        every = self.layout.recompute_every
        if every > 1:
            allowed = f"1 for {tool}: plan with search=shardwise.formats.search({tool!r})"
            raise Error.of("layout.recompute_every", "conflict", every, allowed)

    def only_data_parallel(self, tool: str) -> None:
        """Refuses degrees that the tool does not have."""
        for degree in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
            if getattr(self.layout, degree) > 1:
                raise Error.of(
                    f"layout.{degree}", "conflict", getattr(self.layout, degree), f"1 for {tool}"
                )


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a file of some format says of a training; what it leaves open is absent."""

    layout: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    seq_len: int | None = None
    global_batch: int | None = None
    gradient_accumulation: int | None = None
    world: int | None = None
    """Processes, where the file says how many."""
    cluster: Mapping[str, Any] | None = None
    """The machines, where the file names them."""
    recomputed: int | None = None
    """Layers of each pipeline stage that are recomputed, where the file counts them."""

    def request(
        self, model: object, cluster: object, *, seq_len: int | None, world: int
    ) -> dict[str, Any]:
        """The estimate request that asks whether this training fits."""
        layout = {"data_parallel_shard": 0, **self.layout}
        if self.recomputed:
            stages = layout.get("pipeline_parallel", 1) * layout.get("pipeline_chunks", 1)
            layout["recompute_every"] = max(1, _layers(model) // stages // self.recomputed)
        length = seq_len or self.seq_len
        if length is None:
            raise Error.of("seq_len", "missing_field", "nothing", "tokens per sequence")
        request: dict[str, Any] = {
            "model": model,
            "cluster": cluster,
            "seq_len": length,
            "layout": layout,
            "recipe": dict(self.recipe),
        }
        batch = self.global_batch
        if batch is None and self.gradient_accumulation:
            inner = 1
            for degree in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
                inner *= layout.get(degree, 1)
            batch = layout.get("micro_batch", 1) * self.gradient_accumulation * (world // inner)
        if batch is not None:
            request["global_batch"] = batch
        return request


def read_wrap(prefix: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """What an ``fsdp_config`` says of its units; nothing where it says nothing."""
    named = {theirs: ours for ours, theirs in WRAP.items()}
    policy = config.get(f"{prefix}auto_wrap_policy")
    if policy is None:
        return {}
    wrap = named.get(str(policy).upper())
    if wrap is None:
        field = f"config.fsdp_config.{prefix}auto_wrap_policy"
        raise Error.of(field, "unknown_name", str(policy)[:60], ", ".join(named))
    size = config.get(f"{prefix}min_num_params", MIN_UNIT)
    if wrap == "size" and size != MIN_UNIT:
        field = f"config.fsdp_config.{prefix}min_num_params"
        raise Error.of(field, "conflict", size, str(MIN_UNIT))
    return {} if wrap == "layers" else {"wrap": wrap}


def _layers(model: object) -> int:
    summary = json.loads(call("describe_model", json.dumps({"model": model})))
    return int(summary["parameters"]["layers"])
