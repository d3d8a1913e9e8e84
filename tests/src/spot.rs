//! `accuracy spot`: completion under spot evictions, predicted from twelve figures and replayed on
//! the recorded availability of the machines.
//!
//! The file is a table as `tests/data/traces/spot_traces.csv`; each row's trace is `NAME.csv`
//! beside it, a step function `t_s,nodes` with comments after `#` and a last row `t,END`. A row's
//! figure is the mean completion time of a standard job over evenly spread start moments.

use std::path::Path;

use serde_json::{Value, json};
use shardwise::Seconds;
use shardwise::preemption::{Finish, Outlook, Policy, RestartJob, Trace, TraceStep, Weights, replay};

use crate::score::{Score, Scored, quantile, round};

/// Start moments replayed on each trace.
const STARTS: u32 = 400;
/// Traces whose gang is complete for less of the time are left out.
const LEAST_SHARE: f64 = 0.1;
/// Jobs that need more laps of the trace are left out.
const LAPS: u32 = 2;
/// Intervals tried for the replayed optimum, from 3 min to 4 h in equal ratios.
const INTERVALS: u32 = 40;

/// The standard job on a trace: a day's work, or a quarter of the trace where that is shorter.
pub fn standard_job(trace: &Trace) -> RestartJob {
    let s = |x: f64| Seconds::new(x).unwrap_or_default();
    RestartJob {
        work: s(86_400.0_f64.min(trace.length().get() / 4.0)),
        interval: s(1800.0),
        save: s(60.0),
        restore: s(300.0),
        provision: s(120.0),
    }
}

/// Reads a step function of nodes over time.
pub fn read_trace(text: &str) -> Result<Trace, String> {
    let mut steps = Vec::new();
    let mut length = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') || line.starts_with("t_s") {
            continue;
        }
        let bad = || format!("not a step `t,nodes`: {line}");
        let (at, nodes) = line.split_once(',').ok_or_else(bad)?;
        let at = at.trim().parse().ok().and_then(Seconds::new).ok_or_else(bad)?;
        if nodes.trim() == "END" {
            length = Some(at);
        } else {
            steps.push(TraceStep { at, nodes: nodes.trim().parse().map_err(|_| bad())? });
        }
    }
    Trace::new(steps, length.ok_or("no END row")?).map_err(|e| e.to_string())
}

/// Mean and sorted times of replays that all ended.
fn times(finishes: &[Option<Finish>]) -> Option<(f64, Vec<f64>)> {
    let mut times = finishes.iter().map(|f| f.map(|f| f.time.get())).collect::<Option<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Some((times.iter().sum::<f64>() / times.len() as f64, times))
}

