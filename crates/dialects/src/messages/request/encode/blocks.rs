//! Encodes the parts of turns as content blocks.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    DIALECT,
    ids::{CallIds, is_valid},
};
use crate::{
    cache_hints::CACHE_CONTROL,
    conversation::{Arguments, CUSTOM_INPUT, Call, CallOutput, Part, Text},
    messages::toolsets::{TOOLSET_NAME, joined},
    wire::json::Encoder,
};

#[derive(Debug)]
pub(super) enum Block<'c> {
    /// As the client wrote it.
    Original(&'c Value),
    /// The client's block with a new id for the call.
    Renamed {
        original: &'c Value,
        key: &'static str,
        id: Cow<'c, str>,
    },
    Text(Cow<'c, Text>),
    Image(&'c str),
    Call {
        id: Cow<'c, str>,
        call: &'c Call,
    },
    Result {
        id: Cow<'c, str>,
        output: &'c CallOutput,
        media: Vec<Block<'c>>,
    },
    Thinking {
        text: &'c str,
        signature: &'c str,
    },
    Redacted(&'c str),
    Hinted(Box<Block<'c>>, &'c Value),
}

/// Encodes `part`. `original` is the client's own block, if the client speaks this dialect. `None` if the API
/// has no such block, or would reject it as empty.
pub(super) fn block<'c>(
    part: &'c Part,
    original: Option<&'c Value>,
    ids: &mut CallIds,
    dropped: &mut Vec<String>,
) -> Option<Block<'c>> {
    match part {
        Part::Text(text) if text.is_blank() => None,
        Part::Text(text) => Some(original.map_or(Block::Text(Cow::Borrowed(text)), Block::Original)),
        Part::Image { .. } if original.is_some() => original.map(Block::Original),
        Part::Image { url, .. } if Source::of(url).is_some() => Some(Block::Image(url)),
        Part::Image { .. } => {
            dropped.push("messages[].content[]".to_owned());
            None
        }
        Part::Call(call) => Some(match original {
            Some(original) => Block::with_id(original, "id", &call.id, |id| ids.of_call(id)),
            None => Block::Call { id: ids.of_call(&call.id), call },
        }),
        Part::Result(output) => Block::result(output, &[], original, ids, dropped),
        Part::Reasoning { text, signature, redacted } => {
            let signature = signature.as_ref().and_then(|signature| signature.from_dialect(DIALECT));
            match (signature.filter(|signature| !signature.is_empty()), original) {
                (Some(_), Some(original)) => Some(Block::Original(original)),
                (Some(signature), None) if *redacted => Some(Block::Redacted(signature)),
                (Some(signature), None) => Some(Block::Thinking { text, signature }),
                // The API accepts thinking only if it has the API's own signature.
                (None, _) => {
                    dropped.push("messages[].reasoning".to_owned());
                    None
                }
            }
        }
        Part::Other(other) => {
            other.from_dialect(DIALECT).filter(|block| !shows_hosted_call(block)).map(Block::Original)
        }
    }
}

/// Whether a block represents a call that toolwire ran, or the result of such a call. The API accepts such
/// blocks only for calls that Anthropic's servers ran, and the ids of those calls never start with `toolu_`
/// or `call_` (docs/protocols/messages.md#server-tools).
fn shows_hosted_call(block: &Value) -> bool {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    let id = match text("type") {
        "server_tool_use" | "mcp_tool_use" => text("id"),
        "web_search_tool_result" | "web_fetch_tool_result" | "mcp_tool_result" => text("tool_use_id"),
        _ => return false,
    };
    ["toolu_", "call_"].iter().any(|prefix| id.starts_with(prefix))
}

/// Whether `original`, a block from the client, represents `part`. The id of `part` may have been replaced in
/// the meantime.
pub(super) fn means(original: &Value, part: &Part) -> bool {
    let text = |key: &str| original.get(key).and_then(Value::as_str);
    match (text("type"), part) {
        (Some("text"), Part::Text(said)) => text("text") == Some(said.as_str()),
        (Some("thinking"), Part::Reasoning { text: said, redacted: false, .. }) => {
            text("thinking") == Some(said)
        }
        (Some("redacted_thinking"), Part::Reasoning { signature, redacted: true, .. }) => {
            text("data") == signature.as_ref().map(|signature| &*signature.text)
        }
        (Some("tool_use"), Part::Call(call)) => {
            let toolset = text(TOOLSET_NAME).map(|toolset| joined(toolset, text("name").unwrap_or_default()));
            toolset.as_deref().or(text("name")) == Some(&call.name)
                && serde_json::from_str::<Value>(&call.arguments).ok().as_ref() == original.get("input")
        }
        (Some("tool_result"), Part::Result(output)) => means_result(original, output),
        (Some("image"), Part::Image { url, .. }) => {
            original.get("source").is_some_and(|source| Source::of(url).is_some_and(|own| own.is(source)))
        }
        (_, Part::Other(other)) => other.from_dialect(DIALECT) == Some(original),
        _ => false,
    }
}

fn means_result(original: &Value, output: &CallOutput) -> bool {
    let text = |value: &Value| value.get("text").and_then(Value::as_str).map(str::to_owned);
    let content = match original.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    };
    let is_error = original.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    is_error == output.is_error && content == output.content
}

