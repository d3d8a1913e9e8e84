//! Answers as text for a terminal.

use core::fmt::{self, Write as _};

use super::answer::{EstimateAnswer, PlanAnswer, PlanLine, Verdict};
use super::estimate::strategy_name;
use crate::layout::{Layout, Recompute, Schedule};
use crate::quantity::thousands;
use crate::search::StopReason;
use crate::workload::ModelSummary;

/// The degrees of a layout beside its strategy: `TP 2, PP 4`, and a schedule that is not 1F1B.
fn degrees(l: &Layout) -> String {
    let mut out = String::new();
    for (name, degree) in [
        ("replicas", if l.sharding.shards() { l.data_parallel_replicate } else { 1 }),
        ("TP", l.tensor_parallel),
        ("PP", l.pipeline_parallel),
        ("CP", l.context_parallel),
        ("EP", l.expert_parallel),
    ] {
        if degree > 1 {
            let _ = write!(out, ", {name} {degree}");
        }
    }
    if l.pipeline_parallel > 1 && l.pipeline_schedule != Schedule::OneFOneB {
        out.push_str(", ");
        out.push_str(l.pipeline_schedule.name());
        if l.pipeline_chunks > 1 {
            out.push_str(" x ");
            out.push_str(&l.pipeline_chunks.to_string());
        }
    }
    out
}

/// How a person names a layout: its strategy and the degrees above 1.
pub(super) fn plan_name(l: &Layout) -> String {
    format!("{}{}", strategy_name(l.sharding), degrees(l))
}

/// What is recomputed: `full/2` is every second layer.
fn recompute_name(l: &Layout) -> String {
    if l.recompute == Recompute::None || l.recompute_every <= 1 {
        return l.recompute.name().to_owned();
    }
    format!("{}/{}", l.recompute, l.recompute_every)
}

fn bar(share: f64, width: usize) -> String {
    let cells = libm::round(share.clamp(0.0, 1.0) * width as f64);
    (0..width).map(|i| if (i as f64) < cells { '#' } else { '.' }).collect()
}

impl fmt::Display for EstimateAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.fit.verdict {
            Verdict::Fits => "Fits",
            Verdict::Tight => "Tight",
            Verdict::DoesNotFit => "Does not fit",
        };
        writeln!(
            f,
            "{word}: {}, micro-batch {}, recompute {}: {}.",
            self.name,
            self.layout.micro_batch,
            recompute_name(&self.layout),
            self.fit.reason
        )?;
        writeln!(
            f,
            "{} ({} parameters) on {}, sequence {}, global batch {} ({} micro-batches a rank and step)",
            self.model.name,
            thousands(self.model.parameters.total as f64),
            self.cluster,
            self.seq_len,
            self.global_batch,
            self.gradient_accumulation
        )?;
        self.fmt_memory(f)?;
        self.fmt_step(f)?;
        if let Some(run) = &self.run {
            write!(
                f,
                "\nRun: {} tokens, {} steps, {}",
                thousands(run.tokens),
                thousands(run.steps),
                run.time
            )?;
            match (&run.cost, &run.price) {
                (Some(cost), Some(price)) => {
                    writeln!(f, ", {} at {} ({}, {})", cost.total(), price.cluster, price.kind, price.as_of)?;
                }
                _ => writeln!(f, "; cost unknown: no price of that kind in the catalogue")?,
            }
            if let Some(ahead) = &run.outlook {
                write!(f, "{ahead}")?;
            }
            if !run.offers.is_empty() {
                writeln!(f, "\nOffers:")?;
                for offer in &run.offers {
                    writeln!(f, "{offer}")?;
                }
            }
        }
        if let Some(serving) = &self.serving {
            write!(f, "\n{serving}")?;
        }
        if !self.assumptions.is_empty() {
            writeln!(f, "\nAssumed:")?;
            for a in &self.assumptions {
                writeln!(f, "  {a}")?;
            }
        }
        Ok(())
    }
}

