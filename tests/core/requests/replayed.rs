//! Tests toolwire's extensions to a client's API in a history that the client sends back.

use serde_json::{Value, json};

use super::{decoded, encoded, lumo, plain};

fn asked(answer: &Value, more: &[Value]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "q"}), answer.clone()];
    messages.extend_from_slice(more);
    messages.push(json!({"role": "user", "content": "and?"}));
    json!({"messages": messages})
}

fn search(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "web_search", "arguments": "{\"query\":\"q\"}"}})
}

fn roles(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[test]
fn results_of_calls_that_the_upstream_ran_answer_these_calls() {
    let answer = json!({
        "role": "assistant", "content": "A.", "tool_calls": [search("x"), search("y")],
        "tool_results": [{"index": 0, "id": "x", "content": "one"}, {"index": 1, "id": "y", "content": "two", "is_error": true}],
    });
    let body = lumo(&asked(&answer, &[]));
    assert!(!body.to_string().contains("no result"), "{body}");
    let call = "lumo_tool_call";
    assert_eq!(roles(&body["messages"]), ["user", "assistant", call, call, "tool", "tool", "user"]);
    assert!(body["messages"][4]["content"].to_string().contains("one"), "{body}");
    let body = encoded(&decoded(&asked(&answer, &[])), &plain());
    assert_eq!(roles(&body["messages"]), ["user", "assistant", "tool", "tool", "user"]);
    assert_eq!(
        (&body["messages"][2]["tool_call_id"], &body["messages"][3]["content"]),
        (&json!("x"), &json!("two"))
    );
    assert_eq!(body["messages"][1].get("tool_results"), None);
}

#[test]
fn result_of_the_client_takes_the_place_of_the_upstreams() {
    let answer = json!({
        "role": "assistant", "content": null, "tool_calls": [search("x")],
        "tool_results": [{"index": 0, "id": "x", "content": "theirs"}],
    });
    let own = json!({"role": "tool", "tool_call_id": "x", "content": "own"});
    let body = encoded(&decoded(&asked(&answer, &[own])), &plain());
    assert_eq!(roles(&body["messages"]), ["user", "assistant", "tool", "user"]);
    assert_eq!(body["messages"][2]["content"], "own");
}

#[test]
fn result_without_a_call_stays_where_it_is() {
    let answer = json!({
        "role": "assistant", "content": "A.",
        "tool_results": [{"index": 0, "id": "z", "name": "web_search", "arguments": "{}", "content": "r"}],
    });
    let body = encoded(&decoded(&asked(&answer, &[])), &plain());
    assert_eq!(body["messages"][1], answer);
    assert_eq!(roles(&lumo(&asked(&answer, &[]))["messages"]), ["user", "assistant", "user"]);
}

#[test]
fn call_that_lumo_ran_and_whose_result_is_lost_is_left_out() {
    let answer = json!({"role": "assistant", "content": "A.", "tool_calls": [search("x")]});
    let body = lumo(&asked(&answer, &[]));
    assert_eq!(roles(&body["messages"]), ["user", "assistant", "user"]);
    // The client declares a tool of this name, so the call is the client's own and has no result yet.
    let mut request = asked(&answer, &[]);
    request["tools"] = json!([{"type": "function", "function": {"name": "web_search"}}]);
    assert!(lumo(&request).to_string().contains("no result"));
}

#[test]
fn reasoning_comes_back_under_both_names() {
    for (name, text) in [("reasoning_content", "think"), ("reasoning", "think")] {
        let answer = json!({"role": "assistant", "content": "A.", name: text});
        let conversation = decoded(&asked(&answer, &[]));
        assert!(format!("{:?}", conversation.turns[1].parts).contains("think"), "{conversation:?}");
        assert_eq!(encoded(&conversation, &plain())["messages"][1], answer);
    }
}
