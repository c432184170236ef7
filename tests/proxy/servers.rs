//! Tests upstreams whose software is detected in the background.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolwire::{dialect::chat::Server, rules::Enforce};

use crate::support::{
    proxy::Proxy,
    soon,
    taught::{ModelAnswer, describing_model, gist, required, response, setup},
};

const CALL: &str = "<tool_call>\n{\"name\":\"weather\",\"arguments\":{\"city\":\"Paris\"}}\n</tool_call>";

type Paths = Arc<Mutex<Vec<String>>>;

/// Records the paths of `GET` requests and answers them with `answer`.
fn noting(
    paths: &Paths,
    describe: impl Fn(&str) -> Option<(&'static str, String)> + Send + Sync + 'static,
) -> impl Fn(&str) -> Option<(&'static str, String)> + Send + Sync + 'static {
    let paths = Arc::clone(paths);
    move |path| {
        paths.lock().unwrap().push(path.to_owned());
        describe(path)
    }
}

/// Sends requests until one of them is constrained, and returns it.
async fn until_constrained(proxy: &Proxy, asked: &Mutex<Vec<Value>>) -> Value {
    soon("a constrained request", async {
        loop {
            response(proxy, &required(json!({}))).await;
            let last = asked.lock().unwrap().last().unwrap().clone();
            if ["response_format", "grammar", "ebnf"].iter().any(|key| last.get(key).is_some()) {
                return last;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn server_is_recognised_and_its_means_are_used() {
    let listed = |owner: &str| json!({"data": [{"id": "m", "owned_by": owner}]}).to_string();
    let props = json!({"build_info": "b1", "default_generation_settings": {}}).to_string();
    for (base, path, body, kind) in [
        ("base", "/base/models", listed("vllm"), "structural_tag"),
        ("v1", "/v1/models", listed("sglang"), "structural_tag"),
        ("v1", "/props", props.clone(), "json_schema"),
        ("a/v1/", "/a/props", props, "json_schema"),
        ("v1", "/api/version", json!({"version": "0.12.1"}).to_string(), "json_schema"),
    ] {
        let paths = Paths::default();
        let describe = noting(&paths, move |asked| match asked == path {
            true => Some(("200 OK", body.clone())),
            false => Some(("404 Not Found", "{}".to_owned())),
        });
        let (upstream, asked) = describing_model(|_| ModelAnswer::text(CALL), describe).await;
        let mut setup = setup(&upstream, Server::Unknown, Enforce::Auto);
        setup.upstream.base_url = format!("http://{}/{base}", upstream.address).parse().unwrap();
        let proxy = setup.start().await;
        let constrained = until_constrained(&proxy, &asked).await;
        assert_eq!(constrained["response_format"]["type"], kind, "{path}: {constrained}");
        assert!(asked.lock().unwrap()[0].get("response_format").is_none(), "the first request does not wait");
        let paths = paths.lock().unwrap();
        assert_eq!(paths.iter().filter(|asked| *asked == path).count(), 1, "{paths:?}");
        assert_eq!(paths.last().map(String::as_str), Some(path), "{paths:?}");
    }
}

#[tokio::test]
async fn requests_do_not_wait_for_probes() {
    let paths = Paths::default();
    let (upstream, asked) = describing_model(|_| ModelAnswer::text(CALL), noting(&paths, |_| None)).await;
    let proxy = setup(&upstream, Server::Unknown, Enforce::Auto).start().await;
    for _ in 0..5 {
        assert_eq!(gist(&response(&proxy, &required(json!({}))).await).2, "tool_calls");
    }
    assert!(asked.lock().unwrap().iter().all(|request| request.get("response_format").is_none()));
    assert!(paths.lock().unwrap().len() <= 1);
}

#[tokio::test]
async fn nothing_is_probed_without_need() {
    for (server, enforce) in [
        (Server::Other, Enforce::Auto),
        (Server::Vllm, Enforce::Auto),
        (Server::Unknown, Enforce::Off),
        (Server::Unknown, Enforce::Calls),
        (Server::Unknown, Enforce::Retry),
    ] {
        let paths = Paths::default();
        let (upstream, _) = describing_model(|_| ModelAnswer::text(CALL), noting(&paths, |_| None)).await;
        let proxy = setup(&upstream, server, enforce).start().await;
        for _ in 0..3 {
            response(&proxy, &required(json!({}))).await;
        }
        assert_eq!(*paths.lock().unwrap(), [""; 0], "{server:?} {enforce:?}");
    }
    // Requests without tools do not cause a probe, either.
    let paths = Paths::default();
    let (upstream, _) = describing_model(|_| ModelAnswer::text("hello"), noting(&paths, |_| None)).await;
    let proxy = setup(&upstream, Server::Unknown, Enforce::Auto).start().await;
    response(&proxy, &json!({"model": "m", "messages": [{"role": "user", "content": "?"}]})).await;
    assert_eq!(*paths.lock().unwrap(), [""; 0]);
}

/// No matter how hostile the answers, each probe is sent once, and requests continue without constraints.
#[tokio::test]
async fn hostile_answers_to_probes_do_no_harm() {
    let large = "{\"data\":[{\"owned_by\":\"vllm\",\"x\":\"".to_owned() + &"x".repeat(2 << 20) + "\"}]}";
    for (status, body) in [
        ("200 OK", large),
        ("200 OK", "[".repeat(200_000)),
        ("200 OK", "\u{1b}[31m\0\r\n<html>".to_owned()),
        ("200 OK", String::new()),
        ("500 Oh", json!({"data": [{"owned_by": "vllm"}]}).to_string()),
        ("302 Found\r\nlocation: /base/elsewhere", json!({"data": [{"owned_by": "vllm"}]}).to_string()),
        ("401 Unauthorized", String::new()),
    ] {
        let paths = Paths::default();
        let (upstream, asked) = describing_model(
            |_| ModelAnswer::text(CALL),
            noting(&paths, move |_| Some((status, body.clone()))),
        )
        .await;
        let proxy = setup(&upstream, Server::Unknown, Enforce::Auto).start().await;
        soon("all probes", async {
            while paths.lock().unwrap().len() < 6 {
                assert_eq!(gist(&response(&proxy, &required(json!({}))).await).2, "tool_calls");
            }
        })
        .await;
        for _ in 0..5 {
            response(&proxy, &required(json!({}))).await;
        }
        assert!(asked.lock().unwrap().iter().all(|request| request.get("response_format").is_none()));
        let paths = paths.lock().unwrap();
        assert_eq!(paths.len(), 6, "{paths:?}");
        assert!(!paths.iter().any(|path| path.contains("elsewhere")), "{paths:?}");
    }
}

/// A detected server may reject the constraint that its software should support.
#[tokio::test]
async fn means_of_a_recognised_server_may_be_refused() {
    let listed = json!({"data": [{"id": "m", "owned_by": "llamacpp"}]}).to_string();
    let (upstream, asked) = describing_model(
        |request| match request.get("response_format") {
            Some(_) => ModelAnswer::Refused("400 Bad Request", "unknown field"),
            None => ModelAnswer::text(CALL),
        },
        move |_| Some(("200 OK", listed.clone())),
    )
    .await;
    let proxy = setup(&upstream, Server::Unknown, Enforce::Auto).start().await;
    let constrained = until_constrained(&proxy, &asked).await;
    assert!(constrained.get("grammar").is_some(), "{constrained}");
}
