//! Finish reasons: OpenAI's own words, and those of other servers that offer its API.
//!
//! All readers look words up here, so a word that only one dialect uses belongs here as well. A word known to
//! [`finish_of`] never means a failure.

use crate::{
    Skip, Skipped,
    event::Finish,
    failure::{Failure, Kind},
};

/// Maximum bytes of an upstream's finish reason that an error message quotes.
const MAX_WORD: usize = 40;

/// The finish reason for `word`, regardless of case. `None` if the word is unknown.
pub(crate) fn finish_of(word: &str) -> Option<Finish> {
    Some(match word.to_ascii_lowercase().as_str() {
        "stop" | "eos" | "eos_token" | "end_turn" | "stop_sequence" | "end" | "complete" | "completed" => {
            Finish::Stop
        }
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => Finish::Calls,
        "length"
        | "max_tokens"
        | "model_length"
        | "max_output_tokens"
        | "insufficient_system_resource"
        | "context_length_exceeded"
        | "model_context_window_exceeded"
        // Anthropic's servers paused in the middle of a turn, which continues when the client sends it back.
        | "pause_turn"
        | "compaction" => Finish::Length,
        "content_filter" | "content_filtered" | "guardrail_intervened" | "safety" | "recitation" | "prohibited_content" | "blocklist" | "sensitive"
        | "harmful" | "spii" | "refusal" => Finish::Filter,
        _ => return None,
    })
}

/// The finish reason for `word`. One that is unknown counts as `stop`, and is recorded.
///
/// # Errors
/// The word says that the response has failed.
pub(crate) fn known_finish(word: &str, skipped: &mut Skipped) -> Result<Finish, Failure> {
    match (finish_of(word), failure_of(word)) {
        (Some(finish), _) => Ok(finish),
        (None, Some(failure)) => Err(failure),
        (None, None) => {
            skipped.add(Skip::UnknownFinish);
            Ok(Finish::Stop)
        }
    }
}

pub(crate) fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Calls => "tool_calls",
        Finish::Length => "length",
        Finish::Filter => "content_filter",
    }
}

/// The failure that `word` stands for, if a response with this finish reason is incomplete.
pub(crate) fn failure_of(word: &str) -> Option<Failure> {
    let lower = word.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    let (kind, code) = if has(&["timeout", "timed_out", "timed out"]) {
        (Kind::Timeout, "timeout")
    } else if has(&["reject", "overload", "unavailable", "capacity"]) {
        (Kind::Overloaded, "rejected")
    } else if has(&["error", "fail", "abort", "cancel", "interrupt", "malformed"]) {
        (Kind::Upstream, "error")
    } else {
        return None;
    };
    let word: String = word.chars().filter(|char| char.is_ascii_graphic()).take(MAX_WORD).collect();
    Some(
        Failure::new(kind, format!("the upstream ended the response with finish reason `{word}`"))
            .with_code(code),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_finish_reasons_do_not_end_a_response() {
        for (word, code) in [
            ("timeout", "timeout"),
            ("network_error", "error"),
            ("REJECTED", "rejected"),
            ("server_overloaded", "rejected"),
            ("abort", "error"),
            ("MALFORMED_FUNCTION_CALL", "error"),
        ] {
            assert_eq!(finish_of(word), None);
            assert_eq!(failure_of(word).unwrap().code(), Some(code), "{word}");
        }
        for word in ["stop", "length", "tool_calls", "content_filter", "SAFETY", "eos"] {
            assert!(finish_of(word).is_some() && failure_of(word).is_none(), "{word}");
        }
        let long = failure_of(&"error\r\n".repeat(10_000)).unwrap();
        assert!(long.message().len() < 100 && !long.message().contains('\n'));
    }
}
