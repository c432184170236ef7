//! Tests of the client against targets in the same process.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use super::*;
use crate::{
    clients,
    fixture::{
        Fixture,
        generate::{Kind, Script},
        mock::{Mock, Pace},
    },
    follow::sample::{Token, TokenKind},
};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const CHUNK: &str = r#"data: {"id":"A","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":"#;

fn client(address: SocketAddr, limit: Duration) -> Client {
    let target = format!("http://{address}/v1/").parse().unwrap();
    Client::new(Arc::new(target), ClientDialect::Chat, "m", limit)
}

const LIMIT: Duration = Duration::from_secs(20);

/// Returns a complete chunked response.
fn answer(chunks: &[&str]) -> String {
    let chunks = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    format!("{HEAD}{}0\r\n\r\n", chunks.collect::<String>())
}

fn good() -> String {
    answer(&[
        &format!("{CHUNK}{{\"role\":\"assistant\",\"content\":\"\"}}}}]}}\n\n"),
        &format!("{CHUNK}{{\"content\":\"a\"}}}}]}}\n\n{CHUNK}{{\"content\":\"b\"}}}}]}}\n\n"),
        &format!("{CHUNK}{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"),
    ])
}

/// Starts a target. Each element of `script` lists the responses to send on one connection before closing it.
async fn scripted(script: Vec<Vec<String>>) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        for answers in script {
            let (mut socket, _) = listener.accept().await.unwrap();
            for answer in answers {
                let mut request = Vec::new();
                while !request.ends_with(b"{}") && socket.read_buf(&mut request).await.unwrap() > 0 {}
                if request.is_empty() {
                    break;
                }
                assert!(request.starts_with(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:"));
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        std::future::pending::<()>().await;
    });
    (address, tasks)
}

async fn ask(client: &Client) -> Sample {
    client.run(Bytes::from_static(b"{}"), 5).await
}

#[tokio::test]
async fn mock_streams_are_measured() {
    let root = crate::repository::root().join("fixtures/chat");
    let fixtures: Vec<_> =
        Fixture::find(&root).unwrap().iter().map(|dir| Fixture::load(dir).unwrap()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    let many = fixtures.len();
    server.spawn(async move {
        let _ = Mock::new(fixtures, Pace::None).serve(listener).await;
    });
    let client = client(address, LIMIT);
    let (mut good, mut connected) = (0, 0);
    for _ in 0..many {
        let sample = ask(&client).await;
        assert!(sample.intended == 5 && sample.end >= sample.sent);
        assert_ne!(sample.outcome, Outcome::Open);
        if sample.outcome == Outcome::Done {
            assert!(sample.first_byte.is_some_and(|at| at >= sample.sent && at <= sample.end));
            good += 1;
        }
        connected += u32::from(sample.connected);
    }
    assert!(good > 10, "{good} of {many}");
    assert!(connected < 10, "{connected} connections for {many} requests");
}

#[tokio::test]
async fn generated_mock_responses_are_valid_and_every_token_has_a_postmark() {
    for (dialect, kind) in ClientDialect::all()
        .flat_map(|dialect| [Kind::Text, Kind::Call, Kind::TextCall].map(|kind| (dialect, kind)))
        .filter(|(dialect, kind)| *kind == Kind::Text || clients::api(*dialect).has_tools())
    {
        let script = Script { answer: kind, tokens: 40, pace: None, ..Script::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}/v1", listener.local_addr().unwrap()).parse().unwrap();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _ = Mock::generated(script).serve(listener).await;
        });
        let client = Client::new(Arc::new(target), dialect, "m", LIMIT);
        for connected in [true, false, false] {
            let request = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#;
            let sample = client.run(Bytes::from_static(request.as_bytes()), now()).await;
            let about = format!("{dialect:?} {kind:?}: {sample:?}");
            assert_eq!((&sample.outcome, &sample.violations), (&Outcome::Done, &vec![]), "{about}");
            assert_eq!((sample.connected, sample.tokens.len()), (connected, 40), "{about}");
            let in_order = |at: u64, left: u64| sample.sent <= left && left <= at && at <= sample.end;
            let marked = |token: &Token| token.postmark.is_some_and(|mark| in_order(token.at, mark.left));
            assert!(sample.tokens.iter().all(marked), "{about}");
            assert_eq!(sample.first_call.is_some(), kind != Kind::Text, "{about}");
            assert!(sample.usage.is_some(), "{about}");
        }
    }
}

