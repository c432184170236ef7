//! Tests that unsolicited bytes from an upstream are never read as a response.

use std::time::Duration;

use crate::support::{
    client::{Client, STREAM, chat_request},
    proxy::Setup,
    upstream::{Upstream, answer, at_once, text},
};

/// A response that no request has asked for.
fn poison() -> String {
    answer().replace("hello", "poison")
}

fn whole(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn upstream_that_sends_unsolicited_bytes_loses_keep_alive() {
    // On an idle connection, and directly after a response.
    for pause in [Some(Duration::from_millis(50)), None] {
        let upstream = Upstream::start(move |exchange| async move {
            let mut exchange = at_once(exchange).await;
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            exchange.raw(whole(&poison())).await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let client = Client::new();
        for _ in 0..4 {
            let body = client.chat(&proxy, STREAM).await.rest().await;
            assert!(body.contains("hello"), "{body}");
            tokio::time::sleep(pause.unwrap_or_default() * 2).await;
        }
        assert_eq!(upstream.connections(), 4);
        let metrics = client.get(&proxy, "/metrics").await.rest().await;
        let line = metrics.lines().find(|line| line.starts_with("toolwire_upstream_unsolicited_total"));
        assert!(
            line.is_some_and(|line| line.contains("{upstream=\"up\"}") && !line.ends_with(" 0")),
            "{line:?}"
        );
    }
}

/// A response sent before its request was read belongs to no request.
#[tokio::test]
async fn early_response_on_a_reused_connection_is_discarded() {
    const LARGE: usize = 9 << 20;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let mut buffer = vec![0; 64 << 10];
        let (mut first, _) = listener.accept().await.unwrap();
        let _ = first.read(&mut buffer).await.unwrap();
        first.write_all(whole(&answer()).as_bytes()).await.unwrap();
        // The second request is answered as soon as its first bytes arrive.
        let _ = first.read(&mut buffer).await.unwrap();
        first.write_all(whole(&poison()).as_bytes()).await.unwrap();
        let (mut second, _) = listener.accept().await.unwrap();
        let mut seen = 0;
        while seen < LARGE {
            let read = second.read(&mut buffer).await.unwrap();
            assert!(read > 0);
            seen += buffer[..read].iter().filter(|&&byte| byte == b'x').count();
        }
        second.write_all(whole(&(text("second") + &answer())).as_bytes()).await.unwrap();
        let _ = second.read(&mut buffer).await;
    });
    let mut setup = Setup::new(address);
    setup.limits.max_body = 2 * LARGE;
    let proxy = setup.start().await;
    let client = Client::new();
    let body = client.chat(&proxy, STREAM).await.rest().await;
    assert!(body.contains("hello"), "{body}");
    let large = STREAM.replace("hi", &"x".repeat(LARGE));
    let body = client.send(chat_request(&proxy, large)).await.unwrap().rest().await;
    assert!(body.contains("second") && !body.contains("poison"), "{body}");
}
