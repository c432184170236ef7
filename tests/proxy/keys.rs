//! Tests named clients: the models that they see, and how limits affect their requests.

use std::{fs, sync::Arc};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::support::{
    client::{Client, Reply, STREAM, WHOLE},
    proxy::{Proxy, Setup},
    soon,
    upstream::{END, Upstream, at_once, text},
};

const MESSAGES: &str = r#"{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}"#;

/// A proxy whose client `team` has the key `k` and these limits.
fn with_key(upstream: &Upstream, limits: &str) -> Setup {
    let execution = format!("[[keys]]\nname = \"team\"\nkey = \"k\"\n{limits}\n");
    Setup { execution, ..Setup::new(upstream.address) }
}

fn post(proxy: &Proxy, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(proxy.url(path))
        .header("content-type", "application/json")
        .header(header::AUTHORIZATION, "Bearer k")
        .body(Full::new(body.into()))
        .unwrap()
}

async fn send(proxy: &Proxy, path: &str, body: &'static str) -> Reply {
    Client::new().send(post(proxy, path, body)).await.unwrap()
}

async fn get(proxy: &Proxy, path: &str) -> Reply {
    let request = Request::get(proxy.url(path)).header("api-key", "k").body(Full::default()).unwrap();
    Client::new().send(request).await.unwrap()
}

/// An upstream that answers with a complete response and these token counts.
async fn counted(input: u64, output: u64) -> Upstream {
    Upstream::start_sharing((input, output), |mut exchange, (input, output)| async move {
        let usage = format!(
            "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[],\
             \"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output},\"total_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
            input + output
        );
        let end = END.replace("data: [DONE]\n\n", &usage);
        exchange.whole("200 OK", "content-type: text/event-stream\r\n", &(text("hello") + &end)).await;
        exchange
    })
    .await
}

async fn team(proxy: &Proxy) -> Value {
    let listed = Client::new().get(proxy, "/admin/keys").await.json().await;
    listed["keys"][0].clone()
}

/// Waits until the client `team` has no open response, and returns its usage.
async fn until_idle(proxy: &Proxy) -> Value {
    soon("the end of all responses", async {
        loop {
            let team = team(proxy).await;
            if team["open"] == 0 {
                return team;
            }
        }
    })
    .await
}

#[tokio::test]
async fn client_sees_and_requests_only_its_models() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup { wildcard: true, ..with_key(&upstream, "models = [\"ORG/*\"]") }.start().await;
    let listed = get(&proxy, "/v1/models").await.json().await;
    let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(ids, ["org/other"]);
    assert_eq!(get(&proxy, "/v1/models/org%2Fother").await.status(), 200);
    let asked = upstream.requests();
    for (path, body) in [
        ("/v1/chat/completions", WHOLE),
        ("/v1/chat/completions", r#"{"model":"no such model","messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/responses", r#"{"model":"m","input":"hi"}"#),
        ("/v1/messages", MESSAGES),
        ("/v1/messages/count_tokens", MESSAGES),
    ] {
        let reply = send(&proxy, path, body).await;
        assert_eq!(reply.status(), 403, "{path}");
        assert_eq!(reply.json().await["error"]["type"], "permission_error");
    }
    assert_eq!(get(&proxy, "/v1/models/m").await.status(), 403);
    assert_eq!(get(&proxy, "/v1/models/unknown").await.status(), 403);
    assert_eq!(upstream.requests(), asked);
    let allowed = r#"{"model":"org/other","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(send(&proxy, "/v1/chat/completions", allowed).await.status(), 200);
}

#[tokio::test]
async fn parallel_requests_pass_up_to_the_limit() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = with_key(&upstream, "requests_per_minute = 10");
    setup.upstream.queue.max_concurrent = 200;
    let proxy = Arc::new(setup.start().await);
    let begun = std::time::Instant::now();
    let mut sent = JoinSet::new();
    for _ in 0..200 {
        let proxy = Arc::clone(&proxy);
        sent.spawn(async move { send(&proxy, "/v1/chat/completions", WHOLE).await.status().as_u16() });
    }
    let statuses = sent.join_all().await;
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    // One more request is allowed every six seconds.
    let back = usize::try_from(begun.elapsed().as_secs() / 6).unwrap();
    assert!((10..=10 + back).contains(&passed), "{passed}");
    assert_eq!(upstream.requests(), passed);
}

