//! Checks the arguments of a call against the schema of its tool.
//!
//! Not every violation is reported. Rarely used keywords (`not`, `if`, `patternProperties`, …), formats,
//! regular expressions, and references to other documents are not checked. Clients choose the schemas and
//! models the arguments, so the work is limited: when [`FUEL`] is used up, the arguments count as valid.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::references::referred;
use crate::wire::{
    json::Json,
    text::{boundary_upto, head},
};

/// Maximum number of schemas and values to visit.
const FUEL: usize = 200_000;

/// Maximum bytes of a value or key that a message quotes.
const QUOTED: usize = 60;

/// Maximum number of allowed values that a message lists.
const LISTED: usize = 8;

/// Briefly explains why `arguments` are invalid for a tool with this `schema`. `None` if no violation was
/// found.
pub fn fault(schema: Option<&str>, arguments: &str) -> Option<String> {
    let Ok(view) = Json::parse(arguments) else { return Some("they are not valid JSON".to_owned()) };
    if !view.raw().trim_start().starts_with('{') {
        return Some("they are not a JSON object".to_owned());
    }
    // A schema or value that is nested too deep to be parsed is not checked.
    let schema: Value = serde_json::from_str(schema?).ok()?;
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    Check::new(&schema).value(&schema, &arguments, &Place::Root).err().flatten()
}

/// `Err(Some(message))` means invalid, and `Err(None)` that the fuel is used up.
type Checked = Result<(), Option<String>>;

enum Place<'p> {
    Root,
    Member(&'p Place<'p>, &'p str),
    Element(&'p Place<'p>, usize),
}

impl Place<'_> {
    fn describe(&self) -> String {
        match self {
            Place::Root => "the arguments object".to_owned(),
            place => {
                let mut path = String::from("`");
                place.put_path(&mut path);
                path.push('`');
                path
            }
        }
    }

    fn put_path(&self, path: &mut String) {
        match self {
            Place::Root => {}
            Place::Member(Place::Root, key) => path.push_str(&clipped(key)),
            Place::Member(parent, key) => {
                parent.put_path(path);
                path.push('.');
                path.push_str(&clipped(key));
            }
            Place::Element(parent, index) => {
                parent.put_path(path);
                path.push_str(&format!("[{index}]"));
            }
        }
    }
}

struct Check<'s> {
    root: &'s Value,
    /// Whether references within the document can be followed.
    refers: bool,
    fuel: usize,
    /// Number of references and branches currently being followed.
    nesting: usize,
}

impl<'s> Check<'s> {
    fn new(root: &'s Value) -> Self {
        // If the schema has an identifier, references may not refer to places in this document.
        Self { root, refers: root.get("$id").is_none() && root.get("id").is_none(), fuel: FUEL, nesting: 0 }
    }

    fn burn(&mut self, amount: usize) -> Checked {
        self.fuel = self.fuel.checked_sub(amount).ok_or(None)?;
        Ok(())
    }

    fn value(&mut self, schema: &'s Value, value: &Value, place: &Place<'_>) -> Checked {
        self.burn(1)?;
        let schema = match schema {
            Value::Bool(false) => return wrong(format!("{} is not allowed", place.describe())),
            Value::Object(schema) => schema,
            _ => return Ok(()),
        };
        // Generators also write `"default": null` for a value that may be null.
        let is_nullable = schema.get("nullable") == Some(&Value::Bool(true))
            || schema.get("default").is_some_and(Value::is_null);
        if value.is_null() && is_nullable {
            return Ok(());
        }
        self.reference(schema, value, place)?;
        self.burn(list(schema, "type").len())?;
        expect_type(schema, value, place)?;
        self.one_of_values(schema, value, place)?;
        match value {
            Value::Object(members) => self.object(schema, members, place)?,
            Value::Array(elements) => self.array(schema, elements, place)?,
            Value::Number(number) => bounds(schema, number, place)?,
            Value::String(text) if ["minLength", "maxLength"].iter().any(|key| schema.contains_key(*key)) => {
                self.burn(text.len() / 64)?;
                length(schema, ("minLength", "maxLength"), text.chars().count(), place)?;
            }
            Value::String(_) => {}
            Value::Null | Value::Bool(_) => {}
        }
        self.branches(schema, value, place)
    }

