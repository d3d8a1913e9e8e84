//! The page of worked cases says what the core answers today.

use std::fs;
use std::path::Path;

#[test]
fn the_page_is_what_the_core_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cases.md");
    let (kept, given) = (fs::read_to_string(path).unwrap(), shardwise_tests::cases::page().unwrap());
    for (line, (kept, given)) in (1..).zip(kept.lines().zip(given.lines())) {
        assert_eq!(kept, given, "docs/cases.md:{line}: `cargo xtask update` writes it anew");
    }
    assert_eq!(kept.lines().count(), given.lines().count());
}
