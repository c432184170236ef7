//! Tests responses with several hops over sockets, and the state between two upstream requests.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{sync::Notify, task::JoinSet};
use toolwire::{
    dialect::{UpstreamDialect, lumo},
    rules::{Enforce, InvalidArguments, Misroute},
};

use crate::support::{
    client::{Client, chat_request, stream_error, weather},
    proxy::Setup,
    soon,
    taught::{required, response},
    upstream::{Exchange, Upstream, text},
};

fn request() -> String {
    weather(json!({"stream": true})).to_string()
}

/// A first hop with `text` and a call that lacks its argument.
fn first(text: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n\
         data: {{\"object\":\"chat.tool_call\",\"tool_call\":{{\"id\":\"n1\",\"name\":\"weather\",\"arguments\":\"{{}}\"}}}}\n\n\
         data: [DONE]\n\n"
    )
}

const CALL: &str = "data: {\"object\":\"chat.tool_call\",\"tool_call\":{\"id\":\"n2\",\"name\":\"weather\",\
     \"arguments\":\"{\\\"city\\\":\\\"Paris\\\"}\"}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn second() -> String {
    CALL.to_owned() + DONE
}

/// An upstream whose first hop is `text` and an incomplete call. `later` handles the request for the second hop and
/// gets a clone of `shared`.
async fn upstream<T, F>(
    text: &'static str,
    shared: T,
    later: impl Fn(Exchange, T) -> F + Clone + Send + Sync + 'static,
) -> Upstream
where
    T: Clone + Send + Sync + 'static,
    F: Future<Output = Exchange> + Send + 'static,
{
    Upstream::start_sharing((shared, later), move |exchange, (shared, later)| async move {
        if is_second(&exchange) { later(exchange, shared).await } else { exchange.stream(first(text)).await }
    })
    .await
}

fn is_second(exchange: &Exchange) -> bool {
    str::from_utf8(&exchange.body).unwrap().contains("are missing")
}

fn setup(upstream: &Upstream) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::Lumo(lumo::Options::default());
    setup.settings.misroute = Misroute::Bounce;
    setup
}

