"""What the core answers, as frozen dataclasses.

Made from ``schema/`` by ``tools/generate_types.py``; change the core's types instead.
Amounts are in base units: bytes, seconds, FLOPs, US dollars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "Accelerator",
    "Assumption",
    "BytesTerms",
    "CalibrateAnswer",
    "Calibration",
    "CatalogRows",
    "Change",
    "Channel",
    "CheckpointOutlook",
    "Chosen",
    "Cluster",
    "CompareAnswer",
    "CompareLine",
    "Compared",
    "Compute",
    "ContextStyle",
    "CurvePoint",
    "Deadline",
    "EstimateAnswer",
    "Fit",
    "InSwitch",
    "Instance",
    "Interval80",
    "Layout",
    "Learnt",
    "Link",
    "LossOutlook",
    "MemoryReport",
    "Method",
    "ModelSummary",
    "Network",
    "OfferLine",
    "Offload",
    "Optimizer",
    "ParameterCounts",
    "Peaks",
    "Phase",
    "PhaseOutlook",
    "PlanAnswer",
    "PlanLine",
    "PlanWarning",
    "Platform",
    "Price",
    "PriceKind",
    "Prices",
    "Recompute",
    "RecomputeModule",
    "Rejection",
    "Remedy",
    "Reshard",
    "Residual",
    "RunOutlook",
    "RunReport",
    "Scaling",
    "Schedule",
    "SecondsTerms",
    "Sensitivity",
    "ServingOutlook",
    "Sharding",
    "Source",
    "Spread",
    "StepReport",
    "StopReason",
    "StorageOffer",
    "Term",
    "Unit",
    "UsdTerms",
    "Verdict",
    "Wrap",
]


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One accelerator part. Peaks are dense."""

    id: str
    """Short name, unique, lower case."""

    vendor: str
    """Who makes it."""

    name: str
    """The vendor's name for it."""

    form: str
    """Form factor: SXM5, PCIe, OAM, ..."""

    memory_gb: float
    """The memory on the vendor's label, in GB."""

    bandwidth_gb_s: float
    """Memory bandwidth, in GB/s."""

    source: str
    """Where the figures come from."""

    as_of: str
    """When they were compiled (ISO 8601)."""

    year: int | None = None
    """Year of release."""

    usable_gib: float | None = None
    """The memory a framework sees, in GiB."""

    devices: int | None = None
    """Devices that a framework sees in one part; 1 when absent."""

    fp32_tflops: float | None = None
    """Peak in fp32 without tensor cores, in TFLOP/s."""

    tf32_tflops: float | None = None
    """Peak in tf32, in TFLOP/s."""

    fp16_tflops: float | None = None
    """Peak in fp16 with fp32 accumulation, in TFLOP/s."""

    bf16_tflops: float | None = None
    """Peak in bf16, in TFLOP/s."""

    fp8_tflops: float | None = None
    """Peak in fp8, in TFLOP/s."""

    fp4_tflops: float | None = None
    """Peak in fp4, in TFLOP/s."""

    int8_tops: float | None = None
    """Peak in int8, in TOP/s."""

    link: str | None = None
    """Link to its neighbours, an id of `links`."""

    link_bidirectional_gb_s: float | None = None
    """Rate of that link, both directions together as vendors print it, in GB/s."""

    link_domain: int | None = None
    """Parts that the link joins, where that is not the whole node (a bridge joins 2)."""

    pcie: str | None = None
    """PCIe link, an id of `links`."""

    host_link: str | None = None
    """Link to the host where that is not PCIe, an id of `links`."""

    tdp_w: float | None = None
    """Design power of the part, in W."""

    measured_bf16_tflops: float | None = None
    """The best bf16 matrix product measured, in TFLOP/s."""

    measured_fp8_tflops: float | None = None
    """The best fp8 matrix product measured, in TFLOP/s."""

    matmul_fraction: float | None = None
    """Fraction of the peak that large matrix products reach."""

    matmul_basis: str | None = None
    """Where that fraction comes from."""

    platform: str | None = None
    """The usual node, an id of `platforms`."""

    aliases: tuple[str, ...] = ()
    """Other names it answers to; case, spaces and punctuation do not count."""

    check: str | None = None
    """How well they were checked."""

    note: str | None = None
    """What else a reader must know."""


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """One thing that was assumed for a field that was not given.

    Every answer lists them, so that a reader can state the thing and ask again.
    """

    field: str
    """Path of the field that was not given, as in `cluster.nodes`."""

    value: str
    """What was taken for it, with its unit."""

    why: str
    """Why that value."""


@dataclass(frozen=True, kw_only=True)
class BytesTerms:
    """A sum that keeps its terms."""

    total: float
    """No description."""

    terms: tuple[Term, ...]
    """No description."""


