//! Decodes the frames of a response into events.
//!
//! The API has no end marker, and older models send the finish reason `STOP` with every frame. A finish
//! reason therefore counts only if no content follows it, and is passed on at the end of the body.
//!
//! A frame that differs from an earlier one only in its text and its token counts is recognised by comparison
//! ([`FrameTemplate`]). It means the same as that frame, apart from the text.

use memchr::memchr2;

use super::{
    ReaderSettings,
    chunk::{Candidate, Chunk},
    finish::ending,
    grounding::Grounding,
    parts::PartKind,
    streamed_call::StreamedCall,
};
use crate::{
    Asked, Dialect, Found, JsonBody, Progress, ResponseState, Skip, Skipped,
    channel::{self, emit},
    event::{Event, Finish, Reasoning, Sink, Start, Usage},
    failure::{Failure, Kind as FailureKind},
    frame_cache::FrameCache,
    refusal::{first_words, reported_json, told},
    rules::Limits,
    usage::{self, raw_usage},
    whole_calls::WholeCalls,
    wire::json::{FrameTemplate, Json, Kind},
};

/// The state of one response.
#[derive(Debug, Default)]
pub struct AnswerState {
    tolerate_truncation: bool,
    pub(super) limits: Limits,
    verbatim: bool,
    text: channel::Channel,
    thought: channel::Channel,
    pub(super) calls: WholeCalls,
    pub(super) streamed: Option<StreamedCall>,
    pub(super) server_calls: u32,
    /// Whether the client asked for only one candidate, so that all candidates form one response.
    merges: bool,
    grounding: Grounding,
    plain: FrameCache<Plain>,
    /// The latest frame with token counts, or only the counts.
    usage: String,
    /// The latest frame with a finish reason, if the client speaks this dialect.
    last: String,
    /// The finish reason, unless content has followed it.
    finish: Option<Finish>,
    started: bool,
    pub(super) progress: Progress,
    pub(super) skipped: Skipped,
}

/// The template for frames that contain one piece of text or thought, and token counts.
#[derive(Debug)]
struct Plain {
    shape: FrameTemplate,
    channel: Channel,
    has_usage: bool,
    /// Whether such frames may be forwarded.
    is_canonical: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Text,
    Thought,
}

impl ResponseState for AnswerState {
    const JSON: JsonBody = JsonBody::Elements;

    fn expect(&mut self, asked: Asked) {
        self.limits = asked.limits;
        self.calls.expect(&asked);
        self.merges = !asked.several;
    }

    fn known(&mut self, frame: &str, out: &mut impl Sink) -> Result<bool, Failure> {
        if self.streamed.is_some() {
            return Ok(false);
        }
        let Some((plain, body)) = self.plain.find(|plain| plain.shape.body(frame)) else { return Ok(false) };
        let channel = plain.channel;
        let forwarded = Some(frame).filter(|_| plain.is_canonical);
        if plain.has_usage {
            self.usage.clear();
            self.usage.push_str(frame);
        }
        self.end_with(None);
        self.say(channel, body, forwarded, out);
        Ok(true)
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        let text = text.trim();
        Found::read(Chunk::parse(text), |chunk, _| self.chunk(chunk, text, out))
    }

