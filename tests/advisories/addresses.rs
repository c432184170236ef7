//! Tests requests that others choose the address of: URLs that are read in two ways, redirects, addresses inside the
//! network, and servers that a request names.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;
use toolwire::config::Passthrough;

use crate::{
    clients::{ADMIN, TABLES, answer_as, ask},
    hosted::{code, result_of},
    support::{
        client::{Client, WHOLE, chat_request},
        proxy::Setup,
        upstream::{Exchange, Upstream, at_once},
    },
};

/// A tool whose program shows the address that it gets. Only one domain is allowed.
const SHOW: &str = r#"
[[providers]]
name = "show"
kind = "command"
command = ["printf", "%s", "{url}"]
parameters = { type = "object", properties = { url = { type = "string" } } }
[[tools]]
name = "show"
url_argument = "url"
allow_domains = ["allowed.example"]
"#;

/// CVE-2026-24779 (vLLM), CVE-2026-45400 (Open WebUI): the check of a URL found another host in it than the request
/// that followed.
#[tokio::test]
async fn program_gets_the_address_that_was_checked() {
    let own = "http://allowed.example/i";
    assert_eq!(result_of(SHOW, "hi", "show", &json!({"url": own}).to_string()).await, own);
    for url in [
        r"http://allowed.example\@127.0.0.1:9001/i",
        r"http:\\allowed.example\@127.0.0.1:9001/i",
        r"http://127.0.0.1:9001\@allowed.example/",
        "http://allowed.example@127.0.0.1/",
        "http://allowed.example:80@127.0.0.1/",
        "http://127.0.0.1#@allowed.example/",
        "http://127.0.0.1?@allowed.example/",
        "http://127.0.0.1%2f@allowed.example/",
        "http://{127.0.0.1,allowed.example}/",
        "http://allowed.example\t.evil.example/",
        "http://allowed.example%00.evil.example/",
        "http://allowed.example。evil.example/",
        "//127.0.0.1/allowed.example",
        "file://allowed.example/etc/passwd",
    ] {
        let result = result_of(SHOW, "hi", "show", &json!({"url": url}).to_string()).await;
        let is_checked = result.starts_with("http://allowed.example/") && !result.contains(['\\', '\t']);
        let is_file = result == "file://allowed.example/etc/passwd";
        assert!(is_checked || is_file || code(&result) == "blocked_url", "{url}: {result}");
    }
}

const FETCH: &str =
    "[[providers]]\nname = \"web\"\nkind = \"fetch\"\n[[tools]]\nname = \"web_fetch\"\nretries = 0\n";

/// CVE-2026-5323 (a11y-mcp): a server's tool read pages inside the network.
#[tokio::test]
async fn model_reads_no_page_inside_the_network() {
    for url in [
        "http://127.0.0.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://localhost./",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://metadata.google.internal/",
        "http://kubernetes.default.svc/",
        "file:///etc/passwd",
        "http://a.example:22/",
    ] {
        let result =
            result_of(FETCH, &format!("Read {url}"), "web_fetch", &json!({"url": url}).to_string()).await;
        assert_eq!(code(&result), "blocked_url", "{url}: {result}");
    }
}

/// CVE-2026-45401 (Open WebUI): only the first address was checked, not those that redirects led to.
#[tokio::test]
async fn redirects_are_checked_like_the_first_address() {
    const TARGETS: [&str; 7] = [
        "/page",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://metadata.google.internal/",
        "//169.254.169.254/",
        "file:///etc/passwd",
        "http://user:name@127.0.0.1/",
    ];
    let site = Upstream::start(|mut exchange: Exchange| async move {
        let path = exchange.head.split(' ').nth(1).unwrap().to_owned();
        match path.strip_prefix("/to/").map(|place| TARGETS[place.parse::<usize>().unwrap()]) {
            Some(target) => exchange.whole("302 Found", &format!("location: {target}\r\n"), "").await,
            None => exchange.whole("200 OK", "content-type: text/html\r\n", "<p>Rain until noon.").await,
        }
        exchange
    })
    .await;
    // Allows this test's own server. Addresses of metadata services are forbidden all the same.
    let fetch = FETCH.replace("\"fetch\"", "\"fetch\"\nallow_private = true");
    for (place, target) in TARGETS.iter().enumerate() {
        let url = format!("http://{}/to/{place}", site.address);
        let result =
            result_of(&fetch, &format!("Read {url}"), "web_fetch", &json!({"url": url}).to_string()).await;
        match place {
            0 => assert!(result.contains("Rain until noon."), "{result}"),
            _ => assert!(!code(&result).is_null(), "{target}: {result}"),
        }
        let is_private = target.contains("169.254") || target.contains("metadata") || target.contains("ec2");
        assert!(!is_private || code(&result) == "blocked_url", "{target}: {result}");
    }
}