@dataclass(frozen=True, kw_only=True)
class CalibrateAnswer:
    """What the runs taught."""

    schema_version: int
    """Version of this format."""

    calibration: Calibration
    """To be given to later requests as it is."""

    constants: tuple[Learnt, ...]
    """Each constant with its uncertainty."""

    before: float | None
    """Root mean square of ln(measured / predicted) of step times with the published values;

    none where no time was measured.
    """

    after: float | None
    """The same with the constants learnt."""

    runs: tuple[Residual, ...]
    """Run by run, measured and predicted."""

    summary: str
    """In words."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
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

    spread: float | None = None
    """Standard deviation of ln(measured / predicted) of step times;

    none means as in published runs.
    """


@dataclass(frozen=True, kw_only=True)
class CatalogRows:
    """Every kind of row: what the catalogue lists, and the form of a file a user brings."""

    schema_version: int
    """Version of this format."""

    accelerators: tuple[Accelerator, ...] = ()
    """GPUs and other accelerators, by id."""

    instances: tuple[Instance, ...] = ()
    """Cloud shapes with their prices, by cloud, name and region."""

    links: tuple[Link, ...] = ()
    """Links inside and between nodes, by id."""

    platforms: tuple[Platform, ...] = ()
    """The usual node of each accelerator, by id."""

    storage: tuple[StorageOffer, ...] = ()
    """Prices and rates of storage and egress, by id."""

    sources: tuple[Source, ...] = ()
    """What the short names in `source` stand for, by id."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change to the layout in use."""

    change: str
    """What is changed, in words."""

    layout: Layout
    """The layout after it."""

    step_time: float
    """Step time after it."""

    saves: float | None
    """What it saves a step; none when the layout in use does not fit."""

    saves_money: float | None
    """What it saves over the run."""


@dataclass(frozen=True, kw_only=True)
class Channel:
    """A way for bytes: its nominal rate and what is known of how collectives use it."""

    link: str
    """The link's id in the catalogue (`nvlink4`, `pcie5x16`, `ib-ndr`, `efa-v2`, ...)."""

    bandwidth: float
    """Nominal rate, one direction: of one GPU inside a node, of one node between nodes."""

    fraction: float | None
    """Share of it that ring collectives of large messages reach."""

    all_to_all_fraction: float | None
    """The same for all-to-all."""

    in_switch: InSwitch | None
    """All-reduce in the switch, where the link has it."""

    copy_fraction: float | None
    """Share that a pinned copy between host and device reaches."""

    latency: float | None
    """Time of a small collective."""

    hop: float | None
    """Time of one hop."""

    alpha: float | None
    """Constant term of the fitted collective time."""

    sqrt: float | None
    """Square-root term of the fitted collective time, in seconds per sqrt(byte)."""

    fitted: float | None
    """Bus bandwidth of that fit for endless messages."""


@dataclass(frozen=True, kw_only=True)
class CheckpointOutlook:
    """How the state is saved."""

    bytes: BytesTerms
    """What is written."""

    stall: SecondsTerms
    """Time for which training stands still for one save."""

    write: float
    """From the state to the finished checkpoint."""

    load: float
    """Loading it again."""

    host_memory: float
    """Host memory that a node needs for it."""

    interval: float
    """Work between two saves."""

    saves: float
    """Saves in an undisturbed run."""

    full_interval: float | None
    """Two levels: work between two full saves."""

    best_interval: float | None
    """The interval with the least expected time; none where nothing can be lost."""

    excess: float
    """Expected time over that with the best interval, less 1."""

    on_notice: bool
    """Whether saves are made on notice instead."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What was chosen beside the layout."""

    machines: str
    """The machines."""

    nodes: int
    """Nodes."""

    gpus: int
    """GPUs."""

    method: Method
    """What is trained."""

    optimizer: Optimizer
    """Optimizer."""

    compute: Compute
    """Format of the matrix multiplications."""

    global_batch: int
    """Sequences per optimizer step."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The machines of a run.

    All figures of an accelerator are those of one device as a framework sees it (a GPU below): one
    rank. GPUs are joined in three tiers: `domain` consecutive GPUs by `within_domain` (`NVLink`;
    may span nodes in a rack, or join only pairs where there are bridges), the rest of a node by
    `within_node`, and nodes by `networks`.
    """

    accelerator: str
    """The accelerator's id in the catalogue."""

    vendor: str
    """Who makes it."""

    form: str
    """Form factor."""

    year: int | None
    """Year of release."""

    instance: str | None
    """The cloud shape, where one was named."""

    cloud: str | None
    """The cloud, where one was named or follows from the shape."""

    region: str | None
    """Its region."""

    nodes: int
    """Nodes."""

    gpus_per_node: int
    """GPUs in a node."""

    memory: float
    """Memory a framework sees on one GPU."""

    memory_bandwidth: float
    """Nominal memory bandwidth of one GPU."""

    peaks: Peaks
    """Dense peaks of one GPU."""

    measured_bf16: float | None
    """Best bf16 matrix product measured on one GPU."""

    measured_fp8: float | None
    """Best fp8 matrix product measured on one GPU."""

    matmul_fraction: float | None
    """Share of the peak that large matrix products reach."""

    power: float | None
    """Design power of one GPU."""

    power_cap: float | None
    """Power one GPU is held to, where that is less."""

    domain: int
    """GPUs joined by `within_domain`;

    at least 1, and more than a node where a rack is one domain.
    """

    within_domain: Channel | None
    """The fastest link between GPUs, rate of one GPU; `None` where GPUs have no link."""

    within_node: Channel | None
    """The link between domains of one node; equal to `within_domain` where a domain is a node."""

    host: Channel | None
    """The link between a GPU and its host."""

    networks: tuple[Network, ...]
    """Networks between nodes, from the one that reaches least to the one that reaches all."""

    host_memory: float | None
    """Memory of one host."""

    vcpus: int | None
    """Hardware threads of one host."""

    nvme: float | None
    """Local NVMe of one node."""

    storage: float | None
    """What one node reads from or writes to the shared store."""

    interruption: tuple[float, ...] | None
    """Share of spot machines of the priced offer taken back in a month, lowest and highest (0

    to 1).
    """

    prices: Prices
    """Prices of one GPU."""


