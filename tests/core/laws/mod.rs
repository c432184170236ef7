//! The laws of the architecture as property tests, both of the detector by itself, which can process millions of
//! bytes in a test, and of the complete pipeline.
//!
//! 1. The client's final response does not depend on how the input was split.
//! 2. Only text whose meaning is still undecided is held back.
//! 3. Nothing is lost and nothing is invented.
//! 4. Time is linear and memory is bounded.
//! 5. Only text that can be a call becomes one.
//! 6. Whatever needs no change is forwarded unchanged.
//! 7. A truncated response never looks complete.
//! 8. A call is whole, or it is said to be broken (tested for every format in `rendered`).

mod blocks;
mod calls;
mod detector;
mod faulty;
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
