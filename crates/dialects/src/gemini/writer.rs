//! Encodes events for a client of this API, as a stream or as a single object (docs/protocols/gemini.md#clients).
//!
//! Every element of a stream is a response object with the next part. Calls are written when they are complete,
//! since their arguments are an object. The last element has the finish reason, the token counts and the sources.

mod ending;
mod grounding;
mod parts;
mod stream;
mod whole;

use crate::{Answering, Dialect, Ids, ResponseWriter, event::Start, wire::json::Encoder};

use super::decode::{ARRAY, TEXT_ONLY};

/// Writes a response to a client that speaks Gemini's API.
pub type Writer = ResponseWriter<stream::Stream, whole::Whole>;

const DIALECT: &str = Dialect::Gemini.name();

/// What is the same in all elements of a response.
#[derive(Debug)]
struct Head {
    id: String,
    model: String,
}

impl Head {
    /// Generates values for upstreams that send no head.
    fn new(answering: &Answering) -> Self {
        Self { id: Ids::new(answering.stamp.seed, ID_SALT).next(""), model: answering.model.clone() }
    }

    /// Replaces the generated values with the upstream's.
    fn take(&mut self, start: &Start<'_>) {
        if !start.id.is_empty() {
            self.id = start.id.to_string();
        }
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
    }

    /// Writes the members that contain the head.
    fn put(&self, body: &mut Encoder) {
        body.key("modelVersion").string(&self.model);
        body.key("responseId").string(&self.id);
    }
}

/// What the request says about the form of the response.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Whether a stream is a JSON array.
    array: bool,
    /// Whether the client has not asked for the model's thoughts.
    text_only: bool,
}

impl Asked {
    fn new(answering: &Answering) -> Self {
        let flags = answering.repeated.from_dialect(DIALECT);
        let has = |name: &str| flags.is_some_and(|flags| flags.contains_key(name));
        Self { array: has(ARRAY), text_only: has(TEXT_ONLY) }
    }
}

/// Makes response ids differ from other ids with the same seed.
const ID_SALT: u64 = 0x6765_6d69;