@dataclass(frozen=True, kw_only=True)
class CompareAnswer:
    """Answers side by side."""

    schema_version: int
    """Version of this format."""

    compared: tuple[Compared, ...]
    """What is compared, in the order asked."""

    lines: tuple[CompareLine, ...]
    """The figures, line by line."""


@dataclass(frozen=True, kw_only=True)
class CompareLine:
    """One figure of each answer. None where an answer has no such figure."""

    name: str
    """What it is; terms of a sum begin with its name and a colon."""

    unit: Unit
    """What it counts."""

    values: tuple[float | None, ...]
    """The figures."""

    differences: tuple[float | None, ...]
    """Each less the first."""

    ratios: tuple[float | None, ...]
    """Each over the first; none where that is zero."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One column of a comparison."""

    name: str
    """What it is called."""

    model: str
    """The model."""

    cluster: str
    """The machines."""

    layout: str
    """The layout's name."""

    verdict: Verdict
    """Whether it fits."""

    reason: str
    """What binds."""


Compute: TypeAlias = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
"""The number format of the matrix multiplications."""

ContextStyle: TypeAlias = Literal["ring", "all_to_all"]
"""How a sequence is split over the context-parallel group."""


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The best plan on so many machines."""

    nodes: int
    """Nodes."""

    gpus: int
    """GPUs."""

    name: str
    """How a person names the layout."""

    layout: Layout
    """The layout."""

    step_time: float
    """Step time."""

    tokens_per_second: float
    """Tokens per second of the whole cluster."""

    run_time: float | None
    """Wall time of the run."""

    cost: float | None
    """Money of the run."""

    efficiency: float
    """Tokens per second and GPU, over those of the first point."""

    marginal: float | None
    """Tokens per second that each GPU more than at the point before brings, over those of a GPU

    of the first point; none at the first.
    """


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """A deadline and its chance."""

    after: float
    """After the start."""

    chance: float
    """Probability of having ended by then, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class EstimateAnswer:
    """What one layout needs."""

    schema_version: int
    """Version of this format."""

    model: ModelSummary
    """The model."""

    cluster: Cluster
    """The machines."""

    name: str
    """How a person names the layout: its strategy and the degrees above 1."""

    layout: Layout
    """The layout, every degree filled in."""

    global_batch: int
    """Sequences per optimizer step."""

    seq_len: int
    """Tokens per sequence."""

    gradient_accumulation: int
    """Micro-batches per optimizer step on each data-parallel rank."""

    fit: Fit
    """Whether it fits."""

    memory: MemoryReport
    """Peak memory, opened."""

    step: StepReport
    """Step time, opened."""

    run: RunReport | None
    """The run, when the request says how much is trained."""

    assumptions: tuple[Assumption, ...]
    """What was assumed for each thing not given."""

    serving: ServingOutlook | None = None
    """How the result is served; there when asked."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Memory held against the accelerator."""

    verdict: Verdict
    """Whether it fits."""

    capacity: float
    """Memory a framework can use on one accelerator."""

    headroom: float
    """Capacity less need; negative when it does not fit."""

    reason: str
    """In one sentence: what binds and by how much."""


