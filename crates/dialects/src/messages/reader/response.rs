//! Decodes the events of a response.
//!
//! As in the reader for Chat Completions, a delta takes one of two paths: the fast path recognises it by
//! comparison ([`Plain`]), and the slow path parses it. Text and thinking are accepted whatever block they
//! are addressed to; only calls need their block.

mod blocks;
mod ends;

use memchr::memchr2;

use super::{
    ReaderSettings,
    counts::Counts,
    event::{PieceKind, StreamEvent},
    plain::Plain,
};
use crate::{
    Asked, Found, JsonBody, Progress, ResponseState, Skip, Skipped,
    channel::{Channel, cuts_pair, emit},
    citations::Citations,
    event::{Event, Reasoning, Sink, Start},
    failure::Failure,
    frame_cache::FrameCache,
    refusal::{reported_json, told},
    rules::Limits,
    tool_calls::NamedCalls,
    wire::json::Json,
};
use blocks::{HostedCall, OpenBlock};

/// The state of one response.
#[derive(Debug)]
pub struct ResponseReader {
    settings: ReaderSettings,
    limits: Limits,
    /// Whether the client did not ask for a stream.
    wants_whole: bool,
    has_started: bool,
    is_whole: bool,
    text: Channel,
    thinking: Channel,
    /// The signature of the thinking so far. Until the block ends, a later signature replaces it.
    signature: Option<String>,
    citations: Citations,
    blocks: Vec<OpenBlock>,
    calls: NamedCalls,
    /// Calls that the upstream runs itself.
    hosted: Vec<HostedCall>,
    /// Number of blocks so far that had no index.
    unnumbered: u64,
    counts: Counts,
    plain: FrameCache<Plain>,
    progress: Progress,
    skipped: Skipped,
}

impl ResponseState for ResponseReader {
    const JSON: JsonBody = JsonBody::Value;
    const RUNS_TOOLS: bool = true;
    const NONE_OF: Option<&'static str> = Some("events is one of a message");

    fn expect(&mut self, asked: Asked) {
        self.wants_whole = !asked.stream;
        self.limits = asked.limits;
        self.calls.mend(asked.repair);
        self.calls.expect(asked.tools, asked.limits);
    }

    fn known(&mut self, frame: &str, out: &mut impl Sink) -> Result<bool, Failure> {
        let Some((plain, body)) = self.plain.find(|plain| plain.body(frame)) else { return Ok(false) };
        let (kind, index) = (plain.kind, plain.index);
        let frame = Some(frame).filter(|_| plain.is_canonical);
        self.say(kind, index, body, frame, out);
        Ok(true)
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        Found::read(StreamEvent::parse(text.trim()), |event, _| self.event(event, text, out))
    }

    fn begin_value(&mut self, value: &str, out: &mut impl Sink) {
        if self.settings.verbatim && self.wants_whole {
            // The frame may have members that no event represents.
            out.event(Event::Verbatim { frame: value, means: None });
        }
    }

    fn may_end(&self, is_value: bool) -> bool {
        (is_value && self.is_whole) || self.settings.tolerate_truncation
    }

    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.progress.close()?;
        if !self.progress.is_finished {
            let finish = self.calls.end_of_body(out);
            self.finish(finish, None, out);
        }
        self.tell_usage(out);
        Ok(())
    }

    fn tell_usage(&mut self, out: &mut impl Sink) {
        if let Some(usage) = self.counts.news() {
            out.event(Event::Usage(usage));
        }
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn notes(&mut self) -> (&mut Progress, &mut Skipped) {
        (&mut self.progress, &mut self.skipped)
    }

    fn skipped(&self) -> Skipped {
        let mut skipped = self.skipped.clone();
        skipped.add_all(self.calls.skipped());
        skipped
    }
}

impl ResponseReader {
    pub(super) fn new(settings: ReaderSettings) -> Self {
        Self {
            settings,
            limits: Limits::default(),
            wants_whole: false,
            has_started: false,
            is_whole: false,
            text: Channel::default(),
            thinking: Channel::default(),
            signature: None,
            citations: Citations::default(),
            blocks: Vec::new(),
            calls: NamedCalls::default(),
            hosted: Vec::new(),
            unnumbered: 0,
            counts: Counts::default(),
            plain: FrameCache::default(),
            progress: Progress::default(),
            skipped: Skipped::default(),
        }
    }

