//! What a plan may choose beside the layout: machines and their number, optimizer, number format and
//! batch.

use super::estimate::{check_model, resolve_cluster};
use super::request::PlanRequest;
use crate::assumption::Assumption;
use crate::cluster::{Catalog, Cluster, ClusterSpec};
use crate::error::{Error, ErrorCode, Result, entry};
use crate::layout::Layout;
use crate::workload::{Batch, Model, Recipe};

/// Combinations of machines, recipes and batches, at most.
const MOST: usize = 2048;

/// Every choice of each kind; the request's own is the first.
pub(super) struct Open {
    pub(super) machines: Vec<(Cluster, Vec<Assumption>)>,
    pub(super) recipes: Vec<Recipe>,
    pub(super) batches: Vec<Batch>,
}

impl Open {
    pub(super) fn new(request: &PlanRequest, model: &Model) -> Result<Self> {
        let open = Self {
            machines: machines(request)?,
            recipes: recipes(request, model)?,
            batches: batches(request),
        };
        few(open.machines.len() * open.recipes.len() * open.batches.len(), MOST)?;
        Ok(open)
    }
}

/// So many combinations at most.
fn few(combinations: usize, most: usize) -> Result<()> {
    if combinations <= most {
        return Ok(());
    }
    let allowed = format!("at most {MOST} combinations of machines, recipes and batches");
    Err(Error::new("search", ErrorCode::OutOfRange, combinations, allowed))
}

fn machines(request: &PlanRequest) -> Result<Vec<(Cluster, Vec<Assumption>)>> {
    let search = &request.search;
    let given = resolve_cluster(&request.cluster, &request.catalog)?;
    let gpus = given.0.gpus();
    let mut named = vec![given];
    let moved = |e: Error, list: &str, i: usize| e.moved("cluster", &entry(list, i));
    for (i, spec) in request.alternatives.iter().enumerate() {
        named.push(resolve_cluster(spec, &request.catalog).map_err(|e| moved(e, "alternatives", i))?);
    }
    for (i, name) in search.instances.iter().enumerate() {
        if name == "any" {
            let vendor = named.first().map_or("", |(c, _)| &c.vendor).to_owned();
            named.extend(shapes(request, &vendor, gpus)?);
        } else {
            let shape = resolve_cluster(&ClusterSpec::from(name.as_str()), &request.catalog);
            named.push(as_many(shape.map_err(|e| moved(e, "search.instances", i))?, gpus));
        }
    }
    // Repeats go below; many times too many would not even be compared with each other.
    few(named.len().saturating_mul(search.nodes.len().max(1)), 4 * MOST)?;
    let mut out: Vec<(Cluster, Vec<Assumption>)> = Vec::new();
    let mut put = |cluster: Cluster, assumptions: &Vec<Assumption>| {
        if !out.iter().any(|(known, _)| *known == cluster) {
            out.push((cluster, assumptions.clone()));
        }
    };
    for (cluster, assumptions) in named {
        for &nodes in &search.nodes {
            put(Cluster { nodes, ..cluster.clone() }, &assumptions);
        }
        if search.nodes.is_empty() {
            put(cluster, &assumptions);
        }
    }
    Ok(out)
}

/// As many nodes as have so many accelerators.
fn as_many((cluster, assumptions): (Cluster, Vec<Assumption>), gpus: u64) -> (Cluster, Vec<Assumption>) {
    let nodes = gpus.div_ceil(u64::from(cluster.gpus_per_node).max(1));
    (Cluster { nodes: u32::try_from(nodes).unwrap_or(u32::MAX), ..cluster }, assumptions)
}

/// Every priced cloud shape with parts of a vendor, in the catalogue's order.
fn shapes(request: &PlanRequest, vendor: &str, gpus: u64) -> Result<Vec<(Cluster, Vec<Assumption>)>> {
    let own = Catalog::with(&request.catalog)?;
    let mut names: Vec<&str> = own.rows().instances.iter().map(|row| row.name.as_str()).collect();
    names.dedup();
    let mut out = Vec::new();
    for name in names {
        let Ok((cluster, assumptions)) = ClusterSpec::from(name).resolve(&own) else { continue };
        if cluster.vendor == vendor && cluster.price(request.run.price).is_some() {
            out.push(as_many((cluster, assumptions), gpus));
        }
    }
    Ok(out)
}

