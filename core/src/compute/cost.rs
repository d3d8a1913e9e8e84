//! What one block costs one rank for one micro-batch: seconds forward, backward and recomputed, by
//! kind of work, and the bytes its parallelism moves.

mod experts;
mod precision;

use super::attention::{self, Work};
use super::flops::{selective, stops_early};
use super::gemm::Gemm;
use super::machine::Machine;
use super::profile::{KernelStyle, Pass, Profile};
use super::walk::{Slots, Visit, walk};
use crate::layout::{Again, Layout};
use crate::workload::{Block, BlockKind, Linear, LossKernel, OpKind, Recipe, Scan, Split, TracedPart};

/// Traffic of a router's scores, in bytes per expert and token: fp32 logits, softmax and top-k.
const ROUTER: f64 = 24.0;
/// Traffic of a state-space scan, in bytes per token and channel. Source: open corpus, one hybrid
/// family on five parts.
const SCAN: Pass = Pass { forward: 150.0, backward: 350.0 };
/// Backward launches more than forward: two products per linear, gradients to add.
const BACKWARD_HOST: f64 = 1.6;

/// Seconds by kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Products with weights.
    pub matmul: f64,
    /// Attention.
    pub attention: f64,
    /// Norms, activations, rotary embeddings, residuals, routing, loss: traffic.
    pub traffic: f64,
    /// Casts to low precision and fake quantisation.
    pub cast: f64,
    /// Dequantisation of a frozen base.
    pub dequantize: f64,
    /// Idle time between kernels.
    pub gap: f64,
}

impl Parts {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.matmul + self.attention + self.traffic + self.cast + self.dequantize + self.gap
    }

    /// The same with products, traffic (and casts, dequantisation) and attention scaled apart.
    pub(crate) fn shares(&self, [products, traffic, attention]: [f64; 3]) -> Self {
        Self {
            matmul: products * self.matmul,
            attention: attention * self.attention,
            traffic: traffic * self.traffic,
            cast: products * self.cast,
            dequantize: products * self.dequantize,
            gap: traffic.max(products) * self.gap,
        }
    }

    /// Adds `n` times another.
    pub(crate) fn add(&mut self, o: &Self, n: f64) {
        self.matmul += n * o.matmul;
        self.attention += n * o.attention;
        self.traffic += n * o.traffic;
        self.cast += n * o.cast;
        self.dequantize += n * o.dequantize;
        self.gap += n * o.gap;
    }
}

/// A rank's share of the work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Sequences of a micro-batch.
    pub sequences: f64,
    /// Tokens of a sequence.
    pub seq: f64,
    /// Tensor-parallel ranks.
    pub tp: f64,
    /// Ranks over which norms and residuals are split.
    pub sp: f64,
    /// Context-parallel ranks.
    pub cp: f64,
    /// Expert-parallel ranks.
    pub ep: f64,
}

impl Slice {
    /// The share of one rank of a layout.
    #[must_use]
    pub fn of(layout: &Layout, seq_len: u64) -> Self {
        let tp = layout.tensor_parallel as f64;
        Self {
            sequences: layout.micro_batch as f64,
            seq: seq_len as f64,
            tp,
            sp: if layout.sequence_parallel { tp } else { 1.0 },
            cp: layout.context_parallel as f64,
            ep: layout.expert_parallel as f64,
        }
    }

    /// Tokens of a micro-batch on the rank.
    #[must_use]
    pub fn tokens(&self) -> f64 {
        self.sequences * self.seq / self.cp
    }
}

