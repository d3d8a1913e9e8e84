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
    "BaseQuantization",
    "CatalogRequest",
    "CatalogRows",
    "Compute",
    "ContextStyle",
    "DescribeModelRequest",
    "Dtype",
    "EstimateRequest",
    "Framework",
    "Instance",
    "Kernels",
    "Layout",
    "Link",
    "LinkOrName",
    "Lora",
    "LossKernel",
    "Machines",
    "MachinesOrName",
    "Method",
    "ModelSpec",
    "NetworkSpec",
    "Objective",
    "Offload",
    "Optimizer",
    "PlanRequest",
    "Platform",
    "PriceKind",
    "PriceSpec",
    "Qat",
    "QatScheme",
    "Recipe",
    "Recompute",
    "Reshard",
    "Run",
    "Schedule",
    "Search",
    "Sharding",
    "Source",
    "StorageOffer",
    "Wrap",
]


class Accelerator(TypedDict, total=False):
    """One accelerator part. Peaks are dense."""

    id: Required[str]
    """Short name, unique, lower case."""

    memory_gb: Required[float]
    """The memory on the vendor's label, in GB."""

    bandwidth_gb_s: Required[float]
    """Memory bandwidth, in GB/s."""

    aliases: Sequence[str]
    """Other names it answers to; case, spaces and punctuation do not count."""

    as_of: str
    """When they were compiled (ISO 8601)."""

    bf16_tflops: float | None
    """Peak in bf16, in TFLOP/s."""

    check: str | None
    """How well they were checked."""

    devices: int | None
    """Devices that a framework sees in one part; 1 when absent."""

    form: str
    """Form factor: SXM5, PCIe, OAM, ..."""

    fp16_tflops: float | None
    """Peak in fp16 with fp32 accumulation, in TFLOP/s."""

    fp32_tflops: float | None
    """Peak in fp32 without tensor cores, in TFLOP/s."""

    fp4_tflops: float | None
    """Peak in fp4, in TFLOP/s."""

    fp8_tflops: float | None
    """Peak in fp8, in TFLOP/s."""

    host_link: str | None
    """Link to the host where that is not PCIe, an id of `links`."""

    int8_tops: float | None
    """Peak in int8, in TOP/s."""

    link: str | None
    """Link to its neighbours, an id of `links`."""

    link_bidirectional_gb_s: float | None
    """Rate of that link, both directions together as vendors print it, in GB/s."""

    link_domain: int | None
    """Parts that the link joins, where that is not the whole node (a bridge joins 2)."""

    matmul_basis: str | None
    """Where that fraction comes from."""

    matmul_fraction: float | None
    """Fraction of the peak that large matrix products reach."""

    measured_bf16_tflops: float | None
    """The best bf16 matrix product measured, in TFLOP/s."""

    measured_fp8_tflops: float | None
    """The best fp8 matrix product measured, in TFLOP/s."""

    name: str
    """The vendor's name for it."""

    note: str | None
    """What else a reader must know."""

    pcie: str | None
    """PCIe link, an id of `links`."""

    platform: str | None
    """The usual node, an id of `platforms`."""

    source: str
    """Where the figures come from."""

    tdp_w: float | None
    """Design power of the part, in W."""

    tf32_tflops: float | None
    """Peak in tf32, in TFLOP/s."""

    usable_gib: float | None
    """The memory a framework sees, in GiB."""

    vendor: str
    """Who makes it."""

    year: int | None
    """Year of release."""


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

BaseQuantization: TypeAlias = Literal["nf4", "fp4", "int8", "gptq_int4"]
"""How the frozen base of QLoRA is stored."""


class CatalogRequest(TypedDict, total=False):
    """Asks for the catalogue, with rows of the user's own."""

    catalog: CatalogRows
    """Catalogue rows of the user's own."""


