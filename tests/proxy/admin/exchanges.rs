//! Tests the log of recent exchanges: the list, its filter, and single exchanges.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Ask, KEY, TOOLS, WITH_KEY, event, proxy};
use crate::support::{
    client::{Client, STREAM, WHOLE},
    proxy::{Proxy, Setup},
    soon,
    upstream::{END, Exchange, Upstream, answer, held, text},
};

pub(super) async fn get(proxy: &Proxy, path: &str) -> Value {
    let (status, body) = Ask::new(proxy, "GET", path).key(KEY).answer().await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Waits until the list at `path` has `count` rows, and returns them.
pub(super) async fn rows(proxy: &Proxy, path: &str, count: usize) -> Vec<Value> {
    let listed = async {
        loop {
            let rows = get(proxy, path).await["exchanges"].as_array().cloned().unwrap_or_default();
            if rows.len() == count {
                return rows;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("the rows", listed).await
}

async fn refusing(mut exchange: Exchange) -> Exchange {
    exchange.whole("429 Too Many Requests", "content-type: application/json\r\n", "{}").await;
    exchange
}

#[tokio::test]
async fn exchange_is_listed_with_the_ids_of_events_and_logs() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let mut feed = Ask::new(&proxy, "GET", "/admin/events").key(KEY).send().await;
    feed.until(": connected\n\n").await;
    let reply = Client::new().chat(&proxy, STREAM).await;
    let request = reply.header("x-request-id").unwrap().to_owned();
    reply.rest().await;
    let events = event(&mut feed, "message_complete").await;
    let rows = rows(&proxy, "/admin/exchanges?q=state:done", 1).await;
    let row = &rows[0];
    let id = row["id"].as_str().unwrap();
    assert!(id.starts_with("ex_") && events.contains(&format!("\"exchange\":\"{id}\"")), "{row} {events}");
    assert_eq!(row["request"], request);
    for (field, value) in [
        ("model", json!("m")),
        ("client", json!("chat")),
        ("upstream", json!("up")),
        ("upstream_dialect", json!("chat")),
        ("hops", json!(1)),
        ("calls", json!(0)),
        ("client_calls", json!(0)),
        ("hosted_calls", json!(0)),
        ("tools", json!([])),
        ("formats", json!([])),
        ("finish", json!("stop")),
        ("captured", json!("off")),
        ("key", Value::Null),
    ] {
        assert_eq!(row[field], value, "{field}: {row}");
    }
    assert!(row["t"].is_u64() && row["ms"].is_u64() && row["ttft_ms"].is_u64(), "{row}");
    let one = get(&proxy, &format!("/admin/exchanges/{id}")).await;
    assert_eq!((&one["exchange"]["id"], &one["exchange"]["text_bytes"]), (&json!(id), &json!(5)));
    assert_eq!((&one["hops"][0]["finish"], &one["hops"][0]["upstream"]), (&json!("stop"), &json!("up")));
    assert_eq!(one["calls"], json!([]));
    assert!(!one.to_string().contains("hello"), "contents are not kept: {one}");
}

#[tokio::test]
async fn list_is_filtered_paged_and_bounded() {
    let (_upstream, proxy) = proxy(&format!("{WITH_KEY}keep_exchanges = 3\n")).await;
    for _ in 0..5 {
        Client::new().chat(&proxy, WHOLE).await.rest().await;
    }
    let all = rows(&proxy, "/admin/exchanges?q=state%3Adone+model:m", 3).await;
    let page = get(&proxy, "/admin/exchanges?limit=1").await;
    assert_eq!((&page["exchanges"][0]["id"], &page["more"]), (&all[0]["id"], &json!(true)));
    assert_eq!((&page["kept"], &page["keep"]), (&json!(3), &json!(3)));
    let before = format!("/admin/exchanges?before={}", all[0]["id"].as_str().unwrap());
    let rest = get(&proxy, &before).await;
    assert_eq!((&rest["exchanges"][0]["id"], &rest["more"]), (&all[1]["id"], &json!(false)));
    for path in
        ["/admin/exchanges?q=hops:%3E1", "/admin/exchanges?q=state:error", "/admin/exchanges?before=ex_gone"]
    {
        assert_eq!(get(&proxy, path).await["exchanges"], json!([]), "{path}");
    }
    let (status, error) = Ask::new(&proxy, "GET", "/admin/exchanges/ex_gone").key(KEY).answer().await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("not_kept")));
}

#[tokio::test]
async fn hostile_queries_are_refused_with_their_place() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let long = format!("q={}", "x".repeat(1025));
    let deep = format!("q={}", "a+".repeat(17));
    for (query, path, position) in [
        ("q=mdoel:x", "q", json!(0)),
        ("q=a+hops:many", "q", json!(7)),
        ("q=%22open", "q", json!(0)),
        ("q=%ff", "q", Value::Null),
        (&*long, "q", json!(0)),
        (&*deep, "q", json!(32)),
        ("limit=0", "limit", Value::Null),
        ("limit=501", "limit", Value::Null),
        ("limit=-1", "limit", Value::Null),
        ("limit=99999999999999999999", "limit", Value::Null),
    ] {
        let (status, error) =
            Ask::new(&proxy, "GET", &format!("/admin/exchanges?{query}")).key(KEY).answer().await;
        assert_eq!((status, &error["error"]["path"]), (400, &json!(path)), "{query}: {error}");
        assert_eq!(error["error"]["position"], position, "{query}: {error}");
    }
    for query in ["", "limit=500", "limit=1", "q=", "before=", "other=%ff%", "q=%0d%0aset-cookie:x"] {
        let ask = Ask::new(&proxy, "GET", &format!("/admin/exchanges?{query}")).key(KEY);
        let status = ask.send().await.status().as_u16();
        assert!(status == 200 || query.contains("cookie") && status == 400, "{query}: {status}");
    }
}

