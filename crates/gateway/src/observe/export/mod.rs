//! Sends traces and metrics to a collector over OTLP/HTTP.
//!
//! A single thread with its own runtime exports, so that a slow collector never delays a request. It sends one export
//! at a time, each with a time limit, and never repeats one: what a collector does not accept is lost. The log says
//! when exports start to fail and when they succeed again, and metrics count failed exports.

mod exposition;
mod otlp;

use std::{
    future::pending,
    io,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use prost::Message as _;
use secrecy::ExposeSecret;
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};

use self::otlp::Resource;
use super::Metrics;
use toolwire_execution::http::{HttpClient, HttpError};
use toolwire_net::telemetry::{Message, SpanRecord, TelemetrySettings, TraceMetrics, Tracer};

/// Maximum number of spans in one export.
const MAX_BATCH: usize = 512;

/// Maximum size in bytes of a collector's response, which is ignored.
const MAX_RESPONSE: usize = 64 << 10;

/// One year. Longer delays make no difference.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Starts the export thread, which ends when the tracer is dropped.
///
/// # Errors
/// If the thread cannot be created.
pub(crate) fn start(settings: &Arc<TelemetrySettings>, metrics: &Arc<Metrics>) -> io::Result<Arc<Tracer>> {
    let counted = metrics.traces();
    let (tracer, queue) = Tracer::new(settings, &counted);
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (settings, metrics) = (Arc::clone(settings), Arc::clone(metrics));
    thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
        runtime.block_on(async {
            // Created here because reading the system's certificates takes time.
            let exporter = Exporter::new(&settings, counted);
            exporter.run(&settings, &metrics, queue).await;
        });
        // Unlike a drop, this does not wait for a pending DNS lookup.
        runtime.shutdown_background();
    })?;
    Ok(tracer)
}

/// Returns the time after `delay`, or a time in the far future if `delay` is too long.
fn after(delay: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(delay).unwrap_or(now + FAR)
}

/// Sleeps until `then`, or forever without it.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => pending().await,
    }
}

/// A kind of exported data, named as in the collector's paths and in toolwire's counters.
#[derive(Debug, Clone, Copy)]
enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    Address(#[from] http::Error),
    #[error(transparent)]
    Exchange(#[from] HttpError),
    #[error("no response within {0:?}")]
    Late(Duration),
    #[error("status {0}")]
    Status(StatusCode),
}

#[derive(Debug)]
struct Exporter {
    http: HttpClient,
    base: Uri,
    headers: HeaderMap,
    limit: Duration,
    resource: Resource,
    counted: TraceMetrics,
    /// Whether the latest export of traces and of metrics failed.
    is_failing: [bool; 2],
}

impl Exporter {
    fn new(settings: &TelemetrySettings, counted: TraceMetrics) -> Self {
        let mut headers = HeaderMap::new();
        for (name, text) in &settings.headers {
            // Valid, since the configuration has checked them.
            if let (Ok(name), Ok(mut value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(text.expose_secret()))
            {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("toolwire/", env!("CARGO_PKG_VERSION"))),
        );
        Self {
            http: HttpClient::direct(),
            base: settings.endpoint.clone(),
            headers,
            limit: settings.timeout,
            resource: otlp::resource(&settings.service_name, &settings.resource),
            counted,
            is_failing: [false; 2],
        }
    }

    async fn run(
        mut self,
        settings: &TelemetrySettings,
        metrics: &Metrics,
        mut queue: mpsc::Receiver<Message>,
    ) {
        let began = SystemTime::now();
        let mut next_metrics = settings.metrics_interval.map(after);
        let mut batch = Vec::new();
        let mut flushed: Vec<oneshot::Sender<()>> = Vec::new();
        let mut due = Instant::now();
        loop {
            let message = tokio::select! {
                message = queue.recv() => message.map(Some),
                () = sleep_until(due), if !batch.is_empty() => Some(None),
                () = until(next_metrics) => {
                    self.send_metrics(metrics, began).await;
                    next_metrics = settings.metrics_interval.map(after);
                    continue;
                }
            };
            let is_last = message.is_none();
            match message.flatten() {
                Some(Message::Span(span)) => {
                    if batch.is_empty() {
                        due = after(settings.batch_delay);
                    }
                    batch.push(*span);
                    if batch.len() < MAX_BATCH {
                        continue;
                    }
                }
                Some(Message::Flush(tell)) => flushed.push(tell),
                None => {}
            }
            self.send_spans(&mut batch).await;
            if is_last || !flushed.is_empty() {
                if settings.metrics_interval.is_some() {
                    self.send_metrics(metrics, began).await;
                }
                // An error means that nothing waits for the flush any more.
                flushed.drain(..).for_each(|tell| _ = tell.send(()));
            }
            if is_last {
                return;
            }
        }
    }

    async fn send_spans(&mut self, batch: &mut Vec<SpanRecord>) {
        if !batch.is_empty() {
            let body = otlp::traces(&self.resource, batch.drain(..)).encode_to_vec();
            self.send(Signal::Traces, body).await;
        }
    }

    async fn send_metrics(&mut self, metrics: &Metrics, began: SystemTime) {
        let read = exposition::metrics(&metrics.text(), began, SystemTime::now());
        let body = otlp::metrics(&self.resource, read).encode_to_vec();
        self.send(Signal::Metrics, body).await;
    }

    async fn send(&mut self, signal: Signal, body: Vec<u8>) {
        let sent = timeout(self.limit, self.exchange(signal, body)).await;
        let sent = sent.unwrap_or_else(|_elapsed| Err(ExportError::Late(self.limit)));
        let [traces, metrics] = &mut self.is_failing;
        let is_failing = match signal {
            Signal::Traces => traces,
            Signal::Metrics => metrics,
        };
        let signal = signal.name();
        match sent {
            Ok(()) if *is_failing => tracing::info!(signal, "the collector accepts telemetry again"),
            Ok(()) => {}
            Err(reason) => {
                self.counted.failed.get_or_create(&vec![("signal", signal)]).inc();
                if !*is_failing {
                    tracing::warn!(signal, %reason, "the collector does not accept telemetry; what is not exported is lost");
                }
                *is_failing = true;
                return;
            }
        }
        *is_failing = false;
    }

    /// # Errors
    /// If the collector does not accept the export.
    async fn exchange(&self, signal: Signal, body: Vec<u8>) -> Result<(), ExportError> {
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = http::Method::POST;
        let path = format!("{}/v1/{}", self.base.path().trim_end_matches('/'), signal.name());
        let (scheme, authority) = (
            self.base.scheme_str().unwrap_or_default(),
            self.base.authority().map_or("", |own| own.as_str()),
        );
        *request.uri_mut() =
            Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build()?;
        *request.headers_mut() = self.headers.clone();
        let response = self.http.send(request, MAX_RESPONSE).await?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(ExportError::Status(status)),
        }
    }
}