@dataclass(frozen=True, kw_only=True)
class InSwitch:
    """An all-reduce summed by the switch."""

    fraction: float
    """Share of the nominal one-direction rate that its bus bandwidth reaches; may pass 1."""

    min_gpus: int
    """Smallest group for which the library uses it."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One cloud shape in one region. Prices are US dollars per hour of the whole shape."""

    cloud: str
    """The cloud."""

    name: str
    """The cloud's name for the shape."""

    gpu: str
    """Its accelerator, an id or alias of `accelerators`."""

    gpus: int
    """How many of them."""

    source: str
    """Where the prices come from, an id of `sources` or plain words."""

    as_of: str
    """Date of the prices (ISO 8601; a bare year where the day is unknown)."""

    link: str | None = None
    """Link between them, an id of `links`; the accelerator's own when absent."""

    domain: int | None = None
    """Parts joined by that link, where that is not the whole shape."""

    network: str | None = None
    """Network for traffic between the accelerators of several shapes, an id of `links`."""

    nics: int | None = None
    """Network cards behind it."""

    network_gbit_s: float | None = None
    """Rate of that network, one direction, in Gbit/s."""

    network_total_gbit_s: float | None = None
    """Rate the cloud advertises where that counts other cards too, in Gbit/s."""

    vcpus: int | None = None
    """Virtual CPUs (hardware threads)."""

    ram_gib: float | None = None
    """Host memory, in GiB (clouds that write GB mean GiB)."""

    nvme_gb: float | None = None
    """Local NVMe, in GB; 0 where there is none."""

    on_demand: float | None = None
    """On-demand price, in USD/h."""

    on_demand_range: tuple[float, ...] | None = ()
    """Lowest and highest on-demand price over the cloud's regions, in USD/h."""

    spot: float | None = None
    """Spot price, in USD/h."""

    spot_range: tuple[float, ...] | None = ()
    """Lowest and highest spot price seen over zones or regions, in USD/h."""

    spot_basis: str | None = None
    """How the spot price is known:

    `published`, `zones` (a snapshot by zone) or `advisor` (on-demand less the advertised saving).
    """

    spot_source: str | None = None
    """Source of the spot price, where it is another."""

    spot_as_of: str | None = None
    """Date of the spot price, where it is another."""

    reserved_1y: float | None = None
    """Price under a one-year commitment, in USD/h."""

    reserved_3y: float | None = None
    """Price under a three-year commitment, in USD/h."""

    capacity_block: float | None = None
    """Price of a block booked ahead, in USD/h (a listing of 2024-12)."""

    interruption_pct: tuple[float, ...] | None = ()
    """Share of spot shapes taken back in a month, lowest and highest, in per cent (2025-06-28)."""

    region: str | None = None
    """The cloud's region."""

    specs: str | None = None
    """Where virtual CPUs, memory and NVMe come from, where that is another."""

    note: str | None = None
    """What else a reader must know."""


@dataclass(frozen=True, kw_only=True)
class Interval80:
    """The range in which four of five measurements of such a case fall, from the errors seen on

    similar measured runs.
    """

    low: float
    """One in ten measurements lies below."""

    high: float
    """One in ten measurements lies above."""


@dataclass(frozen=True, kw_only=True)
class Layout:
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

    recompute_modules: tuple[RecomputeModule, ...]
    """What selective recomputation runs again; empty means `core_attn`."""

    recompute_every: int
    """Recompute every k-th layer only."""

    partition_activations: bool
    """Recomputation's checkpoints are split over the tensor ranks (DeepSpeed's

    `partition_activations`).
    """

    offload: tuple[Offload, ...]
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


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """One constant after the fit."""

    name: str
    """Which."""

    factor: float
    """Factor on the published value."""

    low: float
    """Lower end of its 80 % interval."""

    high: float
    """Upper end."""

    learnt: float
    """Share of the prior's variance that the measurements took away, from 0 (nothing learnt) to

    1.
    """


@dataclass(frozen=True, kw_only=True)
class Link:
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

    source: str
    """Where the figures come from."""

    as_of: str
    """When they were compiled (ISO 8601)."""

    gb_s: float | None = None
    """Nominal rate, one direction, in GB/s."""

    port_gbit_s: float | None = None
    """Nominal rate of a port, in Gbit/s."""

    measured_gb_s: float | None = None
    """Best bus bandwidth measured, in GB/s."""

    fraction: float | None = None
    """Share of the nominal rate that ring collectives of large messages reach."""

    all_to_all_fraction: float | None = None
    """The same for all-to-all."""

    in_switch_fraction: float | None = None
    """The same for an all-reduce that the switch sums."""

    in_switch_min_gpus: int | None = None
    """Smallest group for which the library lets the switch sum."""

    copy_fraction: float | None = None
    """The share that a pinned copy between host and device reaches."""

    latency_us: float | None = None
    """Time of a small collective, in microseconds."""

    hop_us: float | None = None
    """Time of one hop, in microseconds."""

    alpha_us: float | None = None
    """Constant term of the fitted collective time, in microseconds."""

    sqrt_us: float | None = None
    """Square-root term of the fitted collective time, in microseconds per sqrt(byte)."""

    fitted_gb_s: float | None = None
    """Bus bandwidth of the fit for endless messages, in GB/s."""

    fit: str | None = None
    """What was fitted."""

    check: str | None = None
    """How well they were checked."""

    note: str | None = None
    """What else a reader must know."""


