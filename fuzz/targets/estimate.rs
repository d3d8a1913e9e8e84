//! Requests to estimate.
#![no_main]

fn run(data: &[u8]) {
    shardwise_fuzz::request("estimate", data);
}

shardwise_fuzz::target!(run, shardwise_fuzz::mutate::estimate);
