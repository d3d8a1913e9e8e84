//! Traffic of model states: what data-parallel ranks exchange and what the optimizer touches.

use crate::collective::{Fabric, Group};
use crate::compute::{BlockCost, Machine, Profile};
use crate::layout::{Layout, Offload, Recompute, Reshard, Sharding};
use crate::workload::{Compression, Compute, Dtype, Framework, Recipe};

/// Parameters of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Weights {
    /// All but routed experts.
    pub dense: f64,
    /// Routed experts.
    pub expert: f64,
    /// Trained, all but routed experts.
    pub trained_dense: f64,
    /// Trained routed experts.
    pub trained_expert: f64,
    /// Quantised (of `dense`).
    pub quantized: f64,
    /// Bytes of the quantised.
    pub quantized_bytes: f64,
}

impl Weights {
    pub(super) fn of(c: &BlockCost) -> Self {
        Self {
            dense: c.dense,
            expert: c.expert,
            trained_dense: c.trained_dense,
            trained_expert: c.trained_expert,
            quantized: c.quantized,
            quantized_bytes: c.quantized_bytes,
        }
    }

    pub(super) fn add(&mut self, o: &Self, n: f64) {
        self.dense += n * o.dense;
        self.expert += n * o.expert;
        self.trained_dense += n * o.trained_dense;
        self.trained_expert += n * o.trained_expert;
        self.quantized += n * o.quantized;
        self.quantized_bytes += n * o.quantized_bytes;
    }
}

/// Seconds of traffic in forward and in backward.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Exchange {
    pub forward: f64,
    pub backward: f64,
}

/// Seconds of a micro-batch's traffic where parameters are sharded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shards {
    /// Gathers before forward, and again before backward.
    pub forward: f64,
    pub backward: f64,
    /// Reduction of the gradients.
    pub reduce: f64,
}

/// How a layout's data-parallel ranks exchange states.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// Ranks among which parameters are sharded.
    shard: Group,
    /// Replicas of the shards.
    replicate: Group,
    /// Ranks that hold the same dense parameters.
    data: Group,
    /// Ranks that hold the same experts.
    expert: Group,
    sharding: Sharding,
    framework: Framework,
    /// Bytes of a gathered parameter.
    gather: f64,
    /// Bytes of a reduced gradient.
    reduce: f64,
    /// Share of the gradients' bytes that travels, and bytes per parameter of making it.
    compressed: (f64, f64),
    /// Gathers of a micro-batch's backward.
    backward_gathers: f64,
    /// Ranks over which they are made.
    rest: Group,
    /// Gradients are reduced after every micro-batch.
    pub every_micro_batch: bool,
    /// Most bytes per parameter that the optimizer moves, whoever runs it.
    optimizer_bytes: f64,
    /// Rate of the link to the host over which shards are fetched before each gather; none when they
    /// rest on the device.
    fetch: Option<f64>,
    /// 16-bit gradients are summed in fp32.
    wide_sums: bool,
}

impl Traffic {
    pub(super) fn new(recipe: &Recipe, layout: &Layout, host_link: f64, hidden: u64) -> Self {
        let (tp, cp) = (layout.tensor_parallel as f64, layout.context_parallel as f64);
        let (shard, replicate) = (layout.data_parallel_shard as f64, layout.data_parallel_replicate as f64);
        let ranks = cp * shard * replicate;
        let ep = layout.expert_parallel as f64;
        let s = layout.sharding;
        let prefetches = recipe.runtime.data_overlap.unwrap_or(Profile::of(recipe).overlaps_data);
        let gather = if recipe.runtime.fp8_param_gather { 1.0 } else { recipe.compute.activations().bytes() };
        let reduce = recipe.reduce_dtype.map_or_else(
            || match recipe.framework {
                Framework::Megatron
                | Framework::Megatron2021
                | Framework::MegatronDeepSpeed
                | Framework::DeepSpeed
                | Framework::Native
                | Framework::Composer => recipe.compute.activations().bytes(),
                _ if recipe.frozen_base() => recipe.lora.dtype.bytes(),
                _ if s.is_fsdp() => 4.0,
                _ => recipe.params().bytes(),
            },
            Dtype::bytes,
        );
        Self {
            rest: Group::new(layout.rests_within().map_or(cp * shard, |ranks| ranks as f64), tp),
            shard: Group::new(cp * shard, tp),
            replicate: Group::new(replicate, tp * cp * shard),
            data: Group::new(ranks, tp),
            expert: Group::new((ranks * tp / ep).max(1.0), ep),
            sharding: s,
            framework: recipe.framework,
            gather,
            reduce,
            compressed: compressed(recipe, reduce, hidden),
            backward_gathers: match s {
                Sharding::ShardGradOp | Sharding::HybridShardZero2 => 0.0,
                Sharding::Fsdp2 if layout.reshard_after_forward == Reshard::Never => 0.0,
                // Without prefetch a module frees its parameters after the recomputed forward and
                // gathers them again for its backward.
                Sharding::Zero3 if layout.recompute == Recompute::Full && !prefetches => 2.0,
                _ => 1.0,
            },
            every_micro_batch: layout.sync_every_micro_batch
                || matches!(s, Sharding::Zero2 | Sharding::Zero3),
            optimizer_bytes: recipe.optimizer.costs().traffic,
            fetch: layout.offloads(Offload::Param).then_some(host_link),
            wide_sums: recipe.compute == Compute::Bf16,
        }
    }

    /// Bytes of a parameter set when gathered.
    fn gathered(&self, w: &Weights) -> f64 {
        (w.dense - w.quantized + w.expert) * self.gather + w.quantized_bytes
    }

