//! Runs a law over many cases.

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// What a law says of one case.
pub type Verdict = Result<(), TestCaseError>;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

/// How many of so many cases are drawn: a quarter without optimisation, where a run takes tens of
/// times longer to answer for; `LAWS_CASES` times as many.
fn scaled(cases: u32) -> u32 {
    let cases = if cfg!(debug_assertions) { cases.div_ceil(4) } else { cases };
    cases.saturating_mul(number("LAWS_CASES").unwrap_or(1) as u32)
}

/// A runner that draws the same every time, each stream something else.
pub fn stream(stream: u64) -> TestRunner {
    of(1, stream)
}

fn of(cases: u32, stream: u64) -> TestRunner {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&number("LAWS_SEED").unwrap_or(0).to_le_bytes());
    seed[8..16].copy_from_slice(&stream.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// A law holds in every case; if not, the least case in which it does not is shown.
pub fn holds<S: Strategy>(cases: u32, of: S, law: impl Fn(S::Value) -> Verdict)
where
    S::Value: Debug,
{
    match self::of(scaled(cases), 0).run(&of, law) {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("{why}\n{}", short(&case)),
        Err(TestError::Abort(why)) => panic!("too many cases are rejected: {why}"),
    }
}

/// A case as text, cut where it is endless.
fn short(case: &impl Debug) -> String {
    format!("{case:?}").chars().take(6000).collect()
}

/// Two figures that differ by rounding alone.
pub fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-300)
}
