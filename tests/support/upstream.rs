//! Builds an upstream's bytes from pieces of text, or from events in the notation of the conformance cases
//! (fixtures/conformance/README.md#notation).

use std::{collections::HashMap, fmt::Display};

use serde_json::{Value, json};

use super::{interactions_upstream, responses_upstream};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    LumoV1,
    LumoV2,
    Chat,
    /// Text completions in OpenAI's SSE format.
    Completions,
    /// Text completions in Ollama's JSON lines.
    Ollama,
    Messages,
    Responses,
    /// Gemini in SSE format.
    Gemini,
    Interactions,
    /// Ollama's chat API in JSON lines.
    OllamaChat,
}

impl Speech {
    /// The dialects with native calls.
    pub(crate) const ALL: [Self; 8] = [
        Self::LumoV1,
        Self::LumoV2,
        Self::Chat,
        Self::Messages,
        Self::Responses,
        Self::Gemini,
        Self::Interactions,
        Self::OllamaChat,
    ];

    /// The dialects without native calls.
    pub(crate) const COMPLETIONS: [Self; 2] = [Self::Completions, Self::Ollama];

    /// Builds a complete response from pieces of text. `finish` is the upstream's finish reason, which Lumo v1 does
    /// not send.
    pub(crate) fn says(self, pieces: &[&str], finish: &str) -> Vec<u8> {
        let mut events: Vec<Value> = pieces.iter().map(|piece| json!(["m", piece])).collect();
        if self != Self::LumoV1 {
            events.push(json!(["fin", finish]));
        }
        events.push(json!(["done"]));
        self.stream(&events)
    }

    /// Builds a stream with one frame per event.
    pub(crate) fn stream(self, events: &[Value]) -> Vec<u8> {
        let mut stream = String::new();
        let mut counts = HashMap::new();
        match self {
            Self::Messages => return messages_stream(events).into_bytes(),
            Self::Responses => return responses_upstream::stream(events).into_bytes(),
            Self::Interactions => return interactions_upstream::stream(events).into_bytes(),
            _ => {}
        }
        if self == Self::Chat {
            stream.push_str(&chat_frame("d", &json!({"role": "assistant", "content": ""})));
            stream.push_str("\n\n");
        }
        for event in events {
            let word = event[0].as_str().expect("a word");
            stream.push_str(&match self {
                Self::LumoV1 => v1_frame(word, &event[1], &mut counts),
                Self::LumoV2 => v2_frame(word, &event[1]),
                Self::Chat => chat_frame(word, &event[1]),
                Self::Completions => completions_frame(word, &event[1]),
                Self::Ollama => ollama_line(word, &event[1]),
                Self::Gemini => gemini_frame(word, &event[1]),
                Self::OllamaChat => ollama_chat_line(word, &event[1]),
                Self::Interactions | Self::Messages | Self::Responses => continue,
            });
            stream.push_str(if matches!(self, Self::Ollama | Self::OllamaChat) { "\n" } else { "\n\n" });
        }
        stream.into_bytes()
    }
}

fn v1_frame<'w>(word: &'w str, value: &Value, counts: &mut HashMap<&'w str, u64>) -> String {
    let target = match word {
        "m" => "message",
        "r" => "reasoning",
        "t" => "title",
        "tc" => "tool_call",
        "tr" => "tool_result",
        "q" => return r#"data: {"type":"queued"}"#.to_owned(),
        "ing" => return format!("data: {}", json!({"type": "ingesting", "target": value})),
        "tool-error" => return format!("data: {}", json!({"type": word, "error": value})),
        _ => return format!("data: {}", json!({"type": word, "message": value})),
    };
    let count = counts.entry(word).or_default();
    let frame = json!({"type": "token_data", "target": target, "count": *count, "content": value});
    *count += 1;
    format!("data: {frame}")
}

fn v2_frame(word: &str, value: &Value) -> String {
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let frame = match word {
        "m" => chunk(json!({"content": value})),
        "r" => chunk(json!({"reasoning_content": value})),
        "d" => chunk(value.clone()),
        "fin" => json!({"choices": [{"index": 0, "delta": {}, "finish_reason": value}]}),
        "stc" => json!({"object": "chat.tool_call", "tool_call": value}),
        "str" => json!({"object": "chat.tool_result", "tool_result": value}),
        "img" => json!({"object": "lumo.image_data", "image": value}),
        "u" => json!({"choices": [], "usage": value}),
        "err" => json!({"error": value}),
        "c" => return format!(":{}", value.as_str().expect("a comment")),
        "done" => return "data: [DONE]".to_owned(),
        other => panic!("unknown event {other}"),
    };
    format!("data: {frame}")
}