impl EstimateAnswer {
    fn fmt_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(peak) = self.memory.peak_terms() else { return Ok(()) };
        let name = self.memory.phases.get(self.memory.peak).map_or("", |p| &p.name);
        writeln!(f, "\nMemory of the fullest rank, peaking at {name}:")?;
        let capacity = self.fit.capacity;
        for term in &peak.0 {
            writeln!(
                f,
                "  {:<24} {:>12}  {}",
                term.name,
                term.amount.to_string(),
                bar(term.amount / capacity, 30)
            )?;
        }
        writeln!(f, "  {:<24} {:>12}", "allocated", self.memory.allocated.to_string())?;
        writeln!(f, "  {:<24} {:>12}", "reserved", self.memory.reserved.total().to_string())?;
        writeln!(
            f,
            "  {:<24} {:>12}  of {capacity} (80 % interval {} to {})",
            "on the device",
            self.memory.device.total().to_string(),
            self.memory.device_interval80.low,
            self.memory.device_interval80.high
        )
    }

    fn fmt_step(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.step.total();
        writeln!(
            f,
            "\nStep: {total}, {} tokens/s, MFU {:.1} % (80 % interval {} to {}); {}",
            thousands(self.step.tokens_per_second()),
            100.0 * self.step.mfu,
            self.step.interval80.low,
            self.step.interval80.high,
            self.step.bottleneck
        )?;
        for term in self.step.time.0.iter().filter(|t| t.amount.get() > 0.0) {
            writeln!(
                f,
                "  {:<24} {:>12}  {}",
                term.name,
                term.amount.to_string(),
                bar(term.amount / total, 30)
            )?;
        }
        for r in self.step.remedies.iter().take(3) {
            writeln!(f, "  could save {}: {}", r.saves, r.change)?;
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, i: usize, p: &PlanLine) -> fmt::Result {
    write!(
        f,
        "{:>3}  {:<28} {:>6} {:>6} {:<10} {:>10} {:>10} {:>10} {:>10} {:>6.1}",
        i + 1,
        p.name,
        p.layout.micro_batch,
        p.gradient_accumulation,
        recompute_name(&p.layout),
        p.memory.to_string(),
        p.headroom.to_string(),
        p.step_time.to_string(),
        thousands(p.tokens_per_second),
        100.0 * p.mfu
    )?;
    if let Some(t) = p.run_time {
        write!(f, " {:>10}", format!("{:.1}", t.hours()))?;
    }
    if let Some(c) = p.cost {
        write!(f, " {:>10}", c.to_string())?;
    }
    if let Some(t) = p.expected_time {
        write!(f, "  expected {t}")?;
    }
    if let Some(c) = p.expected_cost {
        write!(f, ", {c}")?;
    }
    if let Some(machines) = &p.machines {
        write!(f, "  {machines}")?;
    }
    if let (Some(optimizer), Some(compute)) = (p.optimizer, p.compute) {
        write!(f, "  {optimizer}, {compute}")?;
    }
    if let Some(batch) = p.global_batch {
        write!(f, "  batch {batch}")?;
    }
    writeln!(f)
}

impl fmt::Display for PlanAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(c) = &self.chosen {
            let (gpus, batch) = (c.gpus, c.global_batch);
            writeln!(
                f,
                "Chosen: {} ({gpus} GPUs), {}, {}, {batch} sequences a step.",
                c.machines, c.optimizer, c.compute
            )?;
        }
        write!(f, "{}", self.best)?;
        if !self.ranked.is_empty() {
            writeln!(
                f,
                "\n  #  {:<28} {:>6} {:>6} {:<10} {:>10} {:>10} {:>10} {:>10} {:>6} {:>10} {:>10}",
                "strategy",
                "micro",
                "accum",
                "recompute",
                "memory",
                "headroom",
                "step",
                "tokens/s",
                "MFU %",
                "hours",
                "cost"
            )?;
            for (i, line) in self.ranked.iter().enumerate() {
                row(f, i, line)?;
            }
        }
        if !self.rejected.is_empty() {
            writeln!(f, "\nWhy not:")?;
            for r in &self.rejected {
                writeln!(f, "  {}", r.reason)?;
            }
        }
        if !self.nearest_changes.is_empty() {
            writeln!(f, "\nWould fit with:")?;
            for c in &self.nearest_changes {
                writeln!(f, "  {c}")?;
            }
        }
        self.fmt_reasons(f)?;
        self.fmt_curves(f)?;
        for w in &self.warnings {
            writeln!(f, "\n{} ({}).", w.says, w.source)?;
        }
        writeln!(
            f,
            "\n{} layouts looked at of {}; {} fit and were costed in full{}",
            thousands(self.candidates as f64),
            thousands(self.brute_force as f64),
            thousands(self.costed as f64),
            if self.stop_reason == StopReason::CandidateLimit {
                "; the limit of candidates was reached"
            } else {
                ""
            }
        )
    }
}

