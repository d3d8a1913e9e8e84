//! The arithmetic of a step: plain seconds from plain numbers, nothing printed, nothing allocated
//! but one small vector. The report wraps it; a search calls it by the million.

use crate::calibrate::Calibration;
use crate::cluster::Cluster;
use crate::collective::{Copies, Fabric, Group};
use crate::compute::{BlockCost, Machine, Profile, Slice};
use crate::layout::{ContextStyle, Layout, Offload, Recompute};
use crate::memory::layer_saved_bytes;
use crate::pipeline::{Chunks, Stage, bubble};
use crate::workload::{Batch, Block, BlockKind, Dispatch, Framework, Model, Recipe};

use super::partition::Partition;
use super::seconds::StepTimes;
use super::states::{self, Traffic};
use super::swap::{self, Drives};

/// Compute beside communication slows by this share of the shorter of the two.
/// Source: open corpus, 0.17 to 0.49.
pub(super) const CONTENTION: f64 = 0.25;
/// A prefetched gather never starts exactly with the layer before: this share of the layer stays.
const PREFETCH_TAIL: f64 = 0.05;
/// Share of tensor-parallel traffic that stays exposed when products and traffic are interleaved.
/// Source: open corpus, 0 to 0.46.
const TENSOR_EXPOSED: f64 = 0.32;
/// Least share of a context-parallel ring that stays exposed: its first and last hop.
const RING_EXPOSED: f64 = 0.15;
/// Share of expert traffic that stays exposed when another chunk's compute runs beside it.
/// Source: open corpus, 0 to 0.9.
const EXPERT_EXPOSED: f64 = 0.43;

/// Host time to gather (and reduce) one unit of sharded parameters: hooks, views, launches.
/// Source: profiles of FSDP's pre- and post-forward hooks, judged.
const UNIT_HOST: [f64; 2] = [150e-6, 250e-6];

/// Everything that does not change between layouts of one request.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The model.
    pub model: &'a Model,
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The batch.
    pub batch: Batch,
    /// The tiers.
    pub fabric: Fabric,
    /// The rates.
    pub machine: Machine,
    /// Kernels beside the products.
    pub profile: &'static Profile,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Factors learnt from measured steps, already in the rates and tiers.
    pub calibration: Calibration,
}

impl<'a> Setting<'a> {
    /// Reduces a request to rates and tiers.
    #[must_use]
    pub fn new(model: &'a Model, recipe: &'a Recipe, batch: Batch, cluster: &'a Cluster) -> Self {
        let batch = Batch { seq_len: model.fixed_tokens.unwrap_or(batch.seq_len), ..batch };
        Self {
            model,
            recipe,
            batch,
            fabric: Fabric {
                in_network: recipe.runtime.in_network_reduction,
                ..Fabric::new(cluster, recipe.runtime.backend)
            },
            machine: Machine::new(cluster, recipe),
            profile: Profile::of(recipe),
            cluster,
            calibration: Calibration::default(),
        }
    }

    /// The same with factors learnt from measured steps.
    #[must_use]
    pub fn calibrated(&self, c: &Calibration) -> Self {
        let mut out = *self;
        out.machine.matmul /= c.matmul;
        out.machine.matmul16 /= c.matmul;
        out.machine.attention /= c.attention;
        out.machine.bandwidth /= c.memory;
        out.machine.host *= c.host;
        out.fabric = out.fabric.slowed(c.network);
        out.calibration = *c;
        out
    }

    /// Whether nothing before the first layer wants a gradient.
    pub(crate) fn starts_frozen(&self) -> bool {
        let layers = self.model.blocks.iter().any(|b| b.kind == BlockKind::Layer);
        layers && self.recipe.frozen_base() && !self.recipe.kbit_preparation
    }

    /// Cost of each distinct block on one rank.
    #[must_use]
    pub fn costs(&self, layout: &Layout) -> Costs {
        let blocks = self.model.blocks.iter().map(|b| self.cost(layout, b)).collect();
        let first = self.model.runs().find(|(b, _)| b.kind == BlockKind::Layer && self.starts_frozen());
        let first = first.map(|(b, _)| self.cost_of(layout, b, false));
        Costs { blocks, first }
    }

