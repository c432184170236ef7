//! Tests two instances that share a store, and what happens to each kind of state while the store is down. Skipped
//! if no server for the store is installed.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, header::AUTHORIZATION};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolwire::{
    config::{StoreKind, UncheckedBudgets},
    conversation::WantsBack,
    dialect::{UpstreamDialect, chat::Options},
    store::StoreAddress,
};

use crate::{
    independent::redis_server::{RedisCluster, RedisServer},
    support::{
        client::{Client, Reply, weather},
        proxy::{Proxy, Setup},
        soon,
        upstream::{Exchange, Upstream, at_once},
    },
};

/// The configuration of a client with these limits.
fn key(limits: &str) -> String {
    format!("[[keys]]\nname = \"team\"\nkey = \"k\"\n{limits}\n")
}

/// An instance that uses this store.
async fn instance(upstream: &Upstream, server: &RedisServer, execution: &str) -> Proxy {
    instance_of(Setup { execution: execution.to_owned(), ..Setup::new(upstream.address) }, server).await
}

async fn instance_of(setup: Setup, server: &RedisServer) -> Proxy {
    instance_at(setup, &server.url()).await
}

/// An instance that uses the store at `url`.
async fn instance_at(mut setup: Setup, url: &str) -> Proxy {
    setup.store = StoreKind::Redis(StoreAddress::parse(url).unwrap());
    setup.limits.instances = 2;
    setup.start().await
}

async fn send(proxy: &Proxy, method: Method, path: &str, body: &Value) -> Reply {
    send_as("k", proxy, method, path, body).await
}

async fn send_as(key: &str, proxy: &Proxy, method: Method, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let shown = format!("Bearer {key}");
    let request = Request::builder().method(method).uri(proxy.url(path)).header(AUTHORIZATION, shown);
    let request = request.header("content-type", "application/json").body(Full::new(body)).unwrap();
    soon("a response", Client::new().send(request)).await.unwrap()
}

async fn post(proxy: &Proxy, path: &str, body: &Value) -> (u16, Value) {
    let reply = send(proxy, Method::POST, path, body).await;
    (reply.status().as_u16(), reply.json().await)
}

