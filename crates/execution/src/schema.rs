//! [`of_arguments`]: converts the schema of a tool's arguments to a form that all upstreams accept.
//!
//! If an upstream rejects a schema, it rejects every request that declares the tool. So schemas from providers are
//! checked first: an unambiguous mistake is corrected, and any other one is an error.

use serde_json::{Map, Value, json};

/// Maximum nesting depth of schemas.
const MAX_DEPTH: usize = 64;

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// Members whose value is a schema.
const SCHEMAS: [&str; 10] = [
    "items",
    "additionalProperties",
    "additionalItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
];

/// Members whose value is an object that contains schemas.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Members whose value is a list of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Members that may be `null`, because any value is valid.
const VALUES: [&str; 4] = ["default", "const", "example", "examples"];

/// Why a schema cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SchemaFault {
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("it does not describe an object")]
    DescribesNoObject,
    #[error("it is nested too deeply")]
    TooDeep,
    #[error("`{0}` is invalid")]
    Invalid(String),
}

/// Checks that the schema describes an object, corrects it, and adds `properties` if they are missing.
///
/// # Errors
/// Why the schema cannot be used.
pub(super) fn of_arguments(schema: Value) -> Result<Value, SchemaFault> {
    let Value::Object(mut schema) = schema else { return Err(SchemaFault::NotAnObject) };
    mend(&mut schema, 0)?;
    let is_object = match schema.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    };
    if !is_object {
        return Err(SchemaFault::DescribesNoObject);
    }
    schema.insert("type".to_owned(), json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    Ok(Value::Object(schema))
}

/// Checks and corrects a schema. Removes members for which `null` has no meaning: some servers write `null` for absent
/// members.
fn mend(schema: &mut Map<String, Value>, depth: usize) -> Result<(), SchemaFault> {
    if depth > MAX_DEPTH {
        return Err(SchemaFault::TooDeep);
    }
    schema.retain(|key, value| !value.is_null() || VALUES.contains(&key.as_str()));
    for (key, value) in schema.iter_mut() {
        let wrong = || SchemaFault::Invalid(key.clone());
        match key.as_str() {
            "type" if !is_type(value) => return Err(wrong()),
            "required" if !is_list_of_names(value) => return Err(wrong()),
            "enum" if !value.is_array() => return Err(wrong()),
            // In older versions of JSON Schema, this can be a list.
            "items" if value.is_array() => each(value.as_array_mut().into_iter().flatten(), depth, wrong)?,
            key if SCHEMAS.contains(&key) => each([value].into_iter(), depth, wrong)?,
            key if NAMED.contains(&key) => {
                let members = value.as_object_mut().ok_or_else(wrong)?;
                each(members.values_mut(), depth, wrong)?;
            }
            key if LISTS.contains(&key) => {
                let elements = value.as_array_mut().filter(|elements| !elements.is_empty());
                each(elements.ok_or_else(wrong)?.iter_mut(), depth, wrong)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn each<'v>(
    schemas: impl Iterator<Item = &'v mut Value>,
    depth: usize,
    wrong: impl Fn() -> SchemaFault,
) -> Result<(), SchemaFault> {
    for schema in schemas {
        match schema {
            Value::Object(schema) => mend(schema, depth + 1)?,
            Value::Bool(_) => {}
            _ => return Err(wrong()),
        }
    }
    Ok(())
}

fn is_type(value: &Value) -> bool {
    let is_known = |value: &Value| value.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match value {
        Value::Array(types) => !types.is_empty() && types.iter().all(is_known),
        value => is_known(value),
    }
}

fn is_list_of_names(value: &Value) -> bool {
    // In older versions of JSON Schema, this is a boolean in the property's schema.
    value.is_boolean() || value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certainly_meant_is_mended() {
        let empty = json!({"type": "object", "properties": {}});
        for written in [
            json!({}),
            json!({"type": "object"}),
            json!({"properties": {}}),
            json!({"type": "object", "properties": null, "required": null}),
            json!({"type": ["object", "null"], "properties": {}}),
            json!({"type": null}),
        ] {
            assert_eq!(of_arguments(written.clone()), Ok(empty.clone()), "{written}");
        }
        let nested = json!({"properties": {"a": {"type": "string", "title": null, "default": null}}});
        let mended = of_arguments(nested).unwrap();
        assert_eq!(mended["properties"]["a"], json!({"type": "string", "default": null}));
    }

    #[test]
    fn usable_schemas_stay_as_they_are() {
        for schema in [
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x", null]}, "b": true}, "required": ["a"]}),
            json!({"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/n"}]}}, "$defs": {"n": {"type": "array", "items": {}}}}),
            json!({"type": "object", "properties": {"type": {"type": "string"}, "enum": {}}, "additionalProperties": false, "x-own": 5}),
        ] {
            assert_eq!(of_arguments(schema.clone()), Ok(schema));
        }
    }

    #[test]
    fn what_no_upstream_accepts_is_a_fault() {
        for (schema, word) in [
            (json!([]), "not a JSON object"),
            (json!({"type": "string"}), "not describe an object"),
            (json!({"type": ["string", "null"]}), "not describe an object"),
            (json!({"type": 5}), "`type`"),
            (json!({"type": "Object"}), "`type`"),
            (json!({"properties": []}), "`properties`"),
            (json!({"properties": {"a": null}}), "`properties`"),
            (json!({"properties": {"a": "string"}}), "`properties`"),
            (json!({"properties": {"a": {"type": "text"}}}), "`type`"),
            (json!({"properties": {}, "required": "a"}), "`required`"),
            (json!({"anyOf": []}), "`anyOf`"),
            (json!({"properties": {"a": {"type": "array", "items": "string"}}}), "`items`"),
        ] {
            let fault = of_arguments(schema.clone()).unwrap_err().to_string();
            assert!(fault.contains(word), "{schema}: {fault}");
        }
        let deep = (0..70).fold(json!({}), |inner, _| json!({"not": inner}));
        assert!(of_arguments(deep).is_err());
    }
}
