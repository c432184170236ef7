//! A Lumo upstream, as far as the shell has a part in it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use toolwire::{
    dialect::{UpstreamDialect, lumo},
    rules::Misroute,
};

use crate::support::{client::Client, proxy::Setup, upstream::Upstream};

const REQUEST: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"weather?"}],
    "tools":[{"type":"function","function":{"name":"weather","parameters":
        {"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]}"#;

const WITHOUT_ARGUMENTS: &str = "data: {\"object\":\"chat.tool_call\",\"tool_call\":{\"id\":\"n1\",\"name\":\"weather\",\"arguments\":\"{}\"}}\n\n\
     data: {\"object\":\"chat.tool_result\",\"tool_result\":{\"call_id\":\"n1\",\"content\":\"{\\\"error\\\":true}\"}}\n\n\
     data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

const WITH_ARGUMENTS: &str = "data: {\"object\":\"chat.tool_call\",\"tool_call\":{\"id\":\"n2\",\"name\":\"weather\",\
     \"arguments\":\"{\\\"city\\\":\\\"Paris\\\"}\"}}\n\ndata: [DONE]\n\n";

/// A call without its arguments is asked for once more when the first answer has ended well: that one is let go of,
/// the second has its place at the upstream, and the client sees one answer.
#[tokio::test]
async fn bounced_call_is_one_response_from_two_hops() {
    let hops = Arc::new(AtomicUsize::new(0));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let keep = asked.clone();
    let upstream = Upstream::start(move |mut exchange| {
        let (hop, keep) = (hops.fetch_add(1, Ordering::SeqCst), keep.clone());
        async move {
            keep.lock().unwrap().push(String::from_utf8(exchange.body.clone()).unwrap());
            exchange.begin().await;
            if hop == 0 {
                exchange.piece(WITHOUT_ARGUMENTS).await;
                exchange.gone().await;
            } else {
                exchange.piece(WITH_ARGUMENTS).await;
                exchange.end().await;
            }
            exchange
        }
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::Lumo(lumo::Options::default());
    setup.upstream.queue.max_concurrent = 1;
    setup.settings.misroute = Misroute::Bounce;
    let proxy = setup.start().await;
    let client = Client::new();
    let body = client.chat(&proxy, REQUEST).await.rest().await;
    assert!(body.contains("\"name\":\"weather\""), "{body}");
    assert!(body.contains("Paris") && body.contains("\"finish_reason\":\"tool_calls\""), "{body}");
    assert_eq!(body.matches("[DONE]").count(), 1, "{body}");
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    assert!(!asked[0].contains("are missing") && asked[1].contains("are missing"), "{}", asked[1]);
    let metrics = client.get(&proxy, "/metrics").await.rest().await;
    assert!(metrics.contains("toolwire_calls_total{format=\"native\"} 1\n"), "{metrics}");
}
