//! The meaning of `finishReason` (docs/protocols/gemini.md#stream).

use crate::{
    event::Finish,
    failure::{Failure, Kind},
    finish::{failure_of, finish_of},
    refusal::first_words,
};

/// The finish reason for `word`. `None` if the word is unknown.
///
/// # Errors
/// The response is not what the model was supposed to write, and clients know no finish reason that
/// expresses this. `message` is the upstream's explanation.
pub(super) fn ending(word: &str, message: Option<&str>) -> Result<Option<Finish>, Failure> {
    if let Some(finish) = finish_of(word) {
        return Ok(Some(finish));
    }
    Ok(Some(match word.to_ascii_uppercase().as_str() {
        "LANGUAGE"
        | "MODEL_ARMOR"
        | "ESCALATION"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Finish::Filter,
        // The limit for a single request was reached. Another request could continue the response.
        "CONTINUATION" => Finish::Length,
        "OTHER"
        | "IMAGE_OTHER"
        | "NO_IMAGE"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_RESPONSE"
        | "MISSING_THOUGHT_SIGNATURE"
        | "PUP_LIMITED_DISABLED" => return Err(failure(word, message)),
        _ => return failure_of(word).map_or(Ok(None), Err),
    }))
}

fn failure(word: &str, message: Option<&str>) -> Failure {
    let mut sentence = format!("the upstream ended the response with finish reason `{word}`");
    if let Some(words) = message.and_then(|message| first_words(message.as_bytes())) {
        sentence = format!("{sentence}: {words}");
    }
    Failure::new(Kind::Upstream, sentence).with_code(word.to_ascii_lowercase())
}
