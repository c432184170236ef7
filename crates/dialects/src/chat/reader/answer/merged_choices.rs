//! Merges several choices into one response when the client asked for only one: some servers put the text
//! into one choice and the calls into another.

use super::AnswerState;
use crate::{
    Skip,
    chat::reader::chunk::{Choice, Chunk},
    event::{Finish, Sink},
    failure::Failure,
    finish::{finish_of, known_finish},
    refusal::reported_json,
};

#[derive(Debug, Default)]
pub(super) struct MergedChoices {
    /// The choices that have started and finished, one bit for each index. All high indexes share the last
    /// bit.
    begun: u64,
    finished: u64,
    finish: Option<Finish>,
}

impl MergedChoices {
    fn note(&mut self, number: u64) -> u64 {
        let bit = 1_u64 << number.min(63);
        self.begun |= bit;
        bit
    }

    /// Handles content that arrives after the choice's finish.
    fn reopen(&mut self, number: u64) {
        self.finished &= !self.note(number);
    }

    /// Handles the finish of a choice. Calls take precedence over a stop, and truncation over both.
    fn end(&mut self, number: u64, finish: Finish) {
        self.finished |= self.note(number);
        self.finish = Some(match (self.finish, finish) {
            (Some(cut @ (Finish::Length | Finish::Filter)), _) => cut,
            (_, cut @ (Finish::Length | Finish::Filter)) => cut,
            (Some(Finish::Calls), _) | (_, Finish::Calls) => Finish::Calls,
            _ => Finish::Stop,
        });
    }
}

impl AnswerState {
    /// Whether the choices in `chunk` form one response. If not, only `choice` is read.
    pub(super) fn merges(&self, chunk: &Chunk<'_>, choice: Option<&Choice<'_>>) -> bool {
        if self.several {
            return false;
        }
        // Calls were announced but have not arrived, so they may be in another choice.
        let lacks_calls = || {
            let word = choice.and_then(|choice| choice.finish_word());
            word.is_some_and(|word| finish_of(&word) == Some(Finish::Calls)) && !self.calls.any
        };
        let has_calls = || {
            let delta = choice.map(|choice| &choice.delta);
            delta.is_some_and(|delta| delta.calls.is_some() || delta.legacy_call.is_some())
        };
        self.merged.is_some()
            || !chunk.is_single()
            || (choice.is_none() && chunk.has_choices())
            || (lacks_calls() && !has_calls() && !self.is_whole_message(choice))
    }

    /// Handles a chunk that follows the held finish. If it continues the response, the finish belonged to
    /// only one of the choices. If it has no choice, the response has ended.
    pub(super) fn follow_finish(&mut self, chunk: &Chunk<'_>, out: &mut impl Sink) {
        if chunk.choices().any(|choice| self.continues(&choice)) {
            let merged = self.merged.get_or_insert_default();
            if let Some(held) = self.held_finish.take() {
                merged.end(0, held.finish);
            }
            self.progress.is_finished = false;
        } else if !chunk.has_choices() {
            self.release_finish(out);
        }
    }

    /// Whether `choice` continues the response after the finish, because its index differs or its content
    /// contradicts the finish. Text after a stop and complete messages after calls only repeat what has
    /// already been sent.
    fn continues(&self, choice: &Choice<'_>) -> bool {
        let delta = &choice.delta;
        let has_calls = delta.calls.is_some() || delta.legacy_call.is_some();
        let is_of_calls = self.held_finish.as_ref().is_some_and(|held| held.finish == Finish::Calls);
        delta.things() > 0
            && (choice.number != 0
                || (has_calls && !(choice.has_message && self.calls.any))
                || (is_of_calls && !choice.has_message))
    }

    /// Whether the response is a complete message, which contains all of its choices.
    fn is_whole_message(&self, choice: Option<&Choice<'_>>) -> bool {
        self.is_whole || choice.is_some_and(|choice| choice.has_message)
    }

    pub(super) fn merge(&mut self, chunk: &Chunk<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let mut merged = self.merged.take().unwrap_or_default();
        if chunk.has_choices() {
            self.progress.has_choice = true;
            self.start(chunk, None, out);
        }
        let taken = chunk.choices().try_for_each(|choice| self.merge_choice(&mut merged, &choice, out));
        let is_over = merged.begun != 0 && merged.begun == merged.finished;
        let lacks_calls = merged.finish == Some(Finish::Calls) && !self.calls.any;
        let finish = merged.finish.filter(|_| is_over && !lacks_calls && !self.progress.is_finished);
        self.merged = Some(merged);
        taken?;
        if let Some(usage) = chunk.usage.or_else(|| chunk.choices().find_map(|choice| choice.usage)) {
            self.note_usage(usage, None, out);
        }
        if let Some(finish) = finish {
            self.finish_merged(finish, out);
        }
        Ok(())
    }

