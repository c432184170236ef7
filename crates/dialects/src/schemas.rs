//! Converts the schemas of tools to what APIs accept: an API that rejects one schema rejects the complete
//! request (docs/protocols/chat.md#requests, docs/protocols/messages.md#requests).

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::{
    conversation::{Constraint, Conversation},
    tools::referred,
    wire::json::{Encoder, Json, Kind},
};

/// Keywords for alternatives. Several APIs reject them at the top level of the schema for arguments, but
/// accept them in nested schemas.
const CHOICES: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Other keywords that OpenAI's APIs reject at the top level.
const REFUSED: [&str; 3] = ["enum", "const", "not"];

/// Maximum number of schemas to read when alternatives are merged, because references may repeat them.
const MAX_SCHEMAS: usize = 256;

const MAX_DEPTH: usize = 16;

/// Maximum number of alternatives for one parameter. If there are more, it accepts any value.
const MAX_FORMS: usize = 32;

/// Whether the schema has alternatives or a reference at the top level.
pub(super) fn has_choices(schema: Json<'_>) -> bool {
    schema.members().any(|(key, _)| CHOICES.contains(&&*key) || key == "$ref")
}

/// Converts `schema` for OpenAI's APIs: to an object with properties and without alternatives, in which
/// arrays have items. `None` if no conversion is needed.
pub(super) fn for_openai(schema: Json<'_>) -> Option<Value> {
    let is_object = schema.get("type").is_some_and(|kind| kind.as_str().as_deref() == Some("object"));
    let is_refused = |key: &str| CHOICES.contains(&key) || REFUSED.contains(&key) || key == "$ref";
    let raw = schema.raw();
    let lacks_items = raw.matches("\"array\"").count() > raw.matches("\"items\"").count();
    let has_properties = schema.get("properties").is_some_and(|all| all.kind() == Kind::Object);
    let is_accepted = is_object && has_properties && !schema.members().any(|(key, _)| is_refused(&key));
    if is_accepted && !lacks_items {
        return None;
    }
    let schema = schema.to_value();
    let mut object = if is_accepted { schema } else { of_object(&schema) };
    if lacks_items {
        add_items(&mut object);
    }
    Some(object)
}

/// Writes the schema of a tool's arguments as one of an object, for APIs that require that.
pub(super) fn put_schema(body: &mut Encoder, schema: Option<Json<'_>>) {
    let kind = schema.and_then(|schema| schema.get("type")?.as_str());
    if let (Some(schema), Some("object")) = (schema, kind.as_deref()) {
        return body.raw(schema);
    }
    body.object(|body| {
        body.key("type").string("object");
        if schema.is_none() {
            body.key("properties").object(|_| {});
        }
        for (key, value) in schema.into_iter().flat_map(|schema| schema.members()) {
            if key != "type" {
                body.key(&key).raw(value);
            }
        }
    });
}

/// The schema that the response must match. Null allows any JSON, and `None` any text.
///
/// # Errors
/// The name of a field that cannot be expressed.
pub(super) fn response_form(conversation: &Conversation) -> Result<Option<Value>, &'static str> {
    if let Some(Constraint::Schema(schema)) = &conversation.constraint {
        return Ok(Some(schema.clone()));
    }
    let Some(format) = &conversation.sampling.response_format else { return Ok(None) };
    match format.get("type").and_then(Value::as_str) {
        Some("json_schema" | "json_object") => {
            Ok(Some(response_schema(format).map(Cow::into_owned).unwrap_or_default()))
        }
        Some("text") => Ok(None),
        _ => Err("response_format"),
    }
}

/// The schema in OpenAI's `response_format`, for APIs that take only a schema. The format's description becomes the
/// schema's, unless that has its own. `None` if there is no schema.
pub(super) fn response_schema(format: &Value) -> Option<Cow<'_, Value>> {
    let inner = format.get("json_schema").unwrap_or(format);
    let schema = inner.get("schema").filter(|schema| schema.is_object())?;
    let description = inner.get("description").filter(|description| description.is_string());
    match description.filter(|_| schema.get("description").is_none()) {
        Some(description) => {
            let mut schema = schema.clone();
            schema.as_object_mut()?.insert("description".to_owned(), description.clone());
            Some(Cow::Owned(schema))
        }
        None => Some(Cow::Borrowed(schema)),
    }
}