#[tokio::test]
async fn failed_exchange_has_the_code_of_the_client() {
    let upstream = Upstream::start(refusing).await;
    let proxy = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) }.start().await;
    let reply = Client::new().chat(&proxy, WHOLE).await.json().await;
    let failed = rows(&proxy, "/admin/exchanges?q=state:error", 1).await;
    assert_eq!(failed[0]["code"], reply["error"]["code"]);
    let one = get(&proxy, &format!("/admin/exchanges/{}", failed[0]["id"].as_str().unwrap())).await;
    assert_eq!(one["exchange"]["error"]["code"], reply["error"]["code"]);
    assert_eq!(one["hops"][0]["finish"], "error");
}

#[tokio::test]
async fn exchanges_are_shown_to_nobody_without_a_key() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    for path in ["/admin/exchanges", "/admin/exchanges/ex_1", "/admin/exchanges/ex_1/requests"] {
        assert_eq!(Ask::new(&proxy, "GET", path).send().await.status(), 401, "{path}");
        assert_eq!(Ask::new(&proxy, "GET", path).key("wrong").send().await.status(), 401, "{path}");
        assert_eq!(Ask::new(&proxy, "POST", path).key(KEY).send().await.status(), 405, "{path}");
    }
}

/// The configuration of a proxy that captures message contents.
fn capturing() -> String {
    format!("{WITH_KEY}capture = \"redacted\"\n")
}

/// Waits until the only exchange has ended, and returns it.
async fn traced(proxy: &Proxy) -> Value {
    let rows = rows(proxy, "/admin/exchanges?q=-state:running", 1).await;
    get(proxy, &format!("/admin/exchanges/{}/events", rows[0]["id"].as_str().unwrap())).await
}

/// Joins all frames that the client got, according to the rows.
fn frames(traced: &Value) -> String {
    let rows = traced["rows"].as_array().into_iter().flatten();
    let out = rows.flat_map(|row| row["out"].as_array().into_iter().flatten());
    out.filter_map(|event| event["frame"].as_str()).collect()
}