/// One block on one rank for one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockCost {
    /// Forward, in seconds.
    pub forward: Parts,
    /// Backward without recompute, in seconds.
    pub backward: Parts,
    /// Of `backward`, seconds of gradients of weights.
    pub weight_gradients: f64,
    /// What a checkpoint of the block would run again, in seconds.
    pub recompute: Parts,
    /// What selective recomputation runs again, in seconds.
    pub selected: Parts,
    /// Of the traffic of tensor, context and expert ranks in one direction, the share that it repeats.
    pub repeats: [f64; 3],
    /// Host time to issue forward, in seconds.
    pub host_forward: f64,
    /// Host time to issue backward, in seconds.
    pub host_backward: f64,
    /// Parameters of the rank that are not routed experts.
    pub dense: f64,
    /// Routed-expert parameters of the rank.
    pub expert: f64,
    /// Trained parameters that are not routed experts.
    pub trained_dense: f64,
    /// Trained routed-expert parameters.
    pub trained_expert: f64,
    /// Bytes of the rank's frozen quantised parameters.
    pub quantized_bytes: f64,
    /// Parameters that are quantised.
    pub quantized: f64,
    /// Places where tensor-parallel ranks exchange whole hidden states, per direction.
    pub tensor_points: f64,
    /// Bytes of one such hidden state.
    pub hidden_bytes: f64,
    /// Bytes of keys and values of the rank's own tokens.
    pub kv_bytes: f64,
    /// Bytes of queries, keys, values and outputs of the rank's own tokens.
    pub qkvo_bytes: f64,
    /// Bytes of the rank's routed copies.
    pub routed_bytes: f64,
    /// Experts a token goes to.
    pub top_k: f64,
}

struct Builder<'a> {
    cost: BlockCost,
    slice: &'a Slice,
    machine: &'a Machine,
    profile: &'a Profile,
    recipe: &'a Recipe,
    low_precision: bool,
    tokens: f64,
    /// Rows of the fullest rank's experts over the mean.
    load: f64,
    /// The operation at hand is one that selective recomputation runs again.
    again: bool,
    tensor_again: f64,
    kernels: f64,
    host: Pass,
}

impl BlockCost {
    /// The cost of a block. `input_gradient` is false only for the first layer over a frozen
    /// embedding.
    #[must_use]
    pub fn new(
        block: &Block,
        recipe: &Recipe,
        machine: &Machine,
        layout: &Layout,
        seq_len: u64,
        input_gradient: bool,
    ) -> Self {
        let profile = Profile::of(recipe);
        let slice = &Slice::of(layout, seq_len);
        let (parts, mut attended) = (Again::of(layout), false);
        let mut b = Builder {
            cost: Self::default(),
            slice,
            machine,
            profile,
            recipe,
            low_precision: block.kind == BlockKind::Layer,
            tokens: slice.tokens(),
            load: recipe.runtime.expert_load(layout.expert_parallel),
            again: false,
            tensor_again: 0.0,
            kernels: 0.0,
            host: Pass { forward: 0.0, backward: 0.0 },
        };
        if let Some(part) = &block.traced {
            b.traced(part);
        }
        let mut cut = Slots::NONE;
        for v in walk(block, recipe, input_gradient, stops_early(recipe)) {
            let first = v.op.inputs[0];
            let is_cut = match v.op.kind {
                OpKind::Linear(l) => matches!(l.split, Split::Column | Split::Vocabulary),
                OpKind::Attention(_) | OpKind::Scan(_) => true,
                OpKind::Router(_) | OpKind::Experts(_) | OpKind::Lookup(_) | OpKind::Parameter(_) => false,
                OpKind::Norm(n) => n.split != Split::Replicated || cut.has(first),
                _ => v.op.arity > 0 && cut.has(first),
            };
            if is_cut {
                cut = cut.with(v.op.output);
            }
            let input_cut = v.op.arity > 0 && cut.has(first);
            attended |= matches!(v.op.kind, OpKind::Attention(_));
            b.again = parts.is_named() && parts.runs(&v.op.kind, attended);
            b.visit(block, &v, is_cut, input_cut);
        }
        if !parts.is_named() {
            let shares = selective(recipe);
            b.cost.selected = b.cost.recompute.shares(shares);
            b.cost.repeats = [0.0, shares[2], 0.0];
        }
        b.finish(block)
    }
}

