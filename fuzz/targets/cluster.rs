//! The text that names a cluster.
#![no_main]

shardwise_fuzz::target!(shardwise_fuzz::cluster, shardwise_fuzz::mutate::bytes);
