//! [`reduced`]: converts a JSON Schema to the API's own `Schema`, which is a subset of OpenAPI's.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::tools::referred;

/// Maximum depth to which references and nested schemas are followed, because schemas may be recursive.
const MAX_DEPTH: usize = 24;

/// Maximum number of schemas in the result, since replacing references with their targets multiplies the
/// schemas.
const MAX_VALUES: usize = 10_000;

/// Approximate maximum number of bytes by which the schemas of a request may grow when references are
/// replaced with their targets. Beyond it, a reference allows any value.
pub(super) const MAX_FOLLOWED: usize = 4 << 20;

const KEPT: [&str; 11] = [
    "description",
    "title",
    "nullable",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "default",
];

/// Keywords that are kept beside a reference.
const BESIDE: [&str; 3] = ["description", "title", "default"];

const FORMATS: [&str; 6] = ["enum", "date-time", "int32", "int64", "float", "double"];

/// Converts `schema`. Keywords that cannot be expressed are left out, so the result accepts more values.
/// `follows` is the remaining part of [`MAX_FOLLOWED`].
pub(super) fn reduced(schema: &Value, follows: &mut usize) -> Value {
    Reduction { root: schema, left: MAX_VALUES, follows, references: 0 }.schema(schema, 0)
}

struct Reduction<'s, 'f> {
    root: &'s Value,
    left: usize,
    /// Number of bytes that may still be written for the targets of references.
    follows: &'f mut usize,
    /// Number of references currently being followed.
    references: usize,
}

impl<'s> Reduction<'s, '_> {
    fn schema(&mut self, schema: &'s Value, depth: usize) -> Value {
        let mut reduced = Map::new();
        let Some(members) = schema.as_object().filter(|_| depth < MAX_DEPTH && self.left > 0) else {
            return reduced.into();
        };
        self.left -= 1;
        if self.references > 0 {
            let left = self.follows.checked_sub(cost(members));
            *self.follows = left.unwrap_or(0);
            if left.is_none() {
                return reduced.into();
            }
        }
        let target = members.get("$ref").and_then(Value::as_str).and_then(|name| referred(self.root, name));
        if let Some(target) = target {
            self.references += 1;
            let mut reduced = self.schema(target, depth + 1);
            self.references -= 1;
            // What stands beside a reference is closer to the value than its target.
            if let Some(reduced) = reduced.as_object_mut().filter(|reduced| !reduced.is_empty()) {
                let beside = BESIDE.iter().filter_map(|key| Some((key, members.get(*key)?)));
                reduced.extend(beside.map(|(key, value)| ((*key).to_owned(), value.clone())));
            }
            return reduced;
        }
        for key in KEPT {
            if let Some(value) = members.get(key) {
                reduced.insert(key.to_owned(), value.clone());
            }
        }
        kind(members, &mut reduced);
        if let Some(format) =
            members.get("format").filter(|format| format.as_str().is_some_and(|word| FORMATS.contains(&word)))
        {
            reduced.insert("format".to_owned(), format.clone());
        }
        self.values(members, &mut reduced);
        if let Some(items) = members.get("items") {
            reduced.insert("items".to_owned(), self.schema(items, depth + 1));
        }
        self.object(members, depth, &mut reduced);
        self.all(members, depth, &mut reduced);
        self.choices(members, depth, &mut reduced);
        if matches!(members.get("type"), Some(Value::String(kind)) if kind == "array") {
            // The API rejects an array without items.
            reduced.entry("items").or_insert_with(|| json!({"type": "string"}));
        }
        with_lone_choices(reduced).into()
    }

    /// Converts `enum` and `const`. Only strings can be listed.
    fn values(&self, members: &Map<String, Value>, reduced: &mut Map<String, Value>) {
        let single = members.get("const").map(std::slice::from_ref);
        let listed = members.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        if let Some(values) = listed.or(single)
            && !values.is_empty()
            && values.iter().all(Value::is_string)
        {
            reduced.insert("type".to_owned(), "string".into());
            // The API rejects an empty string here.
            let values: Vec<Value> = values.iter().filter(|value| *value != "").cloned().collect();
            if !values.is_empty() {
                reduced.insert("enum".to_owned(), values.into());
            }
        }
    }

    fn object(&mut self, members: &'s Map<String, Value>, depth: usize, reduced: &mut Map<String, Value>) {
        let Some(properties) = members.get("properties").and_then(Value::as_object) else { return };
        let required =
            members.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_known = |name: &&Value| name.as_str().is_some_and(|name| properties.contains_key(name));
        let required: Vec<Value> = required.iter().filter(is_known).cloned().collect();
        let inner = properties.iter().map(|(name, schema)| (name.clone(), self.schema(schema, depth + 1)));
        reduced.insert("properties".to_owned(), inner.collect::<Map<_, _>>().into());
        if !required.is_empty() {
            reduced.insert("required".to_owned(), required.into());
        }
    }

    /// Converts `allOf`, whose schemas all apply.
    fn all(&mut self, members: &'s Map<String, Value>, depth: usize, reduced: &mut Map<String, Value>) {
        for part in members.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if let Value::Object(part) = self.schema(part, depth + 1) {
                merge(reduced, part);
            }
        }
    }

    /// Converts `anyOf` and `oneOf`. The alternative `null` makes the value nullable.
    fn choices(&mut self, members: &'s Map<String, Value>, depth: usize, reduced: &mut Map<String, Value>) {
        let choices = members.get("anyOf").or_else(|| members.get("oneOf")).and_then(Value::as_array);
        let Some(choices) = choices else { return };
        let is_null = |choice: &&Value| choice.get("type").and_then(Value::as_str) == Some("null");
        if choices.iter().any(|choice| is_null(&choice)) {
            reduced.insert("nullable".to_owned(), true.into());
        }
        let mut others = choices.iter().filter(|choice| !is_null(choice)).peekable();
        let first = others.next();
        if others.peek().is_none() {
            // A single alternative replaces the schema itself.
            if let Some(Value::Object(only)) = first.map(|choice| self.schema(choice, depth + 1)) {
                only.into_iter().for_each(|(key, value)| _ = reduced.entry(key).or_insert(value));
            }
            return;
        }
        let all = first.into_iter().chain(others);
        let all: Vec<Value> = all.map(|choice| self.schema(choice, depth + 1)).collect();
        reduced.insert("anyOf".to_owned(), all.into());
    }
}

