//! Tests who may do what: two readers of one path, keys in other headers, keys that are almost right, and clients that
//! want to be admins.

use serde_json::json;

use crate::{
    clients::{ADMIN, ALICE, BOB, answer_as, ask, ask_as, bearer, proxy, proxy_with},
    support::raw::Raw,
};

/// CVE-2026-49468 (LiteLLM), CVE-2026-48710 (Starlette): the `Host` header made the key check and the router see
/// different paths.
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

/// CVE-2026-48746 (vLLM): the check of the key trusted a path that the client had made up.
#[tokio::test]
async fn no_spelling_of_a_path_reaches_a_model_without_a_key() {
    let (upstream, proxy) = proxy().await;
    let own = proxy.addresses[0].to_string();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let path = "/v1/chat/completions";
    for (target, host) in [
        (path, "localhost"),
        (path, "localhost/healthz?"),
        (path, "localhost:1#/healthz"),
        (path, "x@localhost"),
        ("//v1/chat/completions", "localhost"),
        ("/v1/./chat/completions", "localhost"),
        ("/healthz/../v1/chat/completions", "localhost"),
        ("/healthz;/../v1/chat/completions", "localhost"),
        ("/v1/chat/completions/", "localhost"),
        ("/v1%2fchat%2fcompletions", "localhost"),
        ("/%76%31/chat/completions", "localhost"),
        (&*format!("http://{own}{path}"), "localhost"),
        ("http://localhost/healthz/../v1/chat/completions", "localhost"),
    ] {
        let response = ask(&proxy, ("POST", target), (host, ""), &body).await;
        assert!([400, 401, 404].contains(&response.status), "{target} {host}: {}", response.status);
    }
    assert_eq!(upstream.requests(), 0);
    assert_eq!(ask(&proxy, ("POST", path), ("localhost", &bearer(ALICE)), &body).await.status, 200);
}

/// CVE-2026-45339 (Open WebUI): a key's permissions depended on the header that carried it.
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

/// CVE-2026-35030 (LiteLLM): whoever had been let in was remembered by the first 20 characters of the token.
/// CVE-2026-12773 (LiteLLM): the check of the key could be passed by.
#[tokio::test]
async fn only_the_whole_key_of_a_client_is_a_key() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let (upstream, proxy) = proxy().await;
    let send = async |headers: String| {
        ask(&proxy, ("POST", "/v1/chat/completions"), ("localhost", &headers), &body).await
    };
    assert_eq!(send(bearer(ALICE)).await.status, 200);
    let (start, _) = ALICE.split_at(20);
    for headers in [
        bearer(start),
        bearer(&format!("{start}000000")),
        bearer(&format!("{ALICE}1")),
        bearer(&ALICE.to_uppercase()),
        bearer(&ALICE.repeat(2)),
        bearer(ADMIN),
        "authorization: Bearer\r\n".to_owned(),
        format!("authorization: Basic {ALICE}\r\n"),
        format!("{}{}", bearer(ALICE), bearer(BOB)),
    ] {
        let response = send(headers.clone()).await;
        assert!([400, 401].contains(&response.status), "{headers}: {} {}", response.status, response.body);
    }
    assert_eq!(upstream.requests(), 1);
    assert_eq!(send(bearer(ALICE)).await.status, 200);
}

/// CVE-2026-42208 (LiteLLM): the key was a part of a database query.
#[tokio::test]
async fn key_is_not_a_part_of_any_query() {
    let (upstream, proxy) = proxy().await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    for key in [
        "' OR '1'='1",
        "x' UNION SELECT key FROM keys--",
        "sha256:%",
        "*",
        "alice",
        "$(cat keys.toml)",
        "{\"$ne\":null}",
    ] {
        for header in ["authorization: Bearer ", "x-api-key: "] {
            let headers = format!("{header}{key}\r\n");
            let response =
                ask(&proxy, ("POST", "/v1/chat/completions"), ("localhost", &headers), &body).await;
            assert!([400, 401, 429].contains(&response.status), "{headers}: {}", response.status);
            assert!(!response.body.contains(ALICE), "{}", response.body);
        }
    }
    assert_eq!(upstream.requests(), 0);
}

/// Hosted tools, so that the admin API has tools, permissions and settings.
const TOOLS: &str = r#"
[execution]
[[providers]]
name = "careful"
kind = "command"
command = ["cat"]
[[tools]]
name = "careful"
permission = "ask"
"#;