class CatalogRows(TypedDict, total=False):
    """Every kind of row: what the catalogue lists, and the form of a file a user brings."""

    accelerators: Sequence[Accelerator]
    """GPUs and other accelerators, by id."""

    instances: Sequence[Instance]
    """Cloud shapes with their prices, by cloud, name and region."""

    links: Sequence[Link]
    """Links inside and between nodes, by id."""

    platforms: Sequence[Platform]
    """The usual node of each accelerator, by id."""

    sources: Sequence[Source]
    """What the short names in `source` stand for, by id."""

    storage: Sequence[StorageOffer]
    """Prices and rates of storage and egress, by id."""


Compute: TypeAlias = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
"""The number format of the matrix multiplications."""

ContextStyle: TypeAlias = Literal["ring", "all_to_all"]
"""How a sequence is split over the context-parallel group."""


class DescribeModelRequest(TypedDict, total=False):
    """Asks what a model is made of."""

    model: Required[ModelSpec]
    """The model."""


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

    catalog: CatalogRows
    """Catalogue rows of the user's own."""

    global_batch: int | None
    """Sequences per optimizer step; none means one micro-batch per data-parallel rank."""

    layout: Layout
    """How the work is split."""

    recipe: Recipe
    """How it is trained."""

    run: Run
    """How much is trained, and at which price."""

    schema_version: int
    """Version of this format."""


Framework: TypeAlias = Literal[
    "torch",
    "deepspeed",
    "megatron",
    "megatron_2021",
    "torchtitan",
    "torchtune",
    "litgpt",
    "composer",
    "native",
]
"""Whose training loop runs: it decides which states are kept and how communication is issued."""


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

    as_of: str
    """Date of the prices (ISO 8601; a bare year where the day is unknown)."""

    capacity_block: float | None
    """Price of a block booked ahead, in USD/h (a listing of 2024-12)."""

    domain: int | None
    """Parts joined by that link, where that is not the whole shape."""

    interruption_pct: Sequence[float] | None
    """Share of spot shapes taken back in a month, lowest and highest, in per cent (2025-06-28)."""

    link: str | None
    """Link between them, an id of `links`; the accelerator's own when absent."""

    network: str | None
    """Network for traffic between the accelerators of several shapes, an id of `links`."""

    network_gbit_s: float | None
    """Rate of that network, one direction, in Gbit/s."""

    network_total_gbit_s: float | None
    """Rate the cloud advertises where that counts other cards too, in Gbit/s."""

    nics: int | None
    """Network cards behind it."""

    note: str | None
    """What else a reader must know."""

    nvme_gb: float | None
    """Local NVMe, in GB; 0 where there is none."""

    on_demand: float | None
    """On-demand price, in USD/h."""

    on_demand_range: Sequence[float] | None
    """Lowest and highest on-demand price over the cloud's regions, in USD/h."""

    ram_gib: float | None
    """Host memory, in GiB (clouds that write GB mean GiB)."""

    region: str | None
    """The cloud's region."""

    reserved_1y: float | None
    """Price under a one-year commitment, in USD/h."""

    reserved_3y: float | None
    """Price under a three-year commitment, in USD/h."""

    source: str
    """Where the prices come from, an id of `sources` or plain words."""

    specs: str | None
    """Where virtual CPUs, memory and NVMe come from, where that is another."""

    spot: float | None
    """Spot price, in USD/h."""

    spot_as_of: str | None
    """Date of the spot price, where it is another."""

    spot_basis: str | None
    """How the spot price is known:

    `published`, `zones` (a snapshot by zone) or `advisor` (on-demand less the advertised saving).
    """

    spot_range: Sequence[float] | None
    """Lowest and highest spot price seen over zones or regions, in USD/h."""

    spot_source: str | None
    """Source of the spot price, where it is another."""

    vcpus: int | None
    """Virtual CPUs (hardware threads)."""


Kernels: TypeAlias = Literal["eager", "fused", "compiled"]
"""Which implementation of norms, activations and rotary embeddings runs."""


