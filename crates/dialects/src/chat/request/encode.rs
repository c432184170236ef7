//! Encodes a [`Conversation`] as the body of a Chat Completions request.

mod messages;
mod tools;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    Dialect, UpstreamRequest,
    cache_hints::CACHE_CONTROL,
    chat::{MaxTokens, Options, Streaming, server::Fields},
    conversation::{Conversation, Turn, joined_user_turns, media_behind_results},
    foreign, openai_fields,
    sampling::{PENALTIES, TOP_K},
    thinking,
    wire::json::Encoder,
};

/// Encodes `conversation` for an upstream that knows the model as `model`. An empty model name is left out.
pub fn encode(conversation: &Conversation, model: &str, options: &Options) -> UpstreamRequest {
    let mut dropped = Vec::new();
    let stream = conversation.stream || options.stream == Streaming::Always;
    let turns = arranged(&conversation.turns, model, options);
    let mut body = Encoder::with_capacity(ROOM + conversation.size());
    dropped.extend(foreign_fields(conversation));
    let no_rest = Map::new();
    let rest = conversation.rest.from_dialect(DIALECT).unwrap_or(&no_rest);
    let constraint = conversation.constraint.as_ref();
    let constraint = constraint.map(|constraint| Fields::new(options.server, constraint)).unwrap_or_default();
    let carried = Carried::new(conversation, options);
    body.object(|body| {
        if !model.is_empty() {
            body.key("model").string(model);
        }
        body.key("messages").array(|body| {
            let context = messages::Context::new(&turns, rest, model, options);
            for (place, turn) in turns.iter().enumerate() {
                messages::put(body, place, turn, &context, &mut dropped);
            }
            constraint.begun.iter().for_each(|begun| body.value(begun));
        });
        tools::put(body, conversation, rest, options);
        put_max_tokens(body, conversation, rest, options.max_tokens);
        put_sampling(body, conversation, rest, &constraint.members, model, options, &carried);
        carried.put(body);
        let is_ours = |key: &str| {
            is_put(key)
                || constraint.members.contains_key(key)
                || (key == "thinking" && carried.thinking.is_some())
        };
        for (key, value) in rest.iter().filter(|(key, _)| !is_ours(key)) {
            body.key(key).value(value);
        }
        for (key, value) in &constraint.members {
            body.key(key).value(value);
        }
        if options.takes_cache_hints()
            && let Some(rest) = conversation.rest.from_dialect(Dialect::Messages.name())
            && let Some(hint) = rest.get(CACHE_CONTROL)
        {
            body.key(CACHE_CONTROL).value(hint);
        }
        body.key("stream").value(&stream);
        if stream {
            put_stream_options(body, rest, options);
        }
    });
    if options.takes_thinking() || options.takes_no_effort(model) {
        thinking::tell_carried(conversation, &mut dropped);
    }
    carried.tell(conversation, &mut dropped);
    dropped.sort_unstable();
    dropped.dedup();
    UpstreamRequest {
        body: body.finish(),
        path: None,
        dropped,
        stream,
        prefill: constraint.prefill,
        key: None,
    }
}

/// The dialect whose fields may be forwarded unchanged.
const DIALECT: &str = Dialect::Chat.name();

/// The names of fields that a client of another dialect sent and that this dialect cannot express. They are
/// dropped.
fn foreign_fields(conversation: &Conversation) -> impl Iterator<Item = String> {
    let turns = &conversation.turns;
    let of_turns = foreign::turn_fields(turns, DIALECT, &[]);
    let parts = foreign::parts(turns, DIALECT);
    conversation.rest.foreign_keys(DIALECT).cloned().chain(of_turns).chain(parts)
}

fn arranged<'t>(turns: &'t [Turn], model: &str, options: &Options) -> Cow<'t, [Turn]> {
    // If a server knows the role `developer`, its models accept several such messages.
    let mut arranged = options.system_messages.arranged(turns, model, !options.keep_developer);
    if !options.keep_result_images {
        arranged = then(arranged, media_behind_results);
    }
    if options.join_user_turns {
        arranged = then(arranged, joined_user_turns);
    }
    arranged
}

fn then<'t>(turns: Cow<'t, [Turn]>, arrange: fn(&[Turn]) -> Cow<'_, [Turn]>) -> Cow<'t, [Turn]> {
    match turns {
        Cow::Borrowed(turns) => arrange(turns),
        Cow::Owned(turns) => Cow::Owned(arrange(&turns).into_owned()),
    }
}

/// Initial capacity in bytes, enough for a small request.
const ROOM: usize = 1 << 10;

/// Whether the encoder writes this field of `rest` separately.
fn is_put(key: &str) -> bool {
    matches!(key, "model" | "messages" | "stream" | "stream_options" | "max_tokens" | "max_completion_tokens")
        || tools::owns(key)
}

