//! Takes the fields of a request out of their objects, by name and type. The fields that remain are those
//! unknown to the decoder.
//!
//! Every error is the client's fault: it gives the path of the field and describes a valid value.

use std::{borrow::Cow, collections::HashSet, fmt};

use bytes::Bytes;
use serde_json::{Map, Number, Value};

use super::field_case::{camel_case, respelled, respelled_in_camel_case};
use crate::{
    conversation::{Conversation, Text, Tool, ToolChoice},
    failure::{Failure, Kind},
    wire::json::{Index, Json, Kind as JsonKind, mend_surrogates},
};

/// The position of a value in the request, such as `messages[2].content`. It is formatted only for an error.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'p> {
    Body,
    Member(&'p Path<'p>, &'p str),
    Element(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body => Ok(()),
            Self::Member(Self::Body, key) => f.write_str(key),
            Self::Member(outer, key) => write!(f, "{outer}.{key}"),
            Self::Element(outer, place) => write!(f, "{outer}[{place}]"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Fields<'a, 'p> {
    path: Path<'p>,
    members: Vec<(Cow<'a, str>, Json<'a>)>,
    kept: Map<String, Value>,
    /// Whether names may be written in snake case, and are converted to camel case.
    is_camel: bool,
}

impl<'a, 'p> Fields<'a, 'p> {
    /// The fields of `value`.
    ///
    /// # Errors
    /// `value` is not an object, or servers could take a key for that of a known field.
    pub(crate) fn new(path: Path<'p>, value: Json<'a>) -> Result<Self, Failure> {
        if value.kind() != JsonKind::Object {
            return Err(wrong_type(path, "an object", value));
        }
        let members: Vec<_> = value.members().collect();
        match members.iter().find_map(|(key, _)| Some((key, respelled(key)?))) {
            Some((key, known)) => Err(other_case(Path::Member(&path, key), known)),
            None => Ok(Self { path, members, kept: Map::new(), is_camel: false }),
        }
    }

    /// Like [`Fields::new`], for APIs that accept each name in camel case and in snake case. Names are converted to
    /// camel case, here and in nested fields.
    pub(crate) fn in_camel_case(path: Path<'p>, value: Json<'a>) -> Result<Self, Failure> {
        if value.kind() != JsonKind::Object {
            return Err(wrong_type(path, "an object", value));
        }
        let members: Vec<_> = value.members().map(|(key, value)| (camel_case(key), value)).collect();
        match members.iter().find_map(|(key, _)| Some((key, respelled_in_camel_case(key)?))) {
            Some((key, known)) => Err(other_case(Path::Member(&path, key), known)),
            None => Ok(Self { path, members, kept: Map::new(), is_camel: true }),
        }
    }

    fn nested<'n>(&self, path: Path<'n>, value: Json<'a>) -> Result<Fields<'a, 'n>, Failure> {
        if self.is_camel { Fields::in_camel_case(path, value) } else { Fields::new(path, value) }
    }

    pub(crate) fn at<'s>(&'s self, key: &'s str) -> Path<'s> {
        Path::Member(&self.path, key)
    }

    /// Returns a field without taking it. Null counts as absent.
    pub(crate) fn peek(&self, key: &str) -> Option<Json<'a>> {
        self.last(key).filter(|value| !value.is_null())
    }

    /// Takes a field of any type. Null counts as absent.
    pub(crate) fn any(&mut self, key: &str) -> Option<Json<'a>> {
        let value = self.last(key)?;
        self.members.retain(|(name, _)| name != key);
        Some(value).filter(|value| !value.is_null())
    }

    fn last(&self, key: &str) -> Option<Json<'a>> {
        #[cfg(debug_assertions)]
        assert!(
            super::field_case::is_known(key, self.is_camel),
            "`{key}` must be in the list of known fields"
        );
        let (_, value) = self.members.iter().rev().find(|(name, _)| name == key)?;
        Some(*value)
    }

    pub(crate) fn string(&mut self, key: &str) -> Result<Option<Cow<'a, str>>, Failure> {
        self.typed(key, "a string", |value| value.as_str())
    }

    pub(crate) fn needed_string(&mut self, key: &str) -> Result<Cow<'a, str>, Failure> {
        self.string(key)?.ok_or_else(|| missing(self.at(key), "a string"))
    }

    /// Takes a required string that may be long.
    pub(crate) fn needed_text(&mut self, key: &str) -> Result<Text, Failure> {
        let text = self.typed(key, "a string", Text::received)?;
        text.ok_or_else(|| missing(self.at(key), "a string"))
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Result<Option<bool>, Failure> {
        self.typed(key, "true or false", |value| value.as_bool())
    }

    pub(crate) fn count(&mut self, key: &str) -> Result<Option<u64>, Failure> {
        self.typed(key, "a whole number, 0 or more", |value| value.as_u64())
    }

    /// Takes a number, with its digits unchanged.
    pub(crate) fn number(&mut self, key: &str) -> Result<Option<Number>, Failure> {
        self.typed(key, "a number", |value| match value.to_value() {
            Value::Number(number) => Some(number),
            _ => None,
        })
    }

    /// Takes a string, or an array of strings. Empty if the field is absent.
    pub(crate) fn texts(&mut self, key: &str) -> Result<Vec<String>, Failure> {
        let Some(value) = self.any(key) else { return Ok(Vec::new()) };
        let path = self.at(key);
        let text = |(place, value): (usize, Json<'_>)| {
            let text = value.as_str().map(Cow::into_owned);
            text.ok_or_else(|| wrong_type(Path::Element(&path, place), "a string", value))
        };
        match (value.as_str(), value.kind()) {
            (Some(text), _) => Ok(vec![text.into_owned()]),
            (None, JsonKind::Array) => value.elements().enumerate().map(text).collect(),
            (None, _) => Err(wrong_type(path, "a string or an array of strings", value)),
        }
    }

    /// Takes an array. Empty if the field is absent.
    pub(crate) fn list(&mut self, key: &str) -> Result<impl Iterator<Item = Json<'a>> + use<'a>, Failure> {
        let list = self.typed(key, "an array", |value| (value.kind() == JsonKind::Array).then_some(value))?;
        Ok(list.into_iter().flat_map(|list| list.elements()))
    }

    pub(crate) fn object<'s>(&'s mut self, key: &'s str) -> Result<Option<Fields<'a, 's>>, Failure> {
        let value = self.any(key);
        value.map(|value| self.nested(self.at(key), value)).transpose()
    }

    pub(crate) fn needed_object<'s>(&'s mut self, key: &'s str) -> Result<Fields<'a, 's>, Failure> {
        match self.any(key) {
            Some(value) => self.nested(self.at(key), value),
            None => Err(missing(self.at(key), "an object")),
        }
    }

    pub(crate) fn keep(&mut self, key: &str, value: impl Into<Value>) {
        self.kept.insert(key.to_owned(), value.into());
    }

    /// Returns the fields that were not taken.
    pub(crate) fn into_rest(self) -> Map<String, Value> {
        let left = self.members.into_iter().map(|(key, value)| (key.into_owned(), value.to_value()));
        left.chain(self.kept).collect()
    }

    fn typed<T>(
        &mut self,
        key: &str,
        wanted: &str,
        convert: impl FnOnce(Json<'a>) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.any(key) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| wrong_type(self.at(key), wanted, value))
    }
}

