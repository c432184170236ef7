//! Tests tools that the APIs' servers run and that toolwire runs in their place: `web_fetch`, and the options of searches.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::script::{added, call, end, text, upstream};
use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    upstream::Upstream,
};

/// A web site whose every page is the same.
async fn site() -> Upstream {
    Upstream::start(|mut exchange| async move {
        let page = "<title>Lyon</title><p>Rain until noon.";
        exchange.whole("200 OK", "content-type: text/html\r\n", page).await;
        exchange
    })
    .await
}

/// A proxy that reads pages, with additional tables.
async fn proxy(upstream: &Upstream, more: &str) -> Proxy {
    let mut setup = Setup::new(upstream.address);
    setup.execution = format!(
        "[execution]\nvisibility = \"items\"\n[[providers]]\nname = \"web\"\nkind = \"fetch\"\nallow_private = true\n{more}"
    );
    setup.start().await
}

async fn ask(proxy: &Proxy, path: &str, body: Value) -> Value {
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    Client::new().send(request).await.unwrap().json().await
}

fn fetch(url: &str) -> String {
    call(0, "call_0", "web_fetch", &json!({"url": url}).to_string()) + &end("tool_calls")
}

fn message(tool: &Value, text: &str) -> Value {
    json!({"model": "m", "max_tokens": 99, "tools": [tool], "messages": [{"role": "user", "content": text}]})
}

fn told(message: &Value) -> Value {
    serde_json::from_str(message["content"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn client_of_messages_gets_the_page_as_its_api_has_it() {
    let site = site().await;
    let url = format!("http://{}/lyon", site.address);
    let (upstream, asked) =
        upstream([fetch(&url), text("It rains.") + &end("stop"), text("Bye.") + &end("stop")]).await;
    let proxy = proxy(&upstream, "").await;
    let tool = json!({"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 2, "citations": {"enabled": true}});
    let body = message(&tool, &format!("What does {url} say?"));
    let answer = ask(&proxy, "/v1/messages", body.clone()).await;
    let content = answer["content"].as_array().unwrap();
    let (used, result) = (&content[0], &content[1]);
    assert_eq!((&used["type"], &used["name"]), (&json!("server_tool_use"), &json!("web_fetch")), "{answer}");
    assert_eq!(
        (&result["type"], &result["tool_use_id"]),
        (&json!("web_fetch_tool_result"), &used["id"]),
        "{answer}"
    );
    let page = &result["content"];
    assert_eq!((&page["type"], &page["url"]), (&json!("web_fetch_result"), &json!(url)), "{answer}");
    assert_eq!(page["content"]["title"], "Lyon");
    assert_eq!(page["content"]["source"]["data"], "Rain until noon.");
    assert_eq!(answer["usage"]["server_tool_use"], json!({"web_fetch_requests": 1}));
    // The client sends the blocks back, and the model gets the page.
    let mut next = body;
    let turns = next["messages"].as_array_mut().unwrap();
    turns.push(json!({"role": "assistant", "content": content}));
    turns.push(json!({"role": "user", "content": "Thanks."}));
    ask(&proxy, "/v1/messages", next).await;
    let asked = asked.lock().unwrap();
    let page = told(&added(&asked[2], 1)[1]);
    assert_eq!((&page["content"], &page["url"]), (&json!("Rain until noon."), &json!(url)));
    assert_eq!(site.requests(), 1);
}

#[tokio::test]
async fn failures_have_the_codes_of_the_api() {
    let site = site().await;
    let url = format!("http://{}/lyon", site.address);
    let said = format!("Read {url}");
    let closed = "http://127.0.0.1:1/".to_owned();
    for (options, text_of_user, called, code) in [
        // The model made the address up.
        (json!({}), "Read the page".to_owned(), &url, "url_not_allowed"),
        (json!({"allowed_domains": ["example.com"]}), said.clone(), &url, "url_not_allowed"),
        (json!({"blocked_domains": ["127.0.0.1"]}), said.clone(), &url, "url_not_allowed"),
        (json!({"blocked_domains": ["not a domain"]}), said.clone(), &url, "url_not_allowed"),
        (json!({"max_uses": 0}), said.clone(), &url, "max_uses_exceeded"),
        (json!({}), format!("Read {closed}"), &closed, "url_not_accessible"),
        (json!({}), "Read it".to_owned(), &"no address".to_owned(), "url_not_allowed"),
    ] {
        let (upstream, _) = upstream([fetch(called), text("No.") + &end("stop")]).await;
        let proxy = proxy(&upstream, "[[tools]]\nname = \"web_fetch\"\nretries = 0\n").await;
        let mut tool = json!({"type": "web_fetch_20260209", "name": "web_fetch"});
        tool.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let answer = ask(&proxy, "/v1/messages", message(&tool, &text_of_user)).await;
        let error = &answer["content"][1]["content"];
        assert_eq!(error["type"], "web_fetch_tool_result_error", "{options} {answer}");
        assert_eq!(error["error_code"], code, "{options} {answer}");
    }
    assert_eq!(site.requests(), 0);
}

#[tokio::test]
async fn address_that_a_call_only_repeats_is_not_read() {
    let site = site().await;
    let url = format!("http://{}/?d=secret", site.address);
    let echo = "[[providers]]\nname = \"echo\"\nkind = \"command\"\ncommand = [\"cat\"]\n\
                parameters = { type = \"object\", properties = { say = { type = \"string\" } } }\n";
    let repeated = call(0, "call_1", "echo", &json!({"say": url}).to_string()) + &end("tool_calls");
    let (upstream, asked) = upstream([repeated, fetch(&url), text("No.") + &end("stop")]).await;
    let proxy = proxy(&upstream, echo).await;
    ask(
        &proxy,
        "/v1/chat/completions",
        json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]}),
    )
    .await;
    let asked = asked.lock().unwrap();
    let last = asked[2]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(told(last)["error"]["code"], "blocked_url", "{last}");
    assert_eq!(site.requests(), 0);
}

#[tokio::test]
async fn gemini_clients_get_pages_for_their_url_context() {
    let site = site().await;
    let url = format!("http://{}/lyon", site.address);
    let (upstream, asked) = upstream([fetch(&url), text("It rains.") + &end("stop")]).await;
    let proxy = proxy(
        &upstream,
        "[[tools]]\nname = \"web_fetch\"\ninjection = \"selective\"\nintent = [\"never\"]\n",
    )
    .await;
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": format!("What does {url} say?")}]}],
        "tools": [{"urlContext": {}}],
    });
    let answer = ask(&proxy, "/v1beta/models/m:generateContent", body).await;
    assert!(answer.to_string().contains("It rains."), "{answer}");
    assert_eq!(asked.lock().unwrap()[0]["tools"][0]["function"]["name"], "web_fetch");
    assert_eq!(site.requests(), 1);
}

