//! [`Span`]: an operation within a trace.

use std::{
    fmt, mem,
    sync::Arc,
    time::{Instant, SystemTime},
};

use super::{SpanContext, Tracer};
use crate::untrusted_text::{MAX_VALUE, clip};

/// Maximum number of attributes of a span. Further ones are left out.
const MAX_ATTRIBUTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A step inside toolwire.
    Internal,
    /// A request from a client.
    Server,
    /// A request to another server.
    Client,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Count(u64),
    Number(f64),
    Switch(bool),
    Texts(Vec<String>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(clip(text, MAX_VALUE).into_owned())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(switch: bool) -> Self {
        Self::Switch(switch)
    }
}

#[derive(Debug, Clone)]
pub struct SpanRecord {
    pub context: SpanContext,
    pub parent: Option<[u8; 8]>,
    /// A span of another trace that caused this one.
    pub link: Option<SpanContext>,
    pub name: String,
    pub kind: SpanKind,
    pub start: SystemTime,
    pub end: SystemTime,
    pub attributes: Vec<(&'static str, Value)>,
    pub is_error: bool,
}

/// A span in progress. It ends when it is dropped or when [`Span::end`] is called. Empty if there is no tracer.
#[derive(Default)]
pub struct Span(Option<Box<ActiveSpan>>);

struct ActiveSpan {
    tracer: Arc<Tracer>,
    record: SpanRecord,
    begun: Instant,
    /// Number of attributes that were given at the start.
    initial: usize,
    is_ended: bool,
}

/// A span that can have children, and the tracer to which they are sent.
#[derive(Clone)]
pub struct Parent {
    tracer: Arc<Tracer>,
    context: SpanContext,
}

impl Parent {
    /// Starts a child of this span. `about` returns its name and initial attributes; it is called only if the span is
    /// recorded.
    pub fn begin(
        &self,
        kind: SpanKind,
        about: impl FnOnce() -> (String, Vec<(&'static str, Value)>),
    ) -> Span {
        let context = SpanContext { span: Tracer::span_id(), ..self.context.clone() };
        Span::begin(&self.tracer, (context, Some(self.context.span), None), kind, about)
    }
}

impl Span {
    pub(super) fn begin(
        tracer: &Arc<Tracer>,
        (context, parent, link): (SpanContext, Option<[u8; 8]>, Option<SpanContext>),
        kind: SpanKind,
        about: impl FnOnce() -> (String, Vec<(&'static str, Value)>),
    ) -> Self {
        let (name, mut attributes) = if context.is_sampled { about() } else { Default::default() };
        attributes.truncate(MAX_ATTRIBUTES);
        let (start, initial) = (SystemTime::now(), attributes.len());
        let name = clip(&name, MAX_VALUE).into_owned();
        let record =
            SpanRecord { context, parent, link, name, kind, start, end: start, attributes, is_error: false };
        let (tracer, begun) = (Arc::clone(tracer), Instant::now());
        Self(Some(Box::new(ActiveSpan { tracer, record, begun, initial, is_ended: false })))
    }

    /// `None` if there is no tracer.
    pub fn context(&self) -> Option<&SpanContext> {
        self.0.as_ref().map(|active| &active.record.context)
    }

    /// Returns the handle for starting children. `None` if there is no tracer.
    pub fn parent(&self) -> Option<Parent> {
        let active = self.0.as_ref()?;
        Some(Parent { tracer: Arc::clone(&active.tracer), context: active.record.context.clone() })
    }

    /// Starts a sibling of this span, with the same name and initial attributes.
    pub fn again(&self) -> Self {
        let Some(active) = &self.0 else { return Self::default() };
        let SpanRecord { context, parent, name, kind, attributes, .. } = &active.record;
        let context = SpanContext { span: Tracer::span_id(), ..context.clone() };
        let initial = attributes.iter().take(active.initial).cloned().collect();
        Self::begin(&active.tracer, (context, *parent, None), *kind, || (name.clone(), initial))
    }

    /// Sets an attribute. Calls `value` only if the span is recorded.
    pub fn set<V: Into<Value>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        if let Some(active) = self.0.as_mut().filter(|active| active.record.context.is_sampled)
            && active.record.attributes.len() < MAX_ATTRIBUTES
        {
            active.record.attributes.push((name, value().into()));
        }
    }

    /// Marks the operation as failed for this reason.
    pub fn fail(&mut self, reason: &str) {
        self.set("error.type", || reason);
        if let Some(active) = &mut self.0 {
            active.record.is_error = true;
        }
    }

    /// Ends the span, unless it has already ended. Children can still be started.
    pub fn end(&mut self) {
        let Some(active) = &mut self.0 else { return };
        if !active.record.context.is_sampled || mem::replace(&mut active.is_ended, true) {
            return;
        }
        let record = &mut active.record;
        // The duration is measured with a monotonic clock, since the system clock may have been changed.
        record.end = record.start.checked_add(active.begun.elapsed()).unwrap_or(record.start);
        active.tracer.send(record.clone());
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.context()).finish()
    }
}

impl fmt::Debug for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parent").field(&self.context).finish()
    }
}
