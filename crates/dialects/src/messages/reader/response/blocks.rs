//! Content blocks: their starts and ends and deltas that do not extend a single string.

use std::borrow::Cow;

use super::ResponseReader;
use crate::{
    Dialect, Skip,
    channel::emit,
    event::{CallResult, CallStart, Event, Opaque, Reasoning, Runner, Sink, Source},
    failure::{Failure, Kind},
    messages::{
        reader::event::{PieceKind, StreamEvent},
        toolsets::{TOOLSET_NAME, joined},
    },
    wire::json::{Json, Kind as JsonKind},
};

#[derive(Debug, Clone, Copy)]
pub(super) struct OpenBlock {
    /// The upstream's index of the block.
    index: u64,
    kind: BlockKind,
}

#[derive(Debug)]
pub(super) struct HostedCall {
    id: String,
    /// The upstream's index of the call's block.
    block: u64,
    /// The index of the call, see [`CallStart::index`].
    number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    Call,
    Other,
    /// A block for which there is no event.
    Unknown,
}

impl ResponseReader {
    pub(super) fn block_start(
        &mut self,
        event: &StreamEvent<'_>,
        frame: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let Some(block) = event.block else {
            self.skipped.add(Skip::NotAChunk);
            return Ok(());
        };
        let index = event.index().unwrap_or_else(|| {
            self.unnumbered += 1;
            u64::MAX - self.unnumbered
        });
        let frame = Some(frame).filter(|frame| event.index().is_some() && self.may_forward(event, frame));
        self.begin_block(index, block, frame, out)
    }

    /// Starts the block `index`, which ends any open block with the same index. `frame` is the event's frame,
    /// if it may be forwarded.
    pub(super) fn begin_block(
        &mut self,
        index: u64,
        block: Json<'_>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let repeats = || self.calls.repeats(index, &block.text("id"), &block.text("name"));
        if self.blocks.iter().any(|open| open.index == index && open.kind == BlockKind::Call) && repeats() {
            // The call is repeated, possibly with more of its arguments.
            return self.give_input(index, block);
        }
        if self.blocks.iter().any(|open| open.index == index) {
            self.block_stop(Some(index), None, out);
        }
        self.calls.settle(out);
        if self.blocks.len() >= MAX_OPEN {
            let message = format!("the upstream has more than {MAX_OPEN} content blocks open at once");
            return Err(Failure::new(Kind::Protocol, message));
        }
        let kind = match &*block.text("type") {
            "text" => {
                self.given(PieceKind::Text, block, "text", out);
                for citation in block.get("citations").into_iter().flat_map(|list| list.elements()) {
                    self.cite(citation, out);
                }
                BlockKind::Text
            }
            "thinking" => {
                self.tell_signature(out);
                self.given(PieceKind::Thinking, block, "thinking", out);
                self.sign(block);
                BlockKind::Thinking
            }
            "redacted_thinking" => {
                self.tell_signature(out);
                self.redacted(block, out);
                BlockKind::Other
            }
            "tool_use" => self.call(index, block, Runner::Client, out)?,
            // `server_tool_use`, `mcp_tool_use` and future types. Clients of this API receive them unchanged.
            kind if kind.ends_with("tool_use") => {
                let has_input = block.get("input").is_some_and(|input| input.kind() == JsonKind::Object);
                let mut out = WithFrame { frame: frame.filter(|_| has_input), out };
                self.call(index, block, Runner::Upstream, &mut out)?
            }
            kind if kind.ends_with("tool_result") => self.result(block, frame, out),
            kind => {
                self.unknown(frame.filter(|_| !kind.is_empty()), out);
                BlockKind::Unknown
            }
        };
        self.blocks.push(OpenBlock { index, kind });
        Ok(())
    }

    /// Ends the block `index`, or the latest open block if there is no index.
    pub(super) fn block_stop(&mut self, index: Option<u64>, frame: Option<&str>, out: &mut impl Sink) {
        let place = match index {
            Some(index) => self.blocks.iter().rposition(|open| open.index == index),
            None => self.blocks.len().checked_sub(1),
        };
        let Some(place) = place else { return };
        let block = self.blocks.remove(place);
        match block.kind {
            BlockKind::Text => self.end_text(out),
            BlockKind::Thinking => self.end_thinking(out),
            BlockKind::Call => _ = self.calls.end(block.index, out),
            BlockKind::Other | BlockKind::Unknown => {}
        }
        let is_event = matches!(block.kind, BlockKind::Call | BlockKind::Other);
        if let Some(frame) = frame.filter(|_| !is_event) {
            out.event(Event::Verbatim { frame, means: None });
        }
    }

    /// Handles a delta that does not extend a single string.
    pub(super) fn other_delta(&mut self, delta: Json<'_>, frame: Option<&str>, out: &mut impl Sink) {
        match (&*delta.text("type"), frame) {
            ("signature_delta", _) => self.sign(delta),
            ("citations_delta", frame) => {
                let citation = delta.get("citation").unwrap_or_default();
                match frame.filter(|_| citation.kind() == JsonKind::Object) {
                    Some(frame) => {
                        self.citations.pass(citation.text("url"), citation.text("title"), frame, out);
                    }
                    None => self.cite(citation, out),
                }
            }
            // The delta has no type, or lacks the string that its type requires.
            ("" | "text_delta" | "thinking_delta" | "input_json_delta", _) => self.unknown(None, out),
            _ => self.unknown(frame, out),
        }
    }

