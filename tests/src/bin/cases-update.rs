//! Writes `docs/cases.md` anew from the claims and their requests.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cases.md");
    fs::write(path, shardwise_tests::cases::page()?)
}
