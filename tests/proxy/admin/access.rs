//! Tests who may use the admin API.

use serde_json::{Value, json};
use toolwire::dialect::ClientDialect;

use super::{Ask, KEY, TOOLS, WITH_KEY, proxy};
use crate::support::{
    client::Reply,
    proxy::{Proxy, Setup},
    raw::Raw,
    soon,
    upstream::{Upstream, at_once},
};

/// All routes, each with one of its methods.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/admin/events"),
    ("GET", "/admin/exchanges"),
    ("GET", "/admin/exchanges/ex_1"),
    ("GET", "/admin/exchanges/ex_1/events"),
    ("GET", "/admin/formats"),
    ("POST", "/admin/formats/analyze"),
    ("POST", "/admin/formats/teach"),
    ("GET", "/admin/tools"),
    ("PATCH", "/admin/tools/echo"),
    ("POST", "/admin/tools/echo/run"),
    ("POST", "/admin/providers/echo/test"),
    ("POST", "/admin/providers/echo/restart"),
    ("GET", "/admin/providers/echo/log"),
    ("GET", "/admin/permissions"),
    ("POST", "/admin/permissions/perm_1"),
    ("POST", "/admin/permissions/perm_1/extend"),
    ("DELETE", "/admin/permissions/rules/rule_1"),
    ("PUT", "/admin/permissions/auto_approve"),
    ("POST", "/admin/permissions/allow_all"),
    ("GET", "/admin/keys"),
    ("GET", "/admin/settings"),
    ("PATCH", "/admin/settings"),
    ("DELETE", "/admin/settings"),
    ("DELETE", "/admin/settings/execution.max_calls"),
];

#[tokio::test]
async fn without_its_table_there_is_no_admin_api() {
    let (_upstream, proxy) = proxy(TOOLS).await;
    for (method, path) in ROUTES.iter().chain(&[("GET", "/admin/session"), ("GET", "/admin/")]) {
        assert_eq!(Ask::new(&proxy, method, path).key(KEY).send().await.status(), 404, "{path}");
    }
}

#[tokio::test]
async fn every_route_needs_an_admin_key() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup { execution: format!("{TOOLS}{WITH_KEY}"), ..Setup::new(upstream.address) };
    setup.keys = vec!["key-of-a-client"];
    let proxy = setup.start().await;
    for (method, path) in ROUTES {
        for key in [None, Some("wrong"), Some("key-of-a-client"), Some("admin-key-of-test"), Some("")] {
            let ask = Ask::new(&proxy, method, path).header("content-type", "application/json");
            let ask = if let Some(key) = key { ask.key(key) } else { ask };
            let reply = ask.send().await;
            assert_eq!(reply.status(), 401, "{method} {path} with {key:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            assert_eq!(reply.header("content-type"), Some("application/json"));
            let error = reply.json().await;
            assert_eq!(error["error"]["code"], "unauthorized", "{path}");
            assert!(error["error"]["message"].is_string());
        }
        let reply =
            Ask::new(&proxy, method, path).key(KEY).header("content-type", "application/json").send().await;
        assert!(![401, 403].contains(&reply.status().as_u16()), "{method} {path}: {}", reply.status());
    }
    let api = Ask::new(&proxy, "GET", "/v1/models").key(KEY).send().await;
    assert_eq!(api.status(), 401, "an admin key is not a client's key");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_in_the_form_of_the_admin_api() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    for path in ["/admin/", "/admin/nothing", "/admin/tools/x/y/z", "/admin/nothing", "/admin/tools/"] {
        let (status, error) = Ask::new(&proxy, "GET", path).key(KEY).answer().await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("not_found")), "{path}");
    }
    for (method, path, allow) in [
        ("POST", "/admin/tools", "GET, HEAD, OPTIONS"),
        ("GET", "/admin/tools/x/run", "POST, OPTIONS"),
        ("PUT", "/admin/session", "GET, HEAD, POST, DELETE, OPTIONS"),
        ("BREW", "/admin/permissions/auto_approve", "PUT, OPTIONS"),
    ] {
        let reply = Ask::new(&proxy, method, path).key(KEY).send().await;
        assert_eq!((reply.status().as_u16(), reply.header("allow")), (405, Some(allow)), "{method} {path}");
        assert_eq!(reply.json().await["error"]["code"], "method_not_allowed");
    }
    let options = Ask::new(&proxy, "OPTIONS", "/admin/tools").send().await;
    assert_eq!((options.status().as_u16(), options.header("allow")), (204, Some("GET, HEAD, OPTIONS")));
    let head = Ask::new(&proxy, "HEAD", "/admin/tools").key(KEY).send().await;
    assert_eq!(head.status(), 200);
    assert!(head.header("content-length").is_some_and(|length| length != "0"));
    assert_eq!(head.rest().await, "");
}

