//! A trace of nodes over time.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::trace, shardwise_fuzz::mutate::trace);
