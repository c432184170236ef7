//! Tests enforced calls over sockets: the constraint in the upstream's request, and how the response is read.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolwire::{
    config::ToolStyle,
    dialect::chat::Server,
    format::QWEN3_CODER,
    rules::{Detect, Enforce},
};

use crate::support::{
    client::{Client, chat_request},
    proxy::Setup,
    taught::{ModelAnswer, model, required, response, setup},
};

/// Sends a request with this tool choice to a model on `server` that answers with `text`. Returns the request that
/// the model gets, and the client's response.
async fn exchange(
    server: Server,
    change: impl FnOnce(&mut Setup),
    choice: Value,
    text: &'static str,
) -> (Value, Value) {
    let (upstream, asked) = model(move |_| ModelAnswer::text(text)).await;
    let mut setup = setup(&upstream, server, Enforce::Auto);
    change(&mut setup);
    let proxy = setup.start().await;
    let request = required(json!({"tool_choice": choice, "response_format": {"type": "json_object"}}));
    let response = response(&proxy, &request).await;
    let asked = asked.lock().unwrap().remove(0);
    (asked, response)
}

fn call_of(response: &Value) -> (&str, &str) {
    let message = &response["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null, "{response}");
    let call = &message["tool_calls"][0]["function"];
    (call["name"].as_str().unwrap_or_default(), call["arguments"].as_str().unwrap_or_default())
}

const WEATHER: (&str, &str) = ("weather", r#"{"city":"Paris"}"#);
const TAGGED: &str = "<tool_call>\n{\"name\":\"weather\",\"arguments\":{\"city\":\"Paris\"}}\n</tool_call>";
const PLAIN: &str = r#"{"name": "weather", "arguments": {"city":"Paris"}}"#;

fn prompt(asked: &Value) -> &str {
    asked["messages"][0]["content"].as_str().unwrap()
}

#[tokio::test]
async fn a_required_call_is_asked_for_as_a_structural_tag() {
    let (asked, response) = exchange(Server::Vllm, |_| (), json!("required"), TAGGED).await;
    let format = &asked["response_format"];
    assert_eq!(format["type"], "structural_tag");
    assert_eq!(format["format"]["at_least_one"], true);
    assert_eq!(format["format"]["tags"][0]["end"], "}\n</tool_call>");
    assert_eq!(asked["skip_special_tokens"], false);
    assert!(asked.get("tools").is_none());
    assert_eq!(call_of(&response), WEATHER);
    assert_eq!(response["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn a_schema_is_taught_and_read_as_plain_json() {
    let choice = json!({"type": "function", "function": {"name": "weather"}});
    let (asked, response) = exchange(Server::LlamaCpp, |_| (), choice, PLAIN).await;
    let format = &asked["response_format"];
    assert_eq!(format["type"], "json_schema");
    assert_eq!(format["json_schema"]["schema"]["properties"]["name"]["const"], "weather");
    assert!(!prompt(&asked).contains("<tool_call>"), "{}", prompt(&asked));
    assert_eq!(call_of(&response), WEATHER);
}

/// Models copy values of examples, and the constraint shows the form.
#[tokio::test]
async fn no_examples_are_shown_where_the_form_is_enforced() {
    let turns = async |setup: fn(&mut Setup), choice| {
        let (asked, _) = exchange(Server::Vllm, setup, choice, TAGGED).await;
        asked["messages"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(turns(|_| (), json!("required")).await, 2);
    assert_eq!(turns(|_| (), json!("auto")).await, 6);
    assert_eq!(turns(|setup| setup.settings.enforce = Enforce::Off, json!("required")).await, 6);
}

#[tokio::test]
async fn a_grammar_keeps_the_notation_of_the_format() {
    let grammar = |setup: &mut Setup| setup.settings.enforce = Enforce::Grammar;
    for (server, key) in [(Server::LlamaCpp, "/grammar"), (Server::Sglang, "/ebnf")] {
        let (asked, response) = exchange(server, grammar, json!("required"), TAGGED).await;
        let grammar = asked.pointer(key).and_then(Value::as_str).unwrap();
        assert!(grammar.contains(r#""<tool_call>\n{\"name\": \"weather\", \"arguments\": ""#), "{grammar}");
        assert!(asked.get("response_format").is_none());
        assert_eq!(call_of(&response), WEATHER);
    }
}

/// Where no call is required, the model may answer in text, and only its calls are constrained.
#[tokio::test]
async fn calls_are_constrained_where_none_is_required() {
    const SAID: &str = "Sunny. A call would begin with <tool_call>.";
    for (text, calls) in [(SAID, false), (TAGGED, true)] {
        for server in [Server::Vllm, Server::Sglang, Server::LlamaCpp, Server::LlamaCppPython] {
            let (asked, response) = exchange(server, |_| (), json!("auto"), text).await;
            match asked.get("grammar") {
                Some(grammar) => {
                    assert!(grammar.as_str().unwrap().starts_with("root ::= text0\n"), "{grammar}")
                }
                None => {
                    let format = &asked["response_format"]["format"];
                    assert_eq!(format["at_least_one"], false, "{asked}");
                    assert_eq!(format["triggers"], json!(["<tool_call>\n{\"name\": \""]));
                }
            }
            if calls {
                assert_eq!(call_of(&response), WEATHER);
            } else {
                assert_eq!(response["choices"][0]["message"]["content"], SAID);
                assert!(response.get("toolwire").is_none(), "{response}");
            }
        }
    }
}

/// The default forces no call, so the prompt is the same, and a missing call says nothing about the constraint.
#[tokio::test]
async fn required_calls_are_constrained_but_not_forced_by_default() {
    let (upstream, asked) = model(|_| ModelAnswer::text("I cannot.")).await;
    let proxy = setup(&upstream, Server::LlamaCpp, Enforce::default()).start().await;
    for _ in 0..5 {
        let response = response(&proxy, &required(json!({}))).await;
        assert!(response.to_string().contains("tool_choice_unfulfilled"), "{response}");
    }
    for asked in &*asked.lock().unwrap() {
        assert!(asked["grammar"].as_str().unwrap().starts_with("root ::= text0\n"), "{asked}");
        assert_eq!(asked["messages"].as_array().map_or(0, Vec::len), 6);
    }
}

/// A server that refuses the constraint is asked without it, and not asked for it again with these tools. That says
/// nothing about required calls.
#[tokio::test]
async fn a_refused_grammar_leaves_calls_unconstrained() {
    let (upstream, asked) = model(|request| match request.get("grammar") {
        Some(_) => ModelAnswer::Refused("400 Bad Request", "failed to parse grammar"),
        None => ModelAnswer::text(TAGGED),
    })
    .await;
    let proxy = setup(&upstream, Server::LlamaCpp, Enforce::Auto).start().await;
    for choice in ["auto", "auto", "required"] {
        let request = required(json!({"tool_choice": choice}));
        assert_eq!(call_of(&response(&proxy, &request).await), WEATHER);
    }
    let asked = asked.lock().unwrap();
    let kinds: Vec<_> = asked
        .iter()
        .map(|body| (body.get("response_format").is_some(), body.get("grammar").is_some()))
        .collect();
    assert_eq!(kinds, [(false, true), (false, false), (false, false), (true, false)]);
}

#[tokio::test]
async fn nothing_is_enforced_without_need_or_means() {
    let unconstrained = |asked: &Value| {
        ["response_format", "grammar", "ebnf", "structured_outputs"]
            .iter()
            .all(|key| asked.get(key).is_none())
    };
    for server in [Server::Ollama, Server::LmStudio, Server::OpenAi] {
        let (asked, response) = exchange(server, |_| (), json!("auto"), TAGGED).await;
        assert!(unconstrained(&asked), "{server:?}: {asked}");
        assert_eq!(call_of(&response), WEATHER);
    }
    let off = |setup: &mut Setup| setup.settings.enforce = Enforce::Off;
    for choice in ["auto", "required"] {
        let (asked, _) = exchange(Server::Vllm, off, json!(choice), TAGGED).await;
        assert!(unconstrained(&asked), "{asked}");
    }
    // Without calls, the client's own `response_format` applies.
    let (asked, _) = exchange(Server::Vllm, |_| (), json!("none"), TAGGED).await;
    assert_eq!(asked["response_format"], json!({"type": "json_object"}));
    let (asked, _) = exchange(Server::Other, |_| (), json!("required"), TAGGED).await;
    assert!(unconstrained(&asked), "{asked}");
    // A call in the constraint's format would not be detected.
    let narrow = |setup: &mut Setup| {
        setup.tools = ToolStyle::Format(&QWEN3_CODER);
        setup.settings.detect = Detect::Formats(vec!["qwen3_coder"]);
    };
    let (asked, _) = exchange(Server::Vllm, narrow, json!("required"), "no").await;
    assert!(unconstrained(&asked), "{asked}");
}

#[tokio::test]
async fn a_missing_call_is_a_warning_all_the_same() {
    let (asked, response) = exchange(Server::Ollama, |_| (), json!("required"), "I cannot.").await;
    assert_eq!(asked["response_format"]["type"], "json_schema");
    assert_eq!(response["choices"][0]["message"]["content"], "I cannot.");
    assert_eq!(response["choices"][0]["finish_reason"], "stop");
    assert!(response.to_string().contains("tool_choice_unfulfilled"), "{response}");
}

/// The server rejects schemas but supports grammars. After the first rejection, it gets no more schemas.
#[tokio::test]
async fn a_refused_means_is_replaced_and_remembered() {
    let (upstream, asked) = model(|request| match request.get("response_format") {
        Some(_) => ModelAnswer::Refused("400 Bad Request", "unknown field response_format"),
        None => ModelAnswer::text(TAGGED),
    })
    .await;
    let proxy = setup(&upstream, Server::LlamaCpp, Enforce::Auto).start().await;
    // The first request is large.
    for text in ["x".repeat(1 << 20), "weather?".to_owned()] {
        let request = required(json!({"messages": [{"role": "user", "content": text}]}));
        assert_eq!(call_of(&response(&proxy, &request).await), WEATHER);
    }
    let asked = asked.lock().unwrap();
    let kinds: Vec<_> = asked
        .iter()
        .map(|body| (body.get("response_format").is_some(), body.get("grammar").is_some()))
        .collect();
    assert_eq!(kinds, [(true, false), (false, true), (false, true)]);
}

#[tokio::test]
async fn a_refusal_for_another_reason_is_not_held_against_the_means() {
    let status = Arc::new(Mutex::new(""));
    let sent = Arc::clone(&status);
    let (upstream, asked) =
        model(move |_| ModelAnswer::Refused(*sent.lock().unwrap(), "the prompt is too long")).await;
    let proxy = setup(&upstream, Server::Ollama, Enforce::Auto).start().await;
    let request = required(json!({})).to_string();
    // A server error is not about the constraint unless its message mentions it.
    for (refusal, requests) in
        [("400 Bad Request", 3), ("400 Bad Request", 6), ("500 Oh", 7), ("503 Busy", 8)]
    {
        *status.lock().unwrap() = refusal;
        let reply = Client::new().send(chat_request(&proxy, request.clone())).await.unwrap();
        assert!(!reply.status().is_success());
        assert!(reply.json().await.to_string().contains("the prompt is too long"));
        assert_eq!(asked.lock().unwrap().len(), requests);
    }
}
