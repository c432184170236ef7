//! Encodes events for a client of Chat Completions, as a stream or as a single object.
//!
//! A stream has the one form that every client library understands (docs/protocols/chat.md#stream): the role
//! once, complete call heads, clean argument deltas, one finish, and the usage last. The writer relies on the
//! previous stage for call indexes without gaps, unique ids, and a single finish.

mod delta;
mod reasoning;
mod remainder;
mod stream;
mod whole;

use crate::ResponseWriter;

/// Writes a response to a client that speaks Chat Completions.
pub type Writer = ResponseWriter<stream::Stream, whole::Whole>;

/// The start of the ids that toolwire makes.
const ID: &str = "chatcmpl-";