    /// Cost of a block on one rank.
    pub(super) fn cost(&self, layout: &Layout, block: &Block) -> BlockCost {
        self.cost_of(layout, block, true)
    }

    fn cost_of(&self, layout: &Layout, block: &Block, input_gradient: bool) -> BlockCost {
        BlockCost::new(block, self.recipe, &self.machine, layout, self.batch.seq_len, input_gradient)
    }

    /// Seconds of one optimizer step.
    #[must_use]
    pub fn times(&self, layout: &Layout) -> StepTimes {
        self.times_with(layout, &self.costs(layout))
    }

    /// The same from costs computed before: they depend on the tensor, context and expert degrees
    /// and the micro-batch alone.
    #[must_use]
    pub fn times_with(&self, layout: &Layout, costs: &Costs) -> StepTimes {
        let partition = Partition::new(self.model, layout.pipeline_parallel, costs.first.is_some());
        self.times_over(layout, costs, &partition)
    }

    /// The same over stages that were cut before: they depend on the number of stages alone.
    pub(super) fn times_over(&self, layout: &Layout, costs: &Costs, partition: &Partition) -> StepTimes {
        let alone = self.alone(layout, costs);
        let mut room = Vec::with_capacity(alone.0.len());
        let rank = self.rank(layout, costs, &alone, partition, &mut room);
        self.scheduled(layout, &rank)
    }

    /// Each block by itself, with the traffic of its tensor, context and expert ranks. Of the layout
    /// are read these degrees, the micro-batch, the recompute, and whether the schedule
    /// [`interleaves`].
    pub(crate) fn alone(&self, layout: &Layout, costs: &Costs) -> Alone {
        let c = Composer::new(self, layout);
        let kinds = self.model.blocks.iter().map(|b| b.kind).chain([BlockKind::Layer]);
        Alone(costs.blocks.iter().chain(&costs.first).zip(kinds).map(|(b, kind)| c.alone(b, kind)).collect())
    }

    /// The slowest rank: of the schedule is read only whether it [`defers_weights`]. `room` is only room
    /// to work in.
    pub(crate) fn rank(
        &self,
        layout: &Layout,
        costs: &Costs,
        alone: &Alone,
        partition: &Partition,
        room: &mut Vec<Timed>,
    ) -> Rank {
        let composer = Composer::new(self, layout);
        room.clear();
        for ((timed, cost), block) in alone
            .0
            .iter()
            .zip(costs.blocks.iter().chain(&costs.first))
            .zip(self.model.blocks.iter().map(|b| b.kind).chain([BlockKind::Layer]))
        {
            let mut timed = *timed;
            composer.shared(&mut timed, cost, block);
            room.push(timed);
        }
        composer.rank(room, partition)
    }

    /// The step of a rank under the schedule and chunks of `layout`.
    pub(crate) fn scheduled(&self, layout: &Layout, rank: &Rank) -> StepTimes {
        Composer::new(self, layout).scheduled(rank)
    }
}

/// Whether the chunks of several micro-batches are at work at once on a rank.
pub(crate) fn interleaves(layout: &Layout) -> bool {
    layout.pipeline_parallel > 1 && (layout.pipeline_chunks > 1 || layout.pipeline_schedule.both_ways())
}

/// Whether weight gradients run apart from the rest of backward.
pub(crate) fn defers_weights(layout: &Layout) -> bool {
    layout.pipeline_parallel > 1 && layout.pipeline_schedule.defers_weights()
}

/// The blocks of a model, each by itself on its rank: before sharded parameters, host and schedule.
#[derive(Clone, Debug)]
pub(crate) struct Alone(Vec<Timed>);

/// The slowest rank of a layout, before its schedule's fill and drain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rank {
    times: StepTimes,
    mean: Stage,
}

/// Costs of the distinct blocks of a model, in the model's order of blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Each distinct block.
    pub blocks: Vec<BlockCost>,
    /// The first layer, when nothing before it wants a gradient.
    pub first: Option<BlockCost>,
}

/// One block's times on a rank, traffic included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timed {
    pub(super) forward: f64,
    pub(super) backward: f64,
    weight: f64,
    times: StepTimes,
    weights: states::Weights,
}

struct Composer<'a> {
    s: &'a Setting<'a>,
    layout: &'a Layout,
    tp: Group,
    cp: Group,
    ep: Group,
    micro_batches: f64,
    traffic: Traffic,
}

