//! [`take_form`]: describes the required response format to the model.

use serde_json::Value;

use crate::conversation::Conversation;

/// Removes the fields that constrain the response format from the request and describes the constraint in
/// words. `None` if there are no such fields.
///
/// These fields are `response_format` and what servers add to OpenAI's API: vLLM's `structured_outputs` and
/// the older `guided_…`, and llama.cpp's `json_schema` and `grammar`.
pub(super) fn take_form(conversation: &mut Conversation) -> Option<String> {
    let format = conversation.sampling.response_format.as_ref().and_then(of_response_format);
    if format.is_some() {
        conversation.sampling.response_format = None;
    }
    let structured = conversation.rest.remove("structured_outputs");
    let kinds = structured.as_ref().and_then(Value::as_object).into_iter().flatten();
    let structured = kinds.filter_map(|(kind, value)| of_constraint(kind, value)).next();
    let mut other = None;
    for (key, kind) in FIELDS {
        if let Some(value) = conversation.rest.remove(key) {
            other = other.or_else(|| of_constraint(kind, &value));
        }
    }
    let form = format.or(structured).or(other)?;
    Some(format!(
        "When you do not call a tool, your answer must be {form}\nWrite nothing before or behind it, and no fence \
         around it. This does not hold for tool calls: write them in the form above."
    ))
}

/// Top-level fields of a request that constrain the response, each with the kind of constraint.
const FIELDS: &[(&str, &str)] = &[
    ("guided_json", "json"),
    ("guided_regex", "regex"),
    ("guided_choice", "choice"),
    ("guided_grammar", "grammar"),
    ("json_schema", "json"),
    ("grammar", "grammar"),
];

/// Describes `response_format`. `None` for `text`, which constrains nothing, and for unknown types, which are
/// left in the request.
fn of_response_format(format: &Value) -> Option<String> {
    match format.get("type")?.as_str()? {
        "json_schema" => {
            let inner = format.get("json_schema").unwrap_or(format);
            let description = inner.get("description").and_then(Value::as_str);
            let form = of_schema(inner.get("schema").unwrap_or(&Value::Null));
            Some(match description {
                Some(description) => format!("{form}\nIts purpose: {description}"),
                None => form,
            })
        }
        "json_object" | "json" => Some(of_schema(format.get("schema").unwrap_or(&Value::Null))),
        _ => None,
    }
}

/// Describes a constraint of this kind, as named by vLLM.
fn of_constraint(kind: &str, value: &Value) -> Option<String> {
    let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(match kind {
        _ if value.is_null() => return None,
        "json" => of_schema(value),
        "json_object" => of_schema(&Value::Null),
        "regex" => format!("a text that matches this regular expression:\n\n{}\n", text()),
        "choice" => format!("one of these texts, word for word:\n\n{}\n", text()),
        "grammar" => format!("a text of this grammar:\n\n{}\n", text()),
        _ => return None,
    })
}

/// Asks for a JSON value that matches `schema`, which may be a string, or for any object if it is null.
fn of_schema(schema: &Value) -> String {
    match schema {
        Value::Null => "one JSON object.".to_owned(),
        Value::String(schema) => format!("one JSON value that fits this JSON Schema:\n\n{schema}\n"),
        schema => format!("one JSON value that fits this JSON Schema:\n\n{schema}\n"),
    }
}
