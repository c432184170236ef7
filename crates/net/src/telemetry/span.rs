//! [`Span`]: a part of a trace.

use std::{
    fmt, mem,
    sync::Arc,
    time::{Instant, SystemTime},
};

use super::{SpanContext, Tracer};
use crate::untrusted_text::{MAX_VALUE, clip};

/// Maximum number of attributes of a span. Any more are left out.
const MAX_ATTRIBUTES: usize = 64;

/// Kind of operation that a span describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A step within toolwire.
    Internal,
    /// A request that a client has sent.
    Server,
    /// A request to another server.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Count(u64),
    /// A number with a fraction: seconds, a temperature.
    Number(f64),
    /// A boolean.
    Switch(bool),
    /// Texts.
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

/// A span as it is exported.
#[derive(Debug, Clone)]
pub struct SpanRecord {
    pub context: SpanContext,
    /// The parent span.
    pub parent: Option<[u8; 8]>,
    /// A span of another trace that caused this one.
    pub link: Option<SpanContext>,
    pub name: String,
    pub kind: SpanKind,
    pub start: SystemTime,
    pub end: SystemTime,
    /// Names and values.
    pub attributes: Vec<(&'static str, Value)>,
    /// Whether the operation failed.
    pub is_error: bool,
}

/// A span in progress. It ends when it is dropped, or earlier with [`Span::end`]. Empty if there is no tracer.
#[derive(Default)]
pub struct Span(Option<Box<ActiveSpan>>);

struct ActiveSpan {
    tracer: Arc<Tracer>,
    record: SpanRecord,
    begun: Instant,
    /// Number of attributes with which the span began.
    initial: usize,
    is_ended: bool,
}

/// A span under which child spans can begin, and the place to which they are sent.
#[derive(Clone)]
pub struct Parent {
    tracer: Arc<Tracer>,
    context: SpanContext,
}

impl Parent {
    /// Begins a child of this span. `about` returns the child's name and first attributes; it is not called if nothing
    /// is recorded.
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
    /// Begins a span with this context, parent and link.
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

    /// The context of the span. `None` if there is no tracer.
    pub fn context(&self) -> Option<&SpanContext> {
        self.0.as_ref().map(|active| &active.record.context)
    }

    /// The handle under which child spans begin. `None` if there is no tracer.
    pub fn parent(&self) -> Option<Parent> {
        let active = self.0.as_ref()?;
        Some(Parent { tracer: Arc::clone(&active.tracer), context: active.record.context.clone() })
    }

    /// Begins a sibling of this span, with the same name and initial attributes.
    pub fn again(&self) -> Self {
        let Some(active) = &self.0 else { return Self::default() };
        let SpanRecord { context, parent, name, kind, attributes, .. } = &active.record;
        let context = SpanContext { span: Tracer::span_id(), ..context.clone() };
        let initial = attributes.iter().take(active.initial).cloned().collect();
        Self::begin(&active.tracer, (context, *parent, None), *kind, || (name.clone(), initial))
    }

    /// Sets an attribute. `value` is called only if the span is recorded.
    pub fn set<V: Into<Value>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        if let Some(active) = self.0.as_mut().filter(|active| active.record.context.is_sampled)
            && active.record.attributes.len() < MAX_ATTRIBUTES
        {
            active.record.attributes.push((name, value().into()));
        }
    }

    /// Marks the operation as failed, with this reason.
    pub fn fail(&mut self, reason: &str) {
        self.set("error.type", || reason);
        if let Some(active) = &mut self.0 {
            active.record.is_error = true;
        }
    }

    /// Ends the span now, unless it has already ended. Child spans may still begin under it.
    pub fn end(&mut self) {
        let Some(active) = &mut self.0 else { return };
        if !active.record.context.is_sampled || mem::replace(&mut active.is_ended, true) {
            return;
        }
        let record = &mut active.record;
        // The system clock may have been changed since the start.
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