/// Whether `original` has the same id as `part`, if it is a call or a result.
pub(super) fn has_its_id(original: &Value, part: &Part) -> bool {
    let is = |key: &str, id: &str| original.get(key).and_then(Value::as_str) == Some(id);
    match part {
        Part::Call(call) => is("id", &call.id),
        Part::Result(output) => is("tool_use_id", &output.id),
        _ => true,
    }
}

impl<'c> Block<'c> {
    pub(super) fn own_text(text: &str) -> Self {
        Self::Text(Cow::Owned(text.into()))
    }

    /// Encodes a result and the images that belong to it.
    pub(super) fn result(
        output: &'c CallOutput,
        media: &'c [Part],
        original: Option<&'c Value>,
        ids: &mut CallIds,
        dropped: &mut Vec<String>,
    ) -> Option<Self> {
        if let Some(original) = original.filter(|original| means_result(original, output)) {
            return Some(Self::with_id(original, "tool_use_id", &output.id, |id| ids.of_result(id)));
        }
        let id = ids.of_result(&output.id);
        let media = media.iter().filter_map(|part| block(part, None, &mut CallIds::default(), dropped));
        Some(Self::Result { id, output, media: media.collect() })
    }

    /// Returns `original` with `id` as the member `key`. `valid` converts ids that the API would reject.
    fn with_id(
        original: &'c Value,
        key: &'static str,
        id: &'c str,
        valid: impl FnOnce(&'c str) -> Cow<'c, str>,
    ) -> Self {
        if is_valid(id) && original.get(key).and_then(Value::as_str) == Some(id) {
            return Self::Original(original);
        }
        Self::Renamed { original, key, id: valid(id) }
    }

    /// Adds a cache hint, if there is one. The API does not accept hints on thinking.
    pub(super) fn hinted(self, hint: Option<&'c Value>) -> Self {
        match (hint, self) {
            (
                Some(hint),
                block @ (Self::Text(_) | Self::Image(_) | Self::Call { .. } | Self::Result { .. }),
            ) => Self::Hinted(Box::new(block), hint),
            (_, block) => block,
        }
    }

    /// Whether the block is the result of a call that the client ran.
    pub(super) fn is_result(&self) -> bool {
        match self {
            Self::Hinted(block, _) => block.is_result(),
            Self::Original(original) | Self::Renamed { original, .. } => {
                original.get("type").and_then(Value::as_str) == Some("tool_result")
            }
            Self::Result { .. } => true,
            _ => false,
        }
    }

    /// Removes trailing white space from text. Returns `false` if nothing is left.
    pub(super) fn trim_end(&mut self) -> bool {
        if let Self::Hinted(block, _) = self {
            return block.trim_end();
        }
        let text = match self {
            Self::Text(text) => text.as_str(),
            Self::Original(original) if original.get("type").and_then(Value::as_str) == Some("text") => {
                original.get("text").and_then(Value::as_str).unwrap_or_default()
            }
            _ => return true,
        };
        let trimmed = text.trim_end();
        if trimmed.is_empty() {
            return false;
        }
        if trimmed.len() < text.len() {
            *self = Self::own_text(trimmed);
        }
        true
    }

    fn put(&self, body: &mut Encoder) {
        self.put_with(body, None);
    }

    /// Writes the block with `hint`, if there is one.
    fn put_with(&self, body: &mut Encoder, hint: Option<&Value>) {
        match self {
            Self::Hinted(block, hint) => block.put_with(body, Some(hint)),
            Self::Original(original) => body.value(original),
            Self::Renamed { original, key: renamed, id } => body.object(|body| {
                for (key, value) in original.as_object().into_iter().flatten() {
                    match key == renamed {
                        true => body.key(key).string(id),
                        false => body.key(key).value(value),
                    }
                }
            }),
            Self::Text(text) => body.object(|body| {
                body.key("type").string("text");
                text.put(body.key("text"));
                put_hint(body, hint);
            }),
            Self::Image(url) => body.object(|body| {
                body.key("type").string("image");
                if let Some(source) = Source::of(url) {
                    source.put(body.key("source"));
                }
                put_hint(body, hint);
            }),
            Self::Call { id, call } => body.object(|body| {
                body.key("type").string("tool_use");
                body.key("id").string(id);
                body.key("name").string(&call.name);
                Arguments::of(&call.arguments).put(body.key("input"), CUSTOM_INPUT);
                put_hint(body, hint);
            }),
            Self::Result { id, output, media } => put_result(body, id, output, media, hint),
            Self::Thinking { text, signature } => body.object(|body| {
                body.key("type").string("thinking");
                body.key("thinking").string(text);
                body.key("signature").string(signature);
            }),
            Self::Redacted(data) => body.object(|body| {
                body.key("type").string("redacted_thinking");
                body.key("data").string(data);
            }),
        }
    }
}

/// Writes content, with `results` first. Content that consists of a single text is written as a string.
pub(super) fn put_content(body: &mut Encoder, results: &[Block<'_>], others: &[Block<'_>]) {
    match (results, others) {
        ([], [Block::Text(text)]) => text.put(body),
        _ => body.array(|body| results.iter().chain(others).for_each(|block| block.put(body))),
    }
}

fn put_hint(body: &mut Encoder, hint: Option<&Value>) {
    if let Some(hint) = hint {
        body.key(CACHE_CONTROL).value(hint);
    }
}

fn put_result(body: &mut Encoder, id: &str, output: &CallOutput, media: &[Block<'_>], hint: Option<&Value>) {
    body.object(|body| {
        body.key("type").string("tool_result");
        body.key("tool_use_id").string(id);
        if media.is_empty() {
            body.key("content").string(&output.content);
        } else {
            body.key("content").array(|body| {
                if !output.content.trim().is_empty() {
                    Block::own_text(&output.content).put(body);
                }
                media.iter().for_each(|block| block.put(body));
            });
        }
        if output.is_error {
            body.key("is_error").value(&true);
        }
        put_hint(body, hint);
    });
}

/// The source of an image.
#[derive(Debug, Clone, Copy)]
enum Source<'c> {
    Data { mime: &'c str, data: &'c str },
    Url(&'c str),
}

impl<'c> Source<'c> {
    /// `None` if the API does not support such a source.
    fn of(url: &'c str) -> Option<Self> {
        let scheme = url.split_once(':')?.0.to_ascii_lowercase();
        if matches!(scheme.as_str(), "http" | "https") {
            return Some(Self::Url(url));
        }
        let (head, data) = url.split_once(',')?;
        let mime = head.get("data:".len()..).filter(|_| scheme == "data")?.strip_suffix(";base64")?;
        let mime = mime.split(';').next().unwrap_or(mime);
        // The API knows only this name for the type.
        Some(Self::Data { mime: if mime == "image/jpg" { "image/jpeg" } else { mime }, data })
    }

    /// Whether `source` refers to the same image.
    fn is(self, source: &Value) -> bool {
        let text = |key: &str| source.get(key).and_then(Value::as_str);
        match self {
            Self::Url(url) => text("url") == Some(url),
            Self::Data { mime, data } => text("media_type") == Some(mime) && text("data") == Some(data),
        }
    }

    fn put(self, body: &mut Encoder) {
        body.object(|body| match self {
            Self::Url(url) => {
                body.key("type").string("url");
                body.key("url").string(url);
            }
            Self::Data { mime, data } => {
                body.key("type").string("base64");
                body.key("media_type").string(mime);
                body.key("data").string(data);
            }
        });
    }
}