#[tokio::test]
async fn rows_have_the_events_of_the_upstream_with_what_the_client_got() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        let call =
            "{\\\"name\\\": \\\"web_search\\\", \\\"arguments\\\": {\\\"query\\\": \\\"é\\\"}}</tool_call>";
        // Two events arrive in one piece, and one event in two pieces.
        exchange.piece(text("Well. <tool") + &text("_call>")).await;
        let event = text(call);
        let (first, second) = event.split_at(event.find("query").unwrap_or_default());
        exchange.piece(first.to_owned()).await;
        exchange.piece(second.to_owned()).await;
        exchange.finished().await
    });
    let upstream = upstream.await;
    let proxy = Setup { execution: capturing(), ..Setup::new(upstream.address) }.start().await;
    let request = json!({
        "model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "web_search"}}],
    });
    let got = Client::new().chat(&proxy, request.to_string()).await.rest().await;
    let traced = traced(&proxy).await;
    assert_eq!(frames(&traced), got, "the rows are what the client got: {traced}");
    let rows = traced["rows"].as_array().unwrap();
    assert_eq!(rows[0]["text_at"], json!([0, 11]), "{traced}");
    assert!(rows[0]["raw"].as_str().unwrap().contains("Well. <tool") && rows[0]["held"].as_u64() > Some(0));
    assert_eq!((&rows[1]["n"], &rows[1]["held_since"], &rows[1]["out"]), (&json!(2), &json!(1), &json!([])));
    let start =
        rows[2]["out"].as_array().unwrap().iter().find(|event| event["kind"] == "call_start").unwrap();
    assert_eq!((&start["name"], &start["call"]), (&json!("web_search"), &json!(1)));
    let call = &traced["calls"][0];
    assert_eq!(
        (&call["format"], &call["hop"], &call["hosted"]),
        (&json!("hermes"), &json!(1), &json!(false))
    );
    assert_eq!(call["ranges"]["opener"], json!([6, 17]));
    assert_eq!((&traced["captured"], &traced["cut"]), (&json!("redacted"), &json!(false)));
}

#[tokio::test]
async fn captured_contents_have_no_secrets_also_if_they_come_in_pieces() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        for piece in ["the key is sk-proj-abc", "defghijklmnop. ", "Keep it."] {
            exchange.piece(text(piece)).await;
        }
        exchange.finished().await
    });
    let upstream = upstream.await;
    let proxy = Setup { execution: capturing(), ..Setup::new(upstream.address) }.start().await;
    Client::new().chat(&proxy, STREAM).await.rest().await;
    let traced = traced(&proxy).await.to_string();
    assert!(traced.contains("Keep it.") && traced.contains("xxxxxxxx"), "{traced}");
    assert!(!traced.contains("sk-proj") && !traced.contains("defghi"), "{traced}");
}

#[tokio::test]
async fn without_capture_there_are_times_sizes_kinds_and_names() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    Client::new().chat(&proxy, STREAM).await.rest().await;
    let traced = traced(&proxy).await;
    assert_eq!(traced["captured"], "off");
    let shown = traced.to_string();
    assert!(
        shown.contains("hop_start") && shown.contains("\"bytes\":5") && !shown.contains("hello"),
        "{shown}"
    );
}

#[tokio::test]
async fn running_exchange_is_followed_and_readers_do_not_hold_it_up() {
    let go_on = std::sync::Arc::new(tokio::sync::Notify::new());
    let upstream = held(&go_on).await;
    let proxy = Setup { execution: capturing(), ..Setup::new(upstream.address) }.start().await;
    let mut reply = Client::new().chat(&proxy, STREAM).await;
    reply.until("first").await;
    let running = rows(&proxy, "/admin/exchanges?q=state:running", 1).await;
    let path = format!("/admin/exchanges/{}/events", running[0]["id"].as_str().unwrap());
    let unread = Ask::new(&proxy, "GET", &path).key(KEY).send().await;
    let mut followed = Ask::new(&proxy, "GET", &path).key(KEY).send().await;
    assert!(followed.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")));
    followed.until(": connected\n\n").await;
    go_on.notify_one();
    reply.rest().await;
    let events = followed.rest().await;
    assert!(events.contains("event: row\n") && events.contains("first"), "{events}");
    assert!(events.ends_with("event: end\ndata: {\"cut\":false}\n\n"), "{events}");
    drop(unread);
    let traced = traced(&proxy).await;
    assert!(frames(&traced).contains("first"), "after the end, it is one answer: {traced}");
}

#[tokio::test]
async fn long_response_is_kept_up_to_a_limit() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        let piece = text(&"word ".repeat(1 << 12));
        for _ in 0..80 {
            exchange.piece(piece.clone()).await;
        }
        exchange.finished().await
    });
    let upstream = upstream.await;
    let proxy = Setup { execution: capturing(), ..Setup::new(upstream.address) }.start().await;
    let got = Client::new().chat(&proxy, STREAM).await.rest().await;
    let traced = traced(&proxy).await;
    assert_eq!(traced["cut"], true);
    let shown = frames(&traced);
    let begin = shown.get(..1000).unwrap_or_default();
    assert!(!begin.is_empty() && got.starts_with(begin) && shown.len() < 2 << 20, "{}", shown.len());
}