    /// Checks the value against the target of a `$ref` within the same document.
    fn reference(&mut self, schema: &'s Map<String, Value>, value: &Value, place: &Place<'_>) -> Checked {
        let reference = schema.get("$ref").and_then(Value::as_str).filter(|_| self.refers);
        match reference.and_then(|reference| referred(self.root, reference)) {
            Some(target) => self.nested(target, value, place),
            None => Ok(()),
        }
    }

    /// Checks the same value against another schema. A reference may lead back to itself without descending
    /// into the value, so the depth is limited.
    fn nested(&mut self, schema: &'s Value, value: &Value, place: &Place<'_>) -> Checked {
        if self.nesting == MAX_NESTING {
            return Err(None);
        }
        self.nesting += 1;
        let checked = self.value(schema, value, place);
        self.nesting -= 1;
        checked
    }

    fn branches(&mut self, schema: &'s Map<String, Value>, value: &Value, place: &Place<'_>) -> Checked {
        for branch in list(schema, "allOf") {
            self.nested(branch, value, place)?;
        }
        // Several matches in `oneOf` are not reported, because the branches may differ in what is not
        // checked.
        for branches in ["anyOf", "oneOf"].map(|key| list(schema, key)) {
            let mut first = None;
            let mut is_match = branches.is_empty();
            for branch in branches {
                match self.nested(branch, value, place) {
                    Ok(()) => {
                        is_match = true;
                        break;
                    }
                    Err(None) => return Err(None),
                    Err(Some(message)) => {
                        self.burn(message.len() / 64)?;
                        first = first.or(Some(message));
                    }
                }
            }
            if let (false, Some(message)) = (is_match, first) {
                return wrong(format!("{} matches none of the allowed forms ({message})", place.describe()));
            }
        }
        Ok(())
    }

    fn one_of_values(&mut self, schema: &'s Map<String, Value>, value: &Value, place: &Place<'_>) -> Checked {
        let constant = schema.get("const").map(std::slice::from_ref);
        let listed = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        for allowed in [constant, listed].into_iter().flatten() {
            let mut is_match = false;
            for allowed in allowed {
                is_match |= self.equal(allowed, value)?;
            }
            if !is_match {
                let names: Vec<_> =
                    allowed.iter().take(LISTED).map(|value| clip(value.to_string())).collect();
                let more = if allowed.len() > LISTED { ", …" } else { "" };
                return wrong(format!("{} must be one of {}{more}", place.describe(), names.join(", ")));
            }
        }
        Ok(())
    }

