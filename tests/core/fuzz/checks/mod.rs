//! Properties that hold for any input, one function per fuzz target. The fuzzer in `fuzz/` runs them, and `cargo test` runs
//! them on the committed corpus and its mutations.
//!
//! The first bytes of an input choose settings and splits (see [`Input`]), and the remaining bytes are what is read. A
//! check panics if its property does not hold.

#[allow(dead_code, reason = "a fuzz target uses a part of it")]
mod detected;
mod engine;
mod exchange;
mod finder;
mod found;
mod http1;
mod input;
mod json;
mod literal;
mod markup;
mod params;
mod quoted;
mod reader;
mod request;
mod sse;
mod template;

#[allow(unused_imports, reason = "a fuzz target uses one check and no seeds")]
pub(crate) use self::detected::{Call, Found};
#[allow(unused_imports, reason = "a fuzz target uses one check")]
pub(crate) use self::http1::http1;
#[allow(unused_imports, reason = "a fuzz target uses one check")]
pub(crate) use self::markup::{has_markup, is_said};
#[allow(unused_imports, reason = "a fuzz target uses one check and no seeds")]
pub(crate) use self::{
    engine::engine,
    exchange::{UPSTREAMS, exchange},
    finder::finder,
    found::find,
    input::code,
    json::json,
    literal::literal,
    params::params,
    quoted::quoted,
    reader::reader,
    request::request,
    sse::sse,
    template::template,
};

/// A check and its name, which is also the name of its fuzz target and its folder in `fuzz/corpus`.
pub(crate) type Check = (&'static str, fn(&[u8]));

#[allow(dead_code, reason = "a fuzz target runs one")]
pub(crate) const ALL: &[Check] = &[
    ("engine", engine),
    ("exchange", exchange),
    ("finder", finder),
    ("http1", http1),
    ("json", json),
    ("literal", literal),
    ("params", params),
    ("quoted", quoted),
    ("reader", reader),
    ("request", request),
    ("sse", sse),
    ("template", template),
];
