//! [`arguments`]: creates example arguments for a tool from its schema.
//!
//! If the schema lists values (`const`, `examples`, `default`, `enum`), one of them is used. Otherwise, the
//! value is chosen by type, `format` and name. Values that some notation cannot represent unambiguously are
//! not used: strings with quotes, line breaks or markup, and strings that look like numbers.

use std::borrow::Cow;

use super::guess;
use crate::{
    tools::{References, Schema, Types},
    wire::json::{Encoder, Json, Kind},
};

/// Maximum nesting depth of example values.
const MAX_DEPTH: usize = 4;

/// Maximum number of schemas to visit for one example.
const MAX_STEPS: usize = 128;

/// Maximum number of required arguments that a tool may have to serve as an example.
const MAX_REQUIRED: usize = 8;

/// Maximum number of properties to consider as optional arguments.
const MAX_OPTIONAL: usize = 32;

/// Maximum number of a schema's keywords to consider.
const MAX_KEYWORDS: usize = 64;

/// Maximum length of a value in characters.
const MAX_TEXT: usize = 60;

/// How values are read back from a notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadBack {
    /// Each value shows its type.
    Typed,
    /// Everything is text, and scalars get the type declared in the schema.
    Text,
    /// Like `Text`, but objects and arrays are elements, for which the schema must declare a type.
    Elements,
}

/// Creates example arguments as a JSON object. `None` if some required argument has no value that can be
/// shown. If the schema allows it, different variants give different examples.
pub(super) fn arguments(
    schema: Option<&References<'_>>,
    read_back: ReadBack,
    variant: usize,
) -> Option<String> {
    let Some(references) = schema else { return Some("{}".to_owned()) };
    let mut sampler = Sampler { references, read_back, variant, guessed: 0, steps: MAX_STEPS };
    let object = Keywords::of(sampler.resolve(references.root())?);
    let mut members = sampler.required(&object, 0)?;
    // Small models give every optional argument that an example has, whether the request mentions it or not.
    if members.is_empty()
        && let Some(member) = sampler.optional(&object)
    {
        members.push(member);
    }
    Some(written(&members))
}

/// Creates arguments with placeholder strings for tools without example arguments: the required arguments
/// whose names can be shown, or else the first argument.
pub(super) fn placeholders(schema: Option<Json<'_>>) -> String {
    let schema = schema.unwrap_or_default();
    let required = schema.get("required").into_iter().flat_map(|required| required.elements());
    let required = required.filter_map(|key| Some(key.as_str()?.into_owned())).take(MAX_REQUIRED);
    let properties = schema.get("properties").into_iter().flat_map(|properties| properties.members());
    let is_declared = |key: &String| {
        is_plain_name(key) && schema.get("properties").is_some_and(|properties| properties.get(key).is_some())
    };
    let mut keys: Vec<String> = required.filter(is_declared).collect();
    if keys.is_empty() {
        let keyed = properties.map(|(key, _)| key.into_owned()).take(MAX_OPTIONAL);
        keys = keyed.filter(|key| is_plain_name(key)).take(1).collect();
    }
    keys.dedup();
    written(&keys.into_iter().map(|key| (key, quoted("value"))).collect::<Vec<_>>())
}

/// Whether the name of a tool or argument is safe in every notation.
pub(super) fn is_plain_name(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    begins && name.len() <= 64 && name.chars().all(plain)
}

type Member = (String, String);

/// The keywords of a schema, of which many are asked for.
#[derive(Debug, Default)]
pub(super) struct Keywords<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Keywords<'a> {
    fn of(schema: Json<'a>) -> Self {
        Self(schema.members().take(MAX_KEYWORDS).collect())
    }

    /// The first member with this name.
    pub(super) fn get(&self, name: &str) -> Option<Json<'a>> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }
}

struct Sampler<'r, 'a> {
    references: &'r References<'a>,
    read_back: ReadBack,
    variant: usize,
    /// The number of values that nothing in the schema suggests. Each is different, since small models do not notice
    /// which of two equal values belongs to an argument.
    guessed: usize,
    steps: usize,
}