    /// Whether two values are equal. Numbers are compared by value, not by notation.
    fn equal(&mut self, left: &Value, right: &Value) -> Result<bool, Option<String>> {
        self.burn(1)?;
        Ok(match (left, right) {
            (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
            (Value::String(left), Value::String(right)) => {
                self.burn(left.len().min(right.len()) / 64)?;
                left == right
            }
            (Value::Array(left), Value::Array(right)) => {
                let mut is_equal = left.len() == right.len();
                for (left, right) in left.iter().zip(right) {
                    is_equal = is_equal && self.equal(left, right)?;
                }
                is_equal
            }
            (Value::Object(left), Value::Object(right)) => {
                let mut is_equal = left.len() == right.len();
                for (key, left) in left {
                    is_equal = is_equal
                        && match right.get(key) {
                            Some(right) => self.equal(left, right)?,
                            None => false,
                        };
                }
                is_equal
            }
            (left, right) => left == right,
        })
    }

    fn object(
        &mut self,
        schema: &'s Map<String, Value>,
        members: &Map<String, Value>,
        place: &Place<'_>,
    ) -> Checked {
        for key in list(schema, "required").iter().filter_map(Value::as_str) {
            self.burn(1)?;
            if !members.contains_key(key) {
                return wrong(format!("{} is missing", Place::Member(place, key).describe()));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|_| !schema.contains_key("patternProperties"));
        for (key, value) in members {
            let place = Place::Member(place, key);
            match (properties.and_then(|properties| properties.get(key)), others) {
                (Some(property), _) => self.value(property, value, &place)?,
                (None, Some(Value::Bool(false))) => {
                    return wrong(format!("{} is not declared", place.describe()));
                }
                (None, Some(others)) => self.value(others, value, &place)?,
                (None, None) => self.burn(1)?,
            }
        }
        length(schema, ("minProperties", "maxProperties"), members.len(), place)
    }

    fn array(&mut self, schema: &'s Map<String, Value>, elements: &[Value], place: &Place<'_>) -> Checked {
        length(schema, ("minItems", "maxItems"), elements.len(), place)?;
        let first = list(schema, "prefixItems");
        let items = schema.get("items").filter(|items| !items.is_array());
        for (index, element) in elements.iter().enumerate() {
            match first.get(index).or(items) {
                Some(schema) => self.value(schema, element, &Place::Element(place, index))?,
                None => self.burn(1)?,
            }
        }
        Ok(())
    }
}

/// Maximum number of references and branches that may be open at the same time.
const MAX_NESTING: usize = 128;

fn wrong(message: String) -> Checked {
    Err(Some(message))
}

fn list<'s>(schema: &'s Map<String, Value>, key: &str) -> &'s [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn expect_type(schema: &Map<String, Value>, value: &Value, place: &Place<'_>) -> Checked {
    let types = match schema.get("type") {
        Some(one @ Value::String(_)) => std::slice::from_ref(one),
        Some(Value::Array(several)) => several,
        _ => return Ok(()),
    };
    let types: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
    let is_known = |name: &str| TYPES.contains(&name);
    if types.is_empty()
        || !types.iter().all(|name| is_known(name))
        || types.iter().any(|name| is_of(value, name))
    {
        return Ok(());
    }
    wrong(format!("{} must be of type {}", place.describe(), types.join(" or ")))
}

const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

fn is_of(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => name == "number" || (name == "integer" && is_whole(number)),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

/// Whether a number is an integer, regardless of its notation. A number that is too large for this to be
/// determined counts as an integer.
fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_none_or(|number| number.fract() == 0.0)
}

fn bounds(schema: &Map<String, Value>, number: &Number, place: &Place<'_>) -> Checked {
    type Holds = fn(f64, f64) -> bool;
    let Some(value) = number.as_f64() else { return Ok(()) };
    let rules: [(&str, &str, Holds); 4] = [
        ("minimum", "at least", |value, limit| value >= limit),
        ("maximum", "at most", |value, limit| value <= limit),
        ("exclusiveMinimum", "more than", |value, limit| value > limit),
        ("exclusiveMaximum", "less than", |value, limit| value < limit),
    ];
    for (key, words, holds) in rules {
        if let Some(Value::Number(limit)) = schema.get(key)
            && limit.as_f64().is_some_and(|limit| !holds(value, limit))
        {
            return wrong(format!("{} must be {words} {}", place.describe(), clip(limit.to_string())));
        }
    }
    Ok(())
}

fn length(schema: &Map<String, Value>, keys: (&str, &str), length: usize, place: &Place<'_>) -> Checked {
    let limit =
        |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
    if let Some(least) = limit(keys.0).filter(|least| length < *least) {
        return wrong(format!("{} has a length of {length}, the least is {least}", place.describe()));
    }
    if let Some(most) = limit(keys.1).filter(|most| length > *most) {
        return wrong(format!("{} has a length of {length}, the most is {most}", place.describe()));
    }
    Ok(())
}

fn clipped(text: &str) -> Cow<'_, str> {
    match text.len() > QUOTED {
        true => Cow::Owned(format!("{}…", head(text, boundary_upto(text, QUOTED)))),
        false => Cow::Borrowed(text),
    }
}