fn chat_frame(word: &str, value: &Value) -> String {
    let chunk = |choices: Value| {
        json!({"id": "chatcmpl-up", "object": "chat.completion.chunk", "created": 7, "model": "m",
               "choices": choices, "system_fingerprint": "fp"})
    };
    // The most frequent frame, so it is written as text.
    let delta = |delta: &dyn Display| {
        format!(
            "data: {{\"id\":\"chatcmpl-up\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":\
             [{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}],\"system_fingerprint\":\"fp\"}}"
        )
    };
    let frame = match word {
        "m" => return delta(&format_args!("{{\"content\":{value}}}")),
        "r" => return delta(&format_args!("{{\"reasoning_content\":{value}}}")),
        "d" => return delta(value),
        "fin" => chunk(json!([{"index": 0, "delta": {}, "finish_reason": value}])),
        "u" => {
            let mut frame = chunk(json!([]));
            frame["usage"] = value.clone();
            frame
        }
        "err" => json!({"error": value}),
        "c" => return format!(":{}", value.as_str().expect("a comment")),
        "done" => return "data: [DONE]".to_owned(),
        other => panic!("unknown event {other}"),
    };
    format!("data: {frame}")
}

fn completions_frame(word: &str, value: &Value) -> String {
    let chunk = |choices: Value| json!({"id": "cmpl-up", "object": "text_completion", "created": 7, "model": "m", "choices": choices});
    let choice = |text: &Value, finish: &Value| {
        chunk(json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]))
    };
    let frame = match word {
        "m" => choice(value, &Value::Null),
        "fin" => choice(&json!(""), value),
        "r" | "u" => {
            let mut frame = chunk(json!([]));
            frame[if word == "r" { "thinking" } else { "usage" }] = value.clone();
            frame
        }
        "err" => json!({"error": value}),
        "c" => return format!(":{}", value.as_str().expect("a comment")),
        "done" => return "data: [DONE]".to_owned(),
        other => panic!("unknown event {other}"),
    };
    format!("data: {frame}")
}

/// Writes an event of Ollama's text completions. The final line carries the finish reason; there is no end marker.
fn ollama_line(word: &str, value: &Value) -> String {
    let line = match word {
        "m" => json!({"model": "m", "response": value, "done": false}),
        "r" => json!({"model": "m", "response": "", "thinking": value, "done": false}),
        "fin" => {
            json!({"model": "m", "response": "", "done": true, "done_reason": value, "prompt_eval_count": 3, "eval_count": 2})
        }
        "err" => json!({"error": value}),
        "done" => return String::new(),
        other => panic!("unknown event {other}"),
    };
    line.to_string()
}

/// Writes an event as a Gemini frame. The value of a `d` event is a part. There is no end marker after the finish
/// reason.
fn gemini_frame(word: &str, value: &Value) -> String {
    let candidate = |parts: Value, finish: &Value| {
        json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": finish, "index": 0}],
               "modelVersion": "m", "responseId": "up"})
    };
    let frame = match word {
        "m" => candidate(json!([{"text": value}]), &Value::Null),
        "r" => candidate(json!([{"text": value, "thought": true}]), &Value::Null),
        "d" => candidate(json!([value]), &Value::Null),
        "fin" => {
            let reason = match value.as_str() {
                Some("stop" | "tool_calls") => "STOP",
                Some("length") => "MAX_TOKENS",
                Some("content_filter") => "SAFETY",
                other => other.expect("a word"),
            };
            candidate(json!([]), &json!(reason))
        }
        "u" => {
            json!({"usageMetadata": {"promptTokenCount": value["prompt_tokens"],
                                     "candidatesTokenCount": value["completion_tokens"]}})
        }
        "err" => json!({"error": {"code": 500, "message": value["message"], "status": "INTERNAL"}}),
        "c" => return format!(":{}", value.as_str().expect("a comment")),
        "done" => return String::new(),
        other => panic!("unknown event {other}"),
    };
    format!("data: {frame}")
}

