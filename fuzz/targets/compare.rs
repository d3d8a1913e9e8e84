//! Requests for a comparison.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::compare, shardwise_fuzz::mutate::compare);
