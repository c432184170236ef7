//! Traces: what happens to a request, as spans that a collector combines with those of other programs.
//!
//! ```text
//! client's traceparent ─▶ server span ─▶ span per request to an upstream ─▶ its traceparent
//!                                    └─▶ span per hosted call
//! spans that have ended ─▶ queue ─▶ exporter (`observe::export` of the gateway)
//! ```
//!
//! A [`Span`] is a value that travels with the operation that it describes, and ends when it is dropped. Without a
//! [`Tracer`], all spans are empty and cost one comparison each. Nothing here waits: a span that finds the queue
//! full is dropped and counted. Contents of requests and responses are never part of a span, and texts chosen by
//! clients and models are limited in length.
//!
//! The header fields are defined by W3C Trace Context; see `docs/protocols/telemetry.md#trace-context`.

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