#[tokio::test]
async fn stream_is_recorded_and_its_connection_reused() {
    let (address, _target) = scripted(vec![vec![good(), good()]]).await;
    let client = client(address, LIMIT);
    for connected in [true, false] {
        let sample = ask(&client).await;
        assert_eq!((&sample.outcome, &sample.violations), (&Outcome::Done, &vec![]));
        assert_eq!((sample.connected, sample.status), (connected, Some(200)));
        let kinds: Vec<_> = sample.tokens.iter().map(|token| token.kind).collect();
        assert_eq!(kinds, [TokenKind::Text, TokenKind::Text]);
    }
}

#[tokio::test]
async fn closed_idle_connection_is_replaced() {
    let (address, _target) = scripted(vec![vec![good()], vec![good()], vec![good()]]).await;
    let client = client(address, LIMIT);
    for _ in 0..3 {
        let sample = ask(&client).await;
        assert_eq!((sample.outcome, sample.connected), (Outcome::Done, true));
    }
}

#[tokio::test]
async fn error_response_is_reported() {
    let body = r#"{"error":{"message":"too many","type":"rate_limit_error"}}"#;
    let refusal = format!("HTTP/1.1 429 Slow Down\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (address, _target) = scripted(vec![vec![refusal, good()]]).await;
    let client = client(address, LIMIT);
    let sample = ask(&client).await;
    assert_eq!((sample.outcome, sample.status), (Outcome::Refused, Some(429)));
    assert_eq!(sample.refusal.as_deref(), Some("too many"));
    assert!(!ask(&client).await.connected);
}

#[tokio::test]
async fn interrupted_body_is_broken_before_the_end_mark_and_a_violation_after_it() {
    let whole = good();
    let (cut, tail) = whole.split_at(whole.len() - 5);
    assert_eq!(tail, "0\r\n\r\n");
    let early = cut.get(..cut.len() - 40).unwrap().to_owned();
    let (address, _target) = scripted(vec![vec![early], vec![cut.to_owned()], vec![good()]]).await;
    let client = client(address, LIMIT);
    let sample = ask(&client).await;
    assert!(matches!(&sample.outcome, Outcome::Broken(why) if why.contains("interrupted")), "{sample:?}");
    let sample = ask(&client).await;
    assert_eq!(sample.outcome, Outcome::Done);
    let [told] = sample.violations.as_slice() else { panic!("{sample:?}") };
    assert!(told.starts_with("the body does not end properly after the end of the stream"), "{told}");
    assert_eq!(ask(&client).await.violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn stream_over_the_time_limit_is_broken() {
    let whole = good();
    let (open, _) = whole.split_at(whole.len() - 5);
    let early = open.get(..200).unwrap().to_owned();
    // The empty responses keep the connections open.
    let (address, _target) = scripted(vec![vec![early, "".into()], vec![open.to_owned(), "".into()]]).await;
    let client = client(address, LIMIT);
    let sample = ask(&client).await;
    assert_eq!(sample.outcome, Outcome::Broken("no end within 20s".to_owned()));
    // The client has seen the end of the stream, so it does not wait for the timeout.
    let sample = ask(&client).await;
    assert_eq!(sample.outcome, Outcome::Done);
    let told = "the body does not end properly after the end of the stream (it stays open, frame 5)";
    assert_eq!(sample.violations, [told]);
}

#[tokio::test]
async fn unreachable_or_non_sse_target_is_broken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sample = ask(&client(address, LIMIT)).await;
    assert!(
        matches!(&sample.outcome, Outcome::Broken(why) if why.starts_with("no connection")),
        "{sample:?}"
    );
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}".to_owned();
    let (address, _target) = scripted(vec![vec![json]]).await;
    let sample = ask(&client(address, LIMIT)).await;
    let told = "the response is not an event stream, but application/json";
    assert_eq!(sample.outcome, Outcome::Broken(told.to_owned()));
}

#[test]
fn request_path_is_that_of_the_dialect() {
    for (base, expected) in [
        ("http://h:1/v1", "/v1/messages"),
        ("http://h:1", "/messages"),
        ("http://h:1/v1/messages/", "/v1/messages"),
        ("http://h:1/v1?beta=true", "/v1/messages?beta=true"),
    ] {
        assert_eq!(path(&base.parse().unwrap(), ClientDialect::Messages, "m").to_string(), expected);
    }
}

#[test]
fn requests_can_be_run_on_any_runtime() {
    fn sendable<T: Send>(_: T) {}
    let target = "http://127.0.0.1:1".parse().unwrap();
    let client = Client::new(Arc::new(target), ClientDialect::Chat, "m", LIMIT);
    sendable(client.run(Bytes::new(), 0));
}
