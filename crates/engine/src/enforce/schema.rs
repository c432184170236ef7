//! [`Fitted`]: a tool's schema, reduced to what a server can enforce.
//!
//! Each server supports a different part of JSON Schema, and rejects or ignores the rest
//! (docs/protocols/enforcement.md#schema-features). Keywords that a [`Subset`] lacks are left out, so the
//! result accepts more than the tool does, with one exception: an object may have only the declared
//! properties, unless its schema explicitly allows others.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::{conversation::Tool, tools::referred};

/// The part of JSON Schema that a server can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subset {
    /// Whether `const` is supported. If not, a constant becomes an `enum` with one value.
    pub constants: bool,
    /// Whether properties may be missing. If not, all properties are required, and optional ones may be
    /// `null`.
    pub optional: bool,
    /// Whether objects may have properties of any name.
    pub open_objects: bool,
    /// Whether the lengths of strings and arrays can be limited.
    pub lengths: bool,
    /// Whether `minimum` and `maximum` are supported.
    pub ranges: bool,
    /// Whether branches of an `anyOf` may start with the same key, and an `anyOf` may be the complete schema.
    pub any_branches: bool,
}

impl Subset {
    /// What all servers support.
    pub const PORTABLE: Self = Self {
        constants: false,
        optional: true,
        open_objects: true,
        lengths: false,
        ranges: false,
        any_branches: true,
    };
    /// xgrammar, as used by vLLM, SGLang and TensorRT-LLM.
    pub const XGRAMMAR: Self = Self { constants: true, lengths: true, ranges: true, ..Self::PORTABLE };
    /// llama.cpp, and servers based on it.
    pub const LLAMA_CPP: Self = Self { constants: true, lengths: true, ..Self::PORTABLE };
    /// OpenAI's strict mode.
    pub const OPENAI: Self =
        Self { constants: true, optional: false, open_objects: false, any_branches: false, ..Self::PORTABLE };
    /// Anthropic's structured outputs.
    pub const ANTHROPIC: Self = Self { constants: true, open_objects: false, ..Self::PORTABLE };
    /// What toolwire's own grammars can express.
    pub(super) const GRAMMAR: Self = Self { constants: true, lengths: true, ..Self::PORTABLE };
}

/// The largest bound that is passed on. Grammars repeat a rule as often as the bound says, and llama.cpp
/// rejects large numbers.
pub(super) const MAX_BOUND: u64 = 256;
/// Maximum depth to which references and nested schemas are followed. Beyond it, any value is allowed.
const MAX_DEPTH: usize = 24;
/// Approximate maximum size, in bytes, of the schemas of a request's tools with references resolved. A small
/// schema that refers to itself twice would double with each level. Beyond the limit, any value is allowed.
pub(super) const MAX_SIZE: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fitted(Value);

impl Fitted {
    /// The schema of the tool's arguments. `None` if the subset cannot express an object with these
    /// properties.
    ///
    /// `left` is the remaining part of [`MAX_SIZE`].
    pub(super) fn arguments(tool: &Tool, subset: Subset, left: &mut usize) -> Option<Self> {
        let Some(parameters) = &tool.parameters else {
            return Some(Self(object(Map::new(), Vec::new(), None)));
        };
        let root = parameters.view().to_value();
        let mut fitting = Fitting { root: &root, subset, left, exact: true };
        let fitted = fitting.fit(&root, MAX_DEPTH);
        // Arguments are always an object, even if the schema does not say so.
        let fitted = match fitted.get("type").and_then(Value::as_str) {
            Some("object") => fitted,
            _ if fitted.get("anyOf").is_some() => fitted,
            _ if subset.open_objects => object(Map::new(), Vec::new(), Some(Value::Bool(true))),
            _ => return None,
        };
        (fitting.exact || subset.open_objects).then_some(Self(fitted))
    }

    pub(super) fn as_value(&self) -> &Value {
        &self.0
    }

    pub(super) fn into_value(self) -> Value {
        self.0
    }
}

