//! The answer of the step room.

use std::borrow::Cow;

use serde::Serialize;
use shardwise_derive::ToJson;

use crate::quantity::{Flops, Seconds};
use crate::term::{Interval80, Terms};

/// What a change would buy.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// The change, as a person would say it.
    pub change: Cow<'static, str>,
    /// Step time saved.
    pub saves: Seconds,
}

/// One optimizer step of the slowest rank, as a sum of the times nothing hides.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct StepReport {
    /// Terms of the step time: compute (forward, recompute, backward), exposed communication by
    /// kind, pipeline bubble, optimizer, input stall, stragglers.
    pub time: Terms<Seconds>,
    /// Communication that compute hides, by kind; not part of the step time.
    pub hidden: Terms<Seconds>,
    /// Arithmetic the model needs, all ranks together, causal attention counted as half; recompute
    /// not counted. This is the M of MFU.
    pub model_flops: Flops,
    /// Arithmetic the machines do, recompute included. This is the H of HFU.
    pub hardware_flops: Flops,
    /// Tokens of the step, all ranks together.
    pub tokens: f64,
    /// Model FLOPs over the dense peak of the compute format, from 0 to 1.
    pub mfu: f64,
    /// Hardware FLOPs over the same peak.
    pub hfu: f64,
    /// The largest term beyond useful compute, in words.
    pub bottleneck: Cow<'static, str>,
    /// What obvious changes would buy, largest first.
    pub remedies: Vec<Remedy>,
    /// 80 % interval of the step time.
    pub interval80: Interval80<Seconds>,
}

impl StepReport {
    /// The step time.
    #[must_use]
    pub fn total(&self) -> Seconds {
        self.time.total()
    }

    /// Tokens per second of the whole cluster.
    #[must_use]
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens / self.total().get()
    }
}