pub(super) fn without_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// Converts `schema` to an object with the parameters of all alternatives. A parameter is required if all
/// alternatives require it. Other constraints are dropped, so the result accepts more arguments.
pub(super) fn of_object(schema: &Value) -> Value {
    let mut reading = Reading { root: schema, left: MAX_SCHEMAS };
    let parameters = reading.parameters(schema, 0);
    let mut object = Map::new();
    object.insert("type".to_owned(), "object".into());
    let described = reading.referred(schema).and_then(|target| target.get("description"));
    if let Some(described) = described {
        object.insert("description".to_owned(), described.clone());
    }
    let is_own = |key: &str| {
        let is_joined = matches!(key, "type" | "properties" | "required" | "$ref" | "nullable");
        !(is_joined || CHOICES.contains(&key) || REFUSED.contains(&key))
    };
    for (key, value) in schema.as_object().into_iter().flatten().filter(|(key, _)| is_own(key)) {
        object.insert(key.clone(), value.clone());
    }
    object.insert("properties".to_owned(), parameters.properties.into());
    if !parameters.required.is_empty() {
        object.insert("required".to_owned(), parameters.required.into());
    }
    object.into()
}

#[derive(Debug, Default)]
struct Parameters {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Parameters {
    /// Adds the properties of an alternative. If several alternatives have the same property, its value may match
    /// the schema of any of them.
    fn add(&mut self, properties: Map<String, Value>) {
        for (name, form) in properties {
            match self.properties.get_mut(&name) {
                None => _ = self.properties.insert(name, form),
                Some(own) if *own == form => {}
                Some(own) => add_form(own, form),
            }
        }
    }

    fn require(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if !self.required.contains(&name) {
                self.required.push(name);
            }
        }
    }
}

fn add_form(own: &mut Value, form: Value) {
    if own.as_object().is_some_and(Map::is_empty) {
        return;
    }
    let forms = own.as_object_mut().filter(|own| own.len() == 1).and_then(|own| own.get_mut("anyOf"));
    match forms.and_then(Value::as_array_mut) {
        Some(forms) if forms.len() >= MAX_FORMS => *own = json!({}),
        Some(forms) if forms.contains(&form) => {}
        Some(forms) => forms.push(form),
        None => *own = json!({"anyOf": [own.take(), form]}),
    }
}

struct Reading<'s> {
    root: &'s Value,
    left: usize,
}

impl<'s> Reading<'s> {
    fn referred(&self, schema: &Value) -> Option<&'s Value> {
        referred(self.root, schema.get("$ref")?.as_str()?)
    }

    fn parameters(&mut self, schema: &'s Value, depth: usize) -> Parameters {
        let mut found = Parameters::default();
        let Some(members) = schema.as_object().filter(|_| depth < MAX_DEPTH && self.left > 0) else {
            return found;
        };
        self.left -= 1;
        if let Some(Value::Object(properties)) = members.get("properties") {
            found.properties.clone_from(properties);
        }
        let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
        found.require(required.filter_map(Value::as_str).map(str::to_owned));
        let all = members.get("allOf").and_then(Value::as_array).into_iter().flatten();
        for part in self.referred(schema).into_iter().chain(all) {
            let Parameters { properties, required } = self.parameters(part, depth + 1);
            found.add(properties);
            found.require(required);
        }
        for key in ["anyOf", "oneOf"] {
            let Some(choices) = members.get(key).and_then(Value::as_array) else { continue };
            let mut common: Option<Vec<String>> = None;
            for choice in choices {
                let Parameters { properties, required } = self.parameters(choice, depth + 1);
                found.add(properties);
                match &mut common {
                    Some(common) => common.retain(|name| required.contains(name)),
                    None => common = Some(required),
                }
            }
            found.require(common.unwrap_or_default());
        }
        found
    }
}

