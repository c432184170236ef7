//! [`Form`]: templates for writing calls and results in a format.
//!
//! ```text
//! calls of a turn ─▶ before  call  between  call  after
//!                            └─ {{name}} … {{arguments}} ─▶ a JSON object, or {{key}} {{value}} for each
//! ```
//!
//! A placeholder is a word in double braces. Inserted text is not searched for further placeholders.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    render,
    said::{Said, Schemas},
    value_text::{python_string, quoted, spaced},
};
use crate::conversation::{Call, CallOutput};

/// How to write calls and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The strings before, between and after the calls of a turn.
    pub around: (&'static str, &'static str, &'static str),
    /// The string between the turn's own text and its calls.
    pub after_text: &'static str,
    /// The template for a call. `{{name}}` stands for the tool's name, and `{{json_name}}` for the name as a
    /// JSON string. `{{arguments}}` stands for the arguments, and `{{json_arguments}}` for their JSON as a
    /// JSON string. `{{id}}` stands for the call's id. `{{index}}` stands for the call's
    /// position in the conversation, counted from 0, and `{{number}}` for its position in the turn, counted
    /// from 1.
    pub call: &'static str,
    /// How to write the arguments.
    pub arguments: ArgumentForm,
    /// The template for a result. `{{json_name}}`, `{{content}}` and `{{json_content}}` stand for the tool's
    /// name and its output, and `{{named_content}}` for the output preceded by the name, if the name is
    /// known. A result must not look like a call in any format, and must not start like a call in this
    /// format, since small models copy what they see.
    pub result: &'static str,
}

/// How to write the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentForm {
    /// As a JSON object.
    Json,
    /// One after another, with a template for each.
    Each {
        /// The template for an argument. `{{key}}` and `{{value}}` stand for its name and value, `{{type}}`
        /// for the value's JSON type, and `{{is_string}}` for `true` or `false`, depending on whether the
        /// value is a string.
        one: &'static str,
        /// The text between two arguments.
        between: &'static str,
        /// How to write the value.
        values: Values,
    },
}

/// How to write a value when arguments are written one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Strings unchanged, and everything else as JSON.
    Text,
    /// In Python syntax.
    Python(Quotes),
    /// As JSON, but with unquoted keys and with strings enclosed in this delimiter.
    Delimited(&'static str),
    /// Like arguments: an object's members under their keys, and the elements of a list under `item`.
    Elements,
}

/// The quotation marks of strings in Python syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// As Python's `repr` writes them: single ones, unless the string contains these and no double ones.
    Repr,
    /// Double ones.
    Double,
}

/// The default template for a result. It must not start like a call: small models that saw `<tool_response>`
/// together with `<tool_call>`, or `[TOOL_RESULTS]` together with `[TOOL_CALLS]`, answered half of the
/// requests with an invented result.
const RESULT: &str = "<result>\n{{named_content}}\n</result>";

/// A result in the tags that many models were trained on, for formats whose calls do not start with a similar
/// tag.
pub(in crate::format) const TOOL_RESPONSE: &str = "<tool_response>\n{{named_content}}\n</tool_response>";

pub(in crate::format) const OBJECT: &str = r#"{"name": {{json_name}}, "arguments": {{arguments}}}"#;

impl Form {
    /// Calls on separate lines, with their arguments as JSON.
    pub const fn json(call: &'static str) -> Self {
        let around = ("", "\n", "");
        Self { around, after_text: "\n", call, arguments: ArgumentForm::Json, result: RESULT }
    }

    /// Calls on separate lines, with their arguments one after another.
    pub const fn each(call: &'static str, one: &'static str, between: &'static str, values: Values) -> Self {
        Self { arguments: ArgumentForm::Each { one, between, values }, ..Self::json(call) }
    }

    /// Sets the strings before, between and after the calls.
    pub const fn within(self, before: &'static str, between: &'static str, after: &'static str) -> Self {
        Self { around: (before, between, after), ..self }
    }

    /// Sets the string between the turn's own text and its calls.
    pub const fn after_text(self, after_text: &'static str) -> Self {
        Self { after_text, ..self }
    }

    /// Sets the template for a result.
    pub const fn answered(self, result: &'static str) -> Self {
        Self { result, ..self }
    }

    /// The start and the end of a result, if both are markup that occurs only in results.
    pub fn result_markers(&self) -> Option<(&'static str, &'static str)> {
        let (before, _) = self.result.split_once("{{")?;
        let (_, behind) = self.result.rsplit_once("}}")?;
        if let Some(line) = before.strip_prefix("```").and_then(|before| before.strip_suffix('\n')) {
            let own = line.ends_with("output");
            return own.then(|| (before.trim_end(), behind));
        }
        let open = before.find(['>', ']']).and_then(|end| before.get(..=end))?;
        let close = behind.rfind(['<', '[']).and_then(|start| behind.get(start..))?;
        (open.starts_with(['<', '[']) && close.len() > 1).then_some((open, close.trim_end()))
    }

