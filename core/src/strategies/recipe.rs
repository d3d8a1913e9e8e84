//! Recipes.

use proptest::prelude::*;

use super::figure::{figure, once_in, pick, rarely, word};
use super::record;
use crate::workload::{
    AdapterKind, AttentionKernel, Backend, BaseQuantization, Compression, Compute, Dispatch, Dtype,
    Framework, Kernels, Lora, LossKernel, Method, Nvme, Optimizer, Qat, QatScheme, Recipe, Runtime, Versions,
};

/// How the program runs beside the mathematics.
pub fn runtime() -> BoxedStrategy<Runtime> {
    record!(Runtime {
        cuda_graphs: once_in(4),
        moe_dispatch: word(Dispatch::ALL),
        moe_overlap: rarely(any::<bool>()),
        tensor_overlap: rarely(any::<bool>()),
        data_overlap: rarely(any::<bool>()),
        fp8_param_gather: once_in(4),
        moe_fused: once_in(4),
        moe_capacity_factor: rarely(figure(0.01..=1000.0)),
        moe_imbalance: rarely(figure(1.0..=1000.0)),
        in_network_reduction: once_in(4),
        backend: word(Backend::ALL),
        compression: word(Compression::ALL),
        compression_rank: rarely(1_u64..=4096),
        loader_workers: rarely(1_u64..=4096),
        worker_samples_per_second: rarely(figure(1e-3..=1e9)),
        sample_bytes: rarely(figure(0.0..=1e12)),
        gpu_decode_samples_per_second: rarely(figure(1e-3..=1e9)),
        jitter: rarely(figure(0.0..=1.0)),
        nvme: nvme(),
    })
}

/// Swapping, with buffers enough for any optimizer.
fn nvme() -> BoxedStrategy<Nvme> {
    record!(Nvme {
        buffer_count: rarely(64_u64..=10_000),
        pipeline_read: any::<bool>(),
        pipeline_write: any::<bool>(),
        sub_group_size: rarely(1_u64..=1_000_000_000_000),
        param_buffer_count: rarely(1_u64..=10_000),
        param_buffer_size: rarely(1_u64..=1_000_000_000_000),
        max_in_cpu: rarely(0_u64..=10_000_000_000_000),
        read_gb_s: rarely(figure(1e-3..=1e4)),
        write_gb_s: rarely(figure(1e-3..=1e4)),
    })
}

fn lora() -> BoxedStrategy<Lora> {
    let module = || {
        pick(
            ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "lm_head", "embed_tokens"]
                .map(str::to_owned)
                .to_vec(),
        )
    };
    let targets =
        prop_oneof![Just(vec!["all-linear".to_owned()]), proptest::collection::vec(module(), 0..4),];
    record!(Lora {
        kind: word(AdapterKind::ALL),
        rank: prop_oneof![4 => 1_u64..=256, 1 => Just(65_536)],
        targets: targets,
        dtype: word(Dtype::ALL),
        dropout: any::<bool>(),
        modules_to_save: proptest::collection::vec(module(), 0..2),
    })
}

fn qat() -> BoxedStrategy<Qat> {
    record!(Qat { scheme: word(QatScheme::ALL), group: rarely(1_u64..=1_000_000) })
}

fn versions() -> BoxedStrategy<Versions> {
    let release = |of: &[&str]| rarely(pick(of.iter().copied().map(str::to_owned).collect()));
    record!(Versions {
        torch: release(&["1.13", "2.0.1", "2.4.1", "2.6.0+cu124", "2.15"]),
        transformers: release(&["4.20.0", "4.45.2", "4.57", "5.0.0.dev0"]),
    })
}

/// A training recipe.
///
/// ```
/// use proptest::strategy::{Strategy, ValueTree};
/// let mut runner = proptest::test_runner::TestRunner::deterministic();
/// let recipe = shardwise::strategies::recipe().new_tree(&mut runner).unwrap().current();
/// assert!(recipe.lora.rank >= 1);
/// ```
pub fn recipe() -> BoxedStrategy<Recipe> {
    let half = |method| prop_oneof![1 => Just(Method::Full), 1 => method];
    let recipe = record!(Recipe {
        method: half(word(Method::ALL)),
        lora: lora(),
        base_quantization: word(BaseQuantization::ALL),
        double_quantization: rarely(any::<bool>()),
        kbit_preparation: any::<bool>(),
        qat: qat(),
        framework: word(Framework::ALL),
        params_dtype: rarely(word(Dtype::ALL)),
        compute: word(Compute::ALL),
        autocast: rarely(any::<bool>()),
        reduce_dtype: rarely(word(Dtype::ALL)),
        kernels: rarely(word(Kernels::ALL)),
        attention: word(AttentionKernel::ALL),
        loss: word(LossKernel::ALL),
        loss_chunks: rarely(1_u64..=64),
        drop_logits: once_in(4),
        optimizer: word(Optimizer::ALL),
        optimizer_in_backward: once_in(4),
        versions: versions(),
        keep_gradients: once_in(4),
        ema: once_in(4),
        padding_mask: once_in(4),
        no_dropout: once_in(4),
        runtime: runtime(),
        on_processor: Just(false),
    });
    recipe.prop_map(without_contradictions).boxed()
}

/// There is nothing to cast to where products are in fp32, nothing to gather in 8 bits where none are.
fn without_contradictions(mut recipe: Recipe) -> Recipe {
    recipe.runtime.fp8_param_gather &= recipe.transformer_engine_eight_bit();
    if recipe.compute.activations() == Dtype::Fp32 {
        recipe.autocast = recipe.autocast.map(|_| false);
    }
    recipe
}
