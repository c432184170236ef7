//! The ends of blocks and of the response (stop reason, usage and end marker), and complete messages.

use std::borrow::Cow;

use memchr::memchr2;

use super::ResponseReader;
use crate::{
    Dialect, ResponseState, Skip,
    channel::emit,
    event::{Event, Finish, Opaque, Reasoning, Sink},
    failure::Failure,
    finish::known_finish,
    messages::reader::event::StreamEvent,
    wire::json::{Json, Kind as JsonKind},
};

impl ResponseReader {
    pub(super) fn end_text(&mut self, out: &mut impl Sink) {
        if let Some(half) = self.text.finish() {
            let half = half.to_string();
            self.citations.advance(&half);
            out.event(Event::Text(half.into()));
        }
        self.citations.end_block(out);
    }

    pub(super) fn end_thinking(&mut self, out: &mut impl Sink) {
        if let Some(half) = self.thinking.finish() {
            out.event(Event::Reasoning(Reasoning::text(half.to_string())));
        }
        self.tell_signature(out);
    }

    /// Emits the signature of the thinking so far, which ends that thinking.
    pub(super) fn tell_signature(&mut self, out: &mut impl Sink) {
        if let Some(signature) = self.signature.take() {
            let signature = Some(Opaque::new(Dialect::Messages.name(), signature));
            out.event(Event::Reasoning(Reasoning { text: Cow::Borrowed(""), signature, redacted: false }));
        }
    }

    pub(super) fn message_delta(
        &mut self,
        event: &StreamEvent<'_>,
        frame: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.progress.has_choice = true;
        if let Some(usage) = event.usage {
            self.counts.take(usage);
        }
        let word = event.delta.and_then(|delta| delta.get("stop_reason")?.as_str());
        if let Some(word) = word.filter(|word| !word.is_empty() && !self.progress.is_finished) {
            let frame = Some(frame).filter(|frame| self.may_forward(event, frame));
            self.finish_by(&word, frame, out)?;
        }
        if self.progress.is_finished {
            self.tell_usage(out);
        }
        Ok(())
    }

    pub(super) fn whole(
        &mut self,
        event: &StreamEvent<'_>,
        frame: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let Ok(message) = Json::parse(frame.trim_start_matches('\u{feff}')) else { return Ok(()) };
        self.is_whole = true;
        self.message_start(message, out);
        if self.progress.is_finished {
            self.skipped.add(Skip::LateContent);
            return Ok(());
        }
        for (index, block) in (0..).zip(event.content.into_iter().flat_map(|content| content.elements())) {
            let frame = self.own_frame(index, block);
            self.begin_block(index, block, frame.as_deref(), out)?;
            self.block_stop(Some(index), None, out);
        }
        match message.get("stop_reason").and_then(|word| word.as_str()) {
            Some(word) if !word.is_empty() => {
                let frame = Some(frame).filter(|_| self.settings.verbatim);
                self.finish_by(&word, frame, out)
            }
            _ => Ok(()),
        }
    }

    /// Converts a block of a complete message to the event that starts it in a stream, for clients of this
    /// API. `None` if other events represent the complete block.
    fn own_frame(&self, index: u64, block: Json<'_>) -> Option<String> {
        let kind = block.text("type");
        let is_known = matches!(&*kind, "text" | "thinking" | "redacted_thinking" | "tool_use");
        if is_known || !self.settings.verbatim || block.kind() != JsonKind::Object {
            return None;
        }
        let block = match block.raw() {
            raw if memchr2(b'\n', b'\r', raw.as_bytes()).is_none() => Cow::Borrowed(raw),
            _ => Cow::Owned(block.to_value().to_string()),
        };
        Some(format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#))
    }

    fn finish_by(&mut self, word: &str, frame: Option<&str>, out: &mut impl Sink) -> Result<(), Failure> {
        let finish = known_finish(word, &mut self.skipped)?;
        self.finish(finish, frame, out);
        Ok(())
    }

    /// Sets the finish reason and ends everything that is still open.
    pub(super) fn finish(&mut self, finish: Finish, frame: Option<&str>, out: &mut impl Sink) {
        let cut = matches!(finish, Finish::Length | Finish::Filter);
        if cut {
            // If the model was interrupted, half of a surrogate pair is just an unfinished character, and is
            // dropped.
            self.text.finish();
            self.thinking.finish();
        }
        self.end_thinking(out);
        self.end_text(out);
        self.calls.finish(cut, out);
        self.blocks.clear();
        self.plain.forget();
        self.progress.is_finished = true;
        emit(out, frame, Event::Finish(finish.of_calls(self.calls.has_client_call())));
    }
}