impl<'a> Composer<'a> {
    fn new(s: &'a Setting<'a>, layout: &'a Layout) -> Self {
        let (tp, cp) = (layout.tensor_parallel as f64, layout.context_parallel as f64);
        Self {
            s,
            layout,
            tp: Group::new(tp, 1.0),
            cp: Group::new(cp, tp),
            ep: Group::new(layout.expert_parallel as f64, 1.0),
            micro_batches: s.batch.accumulation(layout.data_parallel(), layout.micro_batch) as f64,
            traffic: Traffic::new(s.recipe, layout, fetch_rate(s, layout), s.model.hidden),
        }
    }

    fn overlaps_data(&self) -> bool {
        self.s.recipe.runtime.data_overlap.unwrap_or(self.s.profile.overlaps_data)
    }

    /// Exposed and hidden seconds of tensor-parallel traffic, one direction.
    fn tensor(&self, c: &BlockCost) -> (f64, f64) {
        if self.layout.tensor_parallel <= 1 || c.tensor_points <= 0.0 {
            return (0.0, 0.0);
        }
        let f = &self.s.fabric;
        let one = if self.layout.sequence_parallel {
            2.0 * f.all_gather(c.hidden_bytes, &self.tp)
        } else {
            f.all_reduce(c.hidden_bytes, &self.tp)
        };
        let total = c.tensor_points * one;
        let overlapped = self.s.recipe.runtime.tensor_overlap.unwrap_or(self.s.profile.overlaps_tensor);
        let exposed = if overlapped { TENSOR_EXPOSED } else { 1.0 };
        (total * exposed, total * (1.0 - exposed))
    }

    /// Exposed and hidden seconds of context-parallel traffic beside `attention` seconds.
    fn context(&self, c: &BlockCost, attention: f64, rings: f64) -> (f64, f64) {
        if self.layout.context_parallel <= 1 || c.kv_bytes <= 0.0 {
            return (0.0, 0.0);
        }
        let f = &self.s.fabric;
        match self.layout.context_style {
            ContextStyle::Ring => {
                // Each rank's keys and values visit every other rank.
                let hops = self.cp.ranks - 1.0;
                let one = f.all_gather(c.kv_bytes * self.cp.ranks, &self.cp).max(hops * 5e-6);
                let total = rings * one;
                let exposed = (total - attention).max(RING_EXPOSED * total);
                (exposed, total - exposed)
            }
            ContextStyle::AllToAll => (f.all_to_all(c.qkvo_bytes, &self.cp), 0.0),
        }
    }

    /// Exposed and hidden seconds of expert traffic, one direction: tokens out and back.
    fn expert(&self, c: &BlockCost) -> (f64, f64) {
        if self.layout.expert_parallel <= 1 || c.routed_bytes <= 0.0 {
            return (0.0, 0.0);
        }
        let runtime = &self.s.recipe.runtime;
        let fused = runtime.moe_fused || runtime.moe_dispatch == Dispatch::Deduplicated;
        let copies = Copies {
            per_token: c.top_k,
            once_per_node: fused || self.s.recipe.framework == Framework::Megatron,
            once_per_rank: fused,
        };
        let total = 2.0 * self.s.fabric.dispatch(c.routed_bytes, &self.ep, &copies);
        let exposed =
            if runtime.moe_overlap.unwrap_or(interleaves(self.layout)) { EXPERT_EXPOSED } else { 1.0 };
        (total * exposed, total * (1.0 - exposed))
    }

    /// How often a block's forward runs again, on average.
    fn redo(&self, kind: BlockKind) -> f64 {
        match self.layout.recompute {
            Recompute::Selective | Recompute::Full if kind == BlockKind::Layer => {
                1.0 / self.layout.recompute_every.max(1) as f64
            }
            _ => 0.0,
        }
    }

    /// The same where all of it runs, its traffic too.
    fn full(&self, kind: BlockKind) -> f64 {
        if self.layout.recompute == Recompute::Full { self.redo(kind) } else { 0.0 }
    }

