//! A model's config.json.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::config, shardwise_fuzz::mutate::config);
