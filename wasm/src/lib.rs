//! The browser's and Node's face of shardwise. It holds no logic and no types: the core reads the
//! request's text and prints the answer's, so that the bytes are those of every other face.

use wasm_bindgen::prelude::wasm_bindgen;

/// Answers a request: `{"answer": ..}` or `{"error": ..}`, as the core prints it. Never throws.
#[must_use]
#[wasm_bindgen]
pub fn call(verb: &str, request: &str) -> String {
    shardwise::call_json(verb, request)
}

/// The answer as text for a person; for a faulty request the error's message. Never throws.
#[must_use]
#[wasm_bindgen(js_name = callText)]
pub fn call_text(verb: &str, request: &str) -> String {
    shardwise::call_text(verb, request).unwrap_or_else(|error| error.to_string())
}

/// The version of the core.
#[must_use]
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
