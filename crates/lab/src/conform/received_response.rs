//! [`ReceivedResponse`]: the response that a client of a dialect has assembled, and the rules that the stream violates.
//!
//! [`Follower`] checks the stream against its dialect's rules, and [`assemble_events`] reads the content.

use serde_json::Value;

use crate::{
    clients,
    fixture::{Assembled, answer::Call, assemble, assemble_events, lines},
    follow::{
        Follower,
        sample::{Outcome, Sample},
    },
};
use toolwire_pipeline::{dialect::ClientDialect, event::Finish};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReceivedResponse {
    /// HTTP status, or 0 if there was no response.
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) refusal: String,
    /// The calls, in order of their start.
    pub(crate) calls: Vec<ReceivedCall>,
    pub(crate) finish: Option<Finish>,
    /// Input and output tokens.
    pub(crate) usage: (Option<u64>, Option<u64>),
    /// The message of an error, from an error response or from the stream.
    pub(crate) error: Option<String>,
    /// Whether the stream has its final event.
    pub(crate) is_complete: bool,
    /// Why the response broke off, if it did: no connection, a broken body, or a timeout.
    pub(crate) broken: Option<String>,
    /// Whether the body was interrupted in a way that the client can detect.
    pub(crate) is_interrupted: bool,
    /// The violated rules of the dialect, one sentence each.
    pub(crate) violations: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReceivedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The complete arguments.
    pub(crate) arguments: String,
}

/// Reads a stream. `broken` is the reason why its body broke off, if it did.
pub(crate) fn of_stream(dialect: ClientDialect, body: &[u8], broken: Option<&str>) -> ReceivedResponse {
    let (mut follower, mut sample) = (Follower::new(dialect), Sample::default());
    follower.push(body, 0, &mut sample);
    match broken {
        Some(why) => follower.break_off(why, 0, &mut sample),
        None => follower.finish(0, &mut sample),
    }
    let Assembled { answer, usage_at_start, .. } = assemble_events(dialect, events(dialect, body));
    let mut received = ReceivedResponse {
        status: 200,
        finish: clients::api(dialect).finish(&answer),
        usage: usage(dialect, answer.usage.as_ref(), usage_at_start.as_ref()),
        text: answer.text,
        reasoning: answer.reasoning,
        refusal: answer.refusal,
        calls: answer.calls.into_iter().map(|call| ReceivedCall::of(dialect, call)).collect(),
        violations: sample.violations,
        is_interrupted: broken.is_some(),
        ..ReceivedResponse::default()
    };
    match sample.outcome {
        Outcome::Done => received.is_complete = true,
        Outcome::Failed(message) => received.error = Some(message),
        Outcome::Broken(why) if received.error.is_none() => received.broken = Some(why),
        Outcome::Broken(_) | Outcome::Refused | Outcome::Open => {}
    }
    received
}

/// Reads a response in one piece. `broken` is the reason why its body broke off, if it did.
pub(crate) fn of_whole(dialect: ClientDialect, body: &[u8], broken: Option<String>) -> ReceivedResponse {
    let Assembled { answer, faults, .. } = assemble(dialect, body, false, 200);
    let broken = broken.or_else(|| {
        serde_json::from_slice::<Value>(body).err().map(|error| format!("the body is not JSON: {error}"))
    });
    ReceivedResponse {
        status: 200,
        finish: clients::api(dialect).finish(&answer),
        usage: usage(dialect, answer.usage.as_ref(), None),
        error: answer.error.map(|error| error.message.unwrap_or_default()),
        is_complete: broken.is_none(),
        // A client cannot read anything of a body that is cut.
        violations: if broken.is_some() { Vec::new() } else { faults },
        broken,
        text: answer.text,
        reasoning: answer.reasoning,
        refusal: answer.refusal,
        calls: answer.calls.into_iter().map(|call| ReceivedCall::of(dialect, call)).collect(),
        is_interrupted: false,
    }
}