class Layout(TypedDict, total=False):
    """One way to split and schedule the work. Degrees are torchtitan's."""

    context_parallel: int
    """Ranks over which a sequence is split."""

    context_style: ContextStyle
    """How it is split."""

    data_parallel_replicate: int
    """Data-parallel replicas that do not share states (DDP ranks, or the outer mesh of HSDP)."""

    data_parallel_shard: int
    """Data-parallel ranks that share states;

    0, or left out of a request, means all ranks that no other degree takes (for DDP these become
    replicas).
    """

    expert_parallel: int
    """Ranks over which experts are spread (a part of the data-parallel ranks)."""

    gradient_as_bucket_view: bool
    """DDP: gradients live in the communication buckets."""

    micro_batch: int
    """Sequences a data-parallel rank works on at once."""

    offload: Sequence[Offload]
    """What leaves the device between uses."""

    pipeline_chunks: int
    """Model chunks per pipeline rank."""

    pipeline_parallel: int
    """Pipeline stages."""

    pipeline_schedule: Schedule
    """Order of the micro-batches in the pipeline."""

    recompute: Recompute
    """What backward recomputes."""

    recompute_every: int
    """Recompute every k-th layer only."""

    reshard_after_forward: Reshard
    """FSDP2: whether units are freed between forward and backward."""

    sequence_parallel: bool
    """Whether norms and residuals are split along the sequence over the tensor ranks."""

    sharding: Sharding
    """How model states are spread."""

    sync_every_micro_batch: bool
    """Gradients are reduced after every micro-batch, not only the last."""

    tensor_parallel: int
    """Tensor-parallel ranks."""

    wrap: Wrap
    """FSDP: which modules form a unit."""


class Link(TypedDict, total=False):
    """One kind of link. Rates are one direction."""

    all_to_all_fraction: float | None
    """The same for all-to-all."""

    alpha_us: float | None
    """Constant term of the fitted collective time, in microseconds."""

    as_of: str
    """When they were compiled (ISO 8601)."""

    check: str | None
    """How well they were checked."""

    copy_fraction: float | None
    """The share that a pinned copy between host and device reaches."""

    fit: str | None
    """What was fitted."""

    fitted_gb_s: float | None
    """Bus bandwidth of the fit for endless messages, in GB/s."""

    fraction: float | None
    """Share of the nominal rate that ring collectives of large messages reach."""

    gb_s: float | None
    """Nominal rate, one direction, in GB/s."""

    hop_us: float | None
    """Time of one hop, in microseconds."""

    id: str
    """Short name, unique."""

    in_switch_fraction: float | None
    """The same for an all-reduce that the switch sums."""

    in_switch_min_gpus: int | None
    """Smallest group for which the library lets the switch sum."""

    kind: str
    """`intra` (in a node), `rack`, `inter` (between nodes), `host`, or `hop` (constants of the

    communication library).
    """

    latency_us: float | None
    """Time of a small collective, in microseconds."""

    measured_gb_s: float | None
    """Best bus bandwidth measured, in GB/s."""

    name: str
    """The field's name for it."""

    note: str | None
    """What else a reader must know."""

    per: str
    """What the rates are per: `gpu`, `port`, `node` or `hop`."""

    port_gbit_s: float | None
    """Nominal rate of a port, in Gbit/s."""

    source: str
    """Where the figures come from."""

    sqrt_us: float | None
    """Square-root term of the fitted collective time, in microseconds per sqrt(byte)."""


LinkOrName: TypeAlias = "str | Link"
"""A name from the catalogue, or the thing in full."""


class Lora(TypedDict, total=False):
    """Low-rank adapters. `alpha` only scales the update: it costs neither memory nor time."""

    dropout: bool
    """Whether the adapters' dropout is above zero."""

    dtype: Dtype
    """Format of the adapters. PEFT keeps them in fp32 by default."""

    kind: AdapterKind
    """Kind of adapter."""

    modules_to_save: Sequence[str]
    """Modules trained in full beside the adapters, as `embed_tokens`, `lm_head`."""

    rank: int
    """Rank, 1 to 65,536."""

    targets: Sequence[str]
    """Linear layers that get an adapter:

    module names as `q_proj`, or the one word `all-linear` (every linear layer but the head).
    """


LossKernel: TypeAlias = Literal[
    "eager", "fused", "fused_linear", "head_chunked", "chunked", "vocab_parallel", "compiled"
]
"""How the cross-entropy is computed."""


