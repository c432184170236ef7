//! Decodes the frames of a response into events.
//!
//! A frame takes one of two paths. The slow path parses it into a [`Chunk`]. The fast path handles the
//! hundreds of frames that differ from the previous one only in a string: [`FrameTemplate`] recognises them
//! by comparison, and they mean the same as that frame, apart from the string. Tests check that both paths
//! agree.

mod delta_content;
mod ends;
mod merged_choices;

use memchr::memchr2;

use super::{
    ReaderSettings,
    calls::Calls,
    chunk::{Choice, Chunk},
};
use crate::{
    Asked, Found, JsonBody, Progress, ReasoningField, ResponseState, Skip, Skipped,
    channel::{Channel, emit},
    event::{Event, Finish, Sink, Start},
    failure::Failure,
    frame_cache::FrameCache,
    refusal::{reported_json, told},
    tool_calls::{CallDeltas, arguments_only},
    wire::json::{FrameTemplate, Json, MAX_DEPTH},
};
use ends::HeldFinish;
use merged_choices::MergedChoices;

/// The state of one response.
#[derive(Debug)]
pub struct AnswerState {
    settings: ReaderSettings,
    head: Option<Head>,
    text: Channel,
    reasoning: Channel,
    deltas: CallDeltas,
    calls: Calls,
    plain: FrameCache<Plain>,
    /// The latest usage object until it is passed on. Some servers send one with every chunk.
    usage: String,
    /// Whether there was a usage object.
    has_usage: bool,
    /// Whether the finish reason in the last chunk was an empty string.
    blank_finish: bool,
    progress: Progress,
    /// Whether the response arrived as a message instead of deltas.
    is_whole: bool,
    /// Whether the client did not ask for a stream.
    wants_whole: bool,
    /// Whether to forward the frame of a complete response because it has members that no event represents.
    keeps_frame: bool,
    several: bool,
    /// The choices that together make up the response, if there are several.
    merged: Option<MergedChoices>,
    /// The finish, while another choice may still follow.
    held_finish: Option<HeldFinish>,
    skipped: Skipped,
    reasoning_field: Option<ReasoningField>,
}

/// The values that must be the same in all frames of a stream, as raw JSON.
#[derive(Debug)]
struct Head {
    id: String,
    created: String,
}

/// The template for frames that contain a piece of text or arguments and nothing else.
#[derive(Debug)]
struct Plain {
    shape: FrameTemplate,
    channel: ChannelName,
    is_canonical: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelName {
    Text,
    Reasoning,
    Arguments(u64),
}

impl ResponseState for AnswerState {
    const JSON: JsonBody = JsonBody::Value;
    const NONE_OF: Option<&'static str> = Some("frames is a completion chunk");

    fn expect(&mut self, asked: Asked) {
        self.wants_whole = !asked.stream;
        self.several = asked.several;
        self.deltas.mend(asked.repair);
        self.deltas.expect(asked.tools, asked.limits);
    }

    fn known(&mut self, frame: &str, out: &mut impl Sink) -> Result<bool, Failure> {
        let Some((plain, body)) = self.plain.find(|plain| plain.shape.body(frame)) else { return Ok(false) };
        let (channel, is_canonical) = (plain.channel, plain.is_canonical);
        self.blank_finish = false;
        self.say_piece(channel, body, Some(frame).filter(|_| is_canonical), out)?;
        Ok(true)
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        Found::read(Chunk::parse(text), |chunk, _| self.chunk(chunk, text, out))
    }

    fn begin_value(&mut self, _value: &str, _out: &mut impl Sink) {
        self.keeps_frame = self.settings.verbatim && self.wants_whole;
    }

    fn may_end(&self, is_value: bool) -> bool {
        let value = is_value && self.is_whole;
        value || self.blank_finish || self.settings.tolerate_truncation || self.merged_finish().is_some()
    }

    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if let Some(finish) = self.merged_finish() {
            self.finish_merged(finish, out);
        }
        self.progress.close()?;
        if !self.progress.is_finished {
            self.end_calls(false, out);
            let finish = if self.calls.cut { Finish::Length } else { Finish::Stop };
            self.finish(finish, None, out);
        }
        self.release_finish(out);
        self.tell_usage(out);
        Ok(())
    }

