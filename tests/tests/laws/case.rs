//! A request with everything looked up, for laws of one room.

use std::fmt;

use proptest::prelude::*;
use shardwise::api::EstimateRequest;
use shardwise::step::{Setting, StepTimes};
use shardwise::strategies::estimate_request;
use shardwise::workload::Batch;
use shardwise::{Catalog, Cluster, Layout, Model, Recipe};

/// What a step is made of.
#[derive(Clone)]
pub struct Case {
    pub model: Model,
    pub recipe: Recipe,
    pub cluster: Cluster,
    pub layout: Layout,
    pub batch: Batch,
}

impl Case {
    fn of(request: EstimateRequest) -> Self {
        let model = request.model.resolve("model").expect("a valid model").into_owned();
        let (cluster, _) = request.cluster.resolve(Catalog::embedded()).expect("valid machines");
        let layout = request.layout.resolve(cluster.gpus()).expect("a valid layout");
        let least = layout.data_parallel() * layout.micro_batch;
        let global_batch = request.global_batch.unwrap_or(least);
        let batch = Batch { seq_len: request.seq_len, global_batch };
        Self { model, recipe: request.recipe, cluster, layout, batch }
    }

    pub fn setting(&self) -> Setting<'_> {
        Setting::new(&self.model, &self.recipe, self.batch, &self.cluster)
    }

    pub fn times(&self) -> StepTimes {
        self.setting().times(&self.layout)
    }

    /// The same step laid out another way.
    pub fn laid(&self, change: impl FnOnce(&mut Layout)) -> Self {
        let mut case = self.clone();
        change(&mut case.layout);
        case
    }
}

/// What a person needs to see again what went wrong; a model's operations would fill pages.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.model.counts();
        write!(
            f,
            "{} {counts:?}\n{}\n{:?}\n{:?}\n{:?}",
            self.model.name, self.cluster, self.layout, self.batch, self.recipe
        )
    }
}

/// Any case, without runs, rows and calibrations.
pub fn cases() -> impl Strategy<Value = Case> {
    estimate_request().prop_map(Case::of)
}
