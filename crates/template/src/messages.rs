//! Builds the variables of a template: the conversation in the form that transformers passes to templates.

use minijinja::{Value, value::ValueKind};

use super::{file::SpecialToken, python::from_json};
use crate::{
    conversation::{Call, CallOutput, Conversation, Part, Role, Tool, Turn, results_in_call_order},
    dialect::Dialect,
    wire::json::{Json, Kind},
};

/// Variables that a client's `chat_template_kwargs` cannot replace.
const RESERVED: [&str; 5] = ["messages", "tools", "add_generation_prompt", "strftime_now", "raise_exception"];

/// How many bytes a message or a tool costs in addition to its text.
const OVERHEAD: usize = 256;

/// Returns the variables, and the approximate size of the conversation in them, in bytes.
pub(super) fn variables(
    conversation: &Conversation,
    tokens: &[SpecialToken],
) -> (Vec<(String, Value)>, usize) {
    let mut size = Size(0);
    // Few templates show IDs, so results must be in the order of the calls.
    let messages = messages(&results_in_call_order(&conversation.turns), &mut size);
    let tools: Vec<_> = conversation.callable_tools().map(|item| tool(item, &mut size)).collect();
    let tools = if tools.is_empty() { Value::from(()) } else { Value::from(tools) };
    let mut variables = Vec::new();
    let rest = conversation.rest.from_dialect(Dialect::Chat.name());
    let given = rest.and_then(|rest| rest.get("chat_template_kwargs")?.as_object());
    for (name, value) in given.into_iter().flatten() {
        let is_token = tokens.iter().any(|token| token.name == *name);
        if !is_token && !RESERVED.contains(&name.as_str()) {
            let text = value.to_string();
            size.add(&text);
            variables.push((name.clone(), Json::parse(&text).map_or(Value::UNDEFINED, from_json)));
        }
    }
    if let Some(effort) = &conversation.sampling.reasoning_effort
        && !variables.iter().any(|(name, _)| name == "reasoning_effort")
    {
        variables.push(("reasoning_effort".to_owned(), Value::from(effort.as_str())));
    }
    variables.extend([
        ("messages".to_owned(), Value::from(messages)),
        ("tools".to_owned(), tools),
        ("documents".to_owned(), Value::from(())),
        ("add_generation_prompt".to_owned(), Value::from(true)),
    ]);
    variables.extend(tokens.iter().map(|token| (token.name.clone(), Value::from(token.text.as_str()))));
    (variables, size.0)
}

/// The size of the conversation so far, in bytes.
struct Size(usize);

impl Size {
    fn add(&mut self, text: &str) {
        self.0 = self.0.saturating_add(text.len()).saturating_add(OVERHEAD);
    }
}

fn messages(turns: &[Turn], size: &mut Size) -> Vec<Value> {
    let mut messages = Vec::with_capacity(turns.len());
    // Maps the ID of each call to its name, for results that do not name their tool.
    let mut names: std::collections::HashMap<&str, &str> = std::collections::HashMap::new();
    for turn in turns {
        let mut says_more = turn.parts.is_empty();
        for part in &turn.parts {
            match part {
                Part::Call(call) => {
                    names.insert(&call.id, &call.name);
                    says_more = true;
                }
                Part::Result(output) => {
                    let known = names.get(output.id.as_str()).copied();
                    messages.push(result(output, known, size));
                }
                // A result's media cannot be shown as text.
                Part::Image { .. } | Part::Other(_) if turn.role == Role::Tool => {}
                _ => says_more = true,
            }
        }
        if says_more {
            messages.push(message(turn, size));
        }
    }
    messages
}

fn message(turn: &Turn, size: &mut Size) -> Value {
    let role = match turn.role {
        Role::System | Role::Developer => "system",
        // A result written as text gets the role `user`, since templates expect messages with the role
        // `tool` to have an ID or a name.
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let text = turn.joined_text();
    size.add(&text);
    let mut members = vec![("role", Value::from(role)), ("content", Value::from(text))];
    let reasoning = turn.parts.iter().filter_map(|part| match part {
        Part::Reasoning { text, .. } if !text.is_empty() => Some(text.as_str()),
        _ => None,
    });
    let reasoning = reasoning.collect::<String>();
    if !reasoning.is_empty() {
        size.add(&reasoning);
        members.push(("reasoning_content", Value::from(reasoning)));
    }
    let calls = turn.parts.iter().filter_map(|part| match part {
        Part::Call(item) => Some(call(item, size)),
        _ => None,
    });
    let calls: Vec<_> = calls.collect();
    if !calls.is_empty() {
        members.push(("tool_calls", Value::from(calls)));
    }
    Value::from_pairs(members)
}

fn call(call: &Call, size: &mut Size) -> Value {
    size.add(&call.arguments);
    size.add(&call.name);
    let function = [("name", Value::from(call.name.as_str())), ("arguments", arguments(&call.arguments))];
    Value::from_pairs([
        ("id", Value::from(call.id.as_str())),
        ("type", Value::from("function")),
        ("function", Value::from_pairs(function)),
    ])
}

/// Converts arguments to an object, which templates expect. Anything that is not an object stays text.
fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::from_pairs(std::iter::empty::<(String, Value)>());
    }
    match Json::parse(text) {
        Ok(json) if json.kind() == Kind::Object => from_json(json),
        _ => Value::from(text),
    }
}

fn result(output: &CallOutput, known: Option<&str>, size: &mut Size) -> Value {
    size.add(&output.content);
    let name = Some(output.name.as_str()).filter(|name| !name.is_empty()).or(known);
    let mut members = vec![("role", Value::from("tool")), ("content", Value::from(output.content.as_str()))];
    if let Some(name) = name {
        members.push(("name", Value::from(name)));
    }
    members.push(("tool_call_id", Value::from(output.id.as_str())));
    Value::from_pairs(members)
}

fn tool(tool: &Tool, size: &mut Size) -> Value {
    size.add(&tool.name);
    size.add(&tool.description);
    let parameters = match &tool.parameters {
        Some(schema) => {
            size.add(schema.view().raw());
            Some(from_json(schema.view())).filter(|schema| schema.kind() == ValueKind::Map)
        }
        None => None,
    };
    let parameters = parameters.unwrap_or_else(|| {
        let none = Value::from_pairs(std::iter::empty::<(String, Value)>());
        Value::from_pairs([("type", Value::from("object")), ("properties", none)])
    });
    let function = Value::from_pairs([
        ("name", Value::from(tool.name.as_str())),
        ("description", Value::from(tool.description.as_str())),
        ("parameters", parameters),
    ]);
    Value::from_pairs([("type", Value::from("function")), ("function", function)])
}
