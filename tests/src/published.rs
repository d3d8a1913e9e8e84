//! Turns a row of a corpus of published runs into a request. Only declared inputs are read: the
//! `inputs` object, the shape, parallel and batch fields, and the framework with its version. What
//! a row leaves open gets the default a user of that framework would get, never one that depends
//! on who published it.

use serde_json::{Map, Value, json};
use shardwise::layout::{Layout, Offload, Recompute, RecomputeModule, Schedule, Sharding};
use shardwise::workload::{
    AttentionKernel, BaseQuantization, Compute, Dtype, Framework, Kernels, LossKernel, Method, ModelSpec,
    Optimizer, Recipe, Versions,
};

/// A number under a path of keys.
pub fn number(row: &Value, path: &[&str]) -> Option<f64> {
    at(row, path)?.as_f64()
}

/// A whole number under a path of keys.
pub fn int(row: &Value, path: &[&str]) -> Option<u64> {
    at(row, path)?.as_u64()
}

/// A text under a path of keys.
pub fn text<'a>(row: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(row, path)?.as_str()
}

fn at<'a>(row: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(row, |v, k| v.get(k)).filter(|v| !v.is_null())
}

fn word<T: serde::de::DeserializeOwned>(row: &Value, key: &str) -> Result<Option<T>, String> {
    match text(row, &["inputs", key]) {
        None => Ok(None),
        Some(w) => serde_json::from_value(json!(w)).map(Some).map_err(|_| format!("{key} {w}")),
    }
}

/// The framework a row names.
pub fn framework(row: &Value) -> Framework {
    let name = text(row, &["framework"]).unwrap_or("").to_ascii_lowercase();
    let has = |w: &str| name.contains(w);
    if has("megatron-deepspeed") {
        Framework::MegatronDeepSpeed
    } else if has("megatron-lm") {
        Framework::Megatron2021
    } else if has("megatron") || has("nemo") {
        Framework::Megatron
    } else if has("torchtitan") {
        Framework::Torchtitan
    } else if has("torchtune") {
        Framework::Torchtune
    } else if has("litgpt") {
        Framework::LitGpt
    } else if has("llm foundry") || has("composer") {
        Framework::Composer
    } else if has("llm.q") || has("llm.c") {
        Framework::Native
    } else if has("deepspeed") && (sharding(row).is_ok_and(Sharding::is_zero) || full(row)) {
        // Adapters on one device are trained without the engine.
        Framework::DeepSpeed
    } else {
        Framework::Torch
    }
}

fn full(row: &Value) -> bool {
    text(row, &["inputs", "method"]).unwrap_or("full") == "full"
}

/// Releases named in the version text, as `torch==2.4.1; transformers==4.45.2`.
pub fn versions(row: &Value) -> Versions {
    let given = text(row, &["framework_version"]).unwrap_or("").to_ascii_lowercase();
    let of = |names: &[&str]| {
        names.iter().find_map(|n| {
            let rest = given.split(n).nth(1)?.trim_start_matches(['=', ' ']);
            let end = rest.find([';', ' ', ',']).unwrap_or(rest.len());
            rest[..end].starts_with(|c: char| c.is_ascii_digit()).then(|| rest[..end].to_owned())
        })
    };
    let mut versions = Versions { torch: of(&["pytorch", "torch"]), transformers: of(&["transformers"]) };
    if versions.torch.is_none()
        && matches!(framework(row), Framework::Megatron2021 | Framework::MegatronDeepSpeed)
    {
        // That code base runs on no newer PyTorch.
        versions.torch = Some("1.10".to_owned());
    }
    versions
}

fn sharding(row: &Value) -> Result<Sharding, String> {
    Ok(match text(row, &["inputs", "sharding"]) {
        Some("fsdp1_full" | "hsdp") => Sharding::FullShard,
        Some("fsdp1_grad_op") => Sharding::ShardGradOp,
        Some("fsdp2") => Sharding::Fsdp2,
        Some("ddp") => Sharding::Ddp,
        Some("zero1" | "zero1_hybrid") => Sharding::Zero1,
        // An engine's own flags that divide weights and gradients too.
        Some("zero1_plus") => Sharding::FullShard,
        Some("zero2") => Sharding::Zero2,
        Some("zero3") => Sharding::Zero3,
        Some("megatron_distopt") => Sharding::DistributedOptimizer,
        Some("none" | "engine_flags") | None => Sharding::None,
        Some(other) => return Err(format!("sharding {other}")),
    })
}