    /// Writes the calls of a turn as the model should write them, as the first calls of a conversation.
    pub fn calls(&self, calls: &[Call]) -> String {
        self.calls_from(&mut 0, calls)
    }

    /// Like [`Form::calls`], for calls after `count` others in the conversation, which are added to `count`.
    pub(super) fn calls_from(&self, count: &mut usize, calls: &[Call]) -> String {
        self.joined(calls.iter().enumerate().map(|(at, call)| {
            let place = Place { at, index: index(call, &call.name, count) };
            self.call(place, call, &call.name, None)
        }))
    }

    /// Like [`Form::calls_from`], for calls to declared tools whose names have the prefix in the prompt. Arguments
    /// that the form cannot express are written as JSON, so that they are read back as they are.
    pub(super) fn calls_of(
        &self,
        count: &mut usize,
        calls: &[Call],
        prefix: &str,
        schemas: &mut Schemas<'_>,
    ) -> String {
        self.joined(calls.iter().enumerate().map(|(at, call)| {
            let said = schemas.said(self, call);
            let name = format!("{prefix}{}", call.name);
            let place = Place { at, index: index(call, &name, count) };
            self.call(place, call, &name, said)
        }))
    }

    /// Adds calls to `count` that are not written by this form.
    pub(super) fn count(count: &mut usize, calls: &[Call], prefix: &str) {
        for call in calls {
            index(call, &format!("{prefix}{}", call.name), count);
        }
    }

    fn joined(&self, calls: impl Iterator<Item = String>) -> String {
        let (before, between, after) = self.around;
        format!("{before}{}{after}", calls.collect::<Vec<_>>().join(between))
    }

    fn call(&self, place: Place, call: &Call, name: &str, said: Option<Said<'_>>) -> String {
        let written = || match (self.arguments, said) {
            (ArgumentForm::Json, _) => as_json(&call.arguments),
            (ArgumentForm::Each { one, .. }, Some(said)) if !said.all(&call.arguments) => {
                let line = if one.ends_with('\n') { "\n" } else { "" };
                format!("{}{line}", as_json(&call.arguments))
            }
            (ArgumentForm::Each { one, between, values }, said) => {
                each(&call.arguments, one, between, values, said)
            }
        };
        render(self.call, |hole| match hole {
            "name" => Some(name.to_owned()),
            "json_name" => Some(quoted(name)),
            "arguments" => Some(written()),
            "json_arguments" => Some(quoted(&as_json(&call.arguments))),
            "id" => Some(call.id.clone()),
            "index" => Some(place.index.to_string()),
            "number" => Some((place.at + 1).to_string()),
            _ => None,
        })
    }

    /// Writes a result as it is shown to the model.
    ///
    /// If the result contains its own closing marker, the marker is escaped with a backslash, so that the
    /// text after it cannot be mistaken for the user's text.
    pub fn result(&self, result: &CallOutput) -> String {
        let content = self.enclosed(&result.content);
        render(self.result, |hole| match hole {
            "json_name" => Some(quoted(&result.name)),
            "content" => Some(content.to_string()),
            "named_content" if result.name.is_empty() => Some(content.to_string()),
            "named_content" => Some(format!("{}: {content}", result.name)),
            "json_content" => Some(quoted(&content)),
            _ => None,
        })
    }
}

impl Form {
    /// The text of a result, in which everything that would close the result is escaped.
    fn enclosed<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let behind = self.result.rsplit_once("}}").map_or("", |(_, behind)| behind);
        let is_marker =
            |word: &&str| word.len() > 1 && word.starts_with(|first: char| !first.is_alphanumeric());
        behind.split_whitespace().filter(is_marker).fold(Cow::Borrowed(text), |text, marker| {
            match escaped(&text, marker) {
                Some(escaped) => Cow::Owned(escaped),
                None => text,
            }
        })
    }
}

/// Inserts a backslash after the first character of each `marker`. `None` if the text does not contain it.
fn escaped(text: &str, marker: &str) -> Option<String> {
    let first = marker.chars().next()?;
    let (mut escaped, mut copied) = (String::new(), 0);
    for (at, _) in text.match_indices(first) {
        let behind = at + first.len_utf8();
        if text.get(at..).is_some_and(|text| begins_with(text, marker)) {
            escaped.push_str(text.get(copied..behind).unwrap_or_default());
            escaped.push('\\');
            copied = behind;
        }
    }
    (copied > 0).then(|| escaped + text.get(copied..).unwrap_or_default())
}

/// Maximum white space inside a marker with which a model may still recognise it.
const MAX_SPACE: usize = 16;

/// Whether `text` starts with something that a model may take for `marker`, ignoring case and white space.
fn begins_with(text: &str, marker: &str) -> bool {
    let mut letters = text.chars();
    let mut spaces = 0;
    marker.chars().all(|wanted| {
        loop {
            match letters.next() {
                Some(letter) if letter.eq_ignore_ascii_case(&wanted) => return true,
                Some(letter) if letter.is_whitespace() && spaces < MAX_SPACE => spaces += 1,
                _ => return false,
            }
        }
    })
}

