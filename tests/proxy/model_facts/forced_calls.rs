//! Tests calls that clients require of models that cannot be forced.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::{APIS, Api, Does, ask, names, profile, proxy, sent, speech, upstream};
use crate::independent::upstream::Speech;

/// The tools that a request declares.
fn declared(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().or(tool["function"]["name"].as_str()).unwrap()).collect()
}

#[tokio::test]
async fn model_that_cannot_be_forced_is_asked_again_for_the_call() {
    for target in [
        ("messages", "", "claude-fable-5-1"),
        ("chat", "openrouter", "anthropic/claude-mythos-5.2"),
        ("chat", "deepseek", "deepseek-v4-pro"),
        ("chat", "", "deepseek-reasoner"),
    ] {
        for (api, stream) in APIS.into_iter().flat_map(|api| [(api, false), (api, true)]) {
            let (dialect, provider, model) = target;
            let first = Mutex::new(true);
            let (upstream, asked) = upstream(speech(dialect), move |_| {
                if std::mem::take(&mut *first.lock().unwrap()) {
                    Does::Says("Sure.")
                } else {
                    Does::Calls("weather")
                }
            })
            .await;
            let proxy = proxy(&upstream, dialect, &profile(provider), "");
            let request = api.request(model, stream, json!({"tool_choice": api.named()}));
            let reply = ask(&proxy, api, &request).await;
            let header = reply.header("x-toolwire-left-out").map(str::to_owned);
            let body = reply.bytes().await;
            let answer = api.read(stream, &body);
            assert_eq!(
                answer.named_calls(),
                [("weather", "{\"city\":\"Rome\"}")],
                "{target:?} {api:?} {stream}"
            );
            assert_eq!(answer.text, "", "{target:?} {api:?} {stream}");
            assert!(answer.warnings.is_empty(), "{:?}", answer.warnings);
            assert!(names(header.as_deref()).contains(&"tool_choice"), "{target:?} {api:?} {header:?}");
            let asked = asked.lock().unwrap();
            assert_eq!(asked.len(), 2, "{target:?} {api:?}");
            for request in asked.iter() {
                assert!(request["tool_choice"].is_null() || request["tool_choice"] == "auto", "{request}");
                assert_eq!(declared(request), ["weather"]);
            }
        }
    }
}

#[tokio::test]
async fn call_that_the_model_does_not_make_is_reported() {
    for (api, stream) in APIS.into_iter().flat_map(|api| [(api, false), (api, true)]) {
        let (upstream, asked) = upstream(Speech::Messages, |_| Does::Says("No.")).await;
        let proxy = proxy(&upstream, "messages", "", "");
        let request = api.request("claude-fable-5-1", stream, json!({"tool_choice": api.required()}));
        let body = ask(&proxy, api, &request).await.bytes().await;
        let answer = api.read(stream, &body);
        assert_eq!((answer.text.as_str(), answer.named_calls().len()), ("No.", 0));
        assert_eq!(answer.warnings, ["tool_choice_unfulfilled"], "{api:?} {stream}");
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 2);
        assert_eq!(declared(&asked[0]), ["weather", "news"]);
    }
}

#[tokio::test]
async fn call_is_forced_where_the_model_allows_it() {
    for target in
        [("messages", "", "claude-fable-5"), ("messages", "", "claude-opus-4-8"), ("chat", "", "deepseek-v4")]
    {
        for api in APIS {
            let (body, header) = sent(target, (api, false), "", json!({"tool_choice": api.named()})).await;
            let name = if target.0 == "chat" {
                &body["tool_choice"]["function"]["name"]
            } else {
                &body["tool_choice"]["name"]
            };
            assert_eq!((name.as_str(), declared(&body).len()), (Some("weather"), 2), "{target:?} {api:?}");
            assert!(!names(header.as_deref()).contains(&"tool_choice"));
        }
    }
    let off = json!({"tool_choice": Api::Messages.required(), "thinking": {"type": "disabled"}});
    let (body, _) = sent(("chat", "deepseek", "deepseek-v4-pro"), (Api::Messages, false), "", off).await;
    assert_eq!(body["tool_choice"], "required");
}

#[tokio::test]
async fn configuration_says_that_a_model_cannot_be_forced() {
    let (upstream, asked) = upstream(Speech::Chat, |request| {
        let is_again = request["messages"].as_array().unwrap().len() > 1;
        if is_again { Does::Calls("news") } else { Does::Says("Sure.") }
    })
    .await;
    let proxy = proxy(&upstream, "chat", "", "refuses = [\"tool_choice\"]");
    let request = Api::Chat.request("mine", false, json!({"tool_choice": "required"}));
    let reply = ask(&proxy, Api::Chat, &request).await;
    assert_eq!(reply.header("x-toolwire-left-out"), Some("tool_choice"));
    let answer = Api::Chat.read(false, &reply.bytes().await);
    assert_eq!(answer.named_calls(), [("news", "{\"city\":\"Rome\"}")]);
    assert!(asked.lock().unwrap().iter().all(|request| request.get("tool_choice").is_none()));
}
