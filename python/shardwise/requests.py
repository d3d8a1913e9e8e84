"""What may be asked, as typed dictionaries: the keywords of the verbs.

Made from ``schema/`` by ``tools/generate_types.py``; change the core's types instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Required

__all__ = [
    "Accelerator",
    "AcceleratorOrName",
    "AdapterKind",
    "AttentionKernel",
    "Availability",
    "Backend",
    "BaseQuantization",
    "CalibrateRequest",
    "Calibration",
    "CatalogRequest",
    "CatalogRows",
    "Checkpointing",
    "CompareRequest",
    "Compression",
    "Compute",
    "Contender",
    "Contents",
    "ContextStyle",
    "DescribeModelRequest",
    "Dispatch",
    "Dtype",
    "EstimateRequest",
    "Expenses",
    "Faults",
    "Framework",
    "Hazard",
    "Instance",
    "Kernels",
    "Layout",
    "Link",
    "LinkOrName",
    "Lora",
    "LossKernel",
    "LossPolicy",
    "Machines",
    "MachinesOrName",
    "MeasuredRun",
    "Method",
    "ModelSpec",
    "NetworkSpec",
    "NodeCount",
    "Nvme",
    "Objective",
    "Offload",
    "Optimizer",
    "Owned",
    "PlanRequest",
    "Platform",
    "PriceKind",
    "PriceSpec",
    "Qat",
    "QatScheme",
    "Recipe",
    "Recompute",
    "RecomputeModule",
    "Reshard",
    "Run",
    "Runtime",
    "SaveMode",
    "Schedule",
    "Search",
    "Serving",
    "Sharding",
    "Source",
    "Spells",
    "Start",
    "StorageOffer",
    "Swing",
    "Trace",
    "TraceStep",
    "Versions",
    "Wrap",
    "Writer",
]


class Accelerator(TypedDict, total=False):
    """One accelerator part. Peaks are dense."""

    id: Required[str]
    """Short name, unique, lower case."""

    memory_gb: Required[float]
    """The memory on the vendor's label, in GB."""

    bandwidth_gb_s: Required[float]
    """Memory bandwidth, in GB/s."""

    vendor: str
    """Who makes it."""

    name: str
    """The vendor's name for it."""

    form: str
    """Form factor: SXM5, PCIe, OAM, ..."""

    year: int | None
    """Year of release."""

    usable_gib: float | None
    """The memory a framework sees, in GiB."""

    devices: int | None
    """Devices that a framework sees in one part; 1 when absent."""

    fp32_tflops: float | None
    """Peak in fp32 without tensor cores, in TFLOP/s."""

    tf32_tflops: float | None
    """Peak in tf32, in TFLOP/s."""

    fp16_tflops: float | None
    """Peak in fp16 with fp32 accumulation, in TFLOP/s."""

    bf16_tflops: float | None
    """Peak in bf16, in TFLOP/s."""

    fp8_tflops: float | None
    """Peak in fp8, in TFLOP/s."""

    fp4_tflops: float | None
    """Peak in fp4, in TFLOP/s."""

    int8_tops: float | None
    """Peak in int8, in TOP/s."""

    link: str | None
    """Link to its neighbours, an id of `links`."""

    link_bidirectional_gb_s: float | None
    """Rate of that link, both directions together as vendors print it, in GB/s."""

    link_domain: int | None
    """Parts that the link joins, where that is not the whole node (a bridge joins 2)."""

    pcie: str | None
    """PCIe link, an id of `links`."""

    host_link: str | None
    """Link to the host where that is not PCIe, an id of `links`."""

    tdp_w: float | None
    """Design power of the part, in W."""

    measured_bf16_tflops: float | None
    """The best bf16 matrix product measured, in TFLOP/s."""

    measured_fp8_tflops: float | None
    """The best fp8 matrix product measured, in TFLOP/s."""

    matmul_fraction: float | None
    """Fraction of the peak that large matrix products reach."""

    matmul_basis: str | None
    """Where that fraction comes from."""

    platform: str | None
    """The usual node, an id of `platforms`."""

    aliases: Sequence[str]
    """Other names it answers to; case, spaces and punctuation do not count."""

    source: str
    """Where the figures come from."""

    as_of: str
    """When they were compiled (ISO 8601)."""

    check: str | None
    """How well they were checked."""

    note: str | None
    """What else a reader must know."""


AcceleratorOrName: TypeAlias = "str | Accelerator"
"""A name from the catalogue, or the thing in full."""

AdapterKind: TypeAlias = Literal["lora", "dora"]
"""The kind of adapter."""

AttentionKernel: TypeAlias = Literal[
    "eager",
    "sdpa",
    "efficient",
    "math",
    "flash1",
    "flash2",
    "flash3",
    "te",
    "flex",
    "ring",
    "block_sparse",
]
"""The attention kernel."""


class Availability(TypedDict, total=False):
    """When the complete gang is there and when it is not."""

    down: Required[Spells]
    """Spells without it: the wait for capacity, before provisioning."""

    up: Spells | None
    """Spells with the complete gang;

    their mean is the reciprocal of the gang's hazard. Absent: it is never lost.
    """

    swing: Swing
    """How much availability swings between days and between weeks, beyond what the spells' own

    scatter brings.
    """

    start: Start
    """What is known of the moment the job is started."""

    loss_share: float | None
    """Mean share of the gang that one loss takes, in (0, 1]: 1 when the whole gang goes at once."""


Backend: TypeAlias = Literal["nccl", "rccl", "gloo", "mpi"]
"""The library that moves tensors between ranks."""

BaseQuantization: TypeAlias = Literal["nf4", "fp4", "int8", "gptq_int4"]
"""How the frozen base of QLoRA is stored."""


