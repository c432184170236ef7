//! The laws of the architecture as properties of the detector alone, which can be tested with millions of bytes, and
//! of the complete pipeline.
//!
//! 1. What a client has at the end does not depend on how the input was split.
//! 2. Nothing is held that is already certain.
//! 3. Nothing is lost and nothing is invented.
//! 4. Time is linear and memory is bounded.
//! 5. A call is a call only if it can be one.
//! 6. What is not changed is forwarded unchanged.
//! 7. A truncated response never looks complete.

mod blocks;
mod calls;
mod detector;
mod hops;
mod hosted;
mod limits;
mod markup;
mod names;
mod native;
mod prefill;
mod reasoning;
mod retry;
mod round_trips;
mod server_calls;
mod soup;
mod streams;
mod text;
mod work;

use crate::support::generated::tries;
