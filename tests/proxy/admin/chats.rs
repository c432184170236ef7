//! Tests the console's chats, `/console/api/chat`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Ask, KEY, WITH_KEY, event, proxy};
use crate::support::{
    client::Reply,
    proxy::{Proxy, Setup},
    soon,
    upstream::{Exchange, Upstream, held, text},
};

const PATH: &str = "/console/api/chat";

pub(super) fn hello(client: &str) -> Value {
    json!({"model": "m", "client": client, "messages": [{"role": "user", "content": "hi"}]})
}

/// Returns the name and the data of each event in a stream.
pub(super) fn events(stream: &str) -> Vec<(String, Value)> {
    let frames =
        stream.split("\n\n").filter_map(|frame| frame.strip_prefix("event: ")?.split_once("\ndata: "));
    frames.map(|(name, data)| (name.to_owned(), serde_json::from_str(data).unwrap_or_default())).collect()
}

pub(super) fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

pub(super) fn said(events: &[(String, Value)]) -> String {
    events.iter().filter_map(|(_, data)| data["content"].as_str()).collect()
}

pub(super) async fn begin(proxy: &Proxy, body: &Value) -> Reply {
    Ask::new(proxy, "POST", PATH).key(KEY).json(body).send().await
}

fn exchange(begun: &str) -> String {
    events(begun).first().and_then(|(_, data)| data["exchange"].as_str()).unwrap_or_default().to_owned()
}

/// Waits for an exchange that matches `query`, and returns its row in the list.
async fn row(proxy: &Proxy, query: &str) -> Value {
    let path = format!("/admin/exchanges?q={query}");
    let listed = async {
        loop {
            let (_, list) = Ask::new(proxy, "GET", &path).key(KEY).answer().await;
            if list["exchanges"][0].is_object() {
                return list["exchanges"][0].clone();
            }
            tokio::task::yield_now().await;
        }
    };
    soon("a row", listed).await
}

#[tokio::test]
async fn chat_in_each_dialect_is_an_ordinary_request_of_the_console() {
    // Clients need a key, but the console does not.
    let upstream = Upstream::start(crate::support::upstream::at_once).await;
    let setup =
        Setup { keys: vec!["client-key"], execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    for client in ["chat", "responses", "messages"] {
        let reply = begin(&proxy, &hello(client)).await;
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
        let request = reply.header("x-request-id").unwrap().to_owned();
        let events = events(&reply.rest().await);
        assert_eq!(
            names(&events),
            ["message_start", "message_update", "message_complete"],
            "{client}: {events:?}"
        );
        assert_eq!(said(&events), "hello");
        let (start, end) = (&events[0].1, &events[2].1);
        assert_eq!(
            (&start["model"], &start["client"], &start["key"]),
            (&json!("m"), &json!(client), &json!("console"))
        );
        assert_eq!((&end["finish"], &end["exchange"]), (&json!("stop"), &start["exchange"]));
        assert!(end["ms"].is_u64() && end["ttft_ms"].is_u64(), "{end}");
        let row = row(&proxy, &format!("client:{client}%20state:done")).await;
        assert_eq!(
            (&row["id"], &row["key"], &row["request"]),
            (&start["exchange"], &json!("console"), &json!(request))
        );
    }
    let (_, keys) = Ask::new(&proxy, "GET", "/admin/keys").key(KEY).answer().await;
    assert_eq!(keys["keys"][0]["name"], "console", "{keys}");
    assert_eq!(keys["keys"][0]["used"]["requests"], 3, "{keys}");
}

#[tokio::test]
async fn answer_as_one_object_has_message_type_and_data() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let ask =
        Ask::new(&proxy, "POST", PATH).key(KEY).header("accept", "application/json").json(&hello("messages"));
    let (status, body) = ask.answer().await;
    assert_eq!((status, &body["message"], &body["type"]), (200, &json!("hello"), &json!("text")), "{body}");
    assert_eq!(body["data"]["finish"], "stop", "{body}");
    assert!(body["data"]["exchange"].as_str().unwrap().starts_with("ex_"), "{body}");
}