/// CVE-2025-6242 (vLLM): the server fetched images from the addresses in requests.
#[tokio::test]
async fn image_of_a_request_is_not_fetched() {
    let inner = Upstream::start(at_once).await;
    for (url, requests) in [
        (format!("http://{}/secret.png", inner.address), 2),
        (format!("http://{}/secret.png#x", inner.address), 2),
        ("file:///etc/passwd".to_owned(), 2),
        ("data:image/png;base64,iVBORw0KGgphYmM=".to_owned(), 2),
    ] {
        let upstream = Upstream::start(at_once).await;
        let mut setup = Setup::new(upstream.address);
        setup.vision = Some("org/other");
        let proxy = setup.start().await;
        let content = json!([{"type": "image_url", "image_url": {"url": url}}]);
        let body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
        let status = Client::new().chat(&proxy, body.to_string()).await.status().as_u16();
        assert_eq!(status, 200, "{url}");
        // One to the model that describes images, which gets the address as it is, and one to the model.
        assert_eq!(upstream.requests(), requests, "{url}");
    }
    assert_eq!(inner.connections(), 0);
}

/// CVE-2026-27826 (mcp-atlassian): headers of a request named the server that was asked for it.
#[tokio::test]
async fn request_does_not_choose_the_upstream() {
    let (upstream, evil) = (Upstream::start(at_once).await, Upstream::start(at_once).await);
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = Passthrough::parse(&["/v1/embeddings"]).unwrap();
    let proxy = setup.start().await;
    let target = format!("http://{}", evil.address);
    for name in [
        "x-atlassian-jira-url",
        "x-portkey-custom-host",
        "x-litellm-api-base",
        "x-base-url",
        "x-forwarded-host",
        "x-original-url",
        "forwarded",
        "api-base",
    ] {
        let headers = format!("{name}: {target}\r\n");
        let response = ask(&proxy, ("POST", "/v1/chat/completions"), ("localhost", &headers), WHOLE).await;
        assert_eq!(response.status, 200, "{name}: {}", response.body);
    }
    for name in ["api_base", "base_url", "endpoint", "azure_endpoint", "user_config", "litellm_params"] {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], name: target});
        let response =
            ask(&proxy, ("POST", "/v1/chat/completions"), ("localhost", ""), &body.to_string()).await;
        assert_eq!(response.status, 200, "{name}: {}", response.body);
    }
    for line in
        [("POST", &*format!("{target}/v1/chat/completions")), ("POST", &*format!("{target}/v1/embeddings"))]
    {
        let response = ask(&proxy, line, ("localhost", ""), WHOLE).await;
        assert_eq!(response.status, 200, "{line:?}: {}", response.body);
    }
    assert_eq!((upstream.requests(), evil.connections()), (16, 0));
}

/// CVE-2026-21852 (Claude Code): the API key was sent to a server that someone else had named.
#[tokio::test]
async fn key_of_an_upstream_does_not_follow_a_redirect() {
    let evil = Upstream::start(at_once).await;
    let location = format!("location: http://{}/base/chat/completions\r\n", evil.address);
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let location = location.clone();
        let upstream = Upstream::start(move |mut exchange: Exchange| {
            let location = location.clone();
            async move {
                exchange.whole(status, &location, "").await;
                exchange
            }
        })
        .await;
        let mut setup = Setup::new(upstream.address);
        setup.passthrough = Passthrough::parse(&["/v1/embeddings"]).unwrap();
        let proxy = setup.start().await;
        let mut embeddings = chat_request(&proxy, WHOLE);
        *embeddings.uri_mut() = proxy.url("/v1/embeddings").parse().unwrap();
        for request in [chat_request(&proxy, WHOLE), embeddings] {
            let reply = Client::new().send(request).await.unwrap();
            assert!(!reply.status().is_success(), "{status}: {}", reply.status());
            assert_eq!(reply.header("location"), None, "{status}");
        }
        assert_eq!(upstream.requests(), 2);
    }
    assert_eq!(evil.connections(), 0);
}