/// Downloads an exchange as a fixture and unpacks it into `folder`.
pub(super) async fn unpacked(proxy: &Proxy, id: &str, folder: &Path) -> PathBuf {
    let reply = Ask::new(proxy, "GET", &format!("/admin/exchanges/{id}/fixture")).key(KEY).send().await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.header("content-type"), Some("application/x-tar"));
    let name = format!("attachment; filename=\"{id}.tar\"");
    assert_eq!(reply.header("content-disposition"), Some(name.as_str()));
    let archive = folder.join("fixture.tar");
    fs::write(&archive, reply.bytes().await).unwrap();
    let unpacked = Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder).status().unwrap();
    assert!(unpacked.success());
    folder.join(id)
}

fn replayed(fixture: &Path) -> Value {
    let mut replay = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    let output = replay.arg("replay").arg(fixture).args(["--split", "every", "--update"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&fs::read(fixture.join("expect.json")).unwrap()).unwrap()
}

pub(super) const CAPTURED: &str = "[admin]\napi_keys = [\"admin-key-of-tests\"]\ncapture = \"redacted\"\n";

#[tokio::test]
async fn captured_exchange_is_a_fixture_that_can_be_replayed() {
    let (_upstream, proxy) = proxy(CAPTURED).await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "my key is sk-proj-abcdefghijklmnop"}]});
    Client::new().chat(&proxy, body.to_string()).await.rest().await;
    let row = rows(&proxy, "/admin/exchanges?q=state:done", 1).await.remove(0);
    let desk = tempfile::tempdir().unwrap();
    let fixture = unpacked(&proxy, row["id"].as_str().unwrap(), desk.path()).await;
    assert_eq!(fs::read_to_string(fixture.join("upstream.sse")).unwrap(), answer());
    let request = fs::read_to_string(fixture.join("request.json")).unwrap();
    assert!(request.contains("my key is xxxx") && !request.contains("sk-proj"), "{request}");
    assert_eq!(replayed(&fixture)["text"], "hello");
}

