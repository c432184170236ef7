//! The laws of the architecture as properties: of the detector alone, where millions of bytes can be tried, and of the
//! whole pipeline.
//!
//! 1. What a client has at the end does not depend on where the input was cut.
//! 2. Nothing is held that is already certain.
//! 3. Nothing is lost and nothing is invented.
//! 4. What is held is bounded, and so is all else.
//! 5. A call is a call only if it can be one.
//! 6. What is not touched is forwarded as it is.
//! 7. An answer that was cut off never looks whole.

mod calls;
mod detector;
mod limits;
mod markup;
mod native;
mod server_calls;
mod soup;
mod streams;
mod text;
mod work;

use proptest::test_runner::Config;

/// So many tries a law; no file is written where one fails.
fn tries(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}
