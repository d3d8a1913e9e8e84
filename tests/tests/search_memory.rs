//! The whole space of a 405B model on 16,384 GPUs in less than 64 MB.

/// Most memory that this process ever had resident, in bytes.
#[cfg(target_os = "linux")]
fn most_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this process's status");
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).expect("a high-water mark");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a figure");
    kib * 1024
}

#[cfg(target_os = "linux")]
#[test]
fn sixteen_thousand_gpus_fit_in_64_mb() {
    let request = serde_json::json!({
        "model": "llama-3.1-405b", "cluster": "16384xH100-SXM-80GB", "seq_len": 8192, "global_batch": 2048,
        "recipe": { "kernels": "fused", "attention": "flash3", "loss": "fused_linear", "optimizer": "adamw_fused" },
        "search": { "any_framework": true, "max_candidates": 100_000_000_u64, "recompute_every": [1] },
    });
    let answer = shardwise::plan(&serde_json::from_value(request).expect("a request")).expect("an answer");
    assert!(answer.feasible && answer.brute_force > 50_000);
    let most = most_resident();
    assert!(most < 64_000_000, "{most} bytes, the program's own pages among them");
}