#[tokio::test]
async fn chat_goes_on_without_its_page_and_is_read_again_from_the_beginning() {
    let go_on = Arc::new(Notify::new());
    let upstream = held(&go_on).await;
    let setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    let mut page = begin(&proxy, &hello("chat")).await;
    let begun = page.until("\"first\"}\n\n").await;
    let path = format!("{PATH}/{}", exchange(&begun));
    drop(page);
    let mut again = Ask::new(&proxy, "GET", &path).key(KEY).send().await;
    assert_eq!(again.status(), 200);
    again.until("\"first\"}\n\n").await;
    go_on.notify_one();
    let rest = again.rest().await;
    assert_eq!(names(&events(&rest)), ["message_complete"], "{rest}");
    // The events can still be read after the exchange has ended.
    let whole = events(&Ask::new(&proxy, "GET", &path).key(KEY).send().await.rest().await);
    assert_eq!(names(&whole), ["message_start", "message_update", "message_complete"]);
    assert_eq!(said(&whole), "first");
    let (status, body) = Ask::new(&proxy, "GET", "/console/api/chat/ex_other").key(KEY).answer().await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_kept")));
}

#[tokio::test]
async fn chat_that_is_stopped_ends_at_the_upstream_and_for_its_readers() {
    let upstream = Upstream::start(|mut exchange: Exchange| async move {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        exchange.silent().await
    });
    let upstream = upstream.await;
    let setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    let mut page = begin(&proxy, &hello("chat")).await;
    let begun = page.until("\"first\"}\n\n").await;
    let path = format!("{PATH}/{}", exchange(&begun));
    let stop = || Ask::new(&proxy, "DELETE", &path).key(KEY).send();
    assert_eq!(stop().await.status(), 204);
    assert_eq!(names(&events(&page.rest().await)), [""; 0]);
    let row = row(&proxy, "state:cancelled").await;
    assert_eq!(row["id"], exchange(&begun), "{row}");
    let gone = async {
        while stop().await.status() != 404 {
            tokio::task::yield_now().await;
        }
    };
    soon("the chat is forgotten", gone).await;
}

#[tokio::test]
async fn chat_belongs_to_the_session_that_began_it() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let signed_in = Ask::new(&proxy, "POST", "/admin/session").json(&json!({"key": KEY})).send().await;
        let cookies = signed_in.headers("set-cookie");
        let cookie = cookies.iter().find(|cookie| cookie.contains("Path=/console/")).unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        sessions.push((cookie, signed_in.json().await["csrf"].as_str().unwrap().to_owned()));
    }
    let [(own, csrf), (other, _)] = sessions.try_into().unwrap();
    let ask =
        || Ask::new(&proxy, "POST", PATH).header("cookie", &own).header("sec-fetch-site", "same-origin");
    let (status, body) = ask().json(&hello("chat")).answer().await;
    assert_eq!((status, &body["error"]["code"]), (403, &json!("csrf")));
    let origin = ask().header("sec-fetch-site", "cross-site").header("x-toolwire-csrf", &csrf);
    let (status, _) = Ask { request: origin.request }.json(&hello("chat")).answer().await;
    assert_eq!(status, 200, "the first of two headers holds");
    let foreign =
        Ask::new(&proxy, "POST", PATH).header("cookie", &own).header("sec-fetch-site", "cross-site");
    let (status, _) = foreign.header("x-toolwire-csrf", &csrf).json(&hello("chat")).answer().await;
    assert_eq!(status, 403);
    let begun = ask().header("x-toolwire-csrf", &csrf).json(&hello("chat")).send().await.rest().await;
    let path = format!("{PATH}/{}", exchange(&begun));
    let attach = |cookie: &str| Ask::new(&proxy, "GET", &path).header("cookie", cookie);
    assert_eq!(attach(&own).send().await.status(), 200);
    assert_eq!(attach(&other).answer().await.0, 404);
    assert_eq!(Ask::new(&proxy, "DELETE", &path).key(KEY).answer().await.0, 404);
    assert_eq!(Ask::new(&proxy, "GET", &path).key(KEY).answer().await.0, 404);
    assert_eq!(Ask::new(&proxy, "GET", &path).answer().await.0, 401);
    assert_eq!(Ask::new(&proxy, "POST", PATH).key("wrong").json(&hello("chat")).answer().await.0, 401);
    assert_eq!(Ask::new(&proxy, "POST", PATH).json(&hello("chat")).answer().await.0, 401);
}

