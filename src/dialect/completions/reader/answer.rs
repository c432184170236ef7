//! One response: its chunks, in order, decoded to events.

use super::chunk::{Choice, Chunk};
use crate::{
    dialect::{
        Skip, Skipped,
        finish::{failure_of, finish_of},
        refusal::{first_words, reported},
        skipped::is_sign_of_life,
        usage::usage_of,
    },
    event::{Event, Finish, Reasoning, Sink, Start, Usage},
    failure::{Failure, Kind},
    wire::{
        json::{self, Json, Unescaper},
        sse::{Frame, Message},
    },
};

/// The state of one response.
#[derive(Debug, Default)]
pub(super) struct AnswerState {
    tolerate_truncation: bool,
    text: Unescaper,
    scratch: String,
    /// The last usage object or counts, until they are passed on.
    usage: Option<Usage>,
    /// JSON lines so far.
    lines: usize,
    /// The body is one JSON value on several lines.
    several_lines: bool,
    started: bool,
    has_choice: bool,
    has_content: bool,
    finished: bool,
    /// The end mark `[DONE]` has been read.
    marked: bool,
    /// The last chunk said that the response has not ended.
    goes_on: bool,
    done: bool,
    begun: bool,
    skipped: Skipped,
}

impl AnswerState {
    pub(super) fn new(tolerate_truncation: bool) -> Self {
        Self { tolerate_truncation, ..Self::default() }
    }

    /// The response has ended: nothing more is read.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The end mark came without a finish reason.
    pub(super) fn awaits_end(&self) -> bool {
        self.marked && !self.done
    }