/// CVE-2026-47101, CVE-2026-47102 (LiteLLM): a user could make a key that reaches the admin's paths, and become an
/// admin. CVE-2026-35029 (LiteLLM): every user could change the configuration.
#[tokio::test]
async fn client_does_not_become_an_admin() {
    let (_upstream, proxy) = proxy_with(TOOLS).await;
    let settings = ("GET", "/admin/settings");
    let (_, before) = answer_as(&proxy, ADMIN, settings, &json!(null)).await;
    for (method, path, body) in [
        ("PATCH", "/admin/settings", json!({"execution.max_calls": 1})),
        ("DELETE", "/admin/settings", json!({})),
        ("POST", "/admin/reload", json!({})),
        ("PUT", "/admin/permissions/auto_approve", json!({"enabled": true})),
        ("POST", "/admin/permissions/allow_all", json!({})),
        ("PATCH", "/admin/tools/careful", json!({"enabled": false})),
        ("POST", "/admin/tools/careful/run", json!({"input": {}})),
        ("POST", "/admin/session", json!({"key": ALICE})),
        ("POST", "/console/api/chat", json!({"model": "org/other", "messages": []})),
        ("POST", "/admin/keys", json!({"name": "alice", "models": ["*"], "allowed_routes": ["/*"]})),
        ("PUT", "/admin/keys/alice", json!({"user_role": "proxy_admin"})),
        ("POST", "/key/generate", json!({"allowed_routes": ["/*"]})),
        ("POST", "/v1/keys", json!({"models": ["*"]})),
    ] {
        let response = ask_as(&proxy, ALICE, (method, path), &body).await;
        assert!(
            [401, 404, 405, 429].contains(&response.status),
            "{method} {path}: {} {}",
            response.status,
            response.body
        );
    }
    assert_eq!(answer_as(&proxy, ADMIN, settings, &json!(null)).await.1, before);
    let (_, permissions) = answer_as(&proxy, ADMIN, ("GET", "/admin/permissions"), &json!(null)).await;
    assert_eq!((&permissions["auto_approve"], &permissions["rules"]), (&json!(false), &json!([])));
    let body = json!({"model": "org/other", "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(ask_as(&proxy, ALICE, ("POST", "/v1/chat/completions"), &body).await.status, 403);
}

/// CVE-2026-21445 (Langflow): messages and transactions could be read and deleted without a key.
#[tokio::test]
async fn nothing_that_was_said_is_readable_without_a_key() {
    let (_upstream, proxy) = proxy().await;
    let made =
        answer_as(&proxy, ALICE, ("POST", "/v1/responses"), &json!({"model": "m", "input": "hi"})).await.1;
    let stored = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    let (_, list) = answer_as(&proxy, ADMIN, ("GET", "/admin/exchanges"), &json!(null)).await;
    let exchange = format!("/admin/exchanges/{}", list["exchanges"][0]["id"].as_str().unwrap());
    let (contents, requests) = (format!("{exchange}/events"), format!("{exchange}/requests"));
    for (method, path) in [
        ("GET", &*stored),
        ("DELETE", &stored),
        ("GET", "/v1/models"),
        ("GET", "/admin/exchanges"),
        ("GET", &exchange),
        ("GET", &contents),
        ("GET", &requests),
        ("GET", "/admin/events"),
    ] {
        let response = ask(&proxy, (method, path), ("localhost", ""), "").await;
        assert_eq!(response.status, 401, "{method} {path}: {}", response.body);
    }
    assert_eq!(ask_as(&proxy, ALICE, ("GET", &stored), &json!(null)).await.status, 200);
    assert_eq!(ask_as(&proxy, ADMIN, ("GET", &exchange), &json!(null)).await.status, 200);
}

/// CVE-2025-3248 (Langflow): code was evaluated before the key was checked.
#[tokio::test]
async fn body_is_not_awaited_before_the_key_is_checked() {
    let (_upstream, proxy) = proxy().await;
    for path in ["/v1/chat/completions", "/admin/formats/analyze", "/admin/tools/careful/run"] {
        let mut client = Raw::connect(&proxy).await;
        let head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000";
        client.send(format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n")).await;
        assert_eq!(client.response().await.status, 401, "{path}");
    }
}
