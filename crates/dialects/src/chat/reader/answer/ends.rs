//! The end of a response: finish reason, usage, and end marker.

use super::{AnswerState, delta_content};
use crate::{
    channel::emit,
    chat::reader::chunk::Choice,
    event::{Event, Finish, Sink},
    failure::Failure,
    finish::{finish_word, known_finish},
    usage::{count, usage_of},
    wire::json::Json,
};

/// A finish that is held, because another choice may still continue the response.
#[derive(Debug)]
pub(super) struct HeldFinish {
    pub(super) finish: Finish,
    /// The frame of the finish, if it is in the canonical form and contains nothing else.
    frame: Option<String>,
}

impl AnswerState {
    pub(super) fn finish_by(
        &mut self,
        word: &str,
        choice: &Choice<'_>,
        canonical: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let finish = known_finish(word, &mut self.skipped)?;
        self.end_calls(matches!(finish, Finish::Length | Finish::Filter), out);
        let says_finish_only = choice.delta.things() == 0;
        let canonical = canonical.filter(|_| says_finish_only && word == finish_word(self.promoted(finish)));
        self.finish(finish, canonical, out);
        Ok(())
    }

    /// Ends a response whose choices have all ended.
    pub(super) fn finish_merged(&mut self, finish: Finish, out: &mut impl Sink) {
        self.end_calls(matches!(finish, Finish::Length | Finish::Filter), out);
        self.finish(finish, None, out);
    }

    /// Corrects the finish reason: `stop` after a call means `tool_calls`, and `tool_calls` without a call
    /// means `stop`.
    fn promoted(&self, finish: Finish) -> Finish {
        finish.of_calls(self.calls.any)
    }

    pub(super) fn end_calls(&mut self, cut: bool, out: &mut impl Sink) {
        for (channel, is_text) in [(&mut self.reasoning, false), (&mut self.text, true)] {
            // If the model was interrupted, half of a surrogate pair is just an unfinished character, and is
            // dropped.
            if let Some(half) = channel.finish().filter(|_| !cut) {
                let half = half.to_string().into();
                out.event(if is_text { Event::Text(half) } else { delta_content::reasoning(half) });
            }
        }
        self.deltas.finish(cut, &mut self.calls.listen(None, out));
        self.calls.finish_customs(cut, out);
    }

    pub(super) fn finish(&mut self, finish: Finish, frame: Option<&str>, out: &mut impl Sink) {
        self.progress.is_finished = true;
        self.plain.forget();
        let finish = self.promoted(finish);
        if self.several {
            return emit(out, frame, Event::Finish(finish));
        }
        self.held_finish = Some(HeldFinish { finish, frame: frame.map(str::to_owned) });
    }

    /// Passes on the held finish, since nothing else of the response follows.
    pub(super) fn release_finish(&mut self, out: &mut impl Sink) {
        if let Some(HeldFinish { finish, frame }) = self.held_finish.take() {
            emit(out, frame.as_deref(), Event::Finish(finish));
        }
    }

    /// Records the usage, which is passed on after the finish or at the end of the response. `frame` is the
    /// frame with the usage, if it is in the canonical form and contains nothing else.
    pub(super) fn note_usage(&mut self, usage: Json<'_>, frame: Option<&str>, out: &mut impl Sink) {
        self.has_usage = true;
        self.usage.clear();
        self.usage.push_str(usage.raw());
        let counts = ["prompt_tokens", "completion_tokens", "total_tokens"];
        let is_whole = counts.iter().all(|key| usage.get(key).is_some_and(|count| count.as_u64().is_some()));
        let frame = frame.filter(|_| is_whole);
        if self.progress.is_finished && self.held_finish.is_none() {
            self.tell_usage_by(frame, out);
        }
    }

    /// Takes the counts from llama.cpp's `timings`, unless there is a usage object.
    pub(super) fn note_timings(&mut self, timings: Json<'_>) {
        let number = |key: &str| timings.get(key).and_then(count);
        let (Some(read), Some(written)) = (number("prompt_n"), number("predicted_n")) else { return };
        if self.has_usage {
            return;
        }
        let cached = number("cache_n").unwrap_or_default();
        let input = read.saturating_add(cached);
        self.usage = format!(
            "{{\"prompt_tokens\":{input},\"completion_tokens\":{written},\"total_tokens\":{},\
             \"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}",
            input.saturating_add(written)
        );
    }

    pub(super) fn tell_usage_by(&mut self, frame: Option<&str>, out: &mut impl Sink) {
        if self.usage.is_empty() {
            return;
        }
        let usage = std::mem::take(&mut self.usage);
        if let Ok(usage) = Json::parse(&usage) {
            emit(out, frame, Event::Usage(usage_of(usage)));
        }
    }
}
