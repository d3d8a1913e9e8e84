//! From a row to a request. What a source does not state is assumed here, by framework, never by
//! who published.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use shardwise::cluster::{Catalog, Machines};
use shardwise::workload::Batch;
use shardwise::{Cluster, ClusterSpec, Layout, Model, ModelSpec, Recipe};

use super::row::{Row, Shape};

/// A row as a request.
pub struct Asked {
    pub spec: ModelSpec,
    pub machines: ClusterSpec,
    pub model: Cow<'static, Model>,
    pub recipe: Recipe,
    pub layout: Layout,
    pub batch: Batch,
    pub cluster: Cluster,
}

/// What a framework does unasked.
struct Profile {
    framework: &'static str,
    kernels: &'static str,
    /// Attention kernel when the row does not name one, or names a family without a version.
    attention: &'static str,
    recompute: &'static str,
    loss: &'static str,
    /// Modules that get adapters.
    targets: &'static [&'static str],
    /// Traffic of sharded states runs beside compute; none is the framework's own way.
    overlap: Option<bool>,
    /// Tensor-parallel traffic runs beside the products; none is the framework's own way.
    tensor_overlap: Option<bool>,
    /// Recorded graphs, and expert tokens routed by fused kernels.
    graphs: bool,
    /// Format in which gradients are summed and reduced; none is the framework's own.
    gradients: Option<&'static str>,
}

const ALL: &[&str] = &["all-linear"];
const ATTENTION: &[&str] = &["q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj"];

const fn profile(framework: &'static str, kernels: &'static str, attention: &'static str) -> Profile {
    Profile {
        framework,
        kernels,
        attention,
        recompute: "none",
        loss: "eager",
        targets: ALL,
        overlap: None,
        tensor_overlap: None,
        graphs: false,
        gradients: None,
    }
}

/// Framework profiles by a word of the framework's name, the first that matches.
fn profile_of(row: &Row) -> Profile {
    let name = row.framework.as_deref().unwrap_or_default().to_ascii_lowercase();
    let version = row.framework_version.as_deref().unwrap_or_default();
    let has = |word: &str| name.contains(word);
    let unfused = row.inputs.attention.as_deref() == Some("eager");
    if has("hf ") || has("transformers") {
        // Transformers with unfused attention came with an engine that did not prefetch yet.
        let framework = if has("deepspeed") { "deepspeed" } else { "torch" };
        return Profile { overlap: unfused.then_some(false), ..profile(framework, "eager", "sdpa") };
    }
    if has("megatron-bridge") || has("nemo") {
        // Transformer Engine's own attention kernels came in mid-2024.
        let attention = if version.starts_with("24.03") { "flash2" } else { "te" };
        // Releases from mid-2026 record graphs and route expert tokens by fused kernels.
        let graphs = release(version) >= (26, 6);
        // Their performance recipes switch fp32 gradients off (`grad_reduce_in_fp32`).
        let gradients = Some("bf16");
        return Profile { targets: ATTENTION, graphs, gradients, ..profile("megatron", "fused", attention) };
    }
    if has("neox") {
        // Its published configs checkpoint every layer.
        return Profile { recompute: "full", ..profile("megatron_deepspeed", "fused", "eager") };
    }
    if has("megatron") {
        let framework = match (unfused, has("deepspeed")) {
            (true, true) => "megatron_deepspeed",
            (true, false) => "megatron_2021",
            (false, _) => "megatron",
        };
        return profile(framework, "fused", if unfused { "eager" } else { "flash2" });
    }
    if has("composer") || has("foundry") {
        // Its "flash" was the Triton kernel with ALiBi.
        return profile("composer", "eager", "flash1");
    }
    if has("unsloth") {
        return Profile { recompute: "full", loss: "fused_linear", ..profile("torch", "fused", "flash2") };
    }
    if has("llama-factory") {
        return Profile { recompute: "full", ..profile("torch", "eager", "flash2") };
    }
    if has("torchtune") {
        return Profile { recompute: "full", ..profile("torchtune", "eager", "sdpa") };
    }
    if has("torchtitan") {
        return Profile { recompute: "selective", ..profile("torchtitan", "compiled", "sdpa") };
    }
    if has("litgpt") {
        return profile("litgpt", "eager", "sdpa");
    }
    if has("flash-attention") || has("tinyllama") {
        return Profile { loss: "fused", ..profile("torch", "fused", "flash2") };
    }
    if has("llm.c") || has("llm.q") {
        return profile("native", "fused", "te");
    }
    if has("internal") {
        return profile("megatron", "fused", "flash2");
    }
    if ["neuron", "jax", "maxtext", "levanter", "pax", "t5x", "haiku", "xla"].iter().any(|w| has(w)) {
        return profile("jax", "compiled", "flash2");
    }
    if has("deepspeed") {
        return profile("deepspeed", "eager", "sdpa");
    }
    let p = &row.parallel;
    if p.tp.unwrap_or(1) > 1 || p.pp.unwrap_or(1) > 1 {
        // Whoever cuts tensors or layers runs an engine of Megatron's kind.
        return Profile { tensor_overlap: Some(false), ..profile("megatron", "fused", "flash2") };
    }
    if ["axolotl", "swift", "trl", "xtuner"].iter().any(|w| has(w)) {
        return Profile { recompute: "full", ..profile("torch", "eager", "flash2") };
    }
    profile("torch", "eager", "sdpa")
}