fn recipes(request: &PlanRequest, model: &Model) -> Result<Vec<Recipe>> {
    let (own, search) = (&request.recipe, &request.search);
    let mut out = Vec::new();
    let mut put = |recipe: Recipe| {
        recipe.validate().map_err(|e| e.under("recipe"))?;
        check_model(model, &recipe, &Layout::default(), request.seq_len)?;
        if !out.contains(&recipe) {
            out.push(recipe);
        }
        Ok(())
    };
    for method in or_own(&search.methods, own.method) {
        // Another method has a format of its own for the parameters.
        let params_dtype = own.params_dtype.filter(|_| method == own.method);
        for optimizer in or_own(&search.optimizers, own.optimizer) {
            for compute in or_own(&search.computes, own.compute) {
                put(Recipe { method, params_dtype, compute, optimizer, ..own.clone() })?;
            }
        }
    }
    Ok(out)
}

/// A list of choices; left open, the recipe's own.
fn or_own<T: Copy>(list: &[T], own: T) -> Vec<T> {
    if list.is_empty() { vec![own] } else { list.to_vec() }
}

fn batches(request: &PlanRequest) -> Vec<Batch> {
    let given = Batch { seq_len: request.seq_len, global_batch: request.global_batch };
    let Some([low, high]) = request.search.global_batch_range else { return vec![given] };
    let mut sizes: Vec<u64> = Vec::new();
    let mut size = given.global_batch;
    while size.is_multiple_of(2) && size / 2 >= low {
        size /= 2;
    }
    while size <= high {
        if size >= low {
            sizes.push(size);
        }
        size = size.saturating_mul(2);
    }
    if sizes.is_empty() {
        return vec![given];
    }
    sizes.into_iter().map(|global_batch| Batch { global_batch, ..given }).collect()
}

#[cfg(test)]
mod tests {
    use crate::api::{PlanAnswer, PlanRequest, Run, plan};
    use serde_json::{Value, json};

    fn ask(search: &Value) -> PlanAnswer {
        let request: PlanRequest = serde_json::from_value(json!({
            "model": "llama-3.2-1b", "cluster": "2x8xH100-SXM-80GB", "seq_len": 4096, "global_batch": 64,
            "recipe": {"framework": "torchtitan"}, "run": {"tokens": 1e10}, "search": search,
        }))
        .unwrap();
        plan(&request).unwrap()
    }

    #[test]
    fn more_machines_are_faster_and_fewer_cheaper() {
        let fast = ask(&json!({"nodes": [1, 2, 4]}));
        let cheap = ask(&json!({"nodes": [1, 2, 4], "objective": "cost"}));
        assert_eq!((fast.chosen.unwrap().nodes, cheap.chosen.as_ref().unwrap().nodes), (4, 1));
        let run = |a: &PlanAnswer| a.best.run.clone().unwrap();
        let money = |a: &PlanAnswer| run(a).cost.unwrap().total();
        // Money under a deadline: two nodes are the fewest that are in time.
        let deadline = 0.7 * run(&cheap).time.get();
        let timely = ask(&json!({"nodes": [1, 2, 4], "objective": "cost", "deadline": deadline}));
        assert_eq!(timely.chosen.as_ref().unwrap().nodes, 2);
        assert!(run(&timely).time.get() <= deadline && money(&timely) >= money(&cheap));
        // Time under a budget: what the cheapest costs and a little more.
        let budget = 1.001 * money(&timely).get();
        let thrifty = ask(&json!({"nodes": [1, 2, 4], "budget": budget}));
        assert!(money(&thrifty).get() <= budget && run(&thrifty).time <= run(&timely).time);
    }

    #[test]
    fn a_choice_left_open_is_never_worse_than_one_made() {
        let own = ask(&json!({"objective": "headroom"}));
        let open = ask(&json!({"objective": "headroom", "optimizers": ["adamw", "adamw_8bit"],
                              "computes": ["bf16", "fp8"]}));
        assert!(open.best.fit.headroom > own.best.fit.headroom);
        assert_eq!(open.chosen.unwrap().optimizer.name(), "adamw_8bit");
        assert!(open.ranked.iter().all(|line| line.optimizer.is_some() && line.compute.is_some()));
    }

    #[test]
    fn a_range_of_batches_is_weighed_by_tokens() {
        let own = ask(&json!({}));
        let range = ask(&json!({"global_batch_range": [32, 256]}));
        let chosen = range.chosen.unwrap().global_batch;
        assert!([32, 64, 128, 256].contains(&chosen));
        let rate = |a: &super::super::EstimateAnswer| a.step.tokens_per_second();
        assert!(rate(&range.best) >= rate(&own.best));
        assert_eq!(range.best.global_batch, chosen);
    }

