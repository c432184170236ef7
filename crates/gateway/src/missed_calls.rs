//! [`MissedCalls`]: notices calls in a format that is not looked for, and says which setting would find them.
//!
//! ```text
//! complete response without calls, to a request with tools ─its first bytes─▶ find_formats, in another thread
//!                                                                  └─▶ log line, metric, event
//! ```
//!
//! Of each model, the first responses are read and then few, so that the text of most responses is not kept.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use crate::observe::Metrics;
use toolwire_execution::{Audit, AuditEvent, ExchangeId, Subject};
use toolwire_pipeline::{
    conversation::Conversation,
    detect::find_format::{Confidence, FoundFormat, find_formats},
    format::KnownFormats,
    pipeline::Pipeline,
    rules::{Detect, Rules},
};

/// How many bytes of a response are read.
const MAX_TEXT: usize = 8 << 10;

/// How many responses of a model are read, and of the following ones, each of which.
const FIRST: u64 = 16;
const EVERY: u64 = 64;

/// Maximum number of models, since clients may invent names.
const MAX_MODELS: usize = 256;

/// What is known about the models of one configuration, shared by all threads.
#[derive(Debug)]
pub(crate) struct MissedCalls {
    models: Mutex<HashMap<String, SeenModel>>,
    /// Whether a response is being read. Others are not, meanwhile: one of them is enough.
    is_reading: AtomicBool,
    metrics: Arc<Metrics>,
    audit: Option<Arc<Audit>>,
}

#[derive(Debug, Default)]
struct SeenModel {
    responses: u64,
    /// The formats that have been logged.
    logged: Vec<&'static str>,
}

/// A response that is read when it is complete.
#[derive(Debug)]
pub(crate) struct WatchedResponse {
    missed: Arc<MissedCalls>,
    exchange: ExchangeId,
    model: String,
    detect: Detect,
    known: Arc<KnownFormats>,
}

impl MissedCalls {
    pub(crate) fn new(metrics: Arc<Metrics>, audit: Option<Arc<Audit>>) -> Self {
        Self { models: Mutex::default(), is_reading: AtomicBool::new(false), metrics, audit }
    }

    /// Returns what watches the response of `model` to this request, if it is to be read.
    pub(crate) fn watch(
        self: &Arc<Self>,
        exchange: &ExchangeId,
        model: &str,
        conversation: &Conversation,
        rules: &Rules,
        known: &Arc<KnownFormats>,
    ) -> Option<Box<WatchedResponse>> {
        if rules.detect == Detect::Off
            || conversation.callable_tools().next().is_none()
            || !self.is_due(model)
        {
            return None;
        }
        Some(Box::new(WatchedResponse {
            missed: Arc::clone(self),
            exchange: exchange.clone(),
            model: model.to_owned(),
            detect: rules.detect.clone(),
            known: Arc::clone(known),
        }))
    }

    /// Counts a response, and says whether it is one of those that are read.
    fn is_due(&self, model: &str) -> bool {
        let mut models = self.models.lock();
        let Some(seen) = models.get_mut(model) else {
            if models.len() < MAX_MODELS {
                models.insert(model.to_owned(), SeenModel { responses: 1, ..SeenModel::default() });
                return true;
            }
            return false;
        };
        seen.responses += 1;
        seen.responses <= FIRST || seen.responses.is_multiple_of(EVERY)
    }

    /// Whether the format is new for the model.
    fn is_new(&self, model: &str, format: &'static str) -> bool {
        let mut models = self.models.lock();
        let Some(seen) = models.get_mut(model).filter(|seen| !seen.logged.contains(&format)) else {
            return false;
        };
        seen.logged.push(format);
        true
    }
}

impl WatchedResponse {
    /// How many bytes of the response's text are needed.
    pub(crate) fn kept_text(&self) -> usize {
        MAX_TEXT
    }

    /// Reads the response, which is complete, in another thread.
    pub(crate) fn completed(self: Box<Self>, pipeline: &Pipeline) {
        let tally = pipeline.tally();
        let Some(text) = pipeline.emitted_text().map(|text| text.kept.as_str()) else { return };
        let is_found = !tally.calls.is_empty() || tally.quoted_calls.as_text > 0;
        let tools = pipeline.tools();
        if is_found || !tools.names().any(|name| text.contains(name)) {
            return;
        }
        if !self.missed.is_reading.swap(true, Ordering::AcqRel) {
            let (text, tools) = (text.to_owned(), tools.clone());
            spawn_blocking(move || {
                let best = find_formats(&text, &tools, &self.known).into_iter().next();
                self.missed.is_reading.store(false, Ordering::Release);
                if let Some(found) = best.filter(|best| self.counts(best)) {
                    self.tell(&found);
                }
            });
        }
    }

    /// Whether the calls would be found with another setting. Those that are read but were left as text are quotations.
    fn counts(&self, found: &FoundFormat) -> bool {
        let is_sought = match &self.detect {
            Detect::Auto | Detect::Off => found.is_automatic,
            Detect::AutoAnd(names) => found.is_automatic || names.contains(&found.format.name),
            Detect::Formats(names) => names.contains(&found.format.name),
        };
        let is_sure =
            found.confidence >= Confidence::Likely && found.calls.iter().all(|call| call.is_declared);
        is_sure && !is_sought
    }

    fn tell(&self, found: &FoundFormat) {
        let format = found.format.name;
        self.missed.metrics.missed_call(format);
        if let Some(audit) = &self.missed.audit {
            let subject = Subject { exchange: self.exchange.clone(), hop: 1 };
            audit.publish(Some(&subject), AuditEvent::CallMissed { format, calls: found.calls.len() });
        }
        if self.missed.is_new(&self.model, format) {
            tracing::warn!(
                request_id = %self.exchange.request,
                model = %toolwire_net::untrusted_text::clip(&self.model, 128),
                format,
                "a response has a call in a format that is not looked for: `detect = [\"{format}\"]` in its [[models]] \
                 finds it"
            );
        }
    }
}
