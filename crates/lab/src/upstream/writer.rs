//! [`FrameWriter`]: writes a response as frames of an upstream's dialect.

use serde_json::{Value, json};

use super::Api;
use toolwire_pipeline::event::Finish;

/// The metadata of a mock's responses.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The suffix of all ids except those of calls.
    pub(crate) name: &'static str,
    pub(crate) model: &'static str,
    /// Creation time, in seconds of Unix time.
    pub(crate) created: u64,
}

/// Token counts of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The frame, including its terminator.
    pub(crate) bytes: Vec<u8>,
    pub(crate) content: Content,
}

/// How a frame's content relates to the content of earlier frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// New, if it has any.
    New,
    /// None: the frame only starts an item.
    ItemStart,
    /// The complete content of the current item.
    Item,
    /// The complete content of the response.
    Response,
}

/// Writes one response.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    pub(super) api: Api,
    pub(super) identity: &'static Identity,
    /// The written frames that have not been taken yet.
    pub(crate) frames: Vec<Frame>,
    /// Lumo's `count`, or the `sequence_number` of Responses.
    pub(super) count: u64,
    /// Number of native calls so far.
    calls: u64,
    /// The complete items (Responses) or blocks (Messages).
    pub(super) items: Vec<Value>,
    pub(super) open: Option<Item>,
}

/// An item, a block or a call that is being written.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    /// Id and name of a call.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Reasoning,
    Call,
}

impl FrameWriter {
    pub(crate) fn new(api: Api, identity: &'static Identity) -> Self {
        Self { api, identity, frames: Vec::new(), count: 0, calls: 0, items: Vec::new(), open: None }
    }

    /// Writes the frames before the content. `input` is the number of input tokens.
    pub(crate) fn begin(&mut self, input: u64) {
        match self.api {
            Api::LumoV1 => self.put(&json!({"type": "ingesting", "target": "message"})),
            Api::Chat => self.delta(json!({"role": "assistant", "content": ""})),
            Api::Responses => self.begin_response(),
            Api::Messages => self.begin_message(input),
            Api::Interactions => self.begin_interaction(),
            Api::Lumo | Api::Completions | Api::Gemini | Api::Ollama => {}
        }
    }

    /// Writes a piece of text.
    pub(crate) fn text(&mut self, text: &str) {
        match self.api {
            Api::Chat | Api::Lumo => self.delta(json!({ "content": text })),
            Api::LumoV1 => {
                let count = self.count;
                self.put(
                    &json!({"type": "token_data", "target": "message", "count": count, "content": text}),
                );
                self.count += 1;
            }
            Api::Completions => self.completion(text, None),
            Api::Gemini => self.part(json!({ "text": text })),
            Api::Ollama => self.message(json!({ "content": text })),
            Api::Interactions | Api::Responses | Api::Messages => self.block_delta(Kind::Text, text),
        }
    }

    /// Writes a piece of reasoning, if the dialect has reasoning.
    pub(crate) fn reasoning(&mut self, text: &str) {
        match self.api {
            Api::Chat => self.delta(json!({ "reasoning_content": text })),
            Api::Lumo => self.delta(json!({"target": "reasoning", "content": text})),
            Api::Gemini => self.part(json!({"thought": true, "text": text})),
            Api::Ollama => self.message(json!({"content": "", "thinking": text})),
            Api::Interactions | Api::Responses | Api::Messages => self.block_delta(Kind::Reasoning, text),
            Api::LumoV1 | Api::Completions => {}
        }
    }

    /// Begins a native call, if the dialect has native calls.
    pub(crate) fn call(&mut self, id: &str, name: &str) {
        let index = self.calls;
        self.calls += 1;
        match self.api {
            Api::Chat | Api::Lumo => {
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": index, "id": id, "type": "function", "function": function});
                self.delta(json!({ "tool_calls": [call] }));
            }
            Api::Gemini | Api::Interactions | Api::Ollama | Api::Responses | Api::Messages => {
                self.close();
                let item = Item {
                    kind: Kind::Call,
                    id: id.to_owned(),
                    name: name.to_owned(),
                    content: String::new(),
                };
                self.open_item(item);
            }
            Api::LumoV1 | Api::Completions => {}
        }
    }

    /// Writes a piece of the current call's arguments.
    pub(crate) fn arguments(&mut self, piece: &str) {
        match self.api {
            Api::Chat | Api::Lumo => {
                let index = self.calls.saturating_sub(1);
                self.delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
            }
            Api::Interactions | Api::Responses | Api::Messages => self.block_delta(Kind::Call, piece),
            // These dialects do not stream arguments.
            Api::Gemini | Api::Ollama => self.open.iter_mut().for_each(|call| call.content.push_str(piece)),
            Api::LumoV1 | Api::Completions => {}
        }
    }

