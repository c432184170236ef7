//! [`json_schema`]: converts the API's own `Schema`, which is a subset of OpenAPI's, to JSON Schema.

use serde_json::{Map, Value};

use crate::{field_case::camel_case, wire::json::MAX_DEPTH};

/// Keywords that JSON Schema does not have.
const DROPPED: [&str; 4] = ["nullable", "propertyOrdering", "example", "type"];

/// Keywords whose values the API also takes as strings, because they are 64-bit integers.
const COUNTS: [&str; 6] =
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];

/// Converts `schema`: types in capitals, `nullable`, and counts in strings.
pub(super) fn json_schema(schema: &Value) -> Value {
    converted(schema, 0)
}

fn converted(schema: &Value, depth: usize) -> Value {
    let Some(given) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return schema.clone() };
    let mut members = Map::new();
    let named = |key: &str| given.iter().find(|(name, _)| camel_case((*name).into()) == key);
    let is_nullable = named("nullable").is_some_and(|(_, value)| value == true);
    if let Some((_, kind)) = named("type")
        && let Some(kind) = kind_of(kind, is_nullable)
    {
        members.insert("type".to_owned(), kind);
    }
    for (key, value) in given {
        let key = camel_case(key.into());
        if DROPPED.contains(&&*key) || value.is_null() {
            continue;
        }
        let value = match (&*key, value) {
            ("properties" | "defs", Value::Object(properties)) => properties
                .iter()
                .map(|(name, schema)| (name.clone(), converted(schema, depth + 1)))
                .collect::<Map<_, _>>()
                .into(),
            ("items" | "additionalProperties", schema) => converted(schema, depth + 1),
            ("anyOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter().map(|schema| converted(schema, depth + 1)).collect()
            }
            (key, Value::String(count)) if COUNTS.contains(&key) => {
                count.parse::<u64>().map_or_else(|_| value.clone(), Value::from)
            }
            ("enum", Value::Array(words)) if is_nullable && !words.contains(&Value::Null) => {
                words.iter().cloned().chain([Value::Null]).collect()
            }
            _ => value.clone(),
        };
        let key = match &*key {
            "defs" => "$defs",
            "ref" => "$ref",
            key => key,
        };
        members.insert(key.to_owned(), value);
    }
    members.into()
}

/// The type as JSON Schema writes it. `None` if it is not specified.
fn kind_of(kind: &Value, is_nullable: bool) -> Option<Value> {
    let word = |kind: &Value| match kind {
        Value::String(word) => Value::from(word.to_ascii_lowercase()),
        other => other.clone(),
    };
    match kind {
        Value::String(name) if name.eq_ignore_ascii_case("TYPE_UNSPECIFIED") => None,
        Value::String(_) if is_nullable => Some(vec![word(kind), "null".into()].into()),
        Value::Array(kinds) => Some(kinds.iter().map(word).collect()),
        kind => Some(word(kind)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn own_schemas_become_json_schema() {
        let own = json!({
            "type": "OBJECT",
            "propertyOrdering": ["type", "list"],
            "properties": {
                "type": {"type": "STRING", "nullable": true, "enum": ["A"], "example": "A"},
                "list": {"type": "ARRAY", "minItems": "1", "max_items": "3", "items": {"type": "INTEGER", "format": "int32"}},
                "either": {"any_of": [{"type": "NUMBER"}, {"type": "NULL"}, {"type": "TYPE_UNSPECIFIED"}]},
            },
            "required": ["type"],
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "type": {"type": ["string", "null"], "enum": ["A", null]},
                "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer", "format": "int32"}},
                "either": {"anyOf": [{"type": "number"}, {"type": "null"}, {}]},
            },
            "required": ["type"],
        });
        assert_eq!(json_schema(&own), expected);
        assert_eq!(json_schema(&expected), expected, "JSON Schema stays as it is");
    }
}