/// Parses a request's body as a JSON object and passes its fields to `read`.
///
/// # Errors
/// [`Kind::Request`] if the body is not a JSON object, and the errors of `read`.
pub(crate) fn read_body<T>(
    body: &Bytes,
    read: impl FnOnce(Fields<'_, '_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    read_json(body, |json| read(Fields::new(Path::Body, json)?))
}

/// Parses a request's body and passes it to `read`.
///
/// # Errors
/// [`Kind::Request`] if the body is not JSON, and the errors of `read`.
pub(crate) fn read_json<T>(
    body: &Bytes,
    read: impl FnOnce(Json<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let text = str::from_utf8(body).map_err(|_| unreadable(body))?;
    let mut index = Index::default();
    index.read(text).map_err(|_| unreadable(body))?;
    let mended = if index.has_surrogates() { mend_surrogates(text) } else { Cow::Borrowed(text) };
    if let Cow::Owned(mended) = &mended {
        index.read(mended).map_err(|_| unreadable(body))?;
    }
    // If surrogates were replaced, the text is no longer part of `body`, and strings must be copied.
    read(index.view_of(&mended, body))
}

/// Describes why `body` is not valid JSON, using serde_json's message.
fn unreadable(body: &[u8]) -> Failure {
    let message = match serde_json::from_slice::<Value>(body) {
        _ if body.is_empty() => "the request body is empty; it must be a JSON object".to_owned(),
        Ok(_) => "the request body cannot be read as JSON".to_owned(),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let whole = error.to_string();
            let why = whole.split(" at line ").next().unwrap_or("syntax error");
            format!("the request body cannot be read as JSON: {why} at line {line}, column {column}")
        }
    };
    Failure::new(Kind::Request, message).with_code("invalid_json")
}

/// Maximum length of a number that an error quotes. A longer number is described as "a number".
const MAX_SHOWN: usize = 32;

/// The error for a field of the wrong type, or for a number out of range.
pub(crate) fn wrong_type(path: Path<'_>, wanted: &str, value: Json<'_>) -> Failure {
    let found = match value.kind() {
        JsonKind::Null => "null",
        JsonKind::Bool => "a boolean",
        JsonKind::Number if value.raw().len() <= MAX_SHOWN => &format!("the number {}", value.raw()),
        JsonKind::Number => "a number",
        JsonKind::String => "a string",
        JsonKind::Array => "an array",
        JsonKind::Object => "an object",
    };
    let failure = |place: String| {
        Failure::new(Kind::Request, format!("{place} must be {wanted}, but it is {found}"))
            .with_code("invalid_type")
    };
    match path {
        Path::Body => failure("the request body".to_owned()),
        path => failure(format!("`{path}`")).with_param(path.to_string()),
    }
}

/// The error for a field with an invalid value. `why` continues the sentence that starts with the field's
/// name.
pub(crate) fn wrong_value(path: Path<'_>, why: impl fmt::Display) -> Failure {
    let failure = Failure::new(Kind::Request, format!("`{path}` {why}"));
    failure.with_param(path.to_string()).with_code("invalid_value")
}

fn other_case(path: Path<'_>, known: &str) -> Failure {
    wrong_value(path, format_args!("is not `{known}`, but servers could take it for that"))
}

pub(crate) fn missing(path: Path<'_>, wanted: &str) -> Failure {
    Failure::new(Kind::Request, format!("`{path}` is missing; it must be {wanted}"))
        .with_param(path.to_string())
        .with_code("missing_required_parameter")
}

/// Maximum length of a tool's name in bytes, larger than in any API. Names that an upstream does not accept
/// are replaced (see [`Conversation::in_forms`](crate::conversation::Conversation::in_forms)).
pub(crate) const LONGEST_NAME: usize = 256;

/// Checks that a tool's name is readable text.
pub(crate) fn check_name(path: Path<'_>, name: &str) -> Result<(), Failure> {
    if name.trim().is_empty() {
        return Err(wrong_value(path, "is empty; a tool needs a name"));
    }
    if let Some(letter) = name.chars().find(|letter| letter.is_control()) {
        return Err(wrong_value(path, format_args!("has the control character {letter:?}")));
    }
    if name.len() > LONGEST_NAME {
        return Err(wrong_value(
            path,
            format_args!("is {} bytes long; {LONGEST_NAME} are allowed", name.len()),
        ));
    }
    Ok(())
}

/// Rejects tools with equal names. `list` is the path of their declarations.
pub(crate) fn check_names_differ(list: Path<'_>, tools: &[Tool]) -> Result<(), Failure> {
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    match names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next) {
        Some((name, _)) => Err(wrong_value(list, format_args!("declares `{name}` twice; names must differ"))),
        None => Ok(()),
    }
}