#[tokio::test]
async fn wrong_requests_name_the_field() {
    let (upstream, proxy) = proxy(WITH_KEY).await;
    let many: Vec<_> = (0..1001).map(|_| json!({"role": "user", "content": ""})).collect();
    for (field, value, path) in [
        ("model", json!(""), "model"),
        ("model", json!("x".repeat(257)), "model"),
        ("model", json!(3), "model"),
        ("client", json!("lumo"), "client"),
        ("client", json!("\r\n\u{1b}[31m"), "client"),
        ("messages", json!([]), "messages"),
        ("messages", json!("hi"), "messages"),
        ("messages", json!(many), "messages"),
        ("messages", json!([{"role": "tool", "content": "x"}]), "messages[0].role"),
        ("messages", json!([{"role": "user", "content": [1]}]), "messages[0].content"),
    ] {
        let mut body = hello("chat");
        body[field] = value;
        let (status, answer) = Ask::new(&proxy, "POST", PATH).key(KEY).json(&body).answer().await;
        assert_eq!((status, &answer["error"]["path"]), (400, &json!(path)), "{answer}");
    }
    let long = Ask::new(&proxy, "POST", PATH).key(KEY).body("application/json", vec![b' '; (1 << 20) + 1]);
    assert_eq!(long.answer().await.0, 413);
    let mut unknown = hello("messages");
    unknown["model"] = json!("no\r\nsuch\u{1b}[31m");
    let (status, answer) = Ask::new(&proxy, "POST", PATH).key(KEY).json(&unknown).answer().await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("not_found")), "{answer}");
    assert_eq!(Ask::new(&proxy, "GET", PATH).key(KEY).answer().await.0, 405);
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn failures_are_error_events() {
    let refusing = Upstream::start(|mut exchange: Exchange| async move {
        let headers = "content-type: application/json\r\nretry-after: 7\r\n";
        exchange.whole("429 Too Many Requests", headers, "{}").await;
        exchange
    });
    let breaking = Upstream::start(|mut exchange: Exchange| async move {
        exchange.begin().await;
        exchange.piece(text("some")).await;
        exchange
    });
    for (upstream, code, before, (status, wait)) in [
        (refusing.await, "rate_limit_exceeded", "", (429, Some(7))),
        (breaking.await, "upstream_truncated", "some", (502, None)),
    ] {
        let setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
        let proxy = setup.start().await;
        for client in ["chat", "responses", "messages"] {
            let events = events(&begin(&proxy, &hello(client)).await.rest().await);
            let (name, data) = events.last().unwrap();
            assert_eq!(
                (name.as_str(), &data["error"]["code"]),
                ("error", &json!(code)),
                "{client}: {events:?}"
            );
            assert_eq!(data["error"]["retryable"], true, "{data}");
            assert_eq!(
                (&data["error"]["status"], data["error"]["retry_after_s"].as_u64()),
                (&json!(status), wait)
            );
            assert_eq!(said(&events), before);
        }
        let ask = Ask::new(&proxy, "POST", PATH).key(KEY).header("accept", "application/json");
        let (status, body) = ask.json(&hello("chat")).answer().await;
        assert_eq!((status, &body["type"]), (200, &json!("error")), "{body}");
        assert_eq!(body["data"]["error"]["code"], code, "{body}");
    }
}

