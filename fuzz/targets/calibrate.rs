//! Requests to calibrate.
#![no_main]

fn run(data: &[u8]) {
    shardwise_fuzz::request("calibrate", data);
}

shardwise_fuzz::target!(run, shardwise_fuzz::mutate::calibrate);
