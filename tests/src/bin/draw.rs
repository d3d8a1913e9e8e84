//! Draws requests for `tests/conformance/drawn.txt`: `draw > tests/conformance/drawn.txt`, then
//! `conformance-update` writes what they are answered. Needed anew only when requests gain fields that
//! the kept ones should use.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde::Serialize;
use serde_json::Value;
use shardwise::strategies;
use shardwise_tests::conformance::Drawn;

/// Requests of each verb.
const MANY: usize = 240;
const SOME: usize = 60;
const FEW: usize = 20;

fn main() {
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]));
    draw(&mut runner, "calibrate", FEW, strategies::calibrate_request());
    draw(&mut runner, "compare", FEW, strategies::compare_request());
    draw(&mut runner, "estimate", MANY, strategies::estimate_request());
    draw(&mut runner, "plan", SOME, strategies::plan_request());
}

/// Prints so many requests that are answered, each without what does not change its answer.
fn draw<S: Strategy<Value: Serialize>>(runner: &mut TestRunner, verb: &str, count: usize, of: S) {
    let mut left = count;
    while left > 0 {
        let Ok(tree) = of.new_tree(runner) else { continue };
        let Ok(mut request) = serde_json::to_value(tree.current()) else { continue };
        if shardwise::call(verb, &request.to_string()).is_err() {
            continue;
        }
        let answer = drawn(verb, &request).answered();
        prune(&mut request, &mut Vec::new(), &|request| drawn(verb, request).answered() == answer);
        let mut case = drawn(verb, &request);
        case.digest = answer;
        print!("{}", case.line());
        left -= 1;
    }
}

fn drawn(verb: &str, request: &Value) -> Drawn {
    Drawn { verb: verb.to_owned(), digest: String::new(), request: request.to_string() }
}

/// Takes out each field at or under `path` without which the request is `same`.
fn prune(request: &mut Value, path: &mut Vec<String>, same: &dyn Fn(&Value) -> bool) {
    let at = |request: &Value, path: &[String]| request.pointer(&pointer(path)).cloned();
    let keys: Vec<String> = match at(request, path) {
        Some(Value::Object(fields)) => fields.keys().cloned().collect(),
        Some(Value::Array(items)) => (0..items.len()).map(|i| i.to_string()).collect(),
        _ => return,
    };
    for key in keys {
        let before = request.clone();
        if let Some(Value::Object(fields)) = request.pointer_mut(&pointer(path)) {
            fields.shift_remove(&key);
            if same(request) {
                continue;
            }
            *request = before;
        }
        path.push(key);
        prune(request, path, same);
        path.pop();
    }
}

fn pointer(path: &[String]) -> String {
    path.iter().fold(String::new(), |text, key| text + "/" + key)
}
