//! Tests responses that continue a prefill, over sockets.

use serde_json::{Value, json};
use toolwire::{
    dialect::chat::Server,
    rules::{Enforce, UnknownCalls},
};

use crate::support::{
    client::{Client, chat_request},
    taught::{ModelAnswer, gist, model, required, response, setup},
};

const PREFILL: &str = "<tool_call>\n{\"name\": \"weather\", \"arguments\":";
const REST: &str = "{\"city\":\"Paris\"}}\n</tool_call>";
const CALL: (Option<&str>, Option<(&str, &str)>, &str) =
    (None, Some(("weather", "{\"city\":\"Paris\"}")), "tool_calls");

/// Returns the last message if it is the assistant's.
fn begun(request: &Value) -> Option<&Value> {
    request["messages"].as_array().unwrap().last().filter(|turn| turn["role"] == "assistant")
}

#[tokio::test]
async fn required_call_is_begun_for_the_model() {
    for (server, enforce, rest) in [
        (Server::DeepSeek, Enforce::Auto, REST.to_owned()),
        (Server::Vllm, Enforce::Prefill, REST.to_owned()),
        (Server::Mistral, Enforce::Prefill, format!("{PREFILL}{REST}")),
    ] {
        let pieces: Vec<String> = rest.chars().map(String::from).collect();
        let (upstream, asked) = model(move |_| ModelAnswer::Text(pieces.clone(), "stop")).await;
        let proxy = setup(&upstream, server, enforce).start().await;
        assert_eq!(gist(&response(&proxy, &required(json!({}))).await), CALL);
        let streamed = required(json!({"stream": true})).to_string();
        let streamed = Client::new().send(chat_request(&proxy, streamed)).await.unwrap().rest().await;
        assert!(streamed.contains("tool_calls") && !streamed.contains("tool_call>"), "{streamed}");

        let asked = asked.lock().unwrap();
        let turn = begun(&asked[0]).unwrap();
        assert_eq!(turn["content"], PREFILL);
        assert_eq!(turn["prefix"].as_bool(), (server != Server::Vllm).then_some(true));
        let fields = [&asked[0]["continue_final_message"], &asked[0]["add_generation_prompt"]];
        let expected = if server == Server::Vllm { [json!(true), json!(false)] } else { Default::default() };
        assert_eq!(fields, [&expected[0], &expected[1]]);
    }
}

/// The model makes no call, so the client gets the model's own text and a warning.
#[tokio::test]
async fn prefill_is_not_text_for_the_client() {
    for text in ["I cannot.", " \"weather\" is fine", "<tool_call>\n"] {
        let (upstream, _) = model(move |_| ModelAnswer::text(text)).await;
        let proxy = setup(&upstream, Server::DeepSeek, Enforce::Auto).start().await;
        let response = response(&proxy, &required(json!({}))).await;
        assert_eq!(gist(&response), (Some(text), None, "stop"));
        assert!(response.to_string().contains("tool_choice_unfulfilled"), "{response}");
    }
}

#[tokio::test]
async fn response_is_read_as_its_own_request_asked_for_it() {
    // The first server rejects prefills, and the second one schemas.
    for (refuses_prefill, enforce, kinds) in
        [(true, Enforce::Prefill, [true, false]), (false, Enforce::Auto, [false, true])]
    {
        let (upstream, asked) = model(move |request| match begun(request).is_some() {
            is_begun if is_begun == refuses_prefill => {
                ModelAnswer::Refused("400 Bad Request", "not like this")
            }
            true => ModelAnswer::text(REST),
            false => ModelAnswer::text(&format!("{PREFILL}{REST}")),
        })
        .await;
        let proxy = setup(&upstream, Server::Mistral, enforce).start().await;
        for _ in 0..2 {
            assert_eq!(gist(&response(&proxy, &required(json!({}))).await), CALL);
        }
        let asked: Vec<_> = asked.lock().unwrap().iter().map(|request| begun(request).is_some()).collect();
        assert_eq!(asked, [kinds[0], kinds[1], kinds[1]]);
    }
}

#[tokio::test]
async fn every_hop_is_prefilled() {
    let (upstream, asked) = model(|request| match request.to_string().contains("no such tool") {
        false => ModelAnswer::text(
            "\"x\"}\n</tool_call><tool_call>{\"name\":\"zzz\",\"arguments\":{}}</tool_call>",
        ),
        true => ModelAnswer::text(REST),
    })
    .await;
    let mut setup = setup(&upstream, Server::DeepSeek, Enforce::Auto);
    setup.settings.unknown_calls = UnknownCalls::Retry;
    let proxy = setup.start().await;
    assert_eq!(gist(&response(&proxy, &required(json!({}))).await), CALL);
    let asked = asked.lock().unwrap();
    assert_eq!(asked.iter().map(|request| begun(request).is_some()).collect::<Vec<_>>(), [true, true]);
}

/// Servers reject two consecutive assistant turns at the end of a request, and the client wants its own turn continued.
#[tokio::test]
async fn turn_that_the_client_has_begun_is_not_begun_again() {
    let (upstream, asked) = model(|_| ModelAnswer::text("fine")).await;
    let proxy = setup(&upstream, Server::DeepSeek, Enforce::Auto).start().await;
    let messages =
        json!([{"role": "user", "content": "weather?"}, {"role": "assistant", "content": "It is"}]);
    response(&proxy, &required(json!({"messages": messages}))).await;
    assert_eq!(begun(&asked.lock().unwrap()[0]).unwrap()["content"], "It is");
}

/// A prefilled model cannot reason first, so only an explicit setting causes a prefill.
#[tokio::test]
async fn auto_does_not_prefill_a_model_that_reasons_first() {
    for (enforce, expected) in [(Enforce::Auto, false), (Enforce::Prefill, true)] {
        let (upstream, asked) = model(|_| ModelAnswer::text("fine")).await;
        let mut setup = setup(&upstream, Server::DeepSeek, enforce);
        setup.settings.starts_in_reasoning = true;
        let proxy = setup.start().await;
        response(&proxy, &required(json!({}))).await;
        assert_eq!(begun(&asked.lock().unwrap()[0]).is_some(), expected);
    }
}
