//! The checks of the fuzz targets, compiled once for all of them. The tests run the same files on stable Rust.

#![allow(dead_code, reason = "the tests use the rest")]

#[path = "../../tests/core/fuzz/checks/mod.rs"]
mod checks;
#[path = "../../tests/support"]
mod support {
    pub(crate) mod client;
    pub(crate) mod completions;
    pub(crate) mod cuts;
    pub(crate) mod exchange;
    pub(crate) mod gemini;
    pub(crate) mod hostile;
    pub(crate) mod interactions;
    mod interactions_upstream;
    pub(crate) mod messages;
    pub(crate) mod ollama;
    pub(crate) mod responses;
    mod responses_upstream;
    pub(crate) mod upstream;
}

/// Runs the check that is called `name` on an input.
///
/// # Panics
/// Its property does not hold.
pub fn check(name: &str, data: &[u8]) {
    let (_, check) = checks::ALL.iter().find(|(known, _)| *known == name).expect("a check");
    check(data);
}
