//! When nothing fits: the changes that would make it fit, each tried.

use super::outlook::ServingOutlook;
use super::pay::served_bits;
use super::plan::Site;
use crate::error::Result;
use crate::layout::{Layout, Offload, Recompute};
use crate::quantity::Bytes;
use crate::search::Point;
use crate::workload::{Batch, LossKernel, Method, Optimizer, QatScheme, Recipe};

/// Shortest sequence that is proposed.
const SHORTEST: u64 = 256;

/// Changes that would make it fit, tried one at a time, cheapest first: those that cost nothing but
/// a setting, then those that cost time, then those that cost money. Where no single one does, the
/// strongest of them together.
pub(super) fn nearest_changes(site: &Site<'_>, layout: &Layout, late: Option<&Point>) -> Result<Vec<String>> {
    if let Some(served) = site.place.unserved()? {
        return Ok(served_otherwise(site, &served));
    }
    if let Some(late) = late {
        return Ok(looser_limits(site, late));
    }
    let (place, batch) = (&site.place, &site.batch);
    let budget = site.budget();
    let need =
        |recipe: &Recipe, layout: &Layout, batch: &Batch| place.memory_with(recipe, layout, batch).needed;
    let mut out = Vec::new();
    let mut offer = |what: &str, need: Bytes| {
        if need <= budget {
            out.push(format!("{what}: needs {need} of {budget}"));
        }
        need <= budget
    };
    let base = place.recipe;
    let full = Layout { recompute: Recompute::Full, recompute_every: 1, ..layout.clone() };
    let fused = Recipe { loss: LossKernel::FusedLinear, ..base.clone() };
    offer("a fused linear cross-entropy", need(&fused, &full, batch));
    let small = Recipe { optimizer: Optimizer::Adamw8bit, ..base.clone() };
    offer("8-bit AdamW", need(&small, &full, batch));
    let offloaded = Layout { offload: vec![Offload::Optimizer], ..full.clone() };
    offer("optimizer states on the host", need(base, &offloaded, batch));
    let method = |method| Recipe { method, params_dtype: None, ..base.clone() };
    if !place.model.is_traced() {
        offer("LoRA instead of full training", need(&method(Method::Lora), &full, batch));
        offer("QLoRA instead of full training", need(&method(Method::Qlora), &full, batch));
    }
    if layout.sharding.shards() {
        for factor in [2, 4, 8, 16, 32, 64] {
            let wider = Layout { data_parallel_shard: full.data_parallel_shard * factor, ..full.clone() };
            let what = format!("{} accelerators instead of {}", wider.world(), full.world());
            if offer(&what, need(base, &wider, batch)) {
                break;
            }
        }
    }
    for shorter in shorter(batch) {
        let what = format!("sequences of {} instead of {}", shorter.seq_len, batch.seq_len);
        if offer(&what, need(base, &full, &shorter)) {
            break;
        }
    }
    if out.is_empty() {
        let (name, least) = if place.model.is_traced() {
            ("8-bit AdamW", small)
        } else {
            ("QLoRA", Recipe { loss: LossKernel::FusedLinear, ..method(Method::Qlora) })
        };
        out.push(together(site, &full, name, &least));
    }
    Ok(out)
}

/// The batch with its sequences halved, again and again.
fn shorter(batch: &Batch) -> impl Iterator<Item = Batch> {
    let halves = core::iter::successors(Some(batch.seq_len / 2), |s| Some(s / 2));
    halves.take_while(|&s| s >= SHORTEST).map(|seq_len| Batch { seq_len, ..*batch })
}

/// The smallest recipe and shorter sequences at once: the first that fits, else what even the
/// shortest need.
fn together(site: &Site<'_>, full: &Layout, name: &str, least: &Recipe) -> String {
    let budget = site.budget();
    let mut last = (site.batch, site.place.memory_with(least, full, &site.batch).needed);
    for batch in shorter(&site.batch) {
        if last.1 <= budget {
            break;
        }
        last = (batch, site.place.memory_with(least, full, &batch).needed);
    }
    let (batch, need) = last;
    if need <= budget {
        format!("{name} and sequences of {}: needs {need} of {budget}", batch.seq_len)
    } else {
        let short = need - budget;
        format!(
            "nothing on these machines: {name} with sequences of {} still needs {need} of {budget}, {short} too much",
            batch.seq_len
        )
    }
}

/// Memory is not what binds: the limits that the best plan would keep.
fn looser_limits(site: &Site<'_>, late: &Point) -> Vec<String> {
    let mut out = Vec::new();
    let run = site.place.run_report(&site.place.step(&late.layout, &site.batch));
    if let (Some(run), Some(deadline)) = (&run, site.search.deadline) {
        out.push(format!("a deadline of {} instead of {deadline}", run.time));
    }
    if let (Some(cost), Some(budget)) = (run.as_ref().and_then(|r| r.cost.as_ref()), site.search.budget) {
        out.push(format!("a budget of {} instead of {budget}", cost.total()));
    }
    out
}

/// The result is too large where it must be served: fewer bits a weight, or more memory there.
fn served_otherwise(site: &Site<'_>, served: &ServingOutlook) -> Vec<String> {
    let weights = |bits: f64| Bytes::of(site.place.model.counts().total as f64 * bits / 8.0);
    let beside = served.memory - weights(served.bits);
    let mut out = Vec::new();
    for (what, scheme) in [("QAT in fp8", QatScheme::Fp8), ("QAT", QatScheme::default())] {
        let bits = served_bits(Method::Qat, scheme);
        let need = beside + weights(bits);
        if bits < served.bits && need <= served.limit {
            out.push(format!(
                "{what}, served at {bits} bits a weight: needs {need} of {} to serve",
                served.limit
            ));
        }
    }
    out.push(format!("a GPU with {} to serve it instead of {}", served.memory, served.limit));
    out
}
