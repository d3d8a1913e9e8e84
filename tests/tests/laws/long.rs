//! The long run, by hand: `LAWS_CASES=1000000 cargo test --release -p shardwise-tests --test laws --
//! --ignored --nocapture million`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use shardwise::strategies::{estimate_request, plan_request};

use crate::answers::{estimate_is_sound, plan_is_sound};
use crate::check::{Verdict, stream};

/// No answer takes longer, an estimate with its run or a plan of a small space.
const LONGEST: Duration = Duration::from_secs(20);

/// Draws and asks, on as many threads as there are cores, and tells what was seen.
fn sweep<S: Strategy>(what: &str, cases: u32, of: fn() -> S, law: fn(&S::Value) -> Verdict)
where
    S::Value: serde::Serialize,
{
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let begun = Instant::now();
    let results: Vec<(u32, (Duration, String), Vec<String>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let strategy = of();
                    let mut runner = stream(u64::from(thread));
                    let (mut slowest, mut failures) = ((Duration::ZERO, String::new()), Vec::new());
                    let drawn = cases / threads + u32::from(thread < cases % threads);
                    for _ in 0..drawn {
                        let request = strategy.new_tree(&mut runner).expect("a sample").current();
                        let text = || serde_json::to_string(&request).expect("a request is JSON");
                        let asked = Instant::now();
                        let verdict = catch_unwind(AssertUnwindSafe(|| law(&request)));
                        let took = asked.elapsed();
                        if took > slowest.0 {
                            slowest = (took, text());
                        }
                        match verdict {
                            Ok(Ok(())) if took < LONGEST => {}
                            Ok(Ok(())) => failures.push(format!("{took:?}: {}", text())),
                            Ok(Err(why)) => failures.push(format!("{why}: {}", text())),
                            Err(_) => failures.push(format!("a panic: {}", text())),
                        }
                    }
                    (drawn, slowest, failures)
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().expect("a worker")).collect()
    });
    let drawn: u32 = results.iter().map(|r| r.0).sum();
    let (slowest, which) = results.iter().map(|r| &r.1).max().cloned().unwrap_or_default();
    let failures: Vec<&String> = results.iter().flat_map(|r| &r.2).collect();
    println!(
        "{what}: {drawn} requests, {} failures, slowest {slowest:.2?}, {:.0?} in all",
        failures.len(),
        begun.elapsed()
    );
    println!("the slowest: {which}");
    for failure in failures.iter().take(20) {
        println!("{failure}");
    }
    assert!(failures.is_empty());
}

fn asked() -> u32 {
    std::env::var("LAWS_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1000)
}

#[test]
#[ignore = "takes hours; run by hand"]
fn million_estimates() {
    sweep("estimate", asked(), estimate_request, estimate_is_sound);
}

#[test]
#[ignore = "takes hours; run by hand"]
fn million_plans() {
    sweep("plan", asked() / 50, plan_request, plan_is_sound);
}
