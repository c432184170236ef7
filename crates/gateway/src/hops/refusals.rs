//! What an upstream's error to a request may be about.

use http::StatusCode;

use super::AskAgain;
use toolwire_pipeline::{
    conversation::TOOL_MEDIA,
    dialect::{MediaRefusal, refuses_media},
};

/// Whether an error may mean that the server does not support a constraint. Most servers then respond with status 400
/// or 422, others with a server error that names the constraint
/// (docs/protocols/enforcement.md#schemas-for-the-whole-response).
pub(super) fn may_mean_a_constraint(status: StatusCode, body: &[u8]) -> bool {
    const WORDS: [&[u8]; 4] = [b"response_format", b"literal_error", b"grammar", b"schema"];
    let names_it = || WORDS.iter().any(|word| body.windows(word.len()).any(|part| part == *word));
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => true,
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::NOT_IMPLEMENTED => names_it(),
        _ => false,
    }
}

impl AskAgain {
    /// Whether the error may be about files that hosted tools have returned. If so, the next request leaves them out.
    pub(super) fn refuses_tool_media(&mut self, status: StatusCode, body: &[u8]) -> bool {
        let refusal = refuses_media(status.as_u16(), body);
        if refusal == Some(MediaRefusal::All) {
            self.left_out.push(TOOL_MEDIA);
            self.has_learned = false;
        }
        self.leaves_out_media |= refusal.is_some();
        refusal.is_some()
    }
}
