//! [`Case`]: a prompt, the tools that it offers, and the calls that are wanted.

use serde_json::{Map, Value, json};

/// A declared tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseTool {
    pub name: String,
    pub description: String,
    /// The JSON Schema of the tool's arguments.
    pub parameters: Value,
    /// `strict`: whether calls must fit the schema.
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

/// A call that is wanted.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedCall {
    /// The tool's name.
    pub name: String,
    /// Required arguments, each with the expected value. Further arguments are ignored.
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

/// A prompt with its tools and wanted calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Case {
    /// The prompt's name, unique in its set.
    pub name: String,
    /// The group that the prompt belongs to; groups are reported separately.
    pub group: String,
    /// The messages, as a chat request has them.
    pub messages: Vec<Value>,
    /// The tools that are offered.
    pub tools: Vec<CaseTool>,
    /// `tool_choice`.
    pub choice: CaseChoice,
    /// The wanted calls; any of them is right. Empty if no call is wanted.
    pub calls: Vec<ExpectedCall>,
}

impl Case {
    /// Whether a call is wanted.
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

    /// Whether `enforce` can have an effect: whether a call is required, or a tool is strict.
    pub fn may_be_enforced(&self) -> bool {
        self.requires_call() || self.tools.iter().any(|tool| tool.strict == Some(true))
    }

    /// The declared tool `name`, if it is offered.
    pub fn tool(&self, name: &str) -> Option<&CaseTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The members of a chat request that depend on this case: `messages`, `tools`, `tool_choice`.
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

    /// Returns all content of the messages: texts, arguments of calls, and results. Parts of a response that
    /// repeat it are not made up.
    pub fn said(&self) -> String {
        let mut said = String::new();
        self.messages.iter().for_each(|message| collect_strings(message, &mut said));
        said
    }

    /// The last text of the user.
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
