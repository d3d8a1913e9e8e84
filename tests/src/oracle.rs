//! `accuracy oracle`: peak memory against training steps traced on real PyTorch.
//!
//! The file has the columns of `tests/data/corpus/oracle_memory.csv`; the model of a row is found as
//! for parameter tables. The predicted allocator peak is compared with `peak_step_requested`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use shardwise::layout::{Layout, Recompute, Reshard, Sharding, Wrap};
use shardwise::memory;
use shardwise::workload::{
    AttentionKernel, Batch, Compute, Dtype, Framework, Lora, LossKernel, Method, ModelSpec, Optimizer, Recipe,
};

use crate::memory::opened;
use crate::params::model_beside;
use crate::score::{Score, Scored};

/// A row as a map from column to text.
pub type Row = BTreeMap<String, String>;

/// Reads a CSV file into rows.
pub fn rows(file: &Path) -> Result<Vec<Row>, String> {
    let mut reader = csv::Reader::from_path(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let headers = reader.headers().map_err(|e| e.to_string())?.clone();
    reader
        .records()
        .map(|r| {
            let r = r.map_err(|e| e.to_string())?;
            Ok(headers.iter().zip(r.iter()).map(|(h, v)| (h.to_owned(), v.to_owned())).collect())
        })
        .collect()
}

/// The text of a column; empty when there is none.
pub fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).map_or("", String::as_str)
}

/// A whole number, or a default when the column is empty or missing.
pub fn int(row: &Row, column: &str, default: u64) -> u64 {
    text(row, column).parse().unwrap_or(default)
}

fn yes(row: &Row, column: &str) -> bool {
    matches!(text(row, column), "True" | "true" | "1")
}

fn dtype(text: &str) -> Option<Dtype> {
    serde_json::from_value(Value::String(text.to_owned())).ok()
}

/// The model of a row, with the overrides of its `over` column.
pub fn model_of(file: &Path, row: &Row) -> Result<ModelSpec, String> {
    let name = text(row, "model");
    let spec = model_beside(file, name)?;
    let over = text(row, "over");
    if over.is_empty() || over == "{}" {
        return Ok(spec);
    }
    let over: Value = serde_json::from_str(
        &over.replace('\'', "\"").replace("True", "true").replace("False", "false").replace("None", "null"),
    )
    .map_err(|e| format!("over: {e}"))?;
    let mut config = match spec.0 {
        Value::Object(map) => map,
        Value::String(name) => shardwise::workload::preset_config(&name).ok_or("no such preset")?,
        _ => return Err("model".into()),
    };
    if let Value::Object(over) = over {
        config.extend(over);
    }
    Ok(ModelSpec(Value::Object(config)))
}

/// A row of the table of DeepSpeed runs, which has a column for the stage.
fn express_deepspeed(row: &Row) -> Result<(Recipe, Layout, Batch), String> {
    let defaults = [
        ("offload_opt", "none"),
        ("grad_accum_dtype", ""),
        ("s3_live", "1000000000"),
        ("s3_prefetch", "50000000"),
        ("s3_persist", "100000"),
    ];
    for (column, default) in defaults {
        if text(row, column) != default {
            return Err(format!("DeepSpeed's {column} other than {default:?}"));
        }
    }
    let stage = int(row, "stage", 0);
    if stage == 3 && int(row, "bucket", 0) != 500_000_000 {
        return Err("DeepSpeed's bucket size other than the default".into());
    }
    let world = int(row, "world", 1);
    let (sharding, replicate, shard) = match stage {
        0 => (Sharding::Ddp, world, 1),
        1 => (Sharding::Zero1, 1, world),
        2 => (Sharding::Zero2, 1, world),
        _ => (Sharding::Zero3, 1, world),
    };
    let rank = int(row, "lora", 0);
    let recipe = Recipe {
        framework: Framework::DeepSpeed,
        method: if rank > 0 { Method::Lora } else { Method::Full },
        // The engine casts adapters with all else.
        lora: Lora {
            rank: rank.max(1),
            targets: vec!["all-linear".to_owned()],
            dtype: Dtype::Bf16,
            ..Lora::default()
        },
        params_dtype: Some(Dtype::Bf16),
        compute: Compute::Bf16,
        // The script asks for the loss only.
        drop_logits: true,
        ..Recipe::default()
    };
    let layout = Layout {
        sharding,
        data_parallel_replicate: replicate,
        data_parallel_shard: shard,
        micro_batch: int(row, "mb", 1),
        recompute: if text(row, "ckpt") == "none" { Recompute::None } else { Recompute::Full },
        ..Layout::default()
    };
    let batch = Batch {
        seq_len: int(row, "seq", 1),
        global_batch: layout.data_parallel() * layout.micro_batch * int(row, "ga", 1),
    };
    Ok((recipe, layout, batch))
}

