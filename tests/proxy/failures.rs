//! Tests upstreams that refuse, break off, send malformed data or take too long. The client must get all content
//! that is certain, then an error in its dialect, and never a clean end.

use std::time::Duration;

use serde_json::Value;

use crate::support::{
    client::{Client, STREAM, WHOLE, stream_error},
    proxy::Setup,
    upstream::{Exchange, Upstream, text},
};

const SHORT: Duration = Duration::from_millis(250);

/// Returns the status, `Retry-After` and the error object of an answer that fails before it begins. Asserts that
/// they are the same with and without streaming.
async fn refused<F>(change: fn(&mut Setup), script: fn(Exchange) -> F) -> (u16, Option<String>, Value)
where
    F: Future<Output = Exchange> + Send + 'static,
{
    let upstream = Upstream::start(script).await;
    let mut answers = Vec::new();
    for body in [STREAM, WHOLE] {
        let mut setup = Setup::new(upstream.address);
        change(&mut setup);
        let proxy = setup.start().await;
        let reply = Client::new().chat(&proxy, body).await;
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let retry_after = reply.header("retry-after").map(str::to_owned);
        let status = reply.status().as_u16();
        let error = reply.json().await["error"].clone();
        assert!(error["message"].is_string(), "{error}");
        answers.push((status, retry_after, error));
    }
    assert_eq!(answers[0], answers[1]);
    answers.remove(0)
}

/// Returns the error of a stream that fails after `first`. Asserts that everything before the error arrives.
async fn broken<F>(change: fn(&mut Setup), script: fn(Exchange) -> F) -> Value
where
    F: Future<Output = Exchange> + Send + 'static,
{
    let upstream = Upstream::start(script).await;
    let mut setup = Setup::new(upstream.address);
    change(&mut setup);
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, STREAM).await;
    assert_eq!(reply.status(), 200);
    let body = reply.rest().await;
    assert!(body.contains("first"), "what was certain is missing: {body}");
    stream_error(&body)
}

/// Returns the error of a request whose upstream does not complete its head within `timeouts.header`.
async fn without_head<F>(script: impl Fn(Exchange) -> F + Clone + Send + 'static) -> Value
where
    F: Future<Output = Exchange> + Send + 'static,
{
    let upstream = Upstream::start(script).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.timeouts.header = SHORT;
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, STREAM).await;
    assert_eq!(reply.status(), 504);
    reply.json().await["error"].clone()
}

fn as_it_is(_: &mut Setup) {}

#[tokio::test]
async fn secrets_in_an_upstreams_errors_are_covered() {
    const WORDS: &str = r#"{"error":{"message":"no: upstream-key, client-key, Bearer header-token and sk-live-0123456789",
        "code":"sk-live-0123456789","param":"upstream-key","type":"x"}}"#;
    fn secrets(setup: &mut Setup) {
        let mut headers = http::HeaderMap::new();
        headers.insert("x-auth", http::HeaderValue::from_static("Bearer header-token"));
        setup.upstream.headers = headers;
    }
    let is_covered = |error: &Value| {
        let text = error.to_string();
        let secrets = ["upstream-key", "header-token", "sk-live"];
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "{text}");
        assert!(text.contains("no: xxxxxxxxxxxx, client-key, Bearer xxxxxxxxxxxx and xxxx"), "{text}");
    };
    let (status, _, error) = refused(secrets, |mut exchange| async {
        exchange.whole("400 Bad Request", "content-type: application/json\r\n", WORDS).await;
        exchange
    })
    .await;
    assert_eq!(status, 400);
    is_covered(&error);
    let error = broken(secrets, |exchange| async {
        let mut exchange = first(exchange).await;
        exchange.piece(format!("data: {}\n\n", WORDS.replace('\n', ""))).await;
        exchange
    })
    .await;
    is_covered(&error);
}

async fn first(mut exchange: Exchange) -> Exchange {
    exchange.begin().await;
    exchange.piece(text("first")).await;
    exchange
}

