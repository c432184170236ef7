//! Content blocks: their starts and ends, deltas that do not extend a single string, and complete blocks.

use std::{borrow::Cow, mem};

use super::{answer::AnswerState, delta::PieceKind};
use crate::{
    Dialect, Skip,
    event::{CallResult, CallStart, Event, Media, Opaque, Reasoning, Runner, Sink, Source},
    failure::{Failure, Kind},
    media::joined_base64,
    wire::json::Json,
};

/// A block whose contents are passed on when they are complete.
#[derive(Debug)]
pub(super) enum Block {
    Image {
        mime: String,
        data: String,
    },
    /// The result of a call that the upstream ran.
    Result {
        call: u32,
        id: String,
        content: String,
        is_error: bool,
    },
    /// Reasoning that only the upstream can read.
    Redacted(String),
}

impl AnswerState {
    /// Starts a block. Text and reasoning usually start with their first delta instead.
    pub(super) fn begin_block(
        &mut self,
        index: u64,
        start: Json<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.end_kept(out);
        self.end_texts(out);
        self.calls.settle(out);
        let Some((kind, value)) = start.members().next() else { return Ok(()) };
        match &*kind {
            "toolUse" => self.call(index, value, None, out)?,
            "toolResult" => self.begin_result(value),
            "image" => self.begin_image(value),
            "text" | "reasoningContent" => {}
            _ => self.skipped.add(Skip::UnknownPart),
        }
        Ok(())
    }

    /// Handles a delta that does not extend a single string.
    pub(super) fn other_delta(&mut self, delta: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        for (kind, value) in delta.members() {
            match &*kind {
                "reasoningContent" => self.reasoning_part(value, out)?,
                "citation" => self.cite(value, out),
                "image" => self.image_data(value)?,
                "toolResult" => {
                    for element in value.elements() {
                        self.result_content(element)?;
                    }
                }
                _ => self.skipped.add(Skip::UnknownPart),
            }
        }
        Ok(())
    }

    /// Handles a complete block.
    pub(super) fn whole_block(
        &mut self,
        index: u64,
        block: Json<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.calls.settle(out);
        for (kind, value) in block.members() {
            match &*kind {
                "text" => self.say(PieceKind::Text, index, value.string_body().unwrap_or_default(), out),
                "reasoningContent" => {
                    self.reasoning_part(value.get("reasoningText").unwrap_or(value), out)?;
                }
                "toolUse" => self.call(index, value, Some(value.get("input").unwrap_or_default()), out)?,
                "toolResult" => {
                    self.begin_result(value);
                    for element in value.get("content").into_iter().flat_map(|content| content.elements()) {
                        self.result_content(element)?;
                    }
                }
                "image" => {
                    self.begin_image(value);
                    self.image_data(value)?;
                }
                "citationsContent" => {
                    for piece in value.get("content").into_iter().flat_map(|content| content.elements()) {
                        let body = piece.get("text").and_then(|text| text.string_body());
                        self.say(PieceKind::Text, index, body.unwrap_or_default(), out);
                    }
                    for citation in value.get("citations").into_iter().flat_map(|list| list.elements()) {
                        self.cite(citation, out);
                    }
                }
                _ => self.skipped.add(Skip::UnknownPart),
            }
        }
        Ok(())
    }

    /// Ends the block `index`.
    pub(super) fn end_block(&mut self, index: u64, out: &mut impl Sink) {
        self.end_kept(out);
        self.end_texts(out);
        self.calls.end(index, out);
    }

    /// Emits the block that has been kept, which is now complete.
    pub(super) fn end_kept(&mut self, out: &mut impl Sink) {
        match self.block.take() {
            None => {}
            Some(Block::Image { mime, data }) if !data.is_empty() => {
                self.progress.has_content = true;
                out.event(Event::Media(Media { id: "".into(), mime: mime.into(), data: data.into() }));
            }
            Some(Block::Image { .. }) => self.skipped.add(Skip::UnknownPart),
            Some(Block::Result { call, id, content, is_error }) => {
                let (id, content) = (id.into(), content.into());
                out.event(Event::CallResult(CallResult { index: call, id, content, is_error }));
            }
            Some(Block::Redacted(data)) => {
                let signature = Some(Opaque::new(Dialect::Bedrock.name(), data));
                let text = Cow::Borrowed("");
                out.event(Event::Reasoning(Reasoning { text, signature, redacted: true }));
            }
        }
    }

