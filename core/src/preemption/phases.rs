//! Runs whose node count changes on the way: small at first, grown on a plateau, shrunk after.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::availability::Availability;
use super::crossing::crossing;
use super::elastic::gamma_quantile;
use super::outlook::{Outlook, RestartJob, Weights};
use crate::error::{Error, ErrorCode, Result, in_range};
use crate::quantity::Seconds;

/// A part of a run on a fixed number of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Nodes of this part.
    pub nodes: u32,
    /// Its work on these nodes, and how it saves and starts.
    pub job: RestartJob,
    /// When a gang of this size is complete.
    pub availability: Availability,
}

/// Expected time of the phases one after another, and its spread.
#[derive(Clone, Debug)]
pub struct PhasedOutlook {
    parts: Vec<(u32, Outlook)>,
    /// Loading the state after each change of the node count.
    changes: Vec<Seconds>,
}

/// The outlook of a run in phases, each waiting for its gang. Each but the last ends with a save,
/// each but the first begins with a restore.
///
/// ```
/// use shardwise::preemption::{Availability, Phase, RestartJob, phased};
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// let phase = |nodes: u32, work: f64| Phase {
///     nodes,
///     job: RestartJob {
///         work: s(work), interval: s(1800.0), save: s(60.0), restore: s(300.0), provision: s(120.0),
///     },
///     availability: Availability::memoryless(s(400_000.0 / f64::from(nodes)), s(1800.0)),
/// };
/// // A third of the tokens on 4 nodes, the rest on 16, against all of them on 16.
/// let grown = phased(&[phase(4, 115_200.0), phase(16, 57_600.0)]).unwrap();
/// let large = phased(&[phase(16, 86_400.0)]).unwrap();
/// assert!(grown.expected() > large.expected());
/// assert!(grown.node_time() < large.node_time());
/// ```
///
/// # Errors
/// If there is no phase, or a field is outside its range.
pub fn phased(phases: &[Phase]) -> Result<PhasedOutlook> {
    if phases.is_empty() {
        return Err(Error::new("phases", ErrorCode::MissingField, "none", "at least one phase"));
    }
    let mut parts = Vec::with_capacity(phases.len());
    for (i, phase) in phases.iter().enumerate() {
        let part = in_range("nodes", f64::from(phase.nodes), 1.0, 1e6)
            .and_then(|_| Outlook::new(&phase.job, &phase.availability))
            .map_err(|e| e.entry("phases", i))?;
        parts.push((phase.nodes, if i + 1 < phases.len() { part.handing_over() } else { part }));
    }
    Ok(PhasedOutlook { parts, changes: phases.iter().skip(1).map(|p| p.job.restore).collect() })
}

impl PhasedOutlook {
    fn changes(&self) -> Seconds {
        self.changes.iter().copied().sum()
    }

    /// The time it takes when nothing is lost.
    #[must_use]
    pub fn undisturbed(&self) -> Seconds {
        self.changes() + self.parts.iter().map(|(_, part)| part.undisturbed()).sum()
    }

    /// Expected completion time.
    #[must_use]
    pub fn expected(&self) -> Seconds {
        self.changes() + self.parts.iter().map(|(_, part)| part.expected()).sum()
    }

    /// Expected time spent waiting for capacity.
    #[must_use]
    pub fn waiting(&self) -> Seconds {
        self.parts.iter().map(|(_, part)| part.waiting()).sum()
    }

    /// Expected number of losses.
    #[must_use]
    pub fn losses(&self) -> f64 {
        self.parts.iter().map(|(_, part)| part.losses()).sum()
    }

    /// Probability of having ended `deadline` after the start: the quantile that meets it.
    #[must_use]
    pub fn probability_by(&self, deadline: Seconds) -> f64 {
        if let [(_, only)] = self.parts.as_slice() {
            return only.probability_by(deadline);
        }
        probability_of(|p| self.quantile(p), deadline)
    }

    /// Expected sum over nodes of the time each is held: what is paid.
    #[must_use]
    pub fn node_time(&self) -> Seconds {
        let none = Seconds::ZERO;
        let loads = core::iter::once(none).chain(self.changes.iter().copied());
        self.parts
            .iter()
            .zip(loads)
            .map(|((nodes, part), load)| (part.held() + load) * f64::from(*nodes))
            .sum()
    }

    /// Standard deviation of the completion time; the phases' are independent.
    #[must_use]
    pub fn deviation(&self) -> Seconds {
        let variance: f64 = self
            .parts
            .iter()
            .map(|(_, part)| {
                let d = part.deviation(Weights::TIME);
                d * d
            })
            .sum();
        Seconds::of(variance.sqrt())
    }

    /// Completion time not exceeded with probability `p`; of several phases, the excess over the
    /// undisturbed run is taken as gamma-distributed with its mean and deviation.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Seconds {
        if let [(_, only)] = self.parts.as_slice() {
            return only.quantile(p);
        }
        let excess = (self.expected() - self.undisturbed()).get();
        self.undisturbed() + Seconds::of(gamma_quantile(excess, self.deviation().get(), p))
    }
}

/// Probability of staying below `limit`, from the quantiles, which grow with theirs.
pub(crate) fn probability_of(quantile: impl Fn(f64) -> Seconds, limit: Seconds) -> f64 {
    let over = |p: f64| (quantile(p) - limit).get();
    let (below, above) = (over(0.0), over(1.0));
    if below > 0.0 {
        return 0.0;
    }
    if above <= 0.0 {
        return 1.0;
    }
    crossing((0.0, below), (1.0, above), over)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preemption::{Policy, Spells, Start, Swing, quantile, simulate};

    #[test]
    fn two_phases_agree_with_drawn_runs() -> Result<()> {
        let s = Seconds::of;
        let zone = |mean: f64| Availability {
            up: Some(Spells { scv: 3.0, ..Spells::memoryless(s(mean)) }),
            down: Spells { scv: 2.0, ..Spells::memoryless(s(3600.0)) },
            swing: Swing::Independent,
            start: Start::AnyMoment,
            loss_share: None,
        };
        let job = |work: f64| RestartJob {
            work: s(work),
            interval: s(1800.0),
            save: s(60.0),
            restore: s(300.0),
            provision: s(120.0),
        };
        let phases = [
            Phase { nodes: 4, job: job(50_000.0), availability: zone(20_000.0) },
            Phase { nodes: 16, job: job(30_000.0), availability: zone(10_000.0) },
        ];
        let outlook = phased(&phases)?;
        let draw =
            |i: usize, phase: &Phase| simulate(&phase.job, &phase.availability, Policy::Wait, 3000, i as u64);
        let (first, second) = (draw(1, &phases[0])?, draw(2, &phases[1])?);
        // The hand-over: a save by the first and a load by the second, beside its provisioning.
        let mut times: Vec<f64> = first
            .iter()
            .zip(&second)
            .filter_map(|(a, b)| Some(a.as_ref()?.time.get() + b.as_ref()?.time.get() + 360.0))
            .collect();
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((outlook.expected().get() / mean - 1.0).abs() < 0.02, "{} {mean}", outlook.expected().get());
        let p90 = quantile(&times, 0.9);
        assert!(
            (outlook.quantile(0.9).get() / p90 - 1.0).abs() < 0.04,
            "{} {p90}",
            outlook.quantile(0.9).get()
        );
        Ok(())
    }
}