/// The model of a row, from its shape.
pub fn model(row: &Value) -> Result<ModelSpec, String> {
    let shape = row.get("model").ok_or("no model")?;
    let kind = text(shape, &["kind"]).unwrap_or("decoder");
    let need = |key: &str| int(shape, &[key]).ok_or(format!("model.{key} not stated"));
    let hidden = need("hidden")?;
    // The usual head when a source does not say: 128 elements.
    let heads = int(shape, &["heads"]).unwrap_or_else(|| hidden.div_ceil(128));
    match kind {
        "decoder" | "dense" | "moe" | "moe-decoder" | "moe-decoder (MLA)" | "decoder vlm" => {}
        "encoder" => {
            return Ok(ModelSpec(json!({
                "model_type": "bert", "hidden_size": hidden, "num_hidden_layers": need("layers")?,
                "num_attention_heads": heads, "intermediate_size": need("ffn")?, "vocab_size": need("vocab")?,
            })));
        }
        "encoder-decoder" => {
            let layers = need("layers")?;
            let per = int(shape, &["head_dim"]).unwrap_or(hidden / heads.max(1));
            return Ok(ModelSpec(json!({
                "model_type": "t5", "d_model": hidden, "num_layers": layers, "num_decoder_layers": layers,
                "num_heads": heads, "d_kv": per, "d_ff": need("ffn")?, "vocab_size": need("vocab")?,
                "feed_forward_proj": if shape.get("gated_mlp") == Some(&json!(true)) { "gated-gelu" } else { "relu" },
                "tie_word_embeddings": shape.get("tied_embeddings") != Some(&json!(false)),
            })));
        }
        other => return Err(format!("model kind {other}")),
    }
    let mut config = Map::new();
    config.insert("model_type".into(), json!("dimensions"));
    let mut set = |key: &str, value: Option<u64>| {
        if let Some(v) = value {
            config.insert(key.into(), json!(v));
        }
    };
    set("hidden", Some(hidden));
    set("layers", Some(need("layers")?));
    set("heads", Some(heads));
    set("kv_heads", int(shape, &["kv_heads"]));
    set("vocab", Some(need("vocab")?));
    set(
        "head_dim",
        int(shape, &["head_dim"]).or_else(|| (!hidden.is_multiple_of(heads)).then(|| hidden.div_ceil(heads))),
    );
    set("ffn", int(shape, &["ffn"]));
    if let Some(experts) = int(shape, &["experts"]).filter(|&n| n > 1) {
        set("experts", Some(experts));
        set("top_k", int(shape, &["top_k"]));
        set("moe_ffn", int(shape, &["moe_ffn"]).or(int(shape, &["ffn"])));
        set("shared_experts", int(shape, &["shared_experts"]));
    } else if int(shape, &["ffn"]).is_none() && shape.get("gated_mlp") != Some(&json!(false)) {
        return Err("model.ffn not stated".into());
    }
    for (key, default) in [("gated_mlp", true), ("tied_embeddings", false)] {
        config.insert(key.into(), json!(shape.get(key).and_then(Value::as_bool).unwrap_or(default)));
    }
    Ok(ModelSpec(Value::Object(config)))
}

