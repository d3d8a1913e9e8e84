//! A user's catalogue.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::catalog, shardwise_fuzz::mutate::catalog);
