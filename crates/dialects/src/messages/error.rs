//! Writes errors as in the Messages API: `{"type": "error", "error": {"type", "message"}}`, either as a
//! response body or as an event in a stream (docs/protocols/messages.md#errors).

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::failure::{Failure, Kind};

/// The JSON for `failure`: the body of a response with status [`Failure::status`], or the data of an `error`
/// event.
pub fn error_body(failure: &Failure) -> Vec<u8> {
    let message = match failure.kind() {
        Kind::ContextLength => too_long(failure.message()),
        _ => failure.message().into(),
    };
    let mut error = json!({"type": error_type(failure.kind()), "message": message});
    if let (Some(details), Some(error)) = (details(failure), error.as_object_mut()) {
        error.insert("details".to_owned(), details);
    }
    json!({"type": "error", "error": error}).to_string().into_bytes()
}

/// What SDKs read of an error about a thread: they then send the complete conversation
/// (docs/protocols/messages.md#threads).
fn details(failure: &Failure) -> Option<Value> {
    match (failure.unsupported(), failure.code()) {
        (Some(member), _) => {
            Some(json!({"error_code": format!("{member}_unsupported_request"), "unsupported": [member]}))
        }
        (None, Some(code)) => is_of_thread(code).then(|| json!({"error_code": code})),
        (None, None) => None,
    }
}

/// Whether this code of an error is about a thread.
fn is_of_thread(code: &str) -> bool {
    code.starts_with("thread_")
}

fn error_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Request | Kind::Method | Kind::ContextLength => "invalid_request_error",
        Kind::NotFound => "not_found_error",
        Kind::TooLarge => "request_too_large",
        Kind::Unauthorized => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::RateLimit => "rate_limit_error",
        Kind::Budget => "billing_error",
        Kind::Overloaded | Kind::StoreAway | Kind::Draining => "overloaded_error",
        Kind::Timeout => "timeout_error",
        Kind::Connect | Kind::Protocol | Kind::Truncated | Kind::Upstream | Kind::Limit | Kind::Internal => {
            "api_error"
        }
    }
}

/// The message for a prompt that is too long, in this API's own wording. The API has no code for this error,
/// so clients parse the message to decide how much to remove. The numbers are taken from `message` if it is
/// clear which is which.
fn too_long(message: &str) -> Cow<'_, str> {
    let lower = message.to_ascii_lowercase();
    if ["prompt is too long", "exceed context limit"].iter().any(|words| lower.contains(words)) {
        return message.into();
    }
    match counts(&lower) {
        Some((given, most)) => {
            format!("prompt is too long: {given} tokens > {most} maximum ({message})").into()
        }
        None => format!("prompt is too long: {message}").into(),
    }
}

/// The token count and the limit in `sentence`, which must be in lower case.
fn counts(sentence: &str) -> Option<(u64, u64)> {
    /// Smaller numbers cannot be the limit of a context window.
    const LEAST: u64 = 256;
    const LIMITS: [&str; 8] =
        ["max", "limit", "only", "<=", "less than", "cannot exceed", "context size", "context length"];
    let (mut limit, mut numbers) = (None, Vec::new());
    let mut rest = sentence;
    while let Some(at) = rest.find(|char: char| char.is_ascii_digit()) {
        let (before, from) = rest.split_at_checked(at)?;
        let is_end = |char: char| !char.is_ascii_digit() && char != ',';
        let (digits, behind) = from.split_at_checked(from.find(is_end).unwrap_or(from.len()))?;
        rest = behind;
        let Some(number) = digits.replace(',', "").parse().ok().filter(|number| *number >= LEAST) else {
            continue;
        };
        match limit {
            None if LIMITS.iter().any(|words| before.contains(words)) => limit = Some(number),
            _ => numbers.push(number),
        }
    }
    let limit = limit?;
    Some((numbers.into_iter().find(|number| *number > limit)?, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_is_too_long_is_told_in_the_words_of_this_api() {
        for (theirs, ours) in [
            ("prompt is too long: 208310 tokens > 200000 maximum", ""),
            ("input length and `max_tokens` exceed context limit: 199000 + 9000 > 200000", ""),
            (
                "This model's maximum context length is 262,144 tokens. However, your prompt contains at least 262,145 input tokens.",
                "262145 tokens > 262144 maximum",
            ),
            (
                "request (9000 tokens) exceeds the available context size (4096 tokens)",
                "9000 tokens > 4096 maximum",
            ),
            (
                "Your request exceeded model token limit: 262144 (requested: 268000)",
                "268000 tokens > 262144 maximum",
            ),
            ("prompt token count of 150000 exceeds the limit of 128000", "150000 tokens > 128000 maximum"),
            ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000", "`inputs` tokens"),
            ("Range of input length should be [1, 129024]", "Range of input length"),
            ("m", "m"),
        ] {
            let body = String::from_utf8(error_body(&Failure::new(Kind::ContextLength, theirs))).unwrap();
            assert!(body.contains(theirs), "{body}");
            let words =
                if ours.is_empty() { theirs.to_owned() } else { format!("prompt is too long: {ours}") };
            assert!(body.contains(&format!("\"message\":\"{words}")), "{body}");
        }
    }
}