/// The schema of a call to one of these tools, `{"name": …, "arguments": …}`. `None` if the subset cannot
/// tell the calls apart.
pub(super) fn any_call(calls: &[(String, Fitted)], subset: Subset) -> Option<Value> {
    let call = |name: Value, arguments: Value| {
        let members = Map::from_iter([("name".to_owned(), name), ("arguments".to_owned(), arguments)]);
        object(members, vec!["name".into(), "arguments".into()], None)
    };
    match calls {
        [] => None,
        [(name, arguments)] => Some(call(constant(name.as_str().into(), subset), arguments.0.clone())),
        _ if subset.any_branches => {
            let branch = |(name, arguments): &(String, Fitted)| {
                call(constant(name.as_str().into(), subset), arguments.0.clone())
            };
            Some(json!({"anyOf": calls.iter().map(branch).collect::<Vec<_>>()}))
        }
        _ => {
            // The name cannot select the branch, so any name may be combined with arguments for any of the
            // tools.
            let mut first_keys: Vec<&str> = calls.iter().map(|(_, arguments)| first_key(arguments)).collect();
            first_keys.sort_unstable();
            if first_keys.windows(2).any(|pair| pair.first() == pair.last()) {
                return None;
            }
            let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
            let arguments: Vec<&Value> = calls.iter().map(|(_, arguments)| &arguments.0).collect();
            Some(call(json!({"type": "string", "enum": names}), json!({"anyOf": arguments})))
        }
    }
}

fn first_key(schema: &Fitted) -> &str {
    let properties = schema.0.get("properties").and_then(Value::as_object);
    properties.and_then(|properties| properties.keys().next()).map_or("", String::as_str)
}

fn constant(value: Value, subset: Subset) -> Value {
    if subset.constants { json!({"const": value}) } else { json!({"enum": [value]}) }
}

fn object(properties: Map<String, Value>, required: Vec<Value>, additional: Option<Value>) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": additional.unwrap_or(Value::Bool(false)),
    })
}

/// Reads a schema and writes what the subset can express of it.
struct Fitting<'a> {
    root: &'a Value,
    subset: Subset,
    /// Number of bytes that may still be written.
    left: &'a mut usize,
    /// Whether nothing was replaced with `{}` and no `additionalProperties` was dropped.
    exact: bool,
}

impl Fitting<'_> {
    fn fit(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(members) = schema.as_object().filter(|_| depth > 0) else { return self.any() };
        if !self.affords(cost(members)) {
            return self.any();
        }
        let depth = depth - 1;
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            return match referred(self.root, reference) {
                Some(target) => self.fit(target, depth),
                None => self.any(),
            };
        }
        if let Some(value) = members.get("const") {
            return constant(value.clone(), self.subset);
        }
        if let Some(values) =
            members.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty())
        {
            return json!({"enum": values});
        }
        for key in ["anyOf", "oneOf"] {
            // If the schema has properties of its own, a branch only restricts these properties.
            if let Some(branches) = members.get(key).and_then(Value::as_array)
                && !members.contains_key("properties")
            {
                return self.any_of(branches, depth);
            }
        }
        if let Some(branches) = members.get("allOf").and_then(Value::as_array) {
            return self.merged(members, branches, depth);
        }
        let written = match types(members).as_slice() {
            [] => self.any(),
            [one] => self.typed(one, members, depth),
            several => {
                let branches: Vec<Value> =
                    several.iter().map(|one| self.typed(one, members, depth)).collect();
                json!({"anyOf": branches})
            }
        };
        match members.get("nullable") {
            Some(Value::Bool(true)) => or_null(written),
            _ => written,
        }
    }

    /// Whether `cost` more bytes may be written. If not, nothing more may be written later either.
    fn affords(&mut self, cost: usize) -> bool {
        let left = self.left.checked_sub(cost);
        *self.left = left.unwrap_or(0);
        left.is_some()
    }

    fn any(&mut self) -> Value {
        self.exact = false;
        json!({})
    }

    fn any_of(&mut self, branches: &[Value], depth: usize) -> Value {
        let branches: Vec<Value> = branches.iter().map(|branch| self.fit(branch, depth)).collect();
        if branches.iter().any(|branch| branch.as_object().is_some_and(Map::is_empty)) || branches.is_empty()
        {
            return self.any();
        }
        json!({"anyOf": branches})
    }

    /// Merges a schema with other schemas that a value must match as well.
    fn merged(&mut self, members: &Map<String, Value>, branches: &[Value], depth: usize) -> Value {
        let own = members.iter().filter(|(key, _)| *key != "allOf");
        if !self.affords(own.clone().map(|(_, value)| size(value)).sum()) {
            return self.any();
        }
        let mut whole: Map<String, Value> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        for branch in branches.iter().take(MAX_DEPTH) {
            let reference = branch.get("$ref").and_then(Value::as_str);
            let branch = reference.map_or(Some(branch), |reference| referred(self.root, reference));
            for (key, value) in branch.and_then(Value::as_object).into_iter().flatten() {
                if !self.affords(size(value)) {
                    return self.any();
                }
                merge(&mut whole, key, value);
            }
        }
        self.fit(&Value::Object(whole), depth)
    }

    fn typed(&mut self, kind: &str, members: &Map<String, Value>, depth: usize) -> Value {
        match kind {
            "object" => self.object(members, depth),
            "array" => self.array(members, depth),
            "string" if self.subset.lengths => bounded("string", members, ["minLength", "maxLength"]),
            "integer" | "number" if self.subset.ranges => {
                let mut number = json!({"type": kind});
                for key in ["minimum", "maximum"] {
                    if let Some(bound @ Value::Number(_)) = members.get(key) {
                        set(&mut number, key, bound.clone());
                    }
                }
                number
            }
            "string" | "integer" | "number" | "boolean" | "null" => json!({"type": kind}),
            _ => self.any(),
        }
    }

    fn array(&mut self, members: &Map<String, Value>, depth: usize) -> Value {
        let items = match members.get("items") {
            Some(items) if !members.contains_key("prefixItems") => self.fit(items, depth),
            _ => self.any(),
        };
        let mut array = match self.subset.lengths {
            true => bounded("array", members, ["minItems", "maxItems"]),
            false => json!({"type": "array"}),
        };
        set(&mut array, "items", items);
        array
    }

    fn object(&mut self, members: &Map<String, Value>, depth: usize) -> Value {
        let declared = members.get("properties").and_then(Value::as_object);
        let listed = required_of(members);
        let is_required = |key: &str| listed.contains(key);
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (key, schema) in declared.into_iter().flatten() {
            let fitted = self.fit(schema, depth);
            let is_required = is_required(key);
            let may_be_missing = !is_required && self.subset.optional;
            let fitted = if is_required || may_be_missing { fitted } else { or_null(fitted) };
            if !may_be_missing {
                required.push(key.as_str().into());
            }
            properties.insert(key.clone(), fitted);
        }
        let additional = match members.get("additionalProperties") {
            Some(Value::Bool(allowed)) => allowed.then_some(Value::Bool(true)),
            Some(schema) => Some(self.fit(schema, depth)),
            // A schema without `properties` means any object. A schema with `properties` lists all properties
            // that the tool knows.
            None => declared.is_none().then_some(Value::Bool(true)),
        };
        let additional = additional.filter(|_| {
            self.exact &= self.subset.open_objects;
            self.subset.open_objects
        });
        object(properties, required, additional)
    }
}

