//! Tests what some upstreams do not accept: developer messages, images in results, and consecutive user turns.

use serde_json::{Value, json};
use toolwire::dialect::chat::Options;

use crate::requests::{call, decoded, encoded, image, lumo, plain, taught, text, tools};

fn messages(request: &Value, options: &Options) -> Value {
    encoded(&decoded(request), options)["messages"].clone()
}

#[test]
fn developer_message_becomes_a_system_message_if_unsupported() {
    let request = json!({"messages": [
        {"role": "developer", "content": "d", "name": "n"}, {"role": "user", "content": "u"},
    ]});
    assert_eq!(messages(&request, &Options::default()), request["messages"]);
    let mut expected = request["messages"].clone();
    expected[0]["role"] = "system".into();
    assert_eq!(messages(&request, &plain()), expected);
}

#[test]
fn consecutive_user_turns_are_joined_if_configured() {
    let request = json!({"messages": [
        {"role": "user", "content": "a", "name": "n"}, {"role": "user", "content": "b"},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "x"},
        {"role": "user", "content": "d"}, {"role": "user", "content": [text("e"), image("i")]},
        {"role": "user", "content": [{"type": "text", "text": "f", "cache_control": {}}]},
    ]});
    assert_eq!(messages(&request, &plain()), request["messages"]);
    let joining = Options { join_user_turns: true, ..plain() };
    assert_eq!(
        messages(&request, &joining),
        json!([
            {"role": "user", "content": "a\n\nb\n\nc", "name": "n"},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": [
                text("d"), text("e"), image("i"), {"type": "text", "text": "f", "cache_control": {}},
            ]},
        ])
    );
}

#[test]
fn taught_result_and_next_user_turn_are_joined() {
    let request = json!({"tools": tools(), "messages": [
        {"role": "user", "content": "?"}, {"role": "assistant", "content": null, "tool_calls": [call("c1", "shot")]},
        {"role": "tool", "tool_call_id": "c1", "content": "RESULT"}, {"role": "user", "content": "go on"},
    ]});
    let format = toolwire::format::by_name("hermes").unwrap();
    let teaching =
        toolwire::format::Teaching { example_turns: false, ..toolwire::format::Teaching::default() };
    let told = toolwire::format::instruct(decoded(&request), format, &teaching);
    let roles = |options: &Options| -> Vec<String> {
        let body = encoded(&told, options);
        let messages = body["messages"].as_array().unwrap();
        messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(&plain()), ["system", "user", "assistant", "user", "user"]);
    let joining = Options { join_user_turns: true, ..plain() };
    assert_eq!(roles(&joining), ["system", "user", "assistant", "user"]);
    let last = encoded(&told, &joining)["messages"][3]["content"].as_str().unwrap().to_owned();
    assert!(last.contains("RESULT") && last.ends_with("\n\ngo on"), "{last}");
}

/// Two results, the first with text and images, and later a result that consists of only an image.
fn with_images() -> Value {
    json!({"model": "m", "tools": tools(), "messages": [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": null, "tool_calls": [call("c1", "shot"), call("c2", "shot")]},
        {"role": "tool", "tool_call_id": "c1", "content": [text("one"), image("data:image/png;base64,AA"), image("https://x")]},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "assistant", "content": "A", "tool_calls": [call("c3", "shot")]},
        {"role": "tool", "tool_call_id": "c3", "content": [image("https://y")]},
    ]})
}

#[test]
fn images_in_results_follow_all_results_in_a_user_turn() {
    let request = with_images();
    let sent = messages(&request, &plain());
    let mut expected = request["messages"].as_array().unwrap().clone();
    expected[2]["content"] = "one".into();
    expected[5]["content"] = "".into();
    let lead = |id: &str| text(&format!("Attached to the result of the call {id} of shot:"));
    expected.push(json!({"role": "user", "content": [lead("c3"), image("https://y")]}));
    let first = json!({"role": "user", "content": [
        lead("c1"), image("data:image/png;base64,AA"), image("https://x"),
    ]});
    expected.insert(4, first);
    assert_eq!(sent, Value::from(expected));
    let keeping = Options { keep_result_images: true, ..plain() };
    assert_eq!(messages(&request, &keeping), request["messages"]);
}

#[test]
fn images_in_results_join_the_next_user_turn_if_turns_are_joined() {
    let mut request = with_images();
    request["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "well?"}));
    let sent = messages(&request, &Options { join_user_turns: true, ..plain() });
    let last = sent.as_array().unwrap().last().unwrap();
    assert_eq!(last["content"].as_array().unwrap()[1..], [image("https://y"), text("well?")]);
}

#[test]
fn taught_results_and_their_images_are_one_turn() {
    let body = taught(&with_images(), "hermes");
    let sent = body["messages"].as_array().unwrap();
    let roles: Vec<_> = sent.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "user"]);
    let parts = sent[3]["content"].as_array().unwrap();
    let results = parts[0]["text"].as_str().unwrap();
    assert!(results.contains("one") && results.contains("two"), "{results}");
    assert!(parts[1]["text"].as_str().unwrap().contains("c1"), "{parts:?}");
    assert_eq!(parts[2..], [image("data:image/png;base64,AA"), image("https://x")]);
    assert_eq!(sent[5]["content"][2], image("https://y"));
}

#[test]
fn lumo_gets_images_of_results_after_all_results() {
    let body = lumo(&with_images());
    let sent = body["messages"].as_array().unwrap();
    let roles: Vec<_> = sent.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let calls = "lumo_tool_call";
    assert_eq!(roles, ["user", calls, calls, "tool", "tool", "user", "assistant", calls, "tool", "user"]);
    assert!(!body.to_string().contains("no result"), "{body}");
    assert_eq!(sent[5]["content"][1], image("data:image/png;base64,AA"));
}

#[test]
fn nothing_in_a_result_is_lost() {
    let file = json!({"type": "file", "file": {"file_id": "f"}});
    let odd = json!({"type": "image_url", "image_url": "https://z"});
    let request = json!({"messages": [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": null, "tool_calls": [call("c1", "shot")]},
        {"role": "tool", "tool_call_id": "c1", "content": ["bare", {"a": 1}, file, odd, {"type": "json", "text": "t"}]},
    ]});
    let sent = messages(&request, &plain());
    assert_eq!(sent[2]["content"], "bare\n{\"a\":1}\nt");
    assert_eq!(sent[3]["content"].as_array().unwrap()[1..], [file, odd]);
}
