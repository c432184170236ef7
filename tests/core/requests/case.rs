//! Tests keys that differ from a known field only in case, which some servers would treat as that field.

use serde_json::{Value, json};
use toolwire::{dialect::ClientDialect, failure::Kind};

fn requests() -> [(ClientDialect, Value); 3] {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    [
        (
            ClientDialect::Chat,
            json!({
                "model": "m", "n": 1, "stream": false, "max_tokens": 5, "max_completion_tokens": 5, "temperature": 1,
                "top_p": 1, "stop": "x", "seed": 1, "parallel_tool_calls": true, "tool_choice": "auto",
                "reasoning_effort": "low", "response_format": {"type": "text"}, "stream_options": {"include_usage": true},
                "messages": [
                    {"role": "user", "content": "q"},
                    {"role": "assistant", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c", "content": "r"},
                ],
                "tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": {}}}],
            }),
        ),
        (
            ClientDialect::Responses,
            json!({
                "model": "m", "stream": false, "max_output_tokens": 5, "store": false, "instructions": "i",
                "input": [{"type": "message", "role": "user", "content": "q"}], "reasoning": {"effort": "low"},
                "tools": [{"type": "function", "name": "f", "parameters": {}}], "tool_choice": "auto",
                "text": {"format": {"type": "text"}}, "previous_response_id": null,
            }),
        ),
        (
            ClientDialect::Messages,
            json!({
                "model": "m", "max_tokens": 5, "stream": false, "system": "s", "stop_sequences": ["x"],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}],
                "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"},
            }),
        ),
    ]
}

/// Finds the JSON pointers of all objects in `value`, without entering schemas.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(at.to_owned());
            for (key, value) in
                members.iter().filter(|(key, _)| !key.ends_with("schema") && *key != "parameters")
            {
                objects(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(elements) => {
            elements
                .iter()
                .enumerate()
                .for_each(|(place, value)| objects(value, &format!("{at}/{place}"), found));
        }
        _ => {}
    }
}

fn spellings(key: &str) -> Vec<String> {
    let mut spellings = vec![key.to_uppercase(), key[..1].to_uppercase() + &key[1..]];
    spellings.extend(key.contains('s').then(|| key.replace('s', "\u{17f}")));
    spellings.extend(key.contains('k').then(|| key.replace('k', "\u{212a}")));
    spellings
}

#[test]
fn top_level_field_that_differs_in_case_is_refused_by_its_name() {
    for (dialect, request) in requests() {
        assert!(dialect.side().decode(request.to_string().as_bytes()).is_ok(), "{request}");
        for key in request.as_object().unwrap().keys() {
            for spelling in spellings(key) {
                for is_beside in [true, false] {
                    let mut request = request.clone();
                    let value = request[key].clone();
                    if !is_beside {
                        request.as_object_mut().unwrap().remove(key);
                    }
                    request[&spelling] = value;
                    let failure = dialect.side().decode(request.to_string().as_bytes()).unwrap_err();
                    assert_eq!(
                        (failure.kind(), failure.param()),
                        (Kind::Request, Some(&*spelling)),
                        "{failure:?}"
                    );
                    assert!(failure.message().contains(key), "{failure:?}");
                }
            }
        }
        let mut other = request.clone();
        other["topK"] = 1.into();
        other["X_Unknown"] = json!({"Model": 1});
        other["metadata"] = json!({"Name": "x"});
        assert!(
            dialect.side().decode(other.to_string().as_bytes()).is_ok(),
            "unknown fields may be spelled in any way"
        );
    }
}

#[test]
fn roles_and_names_inside_of_a_request_are_refused_too() {
    for (dialect, request) in requests() {
        let mut found = Vec::new();
        objects(&request, "", &mut found);
        for (part, key) in [
            ("/messages/0", "role"),
            ("/tools/0", "type"),
            ("/tools/0", "name"),
            ("/tools/0/function", "name"),
        ] {
            if !found.iter().any(|at| at == part) {
                continue;
            }
            for spelling in spellings(key) {
                let mut request = request.clone();
                request.pointer_mut(part).unwrap()[&spelling] = "x".into();
                let failure = dialect.side().decode(request.to_string().as_bytes()).unwrap_err();
                assert!(failure.param().is_some_and(|param| param.ends_with(&spelling)), "{failure:?}");
            }
        }
    }
}