class CalibrateRequest(TypedDict, total=False):
    """Asks what measured runs teach."""

    runs: Required[Sequence[MeasuredRun]]
    """What was measured: 1 to 64 runs."""

    schema_version: int
    """Version of this format."""


class Calibration(TypedDict, total=False):
    """Factors on times; 1 is the published value, above 1 is slower."""

    matmul: float
    """Matrix products."""

    attention: float
    """Attention."""

    memory: float
    """Memory-bound work: norms, activations, casts, loss, optimizer."""

    network: float
    """Traffic between accelerators."""

    host: float
    """Issuing kernels."""

    allocated: float
    """Memory of tensors."""

    spread: float | None
    """Standard deviation of ln(measured / predicted) of step times;

    none means as in published runs.
    """


class CatalogRequest(TypedDict, total=False):
    """Asks for the catalogue, with rows of the user's own."""

    schema_version: int
    """Version of this format."""

    catalog: CatalogRows
    """Catalogue rows of the user's own."""


class CatalogRows(TypedDict, total=False):
    """Every kind of row: what the catalogue lists, and the form of a file a user brings."""

    schema_version: int
    """Version of this format."""

    accelerators: Sequence[Accelerator]
    """GPUs and other accelerators, by id."""

    instances: Sequence[Instance]
    """Cloud shapes with their prices, by cloud, name and region."""

    links: Sequence[Link]
    """Links inside and between nodes, by id."""

    platforms: Sequence[Platform]
    """The usual node of each accelerator, by id."""

    storage: Sequence[StorageOffer]
    """Prices and rates of storage and egress, by id."""

    sources: Sequence[Source]
    """What the short names in `source` stand for, by id."""


class Checkpointing(TypedDict, total=False):
    """When and how the state is saved.

    Give an interval in seconds or in steps; neither means the best.
    """

    interval_s: float | None
    """Work between two saves, in seconds."""

    every_steps: float | None
    """Optimizer steps between two saves, instead."""

    mode: SaveMode
    """How a checkpoint is saved."""

    contents: Contents | None
    """What it holds; none means what training goes on from, of adapters without their base."""

    writer: Writer
    """Who writes."""

    size_gb: float | None
    """Its size in GB (10^9 bytes); none means what the recipe keeps."""

    node_gb_s: float | None
    """What one node writes to the store, in GB/s; none means the cluster's storage, else 3.2."""

    store_gb_s: float | None
    """What the store takes from all nodes together, in GB/s; none means no limit."""

    latency_s: float | None
    """Time per save that no bandwidth shortens, in seconds; none means 1.3."""

    setup_s: float | None
    """Stall of an asynchronous save besides the copy, in seconds; none means 5.9."""

    near_gb_s: float | None
    """What one node gives to a peer or a local drive in a light save, in GB/s; none means 7.35."""

    recoverable: float | None
    """Share of losses after which the light save is still there, 0 to 1; none means 0.85, less

    where losses take much of the gang.
    """


class CompareRequest(TypedDict, total=False):
    """Asks for two to sixteen answers side by side."""

    requests: Required[Sequence[Contender]]
    """What is compared; the others are held against the first."""

    schema_version: int
    """Version of this format."""


Compression: TypeAlias = Literal["none", "fp16", "int8", "powersgd"]
"""What is done to gradients before data-parallel ranks exchange them."""

Compute: TypeAlias = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
"""The number format of the matrix multiplications."""


class Contender(TypedDict, total=False):
    """One request of a comparison: an estimate or a plan, of which the best layout counts."""

    name: str | None
    """What the column is called; none means the layout's name."""

    estimate: EstimateRequest | None
    """One given layout."""

    plan: PlanRequest | None
    """The best layout."""


Contents: TypeAlias = Literal["resume", "model", "adapters_resume", "adapters"]
"""What a checkpoint is to hold."""

ContextStyle: TypeAlias = Literal["ring", "all_to_all"]
"""How a sequence is split over the context-parallel group."""


class DescribeModelRequest(TypedDict, total=False):
    """Asks what a model is made of."""

    model: Required[ModelSpec]
    """The model."""

    schema_version: int
    """Version of this format."""


Dispatch: TypeAlias = Literal["all_to_all", "deduplicated"]
"""How tokens travel to their experts."""

Dtype: TypeAlias = Literal["fp32", "bf16", "fp16"]
"""A number format of stored tensors."""


class EstimateRequest(TypedDict, total=False):
    """Asks what one given layout needs: memory, time, money."""

    model: Required[ModelSpec]
    """What is trained."""

    cluster: Required[MachinesOrName]
    """On which machines."""

    seq_len: Required[int]
    """Tokens per sequence."""

    schema_version: int
    """Version of this format."""

    global_batch: int | None
    """Sequences per optimizer step; none means one micro-batch per data-parallel rank."""

    recipe: Recipe
    """How it is trained."""

    layout: Layout
    """How the work is split."""

    run: Run
    """How much is trained, and at which price."""

    calibration: Calibration
    """What measured runs taught: the answer's `calibration` of `calibrate`."""

    catalog: CatalogRows
    """Catalogue rows of the user's own."""


class Expenses(TypedDict, total=False):
    """What is paid beside the machines' time."""

    egress_gb: float
    """Data leaving the provider or region, in GB."""

    egress_usd_per_gb: float | None
    """Price of a GB; none means the cloud's first tier of internet egress."""

    storage_gb: float
    """Data kept, in GB: data set, checkpoints, logs."""

    storage_months: float | None
    """For how many months; none means the length of the run."""

    storage_usd_per_gb_month: float | None
    """Price of a GB and month; none means the cloud's object store."""

    people_hours: float
    """Hours of people."""

    people_usd_per_hour: float
    """What one costs."""

    evaluation_runs: float
    """Evaluation and tuning runs."""

    evaluation_hours: float
    """Hours each holds its GPUs."""

    evaluation_gpus: float | None
    """GPUs each holds; none means a node."""

    evaluation_shared_by: float | None
    """How many share the GPUs at a time; none means 1."""

    failed_starts: float
    """Starts that fail before the first step."""

    failed_start_hours: float | None
    """Hours the gang is held in each; none means a quarter."""