    /// The body had a frame or a line.
    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }

    pub(super) fn has_choice(&self) -> bool {
        self.has_choice
    }

    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    pub(super) fn is_several_lines(&self) -> bool {
        self.several_lines
    }

    pub(super) fn expect_several_lines(&mut self) {
        self.several_lines = true;
    }

    pub(super) fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }

    /// Takes the next frame of an event stream.
    pub(super) fn frame(&mut self, frame: Frame<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.begun = true;
        match frame {
            Frame::Event(Message { event: b"error", data, .. }) => Err(error_event(data)),
            Frame::Event(Message { data, .. }) => self.data(utf8(data)?, false, out),
            Frame::Comment(text) => {
                out.event(Event::Ping(std::str::from_utf8(text).unwrap_or_default().into()));
                Ok(())
            }
            Frame::Retry(_) => Ok(()),
        }
    }

    /// Takes a last frame without its blank line, which may be truncated.
    pub(super) fn last_frame(&mut self, frame: Frame<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        match frame {
            Frame::Event(Message { event, data, .. }) if event != b"error" => {
                self.begun = true;
                match std::str::from_utf8(data) {
                    Ok(text) => self.data(text, true, out),
                    Err(error) if error.error_len().is_none() => Ok(()),
                    Err(_) => utf8(data).map(drop),
                }
            }
            frame => self.frame(frame, out),
        }
    }

    /// Takes a line of JSON.
    pub(super) fn json_line(&mut self, line: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        self.begun = true;
        self.lines += usize::from(!line.trim_ascii().is_empty());
        self.data(utf8(line)?, false, out)
    }

    /// Takes the rest of a body of JSON, which may be truncated.
    pub(super) fn last_json(&mut self, rest: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        self.begun = true;
        self.lines += 1;
        match std::str::from_utf8(rest) {
            Ok(text) => self.data(text, true, out),
            Err(error) if error.error_len().is_none() => Ok(()),
            Err(_) => utf8(rest).map(drop),
        }
    }

    /// Takes the data of a frame, or a line. `is_last`: it may be truncated by the body's end.
    fn data(&mut self, text: &str, is_last: bool, out: &mut impl Sink) -> Result<(), Failure> {
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || self.marked || self.done {
            return Ok(());
        }
        if text.starts_with("[DONE]") {
            return self.mark_end(out);
        }
        match Chunk::parse(text) {
            Ok((json, chunk)) if json.kind() == json::Kind::Object => self.chunk(&chunk, out),
            Ok((json, _)) if json.kind() == json::Kind::Array => {
                json.elements().try_for_each(|element| self.data(element.raw(), false, out))
            }
            Ok(_) => {
                self.skipped.add(Skip::NotAChunk);
                Ok(())
            }
            Err(_) if text.contains('\n') && !self.several_lines => {
                text.split('\n').try_for_each(|line| self.data(line, is_last, out))
            }
            Err(_) => self.unreadable(text, is_last),
        }
    }

    /// A frame that is not JSON. Inside a response it is an error, because a part of the response is lost.
    fn unreadable(&mut self, frame: &str, is_last: bool) -> Result<(), Failure> {
        let is_harmless = is_last || frame.starts_with(':') || is_sign_of_life(frame);
        if self.has_choice && !self.finished && !is_harmless {
            let words = first_words(frame.as_bytes()).unwrap_or_default();
            let message = format!("the upstream sent a frame that is not JSON: \"{words}\"");
            return Err(Failure::new(Kind::Protocol, message));
        }
        self.skipped.add(Skip::NotJson);
        Ok(())
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        if let Some(error) = chunk.error {
            return Err(reported(&serde_json::from_str(error.raw()).unwrap_or_default()));
        }
        if !chunk.is_part() {
            self.skipped.add(Skip::NotAChunk);
            return Ok(());
        }
        self.start(chunk, out);
        let (choice, has_others) = chunk.choice();
        if has_others {
            self.skipped.add(Skip::OtherChoice);
        }
        self.goes_on = chunk.has_done_flag() && !chunk.is_done();
        if let Some(thinking) = chunk.thinking.and_then(|text| text.as_str()).filter(|text| !text.is_empty())
        {
            out.event(Event::Reasoning(Reasoning { text: thinking, signature: None }));
        }
        if let Some(choice) = &choice {
            self.choice(choice, out)?;
        }
        self.note_usage(chunk);
        if chunk.is_done() {
            self.has_choice = true;
            if !self.finished {
                self.finish_by(chunk.reason(), chunk.reached_limit(), out)?;
            }
            return self.close(out);
        }
        if self.finished {
            self.tell_usage(out);
        }
        Ok(())
    }

    fn start(&mut self, chunk: &Chunk<'_>, out: &mut impl Sink) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let text = |json: Option<Json<'_>>| {
            json.and_then(|json| Some(json.as_str()?.into_owned())).unwrap_or_default()
        };
        let created = chunk.created.and_then(|created| created.as_u64());
        let (id, model) = (text(chunk.id), text(chunk.model));
        out.event(Event::Start(Start { id: id.into(), model: model.into(), created }));
    }

    fn choice(&mut self, choice: &Choice<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.has_choice = true;
        let body = choice.text.and_then(|text| text.string_body()).unwrap_or_default();
        if !body.is_empty() {
            if self.finished {
                self.skipped.add(Skip::LateContent);
                return Ok(());
            }
            self.has_content = true;
            let text = self.text.decode(body, &mut self.scratch);
            if !text.is_empty() {
                out.event(Event::Text(text.into()));
            }
        }
        match choice.finish {
            Some(word) if !self.finished && word.raw() != "\"\"" => self.finish_by(Some(word), false, out),
            _ => Ok(()),
        }
    }

    fn finish_by(
        &mut self,
        word: Option<Json<'_>>,
        reached_limit: bool,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let word = word.and_then(|word| word.as_str()).unwrap_or_default();
        let finish = match &*word {
            _ if reached_limit => Finish::Length,
            "" => Finish::Stop,
            word => match (self.known(word), failure_of(word)) {
                (Some(finish), _) => finish,
                (None, Some(failure)) => return Err(failure),
                (None, None) => {
                    self.skipped.add(Skip::UnknownFinish);
                    Finish::Stop
                }
            },
        };
        self.end_text(finish, out);
        self.finished = true;
        out.event(Event::Finish(finish));
        Ok(())
    }

    /// The finish that `word` means; with llama.cpp's words. A completion has no calls.
    fn known(&self, word: &str) -> Option<Finish> {
        match word {
            "limit" => Some(Finish::Length),
            "word" | "none" | "load" | "unload" => Some(Finish::Stop),
            word => finish_of(word).map(|finish| if finish == Finish::Calls { Finish::Stop } else { finish }),
        }
    }

    /// If the text was cut off, half of a surrogate pair is an incomplete character.
    fn end_text(&mut self, finish: Finish, out: &mut impl Sink) {
        let is_cut = matches!(finish, Finish::Length | Finish::Filter);
        if let Some(half) = self.text.finish().filter(|_| !is_cut) {
            out.event(Event::Text(half.to_string().into()));
        }
    }

    /// `[DONE]`. After a finish reason it ends the response; without one, the body must end properly as well.
    fn mark_end(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.marked = true;
        if self.finished || !self.has_content { self.close(out) } else { Ok(()) }
    }

    /// The response has ended.
    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.done = true;
        if !self.finished && !self.has_content {
            let message = "the upstream ended its response without content or a finish reason";
            return Err(Failure::new(Kind::Truncated, message));
        }
        if !self.finished {
            self.end_text(Finish::Stop, out);
            self.finished = true;
            out.event(Event::Finish(Finish::Stop));
        }
        self.tell_usage(out);
        Ok(())
    }

    /// The body has ended without an end mark. `is_whole`: it was one JSON value, so nothing is missing.
    pub(super) fn end(&mut self, is_whole: bool, out: &mut impl Sink) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        let may_end = self.marked || (is_whole && !self.goes_on) || self.tolerate_truncation;
        if self.finished || (may_end && self.has_choice) {
            return self.close(out);
        }
        self.tell_usage(out);
        Err(Failure::new(Kind::Truncated, "the upstream closed the stream before the response's end"))
    }

    fn note_usage(&mut self, chunk: &Chunk<'_>) {
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage_of(usage));
        } else if let (Some(input), Some(output)) = chunk.counts() {
            let total = input.checked_add(output);
            let (input, output) = (Some(input), Some(output));
            self.usage = Some(Usage { input, output, total, ..Usage::default() });
        }
    }

    fn tell_usage(&mut self, out: &mut impl Sink) {
        if let Some(usage) = self.usage.take() {
            out.event(Event::Usage(usage));
        }
    }
}

fn utf8(data: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(data).map_err(|error| {
        let at = error.valid_up_to();
        Failure::new(
            Kind::Protocol,
            format!("the upstream sent a frame that is not UTF-8 (at its byte {at})"),
        )
    })
}

/// An SSE event of the type `error`: its data may be the error object, contain it, or be plain text.
fn error_event(data: &[u8]) -> Failure {
    match serde_json::from_slice::<serde_json::Value>(data) {
        Ok(value) => reported(value.get("error").unwrap_or(&value)),
        Err(_) => reported(&first_words(data).into()),
    }
}
