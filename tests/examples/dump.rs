use serde_json::json;
use shardwise::step;
fn main() {
    let file = std::env::args().nth(1).unwrap();
    for (row, asked, m) in shardwise_tests::throughput::requests(std::path::Path::new(&file)).unwrap() {
        let r = step::estimate(&asked.model, &asked.recipe, &asked.layout, &asked.batch, &asked.cluster);

        let t: serde_json::Map<String, serde_json::Value> = r
            .time
            .0
            .iter()
            .map(|t| (t.name.to_string(), json!((t.amount.get() / m * 1000.0).round() / 10.0)))
            .collect();
        println!(
            "{}",
            json!({"id": row.id, "pub": row.source_family, "kind": row.model.kind, "model": row.model.name, "acc": row.inputs.accelerator, "gpus": row.gpus, "fw": row.framework, "ver": row.framework_version, "comp": row.inputs.compute, "meas": m, "err": (r.total().get()/m-1.0)*100.0, "terms": t,
          "dp": asked.layout.data_parallel(), "tp": asked.layout.tensor_parallel, "pp": asked.layout.pipeline_parallel, "vpp": asked.layout.pipeline_chunks, "cp": asked.layout.context_parallel, "ep": asked.layout.expert_parallel, "mb": asked.layout.micro_batch, "gbs": asked.batch.global_batch, "seq": asked.batch.seq_len, "sh": asked.layout.sharding.name(), "rc": asked.layout.recompute.name(), "att": asked.recipe.attention.name(), "method": asked.recipe.method.name(), "kern": asked.recipe.kernels.name()})
        );
    }
}