@dataclass(frozen=True, kw_only=True)
class LossOutlook:
    """How nodes are lost."""

    per_node_hour: float
    """Losses of one node per hour."""

    loss_share: float
    """Mean share of the gang that one loss takes."""

    mean_up: float | None
    """Mean time for which the gang stays complete; none where it is never lost."""

    mean_down: float
    """Mean wait for capacity after a loss."""

    expected: float | None
    """Expected losses in the run; none where the policy's model does not count them."""


@dataclass(frozen=True, kw_only=True)
class MemoryReport:
    """Peak memory of the fullest rank, as three tools show it."""

    phases: tuple[Phase, ...]
    """The instants of a step in order, each with what is alive."""

    peak: int
    """The phase that peaks: an index into `phases`."""

    stage: int
    """Pipeline stage of the fullest rank."""

    allocated: float
    """Peak of tensors, as `torch.cuda.max_memory_allocated` reports it."""

    reserved: BytesTerms
    """What the allocator holds at that peak, as `torch.cuda.max_memory_reserved`."""

    device: BytesTerms
    """What the device shows in use, as `nvidia-smi`."""

    allocated_interval80: Interval80
    """80 % interval of the peak of tensors."""

    reserved_interval80: Interval80
    """80 % interval of what the allocator holds."""

    device_interval80: Interval80
    """80 % interval of the device reading."""

    needed: float
    """Least memory with which the step still runs:

    tensors, context and communicators, without what the allocator can give back.
    """

    needed_interval80: Interval80
    """80 % interval of that need:

    below a device's memory the step fits, above it it does not, and in between it may.
    """

    host: BytesTerms
    """Host memory per rank."""

    nvme: BytesTerms | None = None
    """On the node's NVMe drives, per rank."""


Method: TypeAlias = Literal["full", "lora", "qlora", "qat", "qat_lora"]
"""What is trained."""


@dataclass(frozen=True, kw_only=True)
class ModelSummary:
    """A model in one line: what a report says about it."""

    schema_version: int
    """Version of this format."""

    name: str
    """What the user called it."""

    family: str
    """Its `model_type`."""

    hidden: int
    """Hidden size."""

    vocabulary: int
    """Vocabulary (or classes)."""

    tied: bool
    """Whether the head shares the embedding's weight."""

    parameters: ParameterCounts
    """Exact counts."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network between nodes."""

    channel: Channel
    """The link, with the rate of all cards of one node together."""

    nics: int
    """Cards in a node."""

    reach_nodes: int
    """Nodes that it joins at this rate; a later network of the list joins more."""


@dataclass(frozen=True, kw_only=True)
class OfferLine:
    """One way of paying for the machines."""

    offer: str
    """`on_demand`, `spot`, `reserved_1y`, `reserved_3y` or `owned`."""

    place: str
    """Cloud, shape and region of the price."""

    price: float
    """Price of the whole cluster while it is in use."""

    time: float
    """Expected wall time of the run."""

    time_p90: float
    """Wall time that nine runs in ten stay below."""

    cost: float
    """Expected cost of the machines for the time used."""

    committed: float | None
    """What is owed in all: the term of a reservation, what was bought."""

    break_even: float | None
    """Share of the time in use from which it is cheaper than paying on demand;

    above 1 it never is.
    """


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


@dataclass(frozen=True, kw_only=True)
class ParameterCounts:
    """Exact parameter counts."""

    total: int
    """All parameters, shared ones once."""

    embedding: int
    """The token (or patch) embedding."""

    lm_head: int
    """The head, also when it shares the embedding's weight."""

    layers: int
    """Layers in the stack (encoder and decoder together)."""

    layer_first: int
    """The first layer; the decoder's are listed before the encoder's."""

    layer_last: int
    """The last layer in the same order."""

    layer_sum: int
    """All layers."""

    other: int
    """Everything else: positions, final norms, classifiers."""

    routed_experts: int
    """Routed experts, all of them."""

    active: int
    """Parameters that one token passes through."""

    active_excluding_embedding: int
    """The same without the embedding."""

    buffers: int
    """Elements of buffers."""

    tensors: int
    """Parameter tensors."""


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Dense peak rates by compute type; `None` where the part has no such type."""

    fp32: float | None
    """fp32 without tensor cores."""

    tf32: float | None
    """tf32."""

    fp16: float | None
    """fp16 with fp32 accumulation."""

    bf16: float | None
    """bf16."""

    fp8: float | None
    """fp8."""

    fp4: float | None
    """fp4."""

    int8: float | None
    """int8, in operations."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One instant of the step at which memory can peak."""

    name: str
    """Which instant."""

    allocated: BytesTerms
    """What is alive then, on the fullest rank."""