#[tokio::test]
async fn every_api_is_limited_and_says_so_in_its_own_words() {
    let upstream = Upstream::start(at_once).await;
    const OPENAI: [&str; 3] =
        ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
    const ANTHROPIC: [&str; 3] = [
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ];
    for (path, body, headers) in [
        ("/v1/chat/completions", WHOLE, OPENAI),
        ("/v1/chat/completions", STREAM, OPENAI),
        ("/v1/responses", r#"{"model":"m","input":"hi"}"#, OPENAI),
        ("/v1/messages", MESSAGES, ANTHROPIC),
        ("/v1/messages/count_tokens", MESSAGES, ANTHROPIC),
        ("/v1/embeddings", r#"{"model":"m","input":"hi"}"#, OPENAI),
    ] {
        let mut setup = with_key(&upstream, "requests_per_minute = 1");
        setup.passthrough = toolwire::config::Passthrough::parse(&["/v1/embeddings"]).unwrap();
        let proxy = setup.start().await;
        let first = send(&proxy, path, body).await;
        assert_eq!(first.status(), 200, "{path}");
        assert_eq!(headers.map(|name| first.header(name).is_some()), [true; 3], "{path}");
        assert_eq!(
            headers[..2].iter().map(|name| first.header(name).unwrap()).collect::<Vec<_>>(),
            ["1", "0"]
        );
        first.rest().await;
        let second = send(&proxy, path, body).await;
        assert_eq!(second.status(), 429, "{path}");
        assert_eq!(second.header(headers[1]), Some("0"));
        let seconds: u64 = second.header("retry-after").unwrap().parse().unwrap();
        let millis: u64 = second.header("retry-after-ms").unwrap().parse().unwrap();
        assert!(
            seconds <= 60 && millis <= seconds * 1000 && millis > (seconds - 1) * 1000,
            "{seconds} {millis}"
        );
        assert_eq!(second.json().await["error"]["type"], "rate_limit_error", "{path}");
    }
}

#[tokio::test]
async fn client_without_limits_gets_no_rate_headers() {
    let upstream = Upstream::start(at_once).await;
    let proxy = with_key(&upstream, "").start().await;
    let reply = send(&proxy, "/v1/chat/completions", WHOLE).await;
    assert_eq!((reply.status().as_u16(), reply.header("x-ratelimit-limit-requests")), (200, None));
}

/// The slot and the unused tokens are returned no matter how a response ends.
#[tokio::test]
async fn places_and_tokens_come_back_however_the_response_ends() {
    let ends = Arc::new(Semaphore::new(0));
    let upstream = Upstream::start_sharing(ends.clone(), |mut exchange, ends| async move {
        match exchange.header("x-case").unwrap_or_default().to_owned().as_str() {
            "refused" => {
                exchange.whole("400 Bad Request", "content-type: application/json\r\n", "{}").await;
                exchange
            }
            "cut" => {
                exchange.begin().await;
                exchange.piece(text("first")).await;
                exchange
            }
            "silent" => {
                ends.acquire().await.unwrap().forget();
                exchange
            }
            _ => {
                exchange.begin().await;
                exchange.piece(text("first")).await;
                ends.acquire().await.unwrap().forget();
                exchange.finished().await
            }
        }
    })
    .await;
    for case in ["refused", "cut", "silent", "left"] {
        let mut setup =
            with_key(&upstream, "streams = 1\ntokens_per_minute = 1000\ntokens_per_month = 100000");
        setup.execution += "[admin]\n";
        setup.upstream.headers.insert("x-case", case.parse().unwrap());
        let proxy = setup.start().await;
        let client = Client::new();
        let body =
            r#"{"model":"m","stream":true,"max_tokens":900,"messages":[{"role":"user","content":"hi"}]}"#;
        match case {
            "left" => {
                let mut first = client.send(post(&proxy, "/v1/chat/completions", body)).await.unwrap();
                first.until("first").await;
                let second = send(&proxy, "/v1/chat/completions", body).await;
                assert_eq!((second.status().as_u16(), second.header("retry-after")), (429, Some("5")));
                assert_eq!(team(&proxy).await["open"], 1);
                drop((first, client));
            }
            "silent" => {
                let asked = upstream.requests();
                tokio::select! {
                    _ = client.send(post(&proxy, "/v1/chat/completions", body)) => panic!("nothing is answered"),
                    () = soon("the request", async { while upstream.requests() == asked { tokio::task::yield_now().await } }) => {}
                }
                drop(client);
            }
            "cut" => _ = client.send(post(&proxy, "/v1/chat/completions", body)).await.unwrap().rest().await,
            _ => assert_eq!(send(&proxy, "/v1/chat/completions", body).await.status(), 400),
        }
        let used = until_idle(&proxy).await["used"].clone();
        assert_eq!(used["requests"], 1, "{case}");
        let is_counted = used["output_tokens"].as_u64() > Some(0);
        assert_eq!(is_counted, ["cut", "left"].contains(&case), "{case}: {used}");
        // If the reservation were still held, less would be left.
        let open = Client::new().send(post(&proxy, "/v1/messages/count_tokens", MESSAGES)).await.unwrap();
        let left: u64 = open.header("anthropic-ratelimit-tokens-remaining").unwrap().parse().unwrap();
        assert!(left > 950, "{case}: {left}");
    }
}

#[tokio::test]
async fn counts_of_the_upstream_are_used_and_a_budget_ends() {
    let upstream = counted(70, 30).await;
    let mut setup = with_key(&upstream, "tokens_per_month = 150");
    setup.execution += "[admin]\n";
    let proxy = setup.start().await;
    for path_and_body in [("/v1/chat/completions", WHOLE), ("/v1/messages", MESSAGES)] {
        assert_eq!(send(&proxy, path_and_body.0, path_and_body.1).await.status(), 200);
        until_idle(&proxy).await;
    }
    assert_eq!(team(&proxy).await["used"], json!({"requests": 2, "input_tokens": 140, "output_tokens": 60}));
    let chat = send(&proxy, "/v1/chat/completions", WHOLE).await;
    assert_eq!(
        (chat.status().as_u16(), chat.header("x-should-retry"), chat.header("retry-after")),
        (429, Some("false"), None)
    );
    assert_eq!(chat.json().await["error"]["code"], "insufficient_quota");
    let messages = send(&proxy, "/v1/messages", MESSAGES).await;
    assert_eq!((messages.status().as_u16(), messages.header("x-should-retry")), (402, Some("false")));
    assert_eq!(messages.json().await["error"]["type"], "billing_error");
    assert_eq!(upstream.requests(), 2);
    let metrics = Client::new().get(&proxy, "/metrics").await.rest().await;
    for line in [
        r#"toolwire_key_tokens_total{key="team",model="m",kind="input"} 140"#,
        r#"toolwire_key_tokens_total{key="team",model="m",kind="output"} 60"#,
        r#"toolwire_key_requests_total{key="team",model="m",status="200"} 2"#,
        r#"toolwire_key_requests_total{key="team",model="other",status="402"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

/// Unusual ways to report token counts must not make a response free.
#[tokio::test]
async fn counts_of_every_form_are_taken_from_the_budget() {
    for usage in [
        json!({"prompt_tokens": "70", "completion_tokens": "30", "total_tokens": "100"}),
        json!({"prompt_tokens": 70.0, "completion_tokens": 30.0}),
        json!({"prompt_tokens": "70.00", "completion_tokens": 30}),
        json!({"input_tokens": 70, "output_tokens": 30}),
        json!({"prompt_tokens": 70, "completion_tokens": 30, "cached_tokens": 50}),
        json!({"prompt_tokens": 70, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": "50"}}),
        json!({"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 10, "completion_tokens": 30}),
    ] {
        let upstream = Upstream::start_sharing(usage.to_string(), |mut exchange, usage| async move {
            let counts = format!("data: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n");
            let body = text("hello") + &END.replace("data: [DONE]\n\n", &counts);
            exchange.whole("200 OK", "content-type: text/event-stream\r\n", &body).await;
            exchange
        })
        .await;
        for body in [WHOLE, STREAM] {
            let mut setup = with_key(&upstream, "tokens_per_month = 100");
            setup.execution += "[admin]\n";
            let proxy = setup.start().await;
            let first = send(&proxy, "/v1/chat/completions", body).await;
            assert_eq!(first.status(), 200, "{usage}");
            first.rest().await;
            let used = json!({"requests": 1, "input_tokens": 70, "output_tokens": 30});
            assert_eq!(until_idle(&proxy).await["used"], used, "{usage}");
            assert_eq!(send(&proxy, "/v1/chat/completions", body).await.status(), 429, "{usage}");
        }
    }
}

#[tokio::test]
async fn limits_of_a_key_hold_for_all_apis_and_headers_together() {
    let upstream = Upstream::start(at_once).await;
    let proxy = with_key(&upstream, "requests_per_minute = 3").start().await;
    let ask = async |path: &str, body: &'static str, header: &str, value: &str| {
        let request = Request::post(proxy.url(path)).header("content-type", "application/json");
        let request = request.header(header, value).body(Full::new(Bytes::from(body))).unwrap();
        Client::new().send(request).await.unwrap().status().as_u16()
    };
    let responses = r#"{"model":"m","input":"hi"}"#;
    assert_eq!(ask("/v1/chat/completions", WHOLE, "authorization", "Bearer k").await, 200);
    assert_eq!(ask("/v1/messages", MESSAGES, "x-api-key", "k").await, 200);
    assert_eq!(ask("/v1/responses", responses, "api-key", "k").await, 200);
    for (path, body, header, value) in [
        ("/v1/chat/completions", WHOLE, "x-api-key", "k"),
        ("/v1/messages", MESSAGES, "authorization", "Bearer k"),
        ("/v1/responses", responses, "x-api-key", "k"),
    ] {
        assert_eq!(ask(path, body, header, value).await, 429, "{path}");
    }
    assert_eq!(upstream.requests(), 3);
}

#[tokio::test]
async fn one_stream_is_one_stream_however_many_begin_at_once() {
    let go_on = Arc::new(tokio::sync::Notify::new());
    let upstream = crate::support::upstream::held(&go_on).await;
    let proxy = Arc::new(with_key(&upstream, "streams = 1").start().await);
    let mut sent = JoinSet::new();
    for _ in 0..20 {
        let proxy = Arc::clone(&proxy);
        sent.spawn(async move {
            let reply = send(&proxy, "/v1/chat/completions", STREAM).await;
            let status = reply.status().as_u16();
            reply.rest().await;
            status
        });
    }
    for _ in 0..19 {
        assert_eq!(soon("a refusal", sent.join_next()).await.unwrap().unwrap(), 429);
    }
    go_on.notify_one();
    assert_eq!(soon("the stream", sent.join_next()).await.unwrap().unwrap(), 200);
}

#[tokio::test]
async fn questions_to_other_models_count_for_the_client() {
    // Both the description and the response count.
    let upstream = counted(100, 20).await;
    let mut setup = Setup { vision: Some("org/other"), ..with_key(&upstream, "tokens_per_month = 1000") };
    setup.execution += "[admin]
";
    let proxy = setup.start().await;
    let body = r#"{"model":"m","messages":[{"role":"user","content":[
        {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgphYmM="}}]}]}"#;
    // The second time, the description is cached.
    for (requests, input, output) in [(1, 200, 40), (2, 300, 60)] {
        assert_eq!(send(&proxy, "/v1/chat/completions", body).await.status(), 200);
        let used = json!({"requests": requests, "input_tokens": input, "output_tokens": output});
        assert_eq!(until_idle(&proxy).await["used"], used);
    }
    let by_model = team(&proxy).await["used_by_model"].clone();
    assert_eq!(by_model["m"], json!({"requests": 2, "input_tokens": 200, "output_tokens": 40}));
    assert_eq!(by_model["org/other"], json!({"requests": 0, "input_tokens": 100, "output_tokens": 20}));
    let metrics = get(&proxy, "/metrics").await.rest().await;
    for line in [
        r#"toolwire_key_tokens_total{key="team",model="org/other",kind="input"} 100"#,
        r#"toolwire_key_tokens_total{key="team",model="m",kind="input"} 200"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn budget_survives_a_restart() {
    let (upstream, state) = (counted(70, 30).await, tempfile::tempdir().unwrap());
    for (request, status) in [(1, 200), (2, 429)] {
        let mut setup = with_key(&upstream, "tokens_per_month = 100");
        setup.state_dir = Some(state.path().to_owned());
        let mut proxy = setup.start().await;
        let reply = send(&proxy, "/v1/chat/completions", WHOLE).await;
        assert_eq!(reply.status(), status, "request {request}");
        reply.rest().await;
        proxy.stop();
        proxy.ended().await;
    }
}

#[tokio::test]
async fn running_server_notices_keys_that_are_made_and_revoked() {
    let (upstream, state) = (Upstream::start(at_once).await, tempfile::tempdir().unwrap());
    let mut setup = with_key(&upstream, "");
    setup.state_dir = Some(state.path().to_owned());
    let proxy = setup.start().await;
    // The hash of the key `new`.
    let entry = "[[keys]]\nid = \"abcdefgh\"\nname = \"later\"\n\
        hash = \"sha256:11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437\"\n";
    let revoked = format!("{entry}revoked = 2026-11-01T00:00:00Z\n");
    let status = || async {
        let request =
            Request::get(proxy.url("/v1/models")).header("x-api-key", "new").body(Full::default()).unwrap();
        Client::new().send(request).await.unwrap().status().as_u16()
    };
    let file = state.path().join("keys.toml");
    for (content, expected) in [(entry, 200), (&*revoked, 401), (entry, 200), ("", 401), (entry, 200)] {
        let fresh = state.path().join("fresh");
        fs::write(&fresh, content).unwrap();
        fs::rename(&fresh, &file).unwrap();
        soon("the server to notice", async {
            while status().await != expected {
                tokio::task::yield_now().await
            }
        })
        .await;
    }
    fs::remove_file(&file).unwrap();
    soon("the server to notice", async {
        while status().await != 401 {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert_eq!(get(&proxy, "/v1/models").await.status(), 200, "keys of the configuration stay");
}

#[tokio::test]
async fn events_name_the_client() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = with_key(&upstream, "");
    setup.execution += "[admin]\n";
    let proxy = setup.start().await;
    let mut feed = Client::new().get(&proxy, "/admin/events").await;
    assert_eq!(feed.status(), 200);
    send(&proxy, "/v1/chat/completions", WHOLE).await.rest().await;
    feed.until("\"key\":\"team\"").await;
}

/// Web pages may read the headers, and preflight requests need no key.
#[tokio::test]
async fn web_pages_may_read_rate_headers() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = with_key(&upstream, "requests_per_minute = 1");
    setup.cors_origins = toolwire::config::Origins::parse(&["https://ui.example"]).unwrap();
    let proxy = setup.start().await;
    let preflight = Request::options(proxy.url("/v1/chat/completions"))
        .header("origin", "https://ui.example")
        .header("access-control-request-method", "POST")
        .body(Full::default())
        .unwrap();
    assert_eq!(Client::new().send(preflight).await.unwrap().status(), 204);
    for status in [200, 429] {
        let mut request = post(&proxy, "/v1/chat/completions", WHOLE);
        request.headers_mut().insert("origin", "https://ui.example".parse().unwrap());
        let reply = Client::new().send(request).await.unwrap();
        assert_eq!(reply.status(), status);
        let exposed: Vec<_> = reply.header("access-control-expose-headers").unwrap().split(", ").collect();
        for name in
            ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"]
        {
            assert!(exposed.contains(&name) && reply.header(name).is_some(), "{name}");
        }
        if status == 429 {
            assert!(
                ["retry-after", "retry-after-ms"]
                    .iter()
                    .all(|name| exposed.contains(name) && reply.header(name).is_some())
            );
        }
    }
}

#[tokio::test]
async fn guesses_of_keys_are_slowed_down_in_every_api() {
    let upstream = Upstream::start(at_once).await;
    for (path, body, header) in [
        ("/v1/chat/completions", WHOLE, "authorization"),
        ("/v1/messages", MESSAGES, "x-api-key"),
        ("/v1/responses", r#"{"model":"m","input":"hi"}"#, "api-key"),
    ] {
        let mut setup = Setup::new(upstream.address);
        setup.keys = vec!["right"];
        let proxy = setup.start().await;
        let ask = |key: String| {
            let shown = if header == "authorization" { format!("Bearer {key}") } else { key };
            let request = Request::post(proxy.url(path))
                .header(header, shown)
                .header("content-type", "application/json");
            let request = request.body(Full::new(Bytes::from(body))).unwrap();
            async { Client::new().send(request).await }
        };
        for number in 0..10 {
            assert_eq!(ask(format!("guess{number}")).await.unwrap().status(), 401);
        }
        assert_eq!(ask("guess3".to_owned()).await.unwrap().status(), 401, "it is known to be wrong");
        let refused = ask("guess10".to_owned()).await.unwrap();
        assert_eq!(refused.status(), 429, "{path}");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        let error = refused.json().await;
        assert!(error.to_string().contains("rate_limit"), "{error}");
        assert_eq!(ask("right".to_owned()).await.unwrap().status(), 200, "a right key is served");
        assert_eq!(ask("guess11".to_owned()).await.unwrap().status(), 401, "it began anew");
    }
}
