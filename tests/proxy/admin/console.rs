//! Tests the console's page.

use http::header;
use toolwire::config::Origins;

use super::{Ask, WITH_KEY, proxy};
use crate::support::proxy::{Proxy, Setup};
use crate::support::upstream::{Upstream, at_once};

async fn script(proxy: &Proxy) -> String {
    let document = Ask::new(proxy, "GET", "/console/").send().await.rest().await;
    let (_, rest) = document.split_once("<script type=\"module\" src=\"").unwrap_or_default();
    rest.split_once('"').map(|(path, _)| format!("/console/{path}")).unwrap_or_default()
}

#[tokio::test]
async fn console_needs_the_admin_table_but_no_key() {
    let (_upstream, without) = proxy("").await;
    assert_eq!(Ask::new(&without, "GET", "/console/").send().await.status(), 404);
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let reply = Ask::new(&proxy, "GET", "/console/").send().await;
    assert_eq!((reply.status().as_u16(), reply.header("cache-control")), (200, Some("no-cache")));
    let path = script(&proxy).await;
    let reply = Ask::new(&proxy, "GET", &path).send().await;
    assert_eq!(reply.status(), 200, "{path}");
    assert_eq!(reply.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(reply.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let reply = Ask::new(&proxy, "GET", "/console/v/00000000/main.js").send().await;
    assert_eq!(reply.status(), 404, "files of another version are gone");
    assert_eq!(Ask::new(&proxy, "POST", "/console/").send().await.status(), 405);
}

#[tokio::test]
async fn console_allows_no_code_from_elsewhere_and_no_frames() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    for path in ["/console/".to_owned(), script(&proxy).await] {
        let reply = Ask::new(&proxy, "GET", &path).send().await;
        let policy = reply.header("content-security-policy").unwrap_or_default().to_owned();
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"]
        {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"));
    }
}

#[tokio::test]
async fn console_redirect_is_relative() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let reply = Ask::new(&proxy, "GET", "/console").send().await;
    assert_eq!((reply.status().as_u16(), reply.header("location")), (308, Some("console/")));
}

#[tokio::test]
async fn console_without_keys_is_only_for_names_of_this_machine() {
    let (_upstream, proxy) = proxy("[admin]\n").await;
    assert_eq!(Ask::new(&proxy, "GET", "/console/").send().await.status(), 200);
    let reply = Ask::new(&proxy, "GET", "/console/").header("host", "evil.example").send().await;
    assert_eq!(reply.status(), 403);
}

#[tokio::test]
async fn cors_origins_do_not_apply_to_the_console() {
    let upstream = Upstream::start(at_once).await;
    let setup = Setup {
        execution: WITH_KEY.to_owned(),
        cors_origins: Origins::parse(&["https://ui.example"]).unwrap(),
        ..Setup::new(upstream.address)
    };
    let proxy = setup.start().await;
    let reply = Ask::new(&proxy, "GET", "/console/").header("origin", "https://ui.example").send().await;
    assert_eq!(reply.header(header::ACCESS_CONTROL_ALLOW_ORIGIN.as_str()), None);
}
