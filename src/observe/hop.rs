//! [`HopRecord`]: the record of one request to an upstream: a span, and a log line when it ends.
//!
//! Both are of level debug, so that they cost nothing by default. A span is only entered where something begins in it, and never while
//! a response is read.

use std::{fmt, time::Instant};

use tracing::{
    Span,
    field::{Empty, display},
};

use super::access::milliseconds;

/// What a hop is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HopName<'n> {
    /// The id of the client's request.
    pub(crate) request: &'n str,
    /// Its number in the response, from 1.
    pub(crate) number: usize,
    /// The name of the model's entry in the configuration.
    pub(crate) model: &'n str,
    /// The upstream's name.
    pub(crate) upstream: &'n str,
    /// Why toolwire itself asks; `None`: the client does.
    pub(crate) purpose: Option<&'static str>,
}

/// One request to an upstream.
#[derive(Debug)]
pub(crate) struct HopRecord {
    span: Span,
    begun: Instant,
    is_ended: bool,
}

impl HopRecord {
    /// A hop that began at `begun`, in the span `parent`.
    pub(crate) fn begin(parent: &Span, name: HopName<'_>, begun: Instant) -> Self {
        let HopName { request, number, model, upstream, purpose } = name;
        let span = tracing::debug_span!(
            parent: parent,
            "hop",
            id = format_args!("{request}:hop{number}"),
            model,
            upstream,
            purpose,
            outcome = Empty
        );
        Self { span, begun, is_ended: false }
    }

    /// The span, in which the tools that the hop calls run.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The hop has ended, if it had not before. `outcome` is its finish reason, or why it has none.
    pub(crate) fn end(&mut self, name: HopName<'_>, outcome: &dyn fmt::Display) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        self.span.record("outcome", display(outcome));
        let HopName { request, number, model, upstream, purpose } = name;
        tracing::debug!(
            target: "toolwire::access",
            id = format_args!("{request}:hop{number}"),
            model,
            upstream,
            purpose,
            duration_ms = milliseconds(self.begun.elapsed()),
            end = %outcome,
            "hop"
        );
    }
}
