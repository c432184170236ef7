//! [`Tracer`]: starts traces, and queues spans that have ended.

use std::{sync::Arc, time::Duration};

use http::HeaderMap;
use prometheus_client::metrics::{counter::Counter, family::Family};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    SpanContext, TelemetrySettings,
    span::{Span, SpanKind, SpanRecord, Value},
};

/// Maximum number of queued spans. Further ones are dropped.
const MAX_WAITING: usize = 2048;

#[derive(Debug)]
pub enum Message {
    Span(Box<SpanRecord>),
    /// Export all queued spans, then notify this sender.
    Flush(oneshot::Sender<()>),
}

#[derive(Debug, Clone, Default)]
pub struct TraceMetrics {
    /// Spans that were dropped because the queue was full.
    pub dropped: Counter,
    /// Failed exports of `traces` or `metrics`.
    pub failed: Family<Vec<(&'static str, &'static str)>, Counter>,
}

#[derive(Debug)]
pub struct Tracer {
    queue: mpsc::Sender<Message>,
    dropped: Counter,
    trusts_context: bool,
    /// A trace is recorded if the number at the end of its id is below this threshold.
    threshold: u64,
}

/// Samplers interpret the end of a trace id as a number. This is its maximum.
const LARGEST: u64 = u64::MAX >> 1;

