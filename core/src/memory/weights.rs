//! How many parameters of each kind one rank works with, block by block.

use crate::layout::Layout;
use crate::workload::{AdapterKind, Block, BlockKind, Method, OpKind, Recipe, Split};

/// Elements of one block on one rank, before any data-parallel sharding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BlockWeights {
    /// Parameters that data-parallel ranks share in full.
    pub(super) dense: f64,
    /// Parameters of routed experts, shared among fewer ranks.
    pub(super) experts: f64,
    /// Of both, those a quantised base stores in few bits.
    pub(super) quantised: f64,
    /// Of `dense`, those trained beside adapters.
    pub(super) saved: f64,
    /// Parameters of adapters.
    pub(super) adapters: f64,
    /// Of `dense`, the embedding and head tables.
    pub(super) tables: f64,
    /// The largest single tensor.
    pub(super) largest: f64,
    /// The largest single tensor that is trained.
    pub(super) largest_trained: f64,
    /// The largest single linear weight.
    pub(super) largest_linear: f64,
    /// Of `dense`, those of a traced model that are not trained.
    pub(super) frozen: f64,
    /// Elements of buffers, as fp32.
    pub(super) buffers: f64,
}

impl BlockWeights {
    /// All base parameters.
    pub(super) fn base(&self) -> f64 {
        self.dense + self.experts
    }

    pub(super) fn of(block: &Block, recipe: &Recipe, layout: &Layout) -> Self {
        let tp = layout.tensor_parallel as f64;
        let vocab = layout.vocabulary_ranks() as f64;
        let ep = layout.expert_parallel as f64;
        let mut w = Self { buffers: block.buffers as f64, ..Self::default() };
        if let Some(part) = &block.traced {
            w.dense = part.parameters as f64;
            // Who casts a module casts its buffers.
            w.buffers *= recipe.params().bytes() / 4.0;
            w.frozen = part.frozen as f64;
            w.largest = part.largest as f64;
            w.largest_trained = w.largest.min((part.parameters - part.frozen) as f64);
        }
        let trains = |name: &str| !recipe.frozen_base() || recipe.saves_module(name);
        for op in &block.ops {
            let n = op.kind.parameters() as f64;
            match op.kind {
                OpKind::Linear(l) => {
                    let weight = if l.tied { 0.0 } else { l.inputs as f64 * l.outputs as f64 };
                    let bias = n - weight;
                    let (weight, bias) = match l.split {
                        Split::Column => (weight / tp, bias / tp),
                        Split::Vocabulary => (weight / vocab, bias / vocab),
                        Split::Row => (weight / tp, bias),
                        Split::Replicated => (weight, bias),
                    };
                    w.dense += weight + bias;
                    w.largest = w.largest.max(weight);
                    w.largest_linear = w.largest_linear.max(weight);
                    if trains(l.name) {
                        w.largest_trained = w.largest_trained.max(weight);
                    }
                    let head = block.kind == BlockKind::Head;
                    if head {
                        w.tables += weight;
                    }
                    if recipe.saves_module(l.name) {
                        w.saved += weight + bias;
                    }
                    if recipe.method == Method::Qlora && !head {
                        w.quantised += weight;
                    }
                    if recipe.adapts(l.name) {
                        let r = recipe.lora.rank as f64;
                        // The factor on the cut side is cut with it (Megatron and PEFT alike).
                        let (down, up) = (r * l.inputs as f64, r * l.outputs as f64);
                        // Source: Liu 2024, DoRA: one magnitude for each output.
                        let magnitude = match recipe.lora.kind {
                            AdapterKind::Lora => 0.0,
                            AdapterKind::Dora => l.outputs as f64,
                        };
                        let (down, up, magnitude) = match l.split {
                            Split::Column | Split::Vocabulary => (down, up / tp, magnitude / tp),
                            Split::Row => (down / tp, up, magnitude),
                            Split::Replicated => (down, up, magnitude),
                        };
                        w.adapters += down + up + magnitude;
                        w.largest_trained = w.largest_trained.max(down).max(up);
                    }
                }
                OpKind::Experts(_) => {
                    w.experts += n / (tp * ep);
                    if recipe.method == Method::Qlora {
                        w.quantised += n / (tp * ep);
                    }
                    let largest = n * 2.0 / 3.0 / (tp * ep);
                    w.largest = w.largest.max(largest);
                    if !recipe.frozen_base() {
                        w.largest_trained = w.largest_trained.max(largest);
                    }
                }
                OpKind::Lookup(t) => {
                    let n = if t.split == Split::Vocabulary { n / vocab } else { n };
                    w.dense += n;
                    w.tables += n;
                    w.largest = w.largest.max(n);
                    if trains(t.name) {
                        w.largest_trained = w.largest_trained.max(n);
                    }
                    if recipe.saves_module(t.name) {
                        w.saved += n;
                    }
                }
                _ => w.dense += n,
            }
        }
        w
    }

    /// Elements the optimizer updates.
    pub(super) fn trainable(&self, recipe: &Recipe) -> f64 {
        if recipe.frozen_base() { self.adapters + self.saved } else { self.base() - self.frozen }
    }
}

impl core::ops::AddAssign<(Self, f64)> for BlockWeights {
    /// Adds so many copies of a block.
    fn add_assign(&mut self, (o, n): (Self, f64)) {
        self.dense += o.dense * n;
        self.experts += o.experts * n;
        self.quantised += o.quantised * n;
        self.saved += o.saved * n;
        self.adapters += o.adapters * n;
        self.tables += o.tables * n;
        self.frozen += o.frozen * n;
        self.buffers += o.buffers * n;
        self.largest = self.largest.max(o.largest);
        self.largest_trained = self.largest_trained.max(o.largest_trained);
        self.largest_linear = self.largest_linear.max(o.largest_linear);
    }
}