/// The options of a search decide what the hosted search finds, and the upstream does not get them as well.
#[tokio::test]
async fn options_of_a_search_are_those_of_the_hosted_search() {
    let serper = Upstream::start(|mut exchange| async move {
        let asked: Value = serde_json::from_slice(&exchange.body).unwrap();
        let page = |url: &str| json!({"title": "A", "link": url, "snippet": asked["location"]});
        let found = json!({"organic": [page("https://a.example/x"), page("https://b.example/y")]});
        exchange.whole("200 OK", "content-type: application/json\r\n", &found.to_string()).await;
        exchange
    })
    .await;
    let place = json!({"type": "approximate", "city": "Lyon", "country": "FR"});
    let user = json!([{"role": "user", "content": "hello"}]);
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({"model": "m", "messages": user,
            "web_search_options": {"user_location": {"type": "approximate", "approximate": place}, "search_context_size": "low"}}),
        ),
        (
            "/v1/responses",
            json!({"model": "m", "input": "hello",
            "tools": [{"type": "web_search", "filters": {"allowed_domains": ["a.example"]}, "user_location": place}]}),
        ),
        (
            "/v1/messages",
            json!({"model": "m", "max_tokens": 9, "messages": user, "tools": [{"type": "web_search_20250305",
            "name": "web_search", "max_uses": 1, "blocked_domains": ["b.example"], "user_location": place}]}),
        ),
    ] {
        let search = call(0, "call_0", "web_search", r#"{"query":"rain"}"#) + &end("tool_calls");
        let (upstream, asked) = upstream([search, text("It rains.") + &end("stop")]).await;
        let more = format!(
            "[[providers]]\nname = \"serper\"\nkind = \"serper\"\napi_key = \"k\"\nmax_results = 2\nbase_url = \"http://{}\"\n\
             [[tools]]\nname = \"web_search\"\ninjection = \"selective\"\n",
            serper.address
        );
        let proxy = proxy(&upstream, &more).await;
        ask(&proxy, path, body).await;
        let asked = asked.lock().unwrap();
        assert!(!asked[0].to_string().contains("web_search_options"), "{path} {}", asked[0]);
        let found = told(asked[1]["messages"].as_array().unwrap().last().unwrap());
        let results = found["results"].as_array().unwrap();
        assert_eq!((results.len(), &results[0]["snippet"]), (1, &json!("Lyon, FR")), "{path} {found}");
        let names = asked[1]["tools"]
            .as_array()
            .map(|tools| tools.iter().map(|tool| tool["function"]["name"].clone()));
        let has_search = names.is_some_and(|mut names| names.any(|name| name == "web_search"));
        assert_eq!(has_search, path != "/v1/messages", "{path}: `max_uses` is reached");
    }
}
