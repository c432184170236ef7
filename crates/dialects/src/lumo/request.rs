//! [`encode`]: encodes a conversation as a request to Lumo (docs/protocols/lumo.md#v1-request,
//! docs/protocols/lumo.md#v2-request, docs/protocols/lumo.md#turns).

use std::collections::HashSet;

use super::{
    tools,
    turns::{self, Content, Role, Turn},
};
use crate::{
    Dialect, UpstreamRequest,
    conversation::{Conversation, media_behind_results},
    settings::Settings,
    thinking,
    wire::json::Encoder,
};

/// Which of Lumo's two protocol versions an upstream speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Version {
    /// `ai/v1/chat`: a `Prompt` of turns, and typed objects in the response. Supports only Lumo's own tools.
    V1,
    /// `ai/v1/chat/completions`: similar to OpenAI's API and supports client tools.
    #[default]
    V2,
}

impl Version {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::V1 => "ai/v1/chat",
            Self::V2 => "ai/v1/chat/completions",
        }
    }
}

/// How to write requests to a Lumo upstream.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Options {
    /// `"v1"`, the older protocol, has no client tools, so its models need a text format in `tools`
    #[setting(word)]
    pub version: Version,
    /// Lumo's own tools that are enabled
    #[setting(default = ["proton_info", "web_search"].map(str::to_owned).into())]
    pub native_tools: Vec<String>,
    /// The target to request: `message`, `title` or `suggested_questions`.
    #[setting(skip, default = "message".to_owned())]
    pub target: String,
    /// The account whose session is used for requests.
    #[setting(nested)]
    pub account: Box<super::AccountSettings>,
    /// Whether to encrypt requests and for which recipient.
    #[setting(nested)]
    pub encryption: super::Encryption,
}

/// Encodes the request for `conversation`. `model` is the tier: `lumo`, `lumo-lite`, `lumo-max`, …
///
/// Lumo always streams and reports token counts, whatever the client asked for. Fields that Lumo cannot
/// express are left out and listed in [`UpstreamRequest::dropped`], but text is never left out.
pub fn encode(conversation: &Conversation, model: &str, options: &Options) -> UpstreamRequest {
    let mut dropped = Vec::new();
    let arranged = media_behind_results(&conversation.turns);
    let turns = turns::turns(&arranged, (&conversation.tools, &options.native_tools), &mut dropped);
    let mut body = Encoder::with_capacity(ROOM + conversation.size());
    body.object(|body| match options.version {
        Version::V1 => v1(body, conversation, options, &turns, &mut dropped),
        Version::V2 => v2(body, conversation, model, options, &turns, &mut dropped),
    });
    dropped.extend(unspoken(conversation));
    let mut named = HashSet::new();
    dropped.retain(|name| named.insert(name.clone()));
    UpstreamRequest { body: body.finish(), path: None, dropped, stream: true, prefill: None, key: None }
}

/// Initial capacity in bytes, enough for a small request.
const ROOM: usize = 2 << 10;

fn v1(
    body: &mut Encoder,
    conversation: &Conversation,
    options: &Options,
    turns: &[Turn<'_>],
    dropped: &mut Vec<String>,
) {
    let sampling = &conversation.sampling;
    let unknown = [
        ("tools", conversation.callable_tools().next().is_some()),
        ("response_format", sampling.response_format.is_some()),
        ("reasoning_effort", sampling.reasoning_effort.is_some()),
    ];
    dropped.extend(unknown.iter().filter(|(_, given)| *given).map(|(name, _)| (*name).to_owned()));
    body.key("Prompt").object(|body| {
        body.key("type").string("generation_request");
        body.key("turns").array(|body| turns.iter().for_each(|turn| v1_turn(body, turn, dropped)));
        body.key("options").object(|body| body.key("tools").value(&options.native_tools));
        body.key("targets").array(|body| body.string(&options.target));
    });
}

fn v1_turn(body: &mut Encoder, turn: &Turn<'_>, dropped: &mut Vec<String>) {
    let role = match turn.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Call => "tool_call",
        Role::Result => "tool_result",
    };
    let mut images = Vec::new();
    for url in turn.images() {
        match url.split_once(";base64,") {
            Some((mime, data)) if mime.starts_with("data:") => images.push(data),
            _ => dropped.push("image_url".to_owned()),
        }
    }
    body.object(|body| {
        body.key("role").string(role);
        body.key("content").string(&turn.text());
        if images.is_empty() {
            return;
        }
        body.key("images").array(|body| {
            for (place, data) in images.iter().enumerate() {
                body.object(|body| {
                    body.key("encrypted").value(&false);
                    body.key("image_id").string(&format!("image-{place}"));
                    body.key("data").string(data);
                });
            }
        });
    });
}

fn v2(
    body: &mut Encoder,
    conversation: &Conversation,
    model: &str,
    options: &Options,
    turns: &[Turn<'_>],
    dropped: &mut Vec<String>,
) {
    body.key("model").string(model);
    body.key("messages").array(|body| turns.iter().for_each(|turn| v2_message(body, turn)));
    body.key("stream").value(&true);
    body.key("stream_options").object(|body| body.key("include_usage").value(&true));
    let is_off = thinking::is_off(conversation, Dialect::Lumo);
    let effort = if is_off { Some("none") } else { conversation.sampling.reasoning_effort.as_deref() };
    let effort = effort.or_else(|| thinking::asked_effort(conversation, Dialect::Lumo));
    if let Some(effort) = effort {
        // Lumo can only turn thinking on or off (docs/protocols/lumo.md#v2-request).
        let effort = if matches!(effort, "none" | "minimal") { "none" } else { "high" };
        body.key("reasoning_effort").string(effort);
    }
    tools::put(body, conversation, &options.native_tools, dropped);
    if let Some(format) = &conversation.sampling.response_format {
        body.key("response_format").value(format);
    }
    body.key("lumo").object(|body| {
        body.key("client_type").string("frontend");
        body.key("target").string(&options.target);
    });
}

fn v2_message(body: &mut Encoder, turn: &Turn<'_>) {
    let role = match turn.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Call => "lumo_tool_call",
        Role::Result => "tool",
    };
    body.object(|body| {
        body.key("role").string(role);
        if turn.images().next().is_none() {
            return body.key("content").string(&turn.text());
        }
        body.key("content").array(|body| turn.content.iter().for_each(|part| v2_part(body, part)));
    });
}

fn v2_part(body: &mut Encoder, part: &Content<'_>) {
    body.object(|body| match part {
        Content::Text(text) => {
            body.key("type").string("text");
            body.key("text").string(text);
        }
        Content::Image(url) => {
            body.key("type").string("image_url");
            body.key("image_url").object(|body| body.key("url").string(url));
        }
    });
}

/// The names of the request's fields that neither version can express.
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
