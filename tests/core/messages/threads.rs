//! Tests threads: what is held, and the request that is made from it.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::dialect::{ClientDialect, ClientSide};

use crate::support::generated::tries;

fn side() -> &'static dyn ClientSide {
    ClientDialect::Messages.side()
}

/// The request with its history, as the gateway makes it from what is held.
fn joined(body: &Value, record: Option<&Bytes>) -> Value {
    let body = body.to_string();
    assert!(side().may_refer(body.as_bytes()));
    let references = side().references(body.as_bytes());
    let records: Vec<_> = references.ids().map(|_| record.cloned()).collect();
    let whole = side().with_history(body.as_bytes(), &references, &records).unwrap();
    serde_json::from_slice(&whole).unwrap()
}

/// What is held of a request and the response to it.
fn held(request: &Value, response: &Value) -> Bytes {
    let input = side().record_input(&Bytes::from(request.to_string())).unwrap();
    let record = side().record(&input, &response.to_string()).unwrap();
    assert_eq!(record.id, response["id"].as_str().unwrap());
    record.value
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn response(content: Value, reason: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "content": content, "stop_reason": reason})
}

fn next(messages: Value) -> Value {
    let thread = json!({"type": "continue", "previous_message_id": "msg_1"});
    json!({"model": "m", "max_tokens": 9, "thread": thread, "messages": messages})
}

#[test]
fn call_that_was_cut_off_stays_only_with_its_result() {
    let first = json!({"model": "m", "thread": {"type": "create"}, "messages": [user("q")]});
    let text = json!({"type": "text", "text": "Let me look."});
    let cut = json!({"type": "tool_use", "id": "t1", "name": "f", "input": "{\"a"});
    let result =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r"}]});
    let record = held(&joined(&first, None), &response(json!([text, cut]), "max_tokens"));
    for (message, content) in [(user("go on"), json!([text])), (result, json!([text, cut]))] {
        let joined = joined(&next(json!([message])), Some(&record));
        assert_eq!(
            joined["messages"],
            json!([user("q"), {"role": "assistant", "content": content}, message])
        );
    }
    // Nothing is left of the turn.
    let record = held(&first, &response(json!([cut]), "max_tokens"));
    assert_eq!(joined(&next(json!([user("r")])), Some(&record))["messages"], json!([user("q"), user("r")]));
}

#[test]
fn turn_that_was_paused_is_continued_without_new_messages() {
    let first = json!({"model": "m", "thread": {"type": "create"}, "messages": [user("q")]});
    let content = json!([{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}]);
    let record = held(&joined(&first, None), &response(content.clone(), "pause_turn"));
    let expected = json!([user("q"), {"role": "assistant", "content": content}]);
    assert_eq!(joined(&next(json!([])), Some(&record))["messages"], expected);
}

#[test]
fn compaction_replaces_what_precedes_it() {
    let first = json!({"model": "m", "thread": {"type": "create"}, "messages": [user("q")]});
    for (summary, before) in [(json!("S"), json!([])), (Value::Null, json!([user("q")]))] {
        let block = json!({"type": "compaction", "content": summary});
        let record = held(&first, &response(json!([block]), "compaction"));
        let mut expected = before.as_array().unwrap().clone();
        expected.extend([json!({"role": "assistant", "content": [block]}), user("r")]);
        assert_eq!(joined(&next(json!([user("r")])), Some(&record))["messages"], json!(expected));
    }
}

/// Records of other dialects are not threads, and their absence is the failure that makes SDKs start anew.
#[test]
fn what_is_no_thread_is_not_continued() {
    let body = next(json!([user("q")])).to_string();
    let references = side().references(body.as_bytes());
    let of_responses = Bytes::from(json!({"input": [], "response": {"id": "msg_1"}}).to_string());
    for record in
        [None, Some(of_responses), Some(Bytes::from("[")), Some(Bytes::from("{}")), Some(Bytes::new())]
    {
        let failure = side().with_history(body.as_bytes(), &references, &[record]).unwrap_err();
        assert_eq!((failure.status(), failure.code()), (404, Some("thread_not_found")));
    }
}

#[test]
fn request_without_a_thread_refers_to_nothing() {
    for body in ["{}", "[]", "{", "", r#"{"thread":null}"#, r#"{"messages":[{"thread":{"type":"create"}}]}"#]
    {
        assert!(side().references(body.as_bytes()).is_empty(), "{body}");
    }
}

proptest! {
    #![proptest_config(tries(64))]

    /// However a conversation is split into requests, the last one has all of it.
    #[test]
    fn thread_has_what_the_whole_conversation_has(
        turns in prop::collection::vec((".{0,12}", ".{1,12}"), 1..6),
        system in prop::option::of(".{0,12}"),
    ) {
        let mut record: Option<Bytes> = None;
        let mut whole: Vec<Value> = Vec::new();
        for (asked, said) in &turns {
            let new = user(asked);
            whole.push(new.clone());
            let request = match &record {
                Some(_) => next(json!([new])),
                None => json!({"model": "m", "thread": {"type": "create"}, "system": system, "messages": [new]}),
            };
            let sent = joined(&request, record.as_ref());
            prop_assert_eq!(&sent["messages"], &json!(whole));
            prop_assert_eq!(sent.get("system").filter(|system| !system.is_null()).and_then(Value::as_str), system.as_deref());
            prop_assert!(sent.get("thread").is_none());
            let content = json!([{"type": "text", "text": said}]);
            record = Some(held(&sent, &response(content.clone(), "end_turn")));
            whole.push(json!({"role": "assistant", "content": content}));
        }
    }
}
