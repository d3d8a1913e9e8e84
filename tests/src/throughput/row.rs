//! A row of the corpus: the fields a request may be made from, and the measured speed.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct Row {
    pub id: String,
    pub source_id: String,
    pub source_family: String,
    #[serde(default)]
    pub gpu: Option<String>,
    pub gpus: Option<u64>,
    pub gpus_per_node: Option<u64>,
    #[serde(default)]
    pub interconnect_intra: Option<String>,
    #[serde(default)]
    pub interconnect_inter: Option<String>,
    #[serde(default)]
    pub framework: Option<String>,
    #[serde(default)]
    pub framework_version: Option<String>,
    pub model: Shape,
    pub parallel: Parallel,
    pub micro_batch: Option<f64>,
    pub grad_accum: Option<f64>,
    pub global_batch_seqs: Option<f64>,
    pub global_batch_tokens: Option<f64>,
    #[serde(default)]
    pub finetune: Option<Finetune>,
    pub measured: Measured,
    #[serde(default)]
    pub derived: Derived,
    pub check: Check,
    pub inputs: Inputs,
}

#[derive(Debug, Deserialize)]
pub struct Shape {
    pub name: String,
    pub kind: String,
    pub layers: Option<u64>,
    pub hidden: Option<u64>,
    pub heads: Option<u64>,
    pub kv_heads: Option<u64>,
    #[serde(default)]
    pub head_dim: Option<u64>,
    pub ffn: Option<u64>,
    pub vocab: Option<u64>,
    pub seq_len: Option<u64>,
    pub tied_embeddings: Option<bool>,
    pub gated_mlp: Option<bool>,
    pub experts: Option<u64>,
    pub top_k: Option<u64>,
    pub moe_ffn: Option<u64>,
    pub shared_experts: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct Parallel {
    pub tp: Option<u64>,
    pub pp: Option<u64>,
    pub cp: Option<u64>,
    pub ep: Option<u64>,
    pub vpp: Option<u64>,
    #[serde(default)]
    pub sp: serde_json::Value,
}

#[derive(Debug, Deserialize)]
pub struct Finetune {
    #[serde(default)]
    pub rank: Option<u64>,
    #[serde(default)]
    pub modules: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Measured {
    pub tflops_per_gpu: Option<f64>,
    pub tokens_per_s: Option<f64>,
    pub tokens_per_s_per_gpu: Option<f64>,
    pub step_time_s: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
pub struct Derived {
    pub tokens_per_s: Option<Number>,
    pub tokens_per_s_per_gpu: Option<Number>,
    pub step_time_s: Option<Number>,
}

#[derive(Debug, Deserialize)]
pub struct Number {
    pub value: f64,
}

#[derive(Debug, Deserialize)]
pub struct Check {
    pub complete_inputs: Option<bool>,
    #[serde(default)]
    pub flag: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Inputs {
    pub accelerator: Option<String>,
    pub sharding: Option<String>,
    pub hsdp_replicas: Option<u64>,
    #[serde(default)]
    pub offload: Vec<String>,
    pub method: Option<String>,
    pub compute: Option<String>,
    pub params_dtype: Option<String>,
    pub recompute: Option<String>,
    pub attention: Option<String>,
    pub loss: Option<String>,
    pub loss_chunks: Option<u64>,
    pub optimizer: Option<String>,
    #[serde(default)]
    pub optimizer_in_backward: bool,
    pub compiled: Option<bool>,
}

impl Row {
    /// Measured seconds of a step of `tokens` tokens: as published, else from a published rate,
    /// else from what was derived of other published figures.
    pub fn step_seconds(&self, tokens: u64) -> Option<f64> {
        let tokens = tokens as f64;
        let gpus = self.gpus? as f64;
        let m = &self.measured;
        let d = &self.derived;
        let value = |n: &Option<Number>| n.as_ref().map(|n| n.value);
        m.tokens_per_s
            .map(|rate| tokens / rate)
            .or(m.tokens_per_s_per_gpu.map(|rate| tokens / (rate * gpus)))
            .or(m.step_time_s)
            .or(value(&d.tokens_per_s).map(|rate| tokens / rate))
            .or(value(&d.tokens_per_s_per_gpu).map(|rate| tokens / (rate * gpus)))
            .or(value(&d.step_time_s))
            .filter(|s| s.is_finite() && *s > 0.0)
    }
}
