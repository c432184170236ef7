//! What the tests of the whole pipeline share: an upstream's bytes made from events, one exchange run through a
//! [`Pipeline`](toolwire::pipeline::Pipeline) in any cut, and a client of its own that reads what came out.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod client;
pub(crate) mod cuts;
pub(crate) mod exchange;
pub(crate) mod upstream;