impl<'a> Sampler<'_, 'a> {
    /// Resolves local references. `None` if there are too many, or a target does not exist.
    fn resolve(&mut self, schema: Json<'a>) -> Option<Json<'a>> {
        self.steps = self.steps.checked_sub(1)?;
        self.references.resolved(schema)
    }

    fn required(&mut self, object: &Keywords<'a>, depth: usize) -> Option<Vec<Member>> {
        let mut members = Vec::new();
        let Some(required) = object.get("required") else { return Some(members) };
        let properties = object.get("properties").unwrap_or_default();
        for (place, key) in required.elements().enumerate() {
            let key = key.as_str()?;
            if place == MAX_REQUIRED {
                return None;
            }
            if !members.iter().any(|(known, _)| *known == *key) {
                members.push((key.to_string(), self.member(properties.get(&key)?, &key, depth)?));
            }
        }
        Some(members)
    }

    /// A short optional argument, preferably one for which the schema lists values.
    fn optional(&mut self, object: &Keywords<'a>) -> Option<Member> {
        let properties = object.get("properties")?;
        let candidates: Vec<_> = properties.members().take(MAX_OPTIONAL).collect();
        let listed = candidates.iter().filter(|(_, schema)| schema.get("enum").is_some());
        let all = listed.chain(candidates.iter());
        for (key, schema) in all {
            if let Some(value) = self.member(*schema, key, 0).filter(|value| value.len() <= MAX_TEXT) {
                return Some((key.to_string(), value));
            }
        }
        None
    }

    fn member(&mut self, schema: Json<'a>, key: &str, depth: usize) -> Option<String> {
        if !is_plain_name(key) {
            return None;
        }
        self.value(schema, key, depth + 1)
    }

    /// A value for an argument called `key`, as JSON.
    fn value(&mut self, schema: Json<'a>, key: &str, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        let types = Schema::read(schema, self.references).types;
        let schema = &Keywords::of(self.resolve(schema)?);
        if let Some(value) = self.listed(schema, types) {
            return Some(value);
        }
        if ["const", "enum"].iter().any(|key| schema.get(key).is_some()) {
            return None;
        }
        for branches in ["anyOf", "oneOf", "allOf"] {
            for branch in schema.get(branches).into_iter().flat_map(|branches| branches.elements()) {
                let value = self.value(branch, key, depth + 1).filter(|value| self.is_readable(value, types));
                if value.is_some() {
                    return value;
                }
            }
        }
        let value = self.of_type(schema, key, depth)?;
        self.is_readable(&value, types).then_some(value)
    }

    /// A value that the schema lists.
    fn listed(&self, schema: &Keywords<'a>, types: Types) -> Option<String> {
        let fits = |value: &Json<'a>| {
            let short = value.raw().len() <= MAX_TEXT && !value.is_null();
            short && is_plain(*value) && self.is_readable(value.raw(), types)
        };
        let one = |key: &str| schema.get(key).filter(|value| fits(value));
        let several = |key: &str| {
            let fitting: Vec<_> =
                schema.get(key)?.elements().take(64).filter(|value| fits(value)).take(8).collect();
            fitting.get(self.variant % fitting.len().max(1)).copied()
        };
        if schema.get("const").is_some() {
            return one("const").map(compact);
        }
        let listed = schema.get("enum").is_some();
        let named = several("examples").or_else(|| one("example")).filter(|_| !listed);
        let default = one("default").filter(|_| !listed);
        named.or_else(|| several("enum")).or(default).map(compact)
    }

    /// Whether the notation can read this value back, given the declared types.
    fn is_readable(&self, value: &str, types: Types) -> bool {
        let Ok(json) = Json::parse(value) else { return false };
        let undeclared = types == Types::default();
        match (self.read_back, json.kind()) {
            (ReadBack::Typed, _) => true,
            (_, Kind::String) => {
                let literal = json.as_str().is_some_and(|text| reads_as_literal(&text));
                types.is_string() || !literal && (undeclared || types.has(Types::STRING))
            }
            (ReadBack::Elements, Kind::Object) => types.has(Types::OBJECT) && !types.has(Types::ARRAY),
            (ReadBack::Elements, Kind::Array) => types.has(Types::ARRAY) && !types.has(Types::OBJECT),
            _ => undeclared || !types.has(Types::STRING) && types.has(Types::of_value(json)),
        }
    }

    fn of_type(&mut self, schema: &Keywords<'a>, key: &str, depth: usize) -> Option<String> {
        let named = schema.get("type");
        let listed = named
            .into_iter()
            .flat_map(|named| named.elements())
            .find_map(|name| name.as_str().filter(|name| *name != "null"));
        let name = named.and_then(|name| name.as_str()).or(listed);
        match name.as_deref().unwrap_or_default() {
            "integer" => guess::number(schema, key, true, self.variant, &mut self.guessed),
            "number" => guess::number(schema, key, false, self.variant, &mut self.guessed),
            "boolean" => Some("true".to_owned()),
            "array" => self.array(schema, key, depth),
            "object" => self.object(schema, depth),
            "" if schema.get("properties").is_some() => self.object(schema, depth),
            "" if schema.get("items").is_some() => self.array(schema, key, depth),
            "string" | "" => self.text(schema, key),
            _ => None,
        }
    }

    fn text(&mut self, schema: &Keywords<'_>, key: &str) -> Option<String> {
        guess::text(schema, key, self.variant, &mut self.guessed).map(|text| quoted(&text))
    }

    fn object(&mut self, schema: &Keywords<'a>, depth: usize) -> Option<String> {
        let mut members = self.required(schema, depth)?;
        if members.is_empty() {
            let first = schema.get("properties").and_then(|properties| properties.members().next());
            members.push(match first {
                Some((key, schema)) => (key.to_string(), self.member(schema, &key, depth)?),
                None => ("key".to_owned(), quoted("value")),
            });
        }
        Some(written(&members))
    }

    fn array(&mut self, schema: &Keywords<'a>, key: &str, depth: usize) -> Option<String> {
        let least = schema.get("minItems").and_then(|least| least.as_u64()).unwrap_or(1).max(1);
        let items = schema.get("items").unwrap_or_default();
        if least > 3 || schema.get("prefixItems").is_some() || items.kind() == Kind::Array {
            return None;
        }
        let mut values = Vec::new();
        let before = self.variant;
        for place in 0..least {
            self.variant = before.wrapping_add(usize::try_from(place).unwrap_or_default());
            let value = match items.kind() {
                Kind::Object => self.value(items, key.strip_suffix('s').unwrap_or(key), depth + 1),
                _ => self.text(&Keywords::default(), key),
            };
            self.variant = before;
            // Lists of lists are ambiguous if the notation writes the elements of a list as `<item>` and the
            // argument is also called `item`.
            values.push(value.filter(|value| !value.starts_with('['))?);
        }
        Some(format!("[{}]", values.join(",")))
    }
}

