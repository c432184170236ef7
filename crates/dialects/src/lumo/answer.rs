//! [`AnswerState`]: the state of a response, to which frames of both protocol versions are applied.
//!
//! Each channel of the stream has its own state: text and reasoning (in which two pieces may split a
//! surrogate pair), the tool payloads of v1, calls to the upstream's and the client's tools, and images that
//! are still changing. Everything is sent as soon as it is certain, and [`AnswerState::finish`] releases what
//! is left.

use std::borrow::Cow;

use super::{
    images::Images,
    sealed_payload,
    server_calls::{Ending, ServerCalls},
    target::Target,
    values::{Outside, Values},
};
use crate::{
    Skip, Skipped,
    event::{Event, Finish, Media, Reasoning, Sink, Start},
    failure::{Failure, Kind},
    rules::Limits,
    tool_calls::CallDeltas,
    tools::DeclaredTools,
    usage::usage_of,
    wire::json::{Json, Kind as JsonKind, MAX_DEPTH, Unescaper},
};

/// Maximum depth to which content that is not a string is searched for text. It may be a list of parts with
/// nested content.
pub(super) const MAX_PARTS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Only keep-alive frames have arrived.
    Waiting,
    Open,
    /// The finish reason has been read. Token counts may follow.
    Finished,
    Done,
}

#[derive(Debug)]
pub(super) struct AnswerState {
    stage: Stage,
    /// Whether anything has arrived that a client would miss if it were dropped.
    has_content: bool,
    requested: Target,
    text: Unescaper,
    reasoning: Unescaper,
    scratch: String,
    call_texts: Values,
    result_texts: Values,
    calls: CallDeltas,
    server_calls: ServerCalls,
    images: Images,
    skipped: Skipped,
}

impl AnswerState {
    /// Creates the state of a response in which content belongs to `requested` unless a frame names another
    /// target. Payloads of v1 tools are limited to `max_frame` bytes.
    pub(super) fn new(requested: Target, max_frame: usize) -> Self {
        Self {
            stage: Stage::Waiting,
            has_content: false,
            requested,
            text: Unescaper::new(),
            reasoning: Unescaper::new(),
            scratch: String::new(),
            call_texts: Values::new(Outside::Noise, max_frame),
            result_texts: Values::new(Outside::Prose, max_frame),
            calls: CallDeltas::new(MAX_DEPTH),
            server_calls: ServerCalls::new(Limits::default()),
            images: Images::new(max_frame),
            skipped: Skipped::default(),
        }
    }

    /// Whether anything has been emitted, even if it was only the head of the response.
    pub(super) fn has_begun(&self) -> bool {
        self.stage > Stage::Waiting
    }

    pub(super) fn has_content(&self) -> bool {
        self.has_content
    }

