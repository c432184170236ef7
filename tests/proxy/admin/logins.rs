//! Tests logins at MCP servers over the admin API. clients/tools/test_mcp_login.py logs in.

use serde_json::json;

use super::{Ask, KEY, TOOLS, WITH_KEY, proxy};

/// An MCP server at which nobody listens. Without `state_dir`, a login gets no further than the checks here.
const SERVER: &str = "[[providers]]\nname = \"far\"\nkind = \"mcp\"\nurl = \"http://127.0.0.1:9/mcp\"\n";

#[tokio::test]
async fn login_begins_and_ends_with_the_page_of_the_console() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{SERVER}{WITH_KEY}")).await;
    let page = proxy.url("/console/");
    let own = page.strip_suffix("/console/").unwrap();
    let begin = "/admin/providers/far/login";
    for (path, origin, body, expected) in [
        (begin, "", json!({"redirect": page}), (409, "login_failed")),
        (begin, own, json!({"redirect": page}), (409, "login_failed")),
        (begin, "http://evil.example", json!({"redirect": page}), (400, "invalid_request")),
        (begin, own, json!({"redirect": "https://evil.example/console/"}), (400, "invalid_request")),
        (begin, "", json!({"redirect": format!("{own}/v1/models")}), (400, "invalid_request")),
        (begin, "", json!({"redirect": format!("{page}?x")}), (400, "invalid_request")),
        (begin, "", json!({"redirect": "http://other.example/console/"}), (400, "login_failed")),
        (begin, "", json!({"redirect": 1}), (400, "invalid_request")),
        (begin, "", json!({}), (400, "invalid_request")),
        ("/admin/providers/echo/login", "", json!({"redirect": page}), (409, "no_login")),
        ("/admin/providers/none/login", "", json!({"redirect": page}), (404, "not_found")),
        ("/admin/logins", "", json!({"query": "code=1&state=2"}), (400, "login_failed")),
        ("/admin/logins", "", json!({"query": ""}), (400, "login_failed")),
        ("/admin/logins", "", json!({}), (400, "invalid_request")),
    ] {
        let mut ask = Ask::new(&proxy, "POST", path).key(KEY).json(&body);
        if !origin.is_empty() {
            ask = ask.header("origin", origin);
        }
        let (status, said) = ask.answer().await;
        assert_eq!(
            (status, said["error"]["code"].as_str().unwrap_or_default()),
            expected,
            "{path} {body}: {said}"
        );
    }
    let (status, said) = Ask::new(&proxy, "DELETE", begin).key(KEY).json(&json!({})).answer().await;
    assert_eq!((status, &said["error"]["code"]), (409, &json!("not_logged_in")));
    for (method, path) in [("POST", begin), ("DELETE", begin), ("POST", "/admin/logins")] {
        assert_eq!(Ask::new(&proxy, method, path).json(&json!({})).answer().await.0, 401, "{method} {path}");
    }
    let (_, list) = Ask::new(&proxy, "GET", "/admin/tools").key(KEY).answer().await;
    let far =
        list["providers"].as_array().unwrap().iter().find(|provider| provider["name"] == "far").unwrap();
    assert_eq!(far["login"], json!({"state": "logged_out"}));
}

#[tokio::test]
async fn login_of_a_client_key_names_the_key() {
    let own = SERVER.replace("far", "own") + "oauth_login_per = \"key\"\n";
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{SERVER}{own}{WITH_KEY}")).await;
    let page = json!({"redirect": proxy.url("/console/")});
    let long = format!("?key={}", "a".repeat(65));
    for (server, query, begun, ended) in [
        ("own", "?key=alice", (409, "login_failed"), (409, "not_logged_in")),
        ("own", "?key=Alice&x=1", (409, "login_failed"), (409, "not_logged_in")),
        ("own", "", (400, "invalid_request"), (400, "invalid_request")),
        ("own", "?key=", (400, "invalid_request"), (400, "invalid_request")),
        ("own", "?key=..%2Fa", (400, "invalid_request"), (400, "invalid_request")),
        ("own", "?key=a%20b", (400, "invalid_request"), (400, "invalid_request")),
        ("own", &long, (400, "invalid_request"), (400, "invalid_request")),
        ("far", "?key=alice", (409, "no_login"), (409, "no_login")),
    ] {
        for (method, expected) in [("POST", begun), ("DELETE", ended)] {
            let path = format!("/admin/providers/{server}/login{query}");
            let (status, said) = Ask::new(&proxy, method, &path).key(KEY).json(&page).answer().await;
            let code = said["error"]["code"].as_str().unwrap_or_default();
            assert_eq!((status, code), expected, "{method} {path}: {said}");
        }
    }
    let (_, list) = Ask::new(&proxy, "GET", "/admin/tools").key(KEY).answer().await;
    let own =
        list["providers"].as_array().unwrap().iter().find(|provider| provider["name"] == "own").unwrap();
    assert_eq!((&own["logins"], own.get("login")), (&json!({}), None));
}
