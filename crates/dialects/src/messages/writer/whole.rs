//! Assembles a response as a single `message` object.

use bytes::BytesMut;
use serde_json::{Value, json};

use super::{
    Head,
    block::{self, Hosted, SERVER_NAME, ToolCounts, client_call},
    members::UpstreamMembers,
};
use crate::{
    Answering, Dialect, WholeForm,
    conversation::Namespaced,
    event::{CallStart, Event, Finish, Reasoning, Runner, Usage},
    failure::Failure,
    messages::error_body,
    opaque::carried,
    summary::SummaryText,
    wire::json::Json,
};

/// The response so far.
#[derive(Debug)]
pub struct Whole {
    head: Head,
    blocks: Vec<Block>,
    /// The calls that the client did not run.
    server_calls: ToolCounts,
    /// Whether further thinking starts a new block.
    ends_thinking: bool,
    /// The calls, by index, with the positions of their blocks.
    calls: Vec<(u32, usize)>,
    /// The members of toolsets.
    namespaced: Vec<Namespaced>,
    refused: bool,
    finish: Option<Finish>,
    usage: Option<Usage>,
    upstream: UpstreamMembers,
    warnings: Vec<Value>,
    /// Approximate size of the collected events in bytes.
    kept: usize,
    /// The complete response, set at the end if it should be stored.
    response: Option<String>,
    /// The summary, if the response is a compaction.
    summary: Option<SummaryText>,
}

#[derive(Debug)]
enum Block {
    Text {
        text: String,
        citations: Vec<Value>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    Call {
        id: String,
        name: String,
        hosted: Option<Hosted>,
        arguments: String,
    },
    /// A call that the upstream runs, with the upstream's own block.
    ServerCall {
        block: Value,
        arguments: String,
    },
    Finished(Value),
}

impl WholeForm for Whole {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering),
            blocks: Vec::new(),
            server_calls: ToolCounts::default(),
            ends_thinking: false,
            calls: Vec::new(),
            namespaced: answering.namespaced.clone(),
            refused: false,
            finish: None,
            usage: None,
            upstream: UpstreamMembers::default(),
            warnings: Vec::new(),
            kept: 0,
            response: None,
            summary: block::summary(answering),
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if self.summary.as_mut().is_some_and(|summary| summary.takes(event)) {
            return;
        }
        match event {
            Event::Start(start) => self.head.take(start),
            Event::Ping(_) => {}
            Event::Text(text) => self.text(text),
            Event::Refusal(text) => {
                self.refused = true;
                self.text(text);
            }
            Event::Reasoning(reasoning) => self.reasoning(reasoning),
            Event::CallStart(start) => self.call_start(start),
            Event::CallArguments { index, piece } => {
                self.kept += piece.len();
                if let Some(Block::Call { arguments, .. } | Block::ServerCall { arguments, .. }) =
                    self.call(*index)
                {
                    arguments.push_str(piece);
                }
            }
            // Truncated arguments need no flag, because they are not an object.
            Event::CallEnd { .. } => {}
            Event::CallResult(result) => {
                self.kept += result.id.len() + result.content.len();
                let known = match self.call(result.index) {
                    Some(Block::Call { hosted, .. }) => *hosted,
                    _ => None,
                };
                let hosted = known.unwrap_or(Hosted::Other);
                let block = hosted.result(&result.id, &result.content, result.is_error);
                self.blocks.push(Block::Finished(block));
            }
            Event::ServerCall(call) => {
                let texts = [&call.arguments, &call.content].into_iter().flatten();
                self.kept += call.id.len() + call.name.len() + texts.map(|text| text.len()).sum::<usize>();
                self.server_calls.add(block::counted(call));
                self.blocks.extend(block::server_call(call).map(Block::Finished));
            }
            Event::Annotation(annotation) => {
                self.kept += annotation.url.len() + annotation.title.len();
                if let Some((_, citations)) = self.last_text() {
                    citations.push(block::citation(annotation));
                }
            }
            Event::Media(_) | Event::Phase { .. } | Event::Mcp(_) => {}
            Event::Usage(usage) => self.usage = Some(usage.clone()),
            Event::Warning(warning) => self.warnings.push(block::warning(warning)),
            Event::Finish(finish) => self.finish = Some(*finish),
            Event::Verbatim { frame, means: Some(event) } => self.verbatim(frame, event),
            Event::Verbatim { frame, means: None } => match begun_block(frame) {
                Some(block) => self.own_block(frame, Block::Finished(block)),
                None => self.kept += self.upstream.take_message(frame),
            },
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let message = self.message();
        out.extend_from_slice(message.as_bytes());
        self.response = Some(message).filter(|_| self.head.stored);
    }

    /// Approximate size of the collected contents in bytes, without the overhead of storing them.
    fn kept(&self) -> usize {
        self.kept + self.summary.as_ref().map_or(0, |summary| summary.text.len())
    }

    fn error_body(failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn take_response(&mut self) -> Option<String> {
        self.response.take()
    }

    fn defect(&self) -> Option<Failure> {
        self.summary.as_ref()?.defect(self.finish)
    }
}

impl Whole {
    /// Ends the message and returns it as JSON.
    pub(super) fn message(&mut self) -> String {
        let mut content: Vec<Value> =
            self.blocks.drain(..).map(|block| block.into_value(&self.namespaced)).collect();
        let mut reason = self.finish.map(|finish| block::stop_reason(finish, self.refused));
        if let Some(SummaryText { text }) = self.summary.take() {
            content.push(json!({"type": block::COMPACTION, "content": text}));
            reason = Some(block::COMPACTION);
        }
        let mut message = json!({
            "id": self.head.id,
            "type": "message",
            "role": "assistant",
            "model": self.head.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": null,
            "usage": block::usage(self.usage.as_ref(), self.server_calls),
        });
        if let Some(message) = message.as_object_mut() {
            self.upstream.extend_message(message);
            if !self.warnings.is_empty() {
                message.insert("toolwire".to_owned(), block::notes(&self.warnings));
            }
        }
        message.to_string()
    }

