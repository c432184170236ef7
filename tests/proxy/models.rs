//! Tests `/v1/models`, which lists the configured names and those of an upstream that serves all other names.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use toolwire::dialect::UpstreamDialect;

use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    raw::{Raw, get},
    upstream::{Exchange, Upstream},
};

const LIST: &str = r#"{"object":"list","data":[
    {"id":"theirs","object":"model","created":17,"owned_by":"acme","context_length":8192},
    {"id":"org/two","max_model_len":4096,"meta":{"n_params":135}},
    {"id":"theirs","created":18},
    {"id":"m","created":19,"owned_by":"acme","context_length":2048}]}"#;

async fn listing(mut exchange: Exchange) -> Exchange {
    exchange.whole("200 OK", "content-type: application/json\r\n", LIST).await;
    exchange
}

fn wildcard(upstream: &Upstream) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.wildcard = true;
    setup
}

fn ids(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn upstream_models_of_a_wildcard_are_merged_with_configured_ones() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = seen.clone();
    let upstream = Upstream::start(move |exchange: Exchange| {
        keep.lock().unwrap().push(exchange.head.to_ascii_lowercase());
        listing(exchange)
    })
    .await;
    let mut setup = wildcard(&upstream);
    setup.upstream.headers =
        HeaderMap::from_iter([(HeaderName::from_static("x-extra"), HeaderValue::from_static("yes"))]);
    let proxy = setup.start().await;
    let client = Client::new();
    let list = client.get(&proxy, "/v1/models").await.json().await;
    assert_eq!(ids(&list), ["m", "org/other", "theirs", "org/two"]);
    let data = &list["data"];
    assert_eq!((&data[0]["owned_by"], &data[0]["context_length"]), (&json!("up"), &json!(2048)));
    assert_ne!(data[0]["created"], 19, "a configured name is toolwire's own");
    assert_eq!(
        data[2],
        json!({"id":"theirs","object":"model","created":17,"owned_by":"acme","context_length":8192})
    );
    assert_eq!((&data[3]["object"], &data[3]["owned_by"]), (&json!("model"), &json!("up")));
    assert_eq!((&data[3]["max_model_len"], &data[3]["meta"]["n_params"]), (&json!(4096), &json!(135)));
    assert_eq!(data[3]["created"], data[1]["created"]);

    for path in ["/v1/models/org/two", "/v1/models/org%2Ftwo"] {
        assert_eq!(client.get(&proxy, path).await.json().await, data[3]);
    }
    let unlisted = client.get(&proxy, "/v1/models/alias").await;
    assert_eq!((unlisted.status().as_u16(), &unlisted.json().await["id"]), (200, &json!("alias")));

    assert_eq!(upstream.requests(), 1, "the list is kept");
    let head = seen.lock().unwrap().remove(0);
    for line in ["get /base/models http/1.1", "authorization: bearer upstream-key", "x-extra: yes"] {
        assert!(head.lines().any(|response| response == line), "{line} in {head}");
    }
}

#[tokio::test]
async fn burst_of_clients_requests_the_model_list_once() {
    let upstream = Upstream::start(|exchange| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        listing(exchange).await
    })
    .await;
    let mut setup = wildcard(&upstream);
    setup.threads = 3;
    let proxy = Arc::new(setup.start().await);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let proxy = Arc::clone(&proxy);
        clients.spawn(async move { Client::new().get(&proxy, "/v1/models").await.json().await });
    }
    while let Some(list) = clients.join_next().await {
        assert_eq!(ids(&list.unwrap()).len(), 4);
    }
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn upstream_without_a_model_list_leaves_the_configured_names() {
    for (status, body) in [
        ("404 Not Found", "{}"),
        ("500 Internal Server Error", "oops"),
        ("200 OK", "<html>"),
        ("200 OK", "{\"data\":7}"),
        ("302 Found", "{}"),
    ] {
        let upstream = Upstream::start(move |mut exchange: Exchange| async move {
            exchange.whole(status, "", body).await;
            exchange
        })
        .await;
        let proxy = wildcard(&upstream).start().await;
        let client = Client::new();
        for _ in 0..3 {
            let reply = client.get(&proxy, "/v1/models").await;
            assert_eq!(reply.status(), 200, "{status}");
            assert_eq!(ids(&reply.json().await), ["m", "org/other"]);
        }
        let model = client.get(&proxy, "/v1/models/any").await;
        assert_eq!((model.status().as_u16(), &model.json().await["id"]), (200, &json!("any")));
        assert_eq!(upstream.requests(), 1, "it is left alone for a while");
    }
}