pub(crate) fn of_refusal(dialect: ClientDialect, status: u16, body: &[u8]) -> ReceivedResponse {
    let mut received = ReceivedResponse { status, ..ReceivedResponse::default() };
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut lacks = |holds: bool, rule: &str| {
        if !holds {
            received.violations.push(rule.to_owned());
        }
    };
    received.error = clients::api(dialect).error(&value, &mut lacks);
    received
}

impl ReceivedCall {
    fn of(dialect: ClientDialect, call: Call) -> Self {
        let mut arguments = call.arguments;
        if arguments.is_empty() {
            arguments.push_str(clients::api(dialect).no_arguments());
        }
        Self { id: call.id.unwrap_or_default(), name: call.name, arguments }
    }
}

/// Returns the input and output tokens in the last usage of a stream. Counts missing there are taken from the first
/// usage.
fn usage(dialect: ClientDialect, last: Option<&Value>, first: Option<&Value>) -> (Option<u64>, Option<u64>) {
    let count = |key: &str| [last, first].into_iter().flatten().find_map(|usage| usage.get(key)?.as_u64());
    clients::api(dialect).tokens(&count)
}

/// Returns the type and data of each event. Accepts LF, CR LF and CR, and a last event without a blank line.
fn events(dialect: ClientDialect, body: &[u8]) -> Vec<(String, String)> {
    if clients::api(dialect).has_lines() {
        return lines(body).collect();
    }
    let text: String = body.utf8_chunks().map(|chunk| chunk.valid()).collect();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let events = text.split("\n\n").map(|block| {
        let field = |name: &str| {
            let lines = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            lines.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect::<Vec<_>>().join("\n")
        };
        (field("event"), field("data"))
    });
    events.filter(|(_, data)| !data.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":"#;

    fn chat(choices: &[&str], end: &str) -> ReceivedResponse {
        let frames = choices.iter().map(|choice| format!("data: {CHUNK}[{choice}]}}\n\n"));
        of_stream(ClientDialect::Chat, (frames.collect::<String>() + end).as_bytes(), None)
    }

    const ROLE: &str = r#"{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}"#;
    const TEXT: &str = r#"{"index":0,"delta":{"content":"hi"},"finish_reason":null}"#;
    const STOP: &str = r#"{"index":0,"delta":{},"finish_reason":"stop"}"#;

    #[test]
    fn complete_stream_is_assembled() {
        let received = chat(&[ROLE, TEXT, STOP], "data: [DONE]\n\n");
        assert_eq!(received.violations, Vec::<String>::new());
        assert_eq!((received.text.as_str(), received.finish), ("hi", Some(Finish::Stop)));
        assert!(received.is_complete && received.error.is_none() && received.broken.is_none());
    }

    #[test]
    fn stream_without_end_mark_is_not_complete() {
        let received = chat(&[ROLE, TEXT, STOP], "");
        assert!(!received.is_complete && received.error.is_none() && received.broken.is_some());
    }

    #[test]
    fn error_in_the_stream_is_not_complete() {
        let received =
            chat(&[ROLE, TEXT], "data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\"}}\n\n");
        assert_eq!(received.error.as_deref(), Some("no"));
        assert!(!received.is_complete);
    }

    #[test]
    fn events_are_read_with_any_line_end() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = ["event: a", "data: 1", "", ": comment", "", "data:2", ""].join(end);
            let expected = [("a".to_owned(), "1".to_owned()), (String::new(), "2".to_owned())];
            assert_eq!(events(ClientDialect::Chat, stream.as_bytes()), expected, "{end:?}");
        }
    }

    #[test]
    fn error_body_without_message_is_a_violation() {
        assert_eq!(of_refusal(ClientDialect::Chat, 500, b"oops").violations.len(), 2);
        let body = br#"{"type":"error","error":{"type":"api_error","message":"no"}}"#;
        assert_eq!(of_refusal(ClientDialect::Messages, 500, body).violations, Vec::<String>::new());
    }
}
