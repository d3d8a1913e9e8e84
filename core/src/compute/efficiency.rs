//! Measured efficiencies as data: how much of its best each part sustains in training, and which
//! share of the peak each generation of attention kernels reaches. Rows carry their source.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::Deserialize;
use shardwise_derive::FromJson;

use crate::cluster::Cluster;
use crate::workload::AttentionKernel;

const PARTS: &str = include_str!("../../data/efficiency/parts.json");
const ATTENTION: &str = include_str!("../../data/efficiency/attention.json");

/// What one accelerator sustains.
#[derive(Clone, Debug, Deserialize, FromJson)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// Id of the accelerator in the catalogue.
    pub id: String,
    /// Architecture, by which attention rows are found.
    pub architecture: String,
    /// Multiprocessors (or the count of independent matrix units).
    pub multiprocessors: f64,
    /// Sustained rate of 16-bit products over the best measured.
    pub sustained16: f64,
    /// The same in 8 bits.
    pub sustained8: f64,
    /// Attention rate relative to the architecture's row, for parts held back by their power.
    #[serde(default = "one")]
    pub attention: f64,
    /// Power at which `sustained` holds, in watts; the rate follows the power actually allowed.
    pub reference_w: Option<f64>,
    /// Where the figures come from.
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "as_of")]
    _as_of: String,
}

const fn one() -> f64 {
    1.0
}

/// Share of the 16-bit peak of one generation of attention kernels.
#[derive(Debug, Deserialize, FromJson)]
#[serde(deny_unknown_fields)]
struct AttentionRow {
    architecture: String,
    kernel: AttentionKernel,
    share: f64,
    #[serde(rename = "range")]
    _range: [f64; 2],
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "as_of")]
    _as_of: String,
}

fn rows<T: crate::read::FromJson>(text: &str) -> Vec<T> {
    crate::read::from_text(text).unwrap_or_default()
}

fn parts() -> &'static [Part] {
    static ROWS: OnceLock<Vec<Part>> = OnceLock::new();
    ROWS.get_or_init(|| rows(PARTS))
}

/// The row of a cluster's accelerator. A part that is not listed is taken for one of its
/// manufacturer's current data-centre kind, with multiprocessors in proportion to its peak.
pub(super) fn part(cluster: &Cluster) -> Cow<'static, Part> {
    if let Some(row) = parts().iter().find(|p| p.id == cluster.accelerator) {
        return Cow::Borrowed(row);
    }
    let half = cluster.peaks.bf16.or(cluster.peaks.fp16).map_or(3e14, crate::FlopsPerSecond::get);
    Cow::Owned(Part {
        id: String::new(),
        architecture: if cluster.vendor == "NVIDIA" { "hopper" } else { "other" }.to_owned(),
        multiprocessors: (half / 7.5e12).clamp(16.0, 512.0),
        sustained16: 0.82,
        sustained8: 0.80,
        attention: 1.0,
        reference_w: None,
        _source: String::new(),
        _as_of: String::new(),
    })
}

/// Share of the 16-bit peak that an attention kernel reaches with long sequences and heads of 128.
pub(super) fn attention(part: &Part, kernel: AttentionKernel) -> f64 {
    static ROWS: OnceLock<Vec<AttentionRow>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| rows(ATTENTION));
    let of = |architecture: &str, kernel: AttentionKernel| {
        rows.iter().find(|r| r.kernel == kernel && r.architecture == architecture).map(|r| r.share)
    };
    // Newer kernels fall back to the generation before where the part lacks their instructions.
    let fallbacks = match kernel {
        AttentionKernel::Te => [kernel, AttentionKernel::Flash3, AttentionKernel::Flash2],
        AttentionKernel::Flash3 => [kernel, AttentionKernel::Te, AttentionKernel::Flash2],
        _ => [kernel, AttentionKernel::Flash2, AttentionKernel::Efficient],
    };
    let share = fallbacks.into_iter().find_map(|k| of(&part.architecture, k)).unwrap_or(0.35);
    share * part.attention
}

/// Exponent of the sustained rate in the power a board may draw. Source: fitted between boards of
/// one generation that differ in power alone (B200 1000 W, B300 1100, GB200 1200, GB300 1400);
/// plausible 0.6 to 1.3.
const POWER_EXPONENT: f64 = 0.88;

/// Sustained rate of a board relative to its generation's reference power.
pub(super) fn power(part: &Part, cluster: &Cluster) -> f64 {
    let limit = cluster.power_limit().map(crate::Watts::get);
    match (part.reference_w, limit) {
        (Some(reference), Some(limit)) => libm::pow(limit / reference, POWER_EXPONENT),
        // Where the design power is the reference, only a cap matters.
        (None, Some(limit)) => {
            let design = cluster.power.map_or(limit, crate::Watts::get);
            libm::pow((limit / design).min(1.0), POWER_EXPONENT)
        }
        _ => 1.0,
    }
}
