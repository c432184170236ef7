//! Encodes a [`Conversation`] as a request body and derives the request's path
//! (docs/protocols/gemini.md#request).

mod contents;
mod tools;

use serde_json::{Map, Value};

use super::{
    Options, Schemas, Thinking,
    schema::{MAX_FOLLOWED, reduced},
};
use crate::{
    Dialect, UpstreamRequest, conversation::Conversation, percent::in_url, sampling::is_shared,
    schemas::response_form, thinking, wire::json::Encoder,
};

pub(super) const MODELS: &str = "models";

/// Settings of any client that have another name in `generationConfig`.
pub(super) const SHARED: [(&str, &str); 3] =
    [("top_k", "topK"), ("presence_penalty", "presencePenalty"), ("frequency_penalty", "frequencyPenalty")];

/// Such fields of chat requests.
const OF_CHAT: [(&str, &str); 2] = [("logprobs", "responseLogprobs"), ("top_logprobs", "logprobs")];

const HANDLED: [&str; 7] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "parallel_tool_calls",
    "max_completion_tokens",
];

/// The dialect whose fields are translated where an equivalent exists.
const CHAT: &str = Dialect::Chat.name();

/// The dialect whose fields are forwarded unchanged.
const DIALECT: &str = Dialect::Gemini.name();

const CONFIG: &str = "generationConfig";

/// The fields that say which form the response must have.
const FORM: [&str; 3] = ["responseMimeType", "responseSchema", "responseJsonSchema"];

/// Initial capacity in bytes, enough for a small request.
const ROOM: usize = 1 << 10;

/// Encodes the request for an upstream that knows the model as `model`.
pub(super) fn encode(conversation: &Conversation, model: &str, options: &Options) -> UpstreamRequest {
    let mut dropped = Vec::new();
    let no_rest = Map::new();
    let rest = conversation.rest.from_dialect(CHAT).unwrap_or(&no_rest);
    let own = conversation.rest.from_dialect(DIALECT).unwrap_or(&no_rest);
    let mut body = Encoder::with_capacity(ROOM + conversation.size());
    body.object(|body| {
        contents::put(body, &conversation.turns, model, &mut dropped);
        tools::put(body, conversation, own, options);
        let mut config = generation_config(conversation, rest, model, options, &mut dropped);
        keep_own(&mut config, own, conversation);
        if !config.is_empty() {
            body.key(CONFIG).value(&config);
        }
        for (key, value) in
            own.iter().filter(|(key, _)| *key != CONFIG && !is_shared(key) && !tools::owns(key))
        {
            body.key(key).value(value);
        }
    });
    dropped.extend(inexpressible(conversation, rest));
    thinking::tell_carried_to_gemini(conversation, model, Dialect::Gemini, &mut dropped);
    dropped.sort_unstable();
    dropped.dedup();
    let path = Some(path(model, conversation.stream));
    UpstreamRequest {
        body: body.finish(),
        path,
        dropped,
        stream: conversation.stream,
        prefill: None,
        key: None,
    }
}

/// The path of a request. A model's name may include the path prefix with which the API lists it.
fn path(model: &str, stream: bool) -> String {
    let (kind, name) = match model.split_once('/') {
        Some((kind @ (MODELS | "tunedModels"), name)) => (kind, name),
        _ => (MODELS, model),
    };
    let method = if stream { ":streamGenerateContent?alt=sse" } else { ":generateContent" };
    format!("{kind}/{}{method}", in_url(name))
}

