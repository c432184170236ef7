//! [`Description`]: the body of a registration.
//!
//! It is not trusted, so every field has a limit.

use std::{collections::HashSet, sync::Arc, time::Duration};

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::Callback;
use toolwire_pipeline::{failure::{Failure, Kind}, wire::json::Raw};
use crate::{ToolSpec, address::AddressRules};

/// In characters.
const MAX_ID: usize = 128;

/// In characters.
const MAX_LABEL: usize = 200;

/// In characters.
const MAX_NAME: usize = 64;

/// In bytes.
const MAX_DESCRIPTION: usize = 8 << 10;

/// In bytes.
const MAX_SCHEMA: usize = 64 << 10;

/// In bytes.
const MAX_TOKEN: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct Description {
    pub(super) id: String,
    pub(super) label: String,
    pub(super) callback: Option<Callback>,
    pub(super) tools: Vec<Arc<ToolSpec>>,
}

#[derive(Deserialize)]
struct Written {
    id: String,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    callback_url: Option<String>,
    #[serde(default)]
    token: Option<String>,
    tools: Vec<WrittenTool>,
}

#[derive(Deserialize)]
struct WrittenTool {
    name: String,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
    #[serde(default)]
    idempotent: bool,
}

impl Description {
    /// Parses a registration with at most `max_tools` tools. `timeout` is the time limit for calls.
    ///
    /// # Errors
    /// [`Kind::Request`] or [`Kind::TooLarge`], naming the wrong field.
    pub(super) fn parse(
        body: &[u8],
        rules: &AddressRules,
        max_tools: usize,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let written: Written = serde_json::from_slice(body).map_err(|error| {
            Failure::new(Kind::Request, format!("the registration cannot be read: {error}"))
        })?;
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let starts_well = written.id.starts_with(|first: char| first.is_ascii_alphanumeric());
        if !starts_well || written.id.len() > MAX_ID || !written.id.bytes().all(is_id) {
            let message = format!("`id` has 1 to {MAX_ID} letters, digits, `-`, `_` and `.`");
            return Err(wrong(message, "id"));
        }
        if written.tools.len() > max_tools {
            let message = format!("there are more than {max_tools} tools (max_tools)");
            return Err(Failure::new(Kind::TooLarge, message).with_param("tools"));
        }
        let callback = callback(written.callback_url.as_deref(), written.token, rules)?;
        let label = short(written.label.as_deref().unwrap_or(&written.id), MAX_LABEL);
        let mut names = HashSet::new();
        let mut tools = Vec::with_capacity(written.tools.len());
        for (place, tool) in written.tools.into_iter().enumerate() {
            let spec = tool.spec(&format!("tools[{place}]"), timeout)?;
            if !names.insert(plain(&spec.name)) {
                return Err(wrong(format!("a second tool `{}`", spec.name), format!("tools[{place}].name")));
            }
            tools.push(Arc::new(spec));
        }
        Ok(Self { id: written.id, label, callback, tools })
    }
}

impl WrittenTool {
    fn spec(self, place: &str, timeout: Duration) -> Result<ToolSpec, Failure> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let has_letter = self.name.bytes().any(|byte| byte.is_ascii_alphanumeric());
        if !has_letter || self.name.len() > MAX_NAME || !self.name.bytes().all(is_name) {
            let message = format!("a tool's name has 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`");
            return Err(wrong(message, format!("{place}.name")));
        }
        if plain(&self.name).contains("__") {
            let message = "names with two underscores belong to the tools of MCP servers";
            return Err(wrong(message, format!("{place}.name")));
        }
        let description = self.description.unwrap_or_default();
        if description.len() > MAX_DESCRIPTION {
            let message = format!("the description is longer than {MAX_DESCRIPTION} bytes");
            return Err(Failure::new(Kind::TooLarge, message).with_param(format!("{place}.description")));
        }
        Ok(ToolSpec {
            label: short(self.label.as_deref().unwrap_or(&self.name), MAX_LABEL),
            name: self.name,
            description,
            parameters: Raw::from(schema(self.parameters, place)?),
            is_idempotent: self.idempotent,
            timeout,
            ..ToolSpec::default()
        })
    }
}

/// Checks that `written` is the schema of an object.
fn schema(written: Option<Value>, place: &str) -> Result<Value, Failure> {
    let param = format!("{place}.parameters");
    let mut schema = match written {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(schema)) => schema,
        Some(_) => return Err(wrong("`parameters` is a JSON Schema", param)),
    };
    match schema.get("type") {
        None => _ = schema.insert("type".to_owned(), json!("object")),
        Some(kind) if *kind == "object" => {}
        Some(_) => return Err(wrong("`parameters` describes an object", param)),
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    let schema = Value::Object(schema);
    if schema.to_string().len() > MAX_SCHEMA {
        let message = format!("`parameters` is longer than {MAX_SCHEMA} bytes");
        return Err(Failure::new(Kind::TooLarge, message).with_param(param));
    }
    Ok(schema)
}

fn callback(
    url: Option<&str>,
    token: Option<String>,
    rules: &AddressRules,
) -> Result<Option<Callback>, Failure> {
    let Some(url) = url else { return Ok(None) };
    let url = rules.check(url).map_err(|blocked| wrong(format!("`callback_url`: {blocked}"), "callback_url"))?;
    let token = token.filter(|token| !token.is_empty());
    let is_token = |token: &String| token.len() <= MAX_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !token.as_ref().is_none_or(is_token) {
        let message = format!("`token` has at most {MAX_TOKEN} printable ASCII characters without spaces");
        return Err(wrong(message, "token"));
    }
    Ok(Some(Callback::new(url, token.map(SecretString::from))))
}

/// Normalizes a name for comparisons.
pub(super) fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('.', "_")
}

/// Returns the first `max` characters of `text`, without control characters.
fn short(text: &str, max: usize) -> String {
    text.chars().filter(|character| !character.is_control()).take(max).collect()
}

fn wrong(message: impl Into<String>, param: impl Into<String>) -> Failure {
    Failure::new(Kind::Request, message).with_param(param)
}