class Faults(TypedDict, total=False):
    """How nodes are lost and come back, and what is then done."""

    hazard: Hazard | None
    """How often nodes are lost; none means `base` at the spot price, else `hardware`."""

    per_node_hour: float | None
    """Losses of one node per hour, instead."""

    zone: str | None
    """A recorded spot zone by its id, instead (`docs/run-cost.md` lists them)."""

    availability: Availability | None
    """When the gang is complete, as measured, instead."""

    trace: Trace | None
    """Nodes that were available over time, instead."""

    loss_share: float | None
    """Mean share of the gang that one loss takes, 0 to 1; none means 0.3 on spot, else one node."""

    up_scv: float | None
    """Squared variation of the time between losses, 1 where they are memoryless;

    none means 4.5 on spot, else 1.
    """

    wait_s: float | None
    """Mean wait for capacity after a loss, in seconds; none means 3600 on spot, else 600."""

    wait_scv: float | None
    """Squared variation of that wait; none means 3 on spot, else 1."""

    provision_s: float | None
    """From the gang being complete to the job running, in seconds; none means 120."""

    restore_s: float | None
    """Loading the state and warming up after a loss, in seconds; none means the load and 60."""

    notice_s: float | None
    """How long before a loss it is announced, in seconds, if a save is then made;

    none means that nothing is made of it.
    """

    policy: LossPolicy
    """What is done while nodes are missing."""

    patience_s: float | None
    """Policy `fall_back`: how long one wait may last, in seconds; none means 0."""

    spot_share: float | None
    """Policy `spot_then_reserved`: share of the work on spot, 0 to 1; none means 0.5."""

    firm_price: PriceKind | None
    """Which price the machines have that are not taken away; none means on demand."""

    least_nodes: int | None
    """Policy `shrink`: fewest nodes that hold the job; none means half."""

    spares: int | None
    """Policy `spares`: nodes standing by, paid like the others; none means 1."""

    repair_s: float | None
    """Policy `spares`: mean time until a failed node is back, in seconds; none means two days."""


Framework: TypeAlias = Literal[
    "torch",
    "deepspeed",
    "megatron",
    "megatron_2021",
    "megatron_deepspeed",
    "torchtitan",
    "torchtune",
    "litgpt",
    "composer",
    "jax",
    "native",
]
"""Whose training loop runs: it decides which states are kept and how communication is issued."""

Hazard: TypeAlias = Literal["hardware", "band", "optimistic", "base", "pessimistic"]
"""How often nodes are lost, where no rate is given."""


class Instance(TypedDict, total=False):
    """One cloud shape in one region. Prices are US dollars per hour of the whole shape."""

    cloud: Required[str]
    """The cloud."""

    name: Required[str]
    """The cloud's name for the shape."""

    gpu: Required[str]
    """Its accelerator, an id or alias of `accelerators`."""

    gpus: Required[int]
    """How many of them."""

    link: str | None
    """Link between them, an id of `links`; the accelerator's own when absent."""

    domain: int | None
    """Parts joined by that link, where that is not the whole shape."""

    network: str | None
    """Network for traffic between the accelerators of several shapes, an id of `links`."""

    nics: int | None
    """Network cards behind it."""

    network_gbit_s: float | None
    """Rate of that network, one direction, in Gbit/s."""

    network_total_gbit_s: float | None
    """Rate the cloud advertises where that counts other cards too, in Gbit/s."""

    vcpus: int | None
    """Virtual CPUs (hardware threads)."""

    ram_gib: float | None
    """Host memory, in GiB (clouds that write GB mean GiB)."""

    nvme_gb: float | None
    """Local NVMe, in GB; 0 where there is none."""

    on_demand: float | None
    """On-demand price, in USD/h."""

    on_demand_range: Sequence[float] | None
    """Lowest and highest on-demand price over the cloud's regions, in USD/h."""

    spot: float | None
    """Spot price, in USD/h."""

    spot_range: Sequence[float] | None
    """Lowest and highest spot price seen over zones or regions, in USD/h."""

    spot_basis: str | None
    """How the spot price is known:

    `published`, `zones` (a snapshot by zone) or `advisor` (on-demand less the advertised saving).
    """

    spot_source: str | None
    """Source of the spot price, where it is another."""

    spot_as_of: str | None
    """Date of the spot price, where it is another."""

    reserved_1y: float | None
    """Price under a one-year commitment, in USD/h."""

    reserved_3y: float | None
    """Price under a three-year commitment, in USD/h."""

    capacity_block: float | None
    """Price of a block booked ahead, in USD/h (a listing of 2024-12)."""

    interruption_pct: Sequence[float] | None
    """Share of spot shapes taken back in a month, lowest and highest, in per cent (2025-06-28)."""

    region: str | None
    """The cloud's region."""

    source: str
    """Where the prices come from, an id of `sources` or plain words."""

    specs: str | None
    """Where virtual CPUs, memory and NVMe come from, where that is another."""

    as_of: str
    """Date of the prices (ISO 8601; a bare year where the day is unknown)."""

    note: str | None
    """What else a reader must know."""


Kernels: TypeAlias = Literal["eager", "fused", "compiled"]
"""Which implementation of norms, activations and rotary embeddings runs."""