class Machines(TypedDict, total=False):
    """Machines in full.

    Every field but the accelerator or instance may be left out; what was assumed for it is listed
    in the answer.
    """

    accelerator: AcceleratorOrName | None
    """The accelerator: an id or alias of the catalogue, or a row of one's own."""

    cloud: str | None
    """The cloud whose prices count."""

    gpus_per_node: int | None
    """Accelerators in a node; the shape's or the usual node's when absent."""

    host_memory_gib: float | None
    """Memory of one host, in GiB."""

    instance: str | None
    """A cloud shape of the catalogue, in place of or beside the accelerator."""

    link: LinkOrName | None
    """The link between accelerators: an id of the catalogue, or a row of one's own."""

    link_domain: int | None
    """Accelerators it joins: 2 for bridges, 72 for a rack; the node when absent."""

    link_gb_s: float | None
    """Its rate for one accelerator, one direction, in GB/s."""

    networks: Sequence[NetworkSpec]
    """Networks between nodes, from the one that reaches least to the one that reaches all."""

    nodes: int | None
    """Nodes; 1 when absent."""

    nvme_gb: float | None
    """Local NVMe of one node, in GB; 0 where there is none."""

    power_cap_w: float | None
    """Power each accelerator is held to, in W."""

    price: PriceSpec | None
    """Prices of one's own, in USD per accelerator and hour; they replace the catalogue's."""

    region: str | None
    """The region whose prices count."""

    storage_gb_s: float | None
    """What one node reads from or writes to the shared store, in GB/s."""

    usable_gib: float | None
    """Memory a framework sees on one GPU, in GiB."""

    vcpus: int | None
    """Hardware threads of one host."""


MachinesOrName: TypeAlias = "str | Machines"
"""A name from the catalogue, or the thing in full."""

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

    nic_gbit_s: float | None
    """Rate of one card, one direction, in Gbit/s."""

    nics: int | None
    """Cards in a node."""

    node_gb_s: float | None
    """Rate of one node, one direction, in GB/s."""

    reach_nodes: int | None
    """Nodes joined at this rate; all of them when absent."""


Objective: TypeAlias = Literal["time", "cost", "headroom"]
"""What the search makes least (or most)."""

Offload: TypeAlias = Literal["param", "gradient", "optimizer", "activation"]
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

    catalog: CatalogRows
    """Catalogue rows of the user's own."""

    recipe: Recipe
    """How it is trained."""

    run: Run
    """How much is trained, and at which price."""

    schema_version: int
    """Version of this format."""

    search: Search
    """What may vary."""


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

    as_of: str
    """When it was compiled (ISO 8601)."""

    check: str | None
    """How well it was checked."""

    domain: int | None
    """Parts that the fast link joins, where that reaches past the node (a rack of 72)."""

    name: str
    """What it is."""

    note: str | None
    """What else a reader must know."""

    source: str
    """Where this comes from."""


PriceKind: TypeAlias = Literal["on_demand", "spot", "reserved_1y", "reserved_3y"]
"""How machines are paid for."""


class PriceSpec(TypedDict, total=False):
    """Prices in USD per accelerator and hour. Absent means unknown."""

    as_of: str | None
    """Their date (ISO 8601)."""

    on_demand: float | None
    """By the hour."""

    reserved_1y: float | None
    """One-year commitment."""

    reserved_3y: float | None
    """Three-year commitment."""

    source: str | None
    """Where they come from."""

    spot: float | None
    """Spot."""


class Qat(TypedDict, total=False):
    """Quantisation-aware training."""

    group: int | None
    """Elements per weight scale;

    none means the scheme's usual (32 for int8-dynamic int4-weight, 128 for int4 weight-only, one
    scale per row for fp8).
    """

    scheme: QatScheme
    """What is imitated."""


QatScheme: TypeAlias = Literal["int4_weight_only", "int8_dynamic_int4_weight", "fp8"]
"""What quantisation-aware training imitates."""