/// Recipe and layout of a row, or why the plan language cannot express it.
pub fn express(row: &Row) -> Result<(Recipe, Layout, Batch), String> {
    if row.contains_key("stage") {
        return express_deepspeed(row);
    }
    let world = int(row, "world", 1);
    let mixed = text(row, "mp_param");
    let params = dtype(text(row, "param_dtype")).ok_or("param_dtype")?;
    let autocast = !text(row, "autocast").is_empty();
    let compute = if autocast {
        text(row, "autocast")
    } else if mixed.is_empty() {
        params.name()
    } else {
        mixed
    };
    let compute: Compute =
        serde_json::from_value(Value::String(compute.to_owned())).map_err(|e| e.to_string())?;
    let lora_rank = int(row, "lora_r", 0);
    let quantised = text(row, "quant");
    let method = match (lora_rank, quantised) {
        (0, "") => Method::Full,
        (_, "") => Method::Lora,
        (_, "nf4") => Method::Qlora,
        (_, other) => return Err(format!("quant {other}")),
    };
    let targets: &[&str] = match text(row, "lora_targets") {
        "qv" => &["q_proj", "v_proj"],
        "qkvo" => &["q_proj", "k_proj", "v_proj", "o_proj"],
        _ => &["all-linear"],
    };
    let optimizer = match text(row, "opt") {
        "adamw_foreach" | "adamw_default" | "" => Optimizer::Adamw,
        "adamw_fused" => Optimizer::AdamwFused,
        "adamw_loop" => Optimizer::AdamwLoop,
        "sgd" => Optimizer::Sgd,
        "sgdm" => Optimizer::SgdMomentum,
        "adafactor" => Optimizer::Adafactor,
        "muon" => Optimizer::Muon,
        "bnb_AdamW8bit" | "ao_adamw8bit" => Optimizer::Adamw8bit,
        "bnb_PagedAdamW8bit" => Optimizer::PagedAdamw8bit,
        other => return Err(format!("optimizer {other}")),
    };
    let attention = match (text(row, "attn"), text(row, "sdpa_backend")) {
        ("eager", _) => AttentionKernel::Eager,
        (_, "MATH") => AttentionKernel::Math,
        (_, "EFFICIENT_ATTENTION") => AttentionKernel::Efficient,
        _ => AttentionKernel::Sdpa,
    };
    let recompute = match text(row, "ckpt") {
        "none" => Recompute::None,
        "selective" => Recompute::Selective,
        _ => Recompute::Full,
    };
    let recipe = Recipe {
        method,
        lora: Lora {
            rank: lora_rank.max(1),
            targets: targets.iter().map(|&t| t.to_owned()).collect(),
            dtype: dtype(text(row, "lora_dtype")).unwrap_or(Dtype::Fp32),
            ..Lora::default()
        },
        params_dtype: Some(params),
        compute,
        autocast: Some(autocast),
        reduce_dtype: dtype(text(row, "mp_reduce")),
        attention,
        loss: LossKernel::Eager,
        drop_logits: text(row, "keep_logits") == "False",
        optimizer,
        padding_mask: yes(row, "pad_mask"),
        keep_gradients: text(row, "zero_grad_none") == "False",
        // The policy of its "op" is what such a row was traced with.
        framework: if recompute == Recompute::Selective {
            Framework::Torchtitan
        } else {
            Framework::default()
        },
        ..Recipe::default()
    };
    let hybrid = int(row, "hybrid", 0);
    let (sharding, replicate, shard, tensor) = match text(row, "dist") {
        "none" | "" => (Sharding::None, 1, 1, 1),
        "ddp" => (Sharding::Ddp, world, 1, 1),
        "fsdp2" if hybrid > 0 => (Sharding::Fsdp2, world / hybrid, hybrid, 1),
        "fsdp2" => (Sharding::Fsdp2, 1, world, 1),
        "fsdp1" => {
            let strategy: Sharding =
                serde_json::from_value(Value::String(text(row, "fsdp1_strategy").to_owned()))
                    .map_err(|e| e.to_string())?;
            match strategy {
                Sharding::NoShard => (strategy, world, 1, 1),
                Sharding::HybridShard | Sharding::HybridShardZero2 if hybrid > 0 => {
                    (strategy, world / hybrid, hybrid, 1)
                }
                _ => (strategy, 1, world, 1),
            }
        }
        "tp" => (Sharding::None, 1, 1, world),
        other => return Err(format!("dist {other}")),
    };
    if yes(row, "offload") && sharding != Sharding::Fsdp2 {
        return Err("offload without FSDP2".into());
    }
    if sharding.is_fsdp() && sharding != Sharding::Fsdp2 && method != Method::Full {
        // A flat parameter has one gradient, so PEFT wraps what is trained by itself; so do we.
        return Err("FSDP1 units that mix frozen and trained parameters".into());
    }
    let (reshard_after_forward, reshard_within) = match text(row, "raf") {
        "default" | "" => (Reshard::Default, 8),
        "true" => (Reshard::Always, 8),
        "false" => (Reshard::Never, 8),
        ranks => (Reshard::Node, ranks.parse().map_err(|_| format!("raf {ranks}"))?),
    };
    let layout = Layout {
        sharding,
        data_parallel_replicate: replicate,
        data_parallel_shard: shard,
        tensor_parallel: tensor,
        micro_batch: int(row, "mb", 1),
        recompute,
        offload: if yes(row, "offload") {
            vec![
                shardwise::layout::Offload::Param,
                shardwise::layout::Offload::Gradient,
                shardwise::layout::Offload::Optimizer,
            ]
        } else {
            Vec::new()
        },
        reshard_after_forward,
        reshard_within,
        wrap: match text(row, "wrap") {
            "" => Wrap::Layers,
            named => serde_json::from_value(named.into()).map_err(|_| format!("wrap {named}"))?,
        },
        // The traced plan splits attention and feed-forward only.
        vocab_parallel: false,
        gradient_as_bucket_view: yes(row, "ddp_view"),
        ..Layout::default()
    };
    let batch = Batch {
        seq_len: int(row, "seq", 1),
        global_batch: layout.data_parallel() * layout.micro_batch * int(row, "ga", 1),
    };
    Ok((recipe, layout, batch))
}