class Layout(TypedDict, total=False):
    """One way to split and schedule the work. Degrees are torchtitan's."""

    sharding: Sharding
    """How model states are spread."""

    data_parallel_replicate: int
    """Data-parallel replicas that do not share states (DDP ranks, or the outer mesh of HSDP)."""

    data_parallel_shard: int
    """Data-parallel ranks that share states;

    0, or left out of a request, means all ranks that no other degree takes (for DDP these become
    replicas).
    """

    tensor_parallel: int
    """Tensor-parallel ranks."""

    sequence_parallel: bool
    """Whether norms and residuals are split along the sequence over the tensor ranks."""

    vocab_parallel: bool
    """Whether embedding, head and loss are split by vocabulary over the tensor ranks."""

    pipeline_parallel: int
    """Pipeline stages."""

    pipeline_schedule: Schedule
    """Order of the micro-batches in the pipeline."""

    pipeline_chunks: int
    """Model chunks per pipeline rank."""

    context_parallel: int
    """Ranks over which a sequence is split."""

    context_style: ContextStyle
    """How it is split."""

    expert_parallel: int
    """Ranks over which experts are spread (a part of the data-parallel ranks)."""

    micro_batch: int
    """Sequences a data-parallel rank works on at once."""

    recompute: Recompute
    """What backward recomputes."""

    recompute_modules: Sequence[RecomputeModule]
    """What selective recomputation runs again; empty means `core_attn`."""

    recompute_every: int
    """Recompute every k-th layer only."""

    partition_activations: bool
    """Recomputation's checkpoints are split over the tensor ranks (DeepSpeed's

    `partition_activations`).
    """

    offload: Sequence[Offload]
    """What leaves the device between uses."""

    reshard_after_forward: Reshard
    """FSDP2: whether units are freed between forward and backward."""

    reshard_within: int
    """FSDP2: ranks over which a unit stays sharded between forward and backward under

    `reshard_after_forward` = `node`: PyTorch's whole number, as a rule the GPUs of a node.
    """

    wrap: Wrap
    """FSDP: which modules form a unit."""

    gradient_as_bucket_view: bool
    """DDP: gradients live in the communication buckets."""

    sync_every_micro_batch: bool
    """Gradients are reduced after every micro-batch, as PyTorch does unless the loop turns it

    off (`set_requires_gradient_sync` of FSDP2, `no_sync` of DDP and FSDP1); not only after the
    last, as trainers do.
    """


class Link(TypedDict, total=False):
    """One kind of link. Rates are one direction."""

    id: str
    """Short name, unique."""

    kind: str
    """`intra` (in a node), `rack`, `inter` (between nodes), `host`, or `hop` (constants of the

    communication library).
    """

    name: str
    """The field's name for it."""

    per: str
    """What the rates are per: `gpu`, `port`, `node` or `hop`."""

    gb_s: float | None
    """Nominal rate, one direction, in GB/s."""

    port_gbit_s: float | None
    """Nominal rate of a port, in Gbit/s."""

    measured_gb_s: float | None
    """Best bus bandwidth measured, in GB/s."""

    fraction: float | None
    """Share of the nominal rate that ring collectives of large messages reach."""

    all_to_all_fraction: float | None
    """The same for all-to-all."""

    in_switch_fraction: float | None
    """The same for an all-reduce that the switch sums."""

    in_switch_min_gpus: int | None
    """Smallest group for which the library lets the switch sum."""

    copy_fraction: float | None
    """The share that a pinned copy between host and device reaches."""

    latency_us: float | None
    """Time of a small collective, in microseconds."""

    hop_us: float | None
    """Time of one hop, in microseconds."""

    alpha_us: float | None
    """Constant term of the fitted collective time, in microseconds."""

    sqrt_us: float | None
    """Square-root term of the fitted collective time, in microseconds per sqrt(byte)."""

    fitted_gb_s: float | None
    """Bus bandwidth of the fit for endless messages, in GB/s."""

    fit: str | None
    """What was fitted."""

    source: str
    """Where the figures come from."""

    as_of: str
    """When they were compiled (ISO 8601)."""

    check: str | None
    """How well they were checked."""

    note: str | None
    """What else a reader must know."""


LinkOrName: TypeAlias = "str | Link"
"""A name from the catalogue, or the thing in full."""


class Lora(TypedDict, total=False):
    """Low-rank adapters. `alpha` only scales the update: it costs neither memory nor time."""

    kind: AdapterKind
    """Kind of adapter."""

    rank: int
    """Rank, 1 to 65,536."""

    targets: Sequence[str]
    """Linear layers that get an adapter:

    module names as `q_proj`, or the one word `all-linear` (every linear layer but the head).
    """

    dtype: Dtype
    """Format of the adapters. PEFT keeps them in fp32 by default."""

    dropout: bool
    """Whether the adapters' dropout is above zero."""

    modules_to_save: Sequence[str]
    """Modules trained in full beside the adapters, as `embed_tokens`, `lm_head`."""


LossKernel: TypeAlias = Literal[
    "eager",
    "fused",
    "fused_in_place",
    "fused_linear",
    "head_chunked",
    "chunked",
    "vocab_parallel",
    "compiled",
]
"""How the cross-entropy is computed."""

LossPolicy: TypeAlias = Literal["wait", "fall_back", "spot_then_reserved", "shrink", "spares"]
"""What is done while nodes are missing."""


