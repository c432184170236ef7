//! Tests traces and metrics as a collector receives them. The scripted collector decodes them with OpenTelemetry's
//! own protocol definitions.

use std::sync::{Arc, Mutex};

use http::HeaderValue;
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;

use toolwire::config::Passthrough;

use crate::support::{
    client::{Client, STREAM, chat_request},
    proxy::{Proxy, Setup},
    upstream::{END, Upstream, answer, text},
};

/// The requests to a server, as heads in lower case and bodies.
type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A collector and the requests that it has received.
pub(crate) struct Collector {
    server: Upstream,
    requests: Requests,
}

impl Collector {
    pub(crate) async fn start(status: &'static str) -> Self {
        let requests = Requests::default();
        let server =
            Upstream::start_sharing(Arc::clone(&requests), move |mut exchange, requests| async move {
                requests.lock().unwrap().push((exchange.head.clone(), exchange.body.clone()));
                exchange.whole(status, "content-type: application/x-protobuf\r\n", "").await;
                exchange
            });
        Self { server: server.await, requests }
    }

    pub(crate) fn table(&self, more: &str) -> String {
        format!("[telemetry]\nendpoint = \"http://{}/base/\"\n{more}\n", self.server.address)
    }

    /// Stops the proxy, which exports everything not exported yet, and returns all exports.
    pub(crate) async fn after(&self, mut proxy: Proxy) -> Exported {
        proxy.stop();
        proxy.ended().await;
        let requests = self.requests.lock().unwrap();
        let (mut spans, mut metrics, mut bytes, mut resources) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (head, body) in requests.iter() {
            bytes.extend_from_slice(body);
            assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
            if head.starts_with("post /base/v1/traces ") {
                for group in ExportTraceServiceRequest::decode(body.as_slice()).unwrap().resource_spans {
                    resources.push(group.resource.unwrap().attributes);
                    spans.extend(group.scope_spans.into_iter().flat_map(|scope| scope.spans));
                }
            } else {
                assert!(head.starts_with("post /base/v1/metrics "), "{head}");
                metrics.clear();
                for group in ExportMetricsServiceRequest::decode(body.as_slice()).unwrap().resource_metrics {
                    metrics.extend(group.scope_metrics.into_iter().flat_map(|scope| scope.metrics));
                }
            }
        }
        let heads = requests.iter().map(|(head, _)| head.clone()).collect();
        Exported { spans, metrics, bytes, resources, heads }
    }
}

/// Everything exported to a collector: all spans, and the latest metrics.
pub(crate) struct Exported {
    pub(crate) spans: Vec<Span>,
    metrics: Vec<Metric>,
    bytes: Vec<u8>,
    resources: Vec<Vec<KeyValue>>,
    heads: Vec<String>,
}

impl Exported {
    pub(crate) fn span(&self, name: &str) -> &Span {
        let mut named = self.spans.iter().filter(|span| span.name == name);
        let (Some(span), None) = (named.next(), named.next()) else { panic!("{name}: {:?}", self.spans) };
        span
    }

    /// Whether any exported value contains this text.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    fn metric(&self, name: &str) -> &Metric {
        self.metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no metric {name}"))
    }
}

pub(crate) fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let value = &attributes.iter().find(|attribute| attribute.key == name)?.value;
    Some(match value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(switch) => switch.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error as i32)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An upstream that records the heads of requests, and answers each with `status` or, if that is `None`, with a
/// stream.
async fn noting(status: Option<&'static str>) -> (Upstream, Requests) {
    let requests = Requests::default();
    let upstream = Upstream::start_sharing(Arc::clone(&requests), move |mut exchange, requests| async move {
        requests.lock().unwrap().push((exchange.head.clone(), Vec::new()));
        match status {
            Some(status) => {
                exchange.whole(status, "content-type: application/json\r\n", "{}").await;
                exchange
            }
            None => {
                exchange.begin().await;
                exchange.piece(text("answer-text")).await;
                exchange.piece(END).await;
                exchange.finished().await
            }
        }
    });
    (upstream.await, requests)
}