#[tokio::test]
async fn pages_of_other_origins_get_no_cors_headers() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
    setup.cors_origins = toolwire::config::Origins::parse(&["*"]).unwrap();
    let proxy = setup.start().await;
    for path in ["/admin/tools", "/admin/session", "/admin/nothing"] {
        for method in ["GET", "OPTIONS"] {
            let ask = Ask::new(&proxy, method, path).header("origin", "https://evil.example");
            let reply = ask.header("access-control-request-method", "GET").key(KEY).send().await;
            assert_eq!(reply.header("access-control-allow-origin"), None, "{method} {path}");
            assert_eq!(reply.header("access-control-allow-methods"), None, "{method} {path}");
            assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"));
        }
    }
}

/// Signs in. Returns the session cookie, the body of the response, and its `Set-Cookie` headers.
async fn signed_in(proxy: &Proxy, body: &Value) -> (String, Value, Vec<String>) {
    let reply = Ask::new(proxy, "POST", "/admin/session").json(body).send().await;
    assert_eq!(reply.status(), 200);
    let cookies = set_cookies(&reply);
    let cookie = cookies[0].split(';').next().unwrap().to_owned();
    (cookie, reply.json().await, cookies)
}

fn set_cookies(reply: &Reply) -> Vec<String> {
    reply.headers("set-cookie").into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn session_begins_with_a_key_and_ends_by_request() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let (status, state) = Ask::new(&proxy, "GET", "/admin/session").answer().await;
    assert_eq!((status, &state["signed_in"]), (200, &json!(false)));
    assert_eq!(state.get("csrf"), None);
    let body = json!({"key": KEY, "base": "/tools/", "secure": true});
    let (cookie, session, cookies) = signed_in(&proxy, &body).await;
    let instance = session["instance"].as_str().unwrap();
    let (name, token) = cookie.split_once('=').unwrap();
    assert_eq!(name, format!("toolwire_{instance}"));
    assert_eq!(token.len(), 64, "256 bits");
    for (set, folder) in cookies.iter().zip(["admin", "console"]) {
        let expected = format!("{cookie}; HttpOnly; SameSite=Strict; Path=/tools/{folder}/; Secure");
        assert_eq!(*set, expected);
    }
    assert_eq!(session["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(session["capture"], "off");
    let clients: Vec<_> = ClientDialect::all().map(|client| client.dialect().name()).collect();
    assert_eq!(session["clients"], json!(clients));
    assert!(session["expires_at"].as_u64() > session["server_time"].as_u64());
    let csrf = session["csrf"].as_str().unwrap();

    let (status, _) = Ask::new(&proxy, "GET", "/admin/tools").header("cookie", &cookie).answer().await;
    assert_eq!(status, 200);
    let state = Ask::new(&proxy, "GET", "/admin/session").header("cookie", &format!("a=b; {cookie}"));
    assert_eq!(state.answer().await.1["csrf"], csrf, "a page that was loaded again gets its token");
    for forged in ["x".repeat(64), format!("{token}0"), String::new(), token.to_uppercase()] {
        let ask = Ask::new(&proxy, "GET", "/admin/tools").header("cookie", &format!("{name}={forged}"));
        assert_eq!(ask.send().await.status(), 401, "{forged}");
    }

    let out = Ask::new(&proxy, "DELETE", "/admin/session").header("cookie", &cookie);
    let out = out.header("x-toolwire-csrf", csrf).header("content-type", "application/json");
    let reply = out.header("sec-fetch-site", "same-origin").send().await;
    assert_eq!(reply.status(), 204);
    assert!(set_cookies(&reply).iter().all(|set| set.contains("Max-Age=0")));
    assert_eq!(Ask::new(&proxy, "GET", "/admin/tools").header("cookie", &cookie).send().await.status(), 401);
}

#[tokio::test]
async fn sign_in_refuses_wrong_keys_paths_and_bodies() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    for (body, status) in [
        (json!({"key": "wrong"}), 401),
        (json!({"key": 5}), 400),
        (json!({"key": KEY, "base": "tools"}), 400),
        (json!([]), 400),
    ] {
        let (found, error) = Ask::new(&proxy, "POST", "/admin/session").json(&body).answer().await;
        assert_eq!(found, status, "{body}");
        assert!(!error.to_string().contains(KEY));
    }
    let plain =
        Ask::new(&proxy, "POST", "/admin/session").body("text/plain", json!({"key": KEY}).to_string());
    assert_eq!(plain.send().await.status(), 415);
    let other = Ask::new(&proxy, "POST", "/admin/session").json(&json!({"key": KEY}));
    assert_eq!(other.header("origin", "https://evil.example").send().await.status(), 403);
}

#[tokio::test]
async fn sixth_try_to_sign_in_within_a_minute_is_refused() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    for _ in 0..5 {
        let wrong = Ask::new(&proxy, "POST", "/admin/session").json(&json!({"key": "wrong"}));
        assert_eq!(wrong.send().await.status(), 401);
    }
    let right = Ask::new(&proxy, "POST", "/admin/session").json(&json!({"key": KEY})).send().await;
    assert_eq!(right.status(), 429, "also with the right key");
    let wait: u64 = right.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(right.json().await["error"]["retry_after_s"], wait);
    assert_eq!(Ask::new(&proxy, "GET", "/admin/tools").key(KEY).send().await.status(), 200, "scripts go on");
}

