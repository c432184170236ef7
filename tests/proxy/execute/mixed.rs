//! Tests hops that call both hosted tools and the client's tools.

use std::path::Path;

use serde_json::{Value, json};

use super::script::{added, call, end, setup, text, upstream};
use crate::support::{
    client::{Client, weather},
    proxy::Proxy,
};

const DEFER: &str = "mixed_turns = \"defer\"";

/// Calls the tool for this letter: `s` is hosted, and all other letters are the client's.
fn called(index: usize, letter: char) -> String {
    let name = if letter == 's' { "search" } else { "weather" };
    call(index, &format!("call_{index}"), name, &format!(r#"{{"city":"{index}"}}"#))
}

fn hop(letters: &str) -> String {
    let calls = letters.chars().enumerate().map(|(index, letter)| called(index, letter));
    text("Hm.") + &calls.collect::<String>() + &end("tool_calls")
}

/// Returns the message and the finish reason of a non-streaming response.
async fn response(proxy: &Proxy, request: &Value) -> (Value, String) {
    let response = Client::new().chat(proxy, request.to_string()).await.json().await;
    let finish = response["choices"][0]["finish_reason"].as_str().unwrap_or_default().to_owned();
    (response["choices"][0]["message"].clone(), finish)
}

/// Returns the client's next request: the message, then the results of its calls in reverse order.
fn next(message: &Value) -> Value {
    let mut request = weather(json!({}));
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(message.clone());
    for call in message["tool_calls"].as_array().unwrap().iter().rev() {
        let content = format!("weather of {}", call["function"]["arguments"].as_str().unwrap());
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": content}));
    }
    request
}

/// Returns the calls and the results in the last request, which must be in the same order.
fn completed(asked: &[Value]) -> (Vec<String>, Vec<String>) {
    let added = added(asked.last().unwrap(), 1);
    let calls = added[0]["tool_calls"].as_array().unwrap();
    let ids: Vec<_> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    let results: Vec<_> =
        added[1..].iter().map(|message| message["tool_call_id"].as_str().unwrap()).collect();
    assert_eq!(ids, results, "the results are in the order of the calls");
    let names = calls.iter().map(|call| call["function"]["name"].as_str().unwrap().to_owned());
    let contents = added[1..].iter().map(|message| message["content"].as_str().unwrap().to_owned());
    (names.collect(), contents.collect())
}

#[tokio::test]
async fn deferred_calls_are_completed_in_any_order() {
    for letters in ["sw", "ws", "sws", "wsw", "ssw", "wss", "swsw", "wwss"] {
        let (upstream, asked) = upstream([hop(letters), text("Done.") + &end("stop")]).await;
        let proxy = setup(&upstream, DEFER).start().await;
        let (message, finish) = response(&proxy, &weather(json!({}))).await;
        assert_eq!(finish, "tool_calls");
        let calls = message["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), letters.matches('w').count(), "{letters}");
        assert!(calls.iter().all(|call| call["function"]["name"] == "weather"), "{message}");
        let (_, finish) = response(&proxy, &next(&message)).await;
        assert_eq!(finish, "stop");
        let (names, results) = completed(&asked.lock().unwrap());
        let expected = letters.chars().enumerate().map(|(index, letter)| match letter {
            's' => ("search", format!(r#"found {{"city":"{index}"}}"#)),
            _ => ("weather", format!(r#"weather of {{"city":"{index}"}}"#)),
        });
        let (expected_names, expected_results): (Vec<_>, Vec<_>) = expected.unzip();
        assert_eq!(names, expected_names);
        assert_eq!(results, expected_results);
    }
}

#[tokio::test]
async fn guessable_ids_are_replaced_where_results_are_kept() {
    let (upstream, _) = upstream([hop("w"), hop("w")]).await;
    let proxy = setup(&upstream, DEFER).start().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (message, _) = response(&proxy, &weather(json!({}))).await;
        ids.push(message["tool_calls"][0]["id"].as_str().unwrap().to_owned());
    }
    assert!(ids.iter().all(|id| id.len() > 20) && ids[0] != ids[1], "{ids:?}");
}

/// Whatever `mixed_turns` is set to, the client's history also lacks the hops before the one with its call.
#[tokio::test]
async fn earlier_hops_are_completed_with_the_call_of_a_later_one() {
    for (mode, last) in [("defer", "w"), ("server_first", "w"), ("client_only", "w"), ("client_only", "sw")] {
        let first = text("First.") + &called(0, 's') + &end("tool_calls");
        let (upstream, asked) = upstream([first, hop(last), text("Done.") + &end("stop")]).await;
        let proxy = setup(&upstream, &format!("mixed_turns = \"{mode}\"")).start().await;
        let (message, _) = response(&proxy, &weather(json!({}))).await;
        assert_eq!(message["content"], "First.\n\nHm.");
        response(&proxy, &next(&message)).await;
        let asked = asked.lock().unwrap();
        let added = added(asked.last().unwrap(), 1);
        let roles: Vec<_> = added.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["assistant", "tool", "assistant", "tool"], "{mode}");
        assert_eq!(added[1]["content"], r#"found {"city":"0"}"#);
        assert_eq!((&added[0]["content"], &added[2]["content"]), (&json!("First."), &json!("Hm.")));
        let calls = added[2]["tool_calls"].as_array().unwrap();
        assert_eq!((calls.len(), &calls[0]["id"]), (1, &added[3]["tool_call_id"]), "{mode}");
    }
}

async fn server(upstream: &crate::support::upstream::Upstream, state: &Path) -> Proxy {
    let mut setup = setup(upstream, DEFER);
    setup.state_dir = Some(state.to_owned());
    setup.start().await
}

#[tokio::test]
async fn results_outlive_a_restart_between_the_requests() {
    let state = tempfile::tempdir().unwrap();
    let (upstream, asked) = upstream([hop("sw"), text("Done.") + &end("stop"), hop("w")]).await;
    let mut first = server(&upstream, state.path()).await;
    let (message, _) = response(&first, &weather(json!({}))).await;
    // The upstream gets no request until the client sends its result.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    first.stop();
    first.ended().await;
    drop(first);
    let second = server(&upstream, state.path()).await;
    response(&second, &next(&message)).await;
    let (names, results) = completed(&asked.lock().unwrap());
    assert_eq!(names, ["search", "weather"]);
    assert_eq!(results[0], r#"found {"city":"0"}"#);
}

/// If the record is missing, the client's history is used as it is.
#[tokio::test]
async fn history_without_a_record_goes_on_as_it_is() {
    let (upstream, asked) =
        upstream([hop("sw"), text("Done.") + &end("stop"), text("Done.") + &end("stop")]).await;
    let proxy = setup(&upstream, DEFER).start().await;
    let (mut message, _) = response(&proxy, &weather(json!({}))).await;
    message["tool_calls"][0]["id"] = json!("of_my_own");
    let request = next(&message);
    response(&proxy, &request).await;
    assert_eq!(asked.lock().unwrap()[1]["messages"][1]["tool_calls"], message["tool_calls"]);
    assert_eq!(asked.lock().unwrap()[1]["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn hosted_calls_first_the_others_are_asked_for_again() {
    for letters in ["sw", "ws", "wsw"] {
        let (upstream, asked) = upstream([hop(letters), hop("w")]).await;
        let proxy = setup(&upstream, "mixed_turns = \"server_first\"").start().await;
        let (message, finish) = response(&proxy, &weather(json!({}))).await;
        assert_eq!(finish, "tool_calls");
        assert_eq!(message["tool_calls"].as_array().unwrap().len(), 1, "{message}");
        assert_eq!(message["content"], "Hm.\n\nHm.");
        let (_, results) = completed(&asked.lock().unwrap());
        for (letter, result) in letters.chars().zip(&results) {
            let is_expected = match letter {
                's' => result.starts_with("found "),
                _ => result.contains("not executed"),
            };
            assert!(is_expected, "{letters}: {results:?}");
        }
    }
}

#[tokio::test]
async fn hosted_calls_beside_those_of_the_client_can_be_dropped() {
    for letters in ["sw", "ws"] {
        let (upstream, asked) = upstream([hop(letters), text("Done.") + &end("stop")]).await;
        let proxy = setup(&upstream, "mixed_turns = \"client_only\"").start().await;
        let (message, _) = response(&proxy, &weather(json!({}))).await;
        assert_eq!(message["tool_calls"].as_array().unwrap().len(), 1, "{message}");
        response(&proxy, &next(&message)).await;
        assert_eq!(completed(&asked.lock().unwrap()).0, ["weather"]);
    }
}

/// A hop with a faulty call is replaced by the next hop. None of the calls in it are run, so the model must be told
/// about all of them.
#[tokio::test]
async fn message_about_a_wrong_call_names_the_calls_that_were_not_run_with_it() {
    let first = call(0, "call_0", "search", r#"{"query":"x"}"#)
        + &call(1, "call_1", "weather", r#"{"city":5}"#)
        + &end("tool_calls");
    let (upstream, asked) = upstream([first, text("Done.") + &end("stop")]).await;
    let mut setup = setup(&upstream, DEFER);
    setup.settings.invalid_arguments = toolwire::rules::InvalidArguments::Retry;
    let proxy = setup.start().await;
    response(&proxy, &weather(json!({}))).await;
    let asked = asked.lock().unwrap();
    let message = added(&asked[1], 1).pop().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(message.contains("Your call to the tool `weather`"), "{message}");
    assert!(message.contains("Your calls to `search` were not run either."), "{message}");
}

/// The API from before November 2023 has no call IDs by which deferred results could be found.
#[tokio::test]
async fn clients_without_ids_of_calls_get_hosted_calls_first() {
    let (upstream, asked) = upstream([hop("sw"), hop("w")]).await;
    let proxy = setup(&upstream, DEFER).start().await;
    let mut request = weather(json!({}));
    let tools = request.as_object_mut().unwrap().remove("tools").unwrap();
    request["functions"] = tools.as_array().unwrap().iter().map(|tool| tool["function"].clone()).collect();
    let (message, finish) = response(&proxy, &request).await;
    assert_eq!(
        (&*finish, &message["function_call"]["name"]),
        ("function_call", &json!("weather")),
        "{message}"
    );
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    let told = json!(added(&asked[1], 1)).to_string();
    assert!(told.contains("found ") && told.contains("not executed"), "{told}");
}
