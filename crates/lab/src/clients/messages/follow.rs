//! Anthropic Messages: docs/protocols/messages.md#events and docs/protocols/messages.md#client-tolerance.

use serde::Deserialize;

use crate::follow::{
    DONE, EventReader, failure,
    field::{Document, Field, decoded},
    notes::Notes,
    parse,
    sample::TokenKind,
};

/// Maximum number of blocks. More are a violation.
const MAX_BLOCKS: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    index: Field<'a>,
    delta: Option<Delta<'a>>,
    message: Field<'a>,
    content_block: Field<'a>,
    usage: Field<'a>,
    error: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    text: Field<'a>,
    partial_json: Field<'a>,
    thinking: Field<'a>,
    signature: Field<'a>,
    citation: Field<'a>,
    stop_reason: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(rename = "type")]
    kind: Field<'a>,
    role: Field<'a>,
    content: Field<'a>,
    model: Field<'a>,
    stop_reason: Field<'a>,
    usage: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage<'a> {
    #[serde(borrow)]
    input_tokens: Field<'a>,
    output_tokens: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    text: Field<'a>,
    thinking: Field<'a>,
    id: Field<'a>,
    name: Field<'a>,
    input: Field<'a>,
}

/// The state of a Messages stream.
#[derive(Debug, Default)]
pub(super) struct Messages {
    begun: bool,
    blocks: Vec<Block>,
    /// Number of open blocks.
    open: usize,
    /// The number of the event that revealed invalid JSON in a tool's input. The stop reason decides whether it is allowed.
    cut: Option<u64>,
    stop: Option<Stop>,
    ended: bool,
    scratch: String,
}

#[derive(Debug)]
struct Block {
    kind: Kind,
    id: String,
    open: bool,
    input: Document,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Tool,
    /// Server tools, their results, and kinds that the API may add later.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Turn,
    Tools,
    /// A stop reason that allows truncated calls.
    Cut,
}

impl EventReader for Messages {
    fn event(&mut self, name: &[u8], data: &str, notes: &mut Notes<'_>) {
        if data == DONE {
            return notes.holds(self.ended, "[DONE] precedes the end of the stream");
        }
        notes.holds(!self.ended, "an event follows the end of the stream");
        let Some(event) = parse::<Event<'_>>(data, notes) else { return };
        let kind = event.kind.text().unwrap_or_default();
        notes.holds(kind.as_bytes() == name, "an event's `event:` line differs from its type");
        if !matches!(kind, "message_start" | "ping" | "error") {
            notes.holds(self.begun, "the first event is not message_start");
        }
        match kind {
            "content_block_delta" => self.delta(&event, notes),
            "content_block_start" => self.start(&event, notes),
            "content_block_stop" => self.stop(&event, notes),
            "message_start" => self.begin(&event, notes),
            "message_delta" => self.message_delta(&event, notes),
            "message_stop" => self.end(notes),
            "ping" => {}
            "error" => {
                self.ended = true;
                failure(event.error, "an error is not an object with type and message", notes);
            }
            _ => notes.breaks_by("an event has an unknown type", kind),
        }
    }

    fn missing_end(&self) -> &'static str {
        "the stream ends without message_stop"
    }
}

impl Messages {
    fn begin(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        notes.holds(!self.begun, "message_start is repeated");
        self.begun = true;
        let message: Message<'_> = event.message.read();
        let usage: Usage<'_> = message.usage.read();
        let whole = message.id.word().is_some()
            && message.kind.is("message")
            && message.role.is("assistant")
            && message.model.word().is_some();
        notes.holds(whole, "message_start has no message with id, type, role assistant and model");
        let empty = message.content.is_empty() && message.stop_reason.is_null();
        notes.holds(empty, "message_start's message has content or a stop_reason, or lacks them");
        let counted = usage.input_tokens.number().is_some() && usage.output_tokens.number().is_some();
        notes.holds(counted, "message_start's message has no usage");
    }

