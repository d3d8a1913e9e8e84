//! Derives the core's own reader and writer of JSON, from the very attributes that serde reads, so
//! that a type is declared once and means the same to both.
//!
//! What serde derives is a program for each type; what this derives is a table of names and one
//! `match` from a field's place to the field. One walk, not generic, serves all tables: in the WASM
//! module that is a third of the size.

mod attributes;
mod read;
mod write;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `crate::read::FromJson`.
#[proc_macro_derive(FromJson, attributes(serde))]
pub fn from_json(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    read::derive(&input).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Derives `crate::write::ToJson`.
#[proc_macro_derive(ToJson, attributes(serde))]
pub fn to_json(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    write::derive(&input).unwrap_or_else(|e| e.to_compile_error()).into()
}
