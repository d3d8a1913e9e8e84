//! The layouts that large runs were published with, beside the plan that is chosen for the same
//! machines, model, recipe and batch.

use std::collections::BTreeSet;
use std::path::Path;

use shardwise::api::{PlanRequest, Search};
use shardwise::layout::Recompute;
use shardwise::{Layout, plan, step};

use super::request::Asked;
use super::row::Row;
use crate::score::Score;

/// A published layout against the plan.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The row.
    pub id: String,
    /// GPUs.
    pub gpus: u64,
    /// What was trained.
    pub model: String,
    /// The rule that forbids the layout, or what it lacks in memory; none when it runs.
    pub against: Option<String>,
    /// Predicted seconds of a step as published; what is recomputed is chosen where a row does not say.
    pub published: f64,
    /// Predicted seconds of a step of the plan.
    pub best: f64,
    /// How the plan's layout is named, and the published one.
    pub names: (String, String),
}

impl Choice {
    /// How much longer the published layout takes, as a share.
    #[must_use]
    pub fn excess(&self) -> f64 {
        self.published / self.best - 1.0
    }
}

/// Every run of a file on `least` GPUs or more once, in the file's order.
pub fn choices(file: &Path, least: u64) -> Result<Vec<Choice>, String> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for (row, asked, _) in super::measured_runs(file, &mut Score::default())? {
        let gpus = asked.cluster.gpus();
        let key = format!(
            "{} {:?} {:?} {gpus} {:?} {:?}",
            row.model.name, asked.layout, asked.batch, asked.recipe.compute, asked.cluster.accelerator
        );
        if gpus >= least && seen.insert(key) {
            out.push(choice(&row, &asked).map_err(|e| format!("{}: {e}", row.id))?);
        }
    }
    Ok(out)
}

fn choice(row: &Row, asked: &Asked) -> Result<Choice, String> {
    let variants: Vec<Layout> = match row.inputs.recompute {
        Some(_) => vec![asked.layout.clone()],
        None => {
            Recompute::ALL.iter().map(|&recompute| Layout { recompute, ..asked.layout.clone() }).collect()
        }
    };
    let request = PlanRequest {
        schema_version: shardwise::SCHEMA_VERSION,
        model: asked.spec.clone(),
        cluster: asked.machines.clone(),
        seq_len: asked.batch.seq_len,
        global_batch: asked.batch.global_batch,
        recipe: asked.recipe.clone(),
        search: Search::default(),
        alternatives: Vec::new(),
        why_not: variants.clone(),
        current: None,
        run: shardwise::api::Run::default(),
        calibration: shardwise::calibrate::Calibration::default(),
        catalog: shardwise::CatalogRows::default(),
    };
    let answer = plan(&request).map_err(|e| e.to_string())?;
    let time = |layout: &Layout| {
        step::estimate(&asked.model, &asked.recipe, layout, &asked.batch, &asked.cluster).total().get()
    };
    let runs =
        variants.iter().zip(&answer.why_not).filter(|(_, r)| r.rule.is_none() && r.shortfall.is_none());
    let published = runs.map(|(layout, _)| time(layout)).reduce(f64::min);
    let against = answer.why_not.last().filter(|_| published.is_none()).map(|r| r.reason.clone());
    Ok(Choice {
        id: row.id.clone(),
        gpus: asked.cluster.gpus(),
        model: row.model.name.clone(),
        against,
        published: published.unwrap_or_else(|| time(&asked.layout)),
        best: answer.best.step.total().get(),
        names: (
            format!(
                "{} mb {} {}",
                answer.best.name, answer.best.layout.micro_batch, answer.best.layout.recompute
            ),
            answer
                .why_not
                .first()
                .map_or_else(String::new, |r| format!("{} mb {}", r.name, r.layout.micro_batch)),
        ),
    })
}