fn written(members: &[Member]) -> String {
    let members: Vec<_> = members.iter().map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
    format!("{{{}}}", members.join(","))
}

fn quoted(text: &str) -> String {
    let mut json = Encoder::default();
    json.string(text);
    json.finish_text()
}

fn compact(value: Json<'_>) -> String {
    let mut json = Encoder::default();
    json.compact(value);
    json.finish_text()
}

/// Whether a value from the schema can be written in every notation, because it is a short string of ordinary
/// characters, or another scalar.
fn is_plain(value: Json<'_>) -> bool {
    match value.kind() {
        Kind::Bool => true,
        Kind::Number => !value.raw().contains(['e', 'E']),
        Kind::String => value.as_str().is_some_and(|text| is_plain_text(&text)),
        Kind::Null | Kind::Array | Kind::Object => false,
    }
}

fn is_plain_text(text: &str) -> bool {
    let plain = |character: char| character.is_alphanumeric() || " -_./:@,+?!&=°".contains(character);
    !text.is_empty() && text.trim() == text && text.chars().count() <= MAX_TEXT && text.chars().all(plain)
}

/// Whether a notation without types could take `text` for something other than a string.
fn reads_as_literal(text: &str) -> bool {
    let word = ["true", "false", "null", "none", "nan", "infinity"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    word || text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.'))
}
