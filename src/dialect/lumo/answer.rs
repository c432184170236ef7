//! [`Answer`]: what becomes of what the frames say, whichever version said it.
//!
//! Each channel of the stream has a state of its own here: text and reasoning (a surrogate pair may be cut between two
//! pieces), tool payloads of v1, calls of the upstream's and of the client's tools. Everything goes out as soon as it
//! is certain; [`Answer::finish`] lets go of the rest.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    server_calls::ServerCalls,
    values::{Outside, Values},
};
use crate::{
    detect::Tools,
    dialect::{Skipped, tool_calls::CallDeltas},
    event::{Event, Finish, Media, Reasoning, Sink, Start, Usage},
    failure::Failure,
    pipeline::Limits,
    wire::json::{Json, MAX_DEPTH, Unescaper},
};

/// What a piece of content is for (Lumo 1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The answer's text.
    Message,
    /// The model's reasoning.
    Reasoning,
    /// Calls of server tools.
    ToolCall,
    /// Results of server tools.
    ToolResult,
    /// Arguments of a client's tool, of the call of that number. No name names it: v2 has calls in deltas of their own.
    Arguments(u64),
    /// What Lumo's own client shows beside the answer: never part of it.
    Aside,
    /// No target that is known: left out, as Lumo's own client does.
    Unknown,
}

impl Target {
    /// The target of that name.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "tool_call" => Self::ToolCall,
            "tool_result" => Self::ToolResult,
            "title" | "suggested_questions" => Self::Aside,
            _ => Self::Unknown,
        }
    }
}

/// How far the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing but signs of life.
    Waiting,
    Open,
    /// The finish reason is known; usage may follow.
    Finished,
    /// The end mark has been read.
    Done,
}

/// An answer as far as it has come.
#[derive(Debug)]
pub(super) struct Answer {
    stage: Stage,
    requested: Target,
    text: Unescaper,
    reasoning: Unescaper,
    scratch: String,
    call_texts: Values,
    result_texts: Values,
    calls: CallDeltas,
    server_calls: ServerCalls,
    malformed: u64,
}

impl Answer {
    /// An answer whose content is for `requested` unless a frame says something else; payloads of v1 tools have at most
    /// `max_frame` bytes.
    pub(super) fn new(requested: Target, max_frame: usize) -> Self {
        Self {
            stage: Stage::Waiting,
            requested,
            text: Unescaper::new(),
            reasoning: Unescaper::new(),
            scratch: String::new(),
            call_texts: Values::new(Outside::Noise, max_frame),
            result_texts: Values::new(Outside::Prose, max_frame),
            calls: CallDeltas::new(MAX_DEPTH),
            server_calls: ServerCalls::default(),
            malformed: 0,
        }
    }

    /// Something has been said, be it the head of the answer.
    pub(super) fn has_begun(&self) -> bool {
        self.stage > Stage::Waiting
    }

    /// The finish reason is known.
    pub(super) fn is_finished(&self) -> bool {
        self.stage >= Stage::Finished
    }

    /// The end mark has been read.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The target that the request asked for.
    pub(super) fn requested(&self) -> Target {
        self.requested
    }

    /// Counts a frame, or something in one, that was passed over.
    pub(super) fn skip(&mut self) {
        self.malformed += 1;
    }

    /// What was passed over so far.
    pub(super) fn malformed(&self) -> u64 {
        self.malformed + self.call_texts.broken()
    }

    /// What was left out of calls of the client's tools.
    pub(super) fn skipped(&self) -> &Skipped {
        self.calls.skipped()
    }

    /// Sets the limits of the answer.
    pub(super) fn expect(&mut self, limits: Limits) {
        self.calls.expect(Tools::default(), limits);
    }

    /// Results whose call nobody has seen.
    pub(super) fn orphan_results(&self) -> u64 {
        self.server_calls.orphans()
    }

    /// The head of the answer; only the first one counts.
    pub(super) fn start(&mut self, start: Start<'_>, out: &mut impl Sink) {
        if self.stage == Stage::Waiting {
            self.stage = Stage::Open;
            out.event(Event::Start(start));
        }
    }

    /// A piece of content for `target`: the body of a JSON string.
    ///
    /// # Errors
    /// A tool payload is larger than allowed.
    pub(super) fn content(&mut self, target: Target, body: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if body.is_empty() || self.is_finished() {
            return Ok(());
        }
        self.start(Start::default(), out);
        match target {
            Target::Message => self.text(body, out),
            Target::Reasoning => self.reason(body, out),
            Target::ToolCall => self.call_text(body, out)?,
            Target::ToolResult => self.result_text(body, out)?,
            Target::Arguments(index) => self.calls.arguments_delta(index, body, out)?,
            Target::Aside => {}
            Target::Unknown => self.skip(),
        }
        Ok(())
    }

    /// A new segment begins: the one before is over, unless its JSON is still open.
    pub(super) fn segment(&mut self, out: &mut impl Sink) {
        if self.result_texts.is_prose() {
            self.end_segments(out);
        }
    }

    /// A delta of calls of the client's tools, in today's form.
    ///
    /// # Errors
    /// A call is larger than allowed, or there are too many.
    pub(super) fn call_deltas(&mut self, tool_calls: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        if self.is_finished() {
            return Ok(());
        }
        self.start(Start::default(), out);
        self.calls.delta(tool_calls, out)
    }