    /// Ends the current item.
    pub(crate) fn close(&mut self) {
        let Some(item) = self.open.take() else { return };
        // `Value` preserves the digits of numbers.
        let arguments = || serde_json::from_str::<Value>(&item.content).unwrap_or_default();
        match self.api {
            Api::Gemini => {
                self.part(json!({"functionCall": {"id": item.id, "name": item.name, "args": arguments()}}));
            }
            Api::Ollama => {
                let function = json!({"name": item.name, "arguments": arguments()});
                self.message(json!({"content": "", "tool_calls": [{ "function": function }]}));
            }
            _ => self.close_block(item),
        }
    }

    /// Writes the frames after the content. Dialects similar to Chat Completions report the token counts only if
    /// `is_counted`.
    pub(crate) fn end(&mut self, finish: Finish, usage: Usage, is_counted: bool) {
        self.close();
        let Usage { input, output } = usage;
        match self.api {
            Api::LumoV1 => self.put(&json!({"type": "done"})),
            Api::Chat | Api::Lumo | Api::Completions => {
                self.finish(finish);
                if is_counted {
                    let usage = json!({"prompt_tokens": input, "completion_tokens": output,
                        "total_tokens": input + output});
                    self.put(&with(self.chunk(json!([])), json!({ "usage": usage })));
                }
                self.push(b"data: [DONE]\n\n".to_vec(), Content::New);
            }
            Api::Gemini => {
                let finish = match finish {
                    Finish::Stop | Finish::Calls => "STOP",
                    Finish::Length => "MAX_TOKENS",
                    Finish::Filter => "SAFETY",
                };
                let usage = json!({"promptTokenCount": input, "candidatesTokenCount": output,
                    "totalTokenCount": input + output});
                let last = json!({"index": 0, "content": {"role": "model", "parts": [{"text": ""}]},
                    "finishReason": finish});
                self.put(&with(self.candidate(&last), json!({ "usageMetadata": usage })));
            }
            Api::Ollama => {
                let reason = if finish == Finish::Length { "length" } else { "stop" };
                let counts = json!({"done_reason": reason, "total_duration": 5_000_000,
                    "load_duration": 1_000_000, "prompt_eval_count": input, "prompt_eval_duration": 1_000_000,
                    "eval_count": output, "eval_duration": 3_000_000});
                self.put(&with(self.line(json!({"content": ""}), true), counts));
            }
            Api::Interactions => self.end_interaction(finish, usage),
            Api::Responses => self.end_response(finish, usage),
            Api::Messages => self.end_message(finish, output),
        }
    }

    /// Writes the chunk with the finish reason.
    fn finish(&mut self, finish: Finish) {
        let finish = match (self.api, finish) {
            (_, Finish::Length) => "length",
            (Api::Completions, _) | (_, Finish::Stop) => "stop",
            (_, Finish::Calls) => "tool_calls",
            (_, Finish::Filter) => "content_filter",
        };
        match self.api {
            Api::Completions => self.completion("", Some(finish)),
            _ => self.put(&self.chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]))),
        }
    }

    fn delta(&mut self, delta: Value) {
        let choice = match self.api {
            // Lumo omits members that are null.
            Api::Lumo => json!({"index": 0, "delta": delta}),
            _ => json!({"index": 0, "delta": delta, "finish_reason": null}),
        };
        self.put(&self.chunk(json!([choice])));
    }

    fn completion(&mut self, text: &str, finish: Option<&str>) {
        let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish});
        self.put(&self.chunk(json!([choice])));
    }

    /// Returns a chunk in the format of Chat Completions.
    fn chunk(&self, choices: Value) -> Value {
        let Identity { name, model, created } = self.identity;
        let (id, object) = match self.api {
            Api::Lumo => return json!({"object": "CompletionChunk", "model": model, "choices": choices}),
            Api::Completions => (format!("cmpl-{name}"), "text_completion"),
            _ => (format!("chatcmpl-{name}"), "chat.completion.chunk"),
        };
        json!({"id": id, "object": object, "created": created, "model": model, "choices": choices})
    }

    /// Writes a part of a Gemini response.
    fn part(&mut self, part: Value) {
        let candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
        self.put(&self.candidate(&candidate));
    }

    fn candidate(&self, candidate: &Value) -> Value {
        let Identity { name, model, .. } = self.identity;
        json!({"candidates": [candidate], "modelVersion": model, "responseId": format!("resp-{name}")})
    }

    /// Writes a line of Ollama's API.
    fn message(&mut self, message: Value) {
        self.put(&self.line(message, false));
    }

    fn line(&self, message: Value, done: bool) -> Value {
        json!({"model": self.identity.model, "created_at": "2025-06-15T15:06:40.000Z",
            "message": with(json!({"role": "assistant"}), message), "done": done})
    }

    fn put(&mut self, frame: &Value) {
        self.push(self.api.frame(frame), Content::New);
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>, content: Content) {
        self.frames.push(Frame { bytes, content });
    }
}

/// Adds the members of `more` to `object`.
pub(super) fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}