/// The client sees a single response although the upstream gets two requests. The first has ended before the second
/// is sent, so one slot suffices.
#[tokio::test]
async fn incomplete_call_is_one_response_from_two_hops() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let upstream = Upstream::start_sharing(asked.clone(), |mut exchange, asked| async move {
        let is_second = is_second(&exchange);
        asked.lock().unwrap().push(is_second);
        if is_second {
            return exchange.stream(second()).await;
        }
        exchange.begin().await;
        let refused = "data: {\"object\":\"chat.tool_result\",\"tool_result\":{\"call_id\":\"n1\",\"content\":\"{\\\"error\\\":true}\"}}\n\n\
             data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        exchange.piece(first("").replace(DONE, refused)).await;
        exchange.silent().await
    })
    .await;
    let mut setup = setup(&upstream);
    setup.upstream.queue.max_concurrent = 1;
    let proxy = setup.start().await;
    let client = Client::new();
    let body = client.chat(&proxy, request()).await.rest().await;
    assert!(body.contains("\"name\":\"weather\""), "{body}");
    assert!(body.contains("Paris") && body.contains("\"finish_reason\":\"tool_calls\""), "{body}");
    assert_eq!(body.matches("[DONE]").count(), 1, "{body}");
    assert_eq!(*asked.lock().unwrap(), [false, true]);
    let metrics = client.get(&proxy, "/metrics").await.rest().await;
    assert!(metrics.contains("toolwire_calls_total{format=\"native\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn slow_second_hop_gets_keep_alives() {
    let go_on = Arc::new(Notify::new());
    let upstream = upstream("", go_on.clone(), |exchange, go_on| async move {
        go_on.notified().await;
        exchange.stream(second()).await
    })
    .await;
    let mut setup = setup(&upstream);
    setup.limits.keep_alive = Duration::from_millis(20);
    let proxy = setup.start().await;
    let mut reply = Client::new().chat(&proxy, request()).await;
    assert_eq!(reply.status(), 200);
    reply.until(": keep-alive\n\n: keep-alive\n\n").await;
    go_on.notify_one();
    let rest = reply.rest().await;
    assert!(rest.contains("Paris") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
}

#[tokio::test]
async fn client_disconnect_drops_the_second_hop() {
    let (asked, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let shared = (asked.clone(), gone.clone());
    let upstream = upstream("Hm.", shared, |mut exchange, (asked, gone)| async move {
        asked.notify_one();
        exchange.gone().await;
        gone.notify_one();
        exchange
    })
    .await;
    let proxy = setup(&upstream).start().await;
    let mut reply = Client::new().chat(&proxy, request()).await;
    reply.until("Hm.").await;
    soon("the second hop", asked.notified()).await;
    drop(reply);
    soon("its end", gone.notified()).await;
}

#[tokio::test]
async fn second_hop_is_cut_at_the_drain_deadline() {
    for text in ["Hm.", ""] {
        let asked = Arc::new(Notify::new());
        let upstream = upstream(text, asked.clone(), |exchange, asked| async move {
            asked.notify_one();
            exchange.silent().await
        })
        .await;
        let mut setup = setup(&upstream);
        setup.drain_timeout = Duration::from_millis(50);
        let mut proxy = setup.start().await;
        let request = chat_request(&proxy, request());
        let mut client = JoinSet::new();
        client.spawn(async move { Client::new().send(request).await.unwrap() });
        soon("the second hop", asked.notified()).await;
        proxy.stop();
        let reply = soon("the response", client.join_next()).await.unwrap().unwrap();
        // The status is not decided before there is content.
        if text.is_empty() {
            assert_eq!(reply.status(), 503);
            assert_eq!(reply.json().await["error"]["code"], "shutting_down");
        } else {
            assert_eq!(reply.status(), 200);
            assert_eq!(stream_error(&reply.rest().await)["code"], "shutting_down");
        }
        soon("the server to end", proxy.ended()).await;
    }
}

#[tokio::test]
async fn response_in_its_second_hop_finishes_while_draining() {
    let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let shared = (asked.clone(), go_on.clone());
    let upstream = upstream("", shared, |exchange, (asked, go_on)| async move {
        asked.notify_one();
        go_on.notified().await;
        exchange.stream(second()).await
    })
    .await;
    let mut proxy = setup(&upstream).start().await;
    let request = chat_request(&proxy, request());
    let mut client = JoinSet::new();
    client.spawn(async move { Client::new().send(request).await.unwrap() });
    soon("the second hop", asked.notified()).await;
    proxy.stop();
    go_on.notify_one();
    let body = soon("the response", client.join_next()).await.unwrap().unwrap().rest().await;
    assert!(body.contains("Paris") && body.ends_with("data: [DONE]\n\n"), "{body}");
    soon("the server to end", proxy.ended()).await;
}

/// A failed hop fails the response: with the hop's status if nothing has been sent yet, otherwise with an error in
/// the stream.
#[tokio::test]
async fn failure_of_the_second_hop_is_the_failure_of_the_response() {
    for text in ["", "Hm."] {
        let refusing = upstream(text, (), |mut exchange, ()| async move {
            let body = r#"{"error":{"message":"too many","code":"busy"}}"#;
            exchange.whole("429 Too Many Requests", "retry-after: 7\r\n", body).await;
            exchange
        })
        .await;
        let truncating = upstream(text, (), |mut exchange, ()| async move {
            exchange.begin().await;
            exchange.piece("data: {\"choices\":[").await;
            exchange
        })
        .await;
        let closing = upstream(text, (), |exchange, ()| async move { exchange }).await;
        for (upstream, status) in [(refusing, 429), (truncating, 502), (closing, 502)] {
            let proxy = setup(&upstream).start().await;
            let reply = Client::new().chat(&proxy, request()).await;
            if text.is_empty() {
                assert_eq!(reply.status(), status);
                assert_eq!(reply.header("retry-after"), (status == 429).then_some("7"));
                assert!(reply.json().await["error"]["message"].is_string());
            } else {
                assert_eq!(reply.status(), 200);
                let body = reply.rest().await;
                assert!(stream_error(&body)["message"].is_string(), "{body}");
                assert!(!body.contains("\"finish_reason\":\"stop\""), "{body}");
            }
        }
    }
}

/// The second hop is cut off after its call. The call has been sent, but the response must fail.
#[tokio::test]
async fn second_hop_cut_after_content_fails_in_the_stream() {
    let upstream = upstream("", (), |mut exchange, ()| async move {
        exchange.begin().await;
        exchange.piece(CALL).await;
        exchange
    })
    .await;
    let proxy = setup(&upstream).start().await;
    let reply = Client::new().chat(&proxy, request()).await;
    assert_eq!(reply.status(), 200);
    let body = reply.rest().await;
    assert!(body.contains("Paris"), "{body}");
    assert_eq!(stream_error(&body)["code"], "upstream_truncated");
}

/// Several responses need two hops each, but only one request may be open. Responses that kept their slots between
/// hops would block each other.
#[tokio::test]
async fn hops_with_a_single_slot_do_not_deadlock() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let shared = (open.clone(), most.clone());
    let upstream = Upstream::start_sharing(shared, |mut exchange, (open, most)| async move {
        most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        exchange.begin().await;
        let body = if is_second(&exchange) { second() } else { first("") };
        open.fetch_sub(1, Ordering::SeqCst);
        exchange.piece(body).await;
        exchange.end().await;
        exchange
    })
    .await;
    let mut setup = setup(&upstream);
    setup.upstream.queue.max_concurrent = 1;
    let proxy = setup.start().await;
    let client = Client::new();
    let replies = (0..6).map(|_| async { client.chat(&proxy, request()).await.rest().await });
    for body in soon("all responses", futures_util::future::join_all(replies)).await {
        assert!(body.contains("Paris") && body.ends_with("data: [DONE]\n\n"), "{body}");
    }
    assert_eq!((upstream.requests(), most.load(Ordering::SeqCst)), (12, 1));
}

#[tokio::test]
async fn total_timeout_spans_hops() {
    let upstream = upstream("Hm.", (), |exchange, ()| async move { exchange.silent().await }).await;
    let mut setup = setup(&upstream);
    setup.upstream.timeouts.total = Some(Duration::from_millis(300));
    let proxy = setup.start().await;
    let request = chat_request(&proxy, request());
    let body = Client::new().send(request).await.unwrap().rest().await;
    let error = stream_error(&body);
    assert!(error["message"].as_str().unwrap().contains("whole response"), "{error}");
}

/// A hop is complete once its finish reason has arrived. An upstream that keeps the stream open delays the next
/// hop, but does not prevent it.
#[tokio::test]
async fn hop_whose_body_does_not_end_is_followed_all_the_same() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        if is_second(&exchange) {
            exchange.piece(second()).await;
            exchange.end().await;
        } else {
            let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
                          data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40}}\n\n";
            exchange.piece(first("").replace(DONE, finish)).await;
            exchange.gone().await;
        }
        exchange
    })
    .await;
    let proxy = setup(&upstream).start().await;
    let body = response(&proxy, &weather(json!({}))).await;
    assert_eq!(body["choices"][0]["message"]["tool_calls"][0]["id"], "n2", "{body}");
    assert_eq!(body["usage"]["prompt_tokens"], 40, "{body}");
}