    /// Starts a call. `input` is its arguments, if the response arrived in one piece.
    fn call(
        &mut self,
        index: u64,
        call: Json<'_>,
        input: Option<Json<'_>>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let (id, name) = (call.text("toolUseId"), call.text("name"));
        if name.is_empty() {
            self.skipped.add(Skip::NamelessCall);
            return Ok(());
        }
        self.end_texts(out);
        self.progress.has_content = true;
        let runner = match &*call.text("type") {
            "server_tool_use" => Runner::Upstream,
            _ => Runner::Client,
        };
        let start = CallStart { index: 0, id, name, runner, source: Source::Native, signature: None };
        self.calls.begin(index, start, out)?;
        match input {
            Some(input) if !input.is_null() => self.calls.give(index, input.raw()),
            _ => Ok(()),
        }
    }

    fn begin_result(&mut self, result: Json<'_>) {
        let id = result.text("toolUseId").into_owned();
        let is_error = result.text("status") == "error";
        match self.calls.number_of(&id) {
            Some(call) => self.block = Some(Block::Result { call, id, content: String::new(), is_error }),
            None => self.skipped.add(Skip::OrphanResult),
        }
    }

    /// Adds a part of a result: text as it is, and everything else as JSON.
    fn result_content(&mut self, part: Json<'_>) -> Result<(), Failure> {
        let Some(Block::Result { content, .. }) = &mut self.block else { return Ok(()) };
        let more = match (part.get("text").and_then(|text| text.as_str()), part.get("json")) {
            (Some(text), _) => text,
            (None, Some(json)) => json.raw().into(),
            (None, None) => part.raw().into(),
        };
        if content.len() + more.len() > self.limits.max_answer {
            return Err(too_long("a result", self.limits.max_answer, "max_answer"));
        }
        content.push_str(&more);
        Ok(())
    }

    fn begin_image(&mut self, image: Json<'_>) {
        let format = image.text("format");
        let mime = if format.is_empty() { String::new() } else { format!("image/{format}") };
        self.block = Some(Block::Image { mime, data: String::new() });
    }

    fn image_data(&mut self, image: Json<'_>) -> Result<(), Failure> {
        let bytes = image.get("source").and_then(|source| source.get("bytes")?.as_str());
        let (Some(Block::Image { data, .. }), Some(bytes)) = (&mut self.block, bytes) else {
            self.skipped.add(Skip::UnknownPart);
            return Ok(());
        };
        let limit = self.limits.max_answer;
        add_base64(data, &bytes, limit).ok_or_else(|| too_long("an image", limit, "max_answer"))
    }

    /// Handles reasoning, its signature, or reasoning that is withheld.
    fn reasoning_part(&mut self, part: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let limit = self.limits.max_hold;
        for (key, value) in part.members() {
            let Some(body) = value.string_body() else {
                self.skipped.add(Skip::UnknownPart);
                continue;
            };
            match &*key {
                "text" => self.say(PieceKind::Reasoning, 0, body, out),
                "signature" => {
                    if self.signature.len() + body.len() > limit {
                        return Err(too_long("a signature", limit, "max_hold"));
                    }
                    self.signature.push_str(&Json::decoded(body));
                }
                "redactedContent" => {
                    if !matches!(self.block, Some(Block::Redacted(_))) {
                        self.end_kept(out);
                        self.end_texts(out);
                        self.block = Some(Block::Redacted(String::new()));
                    }
                    if let Some(Block::Redacted(data)) = &mut self.block {
                        add_base64(data, &Json::decoded(body), limit)
                            .ok_or_else(|| too_long("withheld reasoning", limit, "max_hold"))?;
                    }
                }
                _ => self.skipped.add(Skip::UnknownPart),
            }
        }
        Ok(())
    }

    /// Records a citation of a web page. Other citations are of the client's own documents.
    fn cite(&mut self, citation: Json<'_>, out: &mut impl Sink) {
        let page = citation.get("location").and_then(|location| location.get("web"));
        let url = page.map(|page| page.text("url")).unwrap_or_default();
        if !self.citations.take(url, citation.text("title"), self.limits.max_hold, out) {
            self.skipped.add(Skip::UnknownPart);
        }
    }
}

fn too_long(what: &str, limit: usize, name: &str) -> Failure {
    Failure::new(Kind::Limit, format!("{what} in the response is longer than {limit} bytes (limits.{name})"))
}

/// Appends base64 whose bytes continue those of `data`. `None` if that exceeds `limit`.
fn add_base64(data: &mut String, more: &str, limit: usize) -> Option<()> {
    if data.len() + more.len() > limit {
        return None;
    }
    if data.is_empty() {
        data.push_str(more);
    } else {
        *data = joined_base64(mem::take(data), more);
    }
    Some(())
}
