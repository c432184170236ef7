//! [`OutputRecord`]: records what the client has received so far, for code outside the pipeline.

use super::{as_written::SentTurn, stages::is_content};
use crate::{
    event::Event,
    wire::text::{boundary_upto, head},
};

#[derive(Debug, Default)]
pub(super) struct OutputRecord {
    /// Whether content of this hop has been sent.
    pub(super) has_content: bool,
    /// Whether content of earlier hops has been sent, or what happened between them.
    pub(super) had_content: bool,
    /// The text, if [`Pipeline::observe_text`](super::Pipeline::observe_text) or `observe_events` was called.
    pub(super) text: Option<Box<EmittedText>>,
    /// The turn, if it may be stored as the model wrote it.
    pub(super) turn: Option<Box<SentTurn>>,
}

impl OutputRecord {
    /// Prepares for another hop.
    pub(super) fn next_hop(&mut self) {
        self.had_content |= std::mem::take(&mut self.has_content);
    }

    /// Records an event. The client's output contained `written` bytes before it.
    pub(super) fn saw(&mut self, event: &Event<'_>, written: usize) {
        self.has_content |= is_content(event);
        if let Some(text) = &mut self.text {
            text.saw(event, written);
        }
        if let Some(turn) = &mut self.turn {
            turn.saw(event);
        }
    }
}

/// The capacity, in bytes, with which retained text begins.
const FIRST: usize = 1 << 10;

/// The text that a client has received.
#[derive(Debug, Default)]
pub struct EmittedText {
    /// Length of the text in bytes.
    pub bytes: u64,
    /// Number of pieces of the text, about one per token.
    pub pieces: u64,
    /// Number of bytes that the model has written: text, reasoning and calls.
    pub written: u64,
    /// The first bytes of the text.
    pub kept: String,
    max: usize,
    pub(super) events: Option<Vec<EmittedEvent>>,
}

/// An event that a client has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmittedEvent {
    /// The kind of event.
    pub kind: &'static str,
    /// The index of the event's call, from 0.
    pub call: Option<u32>,
    /// The name of the tool, if the event starts a call.
    pub name: Option<String>,
    /// Bytes of text in the event.
    pub bytes: usize,
    /// Number of bytes of output before the event.
    pub at: usize,
}

impl EmittedEvent {
    fn new(event: &Event<'_>, at: usize) -> Self {
        let (kind, call, name, bytes) = match event {
            Event::Start(_) => ("start", None, None, 0),
            Event::Text(text) => ("text", None, None, text.len()),
            Event::Reasoning(reasoning) => ("reasoning", None, None, reasoning.text.len()),
            Event::Refusal(text) => ("refusal", None, None, text.len()),
            Event::CallStart(call) => ("call_start", Some(call.index), Some(call.name.to_string()), 0),
            Event::CallArguments { index, piece } => ("arguments", Some(*index), None, piece.len()),
            Event::CallEnd { index, .. } => ("call_end", Some(*index), None, 0),
            Event::CallResult(result) => ("result", Some(result.index), None, result.content.len()),
            Event::ServerCall(call) => ("server_call", None, Some(call.name.to_string()), 0),
            Event::Mcp(item) => ("mcp", None, None, item.size()),
            Event::Annotation(_) => ("annotation", None, None, 0),
            Event::Media(media) => ("media", None, None, media.data.len()),
            Event::Phase { .. } => ("phase", None, None, 0),
            Event::Usage(_) => ("usage", None, None, 0),
            Event::Warning(_) => ("warning", None, None, 0),
            Event::Finish(_) => ("finish", None, None, 0),
            Event::Ping(_) => ("ping", None, None, 0),
            Event::Verbatim { .. } => ("frame", None, None, 0),
        };
        Self { kind, call, name, bytes, at }
    }
}

impl EmittedText {
    /// Creates a record that retains up to the first `max` bytes of the text.
    pub(super) fn new(max: usize) -> Self {
        Self { max, kept: String::with_capacity(max.min(FIRST)), ..Self::default() }
    }

    /// Creates a record that retains the events, but none of the text.
    pub(super) fn with_events() -> Self {
        Self { events: Some(Vec::new()), ..Self::default() }
    }

    fn saw(&mut self, event: &Event<'_>, written: usize) {
        let event = event.meaning();
        if let Some(events) = &mut self.events {
            events.push(EmittedEvent::new(event, written));
        }
        self.written += match event {
            Event::Text(text) | Event::Refusal(text) | Event::CallArguments { piece: text, .. } => {
                text.len() as u64
            }
            Event::Reasoning(reasoning) => reasoning.text.len() as u64,
            Event::CallStart(call) => call.name.len() as u64,
            _ => 0,
        };
        if let Event::Text(text) | Event::Refusal(text) = event {
            // Nothing more is added once a piece did not fit, so that `kept` is a prefix of the text.
            let is_whole = usize::try_from(self.bytes).is_ok_and(|bytes| bytes == self.kept.len());
            self.bytes += text.len() as u64;
            self.pieces += 1;
            let left = self.max.saturating_sub(self.kept.len());
            if is_whole && left > 0 {
                self.kept.push_str(head(text, boundary_upto(text, left)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_counted_and_its_beginning_kept() {
        let mut record =
            OutputRecord { text: Some(Box::new(EmittedText::new(5))), ..OutputRecord::default() };
        for piece in ["ab", "cdé", "f", "g"] {
            record.saw(&Event::Text(piece.into()), 0);
        }
        record.saw(&Event::Ping("x".into()), 0);
        let text = record.text.unwrap();
        assert_eq!((text.bytes, text.pieces, text.kept.as_str()), (8, 4, "abcd"));
        assert!(record.has_content);
    }

    #[test]
    fn frames_that_are_passed_on_count_as_what_they_mean() {
        let mut record =
            OutputRecord { text: Some(Box::new(EmittedText::new(0))), ..OutputRecord::default() };
        let means = Event::Text("ab".into());
        record.saw(&Event::Verbatim { frame: "data: ab\n\n", means: Some(&means) }, 0);
        record.saw(&Event::Verbatim { frame: "data: ?\n\n", means: None }, 0);
        let text = record.text.unwrap();
        assert_eq!((text.bytes, text.pieces, text.kept.as_str()), (2, 1, ""));
    }
}