/// What is predicted for one row, opened, beside what was traced.
pub fn explain(file: &Path, id: &str) -> Result<String, String> {
    let rows = rows(file)?;
    let row = rows.iter().find(|r| text(r, "id") == id).ok_or("no such row")?;
    let model = model_of(file, row)?.resolve("model").map_err(|e| format!("{}: {}", e.field, e.given))?;
    let (recipe, layout, batch) = express(row)?;
    let report = memory::estimate(&model, &recipe, &layout, &batch);
    Ok(format!("{row:?}\n{}", opened(&report)))
}

/// Scores every row.
pub fn score(file: &Path) -> Result<Score, String> {
    let mut out = Score::default();
    for row in rows(file)? {
        out.rows += 1;
        if !text(&row, "error").is_empty() {
            out.skip("the traced run failed");
            continue;
        }
        let Ok(measured) = text(&row, "peak_step_requested").parse::<f64>() else {
            out.skip("no peak_step_requested");
            continue;
        };
        out.complete += 1;
        let expressed = model_of(file, &row)
            .and_then(|spec| spec.resolve("model").map_err(|e| format!("{}: {}", e.field, e.given)))
            .and_then(|model| Ok((model, express(&row)?)));
        let (model, (recipe, layout, batch)) = match expressed {
            Ok(x) => x,
            Err(reason) => {
                out.skip(reason);
                continue;
            }
        };
        let report = memory::estimate(&model, &recipe, &layout, &batch);
        let name = |c: &str| text(&row, c).to_owned();
        out.scored.push(Scored {
            id: format!(
                "{} {} {} {}{} ckpt={} {} mb={} s={} ga={} {} w={} raf={} mp={}/{} lora={}{}{} {} phase={}/{}",
                name("id"), name("model"), name("attn"), name("param_dtype"), if name("autocast").is_empty() { "" } else { "+ac" },
                name("ckpt"), name("opt"), name("mb"), name("seq"), name("ga"), name("dist"), name("world"), name("raf"),
                name("mp_param"), name("mp_reduce"), name("lora_r"), name("lora_targets"), name("lora_dtype"), name("quant"),
                name("peak_phase"), report.phases.get(report.peak).map_or("", |p| &p.name),
            ),
            publisher: format!("{} {}", name("family"), name("dist")),
            predicted: report.allocated.get(),
            measured,
            interval80: None,
        });
    }
    Ok(out)
}
