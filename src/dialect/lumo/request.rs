//! [`encode`]: a conversation as Lumo wants it (Lumo 1.1, 1.3, 6).

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{
    tools::{self, Offer},
    turns::{self, Content, Role, Turn},
};
use crate::{conversation::Conversation, dialect::UpstreamRequest};

/// Which of Lumo's two protocols an upstream speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// `ai/v1/chat`: a `Prompt` of turns, typed objects back. No tools but Lumo's own.
    V1,
    /// `ai/v1/chat/completions`: close to OpenAI's, client tools included.
    #[default]
    V2,
}

impl Version {
    /// What is put behind the upstream's base URL.
    pub fn path(self) -> &'static str {
        match self {
            Self::V1 => "ai/v1/chat",
            Self::V2 => "ai/v1/chat/completions",
        }
    }
}

/// How requests to a Lumo upstream are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The protocol.
    pub version: Version,
    /// Server tools that Lumo may use, by name: `proton_info`, `web_search`, …
    pub native_tools: Vec<String>,
    /// What is asked for: `message`, `title` or `suggested_questions`.
    pub target: String,
}

impl Default for Options {
    fn default() -> Self {
        let native_tools = vec!["proton_info".to_owned(), "web_search".to_owned()];
        Self { version: Version::V2, native_tools, target: "message".to_owned() }
    }
}

/// The request for `conversation`, whose `model` is the tier: `lumo`, `lumo-lite`, `lumo-max`, …
///
/// Answers always come as a stream and with token counts, whatever the client asked for. What Lumo has no word for is
/// left out and named in [`UpstreamRequest::dropped`]; text never is. (U2L would seal the turns' content here, and add
/// `request_key` and `request_id`: Lumo 2.1.)
pub fn encode(conversation: &Conversation, options: &Options) -> UpstreamRequest {
    let mut dropped = Vec::new();
    let turns = turns::turns(conversation, &mut dropped);
    let body = match options.version {
        Version::V1 => v1(conversation, options, &turns, &mut dropped),
        Version::V2 => v2(conversation, options, &turns, &mut dropped),
    };
    dropped.extend(unspoken(conversation));
    let mut named = HashSet::new();
    dropped.retain(|name| named.insert(name.clone()));
    UpstreamRequest { body: body.to_string().into_bytes(), dropped }
}

fn v1(conversation: &Conversation, options: &Options, turns: &[Turn], dropped: &mut Vec<String>) -> Value {
    let sampling = &conversation.sampling;
    let unknown = [
        ("tools", conversation.callable_tools().next().is_some()),
        ("response_format", sampling.response_format.is_some()),
        ("reasoning_effort", sampling.reasoning_effort.is_some()),
    ];
    dropped.extend(unknown.iter().filter(|(_, given)| *given).map(|(name, _)| (*name).to_owned()));
    let turns: Vec<_> = turns.iter().map(|turn| v1_turn(turn, dropped)).collect();
    json!({"Prompt": {
        "type": "generation_request",
        "turns": turns,
        "options": {"tools": options.native_tools},
        "targets": [options.target],
    }})
}

fn v1_turn(turn: &Turn, dropped: &mut Vec<String>) -> Value {
    let role = match turn.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Call => "tool_call",
        Role::Result => "tool_result",
    };
    let mut object = Map::new();
    object.insert("role".to_owned(), role.into());
    object.insert("content".to_owned(), turn.text().into());
    let mut images = Vec::new();
    for url in turn.images() {
        match url.split_once(";base64,") {
            Some((mime, data)) if mime.starts_with("data:") => {
                let id = format!("image-{}", images.len());
                images.push(json!({"encrypted": false, "image_id": id, "data": data}));
            }
            _ => dropped.push("image_url".to_owned()),
        }
    }
    if !images.is_empty() {
        object.insert("images".to_owned(), images.into());
    }
    Value::Object(object)
}

fn v2(conversation: &Conversation, options: &Options, turns: &[Turn], dropped: &mut Vec<String>) -> Value {
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
    put("model", conversation.model.as_str().into());
    put("messages", turns.iter().map(v2_message).collect());
    put("stream", true.into());
    put("stream_options", json!({"include_usage": true}));
    if let Some(effort) = &conversation.sampling.reasoning_effort {
        // Thinking is on or off (Lumo 1.3).
        let effort = if matches!(effort.as_str(), "none" | "minimal") { "none" } else { "high" };
        put("reasoning_effort", effort.into());
    }
    if let Some(Offer { tools, choice }) = tools::offer(conversation, &options.native_tools, dropped) {
        put("tools", tools.into());
        put("tool_choice", choice.into());
    }
    if let Some(format) = &conversation.sampling.response_format {
        put("response_format", format.clone());
    }
    put("lumo", json!({"client_type": "frontend", "target": options.target}));
    Value::Object(body)
}

fn v2_message(turn: &Turn) -> Value {
    let role = match turn.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Call => "lumo_tool_call",
        Role::Result => "tool",
    };
    if turn.images().next().is_none() {
        return json!({"role": role, "content": turn.text()});
    }
    let parts = turn.content.iter().map(|part| match part {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Image(url) => json!({"type": "image_url", "image_url": {"url": url}}),
    });
    json!({"role": role, "content": parts.collect::<Vec<_>>()})
}

/// Fields of the request that neither version has a word for.
fn unspoken(conversation: &Conversation) -> impl Iterator<Item = String> {
    let sampling = &conversation.sampling;
    let known = [
        ("max_tokens", sampling.max_tokens.is_some()),
        ("temperature", sampling.temperature.is_some()),
        ("top_p", sampling.top_p.is_some()),
        ("stop", !sampling.stop.is_empty()),
        ("seed", sampling.seed.is_some()),
        ("parallel_tool_calls", !conversation.parallel_calls && !conversation.tools.is_empty()),
    ];
    let known = known.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
    known.chain(conversation.rest.keys().cloned())
}