    fn may_end(&self, is_value: bool) -> bool {
        is_value || self.tolerate_truncation
    }

    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.progress.close()?;
        let finish = self.finish.unwrap_or(Finish::Stop);
        // If the text was cut off, half of a surrogate pair is just an unfinished character, and is dropped.
        let is_cut = matches!(finish, Finish::Length | Finish::Filter);
        if let Some(half) = self.thought.finish().filter(|_| !is_cut) {
            out.event(Event::Reasoning(Reasoning::text(half.to_string())));
        }
        if let Some(half) = self.text.finish().filter(|_| !is_cut) {
            out.event(Event::Text(half.to_string().into()));
        }
        self.end_streamed_call(true, out)?;
        self.calls.release(out);
        self.grounding.cite(out);
        let last = Some(self.last.as_str()).filter(|last| !last.is_empty());
        emit(out, last, Event::Finish(finish.of_calls(self.calls.any())));
        if let Some(usage) =
            Json::parse(&self.usage).ok().map(|json| json.get("usageMetadata").unwrap_or(json))
        {
            out.event(Event::Usage(usage_of(usage)));
        }
        Ok(())
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn notes(&mut self) -> (&mut Progress, &mut Skipped) {
        (&mut self.progress, &mut self.skipped)
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

impl AnswerState {
    pub(super) fn new(settings: ReaderSettings) -> Self {
        let ReaderSettings { tolerate_truncation, verbatim, cites, .. } = settings;
        Self { tolerate_truncation, verbatim, grounding: Grounding::new(cites), ..Self::default() }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, frame: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if let Some(error) = chunk.error {
            return Err(reported_json(error));
        }
        if !chunk.is_part() {
            self.skipped.add(Skip::NotAChunk);
            return told(frame).map_or(Ok(()), Err);
        }
        self.start(chunk, out);
        if let Some(usage) = chunk.usage {
            self.usage.clear();
            self.usage.push_str(usage.raw());
        }
        if let Some(reason) = chunk.block_reason() {
            return self.blocked(reason);
        }
        let (candidate, others) = chunk.candidate();
        if others > 0 && self.merges {
            // Only one candidate was requested, so all candidates together form the response.
            return chunk
                .all_candidates()
                .try_for_each(|candidate| self.candidate(chunk, &candidate, frame, out));
        }
        self.skipped.add_many(Skip::OtherChoice, others);
        match candidate {
            Some(candidate) => self.candidate(chunk, &candidate, frame, out),
            None => Ok(()),
        }
    }

    fn start(&mut self, chunk: &Chunk<'_>, out: &mut impl Sink) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let text = |json: Option<Json<'_>>| {
            json.and_then(|json| Some(json.as_str()?.into_owned())).unwrap_or_default()
        };
        let (id, model) = (text(chunk.id).into(), text(chunk.model).into());
        out.event(Event::Start(Start { id, model, created: None }));
    }

    /// Handles a blocked prompt. Before any content this is an error in the request; after content, it counts
    /// as a finish reason: a content filter ended the response.
    fn blocked(&mut self, reason: Json<'_>) -> Result<(), Failure> {
        if self.progress.has_content {
            self.end_with(Some(Finish::Filter));
            return Ok(());
        }
        let word = first_words(reason.as_str().unwrap_or_default().as_bytes()).unwrap_or_default();
        let message = format!("the upstream blocked the prompt: {word}");
        Err(Failure::new(FailureKind::Request, message).with_code("content_filter"))
    }

    fn candidate(
        &mut self,
        chunk: &Chunk<'_>,
        candidate: &Candidate<'_>,
        frame: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.progress.has_choice = true;
        let mut only = None;
        let forwarded = Some(frame).filter(|frame| self.may_forward(chunk, candidate, frame));
        for (place, part) in candidate.parts().enumerate() {
            let said = self.part(part, forwarded, out)?;
            only = said.filter(|_| place == 0);
        }
        if let Some(grounding) = candidate.grounding {
            self.grounding.note(grounding);
        }
        if let Some(finish) = candidate.finish {
            let word = finish.as_str().unwrap_or_default();
            let message = candidate.finish_message.and_then(|message| message.as_str());
            let known = ending(&word, message.as_deref())?;
            if known.is_none() {
                self.skipped.add(Skip::UnknownFinish);
            }
            self.end_with(Some(known.unwrap_or(Finish::Stop)));
            if self.verbatim {
                self.last.clear();
                self.last.push_str(frame);
            }
        } else if let Some((channel, body)) = only
            && candidate.grounding.is_none()
        {
            self.learn(chunk, frame, channel, body, forwarded.is_some());
        }
        Ok(())
    }

    /// Whether the frame may be forwarded, judging by everything but its text: it has one part and ends nothing.
    fn may_forward(&self, chunk: &Chunk<'_>, candidate: &Candidate<'_>, frame: &str) -> bool {
        self.verbatim
            && candidate.finish.is_none()
            && candidate.parts().nth(1).is_none()
            && chunk.is_canonical()
            && frame.starts_with('{')
            && memchr2(b'\n', b'\r', frame.as_bytes()).is_none()
    }

    /// Reads a part. If it contains only text, also returns the raw body of that text's JSON string. `frame` is
    /// the part's frame, if it may be forwarded.
    fn part<'a>(
        &mut self,
        part: Json<'a>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<Option<(Channel, &'a str)>, Failure> {
        let part = PartKind::read(part);
        if part.is_content() {
            // Content follows, so the earlier finish reason did not end the response.
            self.end_with(None);
            self.progress.has_content |= !part.is_thought();
        }
        self.part_of_kind(part, frame, out)
    }

    /// Ends the response with `finish`, unless content follows.
    fn end_with(&mut self, finish: Option<Finish>) {
        self.finish = finish;
        self.progress.is_finished = finish.is_some();
    }

    /// Emits a piece of text or thought. Both paths use this. `frame` is the piece's frame, if it may be forwarded.
    pub(super) fn say(&mut self, channel: Channel, body: &str, frame: Option<&str>, out: &mut impl Sink) {
        let Self { text, thought, grounding, calls, .. } = self;
        match channel {
            Channel::Text => {
                let frame = frame.filter(|_| text.may_forward(body));
                let text = text.piece(body);
                if !text.is_empty() {
                    calls.release(out);
                    grounding.said(text);
                    emit(out, frame, Event::Text(text.into()));
                }
            }
            Channel::Thought => {
                let frame = frame.filter(|_| thought.may_forward(body));
                let text = thought.piece(body);
                if !text.is_empty() {
                    calls.release(out);
                    emit(out, frame, Event::Reasoning(Reasoning::text(text)));
                }
            }
        }
    }

    /// Learns the template of a frame that contains one piece of text and token counts.
    fn learn(&mut self, chunk: &Chunk<'_>, frame: &str, channel: Channel, body: &str, is_canonical: bool) {
        if !self.plain.may_learn() {
            return;
        }
        let mut counts = Vec::new();
        if let Some(usage) = chunk.usage {
            numbers(usage, &mut counts);
        }
        let shape = FrameTemplate::learn_with(frame, body, &counts);
        let has_usage = chunk.usage.is_some();
        self.plain.learn(shape.map(|shape| Plain { shape, channel, has_usage, is_canonical }));
    }
}

fn numbers<'a>(json: Json<'a>, found: &mut Vec<Json<'a>>) {
    match json.kind() {
        Kind::Number => found.push(json),
        Kind::Object => json.members().for_each(|(_, value)| numbers(value, found)),
        Kind::Array => json.elements().for_each(|value| numbers(value, found)),
        _ => {}
    }
}

/// Parses a `usageMetadata`. The tokens of candidates do not include those of thoughts.
fn usage_of(usage: Json<'_>) -> Usage {
    let count = |key: &str| usage::count(usage.get(key)?);
    let input = usage::sum(count("promptTokenCount"), count("toolUsePromptTokenCount"));
    let reasoning = count("thoughtsTokenCount");
    let output = usage::sum(count("candidatesTokenCount"), reasoning);
    let total = count("totalTokenCount").or_else(|| input?.checked_add(output?));
    let cached = count("cachedContentTokenCount");
    let raw = raw_usage(usage, Dialect::Gemini);
    Usage { input, output, reasoning, total, cached, cache_written: None, raw }
}