/// Rejects tool choices that cannot be satisfied. Hosted tools may satisfy a choice, so this must be called
/// after they have been declared.
pub fn check_choice(conversation: &Conversation) -> Result<(), Failure> {
    let Conversation { tools, server_tools, tool_choice, legacy_functions, .. } = conversation;
    let path = Path::Member(&Path::Body, if *legacy_functions { "function_call" } else { "tool_choice" });
    let names: &[String] = match tool_choice {
        ToolChoice::Auto | ToolChoice::None => return Ok(()),
        ToolChoice::Required if tools.is_empty() && server_tools.is_empty() => {
            return Err(wrong_value(path, "asks for a call, but no tools are declared"));
        }
        ToolChoice::Required => return Ok(()),
        ToolChoice::Named(name) => std::slice::from_ref(name),
        ToolChoice::Allowed { names, .. } => names,
    };
    let mut declared = tools.iter().map(|tool| &tool.name).chain(server_tools.iter().map(|tool| &tool.name));
    let unknown = match names {
        [only] => (!declared.any(|name| name == only)).then_some(only),
        names => {
            let declared: HashSet<&String> = declared.collect();
            names.iter().find(|name| !declared.contains(name))
        }
    };
    match unknown {
        Some(name) => {
            Err(wrong_value(path, format_args!("names `{name}`, which is not among the declared tools")))
        }
        None => Ok(()),
    }
}
