//! A [`Conversation`] made the body of a Chat Completions request.

mod messages;
mod tools;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    conversation::{Conversation, Turn, joined_user_turns, media_behind_results},
    dialect::UpstreamRequest,
    wire::json::Encoder,
};

/// What one upstream wants otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Ask for token counts at the end of the stream. Off for upstreams that refuse the option.
    pub include_usage: bool,
    /// When a stream is asked for.
    pub stream: Streaming,
    /// The role `developer` is known. Else such a message is a `system` one.
    pub keep_developer: bool,
    /// Custom tools are known. Else they are functions with one argument for the input.
    pub keep_custom_tools: bool,
    /// Images may stand in a tool's result. Else they follow in a user's turn.
    pub keep_result_images: bool,
    /// Neighbouring turns of the user are joined, for chat templates in which user and assistant alternate.
    pub join_user_turns: bool,
}

/// When an upstream is asked for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Streaming {
    /// As the client asks. What the upstream then says of an answer that is not streamed (its status, its token counts)
    /// reaches the client.
    #[default]
    AsAsked,
    /// Always: for upstreams that answer in streams only. Answers for clients that do not stream are put together.
    Always,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            include_usage: true,
            stream: Streaming::default(),
            keep_developer: true,
            keep_custom_tools: true,
            keep_result_images: false,
            join_user_turns: false,
        }
    }
}

/// Encodes `conversation` for an upstream, which knows the model as `model`; empty: it is not named.
pub fn encode(conversation: &Conversation, model: &str, options: &Options) -> UpstreamRequest {
    let mut dropped = Vec::new();
    let stream = conversation.stream || options.stream == Streaming::Always;
    let turns = arranged(&conversation.turns, options);
    let mut body = Encoder::with_capacity(ROOM);
    body.object(|body| {
        if !model.is_empty() {
            body.key("model").string(model);
        }
        body.key("messages")
            .array(|body| turns.iter().for_each(|turn| messages::put(body, turn, options, &mut dropped)));
        tools::put(body, conversation, options);
        put_sampling(body, conversation);
        for (key, value) in conversation.rest.iter().filter(|(key, _)| !is_put(key)) {
            body.key(key).value(value);
        }
        body.key("stream").value(&stream);
        if stream {
            put_stream_options(body, conversation, options);
        }
    });
    dropped.sort_unstable();
    dropped.dedup();
    UpstreamRequest { body: body.finish(), dropped, stream }
}

/// The turns in the forms that the upstream takes.
fn arranged<'t>(turns: &'t [Turn], options: &Options) -> Cow<'t, [Turn]> {
    let turns = match options.keep_result_images {
        true => Cow::Borrowed(turns),
        false => media_behind_results(turns),
    };
    match turns {
        turns if !options.join_user_turns => turns,
        Cow::Borrowed(turns) => joined_user_turns(turns),
        Cow::Owned(turns) => Cow::Owned(joined_user_turns(&turns).into_owned()),
    }
}

/// Bytes that a small request takes.
const ROOM: usize = 1 << 10;

/// Whether a field of the rest is put in its own place, not passed on with the others.
fn is_put(key: &str) -> bool {
    matches!(key, "model" | "messages" | "stream" | "stream_options") || tools::owns(key)
}

fn put_sampling(body: &mut Encoder, conversation: &Conversation) {
    let sampling = &conversation.sampling;
    let mut put = Optional { body, rest: &conversation.rest };
    put.member("max_tokens", sampling.max_tokens.as_ref());
    put.member("temperature", sampling.temperature.as_ref());
    put.member("top_p", sampling.top_p.as_ref());
    put.member("stop", Some(&sampling.stop).filter(|stop| !stop.is_empty()));
    put.member("reasoning_effort", sampling.reasoning_effort.as_ref());
    put.member("response_format", sampling.response_format.as_ref());
    put.member("seed", sampling.seed.as_ref());
}

/// Members that need not be there.
struct Optional<'a> {
    body: &'a mut Encoder,
    rest: &'a Map<String, Value>,
}

impl Optional<'_> {
    /// Puts a member that was asked for. One of the same name in the rest is the client's own word, and stays.
    fn member(&mut self, key: &str, value: Option<&impl Serialize>) {
        if let Some(value) = value
            && !self.rest.contains_key(key)
        {
            self.body.key(key).value(value);
        }
    }
}

/// The client's other stream options are kept. Token counts are asked for even if the client does not want them:
/// they are for the log, and the writer leaves them out.
fn put_stream_options(body: &mut Encoder, conversation: &Conversation, options: &Options) {
    let others = conversation.rest.get("stream_options").and_then(Value::as_object);
    if others.is_none_or(Map::is_empty) && !options.include_usage {
        return;
    }
    body.key("stream_options").object(|body| {
        for (key, value) in others.into_iter().flatten() {
            if key != "include_usage" || !options.include_usage {
                body.key(key).value(value);
            }
        }
        if options.include_usage {
            body.key("include_usage").value(&true);
        }
    });
}