#[tokio::test]
async fn limits_of_a_key_named_console_hold() {
    let limited = "[[keys]]\nname = \"console\"\nkey = \"some-key-of-the-console\"\nmodels = [\"m\"]\nrequests_per_minute = 1\n";
    let (_upstream, proxy) = proxy(&format!("{WITH_KEY}{limited}")).await;
    assert_eq!(begin(&proxy, &hello("chat")).await.status(), 200);
    let (status, body) = Ask::new(&proxy, "POST", PATH).key(KEY).json(&hello("chat")).answer().await;
    assert_eq!((status, &body["error"]["code"]), (429, &json!("rate_limit_exceeded")), "{body}");
    assert!(body["error"]["retry_after_s"].is_u64(), "{body}");
    let mut other = hello("chat");
    other["model"] = json!("org/other");
    let (status, body) = Ask::new(&proxy, "POST", PATH).key(KEY).json(&other).answer().await;
    assert_eq!((status, &body["error"]["code"]), (403, &json!("forbidden")), "{body}");
}

#[tokio::test]
async fn a_hundred_chats_run_at_once_and_more_are_refused() {
    let upstream = Upstream::start(|mut exchange: Exchange| async move {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        exchange.silent().await
    })
    .await;
    let mut setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
    setup.upstream.queue.max_concurrent = 200;
    let proxy = setup.start().await;
    let mut open = Vec::new();
    for _ in 0..128 {
        let mut reply = begin(&proxy, &hello("chat")).await;
        assert_eq!(reply.status(), 200);
        reply.until("\"first\"}\n\n").await;
        open.push(reply);
    }
    let refused = begin(&proxy, &hello("chat")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.json().await["error"]["code"], "rate_limited");
}

#[tokio::test]
async fn feed_tells_of_chats() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let mut feed = Ask::new(&proxy, "GET", "/admin/events").key(KEY).send().await;
    feed.until(": connected\n\n").await;
    let begun = begin(&proxy, &hello("chat")).await.rest().await;
    let told = event(&mut feed, "message_complete").await;
    assert!(told.contains(&exchange(&begun)), "{told}");
}

#[tokio::test]
async fn configured_secrets_are_covered_whatever_the_upstream_repeats() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        // The key is spread over several tokens.
        for piece in ["Your key is admin-", "key-of", "-tests, is it n", "ot?"] {
            exchange.piece(text(piece)).await;
        }
        exchange.finished().await
    });
    let upstream = upstream.await;
    let proxy = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) }.start().await;
    for client in ["chat", "responses", "messages"] {
        let stream = begin(&proxy, &hello(client)).await.rest().await;
        assert_eq!(
            said(&events(&stream)),
            "Your key is xxxxxxxxxxxxxxxxxx, is it not?",
            "{client}: {stream}"
        );
        let whole = Ask::new(&proxy, "POST", PATH).key(KEY).json(&hello(client));
        let whole = whole.header("accept", "application/json").answer().await.1;
        assert_eq!(whole["message"], "Your key is xxxxxxxxxxxxxxxxxx, is it not?", "{client}");
    }
}

async fn models(proxy: &Proxy) -> Value {
    Ask::new(proxy, "GET", "/admin/models").key(KEY).answer().await.1
}

#[tokio::test]
async fn models_of_chats_are_listed_with_what_is_known_of_their_upstreams() {
    const JSON: &str = "content-type: application/json\r\n";
    for (status, list, names, answers) in [
        ("200 OK", r#"{"data": [{"id": "fast"}, {"id": "late"}]}"#, &["fast", "late"][..], true),
        ("404 Not Found", "{}", &[], true),
        ("200 OK", "{}", &[], true),
        ("200 OK", "<html>", &[], false),
        ("401 Unauthorized", "{}", &[], false),
        ("503 Service Unavailable", "{}", &[], false),
    ] {
        let upstream = Upstream::start(move |mut exchange: Exchange| async move {
            exchange.whole(status, JSON, list).await;
            exchange
        })
        .await;
        let mut setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
        setup.wildcard = true;
        let said = models(&setup.start().await).await;
        let of = |name: &str| json!({"name": name, "upstream": "up", "answers": answers});
        let expected: Vec<_> = ["m", "org/other"].iter().chain(names).map(|name| of(name)).collect();
        assert_eq!(said, json!({"models": expected, "any": true}), "{status} {list}");
    }
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(gone) };
    let said = models(&setup.start().await).await;
    assert_eq!((&said["models"][0]["answers"], &said["any"]), (&json!(false), &json!(false)), "{said}");
}

