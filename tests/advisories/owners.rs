//! Tests that clients reach only what is their own, by whatever id.

use serde_json::{Value, json};

use crate::{
    clients::{ALICE, BOB, answer_as, ask_as, proxy},
    script::{self, added, call, end, text},
    support::proxy::Setup,
};

const RESPONSES: (&str, &str) = ("POST", "/v1/responses");

/// CVE-2026-45349 (Open WebUI): whoever knew the id of a chat could continue it.
/// CVE-2026-54015 (Open WebUI): a history could be read by its own id, beside an object of the client's.
#[tokio::test]
async fn response_of_another_client_cannot_be_read_or_continued() {
    let (_upstream, proxy) = proxy().await;
    let (_, made) = answer_as(&proxy, ALICE, RESPONSES, &json!({"model": "m", "input": "hi"})).await;
    let (_, own) = answer_as(&proxy, BOB, RESPONSES, &json!({"model": "org/other", "input": "hi"})).await;
    let (id, own) = (made["id"].as_str().unwrap(), own["id"].as_str().unwrap());
    let (path, input) = (format!("/v1/responses/{id}"), format!("/v1/responses/{id}/input_items"));
    for path in [&path, &input] {
        assert_eq!(ask_as(&proxy, BOB, ("GET", path), &Value::Null).await.status, 404, "{path}");
        assert_eq!(ask_as(&proxy, ALICE, ("GET", path), &Value::Null).await.status, 200, "{path}");
    }
    let item = made["output"][0]["id"].as_str().unwrap();
    for (key, model, before, expected) in
        [(BOB, "org/other", id, 404), (BOB, "org/other", own, 200), (ALICE, "m", id, 200)]
    {
        let body = json!({"model": model, "input": "and?", "previous_response_id": before});
        assert_eq!(ask_as(&proxy, key, RESPONSES, &body).await.status, expected, "{key} {before}");
    }
    for (key, model, before, expected) in
        [(BOB, "org/other", Some(own), 404), (BOB, "org/other", None, 404), (ALICE, "m", None, 200)]
    {
        let mut body = json!({"model": model, "input": [{"type": "item_reference", "id": item}]});
        body.as_object_mut().unwrap().extend(before.map(|id| ("previous_response_id".into(), id.into())));
        assert_eq!(ask_as(&proxy, key, RESPONSES, &body).await.status, expected, "{key} {before:?}");
    }
}

/// CVE-2026-45671 (Open WebUI): everyone could delete files of others.
#[tokio::test]
async fn response_of_another_client_cannot_be_deleted() {
    let (_upstream, proxy) = proxy().await;
    let (_, made) = answer_as(&proxy, ALICE, RESPONSES, &json!({"model": "m", "input": "hi"})).await;
    let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    let send =
        async |key: &str, method: &str| ask_as(&proxy, key, (method, &path), &Value::Null).await.status;
    assert_eq!(send(BOB, "DELETE").await, 404);
    assert_eq!(send(ALICE, "GET").await, 200);
    assert_eq!(send(ALICE, "DELETE").await, 200);
    assert_eq!(send(ALICE, "GET").await, 404);
}

/// CVE-2026-28288 (Dify): answers told whether an account exists.
#[tokio::test]
async fn foreign_id_is_answered_like_an_unknown_one() {
    let (_upstream, proxy) = proxy().await;
    let (_, made) = answer_as(&proxy, ALICE, RESPONSES, &json!({"model": "m", "input": "hi"})).await;
    let foreign = made["id"].as_str().unwrap();
    let mut other = foreign.to_owned();
    let last = other.pop().unwrap();
    other.push(if last == 'a' { 'b' } else { 'a' });
    let seen = async |id: &str| {
        let read = ask_as(&proxy, BOB, ("GET", &format!("/v1/responses/{id}")), &Value::Null).await;
        let body = json!({"model": "org/other", "input": "and?", "previous_response_id": id});
        let continued = ask_as(&proxy, BOB, RESPONSES, &body).await;
        [read, continued].map(|response| (response.status, response.body.replace(id, "ID")))
    };
    assert_eq!(seen(foreign).await, seen(&other).await);
    let (_, listed) = answer_as(&proxy, BOB, ("GET", "/v1/models"), &Value::Null).await;
    let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["org/other"]);
}

/// CVE-2026-52870 (MCP Python SDK): every client could read the results of another client's tasks.
#[tokio::test]
async fn turn_that_waits_for_one_client_is_not_continued_by_another() {
    const KEYS: &str = "[[keys]]\nname = \"alice\"\nkey = \"key-of-alice-0001-and-more\"\n\
                        [[keys]]\nname = \"bob\"\nkey = \"key-of-bob-000001\"\n";
    let hop = call(0, "call_0", "search", r#"{"query":"the secret of alice"}"#)
        + &call(1, "call_1", "weather", r#"{"city":"Lyon"}"#)
        + &end("tool_calls");
    let done = || text("Done.") + &end("stop");
    let (upstream, asked) = script::upstream([hop, done(), done()]).await;
    let mut setup: Setup = script::setup(&upstream, "mixed_turns = \"defer\"");
    setup.execution.push_str(KEYS);
    let proxy = setup.start().await;
    let mut body = crate::support::client::weather(json!({}));
    let chat = ("POST", "/v1/chat/completions");
    let (_, first) = answer_as(&proxy, ALICE, chat, &body).await;
    let message = &first["choices"][0]["message"];
    let [waiting] = &message["tool_calls"].as_array().unwrap()[..] else { panic!("{first}") };
    let result = json!({"role": "tool", "tool_call_id": waiting["id"], "content": "sunny"});
    body["messages"].as_array_mut().unwrap().extend([message.clone(), result]);
    for (key, is_continued) in [(BOB, false), (ALICE, true)] {
        assert_eq!(ask_as(&proxy, key, chat, &body).await.status, 200, "{key}");
        let asked = asked.lock().unwrap();
        let turns = json!(added(asked.last().unwrap(), 1)).to_string();
        assert!(turns.contains("sunny"), "{turns}");
        assert_eq!(turns.contains("the secret of alice"), is_continued, "{key}: {turns}");
    }
}