    /// How often the forward traffic of tensor, context and expert ranks is repeated.
    fn repeats(&self, c: &BlockCost, kind: BlockKind) -> [f64; 3] {
        match self.layout.recompute {
            Recompute::Selective => c.repeats.map(|share| share * self.redo(kind)),
            _ => [self.full(kind); 3],
        }
    }

    /// A block in one micro-batch: what it computes, and the traffic of its tensor, context and
    /// expert ranks.
    fn alone(&self, c: &BlockCost, kind: BlockKind) -> Timed {
        let mut t = Timed { weights: states::Weights::of(c), ..Timed::default() };
        let x = &mut t.times;
        let (redo, [tensor, context, expert]) = (self.redo(kind), self.repeats(c, kind));
        x.forward = c.forward;
        x.backward = c.backward;
        let again = match self.layout.recompute {
            Recompute::Selective => c.selected,
            _ => c.recompute,
        };
        x.recompute.add(&again, redo);

        let (exposed, hidden) = self.tensor(c);
        x.tensor = exposed * (2.0 + tensor);
        x.hidden_tensor = hidden * (2.0 + tensor);
        let (fwd_ring, fwd_hidden) = self.context(c, c.forward.attention, 1.0);
        let (bwd_ring, bwd_hidden) = self.context(c, c.backward.attention, 2.0);
        x.context = fwd_ring * (1.0 + context) + bwd_ring;
        x.hidden_context = fwd_hidden * (1.0 + context) + bwd_hidden;
        let (routed, routed_hidden) = self.expert(c);
        x.expert = routed * (2.0 + expert);
        x.hidden_expert = routed_hidden * (2.0 + expert);

        t.forward = c.forward.total() + exposed + fwd_ring + routed;
        t.backward = c.backward.total()
            + x.recompute.total()
            + exposed * (1.0 + tensor)
            + fwd_ring * context
            + bwd_ring
            + routed * (1.0 + expert);
        t.weight = c.weight_gradients;
        t
    }

    /// Adds what the block waits for beside: the host, its sharded parameters, and the sum of its
    /// gradients over micro-batches. Where a schedule defers weight gradients, they wait for themselves:
    /// the rest of backward launches as many kernels as forward does and needs what is gathered, they
    /// launch the others and are reduced.
    fn shared(&self, t: &mut Timed, c: &BlockCost, kind: BlockKind) {
        let defers = defers_weights(self.layout);
        let apart =
            |backward: f64, of_it: f64| if defers { [backward - of_it, of_it] } else { [backward, 0.0] };
        let full = self.full(kind);
        let x = &mut t.times;
        let [input, weight] = apart(t.backward, t.weight);
        let mut passes = [t.forward, input, weight];
        let shard = self.traffic.sharded(&self.s.fabric, &t.weights);
        let sharded = shard.forward + shard.backward + shard.reduce > 0.0;
        if !self.s.recipe.runtime.cuda_graphs {
            // Gathering a unit costs the host its hooks and launches.
            let unit = if sharded { self.s.machine.host } else { 0.0 };
            let [input, weight] = apart(c.host_backward, (c.host_backward - c.host_forward).max(0.0));
            let forward = c.host_forward + unit * UNIT_HOST[0];
            let hosts = [forward, input + unit * UNIT_HOST[1] + full * forward, weight];
            for (pass, host) in passes.iter_mut().zip(hosts) {
                let late = (host - *pass).max(0.0);
                *pass += late;
                x.host += late;
            }
        }
        if sharded {
            let [gather, reduce] = apart(shard.backward + shard.reduce, shard.reduce);
            for (pass, traffic) in passes.iter_mut().zip([shard.forward, gather, reduce]) {
                *pass = self.prefetched(*pass, traffic, x);
            }
        }
        x.accumulate = self.s.machine.stream(self.traffic.accumulate(&t.weights, self.micro_batches));
        let [forward, input, weight] = passes;
        t.forward = forward;
        t.backward = input + weight + x.accumulate;
        if defers {
            t.weight = weight + x.accumulate;
        }
    }

