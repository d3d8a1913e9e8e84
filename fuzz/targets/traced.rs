//! A traced model.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::config, shardwise_fuzz::mutate::config);
