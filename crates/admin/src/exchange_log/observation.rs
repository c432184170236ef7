//! [`Observation`]: updates the record of an exchange while it runs.

use std::{sync::Arc, time::Duration};

use super::{ExchangeLog, ExchangeRecord};
use toolwire_gateway::{
    exchange_observer::{ExchangeBegin, ExchangeEnd, ExchangeObserver, HopResult},
    tap::{Opening, Watch},
};
use toolwire_net::redact::Redactor;
use toolwire_pipeline::pipeline::EmittedText;

#[derive(Debug)]
pub(crate) struct Observation {
    log: Arc<ExchangeLog>,
    record: Arc<ExchangeRecord>,
}

impl Observation {
    /// Starts to observe a new exchange. `None` if the log is switched off.
    pub(crate) fn begin(log: &Arc<ExchangeLog>, begin: &ExchangeBegin<'_>) -> Option<Self> {
        let record = log.begin(begin)?;
        Some(Self { log: Arc::clone(log), record })
    }
}

impl ExchangeObserver for Observation {
    fn watch(&self, opening: &Opening<'_>, redactor: &Redactor) -> Option<Box<dyn Watch>> {
        Some(self.log.capture(&self.record, opening, redactor))
    }

    fn hop_started(&self) {
        self.record.hop_started();
    }

    fn hop_ended(&self, result: HopResult<'_>) {
        self.record.hop_ended(result);
    }

    fn content_began(&self, after: Duration) {
        self.record.content_began(after);
    }

    fn progressed(&self, text: &EmittedText, held: u64) {
        self.record.progressed(text, held);
    }

    fn ended(&self, end: &ExchangeEnd<'_>) {
        self.record.ended(end);
    }
}