fn header(requests: &Requests, name: &str) -> Option<String> {
    let requests = requests.lock().unwrap();
    let [(head, _)] = requests.as_slice() else { panic!("{requests:?}") };
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn ask(proxy: &Proxy, headers: &[(&'static str, &'static str)]) -> String {
    let mut request = chat_request(proxy, STREAM);
    for (name, value) in headers {
        request.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    Client::new().send(request).await.unwrap().rest().await
}

const CONTEXT: [(&str, &str); 3] =
    [("traceparent", PARENT), ("tracestate", "vendor=1"), ("baggage", "user=secret-baggage")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_and_every_attempt_are_spans_of_the_clients_trace() {
    let collector = Collector::start("200 OK").await;
    let (failing, at_failing) = noting(Some("503 Service Unavailable")).await;
    let (good, at_good) = noting(None).await;
    let table = collector.table("service_name = \"gateway\"\nmetrics_interval = \"off\"\nheaders = { x-api-key = \"env-like-secret\" }");
    let proxy = Proxy::of(&format!(
        "[[upstreams]]\nname = \"u1\"\ndialect = \"chat\"\nbase_url = \"http://{}\"\napi_key = \"upstream-secret\"\n\
         [[upstreams]]\nname = \"u2\"\ndialect = \"chat\"\nbase_url = \"http://{}\"\n\
         [[models]]\nname = \"t1\"\nupstream = \"u1\"\nupstream_name = \"theirs\"\n\
         [[models]]\nname = \"t2\"\nupstream = \"u2\"\n\
         [[models]]\nname = \"m\"\ntargets = [\"t1\", \"t2\"]\n{table}",
        failing.address, good.address
    ));
    assert!(ask(&proxy, &CONTEXT).await.contains("answer-text"));
    let exported = collector.after(proxy).await;
    assert!(exported.metrics.is_empty());
    assert_eq!(exported.spans.len(), 3, "{:?}", exported.spans);
    assert!(exported.spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    let server = exported.span("POST chat_completions");
    assert_eq!(server.kind, SpanKind::Server as i32);
    assert_eq!(hex(&server.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(server.trace_state, "vendor=1");
    assert!(!is_error(server));
    let of_server = |name: &str| attribute(&server.attributes, name);
    assert_eq!(of_server("http.request.method").as_deref(), Some("POST"));
    assert_eq!(of_server("url.path").as_deref(), Some("/v1/chat/completions"));
    assert_eq!(of_server("http.response.status_code").as_deref(), Some("200"));
    for (name, requests, has_failed) in [("chat theirs", &at_failing, true), ("chat t2", &at_good, false)] {
        let span = exported.span(name);
        assert_eq!(span.kind, SpanKind::Client as i32);
        assert_eq!(span.parent_span_id, server.span_id);
        assert_eq!(is_error(span), has_failed, "{span:?}");
        assert!(span.start_time_unix_nano >= server.start_time_unix_nano);
        assert!(span.end_time_unix_nano <= server.end_time_unix_nano);
        let sent = header(requests, "traceparent").unwrap();
        assert_eq!(sent, format!("00-{TRACE}-{}-01", hex(&span.span_id)));
        assert_eq!(header(requests, "tracestate").as_deref(), Some("vendor=1"));
        assert_eq!(header(requests, "baggage"), None);
    }
    let failed = &exported.span("chat theirs").attributes;
    assert_eq!(attribute(failed, "error.type").as_deref(), Some("overloaded"));
    let good = &exported.span("chat t2").attributes;
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "u2"),
        ("gen_ai.request.model", "t2"),
        ("gen_ai.request.stream", "true"),
        ("server.address", "127.0.0.1"),
    ] {
        assert_eq!(attribute(good, name).as_deref(), Some(value), "{name}");
    }
    assert!(attribute(good, "gen_ai.response.time_to_first_chunk").is_some());
    assert!(attribute(good, "gen_ai.response.finish_reasons").unwrap().contains("stop"));
    assert_eq!(attribute(&exported.resources[0], "service.name").as_deref(), Some("gateway"));
    assert!(exported.heads.iter().all(|head| head.contains("\r\nx-api-key: env-like-secret\r\n")));
    for secret in ["answer-text", "\"hi\"", "env-like-secret", "upstream-secret", "secret-baggage"] {
        assert!(!exported.shows(secret), "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_keys_do_not_decide_about_traces() {
    let collector = Collector::start("200 OK").await;
    let (upstream, requests) = noting(None).await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["clients-secret"];
    setup.execution = collector.table("trust_trace_context = false");
    let proxy = setup.start().await;
    let mut headers = CONTEXT.to_vec();
    headers.push(("x-api-key", "clients-secret"));
    ask(&proxy, &headers).await;
    let exported = collector.after(proxy).await;
    let server = exported.span("POST chat_completions");
    assert_ne!(hex(&server.trace_id), TRACE);
    assert!(server.parent_span_id.is_empty());
    assert_eq!(hex(&server.links[0].trace_id), TRACE);
    let sent = header(&requests, "traceparent").unwrap();
    assert!(sent.starts_with(&format!("00-{}-", hex(&server.trace_id))), "{sent}");
    assert_eq!((header(&requests, "tracestate"), header(&requests, "baggage")), (None, None));
    assert!(!exported.shows("clients-secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_passed_through_are_part_of_the_trace() {
    let collector = Collector::start("200 OK").await;
    let (upstream, requests) = noting(Some("429 Too Many Requests")).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = Passthrough::parse(&["/v1/embeddings"]).unwrap();
    setup.execution = collector.table("");
    let proxy = setup.start().await;
    let mut request = chat_request(&proxy, r#"{"model":"m","input":"secret-input"}"#);
    *request.uri_mut() = proxy.url("/v1/embeddings").parse().unwrap();
    request.headers_mut().insert("traceparent", HeaderValue::from_static(PARENT));
    Client::new().send(request).await.unwrap().rest().await;
    let exported = collector.after(proxy).await;
    let [client, server] = exported.spans.as_slice() else { panic!("{:?}", exported.spans) };
    assert_eq!((client.kind, client.name.as_str()), (SpanKind::Client as i32, "POST"));
    assert_eq!(server.kind, SpanKind::Server as i32);
    assert_eq!(client.parent_span_id, server.span_id);
    assert_eq!((is_error(client), is_error(server)), (true, false));
    let sent = header(&requests, "traceparent").unwrap();
    assert_eq!(sent, format!("00-{TRACE}-{}-01", hex(&client.span_id)));
    assert!(!exported.shows("secret-input"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsampled_traces_are_not_exported_but_go_on() {
    let collector = Collector::start("200 OK").await;
    let (upstream, requests) = noting(None).await;
    let mut setup = Setup::new(upstream.address);
    setup.execution = collector.table("sample = 0");
    let proxy = setup.start().await;
    ask(&proxy, &[("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")]).await;
    let sent = header(&requests, "traceparent").unwrap();
    assert!(sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-00"), "{sent}");
    assert!(!sent.contains("00f067aa0ba902b7"), "{sent}");
    let exported = collector.after(proxy).await;
    assert!(exported.spans.is_empty() && !exported.metrics.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_collector_no_trace_context_is_forwarded() {
    let (upstream, requests) = noting(None).await;
    let proxy = Setup::new(upstream.address).start().await;
    ask(&proxy, &CONTEXT).await;
    for name in ["traceparent", "tracestate", "baggage"] {
        assert_eq!(header(&requests, name), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_exported_under_the_names_of_the_conventions() {
    let collector = Collector::start("200 OK").await;
    let (upstream, _) = noting(None).await;
    let mut setup = Setup::new(upstream.address);
    setup.execution = collector.table("");
    let proxy = setup.start().await;
    ask(&proxy, &[]).await;
    let shown = Client::new().metrics_with(&proxy, "gen_ai_client_operation_duration_seconds_count{").await;
    assert_eq!(shown.matches("# EOF").count(), 1);
    let exported = collector.after(proxy).await;
    for (name, unit) in [
        ("gen_ai.client.operation.duration", "s"),
        ("gen_ai.client.operation.time_to_first_chunk", "s"),
        ("toolwire.first_byte", "s"),
    ] {
        let metric = exported.metric(name);
        let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{metric:?}") };
        let [point] = histogram.data_points.as_slice() else { panic!("{histogram:?}") };
        assert_eq!((metric.unit.as_str(), point.count), (unit, 1), "{name}");
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), 1);
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert!(point.sum.unwrap() > 0.0 && point.start_time_unix_nano <= point.time_unix_nano);
    }
    let Some(Data::Histogram(duration)) = &exported.metric("gen_ai.client.operation.duration").data else {
        panic!("no histogram")
    };
    let attributes = &duration.data_points[0].attributes;
    assert_eq!(attribute(attributes, "gen_ai.request.model").as_deref(), Some("m"));
    assert_eq!(attribute(attributes, "gen_ai.provider.name").as_deref(), Some("up"));
    let Some(Data::Sum(requests)) = &exported.metric("toolwire.requests").data else { panic!("no sum") };
    assert!(requests.is_monotonic);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collector_that_fails_or_is_silent_costs_no_request_anything() {
    let upstream = Upstream::start(|exchange| async move { exchange.stream(answer()).await }).await;
    let silent = Upstream::start(|exchange| async move { exchange.silent().await }).await;
    let refusing = Collector::start("503 Service Unavailable").await;
    let flooding = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        while exchange.piece([b'x'; 8192]).await {}
        exchange
    })
    .await;
    for address in [silent.address, refusing.server.address, flooding.address, "127.0.0.1:9".parse().unwrap()]
    {
        let mut setup = Setup::new(upstream.address);
        setup.execution =
            format!("[telemetry]\nendpoint = \"http://{address}\"\nmetrics_interval = \"10ms\"\n");
        let mut proxy = setup.start().await;
        for _ in 0..20 {
            assert!(ask(&proxy, &CONTEXT).await.contains("hello"), "{address}");
        }
        if address != silent.address {
            let failed = "toolwire_telemetry_failed_exports_total{signal=\"metrics\"}";
            Client::new().metrics_with(&proxy, failed).await;
        }
        // The proxy waits only briefly for the collector.
        proxy.stop();
        proxy.ended().await;
    }
}
