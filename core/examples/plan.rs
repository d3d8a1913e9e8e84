//! Answers a request: `cargo run --example plan -- plan '{"model": "llama-3.1-8b", ...}'`.

fn main() {
    let mut args = std::env::args().skip(1);
    let verb = args.next().unwrap_or_else(|| "plan".to_owned());
    let request = args.next().unwrap_or_else(|| {
        r#"{"model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 8192,
            "global_batch": 64, "run": {"tokens": 1e10}}"#
            .to_owned()
    });
    match shardwise::call_text(&verb, &request) {
        Ok(text) => print!("{text}"),
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(2);
        }
    }
}