    /// Handles data for which there is no event: forwards it if possible, and skips it otherwise.
    fn unknown(&mut self, frame: Option<&str>, out: &mut impl Sink) {
        match frame {
            Some(frame) => out.event(Event::Verbatim { frame, means: None }),
            None => self.skipped.add(Skip::UnknownPart),
        }
    }

    /// Emits text that is part of a block's start.
    fn given(&mut self, kind: PieceKind, block: Json<'_>, key: &str, out: &mut impl Sink) {
        if let Some(body) = block.get(key).and_then(|text| text.string_body()) {
            self.say(kind, None, body, None, out);
        }
    }

    fn sign(&mut self, object: Json<'_>) {
        let signature = object.text("signature");
        if !signature.is_empty() {
            self.signature = Some(signature.into_owned());
        }
    }

    fn cite(&mut self, citation: Json<'_>, out: &mut impl Sink) {
        let (url, title) = (citation.text("url"), citation.text("title"));
        if !self.citations.take(url, title, self.limits.max_hold, out) {
            self.skipped.add(Skip::UnknownPart);
        }
    }

    fn redacted(&mut self, block: Json<'_>, out: &mut impl Sink) {
        let data = block.text("data");
        let signature = Some(Opaque::new(Dialect::Messages.name(), data));
        out.event(Event::Reasoning(Reasoning { text: Cow::Borrowed(""), signature, redacted: true }));
    }

    fn call(
        &mut self,
        index: u64,
        block: Json<'_>,
        runner: Runner,
        out: &mut impl Sink,
    ) -> Result<BlockKind, Failure> {
        let (id, name) = (block.text("id"), block.text("name"));
        if name.is_empty() {
            self.skipped.add(Skip::NamelessCall);
            return Ok(BlockKind::Other);
        }
        let name = match block.text(TOOLSET_NAME) {
            toolset if toolset.is_empty() => name,
            toolset => joined(&toolset, &name).into(),
        };
        self.tell_signature(out);
        self.progress.has_content = true;
        let source = Source::Native;
        let start = CallStart { index: 0, id: id.clone(), name, runner, source, signature: None };
        self.calls.begin(index, start, out)?;
        if let (Runner::Upstream, Some(number)) = (runner, self.calls.index(index)) {
            self.hosted.push(HostedCall { id: id.into_owned(), block: index, number });
        }
        self.give_input(index, block)?;
        Ok(BlockKind::Call)
    }

    /// Handles arguments that are part of a call's start.
    fn give_input(&mut self, index: u64, block: Json<'_>) -> Result<(), Failure> {
        // In a stream, the API sends an empty object here and the arguments in deltas.
        match block.get("input") {
            Some(input)
                if input.kind() == JsonKind::Object
                    && (self.is_whole || input.members().next().is_some()) =>
            {
                self.calls.give(index, input.raw())
            }
            Some(input) => self.calls.give(index, &input.as_str().unwrap_or_default()),
            None => Ok(()),
        }
    }

    /// Handles the result of a call that the upstream ran.
    fn result(&mut self, block: Json<'_>, frame: Option<&str>, out: &mut impl Sink) -> BlockKind {
        let id = block.text("tool_use_id");
        let Some(hosted) = self.hosted.iter().rfind(|hosted| hosted.id == id) else {
            // The call may be in an earlier response that this one continues.
            match frame {
                Some(frame) if !id.is_empty() => out.event(Event::Verbatim { frame, means: None }),
                _ => self.skipped.add(Skip::OrphanResult),
            }
            return BlockKind::Unknown;
        };
        // A call with a result has ended, even if its block has not.
        if self.calls.index(hosted.block) == Some(hosted.number) {
            self.calls.end(hosted.block, out);
            self.calls.settle(out);
        }
        let content = block.get("content").unwrap_or_default();
        let says_error = block.get("is_error").and_then(|flag| flag.as_bool()).unwrap_or(false);
        let is_error = says_error || content.text("type").ends_with("_error");
        let content = result_text(content);
        emit(out, frame, Event::CallResult(CallResult { index: hosted.number, id, content, is_error }));
        BlockKind::Other
    }
}

/// A sink that attaches the upstream's frame to the start of a call.
struct WithFrame<'a, S> {
    frame: Option<&'a str>,
    out: &'a mut S,
}

impl<S: Sink> Sink for WithFrame<'_, S> {
    fn event(&mut self, event: Event<'_>) {
        let frame = self.frame.filter(|_| matches!(event, Event::CallStart(_)));
        emit(self.out, frame, event);
    }
}

/// Maximum number of open blocks. The API itself never has more than one.
const MAX_OPEN: usize = 64;

/// The content of a result: the string, the joined text if all its blocks are text, or else its JSON.
fn result_text(content: Json<'_>) -> Cow<'_, str> {
    if let Some(text) = content.as_str() {
        return text;
    }
    let of_block = |block: Json<'_>| {
        let is_text = block.text("type") == "text";
        is_text.then(|| block.text("text").into_owned())
    };
    let texts: Option<Vec<_>> = content.elements().map(of_block).collect();
    match texts {
        Some(texts) if !texts.is_empty() => texts.join("\n").into(),
        _ => content.raw().into(),
    }
}
