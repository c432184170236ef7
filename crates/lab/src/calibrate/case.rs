//! [`Case`]: a prompt, the tools that it offers, and the calls that it should lead to.

use serde_json::{Map, Value, json};
use toolwire_pipeline::rules::Enforce;

/// A declared tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseTool {
    pub name: String,
    pub description: String,
    /// The JSON Schema of the tool's arguments.
    pub parameters: Value,
    /// `strict`: whether calls must conform to the schema.
    pub strict: Option<bool>,
}

impl CaseTool {
    /// Returns the tool as a chat request declares it.
    fn declared(&self) -> Value {
        let Self { name, description, parameters, strict } = self;
        let mut function = json!({ "name": name, "description": description, "parameters": parameters });
        if let (Some(strict), Value::Object(members)) = (strict, &mut function) {
            members.insert("strict".to_owned(), json!(strict));
        }
        json!({ "type": "function", "function": function })
    }
}

/// A call that the model should make.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedCall {
    pub name: String,
    /// The arguments that the call must have, with the expected values. Additional arguments are ignored.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// Whether the model may choose to call a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CaseChoice {
    /// `tool_choice: "auto"`.
    #[default]
    Auto,
    /// `tool_choice: "required"`.
    Required,
    /// The tool with this name.
    Named(String),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Case {
    /// The prompt's name, unique in its set.
    pub name: String,
    /// The prompt's group. Groups are reported separately.
    pub group: String,
    /// The messages, in the format of a chat request.
    pub messages: Vec<Value>,
    pub tools: Vec<CaseTool>,
    /// `tool_choice`.
    pub choice: CaseChoice,
    /// The expected calls, any of which is right. Empty if the model should make no call.
    pub calls: Vec<ExpectedCall>,
}

impl Case {
    /// Whether the model should make a call.
    pub fn wants_call(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether the conversation contains earlier calls.
    pub fn has_history(&self) -> bool {
        self.messages.iter().any(|message| message.get("tool_calls").is_some())
    }

    /// Whether the request requires a call.
    pub fn requires_call(&self) -> bool {
        self.choice != CaseChoice::Auto
    }

    /// What `enforce` amounts to in this request: unless a call is required, only calls can be constrained.
    pub fn enforced(&self, enforce: Enforce) -> Enforce {
        match enforce {
            _ if self.requires_call() => enforce,
            Enforce::Auto => Enforce::Calls,
            Enforce::Schema | Enforce::Prefill | Enforce::Retry => Enforce::Off,
            Enforce::Calls | Enforce::StructuralTag | Enforce::Grammar | Enforce::Off => enforce,
        }
    }

    /// Returns the tool `name`, if the prompt offers it.
    pub fn tool(&self, name: &str) -> Option<&CaseTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Returns the members of a chat request that depend on this case: `messages`, `tools`, `tool_choice`.
    pub fn request(&self) -> Map<String, Value> {
        let mut request = Map::new();
        request.insert("messages".to_owned(), Value::Array(self.messages.clone()));
        let tools: Vec<_> = self.tools.iter().map(CaseTool::declared).collect();
        if !tools.is_empty() {
            request.insert("tools".to_owned(), Value::Array(tools));
        }
        let choice = match &self.choice {
            CaseChoice::Auto => None,
            CaseChoice::Required => Some(json!("required")),
            CaseChoice::Named(name) => Some(json!({ "type": "function", "function": { "name": name } })),
        };
        request.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        request
    }

    /// Returns all content of the messages: texts, arguments of calls, and results. A value in a response that also occurs
    /// here was not invented by the model.
    pub fn said(&self) -> String {
        let mut said = String::new();
        self.messages.iter().for_each(|message| collect_strings(message, &mut said));
        said
    }

    /// Returns the user's last text.
    pub fn last_user_text(&self) -> &str {
        let users = self.messages.iter().rev().filter(|message| message.get("role") == Some(&json!("user")));
        users.filter_map(|message| message.get("content")?.as_str()).next().unwrap_or_default()
    }
}

/// Appends all strings in `value` to `out`, one per line.
fn collect_strings(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Array(values) => values.iter().for_each(|value| collect_strings(value, out)),
        Value::Object(members) => members.values().for_each(|value| collect_strings(value, out)),
        _ => {}
    }
}
