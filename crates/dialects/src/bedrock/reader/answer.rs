//! Decodes the frames of a response.
//!
//! As in the reader for Messages, a delta takes one of two paths: the fast path recognises it by comparison
//! ([`Plain`]), and the slow path parses it.

use std::mem;

use super::{
    ReaderSettings,
    blocks::Block,
    delta::{BlockEvent, PieceKind, Plain},
};
use crate::{
    Asked, Dialect, Found, JsonBody, Progress, ResponseState, Skip, Skipped,
    bedrock::refusal::{exception, failure},
    body::{not_json, utf8},
    channel::Channel,
    citations::Citations,
    event::{Event, Finish, Opaque, Reasoning, Sink, Start, Usage},
    failure::Failure,
    finish::known_finish,
    frame_cache::FrameCache,
    refusal::told,
    rules::Limits,
    tool_calls::NamedCalls,
    usage::{count, raw_usage},
    wire::{
        amazon_frames::Frame,
        json::{Json, Kind},
    },
};

/// The state of one response.
#[derive(Debug, Default)]
pub struct AnswerState {
    tolerate_truncation: bool,
    pub(super) limits: Limits,
    has_started: bool,
    /// Whether the response arrived as a single object.
    is_whole: bool,
    text: Channel,
    reasoning: Channel,
    /// The signature of the reasoning so far, which arrives in pieces.
    pub(super) signature: String,
    pub(super) citations: Citations,
    pub(super) calls: NamedCalls,
    /// The open block, if its contents are passed on when they are complete.
    pub(super) block: Option<Block>,
    usage: Option<Usage>,
    plain: FrameCache<Plain>,
    pub(super) progress: Progress,
    pub(super) skipped: Skipped,
}

impl ResponseState for AnswerState {
    const JSON: JsonBody = JsonBody::Value;
    const IS_BINARY: bool = true;
    const RUNS_TOOLS: bool = true;
    const NONE_OF: Option<&'static str> = Some("frames is part of a response");

    fn expect(&mut self, asked: Asked) {
        self.limits = asked.limits;
        self.calls.mend(asked.repair);
        self.calls.expect(asked.tools, asked.limits);
    }

    /// Only frames have templates.
    fn known(&mut self, _text: &str, _out: &mut impl Sink) -> Result<bool, Failure> {
        Ok(false)
    }

    fn frame(&mut self, frame: Frame<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let payload = utf8(frame.payload)?;
        match frame.header(":message-type") {
            Some("event") | None => self.event(frame.header(":event-type").unwrap_or_default(), payload, out),
            Some("exception") => Err(exception(frame.header(":exception-type").unwrap_or_default(), payload)),
            Some("error") => {
                let message = frame.header(":error-message").filter(|message| !message.is_empty());
                let message = message.unwrap_or("the upstream reported an error without a message");
                Err(failure(frame.header(":error-code").unwrap_or_default(), message, None))
            }
            Some(_) => {
                self.skipped.add(Skip::UnknownPart);
                Ok(())
            }
        }
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        let text = text.trim();
        let parsed = Json::parse(text).map(|json| (json, ()));
        Found::read(parsed, |(), json| match json.get("output") {
            Some(output) => self.whole(json, output, out),
            None => {
                self.skipped.add(Skip::NotAChunk);
                told(text).map_or(Ok(()), Err)
            }
        })
    }