fn add_items(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_array = |word: &Value| word == "array";
            let is_array = match members.get("type") {
                Some(Value::Array(words)) => words.iter().any(is_array),
                Some(word) => is_array(word),
                None => false,
            };
            if is_array && !members.contains_key("items") && !members.contains_key("prefixItems") {
                members.insert("items".to_owned(), json!({}));
            }
            members.values_mut().for_each(add_items);
        }
        Value::Array(elements) => elements.iter_mut().for_each(add_items),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openai(schema: &Value) -> Option<Value> {
        for_openai(Json::parse(&schema.to_string()).unwrap())
    }

    #[test]
    fn alternatives_become_one_object_with_all_parameters() {
        let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
        for (schema, expected) in [
            (
                json!({"type": "object", "title": "T", "properties": {"a": text, "b": text}, "additionalProperties": false,
                    "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
                json!({"type": "object", "title": "T", "properties": {"a": text, "b": text}, "additionalProperties": false}),
            ),
            (
                json!({"oneOf": [
                    {"type": "object", "properties": {"k": {"const": "x"}, "a": text}, "required": ["k", "a"]},
                    {"$ref": "#/$defs/B"}, {"type": "object", "properties": {"k": {"const": "x"}}, "required": ["k"]}],
                    "$defs": {"B": {"properties": {"k": {"const": "y"}, "b": number}, "required": ["b", "k"]}}}),
                json!({"type": "object", "required": ["k"],
                    "properties": {"k": {"anyOf": [{"const": "x"}, {"const": "y"}]}, "a": text, "b": number},
                    "$defs": {"B": {"properties": {"k": {"const": "y"}, "b": number}, "required": ["b", "k"]}}}),
            ),
            (
                json!({"allOf": [{"properties": {"a": text}, "required": ["a"]}, {"anyOf": [{"properties": {"b": text}}]}],
                    "required": ["c"], "properties": {"c": {"oneOf": [text, number]}}}),
                json!({"type": "object", "required": ["c", "a"],
                    "properties": {"c": {"oneOf": [text, number]}, "a": text, "b": text}}),
            ),
            (
                json!({"$ref": "#/definitions/A", "definitions": {"A": {"description": "D", "properties": {"a": text}}}}),
                json!({"type": "object", "description": "D", "properties": {"a": text},
                    "definitions": {"A": {"description": "D", "properties": {"a": text}}}}),
            ),
        ] {
            assert_eq!(of_object(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn alternatives_that_repeat_themselves_end() {
        let node = json!({"$ref": "#"});
        let tree = json!({"properties": {"a": {}}, "anyOf": [node, node, {"allOf": [node, node]}]});
        assert_eq!(of_object(&tree), json!({"type": "object", "properties": {"a": {}}}));
        let many: Vec<Value> = (0..10_000).map(|n| json!({"properties": {"a": {"const": n}}})).collect();
        let joined = of_object(&json!({"anyOf": many}));
        assert_eq!(joined["properties"], json!({"a": {}}));
    }

    #[test]
    fn openai_gets_objects_with_properties_and_arrays_with_items() {
        let empty = without_parameters();
        for (schema, expected) in [
            (json!({"type": "object", "properties": {"a": {}}}), None),
            (
                json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "array", "items": {}}]}}}),
                None,
            ),
            (json!({"type": "object"}), Some(empty.clone())),
            (json!({}), Some(empty.clone())),
            (json!({"type": ["object", "null"]}), Some(empty)),
            (
                json!({"type": "object", "additionalProperties": false}),
                Some(json!({"type": "object", "properties": {}, "additionalProperties": false})),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": ["array", "null"]}, "b": {"type": "array", "items": {}}}}),
                Some(json!({"type": "object", "properties": {
                    "a": {"type": ["array", "null"], "items": {}}, "b": {"type": "array", "items": {}}}})),
            ),
        ] {
            assert_eq!(openai(&schema), expected, "{schema}");
        }
    }
}