class Machines(TypedDict, total=False):
    """Machines in full.

    Every field but the accelerator or instance may be left out; what was assumed for it is listed
    in the answer.
    """

    accelerator: AcceleratorOrName | None
    """The accelerator: an id or alias of the catalogue, or a row of one's own."""

    instance: str | None
    """A cloud shape of the catalogue, in place of or beside the accelerator."""

    cloud: str | None
    """The cloud whose prices count."""

    region: str | None
    """The region whose prices count."""

    nodes: int | None
    """Nodes; 1 when absent."""

    gpus_per_node: int | None
    """Accelerators in a node; the shape's or the usual node's when absent."""

    usable_gib: float | None
    """Memory a framework sees on one GPU, in GiB."""

    power_cap_w: float | None
    """Power each accelerator is held to, in W."""

    link: LinkOrName | None
    """The link between accelerators: an id of the catalogue, or a row of one's own."""

    link_gb_s: float | None
    """Its rate for one accelerator, one direction, in GB/s."""

    link_domain: int | None
    """Accelerators it joins: 2 for bridges, 72 for a rack; the node when absent."""

    networks: Sequence[NetworkSpec]
    """Networks between nodes, from the one that reaches least to the one that reaches all."""

    host_memory_gib: float | None
    """Memory of one host, in GiB."""

    vcpus: int | None
    """Hardware threads of one host."""

    nvme_gb: float | None
    """Local NVMe of one node, in GB; 0 where there is none."""

    storage_gb_s: float | None
    """What one node reads from or writes to the shared store, in GB/s."""

    price: PriceSpec | None
    """Prices of one's own, in USD per accelerator and hour; they replace the catalogue's."""


MachinesOrName: TypeAlias = "str | Machines"
"""A name from the catalogue, or the thing in full."""


class MeasuredRun(TypedDict, total=False):
    """One run: what was asked of it, and what a clock and a memory reading said."""

    estimate: Required[EstimateRequest]
    """The run as a request for an estimate, without a calibration of its own."""

    step_time: float | None
    """Seconds of a steady optimizer step."""

    allocated: float | None
    """Peak of tensors on the fullest rank, in bytes, as `torch.cuda.max_memory_allocated`

    reports it.
    """


Method: TypeAlias = Literal["full", "lora", "qlora", "qat", "qat_lora"]
"""What is trained."""

ModelSpec: TypeAlias = "str | Mapping[str, Any]"
"""A preset's name (llama-3.1-8b), a Hub id whose last part is one, a Hugging Face config

object, or an object of dimensions with model_type "dimensions".
"""


class NetworkSpec(TypedDict, total=False):
    """A network between nodes. Give its rate by node, by card, or leave it to the link's own."""

    link: LinkOrName | None
    """The kind of network:

    an id of the catalogue's links (`ib-ndr`, `roce-400`, `efa-v2`, `eth-100-tcp`, ...), or a row of
    one's own.
    """

    node_gb_s: float | None
    """Rate of one node, one direction, in GB/s."""

    nic_gbit_s: float | None
    """Rate of one card, one direction, in Gbit/s."""

    nics: int | None
    """Cards in a node."""

    reach_nodes: int | None
    """Nodes joined at this rate; all of them when absent."""


class NodeCount(TypedDict, total=False):
    """A part of the run on a number of nodes of its own; the data-parallel degree follows."""

    nodes: Required[int]
    """Nodes of this part."""

    share: Required[float]
    """Share of the tokens trained on them, 0 to 1; the shares of all parts add up to 1."""


class Nvme(TypedDict, total=False):
    """Swapping to NVMe, where the layout offloads `param_nvme` or `optimizer_nvme`."""

    buffer_count: int | None
    """Pinned buffers for optimizer states, each of one tile in fp32; none means what the

    pipelining needs: 4 with Adam, 8 when reads or writes are pipelined, 12 when both are.
    """

    pipeline_read: bool
    """The next tile is read while the CPU updates this one."""

    pipeline_write: bool
    """The tile before is written while the CPU updates this one."""

    sub_group_size: int | None
    """Parameters of a tile; none means 1e9."""

    param_buffer_count: int | None
    """Pinned buffers for parameters; none means 5."""

    param_buffer_size: int | None
    """Elements of each; none means 1e8, or the largest tensor's shard."""

    max_in_cpu: int | None
    """Elements of parameters that stay in host memory; none means 1e9."""

    read_gb_s: float | None
    """What a node's drives read, in GB/s; none means 7.35."""

    write_gb_s: float | None
    """What they write, in GB/s; none means 7.35."""


Objective: TypeAlias = Literal["time", "cost", "expected_cost", "headroom"]
"""What the search makes least (or most)."""

Offload: TypeAlias = Literal[
    "param", "gradient", "optimizer", "activation", "param_nvme", "optimizer_nvme"
]
"""What leaves the device between uses."""

Optimizer: TypeAlias = Literal[
    "adamw",
    "adamw_fused",
    "adamw_loop",
    "adamw_8bit",
    "adamw_4bit",
    "paged_adamw",
    "paged_adamw_8bit",
    "adamw_bf16_states",
    "cpu_adam",
    "adafactor",
    "lion",
    "muon",
    "galore",
    "lomo",
    "badam",
    "mezo",
    "sgd",
    "sgd_momentum",
]
"""The optimizer and its implementation."""


class Owned(TypedDict, total=False):
    """Machines of one's own like those of the request."""

    capex_usd: Required[float]
    """Price of everything bought, in USD."""

    utilisation: Required[float]
    """Share of the time that they are in use, above 0 to 1."""

    years: float | None
    """Years over which they are written off; none means 4."""

    resale_usd: float
    """What they fetch after that, in USD."""

    power_kw: float | None
    """Power under load in kW; none means 1.8 times the GPUs' design power."""

    pue: float | None
    """Power from the grid over power of the machines; none means 1.3."""

    usd_per_kwh: float | None
    """Price of a kWh in USD; none means 0.12."""

    idle_power: float | None
    """Share of their power that they draw when idle; none means 0.3."""

    staff_usd_per_year: float
    """People who run them, in USD per year."""

    space_usd_per_year: float
    """Space, contracts and insurance, in USD per year."""


