use std::{
    future::poll_fn,
    sync::atomic::{AtomicU32, Ordering},
};

use http::{HeaderMap, Method, header};
use serde_json::{Value, json};
use tokio::time::{advance, timeout};

use super::*;
use crate::audit::Audit;
use toolwire_net::redact::Redactor;

fn registrations(options: Options) -> Arc<Registrations> {
    let host = Host::detached("addons");
    let registrations = Arc::new(Registrations::new(options, host.clone()));
    Arc::clone(&registrations).start(&host);
    registrations
}

fn with_keys() -> Options {
    Options { keys: vec!["key-one".into(), "key-two".into()], ..Options::default() }
}

fn key(registrations: &Registrations, key: &str) -> KeyNumber {
    let bearer = format!("Bearer {key}").parse().unwrap();
    let headers = HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]);
    registrations.authorize(&ShownRequest::new(&Method::POST, "/v1/providers", &headers, b"")).unwrap()
}

fn description(id: &str, tools: &[&str]) -> Vec<u8> {
    let tools: Vec<_> = tools.iter().map(|name| json!({"name": name, "description": "does it"})).collect();
    json!({"id": id, "tools": tools}).to_string().into_bytes()
}

fn names(registrations: &Registrations) -> Vec<String> {
    registrations.tools().iter().map(|tool| tool.name.clone()).collect()
}

fn invocation(tool: &str) -> Invocation {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Invocation { id: format!("call_{number}"), ..Invocation::in_test(tool, json!({"n": 1})) }
}

/// Reads the next message on a stream: the event's name and data.
async fn message(stream: &mut CallStream) -> (String, Value) {
    let event = poll_fn(|cx| stream.poll_event(cx)).await.unwrap();
    let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
    (name.to_owned(), serde_json::from_str(data).unwrap())
}

