//! [`Tools`]: the declared tools as detection and the request's rules see them.

use std::collections::HashMap;

use serde_json::Value;

use super::typed::Types;
use crate::conversation::{Conversation, Tool};

/// The tools that may be called in one request, by name.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    prefix: String,
    tools: HashMap<String, Signature>,
}

/// What is known of a tool's arguments.
#[derive(Debug, Clone, Default)]
struct Signature {
    properties: Vec<String>,
    required: Vec<String>,
    types: HashMap<String, Types>,
}

impl Signature {
    fn of(tool: &Tool) -> Self {
        let names = |value: Option<&Value>| match value {
            Some(Value::Object(members)) => members.keys().cloned().collect(),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        Self {
            properties: names(tool.parameters.get("properties")),
            required: names(tool.parameters.get("required")),
            types: types(tool.parameters.get("properties")),
        }
    }
}

/// What each property may be.
fn types(properties: Option<&Value>) -> HashMap<String, Types> {
    let properties = properties.and_then(Value::as_object).into_iter().flatten();
    properties.map(|(key, schema)| (key.clone(), Types::of_schema(schema))).collect()
}

impl Tools {
    /// The tools that `conversation` lets the model call. `prefix` is what their names carry where the model is told
    /// of them in text; it may be empty.
    pub fn new(conversation: &Conversation, prefix: &str) -> Self {
        let tools = conversation.callable_tools().map(|tool| (tool.name.clone(), Signature::of(tool)));
        Self { prefix: prefix.to_owned(), tools: tools.collect() }
    }

    /// No tool may be called: nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The declared name that `written` stands for: itself, or without the prefix (taken off once).
    pub fn resolve<'a>(&self, written: &'a str) -> Option<&'a str> {
        let stripped = self.unprefixed(written);
        stripped
            .filter(|name| self.tools.contains_key(*name))
            .or_else(|| self.tools.contains_key(written).then_some(written))
    }

    /// `written` without the prefix, if it carries one.
    pub fn unprefixed<'a>(&self, written: &'a str) -> Option<&'a str> {
        (!self.prefix.is_empty()).then(|| written.strip_prefix(self.prefix.as_str())).flatten()
    }

    /// Whether tools are known to the model by a prefixed name.
    pub fn is_prefixed(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Whether more characters can make a declared name of `start`.
    pub(super) fn may_become(&self, start: &str) -> bool {
        let begins = |start: &str| self.tools.keys().any(|name| name.starts_with(start));
        begins(start) || self.prefix.starts_with(start) || self.unprefixed(start).is_some_and(begins)
    }

    /// Whether the tool `name` declares an argument `key`.
    pub(super) fn declares(&self, name: &str, key: &str) -> bool {
        self.tools.get(name).is_some_and(|tool| tool.properties.iter().any(|property| property == key))
    }

    /// What the argument `key` of the tool `name` may be; `None` if nothing is declared of it.
    pub(super) fn types(&self, name: &str, key: &str) -> Option<Types> {
        self.tools.get(name)?.types.get(key).copied()
    }

    /// Whether the tool `name` is declared with arguments, so that a key can be told from something that looks like
    /// one.
    pub(super) fn has_arguments(&self, name: &str) -> bool {
        self.tools.get(name).is_some_and(|tool| !tool.properties.is_empty())
    }

    /// The required arguments of `name` that are no key of the JSON object `arguments`.
    pub fn missing(&self, name: &str, arguments: &str) -> Vec<&str> {
        let Some(tool) = self.tools.get(name) else { return Vec::new() };
        let given: Option<serde_json::Map<String, Value>> = serde_json::from_str(arguments).ok();
        let given = |key: &str| given.as_ref().is_some_and(|members| members.contains_key(key));
        tool.required.iter().map(String::as_str).filter(|key| !given(key)).collect()
    }
}
