//! Encodes events for a client of text completions, as a stream or as a single object
//! (docs/protocols/completions.md#clients).
//!
//! The API has no calls, and clients cannot declare tools. A call that an upstream makes nevertheless is in the list
//! `calls` of toolwire's own member, with its arguments as the model wrote them.

mod stream;
mod whole;

use crate::{ResponseWriter, event::Finish, finish};

/// Writes a response to a client of text completions.
pub type Writer = ResponseWriter<stream::Stream, whole::Whole>;

/// The start of the ids that toolwire makes.
const ID: &str = "cmpl-";

/// The type of responses and of chunks.
const OBJECT: &str = "text_completion";

/// The finish reason, of which the API has no word for calls.
fn finish_word(finish: Finish) -> &'static str {
    finish::finish_word(if finish == Finish::Calls { Finish::Stop } else { finish })
}
