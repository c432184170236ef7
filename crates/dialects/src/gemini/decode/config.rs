//! Decodes `generationConfig`.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{super::request::SHARED, openapi::json_schema};
use crate::{
    conversation::Sampling,
    failure::Failure,
    fields::{Fields, Path, wrong_value},
    wire::json::Json,
};

/// The flag among the repeated fields which says that the client has not asked for the model's thoughts.
pub(in super::super) const TEXT_ONLY: &str = "text_only";

pub(super) struct Config {
    pub(super) sampling: Sampling,
    pub(super) includes_thoughts: bool,
}

const KEY: &str = "generationConfig";

/// Takes the fields that other APIs have, too. What they cannot express completely stays in the request, for
/// upstreams of this dialect.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Config, Failure> {
    let Some(mut config) = request.object(KEY)? else {
        return Ok(Config { sampling: Sampling::default(), includes_thoughts: false });
    };
    if let Some(count) = config.count("candidateCount")?.filter(|count| *count != 1) {
        let why = format_args!("is {count}; a request can ask for one candidate only");
        return Err(wrong_value(config.at("candidateCount"), why));
    }
    let response_format = response_format(&mut config)?;
    let thinking = config.any("thinkingConfig");
    let (includes_thoughts, reasoning_effort) = thinking_config(config.at("thinkingConfig"), thinking)?;
    if let Some(thinking) = thinking {
        config.keep("thinkingConfig", thinking.to_value());
    }
    let sampling = Sampling {
        max_tokens: max_tokens(&mut config)?,
        temperature: config.number("temperature")?,
        top_p: config.number("topP")?,
        stop: config.texts("stopSequences")?,
        reasoning_effort,
        response_format,
        seed: config.number("seed")?,
    };
    let mut shared = Vec::new();
    for (name, own) in SHARED {
        shared.extend(config.number(own)?.map(|value| (name, value)));
    }
    let rest = config.into_rest();
    for (name, value) in shared {
        request.keep(name, value);
    }
    if !rest.is_empty() {
        request.keep(KEY, rest);
    }
    Ok(Config { sampling, includes_thoughts })
}

/// The API takes 0 for no limit.
fn max_tokens(config: &mut Fields<'_, '_>) -> Result<Option<u64>, Failure> {
    Ok(config.count("maxOutputTokens")?.filter(|limit| *limit > 0))
}

/// The response format as OpenAI's. The fields stay in the request.
fn response_format(config: &mut Fields<'_, '_>) -> Result<Option<Value>, Failure> {
    let mime = config.string("responseMimeType")?;
    let (own, standard) = (config.any("responseSchema"), config.any("responseJsonSchema"));
    if own.is_some() && standard.is_some() {
        let why = "and `responseSchema` exclude each other";
        return Err(wrong_value(config.at("responseJsonSchema"), why));
    }
    let keep = |config: &mut Fields<'_, '_>, key: &str, value: Option<Json<'_>>| {
        if let Some(value) = value {
            config.keep(key, value.to_value());
        }
    };
    if let Some(mime) = &mime {
        config.keep("responseMimeType", mime.as_ref());
    }
    keep(config, "responseSchema", own);
    keep(config, "responseJsonSchema", standard);
    let is_json = mime.as_deref().is_some_and(|mime| mime.eq_ignore_ascii_case("application/json"));
    let schema = standard.map(|schema| schema.to_value());
    let schema = schema.or_else(|| own.map(|schema| json_schema(&schema.to_value())));
    Ok(match schema {
        Some(schema) if is_json || mime.is_none() => Some(json!({
            "type": "json_schema",
            "json_schema": {"name": "response", "schema": schema, "strict": true},
        })),
        None if is_json => Some(json!({"type": "json_object"})),
        _ => None,
    })
}

/// Whether the client asks for the model's thoughts, and the reasoning effort.
fn thinking_config(path: Path<'_>, given: Option<Json<'_>>) -> Result<(bool, Option<String>), Failure> {
    let Some(given) = given else { return Ok((false, None)) };
    let mut thinking = Fields::in_camel_case(path, given)?;
    let includes = thinking.boolean("includeThoughts")?.unwrap_or(false);
    let level = thinking.string("thinkingLevel")?.map(Cow::into_owned);
    let level =
        level.filter(|level| !level.ends_with("_UNSPECIFIED")).map(|level| level.to_ascii_lowercase());
    Ok((includes, level))
}