fn request_for_call() -> String {
    required(json!({"stream": true})).to_string()
}

/// A Chat Completions upstream that answers with `first`, and with `second` when it is asked again.
async fn chat_upstream(first: &'static str, second: &'static str) -> Upstream {
    Upstream::start(move |mut exchange| async move {
        let again = str::from_utf8(&exchange.body).unwrap().contains("is required");
        exchange.begin().await;
        exchange.piece(text(if again { second } else { first })).await;
        exchange.finished().await
    })
    .await
}

const WRITTEN_CALL: &str =
    "<tool_call>{\\\"name\\\":\\\"weather\\\",\\\"arguments\\\":{\\\"city\\\":\\\"Paris\\\"}}</tool_call>";

#[tokio::test]
async fn later_hop_of_a_large_request_repeats_all_of_it() {
    let long = "x".repeat(1 << 20);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let upstream = Upstream::start_sharing(asked.clone(), |mut exchange, asked| async move {
        let body = str::from_utf8(&exchange.body).unwrap();
        let again = body.contains("is required");
        asked.lock().unwrap().push((body.matches('x').count() >> 20, again));
        exchange.begin().await;
        exchange.piece(text(if again { WRITTEN_CALL } else { "I would rather talk." })).await;
        exchange.finished().await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.settings.enforce = Enforce::Retry;
    setup.upstream.queue.max_concurrent = 1;
    let proxy = setup.start().await;
    for stream in [false, true] {
        let messages = json!([{"role": "user", "content": long}]);
        let request = required(json!({"messages": messages, "stream": stream})).to_string();
        let body = Client::new().chat(&proxy, request).await.rest().await;
        assert!(!body.contains("rather") && body.contains("Paris"), "{body}");
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), [(1, false), (1, true)]);
    }
}

#[tokio::test]
async fn missing_call_is_asked_for_again_unseen_by_the_client() {
    let upstream = chat_upstream("I would rather talk.", WRITTEN_CALL).await;
    for client in [Client::new(), Client::http2()] {
        let mut setup = Setup::new(upstream.address);
        setup.settings.enforce = Enforce::Retry;
        setup.upstream.queue.max_concurrent = 1;
        let proxy = setup.start().await;
        let body = client.chat(&proxy, request_for_call()).await.rest().await;
        assert!(!body.contains("rather") && body.contains("Paris") && !body.contains("warnings"), "{body}");
        assert!(
            body.contains("\"finish_reason\":\"tool_calls\"") && body.ends_with("data: [DONE]\n\n"),
            "{body}"
        );
        assert_eq!((body.matches("\"role\"").count(), body.matches("[DONE]").count()), (1, 1), "{body}");
        let metrics = client.get(&proxy, "/metrics").await.rest().await;
        assert!(metrics.contains("toolwire_follow_ups_total{reason=\"missing_call\"} 1\n"), "{metrics}");
    }
}