/// Writes sampling settings, limits, the response format, and reasoning settings.
fn generation_config(
    conversation: &Conversation,
    rest: &Map<String, Value>,
    model: &str,
    options: &Options,
    dropped: &mut Vec<String>,
) -> Map<String, Value> {
    let sampling = &conversation.sampling;
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| config.insert(key.to_owned(), value);
    let newer = rest.get("max_completion_tokens").and_then(Value::as_u64);
    newer.or(sampling.max_tokens).map(|limit| put("maxOutputTokens", limit.into()));
    sampling.temperature.clone().map(|temperature| put("temperature", Value::Number(temperature)));
    sampling.top_p.clone().map(|top_p| put("topP", Value::Number(top_p)));
    sampling.seed.clone().map(|seed| put("seed", Value::Number(seed)));
    if !sampling.stop.is_empty() {
        put("stopSequences", sampling.stop.clone().into());
    }
    let shared = SHARED.iter().map(|(field, key)| (key, conversation.rest.get(field)));
    for (key, value) in shared.chain(OF_CHAT.iter().map(|(field, key)| (key, rest.get(*field)))) {
        value.map(|value| put(key, value.clone()));
    }
    match response_form(conversation) {
        Ok(None) => {}
        Ok(Some(schema)) => {
            put("responseMimeType", "application/json".into());
            match (schema, options.schemas) {
                (Value::Null, _) => None,
                (schema, Schemas::JsonSchema) => put("responseJsonSchema", schema),
                (schema, Schemas::OpenApi) => put("responseSchema", reduced(&schema, &mut { MAX_FOLLOWED })),
            };
        }
        Err(field) => dropped.push(field.to_owned()),
    }
    if let Some(effort) = thinking::gemini_effort(conversation, model, Dialect::Gemini)
        && let Some(thinking) = thinking_config(effort, model, options)
    {
        put("thinkingConfig", thinking.into());
    }
    config
}

/// Replaces settings with those that a client of this API wrote, which may say more.
fn keep_own(config: &mut Map<String, Value>, own: &Map<String, Value>, conversation: &Conversation) {
    let given = own.get(CONFIG).and_then(Value::as_object).into_iter().flatten();
    let is_replaced = |key: &str| conversation.constraint.is_some() && FORM.contains(&key);
    let given: Vec<_> = given.filter(|(key, _)| !is_replaced(key)).collect();
    if given.iter().any(|(key, _)| FORM.contains(&key.as_str())) {
        config.retain(|key, _| !FORM.contains(&key.as_str()));
    }
    config.extend(given.into_iter().map(|(key, value)| (key.clone(), value.clone())));
}

/// The thinking settings for an effort level, as documented for Google's OpenAI compatibility layer.
fn thinking_config(effort: &str, model: &str, options: &Options) -> Option<Map<String, Value>> {
    let effort = effort.to_ascii_lowercase();
    let (level, budget) = match effort.as_str() {
        "none" => ("minimal", 0),
        "minimal" => ("minimal", 1024),
        "low" => ("low", 1024),
        "medium" => ("medium", 8192),
        _ => ("high", 24576),
    };
    let mut config = Map::new();
    match options.thinking.for_model(model) {
        Thinking::Off => return None,
        Thinking::Budget => config.insert("thinkingBudget".to_owned(), budget.into()),
        Thinking::Level | Thinking::Auto => config.insert("thinkingLevel".to_owned(), level.into()),
    };
    if options.include_thoughts && effort != "none" {
        config.insert("includeThoughts".to_owned(), true.into());
    }
    Some(config)
}

fn inexpressible(conversation: &Conversation, rest: &Map<String, Value>) -> Vec<String> {
    let has_tools = !conversation.tools.is_empty();
    let known = [
        ("parallel_tool_calls", !conversation.parallel_calls && has_tools),
        ("tools[].function.strict", conversation.tools.iter().any(|tool| tool.strict == Some(true))),
    ];
    let known = known.iter().filter(|(_, given)| *given).map(|(name, _)| (*name).to_owned());
    let is_sent = |key: &&String| {
        HANDLED.contains(&key.as_str()) || is_shared(key) || OF_CHAT.iter().any(|(field, _)| field == key)
    };
    let fields = rest.keys().filter(|key| !is_sent(key)).cloned();
    let foreign = conversation.rest.foreign_keys(CHAT).filter(|key| !is_shared(key)).cloned();
    let foreign = foreign.filter(|_| conversation.rest.from_dialect(DIALECT).is_none());
    known.chain(fields).chain(foreign).collect()
}
