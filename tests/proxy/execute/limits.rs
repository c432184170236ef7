//! Tests limits of hosted tools: rounds, truncated turns, failures, and clients that disconnect.

use std::{path::Path, time::Duration};

use serde_json::json;

use super::script::{Scripted, added, call, end, scripted, setup, text, upstream};
use crate::support::{
    client::{Client, STREAM, WHOLE, stream_error, weather},
    soon,
    upstream::Upstream,
};

fn searching() -> String {
    call(0, "call_0", "search", "{}") + &end("tool_calls")
}

#[tokio::test]
async fn last_round_has_no_hosted_tools() {
    let (upstream, asked) = upstream([searching(), searching(), text("Done.") + &end("stop")]).await;
    let proxy = setup(&upstream, "max_rounds = 2").start().await;
    let response = Client::new().chat(&proxy, WHOLE).await.json().await;
    assert_eq!(response["choices"][0]["message"]["content"], "Done.");
    let asked = asked.lock().unwrap();
    assert!(asked[1]["tools"].is_array() && asked[2].get("tools").is_none(), "{asked:?}");
}

#[tokio::test]
async fn model_that_calls_without_end_ends_with_a_warning() {
    let hop = || text("Again.") + &searching();
    let (upstream, asked) = upstream([hop(), hop(), hop()]).await;
    let proxy = setup(&upstream, "max_rounds = 1").start().await;
    let response = Client::new().chat(&proxy, WHOLE).await.json().await;
    let choice = &response["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("Again.\n\nAgain."), &json!("stop"))
    );
    assert!(response.to_string().contains("hosted_calls_exhausted"), "{response}");
    assert_eq!(asked.lock().unwrap().len(), 2);
}

