//! [`Span`]: a part of a trace.

use std::{
    fmt, mem,
    sync::Arc,
    time::{Instant, SystemTime},
};

use super::{SpanContext, Tracer};
use crate::untrusted::{MAX_VALUE, clip};

/// Attributes of a span. What is beyond them is left out.
const MAX_ATTRIBUTES: usize = 64;

/// What a span describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A step of our own.
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
    /// Yes or no.
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
    /// The span that it is part of.
    pub parent: Option<[u8; 8]>,
    /// A span of another trace that caused it.
    pub link: Option<SpanContext>,
    pub name: String,
    pub kind: SpanKind,
    pub start: SystemTime,
    pub end: SystemTime,
    /// Names and values.
    pub attributes: Vec<(&'static str, Value)>,
    /// It failed.
    pub is_error: bool,
}

/// A part of a trace that is under way. It ends when it is dropped, or before. Empty if there is no tracer.
#[derive(Default)]
pub struct Span(Option<Box<ActiveSpan>>);

struct ActiveSpan {
    tracer: Arc<Tracer>,
    record: SpanRecord,
    begun: Instant,
    /// How many of the attributes it began with.
    initial: usize,
    is_ended: bool,
}

/// A span whose parts begin, and where they are sent.
#[derive(Clone)]
pub struct Parent {
    tracer: Arc<Tracer>,
    context: SpanContext,
}

impl Parent {
    /// Begins a part of this span. `about` gives its name and its first attributes; it is not called if nothing is recorded.
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
    /// A span with this context, parent and link.
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

    /// Its context; `None`: there is no tracer.
    pub fn context(&self) -> Option<&SpanContext> {
        self.0.as_ref().map(|active| &active.record.context)
    }

    /// What its parts begin from; `None`: there is no tracer.
    pub fn parent(&self) -> Option<Parent> {
        let active = self.0.as_ref()?;
        Some(Parent { tracer: Arc::clone(&active.tracer), context: active.record.context.clone() })
    }

    /// Begins a span beside this one, with the same name and the attributes that this one began with.
    pub fn again(&self) -> Self {
        let Some(active) = &self.0 else { return Self::default() };
        let SpanRecord { context, parent, name, kind, attributes, .. } = &active.record;
        let context = SpanContext { span: Tracer::span_id(), ..context.clone() };
        let initial = attributes.iter().take(active.initial).cloned().collect();
        Self::begin(&active.tracer, (context, *parent, None), *kind, || (name.clone(), initial))
    }

    /// Sets an attribute. `value` is used only if the span is recorded.
    pub fn set<V: Into<Value>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        if let Some(active) = self.0.as_mut().filter(|active| active.record.context.is_sampled)
            && active.record.attributes.len() < MAX_ATTRIBUTES
        {
            active.record.attributes.push((name, value().into()));
        }
    }

    /// What it describes has failed for this reason.
    pub fn fail(&mut self, reason: &str) {
        self.set("error.type", || reason);
        if let Some(active) = &mut self.0 {
            active.record.is_error = true;
        }
    }

    /// It ends now, if it has not ended before. Others may still begin from it.
    pub fn end(&mut self) {
        let Some(active) = &mut self.0 else { return };
        if !active.record.context.is_sampled || mem::replace(&mut active.is_ended, true) {
            return;
        }
        let record = &mut active.record;
        // The clock may have been set since.
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
