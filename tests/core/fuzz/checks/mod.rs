//! Properties that hold for any input: one function per fuzz target, run by the fuzzer (`fuzz/`) and, over the committed
//! corpus and its mutations, by `cargo test`.
//!
//! A check takes bytes. The first bytes choose settings and splits ([`Input`]), and the rest is the input to read. A
//! check panics if a property does not hold.

#[allow(dead_code, reason = "a fuzz target uses a part of it")]
mod detected;
mod engine;
mod found;
mod http1;
mod input;
mod json;
mod literal;
mod params;
mod reader;
mod sse;

#[allow(unused_imports, reason = "a fuzz target uses one check and no seeds")]
pub(crate) use self::detected::{Call, Found};
#[allow(unused_imports, reason = "a fuzz target uses one check")]
pub(crate) use self::http1::http1;
#[allow(unused_imports, reason = "a fuzz target uses one check and no seeds")]
pub(crate) use self::{
    engine::engine, found::find, input::code, json::json, literal::literal, params::params, reader::reader,
    sse::sse,
};

/// A check with its name, which is also the name of its fuzz target and of its folder in `fuzz/corpus`.
pub(crate) type Check = (&'static str, fn(&[u8]));

/// All checks.
#[allow(dead_code, reason = "a fuzz target runs one")]
pub(crate) const ALL: &[Check] = &[
    ("engine", engine),
    ("http1", http1),
    ("json", json),
    ("literal", literal),
    ("params", params),
    ("reader", reader),
    ("sse", sse),
];