fn chat() -> Value {
    json!({"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]})
}

/// Repeats a request until it has this status, and returns the answer.
async fn until_status(proxy: &Proxy, path: &str, body: &Value, status: u16) -> Value {
    let asked = async {
        loop {
            let (got, answer) = post(proxy, path, body).await;
            if got == status {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    soon("another status", asked).await
}

async fn metric(proxy: &Proxy, name: &str) -> String {
    let text = Client::new().get(proxy, "/metrics").await.rest().await;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn response_is_continued_and_deleted_at_another_instance() {
    let Some(server) = RedisServer::start().unwrap() else { return };
    let upstream = Upstream::start(at_once).await;
    let (first, second) =
        (instance(&upstream, &server, &key("")).await, instance(&upstream, &server, &key("")).await);
    for _ in 0..10 {
        let (status, one) = post(&first, "/v1/responses", &json!({"model": "m", "input": "one"})).await;
        assert_eq!(status, 200, "{one}");
        let next = json!({"model": "m", "input": "two", "previous_response_id": one["id"]});
        let (status, two) = post(&second, "/v1/responses", &next).await;
        assert_eq!((status, &two["previous_response_id"]), (200, &one["id"]), "{two}");
        let path = format!("/v1/responses/{}", one["id"].as_str().unwrap());
        assert_eq!(send(&second, Method::DELETE, &path, &Value::Null).await.status(), 200);
        assert_eq!(send(&first, Method::GET, &path, &Value::Null).await.status(), 404);
    }
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let chunk = json!({"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

fn call(index: usize, name: &str) -> Value {
    json!({"tool_calls": [{"index": index, "id": format!("call_{index}"), "type": "function",
        "function": {"name": name, "arguments": "{\"city\":\"x\"}"}}]})
}

/// An upstream that answers with `stream`, and with text once it gets results. Also returns its last request.
async fn calling(stream: String) -> (Upstream, Arc<std::sync::Mutex<Value>>) {
    let asked = Arc::new(std::sync::Mutex::new(Value::Null));
    let shared = (Arc::clone(&asked), stream);
    let upstream = Upstream::start_sharing(shared, |exchange: Exchange, (asked, stream)| async move {
        let body: Value = serde_json::from_slice(&exchange.body).unwrap();
        let is_first = body["messages"].as_array().unwrap().len() == 1;
        *asked.lock().unwrap() = body;
        let done = chunk(&json!({"content": "Done."}), None) + &chunk(&json!({}), Some("stop"));
        let stream = if is_first { stream } else { done };
        exchange.stream(stream + "data: [DONE]\n\n").await
    });
    (upstream.await, asked)
}

fn next(message: &Value) -> Value {
    let mut request = weather(json!({}));
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(message.clone());
    for call in message["tool_calls"].as_array().unwrap() {
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny"}));
    }
    request
}

/// A hosted tool that takes one second.
const TOOLS: &str = "[execution]\nmixed_turns = \"defer\"\n[[providers]]\nname = \"search\"\nkind = \"command\"\n\
                     command = [\"sh\", \"-c\", \"sleep 1; printf found\"]\ndescription = \"Searches.\"\n";

/// A response that calls both the hosted tool and the client's tool.
fn mixed_turn() -> String {
    let calls = chunk(&call(0, "search"), None) + &chunk(&call(1, "weather"), None);
    calls + &chunk(&json!({}), Some("tool_calls"))
}

/// The first instance is still running the hosted call when the second one gets the client's result.
#[tokio::test]
async fn mixed_turn_is_completed_at_another_instance_which_waits_for_its_results() {
    let Some(mut server) = RedisServer::start().unwrap() else { return };
    let (upstream, asked) = calling(mixed_turn()).await;
    let execution = key("") + TOOLS;
    let first = instance(&upstream, &server, &execution).await;
    let second = instance(&upstream, &server, &execution).await;
    let (status, response) = post(&first, "/v1/chat/completions", &weather(json!({}))).await;
    let message = &response["choices"][0]["message"];
    assert_eq!((status, message["tool_calls"].as_array().map(Vec::len)), (200, Some(1)), "{response}");
    let (status, response) = post(&second, "/v1/chat/completions", &next(message)).await;
    assert_eq!(status, 200, "{response}");
    let sent = asked.lock().unwrap()["messages"].clone();
    let names = sent[1]["tool_calls"].as_array().unwrap().iter().map(|call| &call["function"]["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["search", "weather"], "{sent}");
    assert_eq!((&sent[2]["content"], &sent[3]["content"]), (&json!("found"), &json!("sunny")), "{sent}");

    // Without the store, it is unknown whether the turn has more calls.
    server.kill().unwrap();
    let away = until_status(&second, "/v1/chat/completions", &next(message), 503).await;
    assert_eq!(away["error"]["code"], "store_unavailable", "{away}");
    let (status, plain) = post(&second, "/v1/chat/completions", &weather(json!({}))).await;
    assert_eq!(status, 200, "{plain}");
    server.restart().unwrap();
    until_status(&second, "/v1/chat/completions", &next(message), 200).await;
}

/// A request that has not reached any target says nothing about the targets.
#[tokio::test]
async fn store_that_is_away_ejects_no_target() {
    let Some(mut server) = RedisServer::start().unwrap() else { return };
    let (upstream, _) = calling(mixed_turn()).await;
    let config = format!(
        "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://{}/v1\"\n\
         [[models]]\nname = \"one\"\nupstream = \"up\"\n[[models]]\nname = \"two\"\nupstream = \"up\"\n\
         [[models]]\nname = \"m\"\ntargets = [\"one\", \"two\"]\n[failover]\neject_after = 1\n{}{TOOLS}",
        upstream.address,
        key(""),
    );
    let first = Proxy::with_store(&server.url(), &config);
    let second = Proxy::with_store(&server.url(), &config);
    let (status, response) = post(&first, "/v1/chat/completions", &weather(json!({}))).await;
    let message = &response["choices"][0]["message"];
    assert_eq!((status, message["tool_calls"].as_array().map(Vec::len)), (200, Some(1)), "{response}");

    server.kill().unwrap();
    let away = until_status(&second, "/v1/chat/completions", &next(message), 503).await;
    assert_eq!(away["error"]["code"], "store_unavailable", "{away}");
    let metrics = Client::new().get(&second, "/metrics").await.rest().await;
    assert!(metrics.contains("toolwire_ejected_targets 0"), "{metrics}");
    assert!(!metrics.contains("target=\"two\""), "nobody else was asked: {metrics}");
}

#[tokio::test]
async fn state_of_a_turn_is_put_back_at_another_instance() {
    let Some(server) = RedisServer::start().unwrap() else { return };
    let stream = chunk(&json!({"reasoning_content": "hm"}), None) + &chunk(&call(0, "weather"), None);
    let (upstream, asked) = calling(stream + &chunk(&json!({}), Some("tool_calls"))).await;
    let setup = || {
        let mut setup = Setup { execution: key(""), ..Setup::new(upstream.address) };
        let mut options = Options::of_host("");
        options.wants_back = WantsBack::Reasoning;
        setup.upstream.options = UpstreamDialect::Chat(options);
        setup
    };
    let (first, second) = (instance_of(setup(), &server).await, instance_of(setup(), &server).await);
    let (_, response) = post(&first, "/v1/chat/completions", &weather(json!({}))).await;
    let calls = &response["choices"][0]["message"]["tool_calls"];
    let replayed = json!({"role": "assistant", "content": null, "tool_calls": calls});
    // The response is only written to the store after it has ended.
    let known = async {
        loop {
            post(&second, "/v1/chat/completions", &next(&replayed)).await;
            if asked.lock().unwrap()["messages"][1]["reasoning_content"] == "hm" {
                return;
            }
        }
    };
    soon("the state", known).await;
}

#[tokio::test]
async fn limits_hold_for_both_instances_together() {
    let Some(server) = RedisServer::start().unwrap() else { return };
    let upstream = Upstream::start(at_once).await;
    let limits = key("requests_per_minute = 4\ntokens_per_minute = 100000");
    let instances =
        [instance(&upstream, &server, &limits).await, instance(&upstream, &server, &limits).await];
    for number in 0..4 {
        let reply = send(&instances[number % 2], Method::POST, "/v1/chat/completions", &chat()).await;
        assert_eq!(reply.status(), 200);
        let left = (3 - number).to_string();
        assert_eq!(reply.header("x-ratelimit-remaining-requests"), Some(left.as_str()));
        assert_eq!(reply.header("x-ratelimit-limit-tokens"), Some("100000"));
        reply.rest().await;
    }
    for proxy in &instances {
        let reply = send(proxy, Method::POST, "/v1/chat/completions", &chat()).await;
        assert_eq!(
            (reply.status().as_u16(), reply.header("x-ratelimit-remaining-requests")),
            (429, Some("0"))
        );
        assert!(reply.header("retry-after").is_some());
    }
}

#[tokio::test]
async fn store_that_is_away_degrades_limits_and_refuses_what_depends_on_it() {
    let Some(mut server) = RedisServer::start().unwrap() else { return };
    let upstream = Upstream::start(at_once).await;
    let limits = key("requests_per_minute = 6\ntokens_per_month = 100000");
    let proxy = instance(&upstream, &server, &limits).await;
    let mut strict = Setup { execution: limits.clone(), ..Setup::new(upstream.address) };
    strict.limits.unchecked_budgets = UncheckedBudgets::Refuse;
    let strict = instance_of(strict, &server).await;
    let (_, one) = post(&proxy, "/v1/responses", &json!({"model": "m", "input": "one"})).await;
    let next = json!({"model": "m", "input": "two", "previous_response_id": one["id"]});
    // Waits until another instance has the response. Until it is in the store, only the first instance has it.
    let path = format!("/v1/responses/{}", one["id"].as_str().unwrap());
    let written = async { while send(&strict, Method::GET, &path, &Value::Null).await.status() != 200 {} };
    soon("the response at another instance", written).await;
    assert_eq!(metric(&proxy, "toolwire_store_away").await, "0");

    server.kill().unwrap();
    let away = until_status(&proxy, "/v1/responses", &next, 503).await;
    assert_eq!(away["error"]["code"], "store_unavailable", "{away}");
    assert_eq!(metric(&proxy, "toolwire_store_away").await, "1");
    assert_eq!(send(&proxy, Method::GET, "/readyz", &Value::Null).await.status(), 200);
    // With two instances, each admits half of the limit.
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(post(&proxy, "/v1/chat/completions", &chat()).await.0);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(metric(&proxy, "toolwire_unchecked_requests_total").await, "3");
    let refused = until_status(&strict, "/v1/chat/completions", &chat(), 503).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("cannot be looked up"), "{refused}");

    server.restart().unwrap();
    until_status(&proxy, "/v1/responses", &next, 200).await;
    assert_eq!(metric(&proxy, "toolwire_store_away").await, "0");
}

#[tokio::test]
async fn no_request_hangs_when_the_store_is_killed_under_load() {
    let Some(mut server) = RedisServer::start().unwrap() else { return };
    let upstream = Upstream::start(at_once).await;
    let limits = key(
        "requests_per_minute = 100000\ntokens_per_minute = 100000000\nstreams = 100\ntokens_per_month = 1000000000",
    );
    let instances =
        Arc::new([instance(&upstream, &server, &limits).await, instance(&upstream, &server, &limits).await]);
    let mut load = JoinSet::new();
    for number in 0..8 {
        let instances = Arc::clone(&instances);
        load.spawn(async move {
            let (mut statuses, mut last) = (Vec::new(), Value::Null);
            for round in 0..40 {
                let proxy = &instances[(number + round) % 2];
                let mut body = json!({"model": "m", "input": "x"});
                if !last.is_null() {
                    body["previous_response_id"] = last.clone();
                }
                let (status, answer) = post(proxy, "/v1/responses", &body).await;
                statuses.push(status);
                // A response stored during an outage reaches the other instance only after the outage.
                last = if status == 200 && round % 4 != 3 { answer["id"].clone() } else { Value::Null };
            }
            statuses
        });
    }
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        server.kill().unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        server.restart().unwrap();
    }
    let statuses: Vec<_> = load.join_all().await.into_iter().flatten().collect();
    let unexpected = statuses.iter().filter(|status| !matches!(status, 200 | 404 | 503)).count();
    assert_eq!((statuses.len(), unexpected), (320, 0), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 200).count() >= 80, "{statuses:?}");
    // Every request that began has been settled, so no slot is left occupied.
    let one = json!({"model": "m", "input": "x"});
    until_status(&instances[0], "/v1/responses", &one, 200).await;
}

async fn is_allowed(proxy: &Proxy) -> bool {
    let (status, result) = post(proxy, "/admin/tools/careful/run", &json!({})).await;
    assert_eq!(status, 200, "{result}");
    let is_denied = result["result"]["error"]["code"] == "permission_denied";
    assert_ne!(result["ok"] == true, is_denied, "{result}");
    !is_denied
}

#[tokio::test]
async fn remembered_permission_holds_at_every_instance_and_is_revoked_at_any() {
    const TOOLS: &str = "[admin]\napi_keys = [\"k\"]\n[execution]\n[[providers]]\nname = \"careful\"\nkind = \"command\"\n\
                         command = [\"printf\", \"done\"]\ndescription = \"Acts.\"\n\
                         [[tools]]\nname = \"careful\"\npermission = \"ask\"\n";
    let Some(mut server) = RedisServer::start().unwrap() else { return };
    let upstream = Upstream::start(at_once).await;
    let (first, second) =
        (instance(&upstream, &server, TOOLS).await, instance(&upstream, &server, TOOLS).await);
    assert!(!is_allowed(&first).await && !is_allowed(&second).await);
    let (status, answer) = post(&first, "/admin/permissions/allow_all", &json!({})).await;
    assert_eq!(status, 200, "{answer}");
    assert!(is_allowed(&first).await && is_allowed(&second).await);

    // Without the store, it is unknown which permissions have been granted.
    server.kill().unwrap();
    assert!(!is_allowed(&first).await && !is_allowed(&second).await);
    let (status, refused) = post(&second, "/admin/permissions/allow_all", &json!({})).await;
    assert_eq!((status, &refused["error"]["code"]), (503, &json!("store_unavailable")), "{refused}");
    server.restart().unwrap();
    soon("the store", async { while !(is_allowed(&first).await && is_allowed(&second).await) {} }).await;

    let list = send(&second, Method::GET, "/admin/permissions", &Value::Null).await.json().await;
    let rule = format!("/admin/permissions/rules/{}", list["rules"][0]["id"].as_str().unwrap());
    assert_eq!(send(&second, Method::DELETE, &rule, &Value::Null).await.status(), 204);
    assert!(!is_allowed(&first).await && !is_allowed(&second).await);
    assert_eq!(send(&first, Method::DELETE, &rule, &Value::Null).await.status(), 404);
}

/// Each of the three servers stores the state of some clients.
#[tokio::test]
async fn server_of_a_cluster_that_is_away_concerns_only_its_clients() {
    let Some(mut cluster) = RedisCluster::start(3).unwrap() else { return };
    let upstream = Upstream::start(at_once).await;
    let clients: Vec<_> = (0..16).map(|number| format!("k{number}")).collect();
    let keys = clients
        .iter()
        .map(|key| format!("[[keys]]\nname = \"{key}\"\nkey = \"{key}\"\nrequests_per_minute = 1000\n"));
    let keys: String = keys.collect();
    let setup = || Setup { execution: keys.clone(), ..Setup::new(upstream.address) };
    let first = instance_at(setup(), &cluster.url()).await;
    let second = instance_at(setup(), &cluster.url()).await;
    let (mut paths, mut nexts) = (Vec::new(), Vec::new());
    for key in &clients {
        let body = json!({"model": "m", "input": "one"});
        let one = send_as(key, &first, Method::POST, "/v1/responses", &body).await.json().await;
        paths.push(format!("/v1/responses/{}", one["id"].as_str().unwrap()));
        nexts.push(json!({"model": "m", "input": "two", "previous_response_id": one["id"]}));
    }
    let statuses = async |proxy: &Proxy, method: Method, paths: &[String], bodies: &[Value]| {
        let mut statuses = Vec::new();
        for ((key, path), body) in clients.iter().zip(paths).zip(bodies) {
            statuses.push(send_as(key, proxy, method.clone(), path, body).await.status().as_u16());
        }
        statuses
    };
    let (nothing, posted) =
        (vec![Value::Null; clients.len()], vec!["/v1/responses".to_owned(); clients.len()]);
    let all = vec![200; clients.len()];
    let known = async { while statuses(&second, Method::GET, &paths, &nothing).await != all {} };
    soon("all responses at the other instance", known).await;

    cluster.servers[0].kill().unwrap();
    let away = async {
        while metric(&second, "toolwire_store_away").await != "1" {
            statuses(&second, Method::GET, &paths, &nothing).await;
        }
    };
    soon("the end of a server", away).await;
    let continued = statuses(&second, Method::POST, &posted, &nexts).await;
    let is = |status| continued.iter().filter(|got| **got == status).count();
    assert!(is(200) > 0 && is(503) > 0 && is(200) + is(503) == clients.len(), "{continued:?}");
    let plain = vec![json!({"model": "m", "input": "x", "store": false}); clients.len()];
    assert_eq!(statuses(&second, Method::POST, &posted, &plain).await, all, "what needs no value carries on");
    let unchecked: usize = metric(&second, "toolwire_unchecked_requests_total").await.parse().unwrap();
    assert_eq!(unchecked, is(503), "the limits of the others hold for both instances");

    cluster.servers[0].restart().unwrap();
    let back = async { while statuses(&second, Method::POST, &posted, &nexts).await != all {} };
    soon("the server", back).await;
    assert_eq!(metric(&second, "toolwire_store_away").await, "0");
}