#[tokio::test]
async fn refusals_keep_status_and_retry_after() {
    let (status, retry_after, error) = refused(as_it_is, |mut exchange| async {
        let body = r#"{"error":{"message":"slow down","type":"tokens","code":"too_fast"}}"#;
        exchange.whole("429 Too Many Requests", "retry-after: 17\r\n", body).await;
        exchange
    })
    .await;
    assert_eq!((status, retry_after.as_deref()), (429, Some("17")));
    assert!(error["message"].as_str().unwrap().contains("slow down"), "{error}");

    let (status, _, _) = refused(as_it_is, |mut exchange| async {
        exchange.whole("401 Unauthorized", "", r#"{"error":{"message":"bad key"}}"#).await;
        exchange
    })
    .await;
    assert_eq!(status, 401);

    let (status, retry_after, _) = refused(as_it_is, |mut exchange| async {
        exchange.whole("503 Service Unavailable", "retry-after: 3\r\n", "<html>busy</html>").await;
        exchange
    })
    .await;
    assert_eq!((status, retry_after.as_deref()), (503, Some("3")));
}

#[tokio::test]
async fn refusals_that_never_end_are_cut_short() {
    let (status, ..) = refused(as_it_is, |mut exchange| async {
        exchange.raw("HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n").await;
        for _ in 0..100 {
            exchange.piece("x".repeat(4096)).await;
        }
        exchange.gone().await;
        exchange
    })
    .await;
    assert_eq!(status, 400);
    let (status, ..) = refused(
        |setup| setup.upstream.timeouts.idle = SHORT,
        |mut exchange| async {
            exchange.raw("HTTP/1.1 500 Oops\r\ncontent-length: 1000\r\n\r\nhalf of it").await;
            exchange.gone().await;
            exchange
        },
    )
    .await;
    assert!(status >= 500, "{status}");
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached() {
    let upstream = Upstream::start(|exchange| async { exchange }).await;
    let mut setup = Setup::new(upstream.address);
    drop(upstream);
    setup.upstream.name = "far".to_owned();
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, STREAM).await;
    assert_eq!(reply.status(), 502);
    let error = reply.json().await["error"].clone();
    assert_eq!(error["code"], "upstream_unreachable");
    assert!(error["message"].as_str().unwrap().contains("`far`"), "{error}");
}

#[tokio::test]
async fn an_upstream_that_closes_or_resets_before_it_answers() {
    let (status, _, error) = refused(as_it_is, |exchange| async { exchange }).await;
    assert_eq!((status, &error["code"]), (502, &"upstream_unreachable".into()));
    let (status, _, error) = refused(as_it_is, |mut exchange| async {
        exchange.reset();
        exchange
    })
    .await;
    assert_eq!((status, &error["code"]), (502, &"upstream_unreachable".into()));
}

#[tokio::test]
async fn an_upstream_that_answers_what_is_no_stream() {
    let garbage = refused(as_it_is, |mut exchange| async {
        exchange.raw("\u{1}\u{2}garbage\r\n\r\n").await;
        exchange.gone().await;
        exchange
    });
    let page = refused(as_it_is, |mut exchange| async {
        exchange.whole("200 OK", "content-type: text/html\r\n", "<!doctype html><title>Login</title>").await;
        exchange
    });
    let redirect = refused(as_it_is, |mut exchange| async {
        exchange.whole("302 Found", "location: https://example.org/\r\n", "").await;
        exchange
    });
    let zipped = refused(as_it_is, |mut exchange| async {
        exchange.whole("200 OK", "content-encoding: gzip\r\n", "\u{1f}\u{8b}").await;
        exchange
    });
    for (status, _, error) in [garbage.await, page.await, redirect.await, zipped.await] {
        assert_eq!((status, &error["code"]), (502, &"upstream_protocol".into()), "{error}");
    }
}

#[tokio::test]
async fn an_upstream_that_says_nothing_at_all() {
    let (status, ..) = refused(as_it_is, |mut exchange| async {
        exchange.begin().await;
        exchange.end().await;
        exchange
    })
    .await;
    assert_eq!(status, 502);
}

#[tokio::test]
async fn an_error_before_the_first_content_has_its_status() {
    let (status, ..) = refused(as_it_is, |mut exchange| async {
        exchange.begin().await;
        exchange.piece(": queued\n\n").await;
        exchange.piece("data: {\"error\":{\"message\":\"no\",\"code\":\"error\"}}\n\n").await;
        exchange.end().await;
        exchange
    })
    .await;
    assert!(status >= 500, "{status}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_error() {
    let closed = broken(as_it_is, first);
    let reset = broken(as_it_is, |exchange| async {
        let mut exchange = first(exchange).await;
        // A reset discards data in transit, so this gives the proxy time to read it.
        tokio::time::sleep(SHORT).await;
        exchange.reset();
        exchange
    });
    let ended = broken(as_it_is, |exchange| async {
        let mut exchange = first(exchange).await;
        exchange.end().await;
        exchange
    });
    let half_an_event = broken(as_it_is, |exchange| async {
        let mut exchange = first(exchange).await;
        exchange.piece("data: {\"choices\":[{\"del").await;
        exchange.end().await;
        exchange
    });
    for error in [closed.await, reset.await, ended.await, half_an_event.await] {
        assert_eq!(error["code"], "upstream_truncated", "{error}");
    }
}

/// Content before an error is certain, no matter how the network splits the two.
#[tokio::test]
async fn content_and_error_in_one_piece_are_both_sent() {
    let error = broken(as_it_is, |mut exchange| async {
        exchange.begin().await;
        let error = "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n";
        exchange.piece(text("first") + error).await;
        exchange.end().await;
        exchange
    })
    .await;
    assert!(error["message"].as_str().unwrap().contains("out of memory"), "{error}");
}

#[tokio::test]
async fn a_whole_answer_that_breaks_off_is_an_error() {
    let upstream = Upstream::start(first).await;
    let proxy = Setup::new(upstream.address).start().await;
    let reply = Client::new().chat(&proxy, WHOLE).await;
    assert_eq!(reply.status(), 502);
    assert_eq!(reply.json().await["error"]["code"], "upstream_truncated");
}

#[tokio::test]
async fn each_time_limit_says_which_it_was() {
    let timed_out = |error: &Value, what: &str| {
        assert_eq!(error["code"], "upstream_timeout");
        assert!(error["message"].as_str().unwrap().contains(what), "{error}");
    };
    let header = without_head(|mut exchange| async {
        exchange.gone().await;
        exchange
    });
    timed_out(&header.await, "headers");

    let (status, _, error) = refused(
        |setup| setup.upstream.timeouts.idle = SHORT,
        |mut exchange| async {
            exchange.begin().await;
            exchange.gone().await;
            exchange
        },
    )
    .await;
    assert_eq!(status, 504);
    timed_out(&error, "next piece");

    let idle = broken(
        |setup| setup.upstream.timeouts.idle = SHORT,
        |exchange| async {
            let mut exchange = first(exchange).await;
            exchange.gone().await;
            exchange
        },
    );
    timed_out(&idle.await, "next piece");

    let total = broken(
        |setup| setup.upstream.timeouts.total = Some(4 * SHORT),
        |exchange| async {
            let mut exchange = first(exchange).await;
            for _ in 0..200 {
                tokio::time::sleep(SHORT / 10).await;
                exchange.piece(text("more")).await;
            }
            exchange.gone().await;
            exchange
        },
    );
    timed_out(&total.await, "whole response");
}

/// An upstream that only sends parts of a head or of the framing still counts as silent.
#[tokio::test]
async fn slow_framing_does_not_postpone_a_timeout() {
    const DRIPS: usize = 200;
    const PAUSE: Duration = Duration::from_millis(20);

    async fn drip(exchange: &mut Exchange, byte: &str) {
        for _ in 0..DRIPS {
            tokio::time::sleep(PAUSE).await;
            exchange.raw(byte).await;
        }
    }

    for (begun, drips) in [("HTTP/1.1 200 OK\r\nx: ", "y"), ("", "HTTP/1.1 102 Wait\r\n\r\n")] {
        let error = without_head(move |mut exchange| async move {
            exchange.raw(begun).await;
            drip(&mut exchange, drips).await;
            exchange
        });
        assert_eq!(error.await["code"], "upstream_timeout", "{drips}");
    }

    let extension = broken(
        |setup| setup.upstream.timeouts.idle = SHORT,
        |exchange| async {
            let mut exchange = first(exchange).await;
            exchange.raw("5;").await;
            drip(&mut exchange, "x").await;
            exchange
        },
    );
    let trailer = broken(
        |setup| setup.upstream.timeouts.idle = SHORT,
        |exchange| async {
            let mut exchange = first(exchange).await;
            exchange.raw("0\r\n").await;
            drip(&mut exchange, "x").await;
            exchange
        },
    );
    for error in [extension.await, trailer.await] {
        assert_eq!(error["code"], "upstream_timeout", "{error}");
    }

    let digits = broken(as_it_is, |exchange| async {
        let mut exchange = first(exchange).await;
        drip(&mut exchange, "0").await;
        exchange
    });
    assert_eq!(digits.await["code"], "upstream_truncated");
}

/// Connecting includes the TLS handshake: if a server accepts the connection and then sends nothing, connecting
/// fails.
#[tokio::test]
async fn connecting_has_a_time_limit_with_tls_in_it() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let mut setup = Setup::new(address);
    setup.upstream.base_url = format!("https://{address}").parse().unwrap();
    setup.upstream.timeouts.connect = SHORT;
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, STREAM).await;
    assert_eq!(reply.status(), 504);
    let error = reply.json().await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("connection"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_stream_has_a_total_limit_too() {
    let error = broken(
        |setup| setup.upstream.timeouts.total = Some(2 * SHORT),
        |exchange| async {
            let mut exchange = first(exchange).await;
            for _ in 0..1_000_000 {
                if !exchange.piece(text("more")).await {
                    break;
                }
            }
            exchange
        },
    )
    .await;
    assert!(error["message"].as_str().unwrap().contains("whole response"), "{error}");
}

#[tokio::test]
async fn keep_alives_commit_a_silent_stream_and_its_errors_follow_in_it() {
    let upstream = Upstream::start(|mut exchange| async {
        exchange.gone().await;
        exchange
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.keep_alive = SHORT;
    setup.upstream.timeouts.header = 5 * SHORT;
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, STREAM).await;
    assert_eq!(reply.status(), 200);
    let body = reply.rest().await;
    assert!(body.starts_with(": keep-alive\n\n: keep-alive\n\n"), "{body}");
    assert_eq!(stream_error(&body)["code"], "upstream_timeout");

    let mut setup = Setup::new(upstream.address);
    setup.limits.keep_alive = SHORT;
    setup.upstream.timeouts.header = 5 * SHORT;
    setup.upstream.timeouts.total = Some(5 * SHORT);
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, WHOLE).await;
    assert_eq!(reply.status(), 504, "a complete response has its real status, however long it takes");
}

#[tokio::test]
async fn a_stream_that_was_kept_alive_goes_on_in_order() {
    let upstream = Upstream::start(|mut exchange| async {
        tokio::time::sleep(3 * SHORT).await;
        exchange.begin().await;
        exchange.piece(text("first")).await;
        tokio::time::sleep(3 * SHORT).await;
        exchange.finished().await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.keep_alive = SHORT;
    let proxy = setup.start().await;
    let body = Client::new().chat(&proxy, STREAM).await.rest().await;
    let (before, after) = body.split_once("first").unwrap();
    assert!(before.starts_with(": keep-alive\n\n"), "{body}");
    assert!(after.contains("\n\n: keep-alive\n\n"), "{body}");
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
}