#[tokio::test]
async fn code_signs_in_once_and_shares_the_tries_of_keys() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let code = proxy.code.clone().unwrap();
    let post = |body: Value| Ask::new(&proxy, "POST", "/admin/session").json(&body).answer();
    for (body, status) in [
        (json!({"code": 5}), 400),
        (json!({"code": code, "key": KEY}), 400),
        (json!({"code": code, "base": "tools"}), 400),
        (json!({"code": ""}), 401),
    ] {
        assert_eq!(post(body.clone()).await.0, status, "{body}");
    }
    let (cookie, session, _) = signed_in(&proxy, &json!({"code": code, "base": "/x/"})).await;
    assert_eq!(session["signed_in"], true);
    assert_eq!(Ask::new(&proxy, "GET", "/admin/tools").header("cookie", &cookie).send().await.status(), 200);
    let (status, error) = post(json!({"code": code})).await;
    assert_eq!((status, &error["error"]["code"]), (401, &json!("unauthorized")), "it was used");
    assert!(!error.to_string().contains(&code));
    for _ in 0..4 {
        assert_eq!(post(json!({"code": "guess"})).await.0, 401);
    }
    assert_eq!(post(json!({"code": "guess"})).await.0, 429);
    let without_keys = super::proxy("[admin]\n").await.1;
    assert_eq!(without_keys.code, None);
}

