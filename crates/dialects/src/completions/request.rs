//! Encodes the prompt and the sampling settings of a [`Conversation`] as a request body.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Bos, Options, upstream::Form};
use crate::{
    Dialect, UpstreamRequest, UpstreamSide,
    conversation::{Constraint, Conversation, Part, Prefill, Prompt},
    wire::json::Encoder,
};

/// Fields that mean the same in every API that has them. llama.cpp and Ollama support some of them.
const SAMPLING: [&str; 8] = [
    "presence_penalty",
    "frequency_penalty",
    "top_k",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "repeat_last_n",
    "mirostat",
];

/// Further fields of OpenAI's API, or of vLLM's and SGLang's versions of it.
const OPENAI: [&str; 12] = [
    "logit_bias",
    "user",
    "repetition_penalty",
    "stop_token_ids",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "bad_words",
    "structured_outputs",
    "priority",
];

const HANDLED: [&str; 9] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "chat_template_kwargs",
    "max_completion_tokens",
];

/// The path of OpenAI's API at servers whose base URL is their root.
const OPENAI_PATH: &str = "v1/completions";

const BETWEEN_TURNS: &str = "\n\n";

/// The bare text of a conversation, for models without a template.
pub(super) fn bare_prompt(conversation: &Conversation) -> Prompt {
    let texts = conversation.turns.iter().map(|turn| {
        let results = turn.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Result(output) => Some(output.content.as_str()),
            _ => None,
        });
        results.collect::<Vec<_>>().join("\n")
    });
    let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
    Prompt { text: texts.join(BETWEEN_TURNS), bos: 0 }
}

/// Encodes the request for an upstream that knows the model as `model`. An empty model name is left out.
pub(super) fn encode(
    prompt: &Prompt,
    conversation: &Conversation,
    options: &Options,
    model: &str,
) -> UpstreamRequest {
    let start = match options.bos {
        Bos::Server => prompt.bos,
        Bos::Prompt => 0,
    };
    let text = prompt.text.get(start..).unwrap_or(&prompt.text);
    let prefill = match &conversation.constraint {
        Some(Constraint::Prefill(text)) => Some(Prefill { text: text.clone(), is_repeated: false }),
        _ => None,
    };
    let prompt = match &prefill {
        Some(prefill) => Cow::Owned(format!("{text}{}", prefill.text)),
        None => Cow::Borrowed(text),
    };
    let no_rest = Map::new();
    let rest_of = |dialect: Dialect| conversation.rest.from_dialect(dialect.name());
    let own = rest_of(Dialect::Completions);
    let rest = own.or_else(|| rest_of(Dialect::Chat)).unwrap_or(&no_rest);
    let constraint = conversation.constraint.as_ref();
    let members = constraint.map(|constraint| options.members(constraint)).unwrap_or_default();
    let form =
        if conversation.is_prompt && options.takes_client_prompts() { Form::OpenAi } else { options.form() };
    let mut body = Encoder::with_capacity(text.len() + 256);
    body.object(|body| {
        if !model.is_empty() {
            body.key("model").string(model);
        }
        match client_prompts(conversation) {
            Some(prompts) => body.key("prompt").value(prompts),
            None => body.key("prompt").string(&prompt),
        }
        match form {
            Form::OpenAi => openai(body, conversation, rest, options, &members),
            Form::LlamaCpp => {
                sampling(body, conversation, rest, "n_predict");
                body.key("stream").value(&conversation.stream);
            }
            Form::Ollama => {
                body.key("raw").value(&true);
                body.key("stream").value(&conversation.stream);
                body.key("options").object(|body| sampling(body, conversation, rest, "num_predict"));
            }
        }
        for (key, value) in &members {
            body.key(key).value(value);
        }
    });
    let path = (form != options.form()).then(|| OPENAI_PATH.to_owned());
    UpstreamRequest {
        body: body.finish(),
        path,
        dropped: dropped(conversation, rest, form),
        stream: conversation.stream,
        prefill,
        key: None,
    }
}

/// The tokens or the several prompts that a client of this dialect wrote.
fn client_prompts(conversation: &Conversation) -> Option<&Value> {
    let parts = conversation.turns.iter().filter(|_| conversation.is_prompt).flat_map(|turn| &turn.parts);
    parts.into_iter().find_map(|part| match part {
        Part::Other(other) => other.from_dialect(Dialect::Completions.name()),
        _ => None,
    })
}

