//! Calls that toolwire ran, in the extension field `tool_results` of a message that the client sends back.

use serde_json::Value;

use crate::{
    conversation::{Call, CallOutput, Part, Role, Turn, is_own_id},
    dialect::fields::Fields,
    wire::json::Json,
};

/// The name of the field.
const FIELD: &str = "tool_results";

/// Takes those calls out of `message`: a turn with them, and their results. Other elements of the field stay.
pub(super) fn turns(message: &mut Fields<'_, '_>) -> Vec<Turn> {
    let id = |element: &Json<'_>| Some(element.get("id")?.as_str().filter(|id| is_own_id(id))?.into_owned());
    let Some(list) = message.peek(FIELD).filter(|list| list.elements().any(|element| id(&element).is_some()))
    else {
        return Vec::new();
    };
    message.any(FIELD);
    let (mut calls, mut results, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for element in list.elements() {
        let Some(id) = id(&element) else {
            others.push(element.to_value());
            continue;
        };
        let text = |key: &str| element.get(key).and_then(|value| value.as_str());
        let is_error = element.get("is_error").and_then(|flag| flag.as_bool()).unwrap_or(false);
        let content = text("content").unwrap_or_default().into_owned();
        let name = text("name").unwrap_or_default();
        calls.push(Part::Call(Call::new(id.clone(), name, text("arguments").unwrap_or("{}".into()))));
        results.push(Turn::of(
            Role::Tool,
            vec![Part::Result(CallOutput { id, name: String::new(), content, is_error })],
        ));
    }
    if !others.is_empty() {
        message.keep(FIELD, Value::from(others));
    }
    [Turn::of(Role::Assistant, calls)].into_iter().chain(results).collect()
}