/// Plans of the front that a person is shown.
const FRONT: usize = 12;

impl PlanAnswer {
    fn fmt_reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, list) in [("Asked about:", &self.why_not), ("One change away:", &self.neighbours)] {
            if !list.is_empty() {
                writeln!(f, "\n{title}")?;
                for r in list {
                    writeln!(f, "  {}", r.reason)?;
                }
            }
        }
        if !self.changes.is_empty() {
            writeln!(f, "\nChange first:")?;
            for c in &self.changes {
                write!(f, "  {}: {} a step", c.change, c.step_time)?;
                if let Some(saves) = c.saves {
                    write!(f, ", {saves} less")?;
                }
                if let Some(saves) = c.saves_money {
                    write!(f, ", {saves} over the run")?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }

    fn fmt_curves(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.front.len() > 1 {
            writeln!(f, "\nNone better in time, money and memory left:")?;
            for p in self.front.iter().take(FRONT) {
                write!(
                    f,
                    "  {:<44} {:>5} {:<10} {:>10} {:>10} left",
                    p.name,
                    p.layout.micro_batch,
                    recompute_name(&p.layout),
                    p.step_time.to_string(),
                    p.headroom.to_string()
                )?;
                match p.cost {
                    Some(c) => writeln!(f, " {:>12}", c.to_string())?,
                    None => writeln!(f)?,
                }
            }
            if let more @ 1.. = self.front.len().saturating_sub(FRONT) {
                writeln!(f, "  and {more} more")?;
            }
        }
        if let Some(scaling) = &self.scaling {
            writeln!(f, "\n  GPUs       step   tokens/s  efficiency  layout")?;
            for p in &scaling.points {
                writeln!(
                    f,
                    "{:>6} {:>10} {:>10} {:>9.0} %  {}",
                    p.gpus,
                    p.step_time.to_string(),
                    thousands(p.tokens_per_second),
                    100.0 * p.efficiency,
                    p.name
                )?;
            }
            if let Some(half) = scaling.half {
                writeln!(
                    f,
                    "Past {half} GPUs the next one brings less than half of what the first brought."
                )?;
            }
            if let Some(knee) = scaling.knee {
                writeln!(f, "The knee of the curve is at {knee} GPUs.")?;
            }
        }
        if !self.sensitivity.is_empty() {
            writeln!(f, "\nWith")?;
            for s in &self.sensitivity {
                let plan = s.name.as_deref().unwrap_or("nothing fits");
                let same = if s.other_plan { plan } else { "the same plan" };
                match s.step_time {
                    Some(t) => writeln!(f, "  {}: {same}, {t} a step", s.change)?,
                    None => writeln!(f, "  {}: {same}", s.change)?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for ModelSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &self.parameters;
        writeln!(f, "{} ({}): {} parameters", self.name, self.family, thousands(p.total as f64))?;
        for (name, n) in [
            ("embedding", p.embedding),
            ("head", p.lm_head),
            ("layers", p.layer_sum),
            ("other", p.other),
            ("routed experts", p.routed_experts),
            ("active per token", p.active),
            ("parameter tensors", p.tensors),
        ] {
            writeln!(f, "  {name:<18} {:>18}", thousands(n as f64))?;
        }
        if self.hidden == 0 {
            return writeln!(f, "  {} parts, traced", p.layers);
        }
        writeln!(
            f,
            "  {} layers, hidden {}, vocabulary {}, head {}",
            p.layers,
            self.hidden,
            self.vocabulary,
            if self.tied { "tied to the embedding" } else { "of its own" }
        )
    }
}
