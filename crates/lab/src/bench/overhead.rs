//! Measures the tool's own costs before a run: reading the clock and parsing a delta.

use std::{hint::black_box, time::Instant};

use super::Dialect;
use crate::{
    clock,
    follow::{
        Follower,
        sample::{Outcome, Sample},
    },
};

/// Number of clock readings to time.
const READINGS: u32 = 20_000;

/// Number of deltas to parse.
const DELTAS: usize = 2_000;

/// Returns the mean time of one clock reading, in ns.
pub(crate) fn clock_ns() -> f64 {
    let before = Instant::now();
    for _ in 0..READINGS {
        black_box(clock::now());
    }
    before.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

/// Returns the mean time of parsing and checking one delta of the dialect, in ns.
pub(crate) fn parse_ns(dialect: Dialect) -> f64 {
    let stream = canned(dialect);
    let mut sample = Sample::default();
    let mut follower = Follower::new(dialect);
    let before = Instant::now();
    for frame in &stream {
        follower.push(frame.as_bytes(), clock::now(), &mut sample);
    }
    let time = before.elapsed().as_nanos() as f64;
    debug_assert_eq!((sample.tokens.len(), &sample.outcome), (DELTAS, &Outcome::Done));
    time / DELTAS as f64
}

/// Returns the frames of a complete stream in the dialect.
fn canned(dialect: Dialect) -> Vec<String> {
    let (before, delta, after) = match dialect {
        Dialect::Chat => CHAT,
        Dialect::Responses => RESPONSES,
        Dialect::Messages => MESSAGES,
        Dialect::Gemini => GEMINI,
        Dialect::Ollama => OLLAMA,
    };
    let text = " word".repeat(DELTAS);
    let mut number = 0_usize;
    let frames = before.iter().chain(std::iter::repeat_n(&delta, DELTAS)).chain(after);
    let frames = frames.map(|frame| {
        let frame = frame.replace("NUMBER", &number.to_string()).replace("TEXT", &text);
        number += 1;
        match dialect {
            Dialect::Chat | Dialect::Gemini => format!("data: {frame}\n\n"),
            Dialect::Ollama => format!("{frame}\n"),
            Dialect::Responses | Dialect::Messages => {
                let kind = frame.split('"').nth(3).unwrap_or_default();
                format!("event: {kind}\ndata: {frame}\n\n")
            }
        }
    });
    frames.collect()
}

/// The events before the deltas, a delta, and the events after them.
type Canned = (&'static [&'static str], &'static str, &'static [&'static str]);

const CHAT: Canned = (
    &[
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
    ],
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}"#,
    &[
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ],
);

const RESPONSES: Canned = (
    &[
        r#"{"type":"response.created","sequence_number":NUMBER,"response":{"id":"resp_1","object":"response","created_at":17,"status":"in_progress","model":"m","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null}}"#,
        r#"{"type":"response.in_progress","sequence_number":NUMBER,"response":{"id":"resp_1","object":"response","created_at":17,"status":"in_progress","model":"m","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null}}"#,
        r#"{"type":"response.output_item.added","sequence_number":NUMBER,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}"#,
        r#"{"type":"response.content_part.added","sequence_number":NUMBER,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}"#,
    ],
    r#"{"type":"response.output_text.delta","sequence_number":NUMBER,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" word","logprobs":[]}"#,
    &[
        r#"{"type":"response.output_text.done","sequence_number":NUMBER,"item_id":"msg_1","output_index":0,"content_index":0,"text":"TEXT","logprobs":[]}"#,
        r#"{"type":"response.content_part.done","sequence_number":NUMBER,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"TEXT","annotations":[]}}"#,
        r#"{"type":"response.output_item.done","sequence_number":NUMBER,"output_index":0,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"TEXT","annotations":[]}]}}"#,
        r#"{"type":"response.completed","sequence_number":NUMBER,"response":{"id":"resp_1","object":"response","created_at":17,"status":"completed","model":"m","output":[{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"TEXT","annotations":[]}]}],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":{"input_tokens":1,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":3}}}"#,
    ],
);

const MESSAGES: Canned = (
    &[
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    ],
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}"#,
    &[
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}"#,
        r#"{"type":"message_stop"}"#,
    ],
);

const GEMINI: Canned = (
    &[],
    r#"{"candidates":[{"content":{"parts":[{"text":" word"}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"r"}"#,
    &[
        r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},"modelVersion":"m","responseId":"r"}"#,
    ],
);

const OLLAMA: Canned = (
    &[],
    r#"{"model":"m","created_at":"2026-11-29T12:00:00Z","message":{"role":"assistant","content":" word"},"done":false}"#,
    &[
        r#"{"model":"m","created_at":"2026-11-29T12:00:00Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":2}"#,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canned_streams_have_no_violations() {
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Ollama] {
            let (mut sample, mut follower) = (Sample::default(), Follower::new(dialect));
            for frame in canned(dialect) {
                follower.push(frame.as_bytes(), 1, &mut sample);
            }
            follower.finish(2, &mut sample);
            assert_eq!((sample.tokens.len(), sample.outcome), (DELTAS, Outcome::Done), "{dialect:?}");
            assert_eq!(sample.violations, [""; 0], "{dialect:?}");
            assert!(parse_ns(dialect) > 0.0 && clock_ns() > 0.0);
        }
    }
}