#[tokio::test]
async fn oversized_model_list_is_ignored() {
    let upstream = Upstream::start(|mut exchange: Exchange| async move {
        let long = format!("{{\"data\":[{{\"id\":\"{}\"}}]}}", "x".repeat(5 << 20));
        exchange.whole("200 OK", "", &long).await;
        exchange
    })
    .await;
    let proxy = wildcard(&upstream).start().await;
    assert_eq!(ids(&Client::new().get(&proxy, "/v1/models").await.json().await), ["m", "org/other"]);
}

#[tokio::test]
async fn unreachable_upstream_leaves_the_configured_names() {
    let gone = Upstream::start(listing).await.address;
    let mut setup = Setup::new(gone);
    setup.wildcard = true;
    let proxy = setup.start().await;
    assert_eq!(ids(&Client::new().get(&proxy, "/v1/models").await.json().await), ["m", "org/other"]);
}

#[tokio::test]
async fn client_disconnect_cancels_the_listing_and_the_next_client_restarts_it() {
    let (leave, left) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Upstream::start(move |mut exchange: Exchange| {
        let leave = leave.clone();
        async move {
            if exchange.earlier == 0 && leave.send(()).is_ok() {
                exchange.gone().await;
            }
            exchange
        }
    })
    .await;
    let mut left = left;
    let proxy = wildcard(&upstream).start().await;
    for _ in 0..2 {
        let mut raw = Raw::connect(&proxy).await;
        raw.send(get("/v1/models")).await;
        // The upstream has its request. It must be cancelled together with the client's request.
        left.recv().await.unwrap();
        drop(raw);
    }
}

#[tokio::test]
async fn model_list_is_not_requested_from_lumo_or_without_a_wildcard() {
    let upstream = Upstream::start(listing).await;
    let mut lumo = wildcard(&upstream);
    lumo.upstream.options = UpstreamDialect::Lumo(Default::default());
    for (setup, listed) in
        [(lumo, &["m", "org/other", "lumo"] as &[_]), (Setup::new(upstream.address), &["m", "org/other"])]
    {
        let proxy = setup.start().await;
        let list = Client::new().get(&proxy, "/v1/models").await.json().await;
        assert_eq!(ids(&list), listed);
    }
    assert_eq!(upstream.requests(), 0);
}

/// The list in the form of Anthropic's API, whose clients read it page by page. OpenAI's API has no pages.
#[tokio::test]
async fn anthropic_clients_read_the_list_in_pages() {
    let upstream = Upstream::start(listing).await;
    let proxy = wildcard(&upstream).start().await;
    let page = async |query: &str, is_anthropic: bool| {
        let version = if is_anthropic { "anthropic-version: 2023-06-01\r\n" } else { "" };
        let mut raw = Raw::connect(&proxy).await;
        raw.send(format!("GET /v1/models{query} HTTP/1.1\r\nhost: localhost\r\n{version}\r\n")).await;
        let response = raw.response().await;
        (response.status, serde_json::from_str::<Value>(&response.body).unwrap())
    };
    let (mut seen, mut query) = (Vec::new(), "?limit=3".to_owned());
    loop {
        let (status, list) = page(&query, true).await;
        assert_eq!(status, 200, "{list}");
        seen.extend(ids(&list).into_iter().map(str::to_owned));
        assert_eq!(list["last_id"], seen.last().unwrap().as_str());
        if list["has_more"] == false {
            break;
        }
        query = format!("?limit=3&after_id={}", list["last_id"].as_str().unwrap().replace('/', "%2F"));
    }
    assert_eq!(seen, ["m", "org/other", "theirs", "org/two"]);
    let (_, list) = page("?limit=2&before_id=org%2Ftwo", true).await;
    assert_eq!((ids(&list), &list["has_more"]), (vec!["org/other", "theirs"], &json!(true)));
    assert_eq!((&list["first_id"], &list["last_id"]), (&json!("org/other"), &json!("theirs")));
    let (_, list) = page("", true).await;
    assert_eq!((ids(&list).len(), &list["has_more"]), (4, &json!(false)));
    for query in ["?limit=0", "?limit=1001", "?limit=x", "?after_id=gone", "?before_id=m&after_id=m"] {
        let (status, refused) = page(query, true).await;
        assert_eq!((status, &refused["type"]), (400, &json!("error")), "{query}");
        assert_eq!(refused["error"]["type"], "invalid_request_error", "{refused}");
    }
    let (status, list) = page("?limit=1", false).await;
    assert_eq!((status, ids(&list).len()), (200, 4));
}