    /// Sharded parameters: the next unit is gathered beside the current one.
    /// Source: Zhao 2023 (FSDP), section 4; Rajbhandari 2020 for the volume.
    fn prefetched(&self, compute: f64, traffic: f64, x: &mut StepTimes) -> f64 {
        if traffic <= 0.0 {
            return compute;
        }
        if !self.overlaps_data() {
            x.sharded += traffic;
            return compute + traffic;
        }
        let slowed = compute + CONTENTION * traffic.min(compute);
        let waited = traffic + PREFETCH_TAIL * compute;
        let time = slowed.max(waited);
        if waited > slowed {
            let exposed = waited - compute;
            x.sharded += exposed;
            x.hidden_sharded += (traffic - exposed).max(0.0);
        } else {
            x.contention += slowed - compute;
            x.hidden_sharded += traffic;
        }
        time
    }

    /// The slowest rank, from the times of each block.
    fn rank(&self, blocks: &[Timed], partition: &Partition) -> Rank {
        let m = self.micro_batches;
        let mut slow = Timed::default();
        if let Some(stage) = partition.slowest(blocks) {
            for (block, &n) in blocks.iter().zip(stage) {
                if n > 0.0 {
                    slow.add(block, n);
                }
            }
        }
        let p = self.layout.pipeline_parallel as f64;
        let mean = |of: fn(&Timed) -> f64| {
            blocks.iter().zip(partition.all()).map(|(t, n)| n * of(t)).sum::<f64>() / p
        };
        let copies = self.offloaded_activations(&mut slow);
        let mut x = slow.times;
        x.scale(m);
        x.offload += m * copies;
        self.data_parallel(&mut x, &slow);
        x.optimizer = self.traffic.optimizer(&self.s.machine, self.s.profile, &slow.weights);
        self.offload(&mut x, &slow);
        x.micro_batches = m;
        let mean = Stage {
            forward: mean(|t| t.forward),
            backward_input: mean(|t| t.backward - t.weight),
            backward_weight: mean(|t| t.weight),
        };
        Rank { times: x, mean }
    }

    /// Adds fill and drain, sends, and what the whole step waits for.
    fn scheduled(&self, rank: &Rank) -> StepTimes {
        let mut x = rank.times;
        let (p, m) = (self.layout.pipeline_parallel as f64, self.micro_batches);
        let v = if self.layout.pipeline_schedule.chunks() == Chunks::Several {
            self.layout.pipeline_chunks.max(1) as f64
        } else {
            1.0
        };
        x.bubble = bubble(self.layout.pipeline_schedule, p, v, m, &rank.mean);
        self.sends(&mut x, p, m, v);
        super::stalls::input(self.s, self.layout, &mut x);
        super::stalls::straggler(self.s, &mut x);
        x
    }

    fn sends(&self, x: &mut StepTimes, p: f64, m: f64, v: f64) {
        if p <= 1.0 {
            return;
        }
        let hidden = self.s.model.hidden as f64;
        let slice = Slice::of(self.layout, self.s.batch.seq_len);
        let bytes = slice.tokens() * hidden * self.s.machine.element / self.tp.ranks;
        let stride = self.tp.ranks * self.cp.ranks * self.layout.data_parallel() as f64;
        let one = self.s.fabric.send(bytes, stride);
        let (total, exposed) = if self.s.profile.overlaps_tensor {
            let total = 2.0 * one * (m * v + p - 1.0);
            (total, 0.5 * total)
        } else {
            let total = 2.0 * one * (m + 2.0 * (p - 1.0));
            (total, total)
        };
        x.send = exposed;
        x.hidden_send = total - exposed;
    }

    fn data_parallel(&self, x: &mut StepTimes, slow: &Timed) {
        let exchange = self.traffic.data(&self.s.fabric, &slow.weights, self.micro_batches);
        // Gradients travel beside the last backward, parameters beside the first forward.
        let backwards = if self.traffic.every_micro_batch { self.micro_batches } else { 1.0 };
        let windows = [(exchange.backward, slow.backward * backwards), (exchange.forward, slow.forward)];
        for (time, window) in windows {
            let exposed =
                if self.overlaps_data() { (DATA_EXPOSED * time).max(time - 0.9 * window) } else { time };
            x.data += exposed;
            x.hidden_data += time - exposed;
        }
    }