/// Writes an event of Ollama's chat API. The final line carries the finish reason; there is no end marker. The
/// value of a `d` event is a message.
fn ollama_chat_line(word: &str, value: &Value) -> String {
    let line = |message: Value| json!({"model": "m", "message": message, "done": false});
    let line = match word {
        "m" => line(json!({"role": "assistant", "content": value})),
        "r" => line(json!({"role": "assistant", "content": "", "thinking": value})),
        "d" => line(value.clone()),
        "fin" => {
            json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": value,
                   "prompt_eval_count": 3, "eval_count": 2})
        }
        "err" => json!({"error": value["message"]}),
        "u" | "done" => return String::new(),
        other => panic!("unknown event {other}"),
    };
    line.to_string()
}

/// Builds a stream in which a block of text or thinking ends when another kind of content begins. The value of a
/// `d` event is a block, or a call in the format of Chat Completions.
fn messages_stream(events: &[Value]) -> String {
    let mut stream = MessagesStream::default();
    let usage = json!({"input_tokens": 3, "output_tokens": 1});
    stream.put(&json!({"type": "message_start", "message": {
        "id": "msg_up", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}}));
    events.iter().for_each(|event| stream.event(event[0].as_str().expect("a word"), &event[1]));
    stream.frames
}

#[derive(Default)]
struct MessagesStream {
    frames: String,
    next: u64,
    /// The type and the index of the open text or thinking block.
    open: Option<(&'static str, u64)>,
    /// Maps a call's number in the events to the index of its block.
    calls: HashMap<u64, u64>,
}

impl MessagesStream {
    fn put(&mut self, event: &Value) {
        let kind = event["type"].as_str().expect("a type");
        self.frames.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    }

    fn start(&mut self, block: &Value) -> u64 {
        let index = self.next;
        self.next += 1;
        self.put(&json!({"type": "content_block_start", "index": index, "content_block": block}));
        index
    }

    fn close(&mut self) {
        if let Some((_, index)) = self.open.take() {
            self.put(&json!({"type": "content_block_stop", "index": index}));
        }
    }

    fn piece(&mut self, kind: &'static str, text: &Value) {
        if self.open.is_none_or(|(open, _)| open != kind) {
            self.close();
            let index = self.start(&json!({"type": kind, kind: ""}));
            self.open = Some((kind, index));
        }
        let index = self.open.map_or(0, |(_, index)| index);
        let delta = json!({"type": format!("{kind}_delta"), kind: text});
        self.put(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }

    fn call(&mut self, element: &Value) {
        let number = element["index"].as_u64().unwrap_or(0);
        let function = &element["function"];
        if element["id"].is_string() {
            self.close();
            let block =
                json!({"type": "tool_use", "id": element["id"], "name": function["name"], "input": {}});
            let index = self.start(&block);
            self.calls.insert(number, index);
        }
        let index = self.calls.get(&number).copied().unwrap_or(99);
        let delta = json!({"type": "input_json_delta", "partial_json": function["arguments"]});
        self.put(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }

    fn event(&mut self, word: &str, value: &Value) {
        match word {
            "m" => self.piece("text", value),
            "r" => self.piece("thinking", value),
            "d" if value["tool_calls"].is_array() => {
                value["tool_calls"].as_array().into_iter().flatten().for_each(|element| self.call(element));
            }
            "d" => self.put(value),
            "u" => {
                let usage = json!({"input_tokens": value["prompt_tokens"], "output_tokens": value["completion_tokens"]});
                self.put(&json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": usage}));
            }
            "fin" => {
                self.close();
                let reason = match value.as_str() {
                    Some("stop") => "end_turn",
                    Some("length") => "max_tokens",
                    Some("tool_calls") => "tool_use",
                    Some("content_filter") => "refusal",
                    other => other.expect("a word"),
                };
                let delta = json!({"stop_reason": reason, "stop_sequence": null});
                self.put(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}}));
            }
            "err" => self.put(&json!({"type": "error", "error": value})),
            "c" => self.frames.push_str(&format!(":{}\n\n", value.as_str().expect("a comment"))),
            "done" => self.put(&json!({"type": "message_stop"})),
            other => panic!("unknown event {other}"),
        }
    }
}
