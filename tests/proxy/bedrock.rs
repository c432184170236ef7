//! Tests upstreams with Amazon Bedrock's API: how requests are authorized, and that binary frames pass the proxy.

use std::sync::{Arc, Mutex};

use toolwire::dialect::{Signing, UpstreamDialect, bedrock::Options};

use crate::support::{
    client::Client,
    proxy::Setup,
    upstream::{Exchange, Upstream},
};

/// A stream that Amazon's SDK reads.
const STREAM: &[u8] = include_bytes!("../core/bedrock/streams/text.bin");

/// Asks an upstream with these options. Returns the head of the request, in lower case.
async fn asked(options: Options, key: Option<&str>) -> String {
    let heads = Arc::new(Mutex::new(String::new()));
    let keep = heads.clone();
    let server = Upstream::start(move |exchange: Exchange| {
        keep.lock().unwrap().push_str(&exchange.head.to_ascii_lowercase());
        exchange.stream(STREAM)
    })
    .await;
    let mut setup = Setup::new(server.address);
    setup.upstream.options = UpstreamDialect::Bedrock(options);
    setup.upstream.api_key = key.map(Into::into);
    let proxy = setup.start().await;
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}"#;
    let answer = Client::new().chat(&proxy, body).await.rest().await;
    assert!(answer.contains("wörld 😀") && answer.ends_with("data: [DONE]\n\n"), "{answer}");
    heads.lock().unwrap().clone()
}

#[tokio::test]
async fn key_is_a_bearer_token() {
    let head = asked(Options::default(), Some("bedrock-key")).await;
    assert!(head.contains("/converse-stream http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer bedrock-key\r\n"), "{head}");
    assert!(head.contains("accept: application/vnd.amazon.eventstream, application/json\r\n"), "{head}");
}

#[tokio::test]
async fn signature_replaces_the_key() {
    let signing =
        Signing::new("bedrock", "us-west-2".into(), "AKID".into(), "secret-key".into(), Some("token".into()));
    let head = asked(Options { signing: Some(signing), ..Options::default() }, Some("bedrock-key")).await;
    let signed = "signedheaders=content-type;host;x-amz-date;x-amz-security-token, signature=";
    assert!(head.contains("authorization: aws4-hmac-sha256 credential=akid/"), "{head}");
    assert!(head.contains(signed) && head.contains("x-amz-security-token: token\r\n"), "{head}");
    assert!(!head.contains("bedrock-key") && !head.contains("secret-key"), "{head}");
}
