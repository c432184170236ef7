//! The OTLP messages that are sent (`docs/protocols/telemetry.md#otlp`), with the field numbers of their definitions.

use std::time::{SystemTime, UNIX_EPOCH};

use prost::{Message, Oneof};

use toolwire_net::telemetry::{SpanKind, SpanRecord, Value};

/// Scope name of toolwire's spans and metrics.
const SCOPE: &str = "toolwire";

/// Counts and sums accumulate from the start of the process.
const CUMULATIVE: i32 = 2;

/// Status of failed spans. Other spans have no status.
const STATUS_ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TraceRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Link {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    trace_state: String,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AnyKind", tags = "1, 2, 3, 4, 5")]
    value: Option<AnyKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum AnyKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Switch(bool),
    #[prost(int64, tag = "3")]
    Count(i64),
    #[prost(double, tag = "4")]
    Number(f64),
    #[prost(message, tag = "5")]
    Texts(ArrayValue),
}

#[derive(Clone, PartialEq, Message)]
struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) description: String,
    #[prost(string, tag = "3")]
    pub(super) unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(super) points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub(super) points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub(super) points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NumberPoint {
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    pub(super) value: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HistogramPoint {
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub(super) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(super) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub(super) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(super) bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
}

impl Data {
    /// Creates data without points. `kind` is the type in the text format. `None` if the type is unknown.
    pub(super) fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "counter" => Self::Sum(Sum { points: Vec::new(), temporality: CUMULATIVE, is_monotonic: true }),
            "gauge" => Self::Gauge(Gauge::default()),
            "histogram" => Self::Histogram(Histogram { points: Vec::new(), temporality: CUMULATIVE }),
            _ => return None,
        })
    }
}

impl KeyValue {
    pub(super) fn text(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(AnyValue { value: Some(AnyKind::Text(text.into())) }) }
    }
}

pub(super) fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Creates the resource that describes toolwire itself.
pub(super) fn resource(service: &str, attributes: &[(String, String)]) -> Resource {
    let own = [
        ("service.name", service),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("telemetry.sdk.name", SCOPE),
        ("telemetry.sdk.language", "rust"),
    ];
    let own = own.map(|(key, text)| KeyValue::text(key, text));
    let more = attributes.iter().map(|(key, text)| KeyValue::text(key, text));
    Resource { attributes: own.into_iter().chain(more).collect() }
}

pub(super) fn traces(resource: &Resource, spans: impl Iterator<Item = SpanRecord>) -> TraceRequest {
    let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans: spans.map(span).collect() }];
    TraceRequest { resource_spans: vec![ResourceSpans { resource: Some(resource.clone()), scope_spans }] }
}

pub(super) fn metrics(resource: &Resource, metrics: Vec<Metric>) -> MetricsRequest {
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
    let resource = Some(resource.clone());
    MetricsRequest { resource_metrics: vec![ResourceMetrics { resource, scope_metrics }] }
}

fn scope() -> Scope {
    Scope { name: SCOPE.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn span(record: SpanRecord) -> Span {
    let SpanRecord { context, parent, link, name, kind, start, end, attributes, is_error } = record;
    Span {
        trace_id: context.trace.to_vec(),
        span_id: context.span.to_vec(),
        trace_state: context.state.as_deref().unwrap_or_default().to_owned(),
        parent_span_id: parent.map(Vec::from).unwrap_or_default(),
        name,
        kind: match kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        start_time_unix_nano: nanos(start),
        end_time_unix_nano: nanos(end),
        attributes: attributes
            .into_iter()
            .map(|(key, value)| KeyValue { key: key.to_owned(), value: Some(any(value)) })
            .collect(),
        links: link
            .into_iter()
            .map(|link| Link {
                trace_id: link.trace.to_vec(),
                span_id: link.span.to_vec(),
                trace_state: link.state.as_deref().unwrap_or_default().to_owned(),
            })
            .collect(),
        status: is_error.then_some(Status { code: STATUS_ERROR }),
    }
}

fn any(value: Value) -> AnyValue {
    let text = |text| AnyValue { value: Some(AnyKind::Text(text)) };
    let kind = match value {
        Value::Text(own) => return text(own),
        Value::Count(count) => AnyKind::Count(i64::try_from(count).unwrap_or(i64::MAX)),
        Value::Number(number) => AnyKind::Number(number),
        Value::Switch(switch) => AnyKind::Switch(switch),
        Value::Texts(texts) => AnyKind::Texts(ArrayValue { values: texts.into_iter().map(text).collect() }),
    };
    AnyValue { value: Some(kind) }
}
