//! Encodes a [`Conversation`] as a request body and derives the request's path (docs/protocols/bedrock.md#request).

mod blocks;
mod media;
mod tools;
mod turns;

use serde_json::{Map, Value, json};

pub(super) use self::media::{DOCUMENT, document_name, file_kind, image};
use super::{CachePoints, Effort, Options};
use crate::{
    Dialect, UpstreamRequest, cache_hints::CACHE_CONTROL, conversation::Conversation, foreign,
    percent::in_url, sampling::TOP_K, schemas::response_schema, thinking, wire::json::Encoder,
};

pub(super) const MODEL: &str = "model";

/// The field for settings that only some models have.
const OF_MODEL: &str = "additionalModelRequestFields";

/// Fields of other dialects that are written under another name, or that mean nothing to an upstream.
const HANDLED: [&str; 6] =
    ["max_tokens", "max_completion_tokens", "stream_options", "parallel_tool_calls", CACHE_CONTROL, TOP_K];

/// Initial capacity in bytes, enough for a small request.
const ROOM: usize = 1 << 10;

/// Encodes the request for an upstream that knows the model as `model`.
pub(super) fn encode(conversation: &Conversation, model: &str, options: &Options) -> UpstreamRequest {
    let mut dropped: Vec<String> = inexpressible(conversation).collect();
    let caches = caches(model, options);
    let mut body = Encoder::with_capacity(ROOM + conversation.size());
    body.object(|body| {
        turns::put(body, conversation, caches, &mut dropped);
        tools::put(body, conversation, caches, &mut dropped);
        let limit = limit(conversation);
        let config = inference_config(conversation, limit, &mut dropped);
        if !config.is_empty() {
            body.key("inferenceConfig").value(&config);
        }
        let (mut output, mut of_model) = (Map::new(), Map::new());
        put_effort(conversation, model, options, limit, (&mut output, &mut of_model), &mut dropped);
        put_top_k(conversation, model, &mut of_model);
        put_format(conversation, &mut output, &mut dropped);
        for (key, value) in [("outputConfig", output), (OF_MODEL, of_model)] {
            if !value.is_empty() {
                body.key(key).value(&value);
            }
        }
        put_tier(body, conversation, &mut dropped);
    });
    dropped.sort_unstable();
    dropped.dedup();
    let method = if conversation.stream { "converse-stream" } else { "converse" };
    UpstreamRequest {
        body: body.finish(),
        path: Some(format!("{MODEL}/{}/{method}", in_url(model))),
        dropped,
        stream: conversation.stream,
        prefill: None,
        key: None,
    }
}

fn is_claude(model: &str) -> bool {
    model.contains("claude") || model.contains("anthropic")
}

fn is_nova(model: &str) -> bool {
    model.contains("nova")
}

/// Whether to send cache points to `model`. Models without a prompt cache reject them.
fn caches(model: &str, options: &Options) -> bool {
    match options.cache_points {
        CachePoints::Always => true,
        CachePoints::Never => false,
        CachePoints::Auto => is_claude(model) || is_nova(model),
    }
}

/// The names of fields that cannot be expressed.
fn inexpressible(conversation: &Conversation) -> impl Iterator<Item = String> {
    let turns = &conversation.turns;
    let of_turns = foreign::turn_fields(turns, DIALECT, &["content", "tool_calls", "parts", CACHE_CONTROL]);
    let parts = foreign::parts(turns, DIALECT);
    let fields = conversation.rest.foreign_keys(DIALECT);
    let fields = fields.filter(|key| !HANDLED.contains(&key.as_str())).cloned();
    let sampling = [
        ("seed", conversation.sampling.seed.is_some()),
        ("parallel_tool_calls", !conversation.parallel_calls && !conversation.tools.is_empty()),
        ("tools[].strict", conversation.tools.iter().any(|tool| tool.strict == Some(true))),
    ];
    let sampling = sampling.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
    fields.chain(of_turns).chain(parts).chain(sampling)
}

/// No client speaks this dialect, but parts of files are written in it.
const DIALECT: &str = Dialect::Bedrock.name();

fn limit(conversation: &Conversation) -> Option<u64> {
    let newer = conversation.rest.get("max_completion_tokens").and_then(Value::as_u64);
    newer.or(conversation.sampling.max_tokens)
}

/// Sampling settings, limited to the ranges that the API allows.
fn inference_config(
    conversation: &Conversation,
    limit: Option<u64>,
    dropped: &mut Vec<String>,
) -> Map<String, Value> {
    let sampling = &conversation.sampling;
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| config.insert(key.to_owned(), value);
    limit.map(|limit| put("maxTokens", limit.into()));
    if let Some(temperature) = &sampling.temperature {
        // Other APIs allow values up to 2.
        let is_above = temperature.as_f64().is_some_and(|temperature| temperature > 1.0);
        dropped.extend(is_above.then(|| "temperature".to_owned()));
        put("temperature", if is_above { 1.into() } else { Value::Number(temperature.clone()) });
    }
    if let Some(top_p) = &sampling.top_p {
        // Newer models reject both settings together, and many clients send both with the defaults of other
        // APIs.
        if top_p.as_f64() != Some(1.0) || sampling.temperature.is_none() {
            put("topP", Value::Number(top_p.clone()));
        }
    }
    let stop: Vec<&String> = sampling.stop.iter().filter(|stop| !stop.trim().is_empty()).collect();
    if stop.len() < sampling.stop.len() {
        dropped.push("stop".to_owned());
    }
    if !stop.is_empty() {
        put("stopSequences", json!(stop));
    }
    config
}

