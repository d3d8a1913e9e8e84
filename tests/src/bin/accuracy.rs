//! `accuracy KIND FILE`: scores the planner against a corpus of measured runs and prints a table
//! by source and, last, one line of JSON. `--worst N` shows the N rows furthest off; `--row ID` opens
//! the memory predicted for one row; `--choices FILE` holds the layouts of large published runs against
//! the plans for the same machines; `--document DIR` writes `accuracy.md` and its plots there.

use std::path::Path;
use std::process::ExitCode;

use shardwise_tests::score::Score;

type Scorer = fn(&Path) -> Result<Score, String>;

const KINDS: &[(&str, Scorer)] = &[
    ("flops", shardwise_tests::flops::score),
    ("memory", shardwise_tests::memory::score),
    ("oracle", shardwise_tests::oracle::score),
    ("params", shardwise_tests::params::score),
    ("spot", shardwise_tests::spot::score),
    ("throughput", shardwise_tests::throughput::score),
];

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let worst = args.iter().position(|a| a == "--worst").map_or(0, |i| {
        let n = args.get(i + 1).and_then(|n| n.parse().ok()).unwrap_or(20);
        args.drain(i..(i + 2).min(args.len()));
        n
    });
    if let [flag, file] = args.as_slice()
        && flag == "--choices"
    {
        return match shardwise_tests::throughput::choices(Path::new(file), 256) {
            Ok(choices) => {
                for c in choices {
                    let against = c.against.as_deref().unwrap_or("runs");
                    println!(
                        "{:<18} {:>6} {:<20} {:>+7.1} %  {} | {}  {against}",
                        c.id,
                        c.gpus,
                        c.model,
                        100.0 * c.excess(),
                        c.names.1,
                        c.names.0
                    );
                }
                ExitCode::SUCCESS
            }
            Err(e) => {
                eprintln!("accuracy: {e}");
                ExitCode::from(2)
            }
        };
    }
    if let [flag, docs] = args.as_slice()
        && flag == "--document"
    {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        return match shardwise_tests::document::generate(&data, Path::new(docs)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("accuracy: {e}");
                ExitCode::from(2)
            }
        };
    }
    if let Some(i) = args.iter().position(|a| a == "--row") {
        let id = args.get(i + 1).cloned().unwrap_or_default();
        let file = args.get(1).cloned().unwrap_or_default();
        let explain = match args.first().map(String::as_str) {
            Some("oracle") => shardwise_tests::oracle::explain,
            _ => shardwise_tests::memory::explain,
        };
        return match explain(Path::new(&file), &id) {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(e) => {
                eprintln!("accuracy: {e}");
                ExitCode::from(2)
            }
        };
    }
    let known: Vec<&str> = KINDS.iter().map(|(k, _)| *k).collect();
    let [kind, file] = args.as_slice() else {
        eprintln!("usage: accuracy KIND FILE [--worst N], KIND one of {}", known.join(", "));
        return ExitCode::from(2);
    };
    let Some((_, scorer)) = KINDS.iter().find(|(k, _)| k == kind) else {
        eprintln!("accuracy: unknown kind {kind}; one of {}", known.join(", "));
        return ExitCode::from(2);
    };
    match scorer(Path::new(file)) {
        Ok(score) => {
            print!("{}", score.table());
            if worst > 0 {
                print!("{}", score.worst(worst));
                score.notes.iter().for_each(|n| println!("{n}"));
            }
            println!("{}", score.summary());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("accuracy: {e}");
            ExitCode::from(2)
        }
    }
}