    fn start(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        notes.holds(self.stop.is_none(), "a block follows message_delta");
        let known = self.blocks.len();
        let next = event.index.number() == u64::try_from(known).ok();
        notes.holds(next, "a new block's index is not the next one");
        if known == MAX_BLOCKS {
            return notes.breaks("there are more than 1024 blocks; the others are not checked");
        }
        let content: ContentBlock<'_> = event.content_block.read();
        let kind = match content.kind.text().unwrap_or_default() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "tool_use" => Kind::Tool,
            other => {
                notes.holds(!other.is_empty(), "a block has no type");
                Kind::Other
            }
        };
        let mut block = Block { kind, id: String::new(), open: true, input: Document::default() };
        match kind {
            Kind::Text => self.first_text(TokenKind::Text, content.text, notes),
            Kind::Thinking => self.first_text(TokenKind::Reasoning, content.thinking, notes),
            Kind::Tool => self.tool(&content, &mut block, notes),
            Kind::Other => {}
        }
        self.blocks.push(block);
        self.open += 1;
    }

    fn first_text(&mut self, kind: TokenKind, field: Field<'_>, notes: &mut Notes<'_>) {
        match field.text() {
            Some(body) => notes.token(kind, decoded(body, &mut self.scratch)),
            None => notes.breaks("a block of text or thinking begins without that member"),
        }
    }

    fn tool(&mut self, content: &ContentBlock<'_>, block: &mut Block, notes: &mut Notes<'_>) {
        let id = content.id.word().unwrap_or_default();
        notes.holds(!id.is_empty(), "a tool_use block has no id");
        notes.holds(content.name.word().is_some(), "a tool_use block has no name");
        notes.holds(content.input.is_object(), "a tool_use block's input is not an object");
        notes.holds(
            !self.blocks.iter().any(|other| !id.is_empty() && other.id == id),
            "two tool_use blocks have the same id",
        );
        block.id.push_str(id);
        if content.name.word().is_some() {
            notes.call_begins();
        }
        if content.input.is_object() && !content.input.is_empty() {
            notes.call_goes_on(content.input.raw());
        }
    }

    fn delta(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        let nothing = Delta::default();
        notes.holds(event.delta.is_some(), "a content_block_delta has no delta");
        let delta = event.delta.as_ref().unwrap_or(&nothing);
        let index = event.index.number().and_then(|index| usize::try_from(index).ok());
        let block = index.and_then(|index| self.blocks.get_mut(index)).filter(|block| block.open);
        let kind = block.as_ref().map(|block| block.kind);
        notes.holds(kind.is_some(), "a delta belongs to a block that is not open");
        let (wanted, field) = match delta.kind.text().unwrap_or_default() {
            "text_delta" => (Kind::Text, delta.text),
            "thinking_delta" => (Kind::Thinking, delta.thinking),
            "signature_delta" => (Kind::Thinking, delta.signature),
            "input_json_delta" => (Kind::Tool, delta.partial_json),
            "citations_delta" => {
                return notes.holds(delta.citation.is_object(), "a delta lacks the member of its type");
            }
            other => return notes.breaks_by("a delta has an unknown type", other),
        };
        let fits = kind.is_none_or(|kind| kind == wanted || kind == Kind::Other);
        notes.holds(fits, "a delta's type is not one of its block's");
        let Some(body) = field.text() else {
            return notes.breaks("a delta lacks the member of its type");
        };
        let piece = decoded(body, &mut self.scratch);
        match wanted {
            Kind::Text => notes.token(TokenKind::Text, piece),
            Kind::Thinking if delta.signature.has_value() => {}
            Kind::Thinking => notes.token(TokenKind::Reasoning, piece),
            Kind::Tool | Kind::Other => {
                if kind == Some(Kind::Tool) {
                    notes.call_goes_on(piece);
                } else {
                    notes.token(TokenKind::Arguments, piece);
                }
                if let Some(block) = block {
                    block.input.push(piece);
                }
            }
        }
    }

    fn stop(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        let index = event.index.number().and_then(|index| usize::try_from(index).ok());
        let Some(block) = index.and_then(|index| self.blocks.get_mut(index)).filter(|block| block.open)
        else {
            return notes.breaks("content_block_stop belongs to a block that is not open");
        };
        block.open = false;
        self.open -= 1;
        // Without deltas, the start event contains the input.
        if !block.input.is_empty() && !block.input.is_whole() {
            self.cut.get_or_insert(notes.frame);
        }
    }

    fn message_delta(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        notes.holds(self.open == 0, "message_delta arrives while a block is open");
        let usage: Usage<'_> = event.usage.read();
        match usage.output_tokens.number() {
            None => notes.breaks("message_delta has no usage with output_tokens"),
            tokens => notes.sample.usage = tokens,
        }
        let Some(word) = event.delta.as_ref().and_then(|delta| delta.stop_reason.text()) else { return };
        let stop = match word {
            "end_turn" => Stop::Turn,
            "tool_use" => Stop::Tools,
            "max_tokens" | "stop_sequence" | "pause_turn" | "refusal" | "model_context_window_exceeded" => {
                Stop::Cut
            }
            other => {
                notes.breaks_by("the stop_reason is not one of the API's", other);
                Stop::Cut
            }
        };
        notes.holds(self.stop.is_none(), "there is more than one stop_reason");
        let calls = self.blocks.iter().any(|block| block.kind == Kind::Tool);
        match (calls, stop) {
            (true, Stop::Turn) => {
                notes.breaks("there are tool_use blocks, but the stop_reason is not tool_use")
            }
            (false, Stop::Tools) => {
                notes.breaks("the stop_reason is tool_use, but there is no tool_use block")
            }
            _ => {}
        }
        if stop != Stop::Cut
            && let Some(frame) = self.cut
        {
            notes.frame = frame;
            notes.breaks("a tool's input is not JSON when it is joined");
        }
        self.stop = Some(stop);
    }

    fn end(&mut self, notes: &mut Notes<'_>) {
        self.ended = true;
        notes.holds(self.stop.is_some(), "message_stop arrives before a stop_reason");
        notes.holds(self.open == 0, "message_stop arrives while a block is open");
        notes.ends();
    }
}
