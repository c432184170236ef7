//! Tries attacks that other gateways were vulnerable to. Each is a CVE of 2026.

use serde_json::{Value, json};

use crate::support::{
    proxy::{Proxy, Setup},
    raw::{Raw, RawResponse},
    upstream::{Upstream, at_once},
};

/// Clients that may use one model each, and an admin API with a key.
const TABLES: &str = r#"
[admin]
api_keys = ["key-of-the-admin-1"]
[[keys]]
name = "alice"
key = "key-of-alice-0001"
models = ["m"]
[[keys]]
name = "bob"
key = "key-of-bob-000001"
models = ["org/other"]
"#;

const ALICE: &str = "key-of-alice-0001";
const BOB: &str = "key-of-bob-000001";

async fn proxy() -> (Upstream, Proxy) {
    let upstream = Upstream::start(at_once).await;
    let setup = Setup { execution: TABLES.to_owned(), ..Setup::new(upstream.address) };
    (upstream, setup.start().await)
}

/// Sends a request with this target on a connection that is closed after the response.
async fn ask(
    proxy: &Proxy,
    (method, target): (&str, &str),
    (host, headers): (&str, &str),
    body: &str,
) -> RawResponse {
    let mut client = Raw::connect(proxy).await;
    let length = body.len();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{headers}connection: close\r\n");
    let body = format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    client.send_lossy(head + &body).await;
    client.response().await
}

fn bearer(key: &str) -> String {
    format!("authorization: Bearer {key}\r\n")
}

/// CVE-2026-49468: the key check and the router used different paths.
#[tokio::test]
async fn host_and_target_do_not_lead_past_the_key_of_the_admin_api() {
    let (_upstream, proxy) = proxy().await;
    let own = proxy.addresses[0].to_string();
    let own = own.as_str();
    let hosts = [
        ("/health?x=", 400),
        ("localhost/healthz", 400),
        (&*format!("{own}/healthz?"), 400),
        ("healthz#", 400),
        ("a@b/healthz", 400),
        (&*format!("{own}\t"), 401),
    ];
    for (host, status) in hosts {
        let response = ask(&proxy, ("GET", "/admin/keys"), (host, ""), "").await;
        assert_eq!(response.status, status, "{host:?}: {}", response.body);
    }
    let absolute = format!("http://{own}/admin/keys");
    for (target, status) in [
        ("//admin/keys", 401),
        (&*absolute, 401),
        ("/./admin/keys", 404),
        ("/v1/../admin/keys", 404),
        ("/healthz/../admin/keys", 404),
        ("/%61dmin/keys", 404),
        ("/admin%2fkeys", 404),
        ("/healthz;/../admin/keys", 404),
        ("/admin/keys/", 404),
        ("/ADMIN/keys", 404),
        ("/admin\\keys", 404),
        ("/healthz%00/admin/keys", 404),
        ("http://evil/healthz", 200),
        ("/healthz", 200),
    ] {
        // Unknown paths below the admin API are reported before the key is checked.
        let response = ask(&proxy, ("GET", target), (own, ""), "").await;
        assert_eq!(response.status, status, "{target}: {}", response.body);
        assert_eq!(response.body == "ok\n", status == 200, "{target}");
    }
    for name in ["X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix", "X-HTTP-Method-Override"] {
        let headers = format!("{name}: /healthz\r\n");
        assert_eq!(ask(&proxy, ("GET", "/admin/keys"), (own, &headers), "").await.status, 401, "{name}");
    }
}