    fn may_end(&self, is_value: bool) -> bool {
        (is_value && self.is_whole) || self.tolerate_truncation
    }

    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.progress.close()?;
        if !self.progress.is_finished {
            let finish = self.calls.end_of_body(out);
            self.finish(finish, out);
        }
        self.tell_usage(out);
        Ok(())
    }

    fn tell_usage(&mut self, out: &mut impl Sink) {
        if let Some(usage) = self.usage.take() {
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

impl AnswerState {
    pub(super) fn new(settings: ReaderSettings) -> Self {
        Self { tolerate_truncation: settings.tolerate_truncation, ..Self::default() }
    }

    fn event(&mut self, kind: &str, payload: &str, out: &mut impl Sink) -> Result<(), Failure> {
        let is_content = matches!(kind, "contentBlockStart" | "contentBlockDelta" | "contentBlockStop");
        if is_content && self.progress.is_finished {
            self.skipped.add(Skip::LateContent);
            return Ok(());
        }
        if kind == "contentBlockDelta"
            && let Some((plain, body)) = self.plain.find(|plain| plain.body(payload))
        {
            let (kind, index) = (plain.kind, plain.index);
            self.say(kind, index, body, out);
            return Ok(());
        }
        let Ok(event) = BlockEvent::parse(payload) else {
            return not_json(payload, self.progress.is_inside(), &mut self.skipped);
        };
        match kind {
            "messageStart" => self.start(out),
            "contentBlockStart" => return self.block_start(&event, out),
            "contentBlockDelta" => return self.delta(payload, &event, out),
            "contentBlockStop" => self.block_stop(event.index(), out),
            "messageStop" => {
                self.start(out);
                let word = Json::parse(payload).unwrap_or_default().get("stopReason");
                return self.finish_by(&word.and_then(|word| word.as_str()).unwrap_or_default(), out);
            }
            "metadata" => {
                self.take_usage(Json::parse(payload).unwrap_or_default());
                // It is the last event.
                return self.mark_end(out);
            }
            "" => self.skipped.add(Skip::NotAChunk),
            // An event that a later version of the API has added.
            _ => self.skipped.add(Skip::UnknownPart),
        }
        Ok(())
    }

    /// Emits the head of the response, which says nothing in this API, before anything else.
    fn start(&mut self, out: &mut impl Sink) {
        self.progress.has_choice = true;
        if !mem::replace(&mut self.has_started, true) {
            out.event(Event::Start(Start::default()));
        }
    }

    fn block_start(&mut self, event: &BlockEvent<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.start(out);
        self.plain.forget();
        match event.start {
            Some(start) => self.begin_block(event.index(), start, out),
            None => {
                self.skipped.add(Skip::NotAChunk);
                Ok(())
            }
        }
    }

    fn delta(&mut self, payload: &str, event: &BlockEvent<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.start(out);
        let Some(piece) = event.piece() else {
            return self.other_delta(event.delta.unwrap_or_default(), out);
        };
        if piece.kind == PieceKind::Text {
            // Text has no start of its own.
            self.calls.settle(out);
        }
        if self.plain.may_learn() {
            self.plain.learn(Plain::learn(payload, event, &piece));
        }
        self.say(piece.kind, event.index(), piece.body, out);
        Ok(())
    }

    fn block_stop(&mut self, index: u64, out: &mut impl Sink) {
        self.start(out);
        self.plain.forget();
        self.end_block(index, out);
    }

    /// Emits a piece of text, reasoning or arguments. Both paths use this.
    pub(super) fn say(&mut self, kind: PieceKind, index: u64, body: &str, out: &mut impl Sink) {
        if body.is_empty() {
            return;
        }
        match kind {
            PieceKind::Text => {
                self.tell_signature(out);
                let piece = self.text.piece(body);
                if !piece.is_empty() {
                    self.progress.has_content = true;
                    self.citations.advance(piece);
                    out.event(Event::Text(piece.into()));
                }
            }
            PieceKind::Reasoning => {
                // A signature ends the reasoning before it.
                self.tell_signature(out);
                let piece = self.reasoning.piece(body);
                if !piece.is_empty() {
                    out.event(Event::Reasoning(Reasoning::text(piece)));
                }
            }
            PieceKind::Arguments => self.calls.piece(index, body, None, out),
        }
    }

    /// Ends the text and the reasoning of a block.
    pub(super) fn end_texts(&mut self, out: &mut impl Sink) {
        if let Some(half) = self.reasoning.finish() {
            out.event(Event::Reasoning(Reasoning::text(half.to_string())));
        }
        self.tell_signature(out);
        if let Some(half) = self.text.finish() {
            let half = half.to_string();
            self.citations.advance(&half);
            out.event(Event::Text(half.into()));
        }
        self.citations.end_block(out);
    }

    /// Emits the signature of the reasoning so far, which ends that reasoning.
    pub(super) fn tell_signature(&mut self, out: &mut impl Sink) {
        if !self.signature.is_empty() {
            let signature = Opaque::new(Dialect::Bedrock.name(), mem::take(&mut self.signature));
            out.event(Event::Reasoning(Reasoning { signature: Some(signature), ..Reasoning::default() }));
        }
    }

    fn whole(&mut self, response: Json<'_>, output: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.is_whole = true;
        self.start(out);
        let content = output.get("message").and_then(|message| message.get("content"));
        for (index, block) in (0..).zip(content.into_iter().flat_map(|content| content.elements())) {
            self.whole_block(index, block, out)?;
            self.end_block(index, out);
        }
        self.take_usage(response);
        match response.get("stopReason").and_then(|word| word.as_str()) {
            Some(word) => self.finish_by(&word, out),
            None => Ok(()),
        }
    }

    fn finish_by(&mut self, word: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if self.progress.is_finished {
            return Ok(());
        }
        let finish = known_finish(word, &mut self.skipped)?;
        self.finish(finish, out);
        Ok(())
    }

    /// Sets the finish reason and ends everything that is still open.
    fn finish(&mut self, finish: Finish, out: &mut impl Sink) {
        let cut = matches!(finish, Finish::Length | Finish::Filter);
        if cut {
            // Half of a surrogate pair is just an unfinished character, and is dropped.
            self.text.finish();
            self.reasoning.finish();
        }
        self.end_kept(out);
        self.end_texts(out);
        self.calls.finish(cut, out);
        self.plain.forget();
        self.progress.is_finished = true;
        out.event(Event::Finish(finish.of_calls(self.calls.has_client_call())));
    }

    /// Takes the counts. The API counts cached tokens separately, but here they are part of the input.
    fn take_usage(&mut self, response: Json<'_>) {
        let Some(usage) = response.get("usage").filter(|usage| usage.kind() == Kind::Object) else { return };
        let counted = |key: &str| usage.get(key).and_then(count);
        let (cached, cache_written) = (counted("cacheReadInputTokens"), counted("cacheWriteInputTokens"));
        let cache = cached.unwrap_or(0).saturating_add(cache_written.unwrap_or(0));
        let input = counted("inputTokens").map(|input| input.saturating_add(cache));
        let output = counted("outputTokens");
        self.usage = Some(Usage {
            input,
            output,
            reasoning: None,
            total: input.and_then(|input| input.checked_add(output?)),
            cached,
            cache_written,
            raw: raw_usage(usage, Dialect::Bedrock),
        });
    }
}
