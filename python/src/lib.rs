//! The Python face: text in, text out. Types, torch and printing live in the Python package.

/// The native half of `shardwise`: the planning core, text in and text out.
#[pyo3::pymodule]
mod _native {
    use pyo3::import_exception;
    use pyo3::prelude::*;

    import_exception!(shardwise._error, Error);

    /// Python's exception for a fault of the core; it reads field, code, given and allowed.
    fn raised(e: &shardwise::Error) -> PyErr {
        Error::new_err(e.to_json())
    }

    /// Answers a request given as JSON text with JSON text.
    #[pyfunction]
    fn call(py: Python<'_>, verb: &str, request: &str) -> PyResult<String> {
        py.detach(|| shardwise::call(verb, request)).map_err(|e| raised(&e))
    }

    /// The same as `call`, as text for a person.
    #[pyfunction]
    fn call_text(py: Python<'_>, verb: &str, request: &str) -> PyResult<String> {
        py.detach(|| shardwise::call_text(verb, request)).map_err(|e| raised(&e))
    }

    /// The same as `call`, never raising: `{"answer": ..}` or `{"error": ..}`, as every face prints it.
    #[pyfunction]
    fn call_json(py: Python<'_>, verb: &str, request: &str) -> String {
        py.detach(|| shardwise::call_json(verb, request))
    }

    /// The names of the models that the core knows without a config.
    #[pyfunction]
    fn preset_names() -> Vec<&'static str> {
        shardwise::preset_names().collect()
    }

    /// Version of the core.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