pub(super) fn required_of(members: &Map<String, Value>) -> HashSet<&str> {
    let listed = members.get("required").and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Approximate number of bytes written for a schema, not counting nested schemas.
fn cost(members: &Map<String, Value>) -> usize {
    const EACH: usize = 16;
    let own = members.iter().map(|(key, value)| match (key.as_str(), value) {
        ("enum" | "const", value) => size(value),
        ("properties", Value::Object(properties)) => {
            properties.keys().map(|key| EACH + key.len()).sum::<usize>()
        }
        (_, Value::Array(values)) => EACH * values.len(),
        (_, Value::String(text)) => text.len(),
        // Members that are not written still take time to visit.
        _ => 1,
    });
    own.fold(4 * EACH, usize::saturating_add)
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Merges a keyword of another schema into `whole`. Properties are merged in order; for any other keyword,
/// the first value wins.
fn merge(whole: &mut Map<String, Value>, key: &str, value: &Value) {
    match (whole.get_mut(key), value) {
        (Some(Value::Object(ours)), Value::Object(theirs)) if key == "properties" => {
            for (key, value) in theirs {
                ours.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        (Some(Value::Array(ours)), Value::Array(theirs)) if key == "required" => {
            ours.extend(theirs.iter().cloned());
        }
        (Some(_), _) => {}
        (None, value) => {
            whole.insert(key.to_owned(), value.clone());
        }
    }
}

/// The types that a schema allows, judging by its `type` or by keywords that apply to only one type.
fn types(members: &Map<String, Value>) -> Vec<&str> {
    match members.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ if members.contains_key("properties") => vec!["object"],
        _ if members.contains_key("items") => vec!["array"],
        _ => Vec::new(),
    }
}

/// A schema of this type with its bounds, if they are small.
fn bounded(kind: &str, members: &Map<String, Value>, keys: [&str; 2]) -> Value {
    let mut schema = json!({"type": kind});
    let is_pattern = members.contains_key("pattern") || members.contains_key("format");
    for key in keys {
        let bound =
            members.get(key).and_then(Value::as_u64).filter(|bound| *bound <= MAX_BOUND && !is_pattern);
        if let Some(bound) = bound {
            set(&mut schema, key, bound.into());
        }
    }
    schema
}

fn set(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(members) = schema {
        members.insert(key.to_owned(), value);
    }
}

fn or_null(schema: Value) -> Value {
    match schema {
        Value::Object(members) if members.is_empty() => Value::Object(members),
        schema => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}