class PlanRequest(TypedDict, total=False):
    """Asks for the best layout."""

    model: Required[ModelSpec]
    """What is trained."""

    cluster: Required[MachinesOrName]
    """On which machines."""

    seq_len: Required[int]
    """Tokens per sequence."""

    global_batch: Required[int]
    """Sequences per optimizer step."""

    schema_version: int
    """Version of this format."""

    recipe: Recipe
    """How it is trained."""

    search: Search
    """What may vary."""

    alternatives: Sequence[MachinesOrName]
    """Other machines that the run could have instead."""

    why_not: Sequence[Layout]
    """Layouts to explain: why not these? A shard degree of 0 means all ranks left."""

    current: Layout | None
    """The layout in use: what to change first is told."""

    run: Run
    """How much is trained, and at which price."""

    calibration: Calibration
    """What measured runs taught: the answer's `calibration` of `calibrate`."""

    catalog: CatalogRows
    """Catalogue rows of the user's own."""


class Platform(TypedDict, total=False):
    """The usual node of a class of accelerators:

    how many parts it holds and how nodes are joined.
    """

    id: Required[str]
    """Short name, unique."""

    gpus_per_node: Required[int]
    """Parts in a node."""

    network: Required[str]
    """Network between nodes, an id of `links`."""

    nics: Required[int]
    """Network cards in a node."""

    network_gbit_s: Required[float]
    """Their rate together, one direction, in Gbit/s."""

    name: str
    """What it is."""

    domain: int | None
    """Parts that the fast link joins, where that reaches past the node (a rack of 72)."""

    source: str
    """Where this comes from."""

    as_of: str
    """When it was compiled (ISO 8601)."""

    check: str | None
    """How well it was checked."""

    note: str | None
    """What else a reader must know."""


PriceKind: TypeAlias = Literal["on_demand", "spot", "reserved_1y", "reserved_3y"]
"""How machines are paid for."""


class PriceSpec(TypedDict, total=False):
    """Prices in USD per accelerator and hour. Absent means unknown."""

    on_demand: float | None
    """By the hour."""

    spot: float | None
    """Spot."""

    reserved_1y: float | None
    """One-year commitment."""

    reserved_3y: float | None
    """Three-year commitment."""

    source: str | None
    """Where they come from."""

    as_of: str | None
    """Their date (ISO 8601)."""


class Qat(TypedDict, total=False):
    """Quantisation-aware training."""

    scheme: QatScheme
    """What is imitated."""

    group: int | None
    """Elements per weight scale;

    none means the scheme's usual (32 for int8-dynamic int4-weight, 128 for int4 weight-only, one
    scale per row for fp8).
    """


QatScheme: TypeAlias = Literal["int4_weight_only", "int8_dynamic_int4_weight", "fp8"]
"""What quantisation-aware training imitates."""


class Recipe(TypedDict, total=False):
    """The training recipe."""

    method: Method
    """What is trained."""

    lora: Lora
    """Adapters, for the LoRA methods."""

    base_quantization: BaseQuantization
    """How a quantised base is stored, for QLoRA."""

    double_quantization: bool | None
    """Whether QLoRA's scales are quantised again; none means yes."""

    kbit_preparation: bool
    """Whether the base went through PEFT's `prepare_model_for_kbit_training`, which lifts norms

    and embeddings to fp32.
    """

    qat: Qat
    """Fake quantisation, for the QAT methods."""

    framework: Framework
    """Whose training loop runs."""

    params_dtype: Dtype | None
    """Format the parameters are stored in;

    none means fp32 for full training (mixed precision) and the compute format for a frozen base.
    """

    compute: Compute
    """Format of the matrix multiplications."""

    autocast: bool | None
    """Whether `torch.autocast` casts fp32 parameters at use;

    none means: when parameters are fp32, compute is not, and no FSDP mixed-precision policy does it
    instead.
    """

    reduce_dtype: Dtype | None
    """Format in which gradients are reduced across data-parallel ranks;

    none means fp32 under FSDP mixed precision, else the parameters' format.
    """

    kernels: Kernels | None
    """Implementation of norms, activations and rotary embeddings;

    none means fused where the framework brings its own (Megatron-Core, native engines), else eager.
    """

    attention: AttentionKernel
    """Attention kernel."""

    loss: LossKernel
    """Cross-entropy implementation."""

    loss_chunks: int | None
    """Chunks of a chunked loss; none means 8."""

    drop_logits: bool
    """Whether the script drops the logits before backward."""

    optimizer: Optimizer
    """Optimizer."""

    optimizer_in_backward: bool
    """Whether each gradient is applied and freed during backward."""

    versions: Versions
    """Releases of the libraries, where memory depends on them."""

    keep_gradients: bool
    """Gradients stay allocated between steps (`zero_grad(set_to_none=False)`)."""

    ema: bool
    """Keeps an exponential moving average of the parameters."""

    padding_mask: bool
    """Batches carry a padding mask (which switches PyTorch's flash kernel off)."""

    no_dropout: bool
    """Dropout probabilities of the model's config are set to zero."""

    runtime: Runtime
    """How the program runs beside the mathematics."""


Recompute: TypeAlias = Literal["none", "selective", "full"]
"""What backward recomputes instead of keeping."""

RecomputeModule: TypeAlias = Literal[
    "core_attn", "qkv", "attention", "layernorm", "activation", "mlp"
]
"""A part of a layer that selective recomputation runs again."""