/// Year and month of a release numbered by them: `26.04.01` is (26, 4).
fn release(version: &str) -> (u64, u64) {
    let mut parts = version.split('.').map_while(|p| p.parse().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// The request of a row, or why there is none.
pub fn of(row: &Row) -> Result<Asked, String> {
    let profile = profile_of(row);
    let inputs = &row.inputs;
    let gpus = row.gpus.ok_or("GPU count missing")?;
    let (spec, model) = model(&row.model)?;
    let (machines, cluster) = cluster(row, gpus)?;
    let recipe = recipe(row, &profile, &cluster)?;
    let degree = |x: Option<u64>| x.unwrap_or(1).max(1);
    let p = &row.parallel;
    let (tp, pp, cp) = (degree(p.tp), degree(p.pp), degree(p.cp));
    let model_ranks = tp * pp * cp;
    if gpus % model_ranks != 0 {
        return Err("GPU count not divisible by the layout".into());
    }
    let dp = gpus / model_ranks;
    let seq_len = row.model.seq_len.ok_or("sequence length missing")?;
    let (micro_batch, global_batch) = batch(row, dp, pp, seq_len);
    if global_batch < dp {
        return Err("global batch below the data-parallel degree".into());
    }
    let sharding = match inputs.sharding.as_deref() {
        Some("hsdp") => "HYBRID_SHARD",
        Some("zero1_hybrid" | "zero1_plus" | "engine_flags") => "zero1",
        Some("other") | None if profile.framework == "megatron" => "distributed_optimizer",
        Some("other") | None if profile.framework == "megatron_deepspeed" => "zero1",
        // Unsaid, states are sharded where a whole copy (16 bytes a parameter) does not fit.
        Some("other") | None if copy_bytes(&model, &recipe, model_ranks) > cluster.memory.get() => "fsdp2",
        Some("other") | None => "ddp",
        Some(other) => other,
    };
    let replicas = if inputs.sharding.as_deref() == Some("hsdp") {
        inputs.hsdp_replicas.unwrap_or_else(|| dp / u64::from(cluster.domain).clamp(1, dp))
    } else {
        1
    };
    let replicated = matches!(sharding, "none" | "ddp");
    let recompute = match inputs.recompute.as_deref() {
        None => profile.recompute,
        Some("other") => "full",
        Some(r) => r,
    };
    let chunks = degree(p.vpp);
    let sequence_parallel = p.sp.as_bool().or(p.sp.as_u64().map(|n| n > 1));
    let layout = json!({
        "sharding": sharding,
        "data_parallel_replicate": if replicated { dp } else { replicas.max(1) },
        "data_parallel_shard": if replicated { 1 } else { dp / replicas.max(1) },
        "tensor_parallel": tp,
        "sequence_parallel": tp > 1 && sequence_parallel.unwrap_or(profile.framework == "megatron"),
        "pipeline_parallel": pp,
        "pipeline_schedule": if chunks > 1 && pp > 1 { "interleaved_1f1b" } else { "1f1b" },
        "pipeline_chunks": if pp > 1 { chunks } else { 1 },
        "context_parallel": cp,
        "expert_parallel": degree(p.ep).min(gpus / pp),
        "micro_batch": micro_batch,
        "recompute": recompute,
        "offload": inputs.offload,
    });
    let layout: Layout = serde_json::from_value(layout).map_err(|e| format!("layout: {e}"))?;
    Ok(Asked { spec, machines, model, recipe, layout, batch: Batch { seq_len, global_batch }, cluster })
}

/// Bytes of one copy of the model states on the ranks that share a model.
fn copy_bytes(model: &Model, recipe: &Recipe, model_ranks: u64) -> f64 {
    let per_parameter = if recipe.frozen_base() { 2.0 } else { 16.0 };
    per_parameter * model.counts().total as f64 / model_ranks as f64
}

fn recipe(row: &Row, profile: &Profile, cluster: &Cluster) -> Result<Recipe, String> {
    let inputs = &row.inputs;
    // Unstated, training runs in bf16 where the part has it.
    let usual = if cluster.peaks.bf16.is_some() { "bf16" } else { "fp16" };
    let compute = inputs.compute.as_deref().unwrap_or(usual);
    let attention = match inputs.attention.as_deref() {
        None | Some("flash" | "other") => profile.attention,
        Some(named) => named,
    };
    let compiled = inputs.compiled == Some(true);
    let mut r = json!({
        "framework": profile.framework,
        "kernels": if compiled { "compiled" } else { profile.kernels },
        "compute": compute,
        "attention": attention,
        "loss": inputs.loss.as_deref().unwrap_or(profile.loss),
        "optimizer_in_backward": inputs.optimizer_in_backward,
        "runtime": {
            "data_overlap": profile.overlap,
            // Kernels that interleave traffic with products are NVIDIA's.
            "tensor_overlap": if cluster.vendor == "NVIDIA" { profile.tensor_overlap } else { Some(false) },
            "cuda_graphs": profile.graphs,
            "moe_fused": profile.graphs,
        },
    });
    let method = match inputs.method.as_deref() {
        None => "full",
        Some(m @ ("full" | "lora" | "qlora" | "qat")) => m,
        Some(other) => return Err(format!("method {other}")),
    };
    r["method"] = json!(method);
    if method == "lora" || method == "qlora" {
        let finetune = row.finetune.as_ref();
        let all = finetune.and_then(|f| f.modules.as_deref()) == Some("all");
        r["lora"] = json!({
            "rank": finetune.and_then(|f| f.rank).unwrap_or(16),
            "targets": if all { ALL } else { profile.targets },
        });
    }
    if let Some(dtype) = profile.gradients {
        r["reduce_dtype"] = json!(dtype);
    }
    if let Some(dtype) = &inputs.params_dtype {
        r["params_dtype"] = json!(dtype);
    }
    if let Some(optimizer) = &inputs.optimizer {
        r["optimizer"] = json!(optimizer);
    }
    if let Some(chunks) = inputs.loss_chunks {
        r["loss_chunks"] = json!(chunks);
    }
    serde_json::from_value(r).map_err(|e| format!("recipe: {e}"))
}

/// Micro-batch and global batch in sequences.
fn batch(row: &Row, dp: u64, pp: u64, seq_len: u64) -> (u64, u64) {
    let global = row
        .global_batch_seqs
        .or(row.global_batch_tokens.map(|t| (t / seq_len as f64).round()))
        .or(row.micro_batch.map(|m| m * dp as f64 * row.grad_accum.unwrap_or(1.0)));
    // A rank keeps about 16k tokens at work when nobody says otherwise.
    let fits = (16_384 / seq_len).max(1);
    let micro = row.micro_batch.map(|m| m as u64).or_else(|| {
        let per_rank = global? as u64 / dp;
        row.grad_accum.map(|a| per_rank / a.max(1.0) as u64).or(Some(per_rank.min(fits)))
    });
    let micro = micro.unwrap_or(1).max(1);
    // A pipeline without a stated batch is filled four times over.
    let filled = micro * dp * if pp > 1 { 4 * pp } else { 1 };
    (micro, global.map_or(filled, |g| g as u64))
}

/// A preset when the name finds one of the same shape, else the dimensions.
fn model(shape: &Shape) -> Result<(ModelSpec, Cow<'static, Model>), String> {
    let preset = ModelSpec::from(shape.name.as_str());
    if let Ok(model) = preset.resolve("model") {
        let same = Some(model.layers()) == shape.layers && Some(model.hidden) == shape.hidden;
        if same {
            return Ok((preset, model));
        }
    }
    let mut m = Map::new();
    let mut put = |key: &str, value: Option<u64>| {
        if let Some(value) = value {
            m.insert(key.into(), json!(value));
        }
    };
    put("layers", shape.layers);
    put("hidden", shape.hidden);
    put("heads", shape.heads);
    put("kv_heads", shape.kv_heads);
    put("head_dim", shape.head_dim);
    put("ffn", shape.ffn);
    put("vocab", shape.vocab);
    put("experts", shape.experts);
    put("top_k", shape.top_k);
    put("moe_ffn", shape.moe_ffn);
    put("shared_experts", shape.shared_experts.filter(|&n| n > 0));
    m.insert("model_type".into(), json!("dimensions"));
    m.insert("gated_mlp".into(), json!(shape.gated_mlp.unwrap_or(true)));
    m.insert("tied_embeddings".into(), json!(shape.tied_embeddings.unwrap_or(false)));
    let spec = ModelSpec(Value::Object(m));
    let model = spec.resolve("model").map_err(|e| format!("model: {e}"))?;
    Ok((spec, model))
}

fn cluster(row: &Row, gpus: u64) -> Result<(ClusterSpec, Cluster), String> {
    let catalog = Catalog::embedded();
    let asked = row.inputs.accelerator.as_deref();
    // The row's own words where the catalogue knows them: a board may be named there more exactly.
    let own = row.gpu.as_deref().and_then(|name| catalog.accelerator(name).ok());
    let part = match asked {
        None => own.ok_or("accelerator missing")?,
        Some(id) => {
            let part = catalog.accelerator(id).map_err(|e| format!("cluster: {e}"))?;
            own.filter(|own| own.memory_gb == part.memory_gb && own.form == part.form).unwrap_or(part)
        }
    };
    let accelerator = part.id.as_str();
    let mut m = json!({ "accelerator": accelerator });
    let usual = part.platform.as_deref().and_then(|p| catalog.platform(p)).map_or(8, |p| p.gpus_per_node);
    let usual = u64::from(usual);
    // Some count the devices that a framework sees in each part.
    let devices = u64::from(part.devices.unwrap_or(1).max(1));
    let per_node = row.gpus_per_node.unwrap_or(usual).min(gpus);
    let counts_devices = devices > 1 && (per_node > usual || row.gpus_per_node.is_none());
    let parts = if counts_devices { per_node.div_ceil(devices) } else { per_node };
    m["gpus_per_node"] = json!(parts);
    m["nodes"] = json!(gpus.div_ceil(per_node));
    if let Some(network) = row.interconnect_inter.as_deref().and_then(|text| network(text, per_node)) {
        m["networks"] = json!([network]);
    }
    let link =
        row.interconnect_intra.as_deref().and_then(|text| link(text, part.name.starts_with("GeForce")));
    if let Some(link) = link {
        m["link"] = json!(link);
    }
    let machines: Machines = serde_json::from_value(m).map_err(|e| format!("cluster: {e}"))?;
    let spec = ClusterSpec::Full(Box::new(machines));
    let (cluster, _) = spec.resolve(Catalog::embedded()).map_err(|e| format!("cluster: {e}"))?;
    Ok((spec, cluster))
}

/// The link a row names, when it is not the accelerator's own. Drivers of consumer boards do not
/// let them read each other's memory.
fn link(text: &str, consumer: bool) -> Option<&'static str> {
    if !text.starts_with("PCIe") {
        return None;
    }
    let old = text.contains("old") || text.contains("3.0");
    Some(match (consumer, old) {
        (true, true) => "pcie3-p2p-off",
        (true, false) => "pcie4-p2p-off",
        (false, true) => "pcie3x16",
        (false, false) => "pcie4x16",
    })
}

/// The network a row names: its kind by a word, its rate of a node by the number before `Gb`, times
/// the cards before that (`4x 200 Gb/s`) or the accelerators that each have it. A kind without a
/// rate says no more than the platform's usual one.
fn network(text: &str, per_node: u64) -> Option<Value> {
    let lower = text.to_ascii_lowercase();
    let has = |w: &str| lower.contains(w);
    let kind = if has("omni-path") {
        "opa-100"
    } else if has("roce") {
        "roce-200"
    } else if has("efa") {
        "efa-v1"
    } else if has("infiniband") || has("hdr") || has("ndr") || has("slingshot") {
        "ib-hdr"
    } else if has("ethernet") || has("tcp") {
        "eth-100-tcp"
    } else {
        return None;
    };
    let before = |text: &str| -> Option<(f64, usize)> {
        let end = text.trim_end();
        let digits = end.chars().rev().take_while(char::is_ascii_digit).count();
        let at = end.len() - digits;
        end[at..].parse().ok().map(|n| (n, at))
    };
    let Some((rate, at)) = lower.find("gb").and_then(|at| before(&lower[..at])) else {
        return (kind == "opa-100").then(|| json!({ "link": kind, "node_gb_s": 50.0 }));
    };
    let cards = lower[..at].trim_end().strip_suffix('x').and_then(before).map_or(1.0, |(n, _)| n);
    let each = if has("per gpu") { per_node as f64 } else { cards };
    Some(json!({ "link": kind, "node_gb_s": rate * each / 8.0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_by_node() {
        let rate = |text| network(text, 8).map(|n| n["node_gb_s"].as_f64());
        assert_eq!(rate("1600 Gbps RoCE"), Some(Some(200.0)));
        assert_eq!(rate("RoCE 400 Gb/s per GPU"), Some(Some(400.0)));
        assert_eq!(rate("4x 200 Gb/s RoCE per node"), Some(Some(100.0)));
        assert_eq!(rate("400 Gb/s per node (4x Omni-Path 100)"), Some(Some(50.0)));
        assert_eq!(rate("Omni-Path, 4 links/node"), Some(Some(50.0)));
        assert_eq!(rate("HDR InfiniBand"), None);
        assert_eq!(rate("unknown"), None);
    }
}