    /// Bytes of a gradient set when reduced.
    fn reduced(&self, w: &Weights) -> f64 {
        (w.trained_dense + w.trained_expert) * self.reduce * self.compressed.0
    }

    /// Seconds of one micro-batch's gathers and reductions of a block with sharded parameters.
    pub(super) fn sharded(&self, fabric: &Fabric, w: &Weights) -> Shards {
        if !self.sharding.shards_parameters() || w.dense + w.expert <= 0.0 {
            return Shards::default();
        }
        let bytes = self.gathered(w);
        let fetch = self.fetch.map_or(0.0, |rate| bytes / self.shard.ranks / rate);
        let gather = |ranks: &Group| fetch + fabric.all_gather(bytes, ranks);
        let gradients = self.reduced(w);
        let mut reduce = fabric.all_gather(gradients, &self.shard);
        if self.replicate.ranks > 1.0 {
            reduce += fabric.all_reduce(gradients / self.shard.ranks, &self.replicate);
        }
        Shards { forward: gather(&self.shard), backward: self.backward_gathers * gather(&self.rest), reduce }
    }

    /// Seconds of a step's exchanges where parameters are not sharded: gradients after the last
    /// backward, parameters before the first forward.
    pub(super) fn data(&self, fabric: &Fabric, w: &Weights, micro_batches: f64) -> Exchange {
        if self.sharding.shards_parameters() || self.sharding == Sharding::None && self.data.ranks <= 1.0 {
            return Exchange::default();
        }
        let dense = Weights { expert: 0.0, trained_expert: 0.0, ..*w };
        let expert = Weights { dense: 0.0, trained_dense: 0.0, quantized: 0.0, quantized_bytes: 0.0, ..*w };
        let splits =
            matches!(self.sharding, Sharding::Zero1 | Sharding::Zero2 | Sharding::DistributedOptimizer);
        let mut out = Exchange::default();
        for (w, group) in [(dense, &self.data), (expert, &self.expert)] {
            let gradients = self.reduced(&w);
            let parameters = (w.trained_dense + w.trained_expert) * self.gather;
            if !splits {
                out.backward += fabric.all_reduce(gradients, group);
            } else if matches!(self.framework, Framework::Megatron2021 | Framework::MegatronDeepSpeed) {
                out.backward += fabric.all_reduce(gradients, group);
                out.forward += fabric.all_gather(parameters, group);
            } else {
                out.backward += fabric.all_gather(gradients, group);
                out.forward += fabric.all_gather(parameters, group);
            }
        }
        if self.every_micro_batch {
            out.backward *= micro_batches;
        }
        out
    }

    /// Bytes of adding one micro-batch's gradients to those of the others.
    /// Source: Megatron's fused accumulation writes fp32 from the product (4 B more); DeepSpeed and
    /// PyTorch read both and write.
    pub(super) fn accumulate(&self, w: &Weights, micro_batches: f64) -> f64 {
        let trained = w.trained_dense + w.trained_expert;
        let per = match self.framework {
            Framework::Megatron | Framework::Native => 4.0,
            // In bf16 sums are kept in fp32 beside: read, add, write, and the bf16 gradient cleared.
            Framework::MegatronDeepSpeed if self.wide_sums => 14.0,
            Framework::Megatron2021 | Framework::MegatronDeepSpeed => 6.0,
            _ if self.sharding.shards_parameters() && micro_batches > 1.0 => 8.0 / self.shard.ranks,
            _ if self.sharding.shards_parameters() => 0.0,
            _ if micro_batches > 1.0 => 6.0,
            _ => 0.0,
        };
        (per + self.compressed.1) * trained
    }

    /// Trained parameters whose update falls to one rank.
    pub(super) fn owned(&self, w: &Weights) -> f64 {
        match self.sharding {
            Sharding::None | Sharding::Ddp | Sharding::NoShard => w.trained_dense + w.trained_expert,
            s if s.shards_parameters() => (w.trained_dense + w.trained_expert) / self.shard.ranks,
            _ => w.trained_dense / self.data.ranks + w.trained_expert / self.expert.ranks,
        }
    }

    /// Seconds of the optimizer step on the device.
    pub(super) fn optimizer(&self, machine: &Machine, profile: &Profile, w: &Weights) -> f64 {
        machine.stream(self.owned(w) * profile.optimizer.min(self.optimizer_bytes))
            + profile.optimizer_latency
    }
}

/// Share of the gradients' bytes that travels under compression, and the bytes per parameter that
/// compressing and restoring them moves. A low-rank pair stands for a matrix of the hidden size
/// with `2 r / h` of its elements and reads it twice (Vogels 2019, algorithm 1).
fn compressed(recipe: &Recipe, reduce: f64, hidden: u64) -> (f64, f64) {
    match recipe.runtime.compression {
        Compression::None => (1.0, 0.0),
        Compression::Fp16 => ((2.0 / reduce).min(1.0), if reduce > 2.0 { 2.0 * (reduce + 2.0) } else { 0.0 }),
        Compression::Int8 => ((1.0 / reduce).min(1.0), 2.0 * (reduce + 1.0)),
        Compression::PowerSgd => {
            let rank = recipe.runtime.compression_rank.unwrap_or(4) as f64;
            ((2.0 * rank / hidden.max(1) as f64 * 4.0 / reduce).min(1.0), 3.0 * reduce + 4.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_of_sixteen_bits_are_not_narrowed() {
        let mut recipe = Recipe::default();
        recipe.runtime.compression = Compression::Fp16;
        let of = |reduce: f64| compressed(&recipe, reduce, 4096);
        assert_eq!(format!("{:?} {:?}", of(2.0), of(4.0)), "(1.0, 0.0) (0.5, 12.0)");
    }
}