    /// The same in the form of before 2023-11.
    ///
    /// # Errors
    /// As [`Answer::call_deltas`].
    pub(super) fn legacy_call(
        &mut self,
        function_call: Json<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        if self.is_finished() {
            return Ok(());
        }
        self.start(Start::default(), out);
        self.calls.legacy(function_call, out)
    }

    /// One telling of a server tool's call.
    pub(super) fn server_call(&mut self, call: Json<'_>, out: &mut impl Sink) {
        if self.is_finished() {
            return;
        }
        self.start(Start::default(), out);
        if !self.server_calls.call(call, &mut self.calls, out) {
            self.skip();
        }
    }

    /// A server tool's result.
    pub(super) fn server_result(&mut self, id: &str, content: &str, out: &mut impl Sink) {
        if !self.is_finished() {
            self.start(Start::default(), out);
            self.server_calls.result(id, content, &mut self.calls, out);
        }
    }

    /// An image.
    pub(super) fn media(&mut self, media: Media<'_>, out: &mut impl Sink) {
        if !self.is_finished() {
            self.start(Start::default(), out);
            out.event(Event::Media(media));
        }
    }

    /// Token counts: also after the finish reason.
    pub(super) fn usage(&mut self, usage: Json<'_>, out: &mut impl Sink) {
        let count = |key| usage.get(key).and_then(|count| count.as_u64());
        self.start(Start::default(), out);
        out.event(Event::Usage(Usage {
            input: count("prompt_tokens"),
            output: count("completion_tokens"),
            total: count("total_tokens"),
            raw: RawValue::from_string(usage.raw().to_owned()).ok(),
        }));
    }

    /// Why the answer ended; only the first reason counts.
    pub(super) fn finish(&mut self, finish: Finish, out: &mut impl Sink) {
        if self.is_finished() {
            return;
        }
        self.start(Start::default(), out);
        self.release(finish == Finish::Length, out);
        self.stage = Stage::Finished;
        out.event(Event::Finish(finish));
    }

    /// The end mark. Without a finish reason before, the answer was simply done.
    pub(super) fn end(&mut self, out: &mut impl Sink) {
        self.finish(Finish::Stop, out);
        self.stage = Stage::Done;
    }

    /// The answer has failed: nothing more will come, and what was certain goes out.
    pub(super) fn abort(&mut self, out: &mut impl Sink) {
        if !self.is_finished() {
            self.release(true, out);
        }
        self.stage = Stage::Done;
    }

    fn text(&mut self, body: &str, out: &mut impl Sink) {
        let text = self.text.decode(body, &mut self.scratch);
        if text.is_empty() {
            return;
        }
        end_segments(
            &mut self.call_texts,
            &mut self.result_texts,
            &mut self.server_calls,
            &mut self.calls,
            out,
        );
        self.server_calls.flush(&mut self.calls, out);
        out.event(Event::Text(Cow::Borrowed(text)));
    }

    fn reason(&mut self, body: &str, out: &mut impl Sink) {
        let text = self.reasoning.decode(body, &mut self.scratch);
        if !text.is_empty() {
            out.event(Event::Reasoning(Reasoning { text: Cow::Borrowed(text), signature: None }));
        }
    }

    fn call_text(&mut self, body: &str, out: &mut impl Sink) -> Result<(), Failure> {
        self.segment(out);
        let Self { call_texts, server_calls, calls, malformed, .. } = self;
        call_texts.push(body, |text| {
            let call = Json::parse(text).ok();
            if !call.is_some_and(|call| server_calls.call(call.get("function").unwrap_or(call), calls, out)) {
                *malformed += 1;
            }
        })
    }

    fn result_text(&mut self, body: &str, out: &mut impl Sink) -> Result<(), Failure> {
        let Self { call_texts, result_texts, server_calls, calls, .. } = self;
        call_texts.end(|_| {});
        result_texts.push(body, |text| server_calls.result("", text, calls, out))
    }

    fn end_segments(&mut self, out: &mut impl Sink) {
        end_segments(
            &mut self.call_texts,
            &mut self.result_texts,
            &mut self.server_calls,
            &mut self.calls,
            out,
        );
    }

    /// Lets go of everything that waits. `cut`: the model was interrupted. A second time there is nothing left.
    pub(super) fn release(&mut self, cut: bool, out: &mut impl Sink) {
        let mut half = [0; 4];
        if let Some(char) = self.reasoning.finish() {
            let text = Cow::Borrowed(&*char.encode_utf8(&mut half));
            out.event(Event::Reasoning(Reasoning { text, signature: None }));
        }
        if let Some(char) = self.text.finish() {
            out.event(Event::Text(Cow::Borrowed(char.encode_utf8(&mut half))));
        }
        self.end_segments(out);
        self.server_calls.flush(&mut self.calls, out);
        self.calls.finish(cut, out);
    }
}

/// The payloads of v1's tool channels are over.
fn end_segments(
    call_texts: &mut Values,
    result_texts: &mut Values,
    server_calls: &mut ServerCalls,
    calls: &mut CallDeltas,
    out: &mut impl Sink,
) {
    call_texts.end(|_| {});
    result_texts.end(|text| server_calls.result("", text, calls, out));
}