Reshard: TypeAlias = Literal["default", "always", "never", "node"]
"""Whether an FSDP2 unit frees its gathered parameters between forward and backward."""


class Run(TypedDict, total=False):
    """How much is trained, and at which price.

    Without tokens or steps only the step is reported.
    """

    tokens: float | None
    """Tokens to train on."""

    steps: float | None
    """Optimizer steps, instead of tokens."""

    price: PriceKind
    """Which price of the catalogue is paid."""

    duplicated: float
    """Share of the tokens that deduplication removes before training, 0 to 1."""

    checkpoint: Checkpointing | None
    """When and how the state is saved;

    none means never, or at the best interval where nodes may be lost.
    """

    faults: Faults | None
    """How nodes are lost and come back; none means that none are."""

    node_counts: Sequence[NodeCount]
    """Node counts that vary over the run, in order:

    grown on a plateau, shrunk after; none means the cluster's throughout.
    """

    deadline_hours: float | None
    """Hours after which the run is to have ended: the answer says how likely that is."""

    expenses: Expenses | None
    """What is paid beside the machines' time."""

    offers: bool
    """Puts the prices known for these machines side by side."""

    owned: Owned | None
    """Machines of one's own, to hold against renting."""

    serving: Serving | None
    """How the result is served."""


class Runtime(TypedDict, total=False):
    """How the program runs."""

    cuda_graphs: bool
    """Kernels are replayed from a recorded graph, so the host cannot be the limit."""

    moe_dispatch: Dispatch
    """How tokens travel to their experts."""

    moe_overlap: bool | None
    """Expert traffic runs beside the compute of another micro-batch;

    none means: under an interleaved pipeline or `DualPipe`.
    """

    tensor_overlap: bool | None
    """Tensor-parallel traffic runs beside the matrix products it belongs to;

    none means what the framework does unasked.
    """

    data_overlap: bool | None
    """Data-parallel and sharded-parameter traffic runs beside compute;

    none means what the framework does unasked.
    """

    fp8_param_gather: bool
    """Megatron's parameters rest and travel in 8 bits (`--fp8-param-gather`).

    Without, Transformer Engine keeps copies of the layers' weights in 8 bits beside them.
    """

    moe_fused: bool
    """Routing, permutation and weighting of expert tokens run as few fused kernels, token

    counts staying on the device.
    """

    moe_capacity_factor: float | None
    """Places per expert as a multiple of the mean load:

    tokens beyond are dropped, empty places are padded. None means dropless.
    """

    moe_imbalance: float | None
    """Load of the fullest expert-parallel rank as a multiple of the mean, when no token is

    dropped; none means 1.
    """

    in_network_reduction: bool
    """Switches of the network sum all-reduces (SHARP)."""

    backend: Backend
    """The communication library."""

    compression: Compression
    """What is done to gradients before they travel."""

    compression_rank: int | None
    """Rank of low-rank compression; none means 4."""

    loader_workers: int | None
    """Loader workers per rank; none means that data is always ready."""

    worker_samples_per_second: float | None
    """Samples that one worker prepares in a second; none means 2000 (packed, tokenised text)."""

    sample_bytes: float | None
    """Bytes read from storage per sample; none means 4 bytes a token."""

    gpu_decode_samples_per_second: float | None
    """Samples that one accelerator decodes in a second, where decoding runs there (`DALI`,

    nvJPEG): workers then only read, and the decoder slows the compute beside it.
    """

    jitter: float | None
    """Relative spread (standard deviation) of the ranks' compute time; none means 0."""

    nvme: Nvme
    """How states are swapped to NVMe drives."""


SaveMode: TypeAlias = Literal["sync", "async", "two_level"]
"""How a checkpoint is saved."""

Schedule: TypeAlias = Literal[
    "gpipe",
    "1f1b",
    "interleaved_1f1b",
    "zero_bubble_h1",
    "zero_bubble_h2",
    "zero_bubble_v",
    "dualpipe",
]
"""The order in which a pipeline runs its micro-batches."""


class Search(TypedDict, total=False):
    """What the search may vary. An empty list leaves that choice open."""

    shardings: Sequence[Sharding]
    """Sharding strategies to consider."""

    micro_batches: Sequence[int]
    """Micro-batches to consider, in sequences."""

    recompute: Sequence[Recompute]
    """What to consider recomputing."""

    recompute_every: Sequence[int]
    """Where all of a layer is recomputed:

    every how many layers; left open: every one, every second, every fourth.
    """

    tensor_parallel: Sequence[int]
    """Tensor-parallel degrees to consider."""

    pipeline_parallel: Sequence[int]
    """Pipeline degrees to consider."""

    pipeline_chunks: Sequence[int]
    """Chunks a rank that an interleaved schedule may have."""

    context_parallel: Sequence[int]
    """Context-parallel degrees to consider."""

    expert_parallel: Sequence[int]
    """Expert-parallel degrees to consider."""

    schedules: Sequence[Schedule]
    """Pipeline schedules to consider;

    left open: 1F1B, interleaved and zero-bubble H1, as the framework has them.
    """

    offload: Sequence[Offload]
    """What may leave the device; unlike the other lists, an empty one means nothing."""

    methods: Sequence[Method]
    """Methods to consider, of which any fine-tuning does:

    full, LoRA, QLoRA, QAT; left open: the recipe's.
    """

    optimizers: Sequence[Optimizer]
    """Optimizers to consider; left open: the recipe's."""

    computes: Sequence[Compute]
    """Formats of the matrix multiplications to consider; left open: the recipe's."""

    nodes: Sequence[int]
    """Numbers of nodes to consider, for `cluster` and everything beside it;

    left open: those given.
    """

    instances: Sequence[str]
    """Cloud shapes to consider beside `cluster`, as many nodes of each as have its GPUs;

    the one word `any` means every priced shape of the catalogue with parts of the same vendor.
    """

    global_batch_range: Sequence[int] | None
    """Sequences per optimizer step to consider, from the first to the second number:

    those of the request times powers of two; left open: those of the request.
    """

    objective: Objective
    """What is made least."""

    deadline: float | None
    """The run must be over within this time, in seconds. It needs a run."""

    budget: float | None
    """The run must cost no more than this, in US dollars. It needs a run."""

    headroom: float
    """Memory to leave free, as a share of the accelerator's usable memory, 0 to 0.9."""

    any_framework: bool
    """Whether layouts are looked at that the recipe's framework does not run."""

    scaling: bool
    """Whether the best plan is also sought on fewer and on more machines of the kind."""

    sensitivity: bool
    """Whether the best plan is also sought for other prices, networks and batches."""

    list: int
    """Plans to list beside the best."""

    max_candidates: int
    """Candidates after which the search stops."""