struct Case {
    scored: Scored,
    /// What the model was told, by name.
    seen: Vec<(&'static str, f64)>,
    p90_error_pct: f64,
    p90: (f64, f64),
    covered: f64,
    width_pct: f64,
    interval: (f64, f64),
    interval_excess_pct: f64,
}

fn case(name: &str, source: &str, target: u32, trace: &Trace) -> Result<Case, String> {
    if trace.share_up(target) < LEAST_SHARE {
        return Err("gang complete less than 10 % of the time".to_owned());
    }
    let job = standard_job(trace);
    let fail = |e: shardwise::Error| e.to_string();
    let replayed = |job: &RestartJob| replay(trace, target, job, Policy::Wait, STARTS, LAPS).map_err(fail);
    let (measured, sorted) = times(&replayed(&job)?).ok_or("job needs more than two laps of the trace")?;
    let availability = trace.describe(target).ok_or("gang never complete")?;
    let outlook = Outlook::new(&job, &availability).map_err(fail)?;
    let predicted = outlook.expected().get();
    let (low, high) = (outlook.quantile(0.1).get(), outlook.quantile(0.9).get());
    let p90 = quantile(&sorted, 0.9);

    let ours = outlook.best_interval(Weights::TIME);
    let cost = |interval: Seconds| Ok::<_, String>(times(&replayed(&job.every(interval))?).map(|t| t.0));
    let mut best = (f64::INFINITY, 0.0);
    for i in 0..INTERVALS {
        let ratio = f64::from(i) / f64::from(INTERVALS - 1);
        let interval = Seconds::new((180.0 * 80.0_f64.powf(ratio)).min(job.work.get())).unwrap_or_default();
        if let Some(c) = cost(interval)?.filter(|c| *c < best.0) {
            best = (c, interval.get());
        }
    }
    let excess = cost(ours)?.map_or(f64::INFINITY, |c| 100.0 * (c / best.0 - 1.0)).max(0.0);
    Ok(Case {
        scored: Scored {
            id: name.to_owned(),
            publisher: source.to_owned(),
            predicted,
            measured,
            interval80: None,
        },
        seen: availability.figures(),
        p90_error_pct: 100.0 * (high / p90 - 1.0),
        p90: (high, p90),
        covered: sorted.iter().filter(|t| (low..=high).contains(*t)).count() as f64 / sorted.len() as f64,
        width_pct: 100.0 * (high - low) / predicted,
        interval: (ours.get(), best.1),
        interval_excess_pct: excess,
    })
}

/// Scores every trace of a summary file.
pub fn score(file: &Path) -> Result<Score, String> {
    let mut reader = csv::Reader::from_path(file).map_err(|e| e.to_string())?;
    let headers = reader.headers().map_err(|e| e.to_string())?.clone();
    let mut out = Score::default();
    let mut cases = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| e.to_string())?;
        let get =
            |name: &str| headers.iter().position(|h| h == name).and_then(|i| record.get(i)).unwrap_or("");
        out.rows += 1;
        let name = get("name");
        let beside = file.parent().unwrap_or(Path::new(".")).join(format!("{name}.csv"));
        let Ok(text) = std::fs::read_to_string(&beside) else {
            out.skip("trace file not there");
            continue;
        };
        let Ok(target) = get("target_nodes").parse() else {
            out.skip("no target_nodes");
            continue;
        };
        out.complete += 1;
        let source = get("source").split(" traces/").next().unwrap_or("");
        let source = source.split(" doc/").next().unwrap_or("");
        match read_trace(&text).and_then(|trace| case(name, source, target, &trace)) {
            Ok(case) => cases.push(case),
            Err(reason) => out.skip(reason),
        }
    }
    out.extra = match extra(&cases) {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    };
    out.scored = cases.into_iter().map(|c| c.scored).collect();
    Ok(out)
}

fn extra(cases: &[Case]) -> Value {
    let sorted = |of: fn(&Case) -> f64| {
        let mut v: Vec<f64> = cases.iter().map(of).collect();
        v.sort_by(f64::total_cmp);
        v
    };
    let p90 = sorted(|c| c.p90_error_pct.abs());
    let excess = sorted(|c| c.interval_excess_pct);
    let covered = sorted(|c| 100.0 * c.covered);
    let by_trace: Vec<Value> = cases
        .iter()
        .map(|c| {
            json!({
                "name": c.scored.id,
                "predicted_h": round(c.scored.predicted / 3600.0),
                "replayed_h": round(c.scored.measured / 3600.0),
                "error_pct": round(c.scored.error_pct()),
                "p90_predicted_h": round(c.p90.0 / 3600.0),
                "p90_replayed_h": round(c.p90.1 / 3600.0),
                "p90_error_pct": round(c.p90_error_pct),
                "interval_s": round(c.interval.0),
                "interval_replayed_s": round(c.interval.1),
                "interval_excess_cost_pct": round(c.interval_excess_pct),
                "seen": c.seen.iter().map(|(name, x)| ((*name).to_owned(), json!(round(*x)))).collect::<serde_json::Map<_, _>>(),
            })
        })
        .collect();
    json!({
        "p90_time_abs_pct": round(quantile(&p90, 0.5)),
        "p90_time_p90_abs_pct": round(quantile(&p90, 0.9)),
        "interval_excess_cost_pct": round(quantile(&excess, 0.5)),
        "interval_excess_cost_p90_pct": round(quantile(&excess, 0.9)),
        "interval80_coverage_pct": round(covered.iter().sum::<f64>() / covered.len().max(1) as f64),
        "interval80_median_width_pct": round(quantile(&sorted(|c| c.width_pct), 0.5)),
        "traces": by_trace,
    })
}