#[tokio::test]
async fn requests_of_other_pages_are_refused() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    let (cookie, session, _) = signed_in(&proxy, &json!({"key": KEY})).await;
    let csrf = session["csrf"].as_str().unwrap();
    for (method, path) in [
        ("PATCH", "/admin/settings"),
        ("DELETE", "/admin/settings"),
        ("DELETE", "/admin/settings/execution.max_calls"),
        ("POST", "/admin/formats/analyze"),
        ("POST", "/admin/formats/teach"),
    ] {
        for headers in [
            &[][..],
            &[("x-toolwire-csrf", csrf)],
            &[("x-toolwire-csrf", csrf), ("sec-fetch-site", "cross-site")],
            &[("x-toolwire-csrf", "x"), ("sec-fetch-site", "same-origin")],
        ] {
            let ask = Ask::new(&proxy, method, path).header("cookie", &cookie);
            let ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
            assert_eq!(ask.json(&json!({})).answer().await.0, 403, "{method} {path} {headers:?}");
        }
        let ask = Ask::new(&proxy, method, path).header("cookie", &cookie).header("x-toolwire-csrf", csrf);
        let status = ask.header("sec-fetch-site", "same-origin").json(&json!({})).answer().await.0;
        let expected = if path.contains("settings") { 409 } else { 400 };
        assert_eq!(status, expected, "there is no folder, or no text, but the request is admitted");
    }
}

#[tokio::test]
async fn request_of_a_session_that_changes_something_must_come_from_its_page() {
    let (_upstream, proxy) =
        proxy(&format!("{TOOLS}[admin]\napi_keys = [\"{KEY}\"]\nhosts = [\"tools.example\"]\n")).await;
    let (cookie, session, _) = signed_in(&proxy, &json!({"key": KEY})).await;
    let csrf = session["csrf"].as_str().unwrap();
    let own = format!("http://{}", proxy.addresses[0]);
    let ask = |headers: &[(&'static str, &str)]| {
        let ask = Ask::new(&proxy, "POST", "/admin/tools/echo/run").header("cookie", &cookie);
        headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value))
    };
    let json = ("content-type", "application/json");
    let token = ("x-toolwire-csrf", csrf);
    for (headers, status) in [
        (vec![json, token, ("sec-fetch-site", "same-origin")], 200),
        (vec![json, token, ("origin", own.as_str())], 200),
        (vec![json, token, ("origin", "https://tools.example")], 200),
        (vec![("content-type", "application/json; charset=utf-8"), token, ("origin", own.as_str())], 200),
        (vec![json, token], 403),
        (vec![json, ("sec-fetch-site", "same-origin")], 403),
        (vec![json, ("x-toolwire-csrf", "x"), ("sec-fetch-site", "same-origin")], 403),
        (vec![json, ("x-toolwire-csrf", ""), ("sec-fetch-site", "same-origin")], 403),
        (vec![token, ("sec-fetch-site", "same-origin")], 403),
        (vec![("content-type", "text/plain"), token, ("sec-fetch-site", "same-origin")], 403),
        (vec![json, token, ("sec-fetch-site", "same-site"), ("origin", own.as_str())], 403),
        (vec![json, token, ("sec-fetch-site", "cross-site")], 403),
        (vec![json, token, ("sec-fetch-site", "none")], 403),
        (vec![json, token, ("origin", "https://evil.example")], 403),
        (vec![json, token, ("origin", "http://127.0.0.1:1")], 403),
        (vec![json, token, ("origin", "null")], 403),
        (vec![json, token, ("origin", "https://tools.example.evil")], 403),
    ] {
        let (found, answer) = ask(&headers).answer().await;
        assert_eq!(found, status, "{headers:?}: {answer}");
    }
    let script = Ask::new(&proxy, "POST", "/admin/tools/echo/run").key(KEY);
    assert_eq!(script.send().await.status(), 200, "a script needs no token");
}