/// Where a call stands: its position in the turn, and in the conversation.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    index: usize,
}

/// The position in the conversation of a call to the tool `name` after `count` others. If the model wrote the
/// position into the call's id, as Kimi K2 does, it is this one.
fn index(call: &Call, name: &str, count: &mut usize) -> usize {
    let own = call.id.rsplit_once(':').filter(|(before, _)| before.ends_with(name));
    let own = own.and_then(|(_, index)| index.parse::<usize>().ok().filter(|own| own.to_string() == index));
    let index = own.unwrap_or(*count);
    *count = count.saturating_add(1).max(index.saturating_add(1));
    index
}

/// Returns the arguments as JSON. Anything else becomes a JSON string, so that it is shown unchanged.
fn as_json(arguments: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(arguments) {
        Ok(_) => spaced(arguments),
        Err(_) if arguments.trim().is_empty() => "{}".to_owned(),
        Err(_) => quoted(arguments),
    }
}

/// The members of an object in order, each with the raw text of its value. `None` if `json` is not an object.
pub(super) fn members(json: &str) -> Option<Vec<(String, &RawValue)>> {
    struct Members;

    impl<'de> serde::de::Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }

    let mut json = serde_json::Deserializer::from_str(json);
    serde::de::Deserializer::deserialize_map(&mut json, Members).ok()
}

/// Writes the arguments one after another. Anything but a JSON object is written unchanged.
fn each(arguments: &str, one: &str, between: &str, values: Values, said: Option<Said<'_>>) -> String {
    let Some(members) = members(arguments) else { return arguments.trim().to_owned() };
    let inner = |key: &str| said.map(|said| said.inner(Some(key)));
    let written = members.iter().map(|(key, value)| argument(key, value.get(), one, values, inner(key)));
    written.collect::<Vec<_>>().join(between)
}

fn argument(key: &str, json: &str, one: &str, values: Values, said: Option<Said<'_>>) -> String {
    let kind = match json.bytes().next() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    };
    render(one, |hole| match hole {
        "key" => Some(key.to_owned()),
        "value" => Some(value(json, one, values, said)),
        "type" => Some(kind.to_owned()),
        "is_string" => Some((kind == "string").to_string()),
        _ => None,
    })
}

fn value(json: &str, one: &str, values: Values, said: Option<Said<'_>>) -> String {
    let text = || serde_json::from_str::<String>(json).ok();
    let nested = || members(json).unwrap_or_default();
    let items = || serde_json::from_str::<Vec<&RawValue>>(json).unwrap_or_default();
    let comma = if matches!(values, Values::Python(_)) { ", " } else { "," };
    let listed = |open: &str, items: Vec<String>, close: &str| format!("{open}{}{close}", items.join(comma));
    let inner = |json: &RawValue| value(json.get(), one, values, None);
    let below = |key: Option<&str>| said.map(|said| said.inner(key));
    if matches!(values, Values::Text | Values::Elements)
        && json.starts_with(['{', '['])
        && let Some(text) = said.and_then(|said| said.container(json))
    {
        return text;
    }
    match (values, json.bytes().next()) {
        (Values::Text | Values::Elements, Some(b'"')) => text().unwrap_or_default(),
        (Values::Elements, Some(b'{')) => nested()
            .iter()
            .map(|(key, value)| argument(key, value.get(), one, values, below(Some(key))))
            .collect(),
        (Values::Elements, Some(b'[')) => {
            items().iter().map(|item| argument("item", item.get(), one, values, below(None))).collect()
        }
        (Values::Text | Values::Elements, _) => spaced(json),
        (Values::Delimited(mark), Some(b'"')) => format!("{mark}{}{mark}", text().unwrap_or_default()),
        (Values::Delimited(_), Some(b'{')) => {
            let member = |(key, value): &(String, &RawValue)| format!("{key}:{}", inner(value));
            listed("{", nested().iter().map(member).collect(), "}")
        }
        (Values::Python(quotes), Some(b'{')) => {
            let member = |(key, value): &(String, &RawValue)| {
                format!("{}: {}", python_string(key, quotes), inner(value))
            };
            listed("{", nested().iter().map(member).collect(), "}")
        }
        (Values::Delimited(_) | Values::Python(_), Some(b'[')) => {
            listed("[", items().iter().map(|item| inner(item)).collect(), "]")
        }
        (Values::Python(quotes), Some(b'"')) => {
            text().map_or_else(String::new, |text| python_string(&text, quotes))
        }
        (Values::Python(_), Some(b't')) => "True".to_owned(),
        (Values::Python(_), Some(b'f')) => "False".to_owned(),
        (Values::Python(_), Some(b'n')) => "None".to_owned(),
        (Values::Delimited(_) | Values::Python(_), _) => json.to_owned(),
    }
}
