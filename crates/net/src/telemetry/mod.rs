//! Traces: each step of a request is a span, which a collector combines with the spans of other programs.
//!
//! ```text
//! client's traceparent ─▶ server span ─▶ span per request to an upstream ─▶ its traceparent
//!                                    └─▶ span per hosted call
//! spans that have ended ─▶ queue ─▶ exporter (`observe::export` of the gateway)
//! ```
//!
//! A [`Span`] belongs to an operation and ends when it is dropped. Without a [`Tracer`], all spans are empty and cost
//! one comparison each. Nothing here blocks: if the queue is full, a span is dropped and counted. Spans never contain
//! the content of requests and responses, and strings from clients and models are limited in length.
//!
//! The headers are defined by W3C Trace Context; see `docs/protocols/telemetry.md#trace-context`.

mod context;
mod current_span;
mod settings;
mod span;
mod tracer;

pub use self::{
    context::SpanContext,
    current_span::{current, scoped, within},
    span::{Parent, Span, SpanKind, SpanRecord, Value},
    tracer::{Message, TraceMetrics, Tracer},
};
pub use settings::TelemetrySettings;