#[tokio::test]
async fn without_keys_only_this_machine_by_its_own_names_is_served() {
    let (_upstream, proxy) =
        proxy(&format!("{TOOLS}[admin]\nhosts = [\"tools.example\", \"a.example:81\"]\n")).await;
    for (host, status) in [
        ("localhost", 200),
        ("LocalHost:8787", 200),
        ("toolwire.localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8787", 200),
        ("tools.example", 200),
        ("tools.example:8443", 200),
        ("a.example:81", 200),
        ("a.example:82", 403),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        (".localhost", 403),
        ("192.168.0.1", 403),
        ("0.0.0.0", 403),
    ] {
        for path in ["/admin/tools", "/admin/session", "/admin/events"] {
            let reply = Ask::new(&proxy, "GET", path).header("host", host).send().await;
            assert_eq!(reply.status(), status, "{host} {path}");
        }
    }
}

#[tokio::test]
async fn without_keys_changes_need_the_token_of_the_anonymous_session() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}[admin]\n")).await;
    let (_, session) = Ask::new(&proxy, "GET", "/admin/session").answer().await;
    let csrf = session["csrf"].as_str().unwrap();
    assert_eq!(session["signed_in"], true);
    let own = format!("http://{}", proxy.addresses[0]);
    let run = || Ask::new(&proxy, "POST", "/admin/tools/echo/run").header("content-type", "application/json");
    assert_eq!(run().send().await.status(), 403);
    assert_eq!(run().header("origin", &own).send().await.status(), 403);
    assert_eq!(
        run().header("origin", "https://evil.example").header("x-toolwire-csrf", csrf).send().await.status(),
        403
    );
    assert_eq!(run().header("origin", &own).header("x-toolwire-csrf", csrf).send().await.status(), 200);
}

#[tokio::test]
async fn request_that_a_proxy_passes_on_needs_a_key_or_a_name() {
    let (_upstream, open) = proxy(&format!("{TOOLS}[admin]\nhosts = [\"tools.example\"]\n")).await;
    let (_upstream, with_key) = proxy(WITH_KEY).await;
    for header in [
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-server",
        "x-real-ip",
        "cf-connecting-ip",
        "true-client-ip",
    ] {
        for path in ["/admin/tools", "/admin/session", "/admin/events", "/console/"] {
            let ask = |proxy: &Proxy| Ask::new(proxy, "GET", path).header(header, "192.0.2.1");
            // By default, nginx sends the upstream's address from its configuration as the host.
            let own = ask(&open).send().await;
            assert_eq!(own.status(), 403, "{header} {path}");
            assert_eq!(own.json().await["error"]["code"], "not_local");
            let named = ask(&open).header("host", "tools.example").send().await;
            assert_eq!(named.status(), 200, "{header} {path}");
            assert_eq!(ask(&with_key).key(KEY).send().await.status(), 200, "{header} {path}");
        }
    }
}

/// nginx defaults to HTTP/1.0, with the upstream's address as the host.
#[tokio::test]
async fn http10_needs_a_key_or_a_name() {
    let (_upstream, open) = proxy(&format!("{TOOLS}[admin]\nhosts = [\"tools.example\"]\n")).await;
    let (_upstream, with_key) = proxy(WITH_KEY).await;
    for path in ["/admin/tools", "/admin/session", "/admin/settings", "/console/"] {
        for (version, host, status) in [
            ("1.0", "host: 127.0.0.1:8787\r\n", 403),
            ("1.0", "host: localhost\r\nconnection: keep-alive\r\n", 403),
            ("1.0", "", 403),
            ("1.0", "host: tools.example\r\n", 200),
            ("1.1", "host: localhost\r\nconnection: close\r\n", 200),
        ] {
            let request = format!("GET {path} HTTP/{version}\r\n{host}\r\n");
            let mut client = Raw::connect(&open).await;
            client.send(&request).await;
            let head = client.until("\r\n").await;
            assert!(head.contains(&status.to_string()), "{request}: {head}");
        }
    }
    let mut client = Raw::connect(&with_key).await;
    client.send(format!("GET /admin/tools HTTP/1.0\r\nauthorization: Bearer {KEY}\r\n\r\n")).await;
    assert!(client.until("\r\n").await.contains(" 200 "));
}