#[tokio::test]
async fn captured_exchange_of_several_hops_has_them_in_its_fixture() {
    let upstream = Upstream::start(|exchange: Exchange| async move {
        if exchange.body.windows(13).any(|part| part == b"\"tool_call_id") {
            return exchange.stream(text("done") + END).await;
        }
        let arguments = r#"{"text":"sk-proj-abcdefghijklmnop"}"#;
        let call = json!({"choices": [{"index": 0, "delta": {"tool_calls": [
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": "echo", "arguments": arguments}}]}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
        exchange.stream(format!("{}data: {call}\n\ndata: {end}\n\ndata: [DONE]\n\n", text("wait "))).await
    })
    .await;
    let proxy =
        Setup { execution: format!("{TOOLS}{CAPTURED}"), ..Setup::new(upstream.address) }.start().await;
    let said = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert!(said.contains("done"), "{said}");
    let row = rows(&proxy, "/admin/exchanges?q=state:done", 1).await.remove(0);
    assert_eq!(row["hops"], 2, "{row}");
    let id = row["id"].as_str().unwrap();
    let events = get(&proxy, &format!("/admin/exchanges/{id}/events")).await;
    let hops: Vec<_> =
        events["rows"].as_array().unwrap().iter().map(|row| row["hop"].as_u64().unwrap()).collect();
    assert!(hops.is_sorted() && hops.first() == Some(&1) && hops.last() == Some(&2), "{events}");
    let desk = tempfile::tempdir().unwrap();
    let fixture = unpacked(&proxy, id, desk.path()).await;
    let manifest = fs::read_to_string(fixture.join("fixture.toml")).unwrap();
    assert!(manifest.contains("[[hops]]") && manifest.contains("echo"), "{manifest}");
    for file in ["fixture.toml", "request.json", "upstream.sse", "upstream-2.sse"] {
        let text = fs::read_to_string(fixture.join(file)).unwrap();
        assert!(!text.contains("sk-proj"), "{file}: {text}");
    }
    assert_eq!(replayed(&fixture)["text"], "wait \n\ndone");
}

#[tokio::test]
async fn exchange_without_its_contents_is_no_fixture() {
    let fixture_of = async |proxy: &Proxy, row: &Value| {
        let path = format!("/admin/exchanges/{}/fixture", row["id"].as_str().unwrap());
        let (status, body) = Ask::new(proxy, "GET", &path).key(KEY).answer().await;
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned(), body.to_string())
    };
    let (_upstream, off) = proxy(WITH_KEY).await;
    Client::new().chat(&off, WHOLE).await.rest().await;
    let row = rows(&off, "/admin/exchanges?q=state:done", 1).await.remove(0);
    let (status, code, body) = fixture_of(&off, &row).await;
    assert_eq!((status, code.as_str()), (409, "not_captured"));
    assert!(body.contains("capture = "), "{body}");
    let (status, body) = Ask::new(&off, "GET", "/admin/exchanges/ex_none/fixture").key(KEY).answer().await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_kept")));

    let go_on = Arc::new(Notify::new());
    let upstream = held(&go_on).await;
    let running = Setup { execution: CAPTURED.to_owned(), ..Setup::new(upstream.address) }.start().await;
    let mut reply = Client::new().chat(&running, STREAM).await;
    reply.until("first").await;
    let row = rows(&running, "/admin/exchanges?q=state:running", 1).await.remove(0);
    assert_eq!(fixture_of(&running, &row).await.1, "running");
    go_on.notify_one();
    reply.rest().await;
    // Requests of up to 512 KiB are kept completely. Longer ones have no fixture.
    for (length, expected) in [(512 << 10, ""), ((512 << 10) + 1, "too_long")] {
        let body =
            |text: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        let text = " ".repeat(length - body("").len());
        go_on.notify_one();
        let done = rows(&running, "/admin/exchanges?q=state:done", 1 + usize::from(!expected.is_empty()))
            .await
            .len();
        Client::new().chat(&running, body(&text)).await.rest().await;
        let row = rows(&running, "/admin/exchanges?q=state:done", done + 1).await.remove(0);
        assert_eq!(fixture_of(&running, &row).await.1, expected);
    }
}

#[tokio::test]
async fn contents_beyond_the_limit_make_room_for_newer_ones() {
    let long = text(&"x".repeat(900 << 10)) + END;
    let upstream = Upstream::start_sharing(long, |exchange, long| exchange.stream(long)).await;
    let proxy = Setup { execution: CAPTURED.to_owned(), ..Setup::new(upstream.address) }.start().await;
    // The log keeps at most 64 MiB in total.
    for _ in 0..80 {
        Client::new().chat(&proxy, STREAM).await.rest().await;
    }
    let rows = rows(&proxy, "/admin/exchanges?q=state:done&limit=100", 80).await;
    let mut kept = 0;
    let mut statuses = Vec::new();
    for row in &rows {
        let path = format!("/admin/exchanges/{}/fixture", row["id"].as_str().unwrap());
        let reply = Ask::new(&proxy, "GET", &path).key(KEY).send().await;
        statuses.push(reply.status().as_u16());
        kept += reply.bytes().await.len();
    }
    assert!(kept <= 64 << 20, "{kept}");
    assert!(statuses.first() == Some(&200) && statuses.last() == Some(&409), "{statuses:?}");
    assert!(statuses.is_sorted(), "the newest are kept: {statuses:?}");
    let oldest = rows.last().and_then(|row| row["id"].as_str()).unwrap();
    let (status, body) =
        Ask::new(&proxy, "GET", &format!("/admin/exchanges/{oldest}/events")).key(KEY).answer().await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_kept")));
}
