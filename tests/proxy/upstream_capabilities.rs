//! Tests responses that reveal which constraints an upstream supports.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use toolwire::{dialect::chat::Server, rules::Enforce};

use crate::support::{
    client::{Client, chat_request},
    taught::{ModelAnswer, model, required, response, setup},
};

const CALL: &str = "<tool_call>\n{\"name\":\"weather\",\"arguments\":{\"city\":\"Paris\"}}\n</tool_call>";

fn means(request: &Value) -> &'static str {
    match request {
        _ if request.get("response_format").is_some() => "schema",
        _ if request.get("grammar").is_some() => "grammar",
        _ if request["messages"].as_array().unwrap().last().unwrap()["role"] == "assistant" => "prefill",
        _ => "none",
    }
}

/// Sends requests to a llama.cpp server that answers with `said`, one answer for each. Returns the constraint in
/// each request, and the metrics at the end.
async fn asked(enforce: Enforce, said: Vec<ModelAnswer>, models: &[&str]) -> (Vec<&'static str>, String) {
    let (number, count) = (Arc::new(AtomicUsize::new(0)), said.len());
    let said = Arc::new(said);
    let (upstream, asked) = model(move |_| said[number.fetch_add(1, Ordering::SeqCst)].clone()).await;
    let mut setup = setup(&upstream, Server::LlamaCpp, enforce);
    setup.wildcard = true;
    let proxy = setup.start().await;
    for at in 0..count {
        let request = required(json!({"model": models[at % models.len()]}));
        let _ = Client::new().send(chat_request(&proxy, request.to_string())).await.unwrap().rest().await;
    }
    let metrics = Client::new().get(&proxy, "/metrics").await.rest().await;
    let asked = asked.lock().unwrap().iter().map(means).collect();
    (asked, metrics)
}

fn ignored(metrics: &str, means: &str) -> Option<String> {
    let labels = format!("upstream=\"up\",model=\"m\",means=\"{means}\",reason=\"ignored\"");
    let line = metrics.lines().find(|line| line.contains(&labels))?;
    line.rsplit(' ').next().map(str::to_owned)
}

#[tokio::test]
async fn means_that_is_ignored_three_times_in_a_row_is_replaced() {
    let no = || ModelAnswer::text("I cannot.");
    let (asked, metrics) = asked(Enforce::Auto, vec![no(), no(), no(), no(), no(), no(), no()], &["m"]).await;
    assert_eq!(asked, ["schema", "schema", "schema", "grammar", "grammar", "grammar", "prefill"]);
    assert_eq!(ignored(&metrics, "schema").as_deref(), Some("3"), "{metrics}");
    assert_eq!(ignored(&metrics, "prefill").as_deref(), Some("1"), "{metrics}");
}

#[tokio::test]
async fn responses_that_show_nothing_do_not_count() {
    let text = |finish| ModelAnswer::Text(vec!["I".to_owned()], finish);
    let cut = ModelAnswer::Text(vec!["{\"name\": \"weather\", \"argum".to_owned()], "length");
    let said = vec![
        text("length"),
        text("content_filter"),
        cut,
        ModelAnswer::Refusal("No."),
        text("length"),
        ModelAnswer::text("No."),
    ];
    let (asked, metrics) = asked(Enforce::Auto, said, &["m"]).await;
    assert_eq!(asked, ["schema"; 6]);
    assert_eq!(ignored(&metrics, "schema").as_deref(), Some("1"), "{metrics}");
}

#[tokio::test]
async fn well_formed_call_ends_the_row() {
    let no = || ModelAnswer::text("I cannot.");
    let (asked, _) = asked(
        Enforce::Auto,
        vec![no(), no(), ModelAnswer::text(CALL), no(), no(), ModelAnswer::text(CALL)],
        &["m"],
    )
    .await;
    assert_eq!(asked, ["schema"; 6]);
}

#[tokio::test]
async fn configured_means_is_used_although_it_is_ignored() {
    let no = || ModelAnswer::text("I cannot.");
    let (asked, metrics) = asked(Enforce::Schema, vec![no(), no(), no(), no()], &["m"]).await;
    assert_eq!(asked, ["schema"; 4]);
    assert_eq!(ignored(&metrics, "schema").as_deref(), Some("4"), "{metrics}");
}

/// Models that share a wildcard entry are still tracked separately.
#[tokio::test]
async fn means_is_learned_by_model() {
    let no = || ModelAnswer::text("I cannot.");
    let (asked, _) =
        asked(Enforce::Auto, vec![no(), no(), no(), no(), no(), no(), no(), no()], &["x", "y"]).await;
    assert_eq!(asked, ["schema", "schema", "schema", "schema", "schema", "schema", "grammar", "grammar"]);
}

/// A strict tool is only constrained if the model calls it, so a response without a call does not show that the
/// constraint was ignored.
#[tokio::test]
async fn response_that_needs_no_call_shows_nothing() {
    let (upstream, asked) = model(|_| ModelAnswer::text("Hello.")).await;
    let proxy = setup(&upstream, Server::Vllm, Enforce::Auto).start().await;
    let mut request = required(json!({"tool_choice": "auto"}));
    request["tools"][0]["function"]["strict"] = true.into();
    for _ in 0..5 {
        response(&proxy, &request).await;
    }
    let asked = asked.lock().unwrap();
    assert!(asked.iter().all(|request| request["response_format"]["type"] == "structural_tag"));
}

/// One client must not affect others, neither with schemas that the server rejects nor with limits on the response.
#[tokio::test]
async fn one_client_does_not_switch_a_means_off_for_others() {
    let (upstream, asked) = model(|request| match request.to_string() {
        text if text.contains("uncompilable")
            && (text.contains("response_format") || text.contains("\"grammar\"")) =>
        {
            ModelAnswer::Refused("400 Bad Request", "cannot compile this schema")
        }
        text if text.contains("silent") => ModelAnswer::text(""),
        _ => ModelAnswer::text(CALL),
    })
    .await;
    let mut setup = setup(&upstream, Server::LlamaCpp, Enforce::Auto);
    setup.keys = vec!["good-key", "evil-key", "silent-key"];
    let proxy = setup.start().await;
    let ask = async |key: &str, property: &str| {
        let mut request = required(json!({}));
        request["tools"][0]["function"]["parameters"]["properties"][property] = json!({"type": "string"});
        let mut sent = chat_request(&proxy, request.to_string());
        sent.headers_mut().insert("x-api-key", key.parse().unwrap());
        let _ = Client::new().send(sent).await.unwrap().rest().await;
        means(asked.lock().unwrap().last().unwrap())
    };
    for number in 0..5 {
        ask("evil-key", &format!("uncompilable{number}")).await;
    }
    assert_eq!(ask("good-key", "a").await, "schema");
    for _ in 0..5 {
        ask("silent-key", "silent").await;
    }
    assert_eq!(ask("good-key", "a").await, "schema");
    // A rejected schema is not sent again.
    let before = asked.lock().unwrap().len();
    ask("evil-key", "uncompilable0").await;
    assert_eq!(asked.lock().unwrap().len(), before + 1);
}