    pub(super) fn is_finished(&self) -> bool {
        self.stage >= Stage::Finished
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    pub(super) fn requested(&self) -> Target {
        self.requested
    }

    pub(super) fn skip(&mut self, why: Skip) {
        self.skipped.add(why);
    }

    pub(super) fn skipped(&self) -> Skipped {
        let mut skipped = self.skipped.clone();
        skipped.add_all(self.calls.skipped());
        skipped.add_many(Skip::NotJson, self.call_texts.broken());
        skipped.add_many(Skip::UndispatchedCall, self.server_calls.undispatched());
        skipped.add_many(Skip::OrphanResult, self.server_calls.orphans());
        skipped
    }

    pub(super) fn expect(&mut self, limits: Limits, repair: bool) {
        self.calls.mend(repair);
        self.calls.expect(DeclaredTools::default(), limits);
        self.server_calls.expect(limits);
    }

    /// Emits the head of the response, but only the first time.
    pub(super) fn start(&mut self, start: Start<'_>, out: &mut impl Sink) {
        if self.stage == Stage::Waiting {
            self.stage = Stage::Open;
            out.event(Event::Start(start));
        }
    }

    /// Prepares for content. Returns `false`, and counts the content as late, if the finish reason has
    /// already been read.
    fn opens(&mut self, out: &mut impl Sink) -> bool {
        if self.is_finished() {
            self.skip(Skip::LateContent);
            return false;
        }
        self.start(Start::default(), out);
        self.has_content = true;
        true
    }

    /// Handles a piece of content for `target`. `body` is the raw body of a JSON string.
    ///
    /// # Errors
    /// A tool payload exceeds its limit.
    pub(super) fn content(&mut self, target: Target, body: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if target == Target::Unknown && !body.is_empty() {
            self.start(Start::default(), out);
            self.skip(Skip::UnknownTarget);
            return Ok(());
        }
        if body.is_empty() || !self.opens(out) {
            return Ok(());
        }
        match target {
            Target::Message => self.text(body, out),
            Target::Reasoning => self.reason(body, out),
            Target::ToolCall => self.call_text(body, out)?,
            Target::ToolResult => self.result_text(body, out)?,
            Target::Arguments(index) => self.calls.arguments_delta(index, body, out)?,
            Target::Aside | Target::Unknown => {}
        }
        Ok(())
    }

    /// Handles content for `target` that is not a string. On the tool channels, its JSON is used. On other
    /// channels, the strings in it are used, which may be up to `depth` containers deep.
    ///
    /// # Errors
    /// The content is encrypted, or a tool payload exceeds its limit.
    pub(super) fn parts(
        &mut self,
        target: Target,
        content: Json<'_>,
        is_sealed: bool,
        depth: usize,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let is_container = matches!(content.kind(), JsonKind::Array | JsonKind::Object);
        match target {
            _ if content.is_null() => return Ok(()),
            _ if !is_container => {
                let body = content.string_body().unwrap_or(content.raw());
                return self.content(target, sealed_payload::opened(is_sealed, body)?, out);
            }
            Target::ToolCall => return self.call_values(content, is_sealed, out),
            Target::ToolResult => {
                self.end_segments(out);
                self.server_result("", sealed_payload::opened(is_sealed, content.raw())?, out);
                return Ok(());
            }
            _ => {}
        }
        if depth == 0 {
            self.skip(Skip::UnknownPart);
            return Ok(());
        }
        match content.kind() {
            JsonKind::Array => {
                content.elements().try_for_each(|part| self.parts(target, part, is_sealed, depth - 1, out))
            }
            _ => self.part(target, content, is_sealed, depth - 1, out),
        }
    }

    /// Handles an object such as `{"type":"text","text":…}` in place of a string.
    fn part(
        &mut self,
        target: Target,
        part: Json<'_>,
        mut is_sealed: bool,
        depth: usize,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        const TEXTS: [&str; 6] = ["thinking", "reasoning", "text", "content", "value", "refusal"];
        let (mut url, mut text) = (None, None);
        for (key, value) in part.members().filter(|(_, value)| !value.is_null()) {
            match key.as_ref() {
                "encrypted" => is_sealed |= sealed_payload::is_set(value),
                "image_url" => url = value.get("url").unwrap_or(value).as_str(),
                key => {
                    let rank = TEXTS.iter().position(|text| *text == key);
                    let better = rank.filter(|rank| text.is_none_or(|(best, _)| *rank < best));
                    text = better.map(|rank| (rank, value)).or(text);
                }
            }
        }
        match (url, text) {
            (Some(url), _) => self.linked_image(sealed_payload::opened(is_sealed, &url)?, out),
            (None, Some((rank, text))) => {
                let target = if rank < 2 { Target::Reasoning } else { target };
                return self.parts(target, text, is_sealed, depth, out);
            }
            (None, None) => self.skip(Skip::UnknownPart),
        }
        Ok(())
    }

    /// Handles an image that is given by its URL. A `data:` URL contains the image itself.
    fn linked_image(&mut self, url: &str, out: &mut impl Sink) {
        let found = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match found {
            Some((mime, data)) => {
                self.media(Media { id: "".into(), mime: mime.into(), data: data.into() }, out);
            }
            None => self.skip(Skip::UnknownPart),
        }
    }

    /// Handles calls to server tools that are given as JSON: a single call, or a list.
    fn call_values(&mut self, calls: Json<'_>, is_sealed: bool, out: &mut impl Sink) -> Result<(), Failure> {
        self.end_segments(out);
        if calls.kind() == JsonKind::Array {
            return calls.elements().try_for_each(|call| self.server_call(call, is_sealed, out));
        }
        self.server_call(calls, is_sealed, out)
    }

    /// Starts a new segment. This ends the previous segment, unless its JSON is incomplete.
    pub(super) fn segment(&mut self, out: &mut impl Sink) {
        if self.result_texts.is_prose() {
            self.end_segments(out);
        }
    }

    /// Handles a delta with calls to the client's tools, in the current format.
    ///
    /// # Errors
    /// A call is too large, or there are too many calls.
    pub(super) fn call_deltas(&mut self, tool_calls: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        if self.opens(out) { self.calls.delta(tool_calls, out) } else { Ok(()) }
    }

    /// Handles a delta with a `function_call`, as used before November 2023.
    ///
    /// # Errors
    /// The same as for [`AnswerState::call_deltas`].
    pub(super) fn legacy_call(
        &mut self,
        function_call: Json<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        if self.opens(out) { self.calls.legacy(function_call, out) } else { Ok(()) }
    }

    /// Handles the announcement of a call to a server tool.
    ///
    /// # Errors
    /// The arguments are encrypted, or a limit is exceeded.
    pub(super) fn server_call(
        &mut self,
        call: Json<'_>,
        is_sealed: bool,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        sealed_payload::check_call(call, is_sealed)?;
        if self.opens(out) && !self.server_calls.call(call, &mut self.calls, out)? {
            self.skip(Skip::NamelessCall);
        }
        Ok(())
    }

    pub(super) fn server_result(&mut self, id: &str, content: &str, out: &mut impl Sink) {
        if self.opens(out) {
            self.server_calls.result(id, content, &mut self.calls, out);
        }
    }

    /// Emits an image in its final state.
    pub(super) fn media(&mut self, media: Media<'_>, out: &mut impl Sink) {
        if self.opens(out) {
            self.images.forget(&media.id);
            out.event(Event::Media(media));
        }
    }

    /// Records the current state of an image that is not final yet.
    pub(super) fn unfinished_image(&mut self, media: &Media<'_>, out: &mut impl Sink) {
        if self.opens(out) {
            self.images.keep(media, out);
        }
    }

    /// Emits token counts, which may also arrive after the finish reason.
    pub(super) fn usage(&mut self, usage: Json<'_>, out: &mut impl Sink) {
        self.start(Start::default(), out);
        out.event(Event::Usage(usage_of(usage)));
    }

    /// Sets the finish reason, but only the first time.
    pub(super) fn finish(&mut self, finish: Finish, out: &mut impl Sink) {
        let ending = if matches!(finish, Finish::Stop | Finish::Calls) { Ending::Well } else { Ending::Cut };
        self.finish_by(finish, ending, out);
    }

    fn finish_by(&mut self, finish: Finish, ending: Ending, out: &mut impl Sink) {
        if self.is_finished() {
            return;
        }
        self.start(Start::default(), out);
        self.end_segments(out);
        self.release(ending, out);
        self.images.flush(out);
        self.stage = Stage::Finished;
        out.event(Event::Finish(finish));
    }

    /// Handles the end marker. Without a finish reason, the response is complete if it has content.
    ///
    /// # Errors
    /// [`Kind::Truncated`] if there was neither a finish reason nor content.
    pub(super) fn end(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if !self.is_finished() && !self.has_content {
            let message = "the upstream ended its response without content, tool calls or a finish reason";
            return Err(Failure::new(Kind::Truncated, message));
        }
        self.finish(Finish::Stop, out);
        self.stage = Stage::Done;
        Ok(())
    }

    /// Ends a body without an end marker and accepts the response as complete. Unfinished content still
    /// counts as truncated.
    ///
    /// # Errors
    /// The same as for [`AnswerState::end`].
    pub(super) fn end_tolerated(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if self.has_content {
            self.finish_by(Finish::Stop, Ending::Cut, out);
        }
        self.end(out)
    }

    /// Fails the response and drops incomplete content.
    pub(super) fn abort(&mut self, out: &mut impl Sink) {
        if !self.is_finished() {
            self.release(Ending::Cut, out);
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
        if self.calls.has_open() {
            self.calls.settle(out);
        }
        out.event(Event::Text(Cow::Borrowed(text)));
    }

    fn reason(&mut self, body: &str, out: &mut impl Sink) {
        let text = self.reasoning.decode(body, &mut self.scratch);
        if !text.is_empty() {
            if self.calls.has_open() {
                self.calls.settle(out);
            }
            out.event(Event::Reasoning(Reasoning::text(Cow::Borrowed(text))));
        }
    }

    fn call_text(&mut self, body: &str, out: &mut impl Sink) -> Result<(), Failure> {
        self.segment(out);
        let Self { call_texts, server_calls, calls, skipped, .. } = self;
        let mut outcome = Ok(());
        call_texts.push(body, |text| {
            if outcome.is_err() {
                return;
            }
            let told = match Json::parse(text) {
                Ok(call) => {
                    sealed_payload::check_call(call, false).and_then(|()| server_calls.call(call, calls, out))
                }
                Err(_) => Ok(false),
            };
            match told {
                Ok(true) => {}
                Ok(false) => skipped.add(Skip::NamelessCall),
                Err(failure) => outcome = Err(failure),
            }
        })?;
        outcome
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

    /// Releases everything that is held back: halves of surrogate pairs, and calls. Calling this again has no
    /// effect.
    ///
    /// Half of a surrogate pair becomes a replacement character if the model finished, and is dropped as
    /// incomplete if the model was interrupted.
    fn release(&mut self, ending: Ending, out: &mut impl Sink) {
        let mut half = [0; 4];
        let (thought, said) = (self.reasoning.finish(), self.text.finish());
        if let Some(char) = thought.filter(|_| ending == Ending::Well) {
            let text = Cow::Borrowed(&*char.encode_utf8(&mut half));
            out.event(Event::Reasoning(Reasoning::text(text)));
        }
        if let Some(char) = said.filter(|_| ending == Ending::Well) {
            out.event(Event::Text(Cow::Borrowed(char.encode_utf8(&mut half))));
        }
        self.server_calls.finish(ending, &mut self.calls, out);
        self.calls.finish(ending == Ending::Cut, out);
    }
}

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
