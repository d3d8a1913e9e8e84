//! Requests for a plan.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::plan, shardwise_fuzz::mutate::plan);