/// CVE-2026-45339: a key's permissions depended on the header that carried it.
#[tokio::test]
async fn limits_of_a_key_hold_in_every_header() {
    let (upstream, proxy) = proxy().await;
    let body = json!({"model": "org/other", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    for (target, headers, status) in [
        ("", bearer(ALICE), 403),
        ("", format!("x-api-key: {ALICE}\r\n"), 403),
        ("", format!("api-key: {ALICE}\r\n"), 403),
        ("", format!("x-goog-api-key: {ALICE}\r\n"), 403),
        ("", format!("{}x-api-key: {BOB}\r\n", bearer(ALICE)), 400),
        ("?key=key-of-bob-000001", String::new(), 401),
        ("?api_key=key-of-bob-000001", String::new(), 401),
        ("", format!("cookie: key={BOB}\r\n"), 401),
    ] {
        let target = format!("/v1/chat/completions{target}");
        let response = ask(&proxy, ("POST", &target), ("localhost", &headers), &body).await;
        assert_eq!(response.status, status, "{target} {headers}: {}", response.body);
    }
    assert_eq!(upstream.requests(), 0);
}

/// Tries keys that are almost correct, and keys of other clients.
#[tokio::test]
async fn only_the_whole_key_of_a_client_is_a_key() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let wrong = [
        bearer("key-of-alice-000"),
        bearer("key-of-alice-00011"),
        bearer("KEY-OF-ALICE-0001"),
        bearer("key-of-alice-0001key-of-alice-0001"),
        bearer("key-of-the-admin-1"),
        "authorization: Bearer\r\n".to_owned(),
        format!("authorization: Basic {ALICE}\r\n"),
        format!("{}{}", bearer(ALICE), bearer(BOB)),
    ];
    let (upstream, proxy) = proxy().await;
    for headers in wrong {
        let response = ask(&proxy, ("POST", "/v1/chat/completions"), ("localhost", &headers), &body).await;
        assert!([400, 401].contains(&response.status), "{headers}: {} {}", response.status, response.body);
    }
    assert_eq!(upstream.requests(), 0);
    assert_eq!(
        ask(&proxy, ("POST", "/v1/chat/completions"), ("localhost", &bearer(ALICE)), &body).await.status,
        200
    );
}

/// CVE-2026-45349, CVE-2026-45671: anyone who knew an ID could read its object. CVE-2026-47101: a client could
/// become an admin.
#[tokio::test]
async fn a_client_has_its_own_responses_and_models_only() {
    let (_upstream, proxy) = proxy().await;
    let send = async |key: &str, method: &str, target: &str, body: &str| {
        ask(&proxy, (method, target), ("localhost", &bearer(key)), body).await
    };
    let made = send(ALICE, "POST", "/v1/responses", r#"{"model":"m","input":"hi"}"#).await;
    let made: Value = serde_json::from_str(&made.body).unwrap();
    let id = made["id"].as_str().unwrap();
    let (path, input) = (format!("/v1/responses/{id}"), format!("/v1/responses/{id}/input_items"));
    let next = json!({"model": "org/other", "input": "and?", "previous_response_id": id}).to_string();
    for (method, target, body) in
        [("GET", &*path, ""), ("GET", &input, ""), ("DELETE", &path, ""), ("POST", "/v1/responses", &next)]
    {
        assert_eq!(send(BOB, method, target, body).await.status, 404, "{method} {target}");
    }
    let item = made["output"][0]["id"].as_str().unwrap();
    for (key, model, expected) in [(BOB, "org/other", 404), (ALICE, "m", 200)] {
        let body = json!({"model": model, "input": [{"type": "item_reference", "id": item}]}).to_string();
        assert_eq!(send(key, "POST", "/v1/responses", &body).await.status, expected, "{key}");
    }
    assert_eq!(send(ALICE, "GET", &path, "").await.status, 200);
    let listed: Value = serde_json::from_str(&send(BOB, "GET", "/v1/models", "").await.body).unwrap();
    let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["org/other"]);
    for path in ["/admin/keys", "/admin/settings", "/admin/exchanges", "/admin/events"] {
        assert_eq!(send(ALICE, "GET", path, "").await.status, 401, "{path}");
    }
    assert_eq!(send(ALICE, "POST", "/v1/providers", "{}").await.status, 404);
}

/// CVE-2026-34756: a single request for many choices crashed a server.
#[tokio::test]
async fn number_of_choices_is_checked() {
    let (upstream, proxy) = proxy().await;
    for n in ["-1", "1e308", "129", "1000000000", "9223372036854775807"] {
        let body = format!(r#"{{"model":"m","n":{n},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let response =
            ask(&proxy, ("POST", "/v1/chat/completions"), ("localhost", &bearer(ALICE)), &body).await;
        assert_eq!(response.status, 400, "{n}: {}", response.body);
    }
    assert_eq!(upstream.requests(), 0);
}
