//! Laws of the boundary: what is written reads back, the same request gives the same bytes, and the
//! order of a catalogue's rows says nothing.

use std::fmt::Debug;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shardwise::strategies::{
    calibrate_request, catalog_request, catalog_rows, cluster, compare_request, describe_model_request,
    estimate_request, plan_request,
};
use shardwise::{Catalog, CatalogRows, estimate};

use crate::check::{Verdict, holds};

/// Request, JSON, request: nothing is lost, in text or as a value.
fn reads_back<R: Serialize + DeserializeOwned + PartialEq + Debug>(request: &R) -> Verdict {
    let text = serde_json::to_string(request).expect("a request is JSON");
    let read: R = serde_json::from_str(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert!(read == *request, "{text}");
    prop_assert_eq!(serde_json::to_string(&read).expect("JSON"), text);
    Ok(())
}

#[test]
fn requests_read_back_as_they_were_written() {
    holds(60, estimate_request(), |r| reads_back(&r));
    holds(30, plan_request(), |r| reads_back(&r));
    holds(8, compare_request(), |r| reads_back(&r));
    holds(8, calibrate_request(), |r| reads_back(&r));
    holds(100, describe_model_request(), |r| reads_back(&r));
    holds(50, catalog_request(), |r| reads_back(&r));
}

#[test]
fn the_crates_own_reader_and_writer_and_serde_say_the_same_every_time() {
    holds(25, estimate_request(), |request| {
        let text = serde_json::to_string(&request).expect("JSON");
        let called = shardwise::call("estimate", &text).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let typed = estimate(&request).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert!(called == serde_json::to_string(&typed).expect("JSON"), "another text: {text}");
        prop_assert!(shardwise::call("estimate", &text).as_ref() == Ok(&called), "another answer: {text}");
        Ok(())
    });
}

#[test]
fn plans_are_the_same_every_time() {
    holds(4, plan_request(), |request| {
        let text = serde_json::to_string(&request).expect("JSON");
        prop_assert_eq!(shardwise::call("plan", &text), shardwise::call("plan", &text));
        Ok(())
    });
}

/// Every list of rows in another order.
fn shuffled(rows: &CatalogRows, by: u64) -> CatalogRows {
    fn mix<T: Clone>(rows: &[T], by: u64) -> Vec<T> {
        let mut order: Vec<(u64, usize)> = (0..rows.len())
            .map(|i| ((i as u64 ^ by).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31), i))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, i)| rows[i].clone()).collect()
    }
    CatalogRows {
        schema_version: rows.schema_version,
        accelerators: mix(&rows.accelerators, by),
        instances: mix(&rows.instances, by),
        links: mix(&rows.links, by),
        platforms: mix(&rows.platforms, by),
        storage: mix(&rows.storage, by),
        sources: mix(&rows.sources, by),
    }
}

#[test]
fn permuting_the_catalogue_changes_nothing() {
    let embedded = Catalog::embedded();
    let mixed: Vec<Catalog> =
        (0..4).map(|by| Catalog::new(shuffled(embedded.rows(), by)).expect("the same rows")).collect();
    assert!(mixed.iter().all(|catalog| catalog.rows() == embedded.rows()));
    holds(100, (cluster(), 0_usize..4), |(spec, which)| {
        prop_assert_eq!(spec.resolve(embedded), spec.resolve(&mixed[which]));
        Ok(())
    });
    // Rows of one's own: of two of one key the last wins, so keys are drawn apart.
    holds(6, (catalog_rows(), any::<u64>()), |(mut rows, by)| {
        rows.accelerators.truncate(1);
        rows.instances.truncate(1);
        rows.links.truncate(1);
        let all = embedded.with_overrides(rows).expect("valid rows");
        let again = Catalog::new(shuffled(all.rows(), by)).expect("the same rows");
        prop_assert_eq!(again.rows(), all.rows());
        Ok(())
    });
}