/// The recipe of a row.
pub fn recipe(row: &Value) -> Result<Recipe, String> {
    let framework = framework(row);
    let sharding = sharding(row)?;
    let versions = versions(row);
    let method = match text(row, &["inputs", "method"]).unwrap_or("full") {
        "full" => Method::Full,
        "lora" => Method::Lora,
        "qlora" => Method::Qlora,
        "qat" => Method::Qat,
        "other" => other_method(row)?,
        other => return Err(format!("method {other}")),
    };
    let frozen = matches!(method, Method::Lora | Method::Qlora);
    let compute: Compute = word(row, "compute")?.unwrap_or(Compute::Bf16);
    let sixteen = compute.activations();
    let declared: Option<Dtype> = word(row, "params_dtype")?;
    let autocast = row.pointer("/inputs/autocast").and_then(Value::as_bool).unwrap_or(false);
    let name = text(row, &["framework"]).unwrap_or("").to_ascii_lowercase();
    let unsloth = name.contains("unsloth");
    let transformers = (framework == Framework::Torch || framework == Framework::DeepSpeed) && !unsloth;
    // Accelerate's mixed precision lifts trained parameters to fp32 and lets FSDP cast them.
    let lifted = sharding.is_fsdp() && autocast && framework == Framework::Torch;
    let params = if lifted && !frozen { Dtype::Fp32 } else { declared.unwrap_or(sixteen) };
    let details = row.get("method_details").cloned().unwrap_or(Value::Null);
    let mut recipe = Recipe {
        method,
        framework,
        versions,
        params_dtype: Some(params),
        compute,
        autocast: Some(autocast && !sharding.is_fsdp() && sixteen != Dtype::Fp32),
        kernels: match row.pointer("/inputs/compiled").and_then(Value::as_bool) {
            Some(true) => Some(Kernels::Compiled),
            _ => unsloth.then_some(Kernels::Fused),
        },
        ..Recipe::default()
    };
    let attention: Option<AttentionKernel> = word(row, "attention")?;
    recipe.attention = attention.unwrap_or(match framework {
        Framework::Megatron2021 | Framework::MegatronDeepSpeed => AttentionKernel::Eager,
        Framework::Megatron => AttentionKernel::Te,
        Framework::Native => AttentionKernel::Flash3,
        _ => AttentionKernel::Sdpa,
    });
    let loss: Option<LossKernel> = match word(row, "loss")? {
        Some(LossKernel::Fused) if framework == Framework::Native => Some(LossKernel::FusedInPlace),
        loss => loss,
    };
    recipe.loss = loss.unwrap_or(match framework {
        Framework::Megatron | Framework::Megatron2021 | Framework::MegatronDeepSpeed => {
            LossKernel::VocabParallel
        }
        Framework::LitGpt | Framework::Torchtune => LossKernel::Chunked,
        Framework::Native => LossKernel::FusedInPlace,
        _ if unsloth => LossKernel::FusedInPlace,
        _ => LossKernel::Eager,
    });
    recipe.loss_chunks = int(row, &["inputs", "loss_chunks"]);
    recipe.drop_logits = transformers;
    let optimizer: Option<Optimizer> = word(row, "optimizer")?;
    recipe.optimizer = match (framework, optimizer.unwrap_or(Optimizer::Adamw)) {
        // An engine's own kernel updates in place.
        (Framework::Native | Framework::DeepSpeed, Optimizer::Adamw) => Optimizer::AdamwFused,
        (_, optimizer) => optimizer,
    };
    recipe.optimizer_in_backward =
        row.pointer("/inputs/optimizer_in_backward").and_then(Value::as_bool).unwrap_or(false);
    if frozen {
        // fms-acceleration loads a quantised base without PEFT's preparation for k-bit training.
        adapters(&mut recipe, &details, transformers, transformers && !name.contains("fms-acceleration"))?;
        if int(&details, &["rank"]).is_none()
            && let Some(rank) = equal_rank(row, &recipe.lora.targets)
        {
            recipe.lora.rank = rank;
        }
    }
    Ok(recipe)
}

/// Methods outside the closed list that are still low-rank adapters by their details.
fn other_method(row: &Value) -> Result<Method, String> {
    let details = row.get("method_details").cloned().unwrap_or(Value::Null);
    if text(&details, &["rank"]).is_some() || int(&details, &["rank"]).is_some() {
        return Ok(if text(&details, &["quant"]).is_some() { Method::Qlora } else { Method::Lora });
    }
    // Other adapters on a frozen base, given by how many parameters they train.
    if number(&details, &["trainable_params"]).is_some() {
        return Ok(if text(&details, &["quant"]).is_some() { Method::Qlora } else { Method::Lora });
    }
    Err(format!("method {}", text(row, &["method"]).unwrap_or("other")))
}