#[tokio::test]
async fn client_is_warned_if_the_call_stays_missing() {
    let upstream = chat_upstream("No.", "Still no.").await;
    for (enforce, text, requests) in [(Enforce::Off, "\"No.\"", 1), (Enforce::Retry, "\"Still no.\"", 2)] {
        let before = upstream.requests();
        let mut setup = Setup::new(upstream.address);
        setup.settings.enforce = enforce;
        let proxy = setup.start().await;
        let client = Client::new();
        let body = client.chat(&proxy, request_for_call()).await.rest().await;
        assert!(body.contains(text) && body.contains("\"finish_reason\":\"stop\""), "{body}");
        assert!(body.contains("\"toolwire\":{\"warnings\":[{\"code\":\"tool_choice_unfulfilled\""), "{body}");
        assert_eq!(upstream.requests() - before, requests);
        let metrics = client.get(&proxy, "/metrics").await.rest().await;
        assert!(
            metrics.contains("toolwire_warnings_total{code=\"tool_choice_unfulfilled\"} 1\n"),
            "{metrics}"
        );
    }
}

/// The client gets keep-alives while the first response is held back. If it disconnects, the hop is cancelled.
#[tokio::test]
async fn kept_back_response_gets_keep_alives() {
    let go_on = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(go_on.clone(), |mut exchange, go_on| async move {
        exchange.begin().await;
        exchange.piece(text("Let me see.")).await;
        go_on.notified().await;
        exchange.piece(text(WRITTEN_CALL)).await;
        exchange.finished().await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.settings.enforce = Enforce::Retry;
    setup.limits.keep_alive = Duration::from_millis(20);
    let proxy = setup.start().await;
    let mut reply = Client::new().chat(&proxy, request_for_call()).await;
    let begun = reply.until(": keep-alive\n\n: keep-alive\n\n").await;
    assert!(!begun.contains("Let me see"), "{begun}");
    go_on.notify_one();
    let rest = reply.rest().await;
    let (text, call) = (rest.find("Let me see."), rest.find("\"name\":\"weather\""));
    assert!(text.is_some() && text < call && rest.ends_with("data: [DONE]\n\n"), "{rest}");
}

/// Reasoning and text before a call reach the client while the call is held back. Once the model has been asked
/// again, its call follows them.
#[tokio::test]
async fn call_is_asked_for_again_behind_what_was_streamed() {
    let (go_on, asked) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let shared = (go_on.clone(), asked.clone());
    let upstream = Upstream::start_sharing(shared, |mut exchange, (go_on, asked)| async move {
        let body: serde_json::Value = serde_json::from_slice(&exchange.body).unwrap();
        let messages = body["messages"].as_array().unwrap().clone();
        let again = messages.len() > 1;
        asked.lock().unwrap().push(messages);
        let chunk = |delta: serde_json::Value| {
            format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))
        };
        exchange.begin().await;
        exchange.piece(chunk(json!({"reasoning_content": "Hm."}))).await;
        exchange.piece(chunk(json!({"content": "Let me see."}))).await;
        let arguments = if again { "{\"city\":\"Paris\"}" } else { "{\"city\":" };
        let function = json!({"name": "weather", "arguments": arguments});
        let call = json!({"index": 0, "id": "n1", "type": "function", "function": function});
        exchange.piece(chunk(json!({"tool_calls": [call]}))).await;
        if !again {
            go_on.notified().await;
        }
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
        exchange.piece(format!("data: {end}\n\ndata: [DONE]\n\n")).await;
        exchange.finished().await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.settings.invalid_arguments = InvalidArguments::Retry;
    let proxy = setup.start().await;
    let mut reply = Client::new().chat(&proxy, request()).await;
    let begun = reply.until("Let me see.").await;
    assert!(begun.contains("Hm.") && !begun.contains("weather"), "{begun}");
    go_on.notify_one();
    let rest = reply.rest().await;
    assert!(rest.contains("Paris") && rest.contains("\"finish_reason\":\"tool_calls\""), "{rest}");
    assert!(!rest.contains("Hm.") && !rest.contains("Let me see") && !rest.contains("warnings"), "{rest}");
    let asked = asked.lock().unwrap();
    let [first, second] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(second[..1], first[..]);
    assert_eq!(second[1]["content"], "Let me see.");
    assert!(
        second[2]["content"].as_str().unwrap().contains("`weather` with the arguments {\"city\":"),
        "{second:?}"
    );
}