/// An MCP server that wants a login, at this authorization endpoint.
async fn server_with_login(endpoint: Arc<Mutex<String>>) -> Upstream {
    Upstream::start_sharing(endpoint, |mut exchange: Exchange, endpoint| async move {
        let origin = format!("http://{}", exchange.header("host").unwrap());
        let path = exchange.head.split(' ').nth(1).unwrap().to_owned();
        let (status, headers, body) = match path.as_str() {
            "/.well-known/oauth-protected-resource/mcp" => {
                let resource = format!("{origin}/mcp");
                ("200 OK", String::new(), json!({"resource": resource, "authorization_servers": [origin]}))
            }
            "/.well-known/oauth-authorization-server" => {
                let endpoint = endpoint.lock().unwrap().replace("ORIGIN", &origin);
                let metadata = json!({
                    "issuer": origin, "authorization_endpoint": endpoint, "token_endpoint": format!("{origin}/token"),
                    "registration_endpoint": format!("{origin}/register"),
                    "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
                });
                ("200 OK", String::new(), metadata)
            }
            "/register" => ("201 Created", String::new(), json!({"client_id": "own"})),
            _ => {
                let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
                let challenge = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
                ("401 Unauthorized", challenge, json!({}))
            }
        };
        exchange.whole(status, &format!("{headers}content-type: application/json\r\n"), &body.to_string()).await;
        exchange
    })
    .await
}

/// CVE-2025-6514 (mcp-remote): an MCP server's address for the login was run as a command. CVE-2025-58444 (MCP
/// Inspector): it was opened as a script of the page.
#[tokio::test]
async fn login_page_of_an_mcp_server_is_an_address_of_the_web() {
    let endpoint = Arc::new(Mutex::new(String::new()));
    let server = server_with_login(endpoint.clone()).await;
    let state = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.state_dir = Some(state.path().to_owned());
    setup.execution = format!(
        "{TABLES}[execution]\n[[providers]]\nname = \"far\"\nkind = \"mcp\"\nurl = \"http://{}/mcp\"\n",
        server.address
    );
    let proxy = setup.start().await;
    let redirect = json!({"redirect": proxy.url("/console/")});
    for (address, is_used) in [
        ("ORIGIN/authorize", true),
        ("javascript:alert(document.domain)//", false),
        ("JavaScript:%61lert(1)", false),
        ("data:text/html,<script>alert(1)</script>", false),
        ("file:///bin/sh", false),
        ("a:$(touch ran)?response_type=code", false),
        ("http://169.254.169.254/authorize", false),
        ("http://name:word@127.0.0.1/authorize", false),
        ("ORIGIN", true),
    ] {
        address.clone_into(&mut endpoint.lock().unwrap());
        let line = ("POST", "/admin/providers/far/login");
        let (status, answer) = answer_as(&proxy, ADMIN, line, &redirect).await;
        let url = answer["url"].as_str().unwrap_or_default();
        assert_eq!(status == 200, is_used, "{address}: {answer}");
        assert_eq!(url.starts_with(&format!("http://{}/", server.address)), is_used, "{address}: {answer}");
    }
}

/// A program that registers tools names the address where toolwire calls it.
///
/// CVE-2026-27826 (mcp-atlassian): as above.
#[tokio::test]
async fn program_that_registers_cannot_lead_into_the_network() {
    let inner = Upstream::start(at_once).await;
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.execution =
        "[execution]\n[[providers]]\nname = \"addons\"\nkind = \"http\"\nkeys = [\"key-of-the-program-1\"]\n"
            .to_owned();
    let proxy = setup.start().await;
    let register = async |callback: &str| {
        let tool = json!({"name": "t", "description": "d", "parameters": {"type": "object"}});
        let body = json!({"id": "p", "label": "P", "callback_url": callback, "tools": [tool]});
        let request = Request::post(proxy.url("/v1/providers"))
            .header("content-type", "application/json")
            .header("authorization", "Bearer key-of-the-program-1");
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        Client::new().send(request).await.unwrap().status().as_u16()
    };
    for callback in [
        &*format!("http://{}/tools", inner.address),
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost/tools",
        "http://10.0.0.1/tools",
        "file:///etc/passwd",
    ] {
        assert!((400..500).contains(&register(callback).await), "{callback}");
    }
    assert_eq!(register("https://clock.example/tools").await, 200);
    assert_eq!(inner.connections(), 0);
}