@dataclass(frozen=True, kw_only=True)
class PhaseOutlook:
    """A part of the run on a number of nodes of its own."""

    nodes: int
    """Nodes of this part."""

    share: float
    """Share of the tokens."""

    step: float
    """Step time on these nodes."""

    work: float
    """Its steps, without saves and losses."""

    needed: float
    """Memory needed per GPU, as shards grow when nodes leave."""

    fits: bool
    """Whether that fits."""


@dataclass(frozen=True, kw_only=True)
class PlanAnswer:
    """The best layout, the next best, and why not the others."""

    schema_version: int
    """Version of this format."""

    feasible: bool
    """Whether any layout fits."""

    best: EstimateAnswer
    """The best layout in full; when nothing fits, the one that comes nearest."""

    ranked: tuple[PlanLine, ...]
    """The best plan of each strategy and recompute setting that fits, best first."""

    front: tuple[PlanLine, ...]
    """Plans of which none betters another in time, money and memory left, fastest first."""

    rejected: tuple[Rejection, ...]
    """Strategies that do not fit or cannot run."""

    neighbours: tuple[Rejection, ...]
    """Layouts one change away from the best, and why not these."""

    why_not: tuple[Rejection, ...]
    """The layouts asked about, and why not these."""

    changes: tuple[Change, ...]
    """What to change first about the layout in use, most time saved first."""

    scaling: Scaling | None
    """Time and money over the number of machines, when asked for."""

    sensitivity: tuple[Sensitivity, ...]
    """What becomes of the plan when the request changes, when asked for."""

    warnings: tuple[PlanWarning, ...]
    """What the figures do not show."""

    nearest_changes: tuple[str, ...]
    """When nothing fits: changes that would make it fit, cheapest first."""

    candidates: int
    """Candidates looked at."""

    costed: int
    """Of those, the ones that fit and were costed in full."""

    brute_force: int
    """Candidates that brute force would look at: those spared by a bound included."""

    stop_reason: StopReason
    """Why the search ended."""

    chosen: Chosen | None = None
    """What was chosen beside the layout, where machines, recipe or batch were open."""


@dataclass(frozen=True, kw_only=True)
class PlanLine:
    """One plan in a list."""

    name: str
    """How a person names the layout: its strategy and the degrees above 1."""

    layout: Layout
    """The layout."""

    machines: str | None
    """The machines, where several are considered."""

    gradient_accumulation: int
    """Micro-batches per optimizer step on each data-parallel rank."""

    memory: float
    """Device memory of the fullest rank."""

    headroom: float
    """Capacity less need."""

    verdict: Verdict
    """Whether it fits."""

    step_time: float
    """Step time."""

    tokens_per_second: float
    """Tokens per second of the whole cluster."""

    mfu: float
    """Model FLOPs utilisation."""

    run_time: float | None
    """Wall time of the run."""

    cost: float | None
    """Money of the run."""

    method: Method | None = None
    """What is trained, where several recipes are considered."""

    optimizer: Optimizer | None = None
    """The optimizer, where several recipes are considered."""

    compute: Compute | None = None
    """The format of the matrix multiplications, where several recipes are considered."""

    global_batch: int | None = None
    """Sequences per optimizer step, where several are considered."""

    expected_time: float | None = None
    """Expected wall time where losses or saves are asked about."""

    time_p90: float | None = None
    """Wall time that nine runs in ten stay below."""

    expected_cost: float | None = None
    """Expected bill."""


