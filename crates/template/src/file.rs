//! Reads files that contain a chat template: a `tokenizer_config.json`, or the template itself.

use super::TemplateError;
use crate::wire::json::{Json, Kind};

/// A special token of the model, which templates can use as a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpecialToken {
    pub(super) name: String,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct TemplateFile {
    pub(super) default: String,
    /// The template called `tool_use`, which is for requests with tools.
    pub(super) tool_use: Option<String>,
    pub(super) tokens: Vec<SpecialToken>,
}

/// The special tokens that transformers passes to templates.
const TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Parses a file. A JSON object is read as a `tokenizer_config.json` or a `chat_template.json`, and
/// anything else as a template.
pub(super) fn read(text: &str) -> Result<TemplateFile, TemplateError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json = Json::parse(text).ok().filter(|json| json.kind() == Kind::Object);
    let Some(config) = json else {
        if is_meant_as_json(text) {
            return Err(TemplateError::new("the file is not valid JSON"));
        }
        return Ok(TemplateFile { default: text.to_owned(), tool_use: None, tokens: Vec::new() });
    };
    let tokens = TOKENS.iter().filter_map(|name| {
        let text = token(config.get(name)?)?;
        Some(SpecialToken { name: (*name).to_owned(), text })
    });
    let tokens = tokens.collect();
    let missing = || TemplateError::new("the file has no `chat_template`");
    let template = config.get("chat_template").filter(|template| !template.is_null()).ok_or_else(missing)?;
    match template.kind() {
        Kind::String => {
            let default = template.as_str().unwrap_or_default().into_owned();
            Ok(TemplateFile { default, tool_use: None, tokens })
        }
        Kind::Array => named(template, tokens),
        _ => Err(TemplateError::new("`chat_template` is neither a text nor a list of named templates")),
    }
}

/// Reads a list of `{"name": …, "template": …}`.
fn named(list: Json<'_>, tokens: Vec<SpecialToken>) -> Result<TemplateFile, TemplateError> {
    let find = |wanted: &str| {
        let mut found = list.elements().filter(|entry| {
            let name = entry.get("name").and_then(|name| name.as_str());
            name.as_deref() == Some(wanted)
        });
        Some(found.next()?.get("template")?.as_str()?.into_owned())
    };
    let tool_use = find(super::TOOL_USE);
    match find(super::DEFAULT).or_else(|| tool_use.clone()) {
        Some(default) => Ok(TemplateFile { default, tool_use, tokens }),
        None => Err(TemplateError::new("`chat_template` lists no template named `default`")),
    }
}

/// Returns the text of a token, which is either a string or an object that contains one.
fn token(value: Json<'_>) -> Option<String> {
    let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
    Some(text.into_owned())
}

/// Whether the file begins with `{` but not with a Jinja tag.
fn is_meant_as_json(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('{') && !["{{", "{%", "{#"].iter().any(|tag| text.starts_with(tag))
}