    fn merge_choice(
        &mut self,
        merged: &mut MergedChoices,
        choice: &Choice<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        if let Some(error) = choice.error {
            return Err(reported_json(error));
        }
        self.is_whole |= choice.has_message;
        if self.progress.is_finished {
            if choice.delta.things() > 0 {
                self.skipped.add(Skip::LateContent);
            }
            return Ok(());
        }
        if choice.delta.things() > 0 {
            merged.reopen(choice.number);
        }
        merged.note(choice.number);
        self.deltas.of_choice(choice.number);
        let said = self.say(&choice.delta, None, out);
        self.deltas.of_choice(0);
        said?;
        let Some(word) = choice.finish_word() else { return Ok(()) };
        merged.end(choice.number, known_finish(&word, &mut self.skipped)?);
        Ok(())
    }

    /// The finish of the choices so far, if it is held until other choices finish.
    pub(super) fn merged_finish(&self) -> Option<Finish> {
        self.merged.as_ref()?.finish.filter(|_| !self.progress.is_finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Asked, ResponseState, chat::ReaderSettings, event::Event, rules::Limits, tools::DeclaredTools,
    };

    /// The text, the call arguments and the finish of a response that consists of these frames.
    fn read(several: bool, frames: &[String]) -> String {
        let mut state = AnswerState::new(ReaderSettings::default());
        let (tools, limits) = (DeclaredTools::default(), Limits::default());
        state.expect(Asked { tools, limits, stream: true, several, repair: true });
        let mut events: Vec<Event<'static>> = Vec::new();
        for frame in frames {
            state.data(frame, false, &mut events).unwrap();
        }
        state.end(false, &mut events).unwrap();
        let mut parts = String::new();
        for event in events {
            match event {
                Event::Text(text) | Event::CallArguments { piece: text, .. } => parts.push_str(&text),
                Event::Finish(finish) => parts.push_str(&format!(" {finish:?}")),
                _ => {}
            }
        }
        parts
    }

    #[test]
    fn choices_that_nobody_asked_for_are_parts_of_one_response() {
        let call = r#"{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]}"#;
        let text = r#"{"content":"A"}"#;
        let of = |number: u64, delta: &str, finish: &str| {
            format!(r#"{{"index":{number},"delta":{delta},"finish_reason":{finish}}}"#)
        };
        let event = |choices: &[String]| format!(r#"{{"choices":[{}]}}"#, choices.join(","));
        let (stop, calls, none) = ("\"stop\"", "\"tool_calls\"", "null");
        for frames in [
            vec![event(&[of(0, text, stop), of(1, call, calls)])],
            vec![event(&[of(0, text, calls), of(0, call, calls)])],
            vec![event(&[of(0, text, calls)]), event(&[of(1, call, calls)])],
            vec![event(&[of(0, text, none)]), event(&[of(0, "{}", none), of(1, call, calls)])],
            vec![event(&[of(1, text, none)]), event(&[of(0, call, calls)]), event(&[of(1, "{}", stop)])],
            // One choice finishes before the next starts.
            vec![event(&[of(0, text, stop)]), event(&[of(0, call, calls)])],
            vec![
                event(&[of(0, text, none)]),
                event(&[of(0, "{}", stop)]),
                event(&[of(1, "{}", none)]),
                event(&[of(1, call, calls)]),
            ],
        ] {
            assert_eq!(read(false, &frames), "A{} Calls", "{frames:?}");
        }
        let frames = [event(&[of(1, call, calls)]), event(&[of(0, text, none)]), event(&[of(0, "{}", stop)])];
        assert_eq!(read(false, &frames), "{}A Calls");
        // A repeated response does not continue the first one.
        let whole = format!(r#"{{"index":0,"message":{text},"finish_reason":"stop"}}"#);
        for again in [of(0, text, "\"length\""), whole] {
            assert_eq!(read(false, &[event(&[of(0, text, stop)]), event(&[again])]), "A Stop");
        }
        let piece = |arguments: &str, head: &str| {
            format!(
                r#"{{"tool_calls":[{{"index":0,{head}"function":{{"name":"a","arguments":"{arguments}"}}}}]}}"#
            )
        };
        let rest = r#"{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}"#;
        let (one, other) = (piece("{\\\"x\\\":", r#""id":"p","#), piece("{\\\"y\\\":", r#""id":"q","#));
        let frames = [
            event(&[of(0, &one, none), of(1, &other, none)]),
            event(&[of(0, rest, calls), of(1, rest, calls)]),
        ];
        assert_eq!(read(false, &frames), r#"{"x":{"y":1}1} Calls"#, "each choice counts its calls");
        let both = [event(&[of(0, text, stop), of(1, text, "\"length\"")])];
        assert_eq!(read(false, &both), "AA Length");
        assert_eq!(read(true, &both), "A Stop", "the client asked for them");
    }
}
