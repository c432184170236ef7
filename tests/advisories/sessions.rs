//! Tests that a session of the console ends when it should.

use std::fs;

use serde_json::{Value, json};

use crate::{
    clients::{ADMIN, answer_as, ask, proxy},
    support::{
        proxy::Proxy,
        upstream::{Upstream, at_once},
    },
};

/// Signs in. Returns the header lines that requests of the session need.
async fn signed_in(proxy: &Proxy) -> String {
    let body = json!({"key": ADMIN}).to_string();
    let response = ask(proxy, ("POST", "/admin/session"), ("localhost", ""), &body).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let (cookie, _) = response.header("set-cookie").unwrap().split_once(';').unwrap();
    let session: Value = serde_json::from_str(&response.body).unwrap();
    let csrf = session["csrf"].as_str().unwrap();
    format!("cookie: {cookie}\r\nx-toolwire-csrf: {csrf}\r\nsec-fetch-site: same-origin\r\n")
}

async fn status(proxy: &Proxy, session: &str, line: (&str, &str)) -> u16 {
    ask(proxy, line, ("localhost", session), "").await.status
}

const TOOLS: (&str, &str) = ("GET", "/admin/tools");

/// CVE-2026-12772 (LiteLLM): a session stayed valid after its end.
#[tokio::test]
async fn session_is_over_once_its_user_has_signed_out() {
    let (_upstream, proxy) = proxy().await;
    let (session, other) = (signed_in(&proxy).await, signed_in(&proxy).await);
    assert_eq!(status(&proxy, &session, TOOLS).await, 200);
    assert_eq!(status(&proxy, &session, ("DELETE", "/admin/session")).await, 204);
    for line in [TOOLS, ("GET", "/admin/events"), ("POST", "/admin/reload")] {
        assert_eq!(status(&proxy, &session, line).await, 401, "{line:?}");
    }
    assert_eq!(status(&proxy, &other, TOOLS).await, 200, "the other session goes on");
}

/// CVE-2026-12796 (LiteLLM): a session stayed valid without what it had been granted for.
#[tokio::test]
async fn session_is_over_once_its_key_is_removed() {
    let upstream = Upstream::start(at_once).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolwire.toml");
    let write = |key: &str| {
        let address = upstream.address;
        let text = format!(
            "listen = \"127.0.0.1:0\"\nthreads = 1\nstore = \"off\"\n[admin]\napi_keys = [\"{key}\"]\n\
             [[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://{address}/v1\"\n[[models]]\nname = \"*\"\n"
        );
        fs::write(&file, text).unwrap();
    };
    write(ADMIN);
    let proxy = Proxy::of_file(&file);
    let session = signed_in(&proxy).await;
    assert_eq!(status(&proxy, &session, TOOLS).await, 200);
    write("another-key-of-admins");
    let reload = ("POST", "/admin/reload");
    assert_eq!(answer_as(&proxy, ADMIN, reload, &json!({})).await.0, 200);
    assert_eq!(status(&proxy, &session, TOOLS).await, 401);
    assert_eq!(answer_as(&proxy, ADMIN, TOOLS, &Value::Null).await.0, 401);
    assert_eq!(answer_as(&proxy, "another-key-of-admins", TOOLS, &Value::Null).await.0, 200);
}
