//! Tests that every request is logged on one line, no matter how it ends, without bodies or secrets.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use http::{HeaderValue, Request};
use http_body_util::Full;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{
    client::{Client, STREAM, chat_request},
    proxy::Setup,
    soon,
    upstream::{END, Upstream, at_once, text},
};

/// The token counts and the end of a response.
const USAGE: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[],\
    \"usage\":{\"prompt_tokens\":11,\"completion_tokens\":7,\"total_tokens\":18}}\n\ndata: [DONE]\n\n";

#[derive(Debug, Default, Clone)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    async fn of_requests(&self, count: usize) -> Vec<Value> {
        let read = async {
            loop {
                let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
                let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                let lines: Vec<_> = lines.filter(|line| line["target"] == "toolwire::access").collect();
                if lines.len() >= count {
                    return lines;
                }
                tokio::task::yield_now().await;
            }
        };
        soon("the log", read).await
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Writer<'a>;

    fn make_writer(&'a self) -> Writer<'a> {
        Writer(self.0.lock().unwrap())
    }
}

struct Writer<'a>(MutexGuard<'a, Vec<u8>>);

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn every_request_is_logged_once() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_writer(lines.clone()).finish();
    // With a single dispatcher, tracing caches for each log statement whether it was enabled on the first thread that
    // reached it. That thread may run another test. A second dispatcher disables the cache.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    // The test's runtime has one thread, so everything that the proxy logs arrives here.
    let _log = tracing::subscriber::set_default(subscriber);
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        exchange.piece(text("answer-text")).await;
        match exchange.header("x-extra") {
            Some("cut") => {}
            Some("hold") => exchange.gone().await,
            _ => {
                exchange.piece(END.replace("data: [DONE]\n\n", USAGE)).await;
                exchange.end().await;
            }
        }
        exchange
    })
    .await;
    let client = Client::new();
    let mut ends = Vec::new();
    for (count, extra) in ["", "cut", "hold"].into_iter().enumerate() {
        let mut setup = Setup::new(upstream.address);
        setup.execution = "[[keys]]\nname = \"team\"\nkey = \"clients-secret\"\n".to_owned();
        setup.upstream.headers.insert("x-extra", HeaderValue::from_static(extra));
        let proxy = setup.start().await;
        let mut request = chat_request(&proxy, STREAM);
        request.headers_mut().insert("x-api-key", HeaderValue::from_static("clients-secret"));
        request.headers_mut().insert("x-request-id", HeaderValue::from_str(&format!("id-{count}")).unwrap());
        let mut reply = client.send(request).await.unwrap();
        reply.until("answer-text").await;
        if extra == "hold" {
            drop(reply);
        } else {
            reply.rest().await;
        }
        let line = lines.of_requests(count + 1).await.pop().unwrap();
        assert_eq!((&line["id"], &line["method"]), (&format!("id-{count}").into(), &"POST".into()));
        assert_eq!((&line["model"], &line["upstream"]), (&"m".into(), &"up".into()));
        assert_eq!((&line["dialect"], &line["stream"]), (&"chat".into(), &true.into()));
        assert_eq!((&line["path"], &line["status"]), (&"/v1/chat/completions".into(), &200.into()));
        assert!(line["ttfb_ms"].is_f64() && line["duration_ms"].is_f64(), "{line}");
        assert!(line["bytes_out"].as_u64().unwrap() > 100, "{line}");
        assert_eq!((&line["key"], &line["entry"], &line["hops"]), (&"team".into(), &"m".into(), &1.into()));
        assert!(line["ttft_ms"].is_f64() && line["calls"] == 0, "{line}");
        assert_eq!(line["finish"] == "stop", extra.is_empty(), "{line}");
        assert!(
            line["output_tokens"].as_u64().unwrap() > 0,
            "estimated, if the upstream does not count: {line}"
        );
        if extra.is_empty() {
            assert_eq!((&line["input_tokens"], &line["output_tokens"]), (&11.into(), &7.into()));
        }
        ends.push(line["end"].clone());
    }
    assert_eq!(ends, ["done", "failed:upstream_truncated", "cancelled"]);
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for secret in ["clients-secret", "upstream-key", "answer-text", "\"hi\""] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

#[tokio::test]
async fn refused_keys_are_logged_with_the_address_that_showed_them() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_writer(lines.clone()).finish();
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _log = tracing::subscriber::set_default(subscriber);
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["right-secret"];
    setup.execution = "[admin]\napi_keys = [\"admin-key-of-tests\"]\n".to_owned();
    let proxy = setup.start().await;
    let client = Client::new();
    for (path, key) in [
        ("/v1/models", "wrong-secret-1"),
        ("/v1/models", "wrong-secret-2"),
        ("/v1/models", "right-secret"),
        ("/admin/tools", "wrong-secret-3"),
        ("/admin/tools", "wrong-secret-3"),
    ] {
        let request = Request::get(proxy.url(path)).header("authorization", format!("Bearer {key}"));
        client.send(request.body(Full::default()).unwrap()).await.unwrap().rest().await;
    }
    let requests = lines.of_requests(5).await;
    let peers: Vec<_> = requests.iter().map(|line| line["peer"].as_str().unwrap_or_default()).collect();
    assert_eq!(peers, ["127.0.0.1", "127.0.0.1", "", "127.0.0.1", "127.0.0.1"]);
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let warnings: Vec<_> = warnings.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(warnings.len(), 2, "one line for each API: {log}");
    assert!(warnings.iter().all(|line| line["peer"] == "127.0.0.1"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}
