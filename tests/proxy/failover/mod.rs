//! Tests several models that share a name: which one takes over when another fails, what the client sees of it, and
//! that two models never generate for the same request at the same time.

mod matrix;

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::support::{
    client::{Client, Reply, STREAM, WHOLE, chat_request, stream_error},
    proxy::Proxy,
    upstream::{Exchange, Upstream, answer, text},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing listens at the address.
    Closed,
    Status(&'static str),
    Refusal(&'static str, &'static str),
    /// Sends these events and closes the connection before the end of the body.
    Events(&'static str),
    /// Sends these events as a complete response.
    Complete(&'static str),
    Page,
    Silent,
    /// Sends the head and then nothing.
    SilentBody,
    /// Opens a response and then sends nothing.
    SilentOpened,
}

const ROLE: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\
    \"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";

const OVERLOADED: &str =
    "data: {\"error\":{\"message\":\"busy\",\"type\":\"overloaded_error\",\"code\":\"overloaded\"}}\n\n";

/// Returns all faults after which another model takes over.
fn faults() -> Vec<Fault> {
    let mut faults = vec![Fault::Closed, Fault::Page, Fault::Silent, Fault::SilentBody];
    let statuses = [
        "401 Unauthorized",
        "402 Payment Required",
        "403 Forbidden",
        "404 Not Found",
        "408 Request Timeout",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Service Unavailable",
        "504 Gateway Timeout",
        "529 Overloaded",
    ];
    faults.extend(statuses.map(Fault::Status));
    faults.extend([
        Fault::Events(""),
        Fault::Events(ROLE),
        Fault::Complete(OVERLOADED),
        Fault::Complete("data: [DONE]\n\n"),
    ]);
    faults
}

async fn fail(mut exchange: Exchange, fault: Fault) -> Exchange {
    match fault {
        Fault::Closed => {}
        Fault::Status(status) => {
            let body = r#"{"error":{"message":"no","type":"t","code":"c"}}"#;
            exchange.whole(status, "content-type: application/json\r\n", body).await;
        }
        Fault::Refusal(status, body) => {
            exchange.whole(status, "content-type: application/json\r\n", body).await;
        }
        Fault::Events(events) => {
            exchange.begin().await;
            exchange.piece(events).await;
        }
        Fault::Complete(events) => return exchange.stream(events).await,
        Fault::Page => exchange.whole("200 OK", "content-type: text/html\r\n", "<html>").await,
        Fault::Silent => exchange.gone().await,
        Fault::SilentBody => {
            exchange.begin().await;
            exchange.gone().await;
        }
        Fault::SilentOpened => {
            exchange.begin().await;
            exchange.piece(ROLE).await;
            exchange.gone().await;
        }
    }
    exchange
}

/// Several upstreams, and a proxy whose model `m` has them as its targets, in this order.
struct Stand {
    upstreams: Vec<Upstream>,
    proxy: Proxy,
    /// The number of requests in progress at all upstreams, and its maximum.
    open: Arc<(AtomicUsize, AtomicUsize)>,
}

impl Stand {
    /// Creates the upstreams and the proxy. Upstreams without a fault answer. `keys` are settings of the model `m`, and
    /// `more` is the remaining configuration.
    async fn new(faults: &[Option<Fault>], keys: &str, more: &str) -> Self {
        let open: Arc<(AtomicUsize, AtomicUsize)> = Arc::default();
        let (mut upstreams, mut config, mut targets) = (Vec::new(), String::new(), Vec::new());
        for (at, fault) in faults.iter().enumerate() {
            let shared = (*fault, Arc::clone(&open));
            let upstream = Upstream::start_sharing(shared, |exchange, (fault, open)| async move {
                // The previous upstream may not have noticed yet that its connection was closed, so this waits. It
                // gives up after a while, so a connection that is left open is still counted.
                for _ in 0..1000 {
                    if open.0.load(Ordering::SeqCst) == 0 {
                        break;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                let now = open.0.fetch_add(1, Ordering::SeqCst) + 1;
                open.1.fetch_max(now, Ordering::SeqCst);
                // A complete response stops counting before it is sent, since the proxy may send its next request
                // before this function returns.
                let is_left_open = matches!(
                    fault,
                    Some(Fault::Silent | Fault::SilentBody | Fault::SilentOpened | Fault::Events(_))
                );
                if !is_left_open {
                    open.0.fetch_sub(1, Ordering::SeqCst);
                }
                let exchange = match fault {
                    Some(fault) => fail(exchange, fault).await,
                    None => exchange.stream(answer()).await,
                };
                if is_left_open {
                    open.0.fetch_sub(1, Ordering::SeqCst);
                }
                exchange
            });
            let upstream = upstream.await;
            let address = match fault {
                Some(Fault::Closed) => "127.0.0.1:9".to_owned(),
                _ => upstream.address.to_string(),
            };
            let (idle, header) = match fault {
                Some(Fault::Silent | Fault::SilentBody) => ("200ms", "200ms"),
                _ => ("600s", "600s"),
            };
            let _ = write!(
                config,
                "[[upstreams]]\nname = \"u{at}\"\ndialect = \"chat\"\nbase_url = \"http://{address}\"\n\
                 idle_timeout = \"{idle}\"\nheader_timeout = \"{header}\"\n\
                 [[models]]\nname = \"t{at}\"\nupstream = \"u{at}\"\n"
            );
            targets.push(format!("\"t{at}\""));
            upstreams.push(upstream);
        }
        let targets = targets.join(", ");
        let keys =
            if keys.contains("targets") { keys.to_owned() } else { format!("targets = [{targets}]\n{keys}") };
        let proxy = Proxy::of(&format!("{config}[[models]]\nname = \"m\"\n{keys}\n{more}"));
        Self { upstreams, proxy, open }
    }

    async fn ask(&self, body: &str) -> Reply {
        Client::new().chat(&self.proxy, body.to_owned()).await
    }

    fn requests(&self) -> Vec<usize> {
        self.upstreams.iter().map(Upstream::requests).collect()
    }

    fn most_open(&self) -> usize {
        self.open.1.load(Ordering::SeqCst)
    }
}

fn text_of(body: &str) -> String {
    if let Ok(whole) = serde_json::from_str::<Value>(body) {
        return whole["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
    }
    assert!(body.contains("data: [DONE]"), "{body}");
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|event| serde_json::from_str::<Value>(event).ok());
    events.filter_map(|event| Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_every_fault_at_every_place_the_next_target_answers() {
    for fault in faults() {
        for place in 0..3 {
            let mut targets = vec![Some(fault); place + 1];
            targets.push(None);
            for body in [STREAM, WHOLE] {
                // The head of a non-streaming response may take as long as the complete response, so it has no
                // timeout.
                if fault == Fault::Silent && body == WHOLE {
                    continue;
                }
                let stand = Stand::new(&targets, "", "").await;
                let reply = stand.ask(body).await;
                let (target, attempts) = (format!("t{}", place + 1), (place + 2).to_string());
                assert_eq!(reply.status(), 200, "{fault:?} at {place}");
                assert_eq!(reply.header("x-toolwire-target"), Some(target.as_str()), "{fault:?}");
                assert_eq!(reply.header("x-toolwire-attempts"), Some(attempts.as_str()), "{fault:?}");
                let body = reply.rest().await;
                assert_eq!(text_of(&body), "hello", "{fault:?} at {place}: {body}");
                assert_eq!(body.matches("\"role\":\"assistant\"").count(), 1, "{fault:?}: {body}");
                let asked = if fault == Fault::Closed { 0 } else { 1 };
                let requests = stand.requests();
                assert!(requests[..=place].iter().all(|count| *count == asked), "{fault:?}: {requests:?}");
                assert_eq!((requests[place + 1], stand.most_open()), (1, 1), "{fault:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_all_fail_the_client_gets_the_last_error_and_is_told_not_to_repeat() {
    for body in [STREAM, WHOLE] {
        let faults =
            [Some(Fault::Status("500 Internal Server Error")), Some(Fault::Status("429 Too Many Requests"))];
        let stand = Stand::new(&faults, "", "").await;
        let reply = stand.ask(body).await;
        assert_eq!(reply.status(), 429);
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        assert_eq!(reply.header("x-toolwire-attempts"), Some("2"));
        assert_eq!(reply.json().await["error"]["message"], "no");
        assert_eq!(stand.requests(), [1, 1]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_client_did_wrong_is_not_asked_of_others() {
    for status in ["400 Bad Request", "413 Content Too Large", "422 Unprocessable Content"] {
        let stand = Stand::new(&[Some(Fault::Status(status)), None], "", "").await;
        let reply = stand.ask(STREAM).await;
        assert!(reply.status().is_client_error(), "{status}");
        assert_eq!(reply.header("x-should-retry"), None);
        assert_eq!(stand.requests(), [1, 0], "{status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_first_content_a_failure_is_the_end() {
    let first: &'static str = Box::leak((ROLE.to_owned() + &text("first")).into_boxed_str());
    let broken: &'static str = Box::leak((first.to_owned() + OVERLOADED).into_boxed_str());
    for fault in [Fault::Events(first), Fault::Complete(broken)] {
        let stand = Stand::new(&[Some(fault), None], "", "").await;
        let body = stand.ask(STREAM).await.rest().await;
        assert!(body.contains("first"), "{body}");
        assert!(stream_error(&body)["message"].is_string());
        assert_eq!(stand.requests(), [1, 0], "{fault:?}");
        // The client has not received anything, but the model has already generated text.
        let reply = stand.ask(WHOLE).await;
        assert!(reply.status().is_server_error());
        assert_eq!(stand.requests(), [2, 0], "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fallbacks_come_after_all_targets_and_retries_after_all_of_them() {
    let down = Some(Fault::Status("503 Service Unavailable"));
    let stand = Stand::new(&[down, down, None], "targets = [\"t0\", \"t1\"]\nfallback = [\"t2\"]", "").await;
    let reply = stand.ask(STREAM).await;
    assert_eq!(reply.header("x-toolwire-target"), Some("t2"));
    assert_eq!(text_of(&reply.rest().await), "hello");

    let more = "[failover]\nbackoff = \"1ms\"\n";
    let stand = Stand::new(&[down, down], "retries = 2", more).await;
    let reply = stand.ask(STREAM).await;
    assert_eq!((reply.status().as_u16(), reply.header("x-toolwire-attempts")), (503, Some("6")));
    assert_eq!(stand.requests(), [3, 3]);
    assert_eq!(stand.most_open(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_for_a_model_is_asked_of_its_fallback() {
    let too_long = [
        Fault::Refusal(
            "400 Bad Request",
            r#"{"error":{"message":"long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        ),
        Fault::Refusal(
            "413 Content Too Large",
            r#"{"error":{"message":"prompt is too long: 9 tokens > 8"}}"#,
        ),
        Fault::Complete(
            "data: {\"error\":{\"code\":400,\"message\":\"m\",\"type\":\"exceed_context_size_error\"}}\n\n",
        ),
    ];
    for fault in too_long {
        for body in [STREAM, WHOLE] {
            let faults = [Some(fault), None, None];
            let keys = "targets = [\"t0\", \"t1\"]\nfallback = [\"t2\"]\nretries = 1";
            let stand = Stand::new(&faults, keys, "").await;
            let reply = stand.ask(body).await;
            assert_eq!(reply.status(), 200, "{fault:?}");
            assert_eq!(reply.header("x-toolwire-target"), Some("t2"), "{fault:?}");
            assert_eq!(text_of(&reply.rest().await), "hello");
            assert_eq!(stand.requests(), [1, 0, 1], "{fault:?}");
        }
        let stand = Stand::new(&[Some(fault), None], "retries = 1", "").await;
        let reply = stand.ask(STREAM).await;
        assert_eq!(reply.status(), 400, "{fault:?}");
        assert_eq!(reply.json().await["error"]["code"], "context_length_exceeded");
        assert_eq!(stand.requests(), [1, 0], "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_reaches_no_fallback_that_it_may_not_use() {
    let down = Some(Fault::Status("503 Service Unavailable"));
    let more = "[[keys]]\nname = \"few\"\nkey = \"few-key\"\nmodels = [\"m\"]\n\
                [[keys]]\nname = \"all\"\nkey = \"all-key\"\n";
    let stand = Stand::new(&[down, None], "targets = [\"t0\"]\nfallback = [\"t1\"]", more).await;
    for (key, status, requests) in [("few-key", 503, [1, 0]), ("all-key", 200, [2, 1])] {
        let mut request = chat_request(&stand.proxy, STREAM);
        request.headers_mut().insert("x-api-key", HeaderValue::from_static(key));
        let reply = Client::new().send(request).await.unwrap();
        assert_eq!(reply.status().as_u16(), status, "{key}");
        drop(reply);
        assert_eq!(stand.requests(), requests, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_keeps_failing_is_left_out_and_shown() {
    let down = Some(Fault::Status("500 Internal Server Error"));
    let stand = Stand::new(&[down, None], "", "[failover]\neject_after = 2\neject_for = \"600s\"\n").await;
    for _ in 0..5 {
        assert_eq!(text_of(&stand.ask(STREAM).await.rest().await), "hello");
    }
    assert_eq!(stand.requests(), [2, 5]);
    let lines = [
        "toolwire_attempts_total{target=\"t0\",outcome=\"upstream\"} 2",
        "toolwire_attempts_total{target=\"t1\",outcome=\"ok\"} 5",
        "toolwire_ejected_targets 1",
    ];
    // The client does not wait for the proxy to return the connection to the pool and count the response.
    loop {
        let metrics = Client::new().get(&stand.proxy, "/metrics").await.rest().await;
        if lines.iter().all(|line| metrics.contains(line)) {
            break;
        }
        assert!(!metrics.contains("outcome=\"ok\"} 5"), "{metrics}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_begins_a_response_without_content_is_left_for_the_next() {
    let settings = "[failover]\nfirst_content = \"50ms\"\n";
    let stand = Stand::new(&[Some(Fault::SilentOpened), None], "", settings).await;
    let reply = stand.ask(STREAM).await;
    assert_eq!((reply.status().as_u16(), reply.header("x-toolwire-target")), (200, Some("t1")));
    assert_eq!(text_of(&reply.rest().await), "hello");
    assert_eq!((stand.requests(), stand.most_open()), (vec![1, 1], 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_all_targets_were_out_before_the_client_may_ask_again() {
    let down = Some(Fault::Status("500 Internal Server Error"));
    let settings = "[failover]\neject_after = 1\neject_for = \"600s\"\n";
    let stand = Stand::new(&[down, down], "", settings).await;
    let reply = stand.ask(STREAM).await;
    assert_eq!((reply.status().as_u16(), reply.header("x-should-retry")), (500, Some("false")));
    let messages = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    for (path, body, status) in [
        ("/v1/chat/completions", STREAM, 503),
        ("/v1/chat/completions", WHOLE, 503),
        ("/v1/messages", messages, 529),
    ] {
        let request = Request::post(stand.proxy.url(path)).header("content-type", "application/json");
        let request = request.body(Full::new(body.to_owned().into())).unwrap();
        let reply = Client::new().send(request).await.unwrap();
        assert_eq!((reply.status().as_u16(), reply.header("x-should-retry")), (status, None), "{path}");
        let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&wait), "{wait}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_is_out_before_the_client_has_read_its_failure() {
    let down = Some(Fault::Status("500 Internal Server Error"));
    let stand = Stand::new(&[down], "", "[failover]\neject_after = 1\neject_for = \"600s\"\n").await;
    let unread = Client::http2_with_closed_windows().chat(&stand.proxy, STREAM).await;
    assert_eq!(unread.status().as_u16(), 500);
    assert_eq!(stand.ask(STREAM).await.status().as_u16(), 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_ends_all_attempts() {
    let stand =
        Stand::new(&[Some(Fault::Status("500 Internal Server Error")), Some(Fault::SilentBody)], "", "")
            .await;
    let client = Client::new();
    {
        let asked = client.chat(&stand.proxy, STREAM);
        tokio::pin!(asked);
        while stand.requests() != [1, 1] {
            let wait = tokio::time::sleep(std::time::Duration::from_millis(5));
            tokio::select! { _ = &mut asked => break, () = wait => {} }
        }
    }
    drop(client);
    while stand.open.0.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(stand.requests(), [1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_other_apis_see_one_response() {
    let stand = Stand::new(&[Some(Fault::Complete(OVERLOADED)), None], "", "").await;
    let messages =
        r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let responses = r#"{"model":"m","stream":true,"input":"hi"}"#;
    for (path, body, start, end) in [
        ("/v1/messages", messages, "event: message_start", "event: message_stop"),
        ("/v1/responses", responses, "event: response.created", "event: response.completed"),
    ] {
        let request = Request::builder().method(Method::POST).uri(stand.proxy.url(path));
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(body.to_owned().into())).unwrap();
        let body = Client::new().send(request).await.unwrap().rest().await;
        for event in [start, end] {
            assert_eq!(body.matches(event).count(), 1, "{event}: {body}");
        }
        assert!(body.contains("hello") && !body.contains("busy"), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_stays_with_its_target_and_others_are_divided() {
    let stand = Stand::new(&[None, None], "targets = { t0 = 1, t1 = 3 }", "").await;
    let ask = async |question: &str, rounds: usize| {
        let turns = r#",{"role":"assistant","content":"a"},{"role":"user","content":"and?"}"#.repeat(rounds);
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{question}"}}{turns}]}}"#);
        let reply = stand.ask(&body).await;
        reply.header("x-toolwire-target").unwrap().to_owned()
    };
    let mut second = 0;
    for question in 0..60 {
        let question = format!("question {question}");
        let target = ask(&question, 0).await;
        assert_eq!(ask(&question, 2).await, target);
        second += usize::from(target == "t1");
    }
    // About three in four conversations go to this target. The questions never change, so neither does the count.
    assert!((30..60).contains(&second), "{second}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_without_a_model_has_the_name_that_was_asked_for() {
    let upstream = Upstream::start(|exchange| async move {
        let choice = |fields: &str| format!("data: {{\"choices\":[{{\"index\":0,{fields}}}]}}\n\n");
        let text = choice("\"delta\":{\"content\":\"hello\"}");
        let end = choice("\"delta\":{},\"finish_reason\":\"stop\"");
        exchange.stream(text + &end + "data: [DONE]\n\n").await
    })
    .await;
    let entry = format!(
        "[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"http://{}\"\n\
         [[models]]\nname = \"t\"\nupstream = \"u\"\n[[models]]\nname = \"m\"\ntargets = [\"t\"]\n",
        upstream.address
    );
    let proxy = Proxy::of(&entry);
    let messages =
        r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let request = Request::builder().method(Method::POST).uri(proxy.url("/v1/messages"));
    let request = request.header("content-type", "application/json");
    let request = request.body(Full::new(messages.to_owned().into())).unwrap();
    let body = Client::new().send(request).await.unwrap().rest().await;
    assert!(body.contains("\"model\":\"m\"") && !body.contains("\"model\":\"t\""), "{body}");
}

/// A client must not be able to block an upstream for others with requests that make it fail.
#[tokio::test]
async fn errors_that_one_client_gets_eject_no_target_for_others() {
    for status in [
        "401 Unauthorized",
        "403 Forbidden",
        "404 Not Found",
        "429 Too Many Requests",
        "500 Error",
        "504 Timeout",
    ] {
        one_client_ejects_for_itself(status).await;
    }
}

async fn one_client_ejects_for_itself(status: &'static str) {
    let first = Upstream::start(move |mut exchange: Exchange| async move {
        if exchange.body.windows(6).any(|text| text == b"poison") {
            exchange.whole(status, "content-type: application/json\r\n", "{}").await;
            return exchange;
        }
        exchange.stream(answer()).await
    })
    .await;
    let second = Upstream::start(|exchange| exchange.stream(answer())).await;
    let mut config = String::new();
    for (name, address) in [("t0", first.address), ("t1", second.address)] {
        let _ = write!(
            config,
            "[[upstreams]]\nname = \"{name}\"\ndialect = \"chat\"\nbase_url = \"http://{address}\"\n\
             [[models]]\nname = \"{name}\"\nupstream = \"{name}\"\n"
        );
    }
    let proxy = Proxy::of(&format!(
        "api_keys = [\"good\", \"evil\"]\n{config}[[models]]\nname = \"m\"\ntargets = [\"t0\", \"t1\"]\n\
         [failover]\neject_after = 3\neject_for = \"600s\"\n"
    ));
    let target = async |key: &str, text: &str| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
        let mut request = chat_request(&proxy, body);
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        let reply = Client::new().send(request).await.unwrap();
        let target = reply.header("x-toolwire-target").unwrap_or_default().to_owned();
        assert_eq!(text_of(&reply.rest().await), "hello");
        target
    };
    for number in 0..6 {
        assert_eq!(target("evil", &format!("poison {number}")).await, "t1");
    }
    assert_eq!(first.requests(), 3, "{status}");
    assert_eq!(target("evil", "harmless").await, "t1", "it is out for that client");
    assert_eq!(target("good", "harmless").await, "t0", "{status}");
}