/// Writes the token limit in the field that the upstream knows, or else in the fields that the client used.
fn put_max_tokens(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    field: MaxTokens,
) {
    let Some(limit) = conversation.sampling.max_tokens else { return };
    match field {
        MaxTokens::MaxTokens => body.key("max_tokens").value(&limit),
        MaxTokens::MaxCompletionTokens => body.key("max_completion_tokens").value(&limit),
        MaxTokens::AsGiven => {
            let given = ["max_tokens", "max_completion_tokens"].map(|key| (key, rest.get(key)));
            for (key, given) in given.iter().filter_map(|(key, given)| Some((key, (*given)?))) {
                body.key(key).value(given);
            }
            if given.iter().all(|(_, given)| given.is_none()) {
                body.key("max_tokens").value(&limit);
            }
        }
    }
}

/// The members for what clients of other APIs say in fields of these.
struct Carried<'c> {
    thinking: Option<Value>,
    top_k: Option<&'c Value>,
    /// Fields that have the same names here.
    shared: Vec<(&'static str, &'c Value)>,
}

impl<'c> Carried<'c> {
    fn new(conversation: &'c Conversation, options: &Options) -> Self {
        let is_foreign = conversation.rest.from_dialect(DIALECT).is_none();
        let given = |name: &'static str| conversation.rest.get(name).filter(|_| is_foreign);
        let shared = openai_fields::given(conversation, Dialect::Chat, options.openai_fields());
        let penalties = PENALTIES.into_iter().chain(["logit_bias"]);
        let penalties = penalties.filter_map(|name| Some((name, given(name)?)));
        Self {
            thinking: thinking_member(conversation, options),
            top_k: given(TOP_K).filter(|_| options.takes_top_k()),
            shared: shared.chain(penalties).collect(),
        }
    }

    fn put(&self, body: &mut Encoder) {
        let own = [("thinking", self.thinking.as_ref()), (TOP_K, self.top_k)];
        let own = own.into_iter().filter_map(|(key, value)| Some((key, value?)));
        own.chain(self.shared.iter().copied()).for_each(|(key, value)| body.key(key).value(value));
    }

    /// Removes the fields of the client from those that are reported as dropped.
    fn tell(&self, conversation: &Conversation, dropped: &mut Vec<String>) {
        let is_carried = |field: &str| match field {
            "thinking" => self.thinking.is_some(),
            TOP_K => self.top_k.is_some(),
            _ => false,
        };
        dropped.retain(|field| !is_carried(field));
        openai_fields::tell_carried(conversation, &self.shared, dropped);
    }
}

/// The `thinking` member that turns thinking on or off. It is sent if a client of another dialect does so, and
/// to servers that reject thinking together with a required call.
fn thinking_member(conversation: &Conversation, options: &Options) -> Option<Value> {
    let is_forced = conversation.tool_choice.requires_call() && !conversation.tools.is_empty();
    let is_off = options.takes_thinking() && thinking::is_off(conversation, Dialect::Chat);
    let is_on = options.takes_thinking() && thinking::asked_effort(conversation, Dialect::Chat).is_some();
    match is_off || (options.exclusive_thinking && is_forced) {
        true => Some(json!({"type": "disabled"})),
        false => is_on.then(|| json!({"type": "enabled"})),
    }
}

/// Writes the other sampling settings, except those that `constraint` overrides.
fn put_sampling(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    constraint: &Map<String, Value>,
    model: &str,
    options: &Options,
    carried: &Carried<'_>,
) {
    let sampling = &conversation.sampling;
    let mut put = Optional { body, rest };
    put.member("temperature", sampling.temperature.as_ref());
    put.member("top_p", sampling.top_p.as_ref());
    put.member("stop", Some(&sampling.stop).filter(|stop| !stop.is_empty()));
    let is_excluded =
        options.exclusive_thinking && (rest.contains_key("thinking") || carried.thinking.is_some());
    let is_off = thinking::is_off(conversation, Dialect::Chat) && options.takes_no_effort(model);
    let effort = if is_off { Some("none") } else { sampling.reasoning_effort.as_deref() };
    put.member("reasoning_effort", effort.filter(|_| !is_excluded).as_ref());
    let format = sampling.response_format.as_ref();
    put.member("response_format", format.filter(|_| !constraint.contains_key("response_format")));
    put.member("seed", sampling.seed.as_ref());
}

struct Optional<'a> {
    body: &'a mut Encoder,
    rest: &'a Map<String, Value>,
}

impl Optional<'_> {
    /// Writes a member, unless `rest` contains the client's original of it.
    fn member(&mut self, key: &str, value: Option<&impl Serialize>) {
        if let Some(value) = value
            && !self.rest.contains_key(key)
        {
            self.body.key(key).value(value);
        }
    }
}

/// Writes the stream options, including the client's. Token counts are always requested, because the log
/// needs them; the writer drops them if the client did not ask for them.
fn put_stream_options(body: &mut Encoder, rest: &Map<String, Value>, options: &Options) {
    let others = rest.get("stream_options").and_then(Value::as_object);
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