/// Attempts with different keys count as guesses. Other clients at the same address are not slowed down.
#[tokio::test]
async fn guesses_of_keys_are_slowed_down() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let ask = |key: &str| Ask::new(&proxy, "GET", "/admin/tools").key(key).send();
    for _ in 0..30 {
        assert_eq!(ask("mistyped").await.status(), 401);
    }
    for number in 1..10 {
        assert_eq!(ask(&format!("guess{number}")).await.status(), 401);
    }
    let refused = ask("guess10").await;
    assert_eq!(refused.status(), 429);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let error = refused.json().await;
    assert_eq!(
        (&error["error"]["code"], &error["error"]["retry_after_s"]),
        (&json!("rate_limited"), &json!(wait))
    );
    assert!(!error.to_string().contains("guess10"));
    let sign_in = Ask::new(&proxy, "POST", "/admin/session").json(&json!({"key": KEY}));
    assert_eq!(sign_in.send().await.status(), 200);
    assert_eq!(ask(KEY).await.status(), 200, "a right key is served");
    assert_eq!(ask("guess11").await.status(), 401, "it began anew");
}

#[tokio::test]
async fn pages_of_other_origins_read_nothing() {
    let (_upstream, open) = proxy(&format!("{TOOLS}[admin]\n")).await;
    let (_upstream, with_key) = proxy(WITH_KEY).await;
    let (cookie, ..) = signed_in(&with_key, &json!({"key": KEY})).await;
    for (header, value, status) in [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", "https://evil.example", 403),
        ("origin", "http://127.0.0.1:1", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "same-origin", 200),
        // The URL was typed into the address bar.
        ("sec-fetch-site", "none", 200),
    ] {
        for path in ["/admin/tools", "/admin/session", "/admin/events", "/admin/streams"] {
            let own = Ask::new(&open, "GET", path).header(header, value);
            assert_eq!(own.send().await.status(), status, "{header}: {value} {path}");
            let session = Ask::new(&with_key, "GET", path).header(header, value).header("cookie", &cookie);
            assert_eq!(session.send().await.status(), status, "{header}: {value} {path}");
        }
    }
}

#[tokio::test]
async fn streams_of_a_session_end_with_it() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let (cookie, session, _) = signed_in(&proxy, &json!({"key": KEY})).await;
    let (other, ..) = signed_in(&proxy, &json!({"key": KEY})).await;
    let open = |path: &str, cookie: &str| {
        let ask = Ask::new(&proxy, "GET", path).header("cookie", cookie);
        ask.header("accept", "text/event-stream").send()
    };
    let streams = [open("/admin/events", &cookie).await, open("/admin/streams", &cookie).await];
    let mut others = open("/admin/streams", &other).await;
    let out = Ask::new(&proxy, "DELETE", "/admin/session").header("cookie", &cookie);
    let out = out.header("x-toolwire-csrf", session["csrf"].as_str().unwrap());
    let out = out.header("sec-fetch-site", "same-origin").json(&json!({}));
    assert_eq!(out.send().await.status(), 204);
    for stream in streams {
        soon("the end of the stream", stream.rest()).await;
    }
    for _ in 0..3 {
        others.until("event: streams\n").await;
    }
}

#[tokio::test]
async fn streams_of_a_session_end_when_it_has_expired() {
    let (_upstream, proxy) = proxy(&format!("{WITH_KEY}session_ttl = \"1s\"\n")).await;
    let (cookie, ..) = signed_in(&proxy, &json!({"key": KEY})).await;
    let feed = Ask::new(&proxy, "GET", "/admin/events").header("cookie", &cookie).send().await;
    assert_eq!(feed.status(), 200);
    soon("the end of the session", feed.rest()).await;
    assert_eq!(Ask::new(&proxy, "GET", "/admin/tools").header("cookie", &cookie).send().await.status(), 401);
}