/// Adds the keywords of `part` to `reduced`. Properties and required names are merged.
fn merge(reduced: &mut Map<String, Value>, part: Map<String, Value>) {
    for (key, value) in part {
        match (reduced.get_mut(&key), value) {
            (Some(Value::Object(own)), Value::Object(more)) if key == "properties" => {
                more.into_iter().for_each(|(name, schema)| _ = own.entry(name).or_insert(schema));
            }
            (Some(Value::Array(own)), Value::Array(more)) if key == "required" => {
                let known: HashSet<String> =
                    own.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                own.extend(
                    more.into_iter().filter(|name| name.as_str().is_none_or(|name| !known.contains(name))),
                );
            }
            (Some(_), _) => {}
            (None, value) => _ = reduced.insert(key, value),
        }
    }
}

/// Makes `anyOf` the only keyword, since the API rejects other keywords beside it. If the schema has properties,
/// it gets those of all alternatives instead of `anyOf`. Otherwise, its keywords are copied into each
/// alternative.
fn with_lone_choices(mut reduced: Map<String, Value>) -> Map<String, Value> {
    if reduced.len() < 2 {
        return reduced;
    }
    let Some(Value::Array(choices)) = reduced.remove("anyOf") else { return reduced };
    let choices = choices.into_iter().filter_map(|choice| match choice {
        // Everything in this alternative was left out because the API cannot express it.
        Value::Object(choice) if choice.is_empty() => None,
        Value::Object(choice) => Some(choice),
        _ => None,
    });
    if reduced.contains_key("properties") {
        for mut choice in choices {
            choice.retain(|key, _| key == "properties");
            merge(&mut reduced, choice);
        }
        return reduced;
    }
    // Only the first alternative gets long keywords, so that they are not multiplied by the number of
    // alternatives.
    let is_short = |value: &Value| {
        value.as_str().is_none_or(|text| text.len() <= 256) && !value.is_array() && !value.is_object()
    };
    let beside = |(place, mut choice): (usize, Map<String, Value>)| {
        for (key, value) in reduced.iter().filter(|(_, value)| place == 0 || is_short(value)) {
            choice.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(choice)
    };
    let choices: Vec<Value> = choices.enumerate().map(beside).collect();
    if choices.is_empty() {
        return reduced;
    }
    Map::from_iter([("anyOf".to_owned(), choices.into())])
}

/// Approximate number of bytes that must be written and visited for a schema, not counting nested schemas.
fn cost(members: &Map<String, Value>) -> usize {
    const EACH: usize = 16;
    let own = members.iter().map(|(key, value)| match (key.as_str(), value) {
        ("properties", Value::Object(properties)) => properties.keys().map(|key| EACH + key.len()).sum(),
        ("default" | "const", value) => value.to_string().len(),
        (_, Value::String(text)) => text.len(),
        (_, Value::Array(values)) => {
            values.iter().map(|value| EACH + value.as_str().map_or(0, str::len)).sum()
        }
        _ => 1,
    });
    own.fold(4 * EACH, usize::saturating_add)
}

/// Converts `type` to a single word. Several types become a single type with `nullable`, or alternatives.
fn kind(members: &Map<String, Value>, reduced: &mut Map<String, Value>) {
    let words: Vec<&str> = match members.get("type") {
        Some(Value::String(word)) => vec![word],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        _ if members.contains_key("properties") => vec!["object"],
        _ => return,
    };
    let others: Vec<&str> = words.iter().copied().filter(|word| *word != "null").collect();
    if others.len() < words.len() {
        reduced.insert("nullable".to_owned(), true.into());
    }
    match others.as_slice() {
        [] => {}
        [word] => _ = reduced.insert("type".to_owned(), (*word).into()),
        several => {
            let choice =
                |word: &&str| Value::Object(Map::from_iter([("type".to_owned(), Value::from(*word))]));
            reduced.insert("anyOf".to_owned(), several.iter().map(choice).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_reduced_to_what_the_api_has() {
        let schema = json!({
            "$schema": "x", "type": "object", "additionalProperties": false, "required": ["a", "z"],
            "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number", "exclusiveMinimum": 0}}}},
            "properties": {
                "a": {"type": ["string", "null"], "format": "uri", "description": "D"},
                "b": {"const": "k"},
                "c": {"anyOf": [{"type": "integer", "format": "int32"}, {"type": "null"}]},
                "d": {"$ref": "#/$defs/Point", "description": "P"},
                "e": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "boolean"}]}},
                "f": {"enum": [1, 2]},
                "g": {"type": ["string", "integer"]},
            },
        });
        let expected = json!({
            "type": "object", "required": ["a"],
            "properties": {
                "a": {"description": "D", "nullable": true, "type": "string"},
                "b": {"type": "string", "enum": ["k"]},
                "c": {"nullable": true, "type": "integer", "format": "int32"},
                "d": {"type": "object", "properties": {"x": {"type": "number"}}, "description": "P"},
                "e": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}},
                "f": {},
                "g": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            },
        });
        assert_eq!(reduced(&schema, &mut { MAX_FOLLOWED }), expected);
    }

    #[test]
    fn schemas_that_refer_to_themselves_end() {
        let node = json!({"$ref": "#/$defs/N"});
        let both = json!({"type": "object", "properties": {"l": node, "r": node}});
        let tree = json!({"$ref": "#/$defs/N", "$defs": {"N": both}});
        assert!(reduced(&tree, &mut { MAX_FOLLOWED }).to_string().len() < 2_000_000);
        let endless = json!({"$ref": "#/$defs/N", "$defs": {"N": node}});
        assert_eq!(reduced(&endless, &mut { MAX_FOLLOWED }), json!({}));
    }

    /// Even a reference to a large schema costs the client only a few bytes.
    #[test]
    fn references_to_a_large_schema_are_followed_up_to_a_limit() {
        let large = json!({"type": "string", "description": "d".repeat(1000)});
        let properties: Map<_, _> =
            (0..100).map(|number| (format!("p{number}"), json!({"$ref": "#/$defs/large"}))).collect();
        let schema = json!({"type": "object", "properties": properties, "$defs": {"large": large}});
        let mut follows = 20_000;
        let reduced = reduced(&schema, &mut follows);
        let whole =
            reduced["properties"].as_object().unwrap().values().filter(|value| !value["type"].is_null());
        assert_eq!((whole.count(), follows), (18, 0));
    }
}