    /// What passes to the drives and back after the last backward.
    fn swap(&self, x: &mut StepTimes, owned: f64, backward: f64) {
        let nvme = &self.s.recipe.runtime.nvme;
        let drives = Drives::of(nvme, self.s.cluster);
        if self.layout.swaps(Offload::Optimizer) {
            let moments = self.s.recipe.optimizer.costs().states.bytes(4.0);
            x.offload += swap::optimizer(nvme, &drives, owned, moments, x.optimizer, backward);
        }
        if self.layout.swaps(Offload::Param) {
            let bytes = (owned - nvme.in_cpu(owned)) * self.s.machine.element;
            x.offload += bytes / drives.write;
        }
    }

    /// Bytes that the layers of one stage keep of a micro-batch.
    fn kept(&self) -> f64 {
        let (s, layout) = (self.s, self.layout);
        let seq_len = s.model.fixed_tokens.unwrap_or(s.batch.seq_len);
        let tokens = seq_len * layout.micro_batch / layout.context_parallel;
        let layers = s.model.runs().filter(|(block, _)| block.kind == BlockKind::Layer);
        let kept = |block| layer_saved_bytes(block, s.recipe, layout, seq_len, tokens).get();
        layers.map(|(block, count)| kept(block) * count as f64).sum::<f64>() / layout.pipeline_parallel as f64
    }

    fn offload(&self, x: &mut StepTimes, slow: &Timed) {
        if self.layout.offloads(Offload::Optimizer) {
            // Gradients come down and parameters go up at 16 bits while the CPU updates.
            let owned = self.traffic.owned(&slow.weights);
            x.optimizer = owned * (CPU_ADAM_BYTES / CPU_ADAM_RATE + 4.0 / host_link(self.s.cluster));
            self.swap(x, owned, slow.backward);
        }
    }

    /// All that the layers keep goes down beside forward and comes back beside backward, whatever these
    /// compute and wait for; gives what is late of it.
    fn offloaded_activations(&self, slow: &mut Timed) -> f64 {
        if !self.layout.offloads(Offload::Activation) {
            return 0.0;
        }
        let copy = self.kept() / host_link(self.s.cluster);
        let late = |pass: f64| (copy - pass).max(COPY_TAIL * copy);
        let (down, back) = (late(slow.forward), late(slow.backward));
        slow.forward += down;
        slow.backward += back;
        down + back
    }
}

/// Elements of parameters that rest with one rank.
fn sharded_parameters(s: &Setting<'_>, layout: &Layout) -> f64 {
    s.model.counts().total as f64 / layout.shard_ranks() as f64
}

/// Rate at which parameters that left the device come back to it.
fn fetch_rate(s: &Setting<'_>, layout: &Layout) -> f64 {
    let link = host_link(s.cluster);
    if !layout.swaps(Offload::Param) {
        return link;
    }
    let (nvme, p) = (&s.recipe.runtime.nvme, sharded_parameters(s, layout));
    Drives::of(nvme, s.cluster).fetch(link, 1.0 - nvme.in_cpu(p) / p.max(1.0))
}

/// Rate of a pinned copy between a device and its host.
fn host_link(cluster: &Cluster) -> f64 {
    cluster.host.as_ref().map_or(2e10, |c| c.bandwidth.get() * c.copy_fraction.unwrap_or(0.79))
}

/// Share of data-parallel traffic that stays exposed at best: the last bucket, the first gather.
/// Source: open corpus, 0.17 to 0.45.
const DATA_EXPOSED: f64 = 0.25;
/// Share of a pass's copies that nothing runs beside: those of one layer in twenty, a judgement.
const COPY_TAIL: f64 = 0.05;
/// Bytes per parameter of an Adam step on the CPU, and the rate of one rank's share of the cores.
/// Source: Ren 2021 (ZeRO-Offload), table 4, scaled to eight ranks a node.
const CPU_ADAM_BYTES: f64 = 28.0;
const CPU_ADAM_RATE: f64 = 30e9;

impl Timed {
    fn add(&mut self, o: &Self, n: f64) {
        self.forward += n * o.forward;
        self.backward += n * o.backward;
        self.weight += n * o.weight;
        self.weights.add(&o.weights, n);
        let (a, b) = (&mut self.times, &o.times);
        a.forward.add(&b.forward, n);
        a.backward.add(&b.backward, n);
        a.recompute.add(&b.recompute, n);
        for (x, y) in a.waits().into_iter().zip(b.clone().waits()) {
            *x += n * *y;
        }
    }
}
