//! [`AnswerState`]: the state of a response, for frames of both versions.
//!
//! Each channel of the stream has its own state here: text and reasoning (a surrogate pair may be split
//! between two pieces), tool payloads of v1, calls to the upstream's and to the client's tools, images that
//! are still changing. Everything is sent as soon as it is certain; [`AnswerState::finish`] releases the
//! rest.

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

/// Maximum depth at which content that is not a string is searched for texts: a list, its parts, and their
/// contents.
pub(super) const MAX_PARTS: usize = 5;

/// The progress of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Only keep-alive frames have arrived.
    Waiting,
    Open,
    /// The finish reason is known; usage may follow.
    Finished,
    /// The end mark has been read.
    Done,
}

/// The state of a response.
#[derive(Debug)]
pub(super) struct AnswerState {
    stage: Stage,
    /// Something has arrived that a client would miss.
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
    /// The state of a response whose content is for `requested` unless a frame names another target. Payloads
    /// of v1 tools have at most `max_frame` bytes.
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

    /// Whether something has been emitted, at least the head of the response.
    pub(super) fn has_begun(&self) -> bool {
        self.stage > Stage::Waiting
    }

    /// Whether the response has content.
    pub(super) fn has_content(&self) -> bool {
        self.has_content
    }

    /// Whether the finish reason is known.
    pub(super) fn is_finished(&self) -> bool {
        self.stage >= Stage::Finished
    }

    /// Whether the end mark has been read.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The target that the request asked for.
    pub(super) fn requested(&self) -> Target {
        self.requested
    }

    /// Counts a part that is left out.
    pub(super) fn skip(&mut self, why: Skip) {
        self.skipped.add(why);
    }

    /// The parts that were left out so far.
    pub(super) fn skipped(&self) -> Skipped {
        let mut skipped = self.skipped.clone();
        skipped.add_all(self.calls.skipped());
        skipped.add_many(Skip::NotJson, self.call_texts.broken());
        skipped.add_many(Skip::UndispatchedCall, self.server_calls.undispatched());
        skipped.add_many(Skip::OrphanResult, self.server_calls.orphans());
        skipped
    }

    /// Sets the limits of the response.
    pub(super) fn expect(&mut self, limits: Limits, repair: bool) {
        self.calls.mend(repair);
        self.calls.expect(DeclaredTools::default(), limits);
        self.server_calls.expect(limits);
    }

    /// Emits the head of the response; only the first one counts.
    pub(super) fn start(&mut self, start: Start<'_>, out: &mut impl Sink) {
        if self.stage == Stage::Waiting {
            self.stage = Stage::Open;
            out.event(Event::Start(start));
        }
    }

    /// Whether content is still allowed. Content after the finish reason is too late, and is counted.
    fn opens(&mut self, out: &mut impl Sink) -> bool {
        if self.is_finished() {
            self.skip(Skip::LateContent);
            return false;
        }
        self.start(Start::default(), out);
        self.has_content = true;
        true
    }

    /// Reads a piece of content for `target`: the body of a JSON string.
    ///
    /// # Errors
    /// A tool payload is larger than allowed.
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

    /// Reads content for `target` that is not a string: on the tool channels its JSON, otherwise the texts in
    /// it. These may be nested `depth` containers deep.
    ///
    /// # Errors
    /// The content is encrypted, or a tool payload is larger than allowed.
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

    /// Reads an object instead of a text: `{"type":"text","text":…}` and similar forms.
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

    /// Reads an image in a `data:` URL. For any other image, only the URL is known.
    fn linked_image(&mut self, url: &str, out: &mut impl Sink) {
        let found = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match found {
            Some((mime, data)) => {
                self.media(Media { id: "".into(), mime: mime.into(), data: data.into() }, out);
            }
            None => self.skip(Skip::UnknownPart),
        }
    }

    /// Reads calls of server tools as JSON: one call, or a list.
    fn call_values(&mut self, calls: Json<'_>, is_sealed: bool, out: &mut impl Sink) -> Result<(), Failure> {
        self.end_segments(out);
        if calls.kind() == JsonKind::Array {
            return calls.elements().try_for_each(|call| self.server_call(call, is_sealed, out));
        }
        self.server_call(calls, is_sealed, out)
    }

    /// Begins a new segment. This ends the previous segment, unless its JSON is incomplete.
    pub(super) fn segment(&mut self, out: &mut impl Sink) {
        if self.result_texts.is_prose() {
            self.end_segments(out);
        }
    }

    /// Reads a delta of calls of the client's tools, in the current form.
    ///
    /// # Errors
    /// A call is larger than allowed, or there are too many.
    pub(super) fn call_deltas(&mut self, tool_calls: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        if self.opens(out) { self.calls.delta(tool_calls, out) } else { Ok(()) }
    }

    /// Reads a delta in the form from before November 2023.
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

    /// Reads one announcement of a server-tool call.
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

    /// Reads a server tool's result.
    pub(super) fn server_result(&mut self, id: &str, content: &str, out: &mut impl Sink) {
        if self.opens(out) {
            self.server_calls.result(id, content, &mut self.calls, out);
        }
    }

    /// Emits an image, or the final state of an image.
    pub(super) fn media(&mut self, media: Media<'_>, out: &mut impl Sink) {
        if self.opens(out) {
            self.images.forget(&media.id);
            out.event(Event::Media(media));
        }
    }

    /// Keeps an image that is not final yet.
    pub(super) fn unfinished_image(&mut self, media: &Media<'_>, out: &mut impl Sink) {
        if self.opens(out) {
            self.images.keep(media, out);
        }
    }

    /// Reads token counts, which may also arrive after the finish reason.
    pub(super) fn usage(&mut self, usage: Json<'_>, out: &mut impl Sink) {
        self.start(Start::default(), out);
        out.event(Event::Usage(usage_of(usage)));
    }

    /// Sets the finish reason; only the first one counts.
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

    /// Handles the end mark. Without a finish reason before it, a response with content is complete.
    ///
    /// # Errors
    /// [`Kind::Truncated`]: there was neither a finish reason nor content.
    pub(super) fn end(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if !self.is_finished() && !self.has_content {
            let message = "the upstream ended its response without content, tool calls or a finish reason";
            return Err(Failure::new(Kind::Truncated, message));
        }
        self.finish(Finish::Stop, out);
        self.stage = Stage::Done;
        Ok(())
    }

    /// Ends a body without an end mark and accepts it as complete. Unfinished content still counts as
    /// truncated.
    ///
    /// # Errors
    /// The same as for [`AnswerState::end`].
    pub(super) fn end_tolerated(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if self.has_content {
            self.finish_by(Finish::Stop, Ending::Cut, out);
        }
        self.end(out)
    }

    /// Fails the response: no more content will arrive. Incomplete content is dropped.
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

    /// Releases everything that is held back: halves of characters, and calls. A second call does nothing.
    ///
    /// Half of a surrogate pair is an invalid character if the model finished, and an incomplete character if
    /// the model was interrupted.
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

/// Ends the payloads on v1's tool channels.
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