/// The rank at which low-rank adapters on the named linears train as many parameters as the row's
/// adapters do.
fn equal_rank(row: &Value, targets: &[String]) -> Option<u64> {
    let trained = number(row, &["method_details", "trainable_params"])?;
    let shape = row.get("model")?;
    let of = |key: &str| number(shape, &[key]);
    let (h, f, layers, heads) = (of("hidden")?, of("ffn")?, of("layers")?, of("heads")?);
    let kv = of("kv_heads").unwrap_or(heads) / heads * h;
    let each: f64 = targets
        .iter()
        .map(|t| match t.as_str() {
            "q_proj" | "o_proj" => 2.0 * h,
            "k_proj" | "v_proj" => h + kv,
            "gate_proj" | "up_proj" | "down_proj" => h + f,
            _ => 4.0 * h + 2.0 * (h + kv) + 3.0 * (h + f),
        })
        .sum();
    Some((trained / (each * layers)).round().max(1.0) as u64)
}

fn adapters(recipe: &mut Recipe, details: &Value, transformers: bool, prepared: bool) -> Result<(), String> {
    recipe.lora.rank = int(details, &["rank"]).unwrap_or(8).max(1);
    let named = text(details, &["target_modules"]).unwrap_or("q_proj,v_proj");
    let (linears, saved) = named.split_once('+').unwrap_or((named, ""));
    recipe.lora.targets = linears
        .split([' ', ','])
        .filter(|t| !t.is_empty())
        .flat_map(|t| match t {
            "q" | "query" | "q_proj" => vec!["q_proj"],
            "k" | "key" | "k_proj" => vec!["k_proj"],
            "v" | "value" | "v_proj" => vec!["v_proj"],
            "o" | "o_proj" | "output_proj" | "attn.c_proj" | "out_proj" => vec!["o_proj"],
            "projection" => vec!["o_proj"],
            "c_attn" | "in_proj" => vec!["q_proj", "k_proj", "v_proj"],
            "self_attn" => vec!["q_proj", "k_proj", "v_proj", "o_proj"],
            "gate" | "w2" | "gate_proj" => vec!["gate_proj"],
            "up" | "w1" | "up_proj" => vec!["up_proj"],
            "down" | "down_proj" => vec!["down_proj"],
            "mlp" => vec!["gate_proj", "up_proj", "down_proj"],
            "head" => vec!["lm_head"],
            "all-linear" => vec!["all-linear"],
            _ => Vec::new(),
        })
        .map(str::to_owned)
        .collect();
    if saved.contains("wte") {
        recipe.lora.modules_to_save = vec!["embed_tokens".into(), "lm_head".into()];
    }
    recipe.lora.dtype = if transformers { Dtype::Fp32 } else { recipe.params() };
    if recipe.method == Method::Qlora {
        let quant = text(details, &["quant"]).unwrap_or("nf4");
        recipe.base_quantization = if quant.contains("gptq") {
            BaseQuantization::GptqInt4
        } else if quant.contains("int8") {
            BaseQuantization::Int8
        } else if quant.contains("fp4") && !quant.contains("nf4") {
            BaseQuantization::Fp4
        } else {
            BaseQuantization::Nf4
        };
        recipe.double_quantization = details.get("double_quant").and_then(Value::as_bool);
        // PEFT's own preparation for k-bit training, which the trainers call.
        recipe.kbit_preparation = prepared;
    }
    Ok(())
}

fn recompute(row: &Value) -> Result<Recompute, String> {
    Ok(match text(row, &["inputs", "recompute"]) {
        None | Some("none") => Recompute::None,
        Some("selective") => Recompute::Selective,
        Some("full") => Recompute::Full,
        Some(other) => return Err(format!("recompute {other}")),
    })
}

/// The parts of a layer that a row says are recomputed.
fn recompute_modules(row: &Value) -> Vec<RecomputeModule> {
    let stated = text(row, &["recompute"]).unwrap_or("");
    stated
        .split([',', '+', ' '])
        .filter_map(|word| match word.trim().trim_start_matches("recompute-") {
            "core_attn" => Some(RecomputeModule::CoreAttn),
            "qkv" => Some(RecomputeModule::Qkv),
            "att" | "attention" => Some(RecomputeModule::Attention),
            "norm" | "layernorm" => Some(RecomputeModule::Layernorm),
            "swiglu" | "moe_act" => Some(RecomputeModule::Activation),
            "ffn" | "mlp" | "moe" => Some(RecomputeModule::Mlp),
            _ => None,
        })
        .collect()
}