impl Tracer {
    /// Creates a tracer and the receiver of its queue.
    pub fn new(settings: &TelemetrySettings, metrics: &TraceMetrics) -> (Arc<Self>, mpsc::Receiver<Message>) {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a share of all ids; the conversion saturates"
        )]
        let threshold = (settings.sample * LARGEST as f64) as u64;
        let threshold = if settings.sample >= 1.0 { u64::MAX } else { threshold };
        let (dropped, trusts_context) = (metrics.dropped.clone(), settings.trusts_context);
        (Arc::new(Self { queue, dropped, trusts_context, threshold }), waiting)
    }

    /// Starts the span of a client's request. If clients' traces are continued, it belongs to the client's trace, and
    /// is recorded if the client records it. Otherwise it starts a new trace with a link to the client's.
    ///
    /// `about` returns the span's name and initial attributes.
    pub fn begin(
        self: &Arc<Self>,
        headers: &HeaderMap,
        about: impl FnOnce() -> (String, Vec<(&'static str, Value)>),
    ) -> Span {
        let context = match SpanContext::of(headers) {
            Some(theirs) if self.trusts_context => {
                let parent = theirs.span;
                (SpanContext { span: Self::span_id(), ..theirs }, Some(parent), None)
            }
            link => (self.new_trace(), None, link),
        };
        Span::begin(self, context, SpanKind::Server, about)
    }

    fn new_trace(&self) -> SpanContext {
        let trace = fastrand::u128(1..).to_be_bytes();
        SpanContext { trace, span: Self::span_id(), is_sampled: self.samples(trace), state: None }
    }

    /// Whether a trace that starts here is recorded. Other programs that sample by the same part of the id agree.
    fn samples(&self, trace: [u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.threshold
    }

    pub(super) fn span_id() -> [u8; 8] {
        fastrand::u64(1..).to_be_bytes()
    }

    /// Queues a span, or drops it if the queue is full.
    pub(super) fn send(&self, record: SpanRecord) {
        if self.queue.try_send(Message::Span(Box::new(record))).is_err() {
            self.dropped.inc();
        }
    }

    /// Waits until all queued spans have been exported, for at most `limit`.
    pub async fn flush(&self, limit: Duration) {
        let flushed = async {
            let (tell, told) = oneshot::channel();
            if self.queue.send(Message::Flush(tell)).await.is_ok() {
                let _ = told.await;
            }
        };
        // Spans that were not exported in time are lost.
        let _ = timeout(limit, flushed).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn tracer(sample: f64, trusts_context: bool) -> (Arc<Tracer>, mpsc::Receiver<Message>, TraceMetrics) {
        let settings = TelemetrySettings {
            endpoint: http::Uri::from_static("http://127.0.0.1:1"),
            headers: BTreeMap::new(),
            service_name: "toolwire".to_owned(),
            resource: Vec::new(),
            sample,
            trusts_context,
            metrics_interval: None,
            batch_delay: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
        };
        let metrics = TraceMetrics::default();
        let (tracer, waiting) = Tracer::new(&settings, &metrics);
        (tracer, waiting, metrics)
    }

    fn begun(tracer: &Arc<Tracer>, parent: Option<&str>) -> Span {
        let headers =
            parent.map(|parent| (http::HeaderName::from_static("traceparent"), parent.parse().unwrap()));
        tracer.begin(&headers.into_iter().collect(), || ("POST chat".to_owned(), Vec::new()))
    }

    fn next(waiting: &mut mpsc::Receiver<Message>) -> Option<SpanRecord> {
        match waiting.try_recv().ok()? {
            Message::Span(record) => Some(*record),
            Message::Flush(_) => None,
        }
    }

    #[test]
    fn trusted_clients_traces_go_on() {
        let (tracer, mut waiting, _) = tracer(0.0, true);
        drop(begun(&tracer, Some(PARENT)));
        let record = next(&mut waiting).unwrap();
        assert!(record.context.to_string().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert_eq!(record.parent, Some(0x00f0_67aa_0ba9_02b7_u64.to_be_bytes()));
        assert_eq!(record.link, None);
        let unrecorded = begun(&tracer, Some(&PARENT.replace("-01", "-00")));
        assert!(!unrecorded.context().unwrap().is_sampled);
        drop((unrecorded, begun(&tracer, None)));
        assert!(next(&mut waiting).is_none());
    }

    #[test]
    fn traces_of_untrusted_clients_are_linked() {
        let (tracer, mut waiting, _) = tracer(1.0, false);
        drop(begun(&tracer, Some(&PARENT.replace("-01", "-00"))));
        let record = next(&mut waiting).unwrap();
        assert!(!record.context.to_string().contains("4bf92f3577b34da6a3ce929d0e0e4736"));
        assert_eq!(record.parent, None);
        assert!(record.link.unwrap().to_string().contains("4bf92f3577b34da6a3ce929d0e0e4736"));
    }

    #[test]
    fn the_share_of_traces_is_sampled_by_their_ids() {
        let half = tracer(0.5, false).0;
        let trace = |end: u64| u128::from(end).to_be_bytes();
        assert!(half.samples(trace(u64::MAX / 2 - 1)));
        assert!(!half.samples(trace(u64::MAX / 2 + 2)));
        assert!(tracer(1.0, false).0.samples([0xff; 16]));
        assert!(!tracer(0.0, false).0.samples([0; 16]));
    }

    #[test]
    fn parts_and_repetitions_belong_to_the_same_trace() {
        let (tracer, mut waiting, _) = tracer(1.0, true);
        let server = begun(&tracer, Some(PARENT));
        let about = || ("chat m".to_owned(), vec![("gen_ai.operation.name", "chat".into())]);
        let mut first = server.parent().unwrap().begin(SpanKind::Client, about);
        first.fail("overloaded");
        let second = first.again();
        drop(first);
        drop(second);
        let (first, second) = (next(&mut waiting).unwrap(), next(&mut waiting).unwrap());
        assert_eq!((first.is_error, second.is_error), (true, false));
        assert_eq!((first.attributes.len(), second.attributes.len()), (2, 1));
        assert_eq!((first.parent, first.context.trace), (second.parent, second.context.trace));
        assert_eq!(first.parent, Some(server.context().unwrap().span));
        assert_ne!(first.context.span, second.context.span);
    }

    #[test]
    fn spans_beyond_the_queue_are_dropped_and_counted() {
        let (tracer, mut waiting, metrics) = tracer(1.0, true);
        (0..MAX_WAITING + 3).for_each(|_| drop(begun(&tracer, None)));
        assert_eq!(metrics.dropped.get(), 3);
        assert_eq!(std::iter::from_fn(|| next(&mut waiting)).count(), MAX_WAITING);
    }

    #[test]
    fn attributes_are_limited_in_number_and_length() {
        let (tracer, mut waiting, _) = tracer(1.0, true);
        let mut span = begun(&tracer, None);
        span.set("long", || Value::from("x".repeat(10_000).as_str()));
        (0..100).for_each(|_| span.set("n", || true));
        drop(span);
        let record = next(&mut waiting).unwrap();
        assert_eq!(record.attributes.len(), 64);
        assert!(matches!(&record.attributes[0].1, Value::Text(text) if text.len() < 300));
    }
}