#[tokio::test]
async fn why_no_model_of_chats_is_known_is_said() {
    let proxy = Proxy::of(&format!(
        "{WITH_KEY}[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
         [[models]]\nname = \"*\"\nupstream = \"up\"\n"
    ));
    let said = models(&proxy).await;
    let error = said["error"].as_str().unwrap_or_default();
    assert_eq!((&said["models"], &said["any"]), (&json!([]), &json!(true)), "{said}");
    assert!(
        error.starts_with("upstream `up` does not list its models: ") && error.contains("refused"),
        "{said}"
    );
}

#[tokio::test]
async fn models_of_chats_are_those_that_the_console_may_use() {
    let limited = "[[keys]]\nname = \"console\"\nkey = \"some-key-of-the-console\"\nmodels = [\"m\"]\n";
    let (_upstream, proxy) = proxy(&format!("{WITH_KEY}{limited}")).await;
    let said = models(&proxy).await;
    assert_eq!(said["models"].as_array().map(Vec::len), Some(1), "{said}");
    assert_eq!(said["models"][0]["name"], "m");
}

#[tokio::test]
async fn model_of_an_api_without_a_list_is_known() {
    let upstream = Upstream::start(crate::support::upstream::at_once).await;
    let mut setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
    setup.wildcard = true;
    setup.upstream.options = toolwire::dialect::UpstreamDialect::Lumo(Default::default());
    let said = models(&setup.start().await).await;
    let names: Vec<_> = said["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| (own["name"].clone(), own.get("answers")))
        .collect();
    assert_eq!(names, [("m".into(), None), ("org/other".into(), None), ("lumo".into(), None)], "{said}");
}

#[tokio::test]
async fn written_request_is_sent_as_it_is() {
    let upstream = Upstream::start(|exchange: Exchange| async move {
        let body = String::from_utf8(exchange.body.clone()).unwrap_or_default();
        let is_as_written = body.contains("0.70") && body.contains("get_weather");
        exchange
            .stream(
                text(if is_as_written { "as written" } else { "changed" }) + crate::support::upstream::END,
            )
            .await
    });
    let upstream = upstream.await;
    let proxy = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) }.start().await;
    let request = |stream: bool| {
        format!(
            r#"{{"model": "m", "stream": {stream}, "temperature": 0.70, "messages": [{{"role": "user", "content": "hi"}}],
            "tools": [{{"type": "function", "function": {{"name": "get_weather"}}}}]}}"#
        )
    };
    let events = events(&begin(&proxy, &json!({"request": request(true)})).await.rest().await);
    assert_eq!(said(&events), "as written", "{events:?}");
    let row = row(&proxy, "state:done").await;
    assert_eq!(
        (&row["key"], &row["client"], &row["model"]),
        (&json!("console"), &json!("chat"), &json!("m"))
    );
    for (body, path) in [
        (json!({"request": request(false)}), "request"),
        (json!({"request": "{"}), "request"),
        (json!({"request": {"model": "m"}}), "request"),
        (json!({"request": request(true), "client": "nobody"}), "client"),
    ] {
        let (status, error) = Ask::new(&proxy, "POST", PATH).key(KEY).json(&body).answer().await;
        assert_eq!((status, &error["error"]["path"]), (400, &json!(path)), "{error}");
    }
    let unknown = json!({"request": request(true).replace("\"m\"", "\"nobody\"")});
    assert_eq!(Ask::new(&proxy, "POST", PATH).key(KEY).json(&unknown).answer().await.0, 404);
}