/// The layout of a row.
pub fn layout(row: &Value) -> Result<Layout, String> {
    let gpus = int(row, &["gpus"]).ok_or("gpus not stated")?;
    let degree = |key: &str| int(row, &["parallel", key]).unwrap_or(1).max(1);
    let (tp, pp, cp, ep) = (degree("tp"), degree("pp"), degree("cp"), degree("ep"));
    let inner = tp * pp * cp;
    if inner > gpus || !gpus.is_multiple_of(inner) {
        return Err("GPUs not divisible by the layout".into());
    }
    let mut sharding = sharding(row)?;
    let ranks = gpus / inner;
    if sharding == Sharding::None && ranks > 1 {
        let engine = text(row, &["framework"]).is_some_and(|f| f.contains("DeepSpeed"));
        sharding = match framework(row) {
            // Nobody runs these engines for plain data parallelism.
            _ if engine && at(row, &["inputs", "sharding"]).is_none() => Sharding::Zero1,
            Framework::Megatron => Sharding::DistributedOptimizer,
            _ => Sharding::Ddp,
        };
    }
    let replicas = int(row, &["inputs", "hsdp_replicas"]).filter(|&n| n > 1 && ranks.is_multiple_of(n));
    let (data_parallel_replicate, data_parallel_shard) = match replicas {
        Some(n) => (n, ranks / n),
        None if sharding.shards() => (1, ranks),
        None => (ranks, 1),
    };
    let chunks = int(row, &["parallel", "vpp"]).unwrap_or(1).max(1);
    let mut offload: Vec<Offload> = match row.pointer("/inputs/offload").and_then(Value::as_array) {
        None => Vec::new(),
        Some(list) => list
            .iter()
            .map(|v| serde_json::from_value(v.clone()).map_err(|_| format!("offload {v}")))
            .collect::<Result<_, _>>()?,
    };
    // Engines name what they keep on the host one by one.
    let named = text(row, &["parallel", "offload"]).unwrap_or("");
    let split = text(row, &["parallel", "zero_stage_or_fsdp"]).unwrap_or("");
    let recompute = recompute(row)?;
    let native = framework(row) == Framework::Native;
    if native {
        offload.clear();
    }
    for (stated, what) in [
        // The residual is all that a recomputed layer leaves.
        (named.contains("offload-residual") && recompute == Recompute::Full, Offload::Activation),
        (named.contains("offload-gradients"), Offload::Gradient),
        (named.contains("offload-opt"), Offload::Optimizer),
        // Weights that one device shards lie on the host; stage 3 with "cpu" moves both.
        (native && gpus == 1 && split.contains("shard-weights"), Offload::Param),
        (sharding == Sharding::Zero3 && named == "cpu", Offload::Param),
    ] {
        if stated && !offload.contains(&what) {
            offload.push(what);
        }
    }
    if row.pointer("/inputs/recompute_offload").and_then(Value::as_bool) == Some(true)
        && !offload.contains(&Offload::Activation)
    {
        offload.push(Offload::Activation);
    }
    Ok(Layout {
        sharding,
        data_parallel_replicate,
        data_parallel_shard,
        tensor_parallel: tp,
        sequence_parallel: tp > 1 && framework(row) == Framework::Megatron,
        pipeline_parallel: pp,
        pipeline_schedule: if chunks > 1 { Schedule::Interleaved } else { Schedule::OneFOneB },
        pipeline_chunks: chunks,
        context_parallel: cp,
        expert_parallel: ep,
        micro_batch: int(row, &["micro_batch"]).ok_or("micro_batch not stated")?.max(1),
        recompute,
        recompute_modules: recompute_modules(row),
        // Megatron-DeepSpeed's stage-3 scripts pass --partition-activations.
        partition_activations: framework(row) == Framework::MegatronDeepSpeed && sharding == Sharding::Zero3,
        offload,
        ..Layout::default()
    })
}