    #[test]
    fn what_must_be_served_in_little_memory_is_trained_for_it() {
        let request = |serving: Value, search: Value| -> PlanRequest {
            serde_json::from_value(json!({
                "model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 4096, "global_batch": 64,
                "run": {"tokens": 1e9, "serving": serving}, "search": search,
            }))
            .unwrap()
        };
        let method = |a: &PlanAnswer| a.chosen.as_ref().unwrap().method.name();
        let both = json!({"methods": ["full", "qat"]});
        // Full training is the faster one; its 16 bits do not fit 8 GiB, 4.5 bits do.
        let free = plan(&request(json!({"memory_gib": 8}), both.clone())).unwrap();
        assert_eq!((method(&free), free.best.serving.as_ref().unwrap().fits), ("full", false));
        let held = plan(&request(json!({"memory_gib": 8, "must_fit": true}), both)).unwrap();
        assert_eq!((method(&held), held.best.serving.as_ref().unwrap().fits), ("qat", true));
        assert!(held.feasible && held.ranked.iter().all(|line| line.method.unwrap().name() == "qat"));
        // With full training alone there is no plan: 8.03 B parameters at 4.5 bits would fit.
        let none = plan(&request(json!({"memory_gib": 8, "must_fit": true}), json!({}))).unwrap();
        assert!(!none.feasible && none.ranked.is_empty());
        assert!(
            none.nearest_changes[0].starts_with("QAT, served at 4.5 bits a weight: needs 5.8"),
            "{none:?}"
        );
        assert!(none.nearest_changes[1].starts_with("a GPU with 16.5"), "{:?}", none.nearest_changes);
    }

    #[test]
    fn where_nothing_helps_alone_the_strongest_changes_are_tried_together() {
        let request = |model: &str, gpu: &str| -> PlanRequest {
            serde_json::from_value(json!({
                "model": model, "cluster": gpu, "seq_len": 8192, "global_batch": 8,
            }))
            .unwrap()
        };
        let hopeless = plan(&request("llama-3.1-405b", "1xT4")).unwrap().nearest_changes;
        assert_eq!(hopeless.len(), 1);
        assert!(
            hopeless[0].starts_with("nothing on these machines: QLoRA with sequences of 256"),
            "{hopeless:?}"
        );
        let hard = plan(&request("llama-3.1-8b", "1xT4")).unwrap().nearest_changes;
        assert!(hard[0].starts_with("QLoRA and sequences of"), "{hard:?}");
    }

    #[test]
    fn any_shape_of_the_catalogue_may_be_had() {
        let open =
            ask(&json!({"instances": ["any"], "objective": "cost", "shardings": ["fsdp2"], "list": 50}));
        let own = ask(&json!({"objective": "cost", "shardings": ["fsdp2"]}));
        let money = |a: &PlanAnswer| a.best.run.as_ref().unwrap().cost.as_ref().unwrap().total();
        assert!(money(&open) <= money(&own));
        assert!(open.ranked[0].machines.is_some());
        // One shape that has the same GPUs for less.
        let named = ask(&json!({"instances": ["p4d.24xlarge"]}));
        assert_eq!(named.chosen.unwrap().gpus, 16);
    }

    #[test]
    fn the_least_expected_bill_counts_losses() {
        let request = |objective: &str| -> PlanRequest {
            serde_json::from_value(json!({
                "model": "llama-3.2-1b", "cluster": "8xH100-SXM-80GB", "seq_len": 4096, "global_batch": 64,
                "recipe": {"framework": "torchtitan"}, "search": {"shardings": ["fsdp2"], "nodes": [1, 4], "objective": objective, "list": 1},
                "run": {"tokens": 1e9, "price": "spot", "checkpoint": {}, "faults": {"per_node_hour": 0.2}},
            }))
            .unwrap()
        };
        let bill = |request: &PlanRequest| {
            let answer = plan(request).unwrap();
            answer.ranked.first().unwrap().expected_cost.unwrap()
        };
        let least = bill(&request("expected_cost"));
        for nodes in [1, 4] {
            let mut one = request("cost");
            one.search.nodes = vec![nodes];
            assert!(bill(&one) >= least, "{nodes} nodes");
        }
        let without = PlanRequest { run: Run::default(), ..request("expected_cost") };
        assert_eq!(plan(&without).unwrap_err().field, "search.objective");
    }
}
