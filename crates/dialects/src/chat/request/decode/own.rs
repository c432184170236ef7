//! Reads the calls that the upstream or toolwire ran, from the extension field `tool_results` of a message
//! that the client sends back.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    conversation::{Call, CallOutput, Part, Role, Turn, is_own_id},
    fields::Fields,
    wire::json::Json,
};

const FIELD: &str = "tool_results";

#[derive(Default)]
pub(super) struct Taken {
    /// The calls that toolwire ran, and their results. They belong before the message's text.
    pub(super) before: Vec<Turn>,
    /// The upstream's results for the message's own calls.
    pub(super) results: Vec<CallOutput>,
}

/// Takes these calls and results out of `message`. Other elements stay in the field.
pub(super) fn take(message: &mut Fields<'_, '_>) -> Taken {
    let Some(list) = message.peek(FIELD) else { return Taken::default() };
    let text = |element: &Json<'_>, key: &str| Some(element.get(key)?.as_str()?.into_owned());
    let calls = message.peek("tool_calls").into_iter().flat_map(|calls| calls.elements());
    let mut unanswered: HashSet<String> = calls.filter_map(|call| text(&call, "id")).collect();
    let (mut calls, mut answers, mut results, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for element in list.elements() {
        let id = text(&element, "id").filter(|id| is_own_id(id) || unanswered.remove(id));
        let (Some(id), content) = (id, text(&element, "content").unwrap_or_default()) else {
            others.push(element.to_value());
            continue;
        };
        let is_error = element.get("is_error").and_then(|flag| flag.as_bool()).unwrap_or(false);
        let is_own = is_own_id(&id);
        if is_own {
            let (name, arguments) = (text(&element, "name"), text(&element, "arguments"));
            let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
            calls.push(Part::Call(Call::new(id.clone(), name.unwrap_or_default(), arguments)));
        }
        let output = CallOutput { id, name: String::new(), content, is_error };
        if is_own { answers.push(answer(output)) } else { results.push(output) }
    }
    if calls.is_empty() && results.is_empty() {
        return Taken::default();
    }
    message.any(FIELD);
    if !others.is_empty() {
        message.keep(FIELD, Value::from(others));
    }
    let call = (!calls.is_empty()).then(|| Turn::of(Role::Assistant, calls));
    Taken { before: call.into_iter().chain(answers).collect(), results }
}

pub(super) fn answer(output: CallOutput) -> Turn {
    Turn::of(Role::Tool, vec![Part::Result(output)])
}