@dataclass(frozen=True, kw_only=True)
class PlanWarning:
    """Something the figures do not show."""

    says: str
    """In one sentence with its figure."""

    source: str
    """Paper it follows."""


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The usual node of a class of accelerators:

    how many parts it holds and how nodes are joined.
    """

    id: str
    """Short name, unique."""

    name: str
    """What it is."""

    gpus_per_node: int
    """Parts in a node."""

    network: str
    """Network between nodes, an id of `links`."""

    nics: int
    """Network cards in a node."""

    network_gbit_s: float
    """Their rate together, one direction, in Gbit/s."""

    source: str
    """Where this comes from."""

    as_of: str
    """When it was compiled (ISO 8601)."""

    domain: int | None = None
    """Parts that the fast link joins, where that reaches past the node (a rack of 72)."""

    check: str | None = None
    """How well it was checked."""

    note: str | None = None
    """What else a reader must know."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """A price with its origin."""

    cluster: float
    """All accelerators together."""

    kind: PriceKind
    """Which kind of price it is."""

    source: str
    """Where it was read."""

    as_of: str
    """When it was read."""


PriceKind: TypeAlias = Literal["on_demand", "spot", "reserved_1y", "reserved_3y"]
"""How machines are paid for."""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of one GPU, all from the same offer. `None` is unknown, never free."""

    on_demand: float | None
    """By the hour."""

    spot: float | None
    """Spot."""

    spot_range: tuple[float, ...] | None
    """Lowest and highest spot price seen over zones or regions."""

    reserved_1y: float | None
    """One-year commitment."""

    reserved_3y: float | None
    """Three-year commitment."""

    offer: str
    """Whose prices: cloud, shape and region, or `given in the request`; empty when unknown."""

    source: str
    """Where they come from."""

    as_of: str
    """Their date."""

    spot_source: str | None
    """Where the spot price comes from, where that is another place."""

    spot_as_of: str | None
    """Date of the spot price, where it is another."""


Recompute: TypeAlias = Literal["none", "selective", "full"]
"""What backward recomputes instead of keeping."""

RecomputeModule: TypeAlias = Literal[
    "core_attn", "qkv", "attention", "layernorm", "activation", "mlp"
]
"""A part of a layer that selective recomputation runs again."""


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """A strategy that does not fit, or cannot run, and why."""

    name: str
    """How a person names the layout: its strategy and the degrees above 1."""

    layout: Layout
    """The layout of that strategy that comes nearest."""

    reason: str
    """One sentence with its figure."""

    shortfall: float | None
    """What it needs more than there is; none when a rule and not memory forbids it."""

    rule: str | None
    """The rule that forbids it, if one does."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """What a change would buy."""

    change: str
    """The change, as a person would say it."""

    saves: float
    """Step time saved."""


Reshard: TypeAlias = Literal["default", "always", "never", "node"]
"""Whether an FSDP2 unit frees its gathered parameters between forward and backward."""


@dataclass(frozen=True, kw_only=True)
class Residual:
    """A run beside its predictions."""

    name: str
    """How a person names the layout."""

    step_time: float | None
    """Measured step time."""

    step_time_before: float
    """Step time with the published values."""

    step_time_after: float
    """Step time with the constants learnt."""

    allocated: float | None
    """Measured peak of tensors."""

    allocated_before: float
    """Peak of tensors as published readings have it."""

    allocated_after: float
    """The same with the factor learnt."""


@dataclass(frozen=True, kw_only=True)
class RunOutlook:
    """What a run may come to when the state is saved and nodes are lost."""

    undisturbed: float
    """Time when nothing is lost:

    the steps, the saves, and provisioning where losses are asked about.
    """

    time: SecondsTerms
    """Expected wall time, by what it is spent on."""

    time_spread: Spread
    """How widely it scatters."""

    phases: tuple[PhaseOutlook, ...]
    """Parts with node counts of their own, where asked for."""

    ends: bool
    """False where segments outlast every spell of the gang:

    it then never ends, and times stand at 300,000 years.
    """

    ledger: UsdTerms | None
    """Expected bill, line by line; none without a price."""

    cost_spread: Spread | None
    """How widely the bill scatters."""

    deadline: Deadline | None
    """The deadline asked about."""

    checkpoint: CheckpointOutlook | None
    """How the state is saved."""

    losses: LossOutlook | None
    """How nodes are lost."""

    assumptions: tuple[Assumption, ...]
    """What was assumed for each thing not given."""


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """The whole run: steps, time, money."""

    steps: float
    """Optimizer steps."""

    tokens: float
    """Tokens trained on."""

    time: float
    """Wall time."""

    price: Price | None
    """Price of the whole cluster; none when the catalogue has no price of that kind."""

    cost: UsdTerms | None
    """Money by term of the undisturbed run; none without a price."""

    outlook: RunOutlook | None = None
    """What the run may come to;

    there when saves, losses, a deadline or expenses are asked about.
    """

    offers: tuple[OfferLine, ...] = ()
    """Ways of paying for the machines, side by side; there when asked."""


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """The scaling curve."""

    points: tuple[CurvePoint, ...]
    """From few machines to many; counts on which nothing fits are left out."""

    knee: int | None
    """GPUs at the knee:

    where the curve lies highest above the line between its ends (Satopaa 2011).
    """

    half: int | None
    """GPUs past which the next GPU brings less than half of what the first ones brought each."""


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


@dataclass(frozen=True, kw_only=True)
class SecondsTerms:
    """A sum that keeps its terms."""

    total: float
    """No description."""

    terms: tuple[Term, ...]
    """No description."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What becomes of the plan when something about the request changes."""

    change: str
    """What changes."""

    name: str | None
    """How a person names the best layout then; none when nothing fits."""

    other_plan: bool
    """Whether another layout is best then."""

    step_time: float | None
    """Its step time."""

    tokens_per_second: float | None
    """Tokens per second of the whole cluster."""

    cost: float | None
    """Money of the run; the expected bill where losses change."""


