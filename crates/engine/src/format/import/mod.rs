//! [`import`]: converts a checkpoint's response template to a format definition, provided that its anchors
//! are literal.
//!
//! In `response_template` of its `tokenizer_config.json`, a checkpoint may describe how to parse its output.
//! This is a table of `fields` (`thinking`, `content`, `tool_calls`), each with the strings or regular
//! expressions that open and close it, the notation of its content, and how to build a call from it. The
//! engine works with literal markers, so only strings can be imported, and regular expressions that are
//! literal except for a name and blanks ([`anchor`]). Everything else is rejected, with its position in the
//! template, because a format that covers only half of what its model writes is useless.

mod anchor;
mod calls;

use serde_json::{Map, Value};

use self::anchor::{Anchor, Part};
use super::Definition;

/// Why a template cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct Refused {
    /// The position in the template, as keys separated by dots.
    pub field: String,
    /// The reason.
    pub why: String,
}

fn refused<T>(field: impl Into<String>, why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { field: field.into(), why: why.into() })
}

/// Converts the template in `text` to the definition of a format called `name`. `text` is a response
/// template, or a `tokenizer_config.json` that contains one.
///
/// # Errors
/// The first part of the template that a [`Definition`] cannot express.
pub fn import(name: &str, text: &str) -> Result<Definition, Refused> {
    let Ok(Value::Object(file)) = serde_json::from_str(text) else {
        return refused(
            "response_template",
            "expected a JSON object: a template, or a tokenizer_config.json",
        );
    };
    let template = match file.get("response_template") {
        Some(Value::Object(template)) => template,
        None if file.contains_key("fields") => &file,
        None if file.contains_key("response_schema") => {
            let why = "the older form, made of regular expressions; only `response_template` can be imported";
            return refused("response_schema", why);
        }
        _ => return refused("response_template", "there is none in this file"),
    };
    only(template, "", &["version", "defaults", "start_anchor", "start_anchor_pattern", "fields"])?;
    if template.get("version").is_some_and(|version| *version != 1) {
        return refused("version", "only version 1 is known");
    }
    let Some(Value::Object(fields)) = template.get("fields") else {
        return refused("fields", "expected an object");
    };
    let mut definition = Definition {
        name: name.to_owned(),
        summary: "from a checkpoint's response template".to_owned(),
        ..Definition::default()
    };
    for (key, value) in fields {
        let Some(field) = Field::new(key, value) else {
            return refused(format!("fields.{key}"), "expected an object");
        };
        match key.as_str() {
            "tool_calls" => field.calls(&mut definition)?,
            "thinking" | "reasoning" | "reasoning_content" => field.reasoning(&mut definition)?,
            "content" => field.content(&mut definition)?,
            _ => return refused(field.path(""), "only `tool_calls`, `thinking` and `content` can be told"),
        }
    }
    if definition.open.is_empty() {
        return refused("fields.tool_calls", "it is missing, and a format is one of calls");
    }
    // Some models repeat the header of their turn before each part of it.
    let again = template.get("start_anchor").and_then(Value::as_str).map(str::trim);
    let again = again.filter(|anchor| anchor.starts_with('<') && !definition.frame.is_empty());
    definition.frame.extend(again.map(str::to_owned));
    Ok(definition)
}

/// Rejects unknown keys, since they might change the meaning of the table.
fn only(table: &Map<String, Value>, path: &str, known: &[&str]) -> Result<(), Refused> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => refused(format!("{path}{key}"), "not known, so what it asks for would be lost"),
        None => Ok(()),
    }
}

struct Field<'t> {
    key: &'t str,
    table: &'t Map<String, Value>,
}

impl<'t> Field<'t> {
    fn new(key: &'t str, value: &'t Value) -> Option<Self> {
        value.as_object().map(|table| Self { key, table })
    }

    fn path(&self, key: &str) -> String {
        let dot = if key.is_empty() { "" } else { "." };
        format!("fields.{}{dot}{key}", self.key)
    }

    fn get(&self, key: &str) -> Option<&'t Value> {
        self.table.get(key).filter(|value| !value.is_null())
    }

    fn refused<T>(&self, key: &str, why: impl Into<String>) -> Result<T, Refused> {
        refused(self.path(key), why)
    }

    /// The string or list of strings in `key`.
    fn literals(&self, key: &str) -> Result<Vec<String>, Refused> {
        let literals: Option<Vec<&str>> = match self.get(key) {
            None => Some(Vec::new()),
            Some(Value::String(literal)) => Some(vec![literal]),
            Some(Value::Array(list)) => list.iter().map(Value::as_str).collect(),
            Some(_) => None,
        };
        match literals {
            // The engine ignores blanks around markers.
            Some(literals) => Ok(literals.into_iter().map(|literal| literal.trim().to_owned()).collect()),
            None => self.refused(key, "expected a literal, or a list of them"),
        }
    }

    /// The literal markers that open or close the field. A pattern that is literal is accepted as well.
    fn anchors(&self, key: &'static str, pattern: &'static str) -> Result<Vec<String>, Refused> {
        let mut literals = self.literals(key)?;
        if let Some(anchor) = self.pattern(pattern)? {
            match anchor.0.as_slice() {
                [Part::Literal(literal)] => literals.push(literal.clone()),
                _ => {
                    return self
                        .refused(pattern, "more than one literal; only calls may have a name in theirs");
                }
            }
        }
        match literals.iter().any(String::is_empty) {
            true => self.refused(key, "a marker made of blanks"),
            false => Ok(literals),
        }
    }

    fn pattern(&self, key: &str) -> Result<Option<Anchor>, Refused> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(pattern)) => match Anchor::read(pattern) {
                Ok(anchor) => Ok(Some(anchor)),
                Err(why) => self.refused(key, why.to_string()),
            },
            Some(_) => self.refused(key, "expected a regular expression"),
        }
    }

    /// The only literal, or an empty string if there is none.
    fn one(&self, key: &str, mut literals: Vec<String>) -> Result<String, Refused> {
        let first = literals.pop().unwrap_or_default();
        if literals.is_empty() { Ok(first) } else { self.refused(key, "only one marker can be told here") }
    }

    fn is_text(&self) -> Result<(), Refused> {
        only(
            self.table,
            &self.path("."),
            &[
                "open",
                "open_pattern",
                "close",
                "close_pattern",
                "content",
                "content_args",
                "repeats",
                "join",
                "optional",
            ],
        )?;
        match self.get("content") {
            None => Ok(()),
            Some(kind) if kind == "text" => Ok(()),
            Some(_) => self.refused("content", "only `text` can be told here"),
        }
    }

    fn reasoning(&self, definition: &mut Definition) -> Result<(), Refused> {
        self.is_text()?;
        let open = self.anchors("open", "open_pattern")?;
        let open = self.one("open", open)?;
        let close = self.anchors("close", "close_pattern")?;
        if open.is_empty() {
            return self.refused(
                "open",
                "it is missing; for responses that start in reasoning there is `starts_in_reasoning`",
            );
        }
        if close.is_empty() {
            return self.refused("close", "it is missing");
        }
        definition.reasoning = std::iter::once(open).chain(close).collect();
        Ok(())
    }

    /// Reads the meaningless markers around the response.
    fn content(&self, definition: &mut Definition) -> Result<(), Refused> {
        self.is_text()?;
        definition.frame.extend(self.anchors("open", "open_pattern")?);
        definition.frame.extend(self.anchors("close", "close_pattern")?);
        Ok(())
    }
}