    fn event(&mut self, event: &StreamEvent<'_>, frame: &str, out: &mut impl Sink) -> Result<(), Failure> {
        match &*event.kind {
            "error" => return Err(reported_json(event.error.unwrap_or_default())),
            "ping" => out.event(Event::Ping("ping".into())),
            "message_start" => self.message_start(event.message.unwrap_or_default(), out),
            "content_block_start" | "content_block_delta" | "content_block_stop"
                if self.progress.is_finished =>
            {
                self.skipped.add(Skip::LateContent);
            }
            "content_block_start" => {
                self.progress.has_choice = true;
                self.plain.forget();
                self.block_start(event, frame, out)?;
            }
            "content_block_delta" => {
                self.progress.has_choice = true;
                self.delta(event, frame, out);
            }
            "content_block_stop" => {
                self.plain.forget();
                let frame = Some(frame).filter(|frame| self.may_forward(event, frame));
                self.block_stop(event.index(), frame, out);
            }
            "message_delta" => self.message_delta(event, frame, out)?,
            "message_stop" => return self.mark_end(out),
            _ if event.error.is_some_and(|error| !error.is_null()) => {
                return Err(reported_json(event.error.unwrap_or_default()));
            }
            "message" => self.whole(event, frame, out)?,
            // An event that a later version of the API has added.
            kind if !kind.is_empty() => self.skipped.add(Skip::UnknownPart),
            _ => {
                self.skipped.add(Skip::NotAChunk);
                return told(frame).map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    /// Emits the head of the response before anything else.
    fn message_start(&mut self, message: Json<'_>, out: &mut impl Sink) {
        // After content, it is too late for the head.
        let is_first = !std::mem::replace(&mut self.progress.has_choice, true);
        if !std::mem::replace(&mut self.has_started, true) && is_first {
            let (id, model) = (message.text("id"), message.text("model"));
            out.event(Event::Start(Start { id, model, created: None }));
        }
        if let Some(usage) = message.get("usage") {
            self.counts.take(usage);
            // Clients of this API expect counts at the start as well. Other clients receive them at the
            // end.
            if self.settings.verbatim && !self.progress.is_finished {
                self.tell_usage(out);
            }
        }
    }

    fn delta(&mut self, event: &StreamEvent<'_>, frame: &str, out: &mut impl Sink) {
        let Some(delta) = event.delta else { return self.skipped.add(Skip::NotAChunk) };
        let may_forward = self.may_forward(event, frame);
        let Some(piece) = event.piece() else {
            return self.other_delta(delta, Some(frame).filter(|_| may_forward), out);
        };
        let is_canonical = piece.is_alone && may_forward;
        if piece.is_alone && !event.is_ambiguous && self.plain.may_learn() {
            self.plain.learn(Plain::learn(frame, piece.body, piece.kind, event.index(), is_canonical));
        }
        self.say(piece.kind, event.index(), piece.body, Some(frame).filter(|_| is_canonical), out);
    }

    /// Whether the frame may be forwarded, judging by its members.
    fn may_forward(&self, event: &StreamEvent<'_>, frame: &str) -> bool {
        self.settings.verbatim
            && !event.is_ambiguous
            && frame.starts_with('{')
            && memchr2(b'\n', b'\r', frame.as_bytes()).is_none()
    }

    /// Emits a piece of text, thinking or arguments. Both paths use this. `frame` is the piece's frame, if
    /// it may be forwarded.
    fn say(
        &mut self,
        kind: PieceKind,
        index: Option<u64>,
        body: &str,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) {
        match kind {
            PieceKind::Text => {
                self.tell_signature(out);
                let frame = frame.filter(|_| self.text.may_forward(body));
                let piece = self.text.piece(body);
                if !piece.is_empty() {
                    self.progress.has_content = true;
                    self.citations.advance(piece);
                    emit(out, frame, Event::Text(piece.into()));
                }
            }
            PieceKind::Thinking => {
                let frame = frame.filter(|_| self.thinking.may_forward(body));
                let piece = self.thinking.piece(body);
                if !piece.is_empty() {
                    emit(out, frame, Event::Reasoning(Reasoning::text(piece)));
                }
            }
            PieceKind::Arguments => {
                let frame = frame.filter(|_| !cuts_pair(body));
                // A piece without an index belongs to the open call.
                let key = index.or_else(|| self.calls.open_key()).unwrap_or_default();
                self.calls.piece(key, body, frame, out);
            }
        }
    }
}
