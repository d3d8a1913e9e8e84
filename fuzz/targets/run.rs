//! A run: checkpoints, faults, expenses, machines of one's own.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::run, shardwise_fuzz::mutate::run);
