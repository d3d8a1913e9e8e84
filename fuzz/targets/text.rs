//! JSON text, read as `serde_json` reads it.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::json_text, shardwise_fuzz::mutate::bytes);