class Serving(TypedDict, total=False):
    """How the result is served, on one GPU."""

    memory_gib: float | None
    """Memory in which it must fit, in GiB; none means that of the training's GPU."""

    must_fit: bool
    """Whether `plan` may only choose what fits there."""

    bandwidth_gb_s: float | None
    """Memory bandwidth of the serving GPU, in GB/s; none means the training's."""

    tflops: float | None
    """Its 16-bit matrix rate, in TFLOP/s; none means the training's."""

    usd_per_hour: float | None
    """Its price per hour in USD; none means the training's."""

    bits: float | None
    """Bits of a weight, scales included; none means what the training prepares it for, else 16."""

    prompt: float | None
    """Tokens of a prompt; none means 500."""

    answer: float | None
    """Tokens of an answer; none means 300."""

    batch: int | None
    """Sequences decoded together at most; none means 16."""

    draft_tokens: int
    """Tokens a draft model proposes at a time."""

    acceptance: float
    """Probability that a proposed token is accepted."""

    draft_cost: float
    """Time of one draft token over the time of one token of the model."""

    tokens_per_day: float | None
    """Tokens served a day."""


Sharding: TypeAlias = Literal[
    "none",
    "ddp",
    "zero1",
    "zero2",
    "zero3",
    "FULL_SHARD",
    "SHARD_GRAD_OP",
    "HYBRID_SHARD",
    "_HYBRID_SHARD_ZERO2",
    "NO_SHARD",
    "fsdp2",
    "distributed_optimizer",
]
"""How model states are spread over the data-parallel ranks."""


class Source(TypedDict, total=False):
    """What a short name in a row's `source` stands for."""

    id: Required[str]
    """Short name, unique."""

    url: Required[str]
    """Address."""

    licence: Required[str]
    """Licence of the data."""

    as_of: Required[str]
    """Date of the data (ISO 8601)."""

    note: str | None
    """What was taken."""


class Spells(TypedDict, total=False):
    """Lengths of spells.

    They are heavy-tailed in every recorded trace, so the mean alone misleads.
    """

    mean: Required[float]
    """Mean length, in seconds."""

    scv: float
    """Squared coefficient of variation:

    variance over squared mean. 1 for memoryless spells, 2 to 7 in recorded traces.
    """

    lower_quartile: float | None
    """A quarter of the spells are shorter than this, in seconds."""

    median: float | None
    """Half of the spells are shorter than this, in seconds."""

    upper_quartile: float | None
    """A quarter of the spells are longer than this, in seconds."""


Start: TypeAlias = Literal["any_moment", "with_capacity"]
"""What is known of the moment the job is started."""


class StorageOffer(TypedDict, total=False):
    """One storage product, egress tariff or measured store."""

    id: Required[str]
    """Short name, unique."""

    kind: str
    """`egress`, `object`, `file`, `block`, or `perf` (a measured store without price)."""

    provider: str
    """Who offers it."""

    product: str
    """The provider's name for it."""

    usd_per_gb: float | None
    """Price of moving a GB, in USD."""

    usd_per_gb_month: float | None
    """Price of keeping a GB for a month, in USD."""

    gb_s: float | None
    """Rate, in GB/s."""

    per: str | None
    """What that rate is per: `client`, `node`, `volume`, `disk`, `tib` or `tb` kept, `total`."""

    source: str
    """Where the figures come from, an id of `sources` or plain words."""

    as_of: str
    """Their date (ISO 8601; a bare year where the day is unknown)."""

    check: str | None
    """How well they were checked."""

    note: str | None
    """What else a reader must know."""


Swing: TypeAlias = Any
"""How much the share of time with a complete gang differs between one day and another and

between one week and another.
"""


class Trace(TypedDict, total=False):
    """Nodes available over time, as a step function. Before the first step no node is there."""

    steps: Required[Sequence[TraceStep]]
    """When the number of nodes changed, in order of time; at most 100,000."""

    length: Required[float]
    """Seconds recorded."""


class TraceStep(TypedDict, total=False):
    """From `at` on, `nodes` nodes are there, until the next step."""

    at: Required[float]
    """Seconds since the trace began."""

    nodes: Required[int]
    """Nodes available from then on."""


class Versions(TypedDict, total=False):
    """Releases of the libraries that train. None means the newest known."""

    torch: str | None
    """PyTorch, as `2.4.1`."""

    transformers: str | None
    """Transformers, as `4.45.2`."""


Wrap: TypeAlias = Literal["layers", "layers+embed+head", "size", "model"]
"""Which modules form one unit of FSDP."""

Writer: TypeAlias = Literal["single", "sharded"]
"""Who writes."""