/// SDKs retry failed requests unless a header tells them not to. A retry does not run the tools again.
#[tokio::test]
async fn failure_after_tools_have_run_may_be_repeated() {
    for (body, is_hosted) in [(WHOLE, true), (STREAM, true), (WHOLE, false)] {
        let refusal = || Scripted::whole("429 Too Many Requests", r#"{"error":{"message":"Later."}}"#);
        let first = is_hosted.then(|| Scripted::stream(searching().into_bytes()));
        let (upstream, _) = scripted(first.into_iter().chain([refusal()]).collect()).await;
        let proxy = setup(&upstream, "").start().await;
        let response = Client::new().chat(&proxy, body).await;
        assert_eq!(response.status(), 429);
        assert_eq!(response.header("x-should-retry"), is_hosted.then_some("true"));
    }
}

#[tokio::test]
async fn turn_that_ends_early_runs_nothing() {
    let calls = || call(0, "call_0", "search", "{}");
    let broken = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[{\"index\":0,\
        \"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"search\",\
        \"arguments\":\"{\\\"query\\\":\"}}]},\"finish_reason\":null}]}\n\n";
    for (stream, finish) in [
        (calls() + &end("length"), "length"),
        (calls() + &end("content_filter"), "content_filter"),
        (broken.to_owned() + &end("length"), "length"),
    ] {
        let (upstream, asked) = upstream([stream]).await;
        let proxy = setup(&upstream, "").start().await;
        let response = Client::new().chat(&proxy, WHOLE).await.json().await;
        assert_eq!(response["choices"][0]["finish_reason"], finish, "{response}");
        assert!(response["choices"][0]["message"].get("tool_calls").is_none(), "{response}");
        assert_eq!(asked.lock().unwrap().len(), 1);
    }
}

/// Some servers reject a history in which a call's arguments are not an object.
#[tokio::test]
async fn broken_arguments_are_an_error_for_the_model_and_no_harm_to_the_next_request() {
    let objects = ["", " ", "null", " null "];
    let others = ["{\"query\": rain", "[1]", "5", "{\"query\":\"1\"},", "rain"];
    for arguments in objects.into_iter().chain(others) {
        let (upstream, asked) = upstream([
            call(0, "call_0", "search", arguments)
                + &call(1, "call_1", "search", "{\"query\":\"2\"}")
                + &end("tool_calls"),
            text("Done.") + &end("stop"),
        ])
        .await;
        let proxy = setup(&upstream, "").start().await;
        let response = Client::new().chat(&proxy, WHOLE).await.json().await;
        assert_eq!(response["choices"][0]["message"]["content"], "Done.", "{arguments}");
        assert_eq!(response["choices"][0]["finish_reason"], "stop", "{arguments}");
        let asked = asked.lock().unwrap();
        let messages = &asked[1]["messages"];
        let sent = messages[1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        assert_eq!(sent.trim(), "{}", "{arguments}");
        let result = messages[2]["content"].as_str().unwrap();
        let is_error = result.contains("invalid_arguments");
        assert_eq!(is_error, !objects.contains(&arguments), "{arguments}: {result}");
        assert_eq!(messages[3]["content"], "found {\"query\":\"2\"}", "the other call of the hop runs");
    }
}

#[tokio::test]
async fn arguments_that_break_off_are_never_run() {
    for arguments in ["{", "{\"query\":", "{\"query\":\"1\""] {
        let (upstream, asked) = upstream([call(0, "call_0", "search", arguments) + &end("tool_calls")]).await;
        let proxy = setup(&upstream, "").start().await;
        let response = Client::new().chat(&proxy, WHOLE).await.json().await;
        assert_eq!(response["choices"][0]["finish_reason"], "length", "{arguments}");
        assert_eq!(asked.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn hosted_tool_is_called_however_the_model_spells_its_name() {
    for written in ["Search", "SEARCH ", "default_api:search", "functions.Search"] {
        for request in [WHOLE.to_owned(), weather(json!({})).to_string()] {
            let calls = call(0, "call_0", written, "{\"query\":\"1\"}") + &end("tool_calls");
            let (upstream, asked) = upstream([calls, text("Done.") + &end("stop")]).await;
            let proxy = setup(&upstream, "").start().await;
            let response = Client::new().chat(&proxy, request).await.json().await;
            assert_eq!(response["choices"][0]["message"]["content"], "Done.", "{written}");
            let asked = asked.lock().unwrap();
            let messages = added(&asked[1], 1);
            assert_eq!(messages[0]["tool_calls"][0]["function"]["name"], "search", "{written}");
            assert_eq!(messages[1]["content"], "found {\"query\":\"1\"}", "{written}");
        }
    }
}

#[tokio::test]
async fn name_that_the_client_declares_is_its_own_tool_however_hosted_ones_are_called() {
    let calls = call(0, "call_0", "Search", "{}") + &end("tool_calls");
    let (upstream, _) = upstream([calls]).await;
    let proxy = setup(&upstream, "").start().await;
    let own = json!({"tools": [{"type": "function", "function": {"name": "Search", "parameters": {"type": "object"}}}]});
    let response = Client::new().chat(&proxy, weather(own).to_string()).await.json().await;
    assert_eq!(
        response["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "Search",
        "{response}"
    );
}

#[tokio::test]
async fn client_without_tools_never_gets_a_call() {
    let unknown = call(0, "call_0", "no_such_tool", "{}") + &end("tool_calls");
    let (upstream, asked) = upstream([unknown, text("Done.") + &end("stop")]).await;
    let proxy = setup(&upstream, "").start().await;
    let body = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert!(!body.contains("no_such_tool") && body.contains("Done."), "{body}");
    assert!(asked.lock().unwrap()[1]["messages"][2]["content"].as_str().unwrap().contains("unknown_tool"));
}

#[tokio::test]
async fn unknown_call_goes_to_a_client_with_tools() {
    let unknown = call(0, "call_0", "no_such_tool", "{}") + &end("tool_calls");
    let (upstream, _) = upstream([unknown]).await;
    let proxy = setup(&upstream, "").start().await;
    let response = Client::new().chat(&proxy, weather(json!({})).to_string()).await.json().await;
    assert_eq!(response["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "no_such_tool");
}

#[tokio::test]
async fn required_call_is_required_of_the_first_hop_alone() {
    let (upstream, asked) = upstream([searching(), text("Done.") + &end("stop")]).await;
    let proxy = setup(&upstream, "").start().await;
    let request = weather(json!({"tool_choice": "required"}));
    let response = Client::new().chat(&proxy, request.to_string()).await.json().await;
    assert_eq!(response["choices"][0]["finish_reason"], "stop");
    assert!(!response.to_string().contains("tool_choice_unfulfilled"), "{response}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0]["tool_choice"], "required");
    assert!(asked[1].get("tool_choice").is_none_or(|choice| choice == "auto"), "{}", asked[1]);
}

#[tokio::test]
async fn failing_second_hop_is_an_error_in_the_stream() {
    let first = || text("Hm.") + &searching();
    let upstream = Upstream::start(move |mut exchange| {
        let is_first = !String::from_utf8(exchange.body.clone()).unwrap().contains("tool_call_id");
        let first = first();
        async move {
            if is_first {
                return exchange.stream(first).await;
            }
            let body = r#"{"error":{"message":"too many","code":"busy"}}"#;
            exchange.whole("429 Too Many Requests", "", body).await;
            exchange
        }
    })
    .await;
    let proxy = setup(&upstream, "").start().await;
    let body = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert!(body.contains("Hm."), "{body}");
    assert!(stream_error(&body)["message"].as_str().unwrap().contains("too many"), "{body}");
    assert_eq!(Client::new().chat(&proxy, WHOLE).await.status(), 429);
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(what, waiting).await;
}

/// A slow tool that writes its process ID to `file` first.
fn noting(file: &Path) -> String {
    let file = file.display();
    format!(
        "[[providers]]\nname = \"noting\"\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"echo $$ > {file}; exec sleep 60\"]\n"
    )
}

#[tokio::test]
async fn keep_alives_flow_while_tools_run_and_a_client_that_leaves_stops_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("process");
    let calls = text("Hm.") + &call(0, "call_0", "noting", "{}") + &end("tool_calls");
    let (upstream, asked) = upstream([calls]).await;
    let mut setup = setup(&upstream, "");
    setup.execution += &noting(&file);
    setup.limits.keep_alive = Duration::from_millis(20);
    let proxy = setup.start().await;
    let mut reply = Client::new().chat(&proxy, STREAM).await;
    reply.until("Hm.").await;
    reply.until(": keep-alive\n\n: keep-alive\n\n").await;
    until("the process", || std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))).await;
    let process = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert!(Path::new("/proc").join(&process).exists());
    drop(reply);
    until("its end", || {
        !Path::new("/proc").join(&process).join("cmdline").exists()
            || std::fs::read(Path::new("/proc").join(&process).join("cmdline"))
                .is_ok_and(|line| line.is_empty())
    })
    .await;
    assert_eq!(asked.lock().unwrap().len(), 1);
}
