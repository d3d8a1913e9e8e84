//! What the rules must know of a request.

use super::frameworks::{Profile, profile};
use crate::cluster::Cluster;
use crate::memory::hides_shared_table;
use crate::workload::{Batch, Framework, Model, OpKind, Recipe, Split};

/// Numbers that degrees must divide, and limits of the machines.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(super) gpus: u64,
    /// Ranks that the fastest link of a node or rack joins.
    pub(super) domain: u64,
    /// Transformers models on one node: their trainers split by data from a config alone, and only
    /// what a request lists is split otherwise.
    pub(super) by_data: bool,
    pub(super) batch: Batch,
    pub(super) layers: u64,
    /// Query heads and key-value heads of each kind of attention.
    pub(super) heads: Vec<(u64, u64)>,
    /// Widths of products that tensor ranks share.
    pub(super) widths: Vec<u64>,
    /// Routed experts of each kind of expert layer.
    pub(super) experts: Vec<u64>,
    pub(super) traced: bool,
    /// Head and embedding share a table that units by size would hide.
    pub(super) hides_table: bool,
    pub(super) encoder: bool,
    /// State-space scans, or samples that are not sequences.
    pub(super) whole_sequences: bool,
    pub(super) adapters: bool,
    pub(super) framework: Framework,
    pub(super) profile: Profile,
    /// The rules of frameworks are not asked.
    pub(super) any_framework: bool,
}

impl Facts {
    pub(crate) fn new(
        model: &Model,
        recipe: &Recipe,
        cluster: &Cluster,
        batch: &Batch,
        any_framework: bool,
    ) -> Self {
        let mut facts = Self {
            gpus: cluster.gpus(),
            domain: u64::from(cluster.domain.max(cluster.gpus_per_node)).max(1),
            by_data: recipe.framework == Framework::Torch && cluster.nodes <= 1 && !any_framework,
            batch: *batch,
            layers: model.layers(),
            heads: Vec::new(),
            widths: Vec::new(),
            experts: Vec::new(),
            traced: model.is_traced(),
            hides_table: hides_shared_table(model, recipe),
            encoder: model.has_encoder(),
            whole_sequences: model.fixed_tokens.is_some(),
            adapters: recipe.frozen_base(),
            framework: recipe.framework,
            profile: profile(recipe.framework),
            any_framework,
        };
        for op in model.blocks.iter().flat_map(|b| &b.ops) {
            match op.kind {
                OpKind::Attention(a) => add(&mut facts.heads, (a.heads, a.kv_heads)),
                OpKind::Linear(l) if l.split == Split::Column => add(&mut facts.widths, l.outputs),
                OpKind::Linear(l) if l.split == Split::Row => add(&mut facts.widths, l.inputs),
                OpKind::Experts(e) => {
                    add(&mut facts.experts, e.experts);
                    add(&mut facts.widths, e.width);
                }
                OpKind::Scan(_) => facts.whole_sequences = true,
                _ => {}
            }
        }
        facts
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
