//! Traces: what happens to a request, as spans that a collector puts together with those of other programs.
//!
//! ```text
//! client's traceparent ─▶ server span ─▶ span per request to an upstream ─▶ its traceparent
//!                                    └─▶ span per hosted call
//! spans that have ended ─▶ queue ─▶ exporter (`observe::export` of the gateway)
//! ```
//!
//! A [`Span`] is a value that travels with what it describes, and ends when it is dropped. Without a [`Tracer`], all of them are empty:
//! they cost a comparison each. Nothing here waits: a span that finds the queue full is dropped and counted. Contents of requests and
//! responses are never part of a span, and what clients and models choose is limited in length.
//!
//! The header fields are those of W3C Trace Context, see `docs/protocols/telemetry.md#trace-context`.

mod context;
mod current;
mod settings;
mod span;
mod tracer;

pub use self::{
    context::SpanContext,
    current::{current, scoped, within},
    span::{Parent, Span, SpanKind, SpanRecord, Value},
    tracer::{Message, TraceMetrics, Tracer},
};
pub use settings::TelemetrySettings;
