//! The core's public interface as one text, so that a change of it is seen in a review.
//!
//! Read from the pages that rustdoc writes: its JSON needs a nightly toolchain, and the pinned one
//! writes the same pages every time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;

const KEPT: &str = "core/api.txt";

/// Writes the file.
pub fn write(root: &Path) -> Outcome {
    let text = interface(root)?;
    println!("{KEPT}: {} lines", text.lines().count());
    Ok(fs::write(root.join(KEPT), text)?)
}

/// Fails when the file is not what the sources say.
pub fn check(root: &Path) -> Outcome {
    let (kept, now) = (fs::read_to_string(root.join(KEPT))?, interface(root)?);
    let (kept, now): (BTreeSet<&str>, BTreeSet<&str>) = (kept.lines().collect(), now.lines().collect());
    if kept == now {
        return Ok(());
    }
    let lines = |of: &BTreeSet<&str>, than: &BTreeSet<&str>, sign: char| -> String {
        of.difference(than).map(|line| format!("{sign} {line}\n")).collect::<Vec<_>>().concat()
    };
    let (gone, new) = (lines(&kept, &now, '-'), lines(&now, &kept, '+'));
    Err(format!("the public interface changed; if that is meant, `cargo xtask api` writes it:\n{gone}{new}")
        .into())
}

fn interface(root: &Path) -> Outcome<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let pages = target.join("doc/shardwise");
    if pages.exists() {
        fs::remove_dir_all(&pages)?;
    }
    let arguments = ["doc", "--quiet", "--package", "shardwise", "--no-deps", "--locked"];
    let status = Command::new(env!("CARGO")).current_dir(root).args(arguments).status()?;
    if !status.success() {
        return Err(format!("cargo doc: {status}").into());
    }
    let index = fs::read_to_string(pages.join("all.html"))?;
    let mut lines = Vec::new();
    for page in between(&index, "<li><a href=\"", "\"").filter(|page| !page.starts_with('#')) {
        lines.extend(item(page, &fs::read_to_string(pages.join(page))?));
    }
    lines.sort();
    lines.dedup();
    Ok(lines.join("\n") + "\n")
}

/// What a page declares: the item, its own functions, the traits it implements.
fn item(page: &str, text: &str) -> Vec<String> {
    let (folder, file) = page.rsplit_once('/').unwrap_or(("", page));
    let name = file.split('.').nth(1).unwrap_or_default();
    let path = format!("shardwise::{}", [folder, name].join("/").trim_matches('/').replace('/', "::"));
    let own = text.split("id=\"synthetic-implementations\"").next().unwrap_or_default();
    let (inherent, traits) = own.split_once("id=\"trait-implementations\"").unwrap_or((own, ""));
    let declared = between(inherent, "<pre class=\"rust item-decl\"><code>", "</code></pre>");
    let functions = between(inherent, "<h4 class=\"code-header\">", "</h4>");
    let implemented = between(traits, "<h3 class=\"code-header\">", "</h3>");
    declared.chain(functions).chain(implemented).map(|code| format!("{path}: {}", plain(code))).collect()
}

fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(open).skip(1).filter_map(move |rest| rest.split_once(close).map(|(inside, _)| inside))
}

/// The text of a piece of a page, on one line.
fn plain(html: &str) -> String {
    let mut out = String::new();
    for piece in html.split('<') {
        out.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
    }
    let out = out.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'").replace("&quot;", "\"");
    out.replace("&amp;", "&").split_whitespace().collect::<Vec<_>>().join(" ")
}