#[tokio::test(start_paused = true)]
async fn registration_lasts_for_its_lease_and_is_renewed() {
    let registrations = registrations(with_keys());
    let one = key(&registrations, "key-one");
    let registered = registrations.register(one, &description("tabs", &["tab.open", "tab.close"])).unwrap();
    assert_eq!(
        registered,
        Registered {
            lease: Duration::from_secs(60),
            refused: Vec::new(),
            accepted: vec!["tab.open".to_owned(), "tab.close".to_owned()]
        }
    );
    assert_eq!(names(&registrations), ["tab.open", "tab.close"]);
    for _ in 0..3 {
        advance(Duration::from_secs(59)).await;
        registrations.renew(one, "tabs").unwrap();
        assert_eq!(names(&registrations).len(), 2);
    }
    advance(Duration::from_secs(60)).await;
    assert_eq!(names(&registrations), [""; 0]);
    assert_eq!(registrations.renew(one, "tabs").unwrap_err().kind(), Kind::NotFound);
    registrations.register(one, &description("tabs", &["tab.open"])).unwrap();
    assert_eq!(names(&registrations), ["tab.open"]);
    registrations.remove(one, "tabs").unwrap();
    assert_eq!(names(&registrations), [""; 0]);
    assert_eq!(registrations.remove(one, "tabs").unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn stage_is_told_when_tools_come_change_and_go() {
    let audit = Arc::new(Audit::new(Arc::new(Redactor::new([])), None));
    let changed = Arc::new(Notify::new());
    let host = Host::new("addons", HttpClient::direct(), audit, Arc::clone(&changed));
    let registrations = Arc::new(Registrations::new(with_keys(), host.clone()));
    Arc::clone(&registrations).start(&host);
    let one = key(&registrations, "key-one");
    let is_told = async || timeout(Duration::from_secs(1), changed.notified()).await.is_ok();
    registrations.register(one, &description("a", &["x"])).unwrap();
    assert!(is_told().await);
    registrations.register(one, &description("a", &["x"])).unwrap();
    assert!(!is_told().await, "a heartbeat changes nothing");
    registrations.register(one, &description("a", &["y"])).unwrap();
    assert!(is_told().await);
    assert!(timeout(Duration::from_secs(70), changed.notified()).await.is_ok(), "the lease ends");
    assert_eq!(names(&registrations), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn registrations_belong_to_their_key() {
    let registrations = registrations(with_keys());
    let (one, two) = (key(&registrations, "key-one"), key(&registrations, "key-two"));
    registrations.register(one, &description("tabs", &["open"])).unwrap();
    assert_eq!(registrations.register(two, &description("tabs", &["evil"])).unwrap_err().status(), 409);
    assert_eq!(registrations.renew(two, "tabs").unwrap_err().status(), 404);
    assert_eq!(registrations.remove(two, "tabs").unwrap_err().status(), 404);
    assert_eq!(registrations.connect(two, "tabs").unwrap_err().status(), 404);
    assert_eq!(registrations.answer(two, "tabs", "call_1", b"{}").unwrap_err().status(), 404);
    assert_eq!(names(&registrations), ["open"]);
}

#[tokio::test(start_paused = true)]
async fn tools_of_other_programs_are_not_displaced() {
    let registrations = registrations(with_keys());
    let (one, two) = (key(&registrations, "key-one"), key(&registrations, "key-two"));
    registrations.register(two, &description("zz", &["tab.open"])).unwrap();
    let registered = registrations.register(one, &description("aa", &["TAB_open", "other"])).unwrap();
    assert_eq!(registered.refused, ["TAB_open"]);
    assert_eq!(names(&registrations), ["other", "tab.open"]);
}

#[tokio::test(start_paused = true)]
async fn refused_tools_are_offered_when_their_names_become_free() {
    let registrations = registrations(with_keys());
    let (one, two) = (key(&registrations, "key-one"), key(&registrations, "key-two"));
    registrations.register(two, &description("zz", &["open"])).unwrap();
    for id in ["aa", "bb"] {
        let registered = registrations.register(one, &description(id, &["OPEN", id])).unwrap();
        assert_eq!(registered.refused, ["OPEN"]);
    }
    registrations.remove(two, "zz").unwrap();
    assert_eq!(names(&registrations), ["aa", "OPEN", "bb"], "one of them gets the name");
    registrations.register(one, &description("aa", &["aa"])).unwrap();
    assert_eq!(names(&registrations), ["aa", "bb", "OPEN"], "a registration was replaced by one without it");
    registrations.register(two, &description("cc", &["open"])).unwrap();
    advance(Duration::from_secs(40)).await;
    registrations.renew(two, "cc").unwrap();
    advance(Duration::from_secs(30)).await;
    // The leases of the other two have expired.
    let registered = registrations.register(two, &description("dd", &["dd"])).unwrap();
    assert_eq!(
        (registered.refused.len(), names(&registrations)),
        (0, vec!["open".to_owned(), "dd".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn number_of_registrations_is_limited_by_key() {
    let registrations = registrations(Options { max_registrations: 2, ..with_keys() });
    let (one, two) = (key(&registrations, "key-one"), key(&registrations, "key-two"));
    registrations.register(one, &description("a", &["a"])).unwrap();
    registrations.register(one, &description("b", &["b"])).unwrap();
    assert_eq!(registrations.register(one, &description("c", &["c"])).unwrap_err().status(), 429);
    registrations.register(one, &description("b", &["b2"])).unwrap();
    registrations.register(two, &description("c", &["c"])).unwrap();
    advance(Duration::from_secs(61)).await;
    registrations.register(one, &description("c", &["c"])).unwrap();
}

#[tokio::test(start_paused = true)]
async fn hostile_descriptions_are_refused() {
    let registrations = registrations(Options { max_tools: 3, ..with_keys() });
    let one = key(&registrations, "key-one");
    let tool = |tool: Value| json!({"id": "a", "tools": [tool]});
    let called_back = |url: &str| json!({"id": "a", "callback_url": url, "tools": []});
    for (wrong, status) in [
        (json!([]), 400),
        (json!({"id": "a"}), 400),
        (json!({"id": "", "tools": []}), 400),
        (json!({"id": "a/../b", "tools": []}), 400),
        (json!({"id": ".", "tools": []}), 400),
        (json!({"id": "a".repeat(129), "tools": []}), 400),
        (json!({"id": "a\nb", "tools": []}), 400),
        (json!({"id": "a", "tools": {"name": "x"}}), 400),
        (json!({"id": "a", "tools": [{"name": "1"}, {"name": "2"}, {"name": "3"}, {"name": "4"}]}), 413),
        (json!({"id": "a", "tools": [{"name": "a.b"}, {"name": "A_b"}]}), 400),
        (tool(json!({"name": ""})), 400),
        (tool(json!({"name": "___"})), 400),
        (tool(json!({"name": "files__read"})), 400),
        (tool(json!({"name": "files._read"})), 400),
        (tool(json!({"name": "with space"})), 400),
        (tool(json!({"name": "é"})), 400),
        (tool(json!({"name": "x".repeat(65)})), 400),
        (tool(json!({"name": "x", "description": "x".repeat(9_000)})), 413),
        (tool(json!({"name": "x", "parameters": []})), 400),
        (tool(json!({"name": "x", "parameters": {"type": "string"}})), 400),
        (tool(json!({"name": "x", "parameters": {"description": "x".repeat(70_000)}})), 413),
        (called_back("http://169.254.169.254/latest/meta-data"), 400),
        (called_back("http://127.0.0.1/"), 400),
        (called_back("http://localhost/"), 400),
        (called_back("http://[::1]/"), 400),
        (called_back("http://2130706433/"), 400),
        (called_back("file:///etc/passwd"), 400),
        (called_back("http://user:password@example.com/"), 400),
        (called_back(""), 400),
        (json!({"id": "a", "callback_url": "https://example.com/", "token": "a b", "tools": []}), 400),
        (json!({"id": "a", "callback_url": "https://example.com/", "token": "a\r\nx: y", "tools": []}), 400),
    ] {
        let failure = registrations.register(one, wrong.to_string().as_bytes()).unwrap_err();
        assert_eq!(failure.status(), status, "{wrong}: {failure:?}");
    }
    for wrong in [&b""[..], b"{", b"\xff\xfe", b"null"] {
        assert_eq!(registrations.register(one, wrong).unwrap_err().status(), 400);
    }
    let deep = "[".repeat(100_000);
    assert_eq!(registrations.register(one, deep.as_bytes()).unwrap_err().status(), 400);
    assert_eq!(registrations.list(), []);
}

#[tokio::test(start_paused = true)]
async fn call_goes_over_the_stream_and_its_result_comes_back() {
    let registrations = registrations(with_keys());
    let one = key(&registrations, "key-one");
    registrations.register(one, &description("tabs", &["tab.open"])).unwrap();
    let call = invocation("tab.open");
    let early = registrations.run(&call).await.unwrap_err();
    assert!(early.message.contains("not connected"), "{early:?}");
    let mut stream = registrations.connect(one, "tabs").unwrap();
    let program = async {
        let (name, data) = message(&mut stream).await;
        let expected = json!({"type": "TOOL_EXECUTE", "toolName": "tab.open", "params": {"n": 1}, "toolCallId": call.id});
        assert_eq!((name.as_str(), &data), ("call", &expected));
        let result = br#"{"content":[{"type":"text","text":"opened"}],"details":{"tab":7}}"#;
        assert_eq!(registrations.answer(one, "tabs", "call_other", result).unwrap_err().status(), 404);
        registrations.answer(one, "tabs", &call.id, result).unwrap();
        assert_eq!(
            registrations.answer(one, "tabs", &call.id, result).unwrap_err().status(),
            404,
            "it counts once"
        );
    };
    let (output, ()) = tokio::join!(registrations.run(&call), program);
    let output = output.unwrap();
    assert_eq!((output.content.as_str(), &output.details["tab"]), ("opened", &json!(7)));
}

#[tokio::test(start_paused = true)]
async fn calls_with_equal_ids_are_told_apart() {
    let registrations = registrations(with_keys());
    let one = key(&registrations, "key-one");
    registrations.register(one, &description("tabs", &["open"])).unwrap();
    let mut stream = registrations.connect(one, "tabs").unwrap();
    let call = invocation("open");
    let program = async {
        let ids = [message(&mut stream).await, message(&mut stream).await];
        for (place, (_, data)) in ids.iter().enumerate().rev() {
            let id = data["toolCallId"].as_str().unwrap();
            registrations
                .answer(one, "tabs", id, json!({"content": place.to_string()}).to_string().as_bytes())
                .unwrap();
        }
    };
    let (first, second, ()) = tokio::join!(registrations.run(&call), registrations.run(&call), program);
    assert_eq!((first.unwrap().content.as_str(), second.unwrap().content.as_str()), ("0", "1"));
}

#[tokio::test(start_paused = true)]
async fn dropped_call_is_cancelled_at_the_program() {
    let registrations = registrations(with_keys());
    let one = key(&registrations, "key-one");
    registrations.register(one, &description("tabs", &["open"])).unwrap();
    let mut stream = registrations.connect(one, "tabs").unwrap();
    let call = invocation("open");
    assert!(timeout(Duration::from_secs(1), registrations.run(&call)).await.is_err());
    assert_eq!(message(&mut stream).await.0, "call");
    let (name, data) = message(&mut stream).await;
    assert_eq!((name.as_str(), &data), ("cancel", &json!({"type": "TOOL_CANCEL", "toolCallId": call.id})));
    assert_eq!(registrations.answer(one, "tabs", &call.id, b"{}").unwrap_err().status(), 404);
}

#[tokio::test(start_paused = true)]
async fn program_that_disconnects_keeps_its_tools_for_the_lease() {
    let registrations = registrations(with_keys());
    let one = key(&registrations, "key-one");
    registrations.register(one, &description("tabs", &["open"])).unwrap();
    let mut stream = registrations.connect(one, "tabs").unwrap();
    advance(Duration::from_secs(3600)).await;
    tokio::task::yield_now().await;
    assert_eq!(names(&registrations), ["open"], "an open stream renews the lease");
    let call = invocation("open");
    let waiting = registrations.run(&call);
    let leaving = async {
        message(&mut stream).await;
        drop(stream);
        advance(Duration::from_secs(59)).await;
        assert_eq!(names(&registrations), ["open"]);
        advance(Duration::from_secs(2)).await;
    };
    let (result, ()) = tokio::join!(waiting, leaving);
    assert!(result.unwrap_err().message.contains("gone"));
    assert_eq!(names(&registrations), [""; 0]);
    registrations.register(one, &description("tabs", &["open"])).unwrap();
    assert_eq!(names(&registrations), ["open"], "it comes back");
}

#[tokio::test(start_paused = true)]
async fn call_that_was_never_sent_fails_when_the_stream_breaks() {
    let registrations = registrations(with_keys());
    let one = key(&registrations, "key-one");
    registrations.register(one, &description("tabs", &["open"])).unwrap();
    let stream = registrations.connect(one, "tabs").unwrap();
    let call = invocation("open");
    let leaving = async {
        tokio::task::yield_now().await;
        drop(stream);
    };
    let (result, ()) = tokio::join!(registrations.run(&call), leaving);
    assert!(result.unwrap_err().message.contains("gone"));
    assert_eq!(names(&registrations), ["open"]);
}

#[tokio::test(start_paused = true)]
async fn second_stream_takes_the_place_of_the_first() {
    let registrations = registrations(with_keys());
    let one = key(&registrations, "key-one");
    registrations.register(one, &description("tabs", &["open"])).unwrap();
    let mut first = registrations.connect(one, "tabs").unwrap();
    let mut second = registrations.connect(one, "tabs").unwrap();
    assert_eq!(poll_fn(|cx| first.poll_event(cx)).await, None);
    drop(first);
    let call = invocation("open");
    let program = async {
        message(&mut second).await;
        registrations.answer(one, "tabs", &call.id, br#"{"content":"done"}"#).unwrap();
    };
    let (output, ()) = tokio::join!(registrations.run(&call), program);
    assert_eq!(output.unwrap().content, "done");
}

#[tokio::test(start_paused = true)]
async fn program_that_reads_nothing_does_not_pile_up_calls() {
    let registrations = registrations(Options { max_result: 100, ..with_keys() });
    let one = key(&registrations, "key-one");
    registrations.register(one, &description("tabs", &["open"])).unwrap();
    let _stream = registrations.connect(one, "tabs").unwrap();
    let calls: Vec<_> = (0..calls::MAX_WAITING + 5).map(|_| invocation("open")).collect();
    let running = calls.iter().map(|call| timeout(Duration::from_secs(1), registrations.run(call)));
    let ended = futures_util::future::join_all(running).await;
    let refused =
        ended.iter().filter(|end| matches!(end, Ok(Err(error)) if error.code == ErrorCode::RateLimited));
    assert_eq!(refused.count(), 5);
    let long = json!({"content": "x".repeat(200)}).to_string();
    assert_eq!(registrations.answer(one, "tabs", "x", long.as_bytes()).unwrap_err().status(), 413);
}