@dataclass(frozen=True, kw_only=True)
class ServingOutlook:
    """How the result is served, on one GPU."""

    bits: float
    """Bits of a weight, scales included."""

    memory: float
    """Memory with one sequence: weights, reserve, cache."""

    limit: float
    """Memory in which it must fit."""

    fits: bool
    """Whether it does."""

    batch: int
    """Sequences decoded together."""

    first_token: float | None
    """From prompt to first token."""

    tokens_per_second: float | None
    """Answer tokens per second, all sequences together."""

    per_million: float | None
    """Price of a million answer tokens."""

    plain_per_million: float | None
    """The same with 16-bit weights on a GPU with room for them."""

    extra_training: float | None
    """What the quantisation-aware training costs more than the plain one."""

    break_even_tokens: float | None
    """Tokens served after which that is paid back."""

    break_even_days: float | None
    """The same in days at the tokens a day asked."""


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


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a short name in a row's `source` stands for."""

    id: str
    """Short name, unique."""

    url: str
    """Address."""

    licence: str
    """Licence of the data."""

    as_of: str
    """Date of the data (ISO 8601)."""

    note: str | None = None
    """What was taken."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Figures not exceeded with a probability."""

    p50: float
    """One run in two stays below."""

    p90: float
    """Nine in ten."""

    p99: float
    """Ninety-nine in a hundred."""


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One optimizer step of the slowest rank, as a sum of the times nothing hides."""

    time: SecondsTerms
    """Terms of the step time:

    compute (forward, recompute, backward), exposed communication by kind, pipeline bubble,
    optimizer, input stall, stragglers.
    """

    hidden: SecondsTerms
    """Communication that compute hides, by kind; not part of the step time."""

    model_flops: float
    """Arithmetic the model needs, all ranks together, causal attention counted as half;

    recompute not counted. This is the M of MFU.
    """

    hardware_flops: float
    """Arithmetic the machines do, recompute included. This is the H of HFU."""

    tokens: float
    """Tokens of the step, all ranks together."""

    mfu: float
    """Model FLOPs over the dense peak of the compute format, from 0 to 1."""

    hfu: float
    """Hardware FLOPs over the same peak."""

    bottleneck: str
    """The largest term beyond useful compute, in words."""

    remedies: tuple[Remedy, ...]
    """What obvious changes would buy, largest first."""

    interval80: Interval80
    """80 % interval of the step time."""


StopReason: TypeAlias = Literal["exhausted", "candidate_limit"]
"""Why the search ended."""


@dataclass(frozen=True, kw_only=True)
class StorageOffer:
    """One storage product, egress tariff or measured store."""

    id: str
    """Short name, unique."""

    kind: str
    """`egress`, `object`, `file`, `block`, or `perf` (a measured store without price)."""

    provider: str
    """Who offers it."""

    product: str
    """The provider's name for it."""

    source: str
    """Where the figures come from, an id of `sources` or plain words."""

    as_of: str
    """Their date (ISO 8601; a bare year where the day is unknown)."""

    usd_per_gb: float | None = None
    """Price of moving a GB, in USD."""

    usd_per_gb_month: float | None = None
    """Price of keeping a GB for a month, in USD."""

    gb_s: float | None = None
    """Rate, in GB/s."""

    per: str | None = None
    """What that rate is per: `client`, `node`, `volume`, `disk`, `tib` or `tb` kept, `total`."""

    check: str | None = None
    """How well they were checked."""

    note: str | None = None
    """What else a reader must know."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One term of a sum."""

    name: str
    """What it is."""

    amount: float
    """How much."""

    formula: str
    """How it was computed, in the field's symbols."""

    source: str
    """Paper, code or measurement it follows."""


Unit: TypeAlias = Literal["bytes", "seconds", "usd", "count", "share"]
"""What a line of a comparison counts."""


@dataclass(frozen=True, kw_only=True)
class UsdTerms:
    """A sum that keeps its terms."""

    total: float
    """No description."""

    terms: tuple[Term, ...]
    """No description."""


Verdict: TypeAlias = Literal["fits", "tight", "does_not_fit"]
"""Whether the fullest rank fits its accelerator."""

Wrap: TypeAlias = Literal["layers", "layers+embed+head", "size", "model"]
"""Which modules form one unit of FSDP."""
