//! The transport of protocol version 2024-11-05, HTTP with SSE.

use super::*;

async fn older_server(mode: &str) -> (tokio::process::Child, Options) {
    let (child, options) = http_server(mode).await;
    let headers = BTreeMap::from([("X-Own".to_owned(), TableText::plain("a"))]);
    (child, Options { headers, protocol: Protocol::Auto, ..options })
}

#[tokio::test]
async fn older_transport_is_found_and_used() {
    let (_child, options) = older_server("http-sse").await;
    let server = Started::ready(&options).await;
    for number in 0..3 {
        let output = server.call("echo", json!({"n": number})).await.expect("an output");
        assert_eq!(output.content, format!("{{\"n\": {number}}}"));
    }
    assert!(server.call("garbage", json!({})).await.is_ok());
    let output = server.call("refuse", json!({})).await.expect("an output");
    assert_eq!((output.content.as_str(), output.is_error), ("no such tool", true));
}

#[tokio::test]
async fn large_result_over_the_older_transport_fails_its_call_and_the_server_is_connected_to_again() {
    let (_child, options) = older_server("http-sse").await;
    let server = Started::ready(&options).await;
    let error = server.call("huge", json!({})).await.expect_err("an error");
    assert_eq!(error.code, ErrorCode::TooLarge);
    server.until(|provider| provider.status().state == ProviderState::Restarting).await;
    server.until(|provider| provider.status().state == ProviderState::Ready).await;
    assert!(server.call("echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn streams_without_an_endpoint_of_their_own_origin_are_refused() {
    for mode in ["http-sse-foreign", "http-sse-scheme", "http-sse-elsewhere", "http-sse-none"] {
        let (_child, options) = older_server(mode).await;
        let server = Started::new(&Options { start_timeout: Duration::from_secs(3), ..options });
        server.until(|provider| provider.status().state == ProviderState::Failed).await;
        assert!(server.0.tools().is_empty(), "{mode}");
    }
}