fn clip(text: String) -> String {
    if text.len() > QUOTED { clipped(&text).into_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, arguments: &str) -> Option<String> {
        fault(Some(&schema.to_string()), arguments)
    }

    #[test]
    fn faults_are_named() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 1},
                "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 7},
                "unit": {"enum": ["c", "f"]},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
                "at": {"anyOf": [{"type": "number"}, {"type": "object", "required": ["lat"]}]},
                "kind": {"const": 1},
            },
            "required": ["city"],
            "additionalProperties": false,
            "$defs": {"tag": {"type": "string"}},
        });
        for good in [
            r#"{"city":"x"}"#,
            r#"{"city":"x","days":7,"unit":"c","tags":["a","b"],"at":1.5,"kind":1.0}"#,
            r#"{"city":"x","days":null,"tags":[],"at":{"lat":1}}"#,
            r#"{"city":"x","days":2.0}"#,
        ] {
            assert_eq!(check(&schema, good), None, "{good}");
        }
        for (bad, message) in [
            ("{", "they are not valid JSON"),
            ("[1]", "they are not a JSON object"),
            ("{}", "`city` is missing"),
            (r#"{"city":1}"#, "`city` must be of type string"),
            (r#"{"city":""}"#, "`city` has a length of 0, the least is 1"),
            (r#"{"city":"x","days":0}"#, "`days` must be at least 1"),
            (r#"{"city":"x","days":8}"#, "`days` must be at most 7"),
            (r#"{"city":"x","days":1.5}"#, "`days` must be of type integer or null"),
            (r#"{"city":"x","unit":"k"}"#, "`unit` must be one of \"c\", \"f\""),
            (r#"{"city":"x","tags":["a",2]}"#, "`tags[1]` must be of type string"),
            (r#"{"city":"x","tags":["a","b","c"]}"#, "`tags` has a length of 3, the most is 2"),
            (
                r#"{"city":"x","at":{}}"#,
                "`at` matches none of the allowed forms (`at` must be of type number)",
            ),
            (r#"{"city":"x","kind":2}"#, "`kind` must be one of 1"),
            (r#"{"city":"x","town":1}"#, "`town` is not declared"),
        ] {
            assert_eq!(check(&schema, bad).as_deref(), Some(message), "{bad}");
        }
        assert_eq!(fault(None, "{\"anything\":1}"), None);
    }

    #[test]
    fn unknown_keywords_and_foreign_references_are_not_checked() {
        for schema in [
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"$ref": "#/$defs/missing"}),
            json!({"$id": "https://example.com/", "$ref": "#/$defs/no", "$defs": {"no": false}}),
            json!({"properties": {"x": {"pattern": "(a+)+$", "format": "email", "not": {}}}}),
            json!({"properties": {"x": {"type": "any"}}}),
            json!({"patternProperties": {"^x": {}}, "additionalProperties": false}),
            json!(true),
            json!("nonsense"),
        ] {
            assert_eq!(check(&schema, r#"{"x":"aaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}"#), None, "{schema}");
        }
        assert!(check(&json!(false), "{}").is_some());
    }

    /// Schemas that refer to themselves, or that double the work at every level, must not make the check
    /// run long.
    #[test]
    fn hostile_schemas_end_soon() {
        let mut doubling = json!({"$defs": {"d0": {"type": "object"}}, "$ref": "#/$defs/d60"});
        for level in 1..=60 {
            let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
            doubling["$defs"][format!("d{level}")] = json!({"allOf": [below, below]});
        }
        let tree = json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {"anyOf": [
                {"properties": {"x": {"$ref": "#/$defs/node"}}, "minProperties": 2},
                {"properties": {"x": {"$ref": "#/$defs/node"}}, "minProperties": 2},
            ]}},
        });
        let nested = format!("{}1{}", "{\"x\":".repeat(100), "}".repeat(100));
        let wide = format!("{{\"x\":[{}0]}}", "0,".repeat(300_000));
        let long = json!({"properties": {"x": {"items": {"enum": (0..1000).collect::<Vec<_>>()}}}});
        for (schema, arguments) in [
            (json!({"$ref": "#"}), "{}"),
            (json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}), "{}"),
            (doubling, "{}"),
            (tree, nested.as_str()),
            (long, wide.as_str()),
        ] {
            assert_eq!(check(&schema, arguments), None);
        }
    }
}
