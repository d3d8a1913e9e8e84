//! The requests that are timed.

use serde_json::{Value, json};
use shardwise::api::{EstimateRequest, PlanRequest};

/// One layout of an 8B model on one node, every choice made.
///
/// # Panics
/// Never: the request is well formed.
#[must_use]
pub fn one_layout() -> EstimateRequest {
    read(json!({
        "model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 8192, "global_batch": 64,
        "layout": { "sharding": "fsdp2", "recompute": "full", "micro_batch": 2 },
        "run": { "tokens": 1e10 },
    }))
}

/// The search over one node.
///
/// # Panics
/// Never: the request is well formed.
#[must_use]
pub fn one_node() -> PlanRequest {
    read(json!({
        "model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 8192, "global_batch": 64,
        "run": { "tokens": 1e10 },
    }))
}

/// The search over 64 nodes, tensor and pipeline degrees open.
///
/// # Panics
/// Never: the request is well formed.
#[must_use]
pub fn many_nodes() -> PlanRequest {
    read(json!({
        "model": "llama-3.1-70b", "cluster": "512xH100-SXM-80GB", "seq_len": 8192, "global_batch": 1024,
        "recipe": { "framework": "megatron" },
        "search": { "tensor_parallel": [1, 2, 4, 8], "pipeline_parallel": [1, 2, 4, 8] },
    }))
}

/// The whole space of Llama-3.1-405B on `gpus` H100s: every degree, split, strategy, schedule and
/// recompute, whatever framework runs it. Up to 64 GPUs it is the 8B model, which fits there.
///
/// # Panics
/// Never: the request is well formed.
#[must_use]
pub fn whole_space(gpus: u64) -> PlanRequest {
    let model = if gpus <= 64 { "llama-3.1-8b" } else { "llama-3.1-405b" };
    read(json!({
        "model": model, "cluster": format!("{gpus}xH100-SXM-80GB"), "seq_len": 8192, "global_batch": 2048,
        "recipe": { "kernels": "fused", "attention": "flash3", "loss": "fused_linear", "optimizer": "adamw_fused" },
        "search": { "any_framework": true, "max_candidates": 100_000_000, "recompute_every": [1] },
    }))
}

fn read<T: serde::de::DeserializeOwned>(request: Value) -> T {
    serde_json::from_value(request).expect("a request of the core's own form")
}