/// Writes the members of OpenAI's API, except those that `constraint` overrides.
fn openai(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    options: &Options,
    constraint: &Map<String, Value>,
) {
    let is_free = |key: &str| !constraint.contains_key(key);
    // A client of this dialect knows the API's own limit.
    if limit(conversation, rest).is_none() && !conversation.is_prompt {
        body.key("max_tokens").value(&options.max_tokens);
    }
    sampling(body, conversation, rest, "max_tokens");
    let format = conversation.sampling.response_format.as_ref();
    put(body, "response_format", format.filter(|_| is_free("response_format")));
    let is_own = conversation.is_prompt;
    let own = |key: &str| (OPENAI.contains(&key) || is_own && !is_written(key)) && is_free(key);
    for (key, value) in rest.iter().filter(|(key, _)| own(key)) {
        body.key(key).value(value);
    }
    let key = "skip_special_tokens";
    if options.keep_special_tokens && !rest.contains_key(key) && is_free(key) {
        body.key(key).value(&false);
    }
    body.key("stream").value(&conversation.stream);
    let others = rest.get("stream_options").and_then(Value::as_object).filter(|_| is_own);
    if conversation.stream && (options.include_usage || others.is_some()) {
        body.key("stream_options").object(|body| {
            others.into_iter().flatten().for_each(|(key, value)| body.key(key).value(value));
            if options.include_usage {
                body.key("include_usage").value(&true);
            }
        });
    }
}

/// Whether a member of a client's request is written by other code than that for unknown members.
fn is_written(key: &str) -> bool {
    SAMPLING.contains(&key) || matches!(key, "stream_options" | "max_completion_tokens")
}

fn limit(conversation: &Conversation, rest: &Map<String, Value>) -> Option<u64> {
    let newer = rest.get("max_completion_tokens").and_then(Value::as_u64);
    newer.or(conversation.sampling.max_tokens)
}

/// Writes the members that all API versions share. The name of the token limit is `limit_key`.
fn sampling(body: &mut Encoder, conversation: &Conversation, rest: &Map<String, Value>, limit_key: &str) {
    let sampling = &conversation.sampling;
    put(body, limit_key, limit(conversation, rest).as_ref());
    put(body, "temperature", sampling.temperature.as_ref());
    put(body, "top_p", sampling.top_p.as_ref());
    put(body, "stop", Some(&sampling.stop).filter(|stop| !stop.is_empty()));
    put(body, "seed", sampling.seed.as_ref());
    let given = conversation.rest.fields().into_iter().flatten();
    for (key, value) in given.filter(|(key, _)| SAMPLING.contains(&key.as_str())) {
        body.key(key).value(value);
    }
}

fn put(body: &mut Encoder, key: &str, value: Option<&impl Serialize>) {
    if let Some(value) = value {
        body.key(key).value(value);
    }
}

/// The names of what the request cannot express: unknown fields, and media, which a prompt cannot contain.
fn dropped(conversation: &Conversation, rest: &Map<String, Value>, form: Form) -> Vec<String> {
    let is_openai = form == Form::OpenAi;
    let is_sent = |key: &str| {
        let is_own = is_openai && (conversation.is_prompt || OPENAI.contains(&key));
        HANDLED.contains(&key) || SAMPLING.contains(&key) || is_own
    };
    let fields = rest.keys().filter(|key| !is_sent(key)).cloned();
    let client = if conversation.is_prompt { Dialect::Completions } else { Dialect::Chat };
    let foreign = conversation.rest.foreign_keys(client.name());
    let foreign = foreign.filter(|key| !SAMPLING.contains(&key.as_str())).cloned();
    let parts = conversation.turns.iter().filter(|_| !conversation.is_prompt).flat_map(|turn| &turn.parts);
    let media = parts.filter(|part| matches!(part, Part::Image { .. } | Part::Other(_)));
    let media = media.map(|_| "messages[].content[]".to_owned());
    let format = conversation.sampling.response_format.iter().filter(|_| !is_openai);
    let format = format.map(|_| "response_format".to_owned());
    let mut dropped: Vec<_> = fields.chain(foreign).chain(media).chain(format).collect();
    dropped.sort_unstable();
    dropped.dedup();
    dropped
}
