//! Single terms of a step that only some settings bring out.

use serde_json::{Value, json};

/// Seconds of a term of the step.
fn term(request: &Value, name: &str) -> f64 {
    let request = serde_json::from_value(request.clone()).expect("a request");
    let answer = shardwise::estimate(&request).expect("an answer");
    answer.step.time.get(name).map_or(0.0, shardwise::Seconds::get)
}

/// A token crosses a link once for all experts behind it when either is asked for.
#[test]
fn fused_dispatch_and_deduplicated_dispatch_send_the_same() {
    let of = |runtime: Value| {
        let request = json!({
            "model": "qwen3-30b-a3b", "cluster": "4 x 8xH100-SXM-80GB", "seq_len": 4096,
            "recipe": {"framework": "torchtitan", "compute": "bf16", "runtime": runtime},
            "layout": {"sharding": "fsdp2", "data_parallel_shard": 32, "expert_parallel": 32},
        });
        term(&request, "expert parallel")
    };
    let plain = of(json!({}));
    let fused = of(json!({"moe_fused": true}));
    assert!(fused < 0.6 * plain, "{fused} of {plain}");
    assert_eq!(fused.to_bits(), of(json!({"moe_dispatch": "deduplicated"})).to_bits());
}

/// Gradients for the drives hide behind the last backward, however many there are before it; that one
/// also adds to the sum of those before, which takes 3 ms.
#[test]
fn gradients_on_drives_hide_behind_one_backward() {
    let of = |global_batch: u64| {
        let nvme = json!({"read_gb_s": 5, "write_gb_s": 5, "sub_group_size": 100_000_000});
        let request = json!({
            "model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 512, "global_batch": global_batch,
            "recipe": {"framework": "deepspeed", "compute": "bf16", "runtime": {"nvme": nvme}},
            "layout": {"sharding": "zero3", "data_parallel_shard": 8, "offload": ["optimizer_nvme"]},
        });
        term(&request, "offload")
    };
    let (one, four) = (of(8), of(32));
    assert!((one - four - 0.003).abs() < 0.0005, "{one} {four}");
}

/// Half of the tokens that an expert was asked for find no place with it, and are not computed.
#[test]
fn dropped_tokens_are_not_counted_as_arithmetic() {
    let of = |capacity: f64| {
        let request = serde_json::from_value(json!({
            "model": "mixtral-8x7b", "cluster": "8xH100-SXM-80GB", "seq_len": 4096, "global_batch": 8,
            "recipe": {"runtime": {"moe_capacity_factor": capacity}},
            "layout": {"sharding": "fsdp2"},
        }))
        .expect("a request");
        shardwise::estimate(&request).expect("an answer").step.model_flops.get()
    };
    // Three products a layer, each forward and twice backward, over 8 x 4096 tokens with two experts each.
    let experts = 32.0 * 3.0 * 3.0 * 2.0 * (8.0 * 4096.0 * 2.0) * 4096.0 * 14_336.0;
    assert!(((of(1.0) - of(0.5)) / (0.5 * experts) - 1.0).abs() < 1e-9);
    assert!((of(1.25) - of(1.0)).abs() < 1.0);
}
