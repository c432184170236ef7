//! Tests hosted calls in traces.

use super::script::{call, end, setup, text, upstream};
use crate::{
    support::client::{Client, STREAM},
    telemetry::{Collector, attribute},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosted_calls_and_hops_are_spans_without_contents() {
    let first = text("Let me look.")
        + &call(0, "call_0", "search", r#"{"query":"secret-query"}"#)
        + &call(1, "call_1", "broken", "{}")
        + &end("tool_calls");
    let (upstream, _) = upstream([first, text("It rains.") + &end("stop")]).await;
    let collector = Collector::start("200 OK").await;
    let proxy = setup(&upstream, &collector.table("")).start().await;
    let body = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert!(body.contains("It rains."), "{body}");
    let exported = collector.after(proxy).await;
    let server = exported.span("POST chat_completions");
    let tool = exported.span("execute_tool search");
    assert_eq!((&tool.parent_span_id, &tool.trace_id), (&server.span_id, &server.trace_id));
    assert_eq!(attribute(&tool.attributes, "gen_ai.tool.name").as_deref(), Some("search"));
    assert_eq!(attribute(&tool.attributes, "gen_ai.operation.name").as_deref(), Some("execute_tool"));
    assert!(attribute(&tool.attributes, "gen_ai.tool.call.id").is_some());
    assert_eq!(attribute(&tool.attributes, "error.type"), None);
    let broken = exported.span("execute_tool broken");
    assert_eq!(attribute(&broken.attributes, "error.type").as_deref(), Some("provider_error"));
    let mut hops: Vec<_> = exported.spans.iter().filter(|span| span.name == "chat m").collect();
    hops.sort_by_key(|span| span.start_time_unix_nano);
    let [first, second] = hops.as_slice() else { panic!("{:?}", exported.spans) };
    for (hop, number, finish) in [(first, "1", "tool_call"), (second, "2", "stop")] {
        assert_eq!(hop.parent_span_id, server.span_id);
        let reasons = attribute(&hop.attributes, "gen_ai.response.finish_reasons").unwrap();
        assert!(reasons.contains(&format!("\"{finish}\"")), "{reasons}");
        assert_eq!(attribute(&hop.attributes, "toolwire.hop").as_deref(), Some(number));
        assert_eq!(attribute(&hop.attributes, "gen_ai.usage.input_tokens").as_deref(), Some("10"));
        assert_eq!(attribute(&hop.attributes, "gen_ai.usage.output_tokens").as_deref(), Some("3"));
    }
    assert!(first.end_time_unix_nano <= tool.start_time_unix_nano);
    assert!(tool.end_time_unix_nano <= second.start_time_unix_nano);
    for secret in ["secret-query", "Let me look", "It rains"] {
        assert!(!exported.shows(secret), "{secret}");
    }
}