impl Builder<'_> {
    fn visit(&mut self, block: &Block, v: &Visit<'_>, is_cut: bool, input_cut: bool) {
        let width = |slot: u16| block.slots.get(usize::from(slot)).map_or(0.0, |s| s.width as f64);
        let share = |cut: bool| if cut { self.slice.tp } else { self.slice.sp };
        let out = self.tokens * width(v.op.output) / share(is_cut);
        let p = self.profile;
        match v.op.kind {
            OpKind::Linear(l) => self.linear(block, v, &l),
            OpKind::Norm(n) => {
                self.traffic(v, out, p.norm(n.kind), p.norm_kernels(n.kind));
                self.own(v, op_parameters(v), false);
            }
            OpKind::Rotary(_) => self.traffic(v, out, p.rotary, p.rotary_kernels),
            OpKind::Attention(a) => {
                let w = Work::new(&a, self.slice.sequences, self.slice.seq, self.slice.tp, self.slice.cp);
                // Transformers has no fused kernel for some families; engines with their own models do.
                let engine = p.style != KernelStyle::Transformers;
                let unfused = self.machine.unfused_attention || (a.eager_only && !engine);
                let t = if unfused {
                    attention::unfused(&a, &w, p.scores, self.machine)
                } else {
                    attention::fused(&a, &w, self.machine)
                };
                self.cost.forward.attention += t.forward;
                self.cost.backward.attention += t.backward;
                self.again(v, |parts| parts.attention += t.forward);
                // Its ring of keys and values turns again.
                self.cost.repeats[1] = f64::from(u8::from(self.again));
                self.kernels(v, if unfused { 6.0 } else { 2.0 });
                let (kv, heads) = (a.kv_heads as f64, a.heads as f64);
                let (qk, pv) = (a.qk_head as f64, a.v_head as f64);
                let per_rank = self.tokens * self.machine.element / self.slice.tp;
                self.cost.kv_bytes += per_rank * kv.max(self.slice.tp) * (qk + pv);
                self.cost.qkvo_bytes += per_rank * (heads * (qk + pv) + kv * (qk + pv));
            }
            OpKind::Activation(a) => {
                let (pass, kernels) = p.act(a);
                self.traffic(v, out, pass, kernels);
            }
            OpKind::Product => self.traffic(v, out, p.gate, p.pointwise_kernels),
            OpKind::Add => self.traffic(v, out, p.add, p.pointwise_kernels),
            OpKind::Softcap => self.traffic(v, out, p.activation, 3.0 * p.pointwise_kernels),
            OpKind::Scale => self.traffic(v, out, Pass { forward: 4.0, backward: 4.0 }, p.pointwise_kernels),
            OpKind::Dropout if !self.recipe.no_dropout => {
                self.traffic(v, out, Pass { forward: 5.0, backward: 5.0 }, p.pointwise_kernels);
            }
            OpKind::Dropout | OpKind::View => {}
            OpKind::Clamp => self.traffic(v, out, Pass { forward: 4.0, backward: 5.0 }, p.pointwise_kernels),
            OpKind::Upcast => self.traffic(v, out, Pass { forward: 6.0, backward: 6.0 }, p.pointwise_kernels),
            OpKind::Assemble => self.traffic(v, out, Pass { forward: 4.0, backward: 4.0 }, 1.0),
            OpKind::Router(r) => {
                let tokens = self.tokens / self.slice.sp;
                let g = Gemm { m: tokens, n: r.experts as f64, k: r.inputs as f64, count: 1.0 };
                self.product16(v, &g, v.trains);
                self.traffic(v, tokens * r.experts as f64, Pass { forward: ROUTER, backward: ROUTER }, 4.0);
                self.own(v, op_parameters(v), false);
            }
            OpKind::Experts(e) => self.experts(v, &e),
            OpKind::Scan(s) => self.scan(v, &s, input_cut),
            OpKind::Lookup(t) => {
                self.traffic(v, out, Pass { forward: 4.0, backward: 8.0 }, 1.0);
                self.own(v, (t.rows * t.width) as f64 / self.cut(t.split), false);
            }
            OpKind::Parameter(t) => self.own(v, (t.rows * t.width) as f64 / self.cut(t.split), false),
            OpKind::Loss | OpKind::PlainLoss => {
                let pass = match self.recipe.loss {
                    LossKernel::Fused | LossKernel::FusedInPlace | LossKernel::FusedLinear => {
                        Pass { forward: p.loss.forward.min(6.0), backward: p.loss.backward.min(6.0) }
                    }
                    LossKernel::VocabParallel | LossKernel::Compiled => {
                        Pass { forward: p.loss.forward.min(8.0), backward: p.loss.backward.min(6.0) }
                    }
                    LossKernel::Eager | LossKernel::HeadChunked | LossKernel::Chunked => p.loss,
                };
                let logits = self.tokens * width(v.op.inputs[0]) / share(input_cut);
                self.traffic(v, logits, pass, 4.0);
            }
        }
    }

    fn cut(&self, split: Split) -> f64 {
        if split == Split::Replicated { 1.0 } else { self.slice.tp }
    }

    /// Books parameters on the rank.
    fn own(&mut self, v: &Visit<'_>, parameters: f64, expert: bool) {
        let c = &mut self.cost;
        let trained = if v.trains { parameters } else { 0.0 };
        if expert {
            c.expert += parameters;
            c.trained_expert += trained;
        } else {
            c.dense += parameters;
            c.trained_dense += trained;
        }
    }

    /// Books what runs again, where the operation at hand does.
    fn again(&mut self, v: &Visit<'_>, book: impl Fn(&mut Parts)) {
        if v.recomputed {
            book(&mut self.cost.recompute);
        }
        if self.again {
            book(&mut self.cost.selected);
        }
    }

    /// Books kernels: gaps on the device, launches on the host.
    fn kernels(&mut self, v: &Visit<'_>, n: f64) {
        let gap = n * self.machine.gap;
        self.cost.forward.gap += gap;
        self.cost.backward.gap += 2.0 * gap;
        self.again(v, |parts| parts.gap += gap);
        self.kernels += n;
    }

    /// Books a memory-bound operation on `elements`.
    fn traffic(&mut self, v: &Visit<'_>, elements: f64, pass: Pass, kernels: f64) {
        let scale = elements * self.machine.element / 2.0;
        let forward = self.machine.stream(scale * pass.forward);
        self.cost.forward.traffic += forward;
        self.cost.backward.traffic += self.machine.stream(scale * pass.backward);
        self.again(v, |parts| parts.traffic += forward);
        self.kernels(v, kernels);
    }

    /// Books a product and its two gradients in the compute format.
    fn product(&mut self, v: &Visit<'_>, g: &Gemm, trains: bool, rate: f64) {
        let low = self.low_precision;
        let machine = self.machine;
        let time = |g: &Gemm| if low { machine.product(g) / rate } else { machine.product16(g) / rate };
        let forward = time(g);
        self.cost.forward.matmul += forward;
        if v.input_gradient {
            self.cost.backward.matmul += time(&g.input_gradient());
        }
        if trains {
            let weight = time(&g.weight_gradient());
            self.cost.backward.matmul += weight;
            self.cost.weight_gradients += weight;
        }
        self.again(v, |parts| parts.matmul += forward);
        self.kernels(v, 1.0);
    }

    fn product16(&mut self, v: &Visit<'_>, g: &Gemm, trains: bool) {
        let low = core::mem::replace(&mut self.low_precision, false);
        self.product(v, g, trains, 1.0);
        self.low_precision = low;
    }

    fn linear(&mut self, block: &Block, v: &Visit<'_>, l: &Linear) {
        let parameters = if l.tied { 0.0 } else { (l.inputs * l.outputs) as f64 / self.cut(l.split) };
        self.own(v, parameters, false);
        self.quantization(v, l, parameters);
        if l.split == Split::Row || l.split == Split::Vocabulary {
            self.cost.tensor_points += 1.0;
            self.tensor_again += f64::from(u8::from(self.again));
            self.cost.hidden_bytes = self.tokens * (l.inputs.min(l.outputs)) as f64 * self.machine.element;
        }
        if l.split == Split::Row {
            self.cost.hidden_bytes = self.tokens * l.outputs as f64 * self.machine.element;
        }
        if v.adapted {
            self.adapter(v, l);
        }
        // Projections of the same input run as one product, booked with the first of them.
        let peers = |o: &&crate::workload::Op| {
            o.inputs[0] == v.op.inputs[0]
                && matches!(o.kind, OpKind::Linear(p) if p.split == l.split && p.bias == l.bias)
        };
        let mut outputs = l.outputs;
        if self.profile.merged && l.split == Split::Column {
            let mut same = block.ops.iter().filter(peers);
            if same.next().is_some_and(|o| o.output != v.op.output) {
                return;
            }
            outputs += block.ops.iter().filter(peers).skip(1).map(|o| outputs_of(&o.kind)).sum::<u64>();
        }
        let (mut n, mut k) = (outputs as f64, l.inputs as f64);
        match l.split {
            Split::Column => n /= self.slice.tp,
            Split::Row => k /= self.slice.tp,
            Split::Vocabulary => n = self.padded_vocabulary(n) / self.slice.tp,
            Split::Replicated => {}
        }
        let tokens = if l.split == Split::Replicated { self.tokens / self.slice.sp } else { self.tokens };
        self.product(v, &Gemm { m: tokens, n, k, count: 1.0 }, v.trains, 1.0);
        if outputs != l.outputs {
            self.traffic(v, tokens * n, self.profile.split, 0.0);
        }
        if self.low_precision && self.machine.cast_read > 0.0 {
            self.casts(v, tokens * k, tokens * n);
        }
    }

    /// Frameworks that own the model pad the vocabulary so that tiles and ranks divide it.
    /// Source: Megatron-LM `--make-vocab-size-divisible-by 128`.
    fn padded_vocabulary(&self, n: f64) -> f64 {
        match self.profile.style {
            KernelStyle::Transformers | KernelStyle::Eager | KernelStyle::Compiled => n,
            _ => {
                let unit = 128.0 * self.slice.tp;
                (n / unit).ceil() * unit
            }
        }
    }

    fn scan(&mut self, v: &Visit<'_>, s: &Scan, _input_cut: bool) {
        let inner = s.inner as f64 / self.slice.tp;
        if s.heads == 0 {
            let down = Gemm { m: self.tokens, n: s.steering() as f64, k: inner, count: 1.0 };
            let up = Gemm { m: self.tokens, n: inner, k: s.rank as f64, count: 1.0 };
            self.product16(v, &down, v.trains);
            self.product16(v, &up, v.trains);
        }
        self.traffic(v, self.tokens * inner, SCAN, 6.0);
        self.own(v, op_parameters(v) / self.slice.tp, false);
    }

    /// A traced part: its products with their shapes, all else as traffic.
    fn traced(&mut self, part: &TracedPart) {
        let t = self.tokens;
        let bytes = part.regimes.of(self.machine.element < 4.0, self.recipe.autocasts(false));
        let c = &mut self.cost;
        for &[m, n, k, count] in &part.products {
            let g = Gemm { m: m * t, n, k, count };
            let weight = self.machine.product16(&g.weight_gradient().split()) * part.trained();
            c.forward.matmul += self.machine.product16(&g);
            c.backward.matmul += self.machine.product16(&g.input_gradient()) + weight;
            c.weight_gradients += weight;
        }
        c.forward.traffic += self.machine.stream((bytes.traffic.0 + bytes.traffic.1 * t).max(0.0));
        c.backward.traffic +=
            self.machine.stream((bytes.traffic_backward.0 + bytes.traffic_backward.1 * t).max(0.0));
        self.kernels = part.kernels as f64;
        c.forward.gap += self.kernels * self.machine.gap;
        c.backward.gap += 2.0 * self.kernels * self.machine.gap;
        if part.unit {
            c.recompute = c.forward;
        }
        c.dense = part.parameters as f64;
        c.trained_dense = c.dense * part.trained();
    }

    fn finish(mut self, block: &Block) -> BlockCost {
        let launch = self.kernels * self.profile.launch;
        self.cost.host_forward = self.machine.host * (launch + self.host.forward);
        self.cost.host_backward = self.machine.host * (launch * BACKWARD_HOST + self.host.backward);
        if block.kind != BlockKind::Layer {
            (self.cost.recompute, self.cost.selected) = (Parts::default(), Parts::default());
        }
        if self.tensor_again > 0.0 {
            self.cost.repeats[0] = self.tensor_again / self.cost.tensor_points;
        }
        self.cost
    }
}