    /// Adds a citation, in the upstream's form, to the last text.
    pub(super) fn cite(&mut self, citation: Value) {
        if let Some((_, citations)) = self.last_text() {
            citations.push(citation);
        }
    }

    /// Records an event and the upstream's own frame for it.
    fn verbatim(&mut self, frame: &str, event: &Event<'_>) {
        match (event, begun_block(frame)) {
            (Event::CallStart(start), Some(block)) if start.runner != Runner::Client => {
                self.calls.push((start.index, self.blocks.len()));
                self.own_block(frame, Block::ServerCall { block, arguments: String::new() });
            }
            (Event::CallResult(_), Some(block)) => self.own_block(frame, Block::Finished(block)),
            (Event::Finish(finish), _) => {
                self.upstream.take_stop(frame, *finish);
                self.event(event);
            }
            _ => self.event(event),
        }
    }

    fn own_block(&mut self, frame: &str, block: Block) {
        self.kept += frame.len();
        self.blocks.push(block);
    }

    fn text(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.kept += piece.len();
            if let Some((text, _)) = self.last_text() {
                text.push_str(piece);
            }
        }
    }

    /// The text block at the end, which is created if the last block is of another kind.
    fn last_text(&mut self) -> Option<(&mut String, &mut Vec<Value>)> {
        if !matches!(self.blocks.last(), Some(Block::Text { .. })) {
            self.blocks.push(Block::Text { text: String::new(), citations: Vec::new() });
        }
        match self.blocks.last_mut() {
            Some(Block::Text { text, citations }) => Some((text, citations)),
            _ => None,
        }
    }

    fn reasoning(&mut self, reasoning: &Reasoning<'_>) {
        if reasoning.is_end() {
            self.ends_thinking = true;
            return;
        }
        let Reasoning { text: piece, signature: given, redacted } = reasoning;
        if let (Some(state), true) = (given, *redacted) {
            self.kept += state.text.len();
            self.blocks.push(Block::Finished(block::redacted(state)));
            return;
        }
        let given = given.as_ref().map(|given| carried(given, Dialect::Messages));
        let given = given.as_deref();
        if piece.is_empty() && given.is_none() {
            return;
        }
        self.kept += piece.len() + given.map_or(0, str::len);
        let given = given.unwrap_or_default();
        let begins = std::mem::take(&mut self.ends_thinking);
        match self.blocks.last_mut() {
            // A signature covers the complete block.
            Some(Block::Thinking { text, signature }) if signature.is_empty() && !begins => {
                text.push_str(piece);
                given.clone_into(signature);
            }
            _ => self.blocks.push(Block::Thinking { text: piece.to_string(), signature: given.to_owned() }),
        }
    }

    fn call_start(&mut self, start: &CallStart<'_>) {
        self.kept += start.id.len() + start.name.len();
        self.calls.push((start.index, self.blocks.len()));
        let hosted = (start.runner != Runner::Client).then(|| Hosted::of(&start.name));
        self.server_calls.add(hosted.map_or_else(ToolCounts::default, Hosted::count));
        self.blocks.push(Block::Call {
            id: start.id.to_string(),
            name: start.name.to_string(),
            hosted,
            arguments: String::new(),
        });
    }

    fn call(&mut self, index: u32) -> Option<&mut Block> {
        let (_, place) = self.calls.iter().rfind(|(call, _)| *call == index)?;
        self.blocks.get_mut(*place)
    }
}

impl Block {
    fn into_value(self, namespaced: &[Namespaced]) -> Value {
        match self {
            Self::Text { text, citations } if citations.is_empty() => json!({"type": "text", "text": text}),
            Self::Text { text, citations } => {
                json!({"type": "text", "text": text, "citations": citations})
            }
            Self::Thinking { text, signature } => {
                json!({"type": "thinking", "thinking": text, "signature": signature})
            }
            Self::Call { id, name, hosted: Some(hosted), arguments } => {
                hosted.call(&id, (&name, SERVER_NAME), block::input(&arguments))
            }
            Self::Call { id, name, hosted: None, arguments } => {
                client_call(&id, &name, namespaced, block::input(&arguments))
            }
            Self::ServerCall { mut block, arguments } => {
                // If the start of the block contains no arguments, they arrive later.
                let is_given =
                    block.get("input").and_then(Value::as_object).is_some_and(|input| !input.is_empty());
                if let (false, Some(members)) = (is_given, block.as_object_mut())
                    && !arguments.is_empty()
                {
                    members.insert("input".to_owned(), block::input(&arguments));
                }
                block
            }
            Self::Finished(value) => value,
        }
    }
}

/// The block that `frame` starts, if it is an event that starts a block.
fn begun_block(frame: &str) -> Option<Value> {
    let json = Json::parse(frame).ok()?;
    let is_start = json.get("type")?.string_body() == Some("content_block_start");
    Some(json.get("content_block").filter(|_| is_start)?.to_value())
}
