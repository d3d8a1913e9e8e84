//! Completion under recorded spot evictions, for the traces that may be shipped.

use std::path::Path;

use shardwise::Seconds;
use shardwise::preemption::{Availability, Outlook, Policy, Start, replay, spot_zones};
use shardwise_tests::spot::{read_trace, score, standard_job};

fn traces() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/traces")
}

/// Seven traces, four of them of a gang that is hardly ever complete: the rest are records of a day
/// with a few dozen spells, the hardest of all.
#[test]
fn shipped_traces_are_scored() {
    let score = score(&traces().join("spot_traces.csv")).unwrap();
    assert_eq!(score.rows, 7);
    assert_eq!(score.scored.len(), 3);
    let skipped: usize = score.skipped.values().sum();
    assert_eq!(skipped, 4);
    for row in &score.scored {
        assert!(row.error_pct().abs() < 15.0, "{}: {:.1} %", row.id, row.error_pct());
    }
}

/// The replayed gang of 16 took 87.2 h for a day's work and 154.8 h in one case of ten. A
/// memoryless model with the same mean spells is a fifth off.
#[test]
fn the_recorded_gang_of_sixteen_is_predicted_from_its_figures() {
    let zone = spot_zones().iter().find(|z| z.id == "aws-us-east-2b-v100-x16").unwrap();
    let s = |x: f64| Seconds::new(x).unwrap();
    let job = shardwise::preemption::RestartJob {
        work: s(86_400.0),
        interval: s(1800.0),
        save: s(60.0),
        restore: s(300.0),
        provision: s(120.0),
    };
    let outlook = Outlook::new(&job, &zone.availability).unwrap();
    assert!((outlook.expected().hours() / 87.24 - 1.0).abs() < 0.04, "{}", outlook.expected());
    let up = zone.availability.up.as_ref().unwrap().mean;
    let plain =
        Availability { start: Start::AnyMoment, ..Availability::memoryless(up, zone.availability.down.mean) };
    let plain = Outlook::new(&job, &plain).unwrap().expected().hours();
    assert!((plain / 87.24 - 1.0).abs() > 0.15, "{plain}");
    assert!((outlook.quantile(0.9).hours() / 154.75 - 1.0).abs() < 0.15, "{}", outlook.quantile(0.9));
}

/// Falling back to firm machines after an hour of waiting, replayed on the longest shipped trace.
#[test]
fn falling_back_is_predicted_on_a_recorded_fleet() {
    let name = "bamboo_doc_aws-spot-instances-p2-xlarge-2020-11-20-to-2020-11-23.csv";
    let trace = read_trace(&std::fs::read_to_string(traces().join(name)).unwrap()).unwrap();
    let job = standard_job(&trace);
    let policy = Policy::FallBack { patience: Seconds::new(1200.0).unwrap() };
    let runs = replay(&trace, 16, &job, policy, 400, 2).unwrap();
    let runs: Vec<_> = runs.into_iter().flatten().collect();
    let mean =
        |of: fn(&shardwise::preemption::Finish) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let outlook = shardwise::preemption::outlook_of(&job, &trace.describe(16).unwrap(), policy).unwrap();
    let time = mean(|f| f.time.get());
    let firm = mean(|f| f.on_demand.get());
    assert!((outlook.expected().get() / time - 1.0).abs() < 0.04, "{} {time}", outlook.expected().get());
    assert!((outlook.firm_time().get() - firm).abs() < 0.15 * time, "{} {firm}", outlook.firm_time().get());
}