/// A proxy whose only model is the wildcard, in front of an upstream that answers every request with this.
async fn answering(status: &'static str, body: &'static str) -> (Upstream, Proxy) {
    let upstream = Upstream::start(move |mut exchange: Exchange| async move {
        exchange.whole(status, "content-type: application/json\r\n", body).await;
        exchange
    })
    .await;
    let proxy = of_all_names(&upstream.address.to_string());
    (upstream, proxy)
}

fn of_all_names(address: &str) -> Proxy {
    Proxy::of(&format!(
        "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://{address}/v1\"\n\
         [[models]]\nname = \"*\"\nupstream = \"up\"\n"
    ))
}

#[tokio::test]
async fn list_that_the_only_upstream_does_not_give_is_an_error_with_the_cause() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ask = async |proxy: &Proxy| {
        let reply = Client::new().get(proxy, "/v1/models").await;
        (reply.status().as_u16(), reply.json().await)
    };
    let (status, error) = ask(&of_all_names(&gone.to_string())).await;
    assert_eq!((status, &error["error"]["code"]), (502, &json!("upstream_unreachable")), "{error}");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("upstream `up` does not list its models: ") && message.contains("refused"),
        "{error}"
    );
    for (status, body, code, cause) in [
        // The upstream's key is wrong, not the client's.
        ("401 Unauthorized", "{}", "error", "status 401 Unauthorized"),
        ("404 Not Found", "{}", "error", "status 404 Not Found"),
        ("503 Service Unavailable", "{}", "error", "status 503 Service Unavailable"),
        ("302 Found", "{}", "error", "status 302 Found"),
        ("200 OK", "{}", "upstream_protocol", "JSON without a list of models"),
        ("200 OK", "[7]", "upstream_protocol", "a list whose entries do not name models"),
        ("200 OK", "<html>", "upstream_protocol", "no JSON: expected value at line 1 column 1"),
    ] {
        let (_upstream, proxy) = answering(status, body).await;
        let expected = format!("upstream `up` does not list its models: {cause}");
        // The second request is answered from what is kept.
        for _ in 0..2 {
            let (answered, error) = ask(&proxy).await;
            let error = &error["error"];
            assert_eq!((answered, error["code"].as_str()), (502, Some(code)), "{status} {body}: {error}");
            assert_eq!(error["message"], expected, "{status} {body}");
        }
    }
    let (_upstream, proxy) = answering("200 OK", r#"{"data":[]}"#).await;
    assert_eq!(ask(&proxy).await, (200, json!({"object": "list", "data": []})), "an empty list is a list");
}

#[tokio::test]
async fn missing_list_is_an_error_in_the_dialect_of_each_client() {
    let (_upstream, proxy) = answering("500 Internal Server Error", "oops").await;
    let message = "upstream `up` does not list its models: status 500 Internal Server Error";
    for (path, header, at) in [
        ("/v1/models", "x-none: 1", "/error/message"),
        ("/v1/models", "anthropic-version: 2023-06-01", "/error/message"),
        ("/v1/models?limit=1", "anthropic-version: 2023-06-01", "/error/message"),
        ("/v1/models", "x-goog-api-key: k", "/error/message"),
        ("/v1beta/models", "x-none: 1", "/error/message"),
        ("/api/tags", "x-none: 1", "/error"),
    ] {
        let mut raw = Raw::connect(&proxy).await;
        raw.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n\r\n")).await;
        let response = raw.response().await;
        let body: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(response.status, 502, "{path} {header}: {body}");
        assert_eq!(body.pointer(at), Some(&json!(message)), "{path} {header}: {body}");
        match header {
            "anthropic-version: 2023-06-01" => assert_eq!(body["type"], "error", "{body}"),
            "x-goog-api-key: k" => assert_eq!(body["error"]["code"], 502, "{body}"),
            _ => {}
        }
    }
    let model = Client::new().get(&proxy, "/v1/models/any").await;
    assert_eq!((model.status().as_u16(), &model.json().await["id"]), (200, &json!("any")));
}