/// Writes how much the model is to reason: into `outputConfig`, or among the model's own fields.
fn put_effort(
    conversation: &Conversation,
    model: &str,
    options: &Options,
    limit: Option<u64>,
    (output, of_model): (&mut Map<String, Value>, &mut Map<String, Value>),
    dropped: &mut Vec<String>,
) {
    let form = options.effort.for_model(model);
    let own = conversation.rest.from_dialect(Dialect::Messages.name()).and_then(|rest| rest.get(THINKING));
    if let Some(own) = own.filter(|_| is_claude(model) && form != Effort::Drop) {
        // The client's own words for a model of the same maker.
        dropped.retain(|field| field != THINKING);
        of_model.insert(THINKING.to_owned(), own.clone());
        if let Some(effort) = &conversation.sampling.reasoning_effort {
            output.insert("effort".to_owned(), effort.as_str().into());
        }
        return;
    }
    let is_off = thinking::is_off(conversation, Dialect::Bedrock);
    let asked = thinking::asked_effort(conversation, Dialect::Bedrock);
    let effort =
        if is_off { Some("none") } else { conversation.sampling.reasoning_effort.as_deref().or(asked) };
    let Some(effort) = effort.map(str::to_ascii_lowercase) else { return };
    if form != Effort::Drop {
        thinking::tell_carried(conversation, dropped);
        dropped.retain(|field| field != THINKING);
    }
    let level = match effort.as_str() {
        "minimal" | "low" => "low",
        "medium" => "medium",
        "xhigh" | "max" if form == Effort::OutputConfig => &*effort,
        _ => "high",
    };
    let is_none = effort == "none";
    let mut put = |key: &str, value: Value| of_model.insert(key.to_owned(), value);
    match form {
        Effort::Thinking | Effort::Auto if is_none => _ = put(THINKING, json!({"type": "disabled"})),
        Effort::Thinking | Effort::Auto => {
            budget(level, limit)
                .map(|budget| put(THINKING, json!({"type": "enabled", "budget_tokens": budget})));
        }
        Effort::ReasoningConfig if is_none => _ = put("reasoningConfig", json!({"type": "disabled"})),
        Effort::ReasoningConfig => {
            put("reasoningConfig", json!({"type": "enabled", "maxReasoningEffort": level}));
        }
        // These models have no way not to reason.
        Effort::ReasoningEffort => _ = put("reasoning_effort", if is_none { "low" } else { level }.into()),
        Effort::OutputConfig if is_none => _ = put(THINKING, json!({"type": "disabled"})),
        Effort::OutputConfig => _ = output.insert("effort".to_owned(), level.into()),
        Effort::Drop => dropped.push("reasoning_effort".to_owned()),
    }
}

/// The field that turns on the reasoning of Anthropic's models, here and in their own API.
const THINKING: &str = "thinking";

impl Effort {
    /// Resolves `Auto` for `model`. Models that are not known to reason reject unknown fields.
    fn for_model(self, model: &str) -> Self {
        match self {
            Self::Auto if is_claude(model) => Self::Thinking,
            Self::Auto if model.contains("nova-2") => Self::ReasoningConfig,
            Self::Auto if model.contains("gpt-oss") => Self::ReasoningEffort,
            Self::Auto => Self::Drop,
            chosen => chosen,
        }
    }
}

/// The budget for `level`. It must be at least 1024 tokens, and less than the limit of the response.
fn budget(level: &str, limit: Option<u64>) -> Option<u64> {
    const LEAST: u64 = 1024;
    let wanted = match level {
        "low" => LEAST,
        "medium" => 4096,
        _ => 16_384,
    };
    let budget = limit.map_or(wanted, |limit| wanted.min(limit.saturating_sub(1)));
    (budget >= LEAST).then_some(budget)
}

fn put_top_k(conversation: &Conversation, model: &str, of_model: &mut Map<String, Value>) {
    let Some(top_k) = conversation.rest.get(TOP_K) else { return };
    if is_nova(model) {
        of_model.insert("inferenceConfig".to_owned(), json!({"topK": top_k}));
    } else {
        of_model.insert(TOP_K.to_owned(), top_k.clone());
    }
}

/// Writes the schema that the response must match. The API has no form without a schema.
fn put_format(conversation: &Conversation, output: &mut Map<String, Value>, dropped: &mut Vec<String>) {
    let Some(format) = &conversation.sampling.response_format else { return };
    if let Some(schema) = response_schema(format) {
        let inner = format.get("json_schema").unwrap_or(format);
        let mut form = Map::from_iter([("schema".to_owned(), schema.to_string().into())]);
        if let Some(name) = inner.get("name").filter(|name| name.is_string()) {
            form.insert("name".to_owned(), name.clone());
        }
        let format = json!({"type": "json_schema", "structure": {"jsonSchema": form}});
        output.insert("textFormat".to_owned(), format);
    } else if format.get("type").and_then(Value::as_str) != Some("text") {
        dropped.push("response_format".to_owned());
    }
}

/// Writes the service tier, of which OpenAI's API has other names.
fn put_tier(body: &mut Encoder, conversation: &Conversation, dropped: &mut Vec<String>) {
    const TIER: &str = "service_tier";
    let tier = conversation.rest.get(TIER).and_then(Value::as_str);
    if let Some(tier @ ("default" | "flex" | "priority")) = tier {
        dropped.retain(|field| field != TIER);
        body.key("serviceTier").object(|body| body.key("type").string(tier));
    }
}