fn op_parameters(v: &Visit<'_>) -> f64 {
    v.op.kind.parameters() as f64
}

const fn outputs_of(kind: &OpKind) -> u64 {
    match kind {
        OpKind::Linear(l) => l.outputs,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Recompute, RecomputeModule};
    use crate::workload::{Framework, ModelSpec};

    fn cost(name: &str, recipe: &Recipe, layout: &Layout) -> BlockCost {
        let model = ModelSpec::from(name).resolve("model").unwrap();
        let (block, _) = model.runs().find(|(b, _)| b.kind == BlockKind::Layer).unwrap();
        let machines = crate::ClusterSpec::from("8xH100-SXM-80GB");
        let (cluster, _) = machines.resolve(crate::Catalog::embedded()).unwrap();
        BlockCost::new(block, recipe, &Machine::new(&cluster, recipe), layout, 4096, true)
    }

    fn megatron() -> Recipe {
        Recipe { framework: Framework::Megatron, ..Recipe::default() }
    }

    #[test]
    fn the_fullest_expert_rank_makes_the_others_wait() {
        let layout = Layout { expert_parallel: 8, ..Layout::default() };
        let mut uneven = megatron();
        uneven.runtime.moe_imbalance = Some(2.0);
        let (even, uneven) =
            (cost("mixtral-8x7b", &megatron(), &layout), cost("mixtral-8x7b", &uneven, &layout));
        assert!((uneven.routed_bytes / even.routed_bytes - 2.0).abs() < 1e-12);
        // Attention, norms and projections are as they were: less than twice the time in all.
        assert!(uneven.forward.matmul > 1.5 * even.forward.matmul);
        assert!(uneven.forward.matmul < 2.0 * even.forward.matmul);
        assert!((uneven.forward.attention - even.forward.attention).abs() < 1e-12);
        assert!((uneven.expert - even.expert).abs() < 1e-12);
    }

    #[test]
    fn named_parts_add_up_to_the_layer() {
        let of = |modules: &[RecomputeModule]| {
            let recompute = Recompute::Selective;
            let layout = Layout {
                recompute,
                recompute_modules: modules.to_vec(),
                tensor_parallel: 2,
                ..Layout::default()
            };
            cost("llama-3-8b", &megatron(), &layout)
        };
        let whole = of(&[]);
        let (attention, mlp) = (of(&[RecomputeModule::Attention]), of(&[RecomputeModule::Mlp]));
        let products = attention.selected.matmul + mlp.selected.matmul;
        assert!((products / whole.recompute.matmul - 1.0).abs() < 1e-12);
        assert!((attention.selected.attention - whole.recompute.attention).abs() < 1e-12);
        assert!(mlp.selected.attention.abs() < 1e-12);
        // One of two exchanges each; without names the core of attention alone, which exchanges nothing.
        let bits = |shares: [f64; 3]| shares.map(f64::to_bits);
        assert_eq!(bits(attention.repeats), bits([0.5, 1.0, 0.0]));
        assert_eq!(bits(mlp.repeats), bits([0.5, 0.0, 0.0]));
        assert!(whole.selected.matmul.abs() < 1e-12);
        assert_eq!(bits(whole.repeats), bits([0.0, 1.0, 0.0]));
        let core = of(&[RecomputeModule::CoreAttn]);
        assert!(core.selected.matmul.abs() < 1e-12);
        assert!((core.selected.attention - whole.selected.attention).abs() < 1e-12);
    }
}