    fn tell_usage(&mut self, out: &mut impl Sink) {
        self.tell_usage_by(None, out);
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn notes(&mut self) -> (&mut Progress, &mut Skipped) {
        (&mut self.progress, &mut self.skipped)
    }

    fn skipped(&self) -> Skipped {
        let mut skipped = self.skipped.clone();
        skipped.add_all(self.deltas.skipped());
        skipped
    }

    fn reasoning_field(&self) -> Option<ReasoningField> {
        self.reasoning_field
    }
}

impl AnswerState {
    pub(super) fn new(settings: ReaderSettings) -> Self {
        Self {
            settings,
            head: None,
            text: Channel::default(),
            reasoning: Channel::default(),
            deltas: CallDeltas::new(MAX_DEPTH),
            calls: Calls::default(),
            plain: FrameCache::default(),
            usage: String::new(),
            has_usage: false,
            blank_finish: false,
            progress: Progress::default(),
            is_whole: false,
            wants_whole: false,
            keeps_frame: false,
            several: true,
            merged: None,
            held_finish: None,
            skipped: Skipped::default(),
            reasoning_field: None,
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, frame: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if self.held_finish.is_some() {
            self.follow_finish(chunk, out);
        }
        if let Some(error) = chunk.error {
            return Err(reported_json(error));
        }
        let choice = chunk.choice();
        let is_merged = self.merges(chunk, choice.as_ref());
        if std::mem::take(&mut self.keeps_frame) && !is_merged {
            out.event(Event::Verbatim { frame, means: None });
        }
        if is_merged {
            return self.merge(chunk, out);
        }
        let canonical = Some(frame).filter(|frame| self.is_canonical(chunk, frame));
        match &choice {
            Some(choice) => self.choice(chunk, choice, frame, canonical, out)?,
            None => self.beside(chunk, frame, canonical, out)?,
        }
        let usage = chunk.usage.or_else(|| choice?.usage);
        if let Some(usage) = usage {
            self.note_usage(usage, canonical.filter(|_| chunk.is_bare()), out);
        } else if let Some(timings) = chunk.timings {
            self.note_timings(timings);
        }
        Ok(())
    }

    /// Whether the frame may be forwarded, judging by its outer members.
    fn is_canonical(&self, chunk: &Chunk<'_>, frame: &str) -> bool {
        let stays = |head: &Head| raw(chunk.id) == head.id && raw(chunk.created) == head.created;
        self.settings.verbatim
            && !self.settings.cumulative
            && chunk.is_canonical()
            && self.head.as_ref().is_none_or(stays)
            && memchr2(b'\n', b'\r', frame.as_bytes()).is_none()
    }

    /// Handles everything in a chunk other than the main choice: usage, a late notice, another choice.
    fn beside(
        &mut self,
        chunk: &Chunk<'_>,
        frame: &str,
        canonical: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        if chunk.is_no_chunk() && !self.progress.is_finished {
            return told(frame).map_or(Ok(()), Err);
        }
        if chunk.has_other_choices() {
            self.progress.has_choice = true;
            self.progress.has_content = true;
            self.is_whole |= chunk.has_messages();
            self.start(chunk, None, out);
            if canonical.is_none() {
                self.skipped.add(Skip::OtherChoice);
            }
        }
        let has_content = chunk.has_other_choices() || (chunk.is_bare() && chunk.has_other_members);
        if let Some(frame) = canonical.filter(|_| has_content && chunk.usage.is_none()) {
            out.event(Event::Verbatim { frame, means: None });
        }
        Ok(())
    }

    fn choice(
        &mut self,
        chunk: &Chunk<'_>,
        choice: &Choice<'_>,
        frame: &str,
        canonical: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.progress.has_choice = true;
        self.is_whole |= choice.has_message;
        let canonical = canonical.filter(|_| choice.is_canonical() && chunk.usage.is_none());
        let begins = choice.delta.is_role_only() && choice.finish_word().is_none();
        self.start(chunk, canonical.filter(|_| begins), out);
        if let Some(error) = choice.error {
            return Err(reported_json(error));
        }
        self.blank_finish = choice.has_blank_finish();
        if self.progress.is_finished && choice.delta.things() > 0 {
            self.skipped.add(Skip::LateContent);
        }
        if self.progress.is_finished || begins {
            return Ok(());
        }
        // The writer sends the role itself, exactly once.
        let canonical = canonical.filter(|_| choice.delta.role.is_none());
        self.say(&choice.delta, canonical, out)?;
        match choice.finish_word() {
            Some(word) => self.finish_by(&word, choice, canonical, out)?,
            None => self.forward_rest(choice, canonical, out),
        }
        self.learn(chunk, choice, frame, canonical.is_some());
        Ok(())
    }

    /// Forwards members that no stage reads, if the frame contains nothing else.
    fn forward_rest(&self, choice: &Choice<'_>, canonical: Option<&str>, out: &mut impl Sink) {
        let has_more = choice.has_other_members || choice.delta.has_other_members;
        if let Some(frame) = canonical.filter(|_| has_more && choice.delta.things() == 0) {
            out.event(Event::Verbatim { frame, means: None });
        }
    }

    /// Emits the head of the response before anything else, with its frame if the frame contains nothing
    /// else.
    fn start(&mut self, chunk: &Chunk<'_>, frame: Option<&str>, out: &mut impl Sink) {
        if self.head.is_some() {
            return;
        }
        let (id, model) = [chunk.id, chunk.model].map(|json| json?.as_str()).into();
        let created = chunk.created.and_then(|created| created.as_u64());
        self.head = Some(Head { id: raw(chunk.id).to_owned(), created: raw(chunk.created).to_owned() });
        let (id, model) = (id.unwrap_or_default(), model.unwrap_or_default());
        emit(out, frame, Event::Start(Start { id, model, created }));
    }

    /// Learns the template of a frame that contains one piece of text or arguments and nothing else.
    fn learn(&mut self, chunk: &Chunk<'_>, choice: &Choice<'_>, frame: &str, is_canonical: bool) {
        let delta = &choice.delta;
        let has_more = choice.has_other_members
            || delta.has_other_members
            || chunk.usage.is_some()
            || choice.usage.is_some();
        if self.progress.is_finished
            || has_more
            || delta.things() != 1
            || choice.has_blank_finish()
            || !self.plain.may_learn()
        {
            return;
        }
        let (channel, body) = match (delta.content, delta.reasoning, delta.calls) {
            (Some(content), None, None) => (ChannelName::Text, content.string_body()),
            (None, Some(reasoning), None) if delta.details.is_none() => {
                (ChannelName::Reasoning, reasoning.string_body())
            }
            (None, None, Some(calls)) => {
                let Some((index, body)) = arguments_only(calls) else { return };
                (ChannelName::Arguments(index), Some(body))
            }
            _ => return,
        };
        let shape = body.and_then(|body| FrameTemplate::learn(frame, body, chunk.padding));
        self.plain.learn(shape.map(|shape| Plain { shape, channel, is_canonical }));
    }
}

fn raw(json: Option<Json<'_>>) -> &str {
    json.map_or("", |json| json.raw())
}