class Recipe(TypedDict, total=False):
    """The training recipe."""

    attention: AttentionKernel
    """Attention kernel."""

    autocast: bool | None
    """Whether `torch.autocast` casts fp32 parameters at use;

    none means: when parameters are fp32, compute is not, and no FSDP mixed-precision policy does it
    instead.
    """

    base_quantization: BaseQuantization
    """How a quantised base is stored, for QLoRA."""

    compute: Compute
    """Format of the matrix multiplications."""

    double_quantization: bool | None
    """Whether QLoRA's scales are quantised again; none means yes."""

    drop_logits: bool
    """Whether the script drops the logits before backward."""

    ema: bool
    """Keeps an exponential moving average of the parameters."""

    framework: Framework
    """Whose training loop runs."""

    kbit_preparation: bool
    """Whether the base went through PEFT's `prepare_model_for_kbit_training`, which lifts norms

    and embeddings to fp32.
    """

    kernels: Kernels
    """Implementation of norms, activations and rotary embeddings."""

    lora: Lora
    """Adapters, for the LoRA methods."""

    loss: LossKernel
    """Cross-entropy implementation."""

    loss_chunks: int | None
    """Chunks of a chunked loss; none means 8."""

    method: Method
    """What is trained."""

    no_dropout: bool
    """Dropout probabilities of the model's config are set to zero."""

    optimizer: Optimizer
    """Optimizer."""

    optimizer_in_backward: bool
    """Whether each gradient is applied and freed during backward."""

    padding_mask: bool
    """Batches carry a padding mask (which switches PyTorch's flash kernel off)."""

    params_dtype: Dtype | None
    """Format the parameters are stored in;

    none means fp32 for full training (mixed precision) and the compute format for a frozen base.
    """

    qat: Qat
    """Fake quantisation, for the QAT methods."""

    reduce_dtype: Dtype | None
    """Format in which gradients are reduced across data-parallel ranks;

    none means fp32 under FSDP mixed precision, else the parameters' format.
    """


Recompute: TypeAlias = Literal["none", "selective", "full"]
"""What backward recomputes instead of keeping."""

Reshard: TypeAlias = Literal["default", "always", "never", "node"]
"""Whether an FSDP2 unit frees its gathered parameters between forward and backward."""


class Run(TypedDict, total=False):
    """How much is trained, and at which price.

    Without tokens or steps only the step is reported.
    """

    price: PriceKind
    """Which price of the catalogue is paid."""

    steps: float | None
    """Optimizer steps, instead of tokens."""

    tokens: float | None
    """Tokens to train on."""


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

    headroom: float
    """Memory to leave free, as a share of the accelerator's usable memory, 0 to 0.9."""

    list: int
    """Plans to list beside the best."""

    max_candidates: int
    """Candidates after which the search stops."""

    micro_batches: Sequence[int]
    """Micro-batches to consider, in sequences."""

    objective: Objective
    """What is made least."""

    pipeline_parallel: Sequence[int]
    """Pipeline degrees to consider."""

    recompute: Sequence[Recompute]
    """What to consider recomputing."""

    shardings: Sequence[Sharding]
    """Sharding strategies to consider."""

    tensor_parallel: Sequence[int]
    """Tensor-parallel degrees to consider."""


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


class StorageOffer(TypedDict, total=False):
    """One storage product, egress tariff or measured store."""

    id: Required[str]
    """Short name, unique."""

    as_of: str
    """Their date (ISO 8601; a bare year where the day is unknown)."""

    check: str | None
    """How well they were checked."""

    gb_s: float | None
    """Rate, in GB/s."""

    kind: str
    """`egress`, `object`, `file`, `block`, or `perf` (a measured store without price)."""

    note: str | None
    """What else a reader must know."""

    per: str | None
    """What that rate is per: `client`, `node`, `volume`, `disk`, `tib` or `tb` kept, `total`."""

    product: str
    """The provider's name for it."""

    provider: str
    """Who offers it."""

    source: str
    """Where the figures come from, an id of `sources` or plain words."""

    usd_per_gb: float | None
    """Price of moving a GB, in USD."""

    usd_per_gb_month: float | None
    """Price of keeping a GB for a month, in USD."""


Wrap: TypeAlias = Literal["layers", "layers+embed+head", "model"]
"""Which modules form one unit of FSDP."""
