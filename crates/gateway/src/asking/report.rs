//! [`QuestionReport`]: logs, counts and publishes one question to a model.

use std::{sync::Arc, time::Instant};

use tracing::Span;

use crate::{
    count,
    observe::{Attempt, HopEnd, HopName, HopRecord, Metrics, failure_name, finish_name, kind_name},
    report::{millis, usage},
};
use toolwire_config::Model;
use toolwire_execution::{
    Audit, AuditEvent, Subject,
    ask::{Payer, Question},
};
use toolwire_net::telemetry::{SpanContext, current};
use toolwire_pipeline::{
    failure::Failure,
    pipeline::{Pipeline, Tally},
};

/// Where questions are reported.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    pub(crate) metrics: Arc<Metrics>,
    /// The event bus, if there may be subscribers.
    pub(crate) audit: Option<Arc<Audit>>,
}

/// The report of one question, which is completed on drop.
#[derive(Debug)]
pub(super) struct QuestionReport<'c> {
    witness: &'c Witness,
    model: &'c Model,
    subject: Subject,
    purpose: &'static str,
    record: HopRecord,
    traced: Option<SpanContext>,
    begun: Instant,
    /// `None` until the upstream's response has been read.
    tally: Option<Tally>,
    payer: Option<Arc<dyn Payer>>,
    /// Input and output tokens charged to the payer.
    spent: (u64, u64),
    failure: Option<Failure>,
}

impl<'c> QuestionReport<'c> {
    pub(super) fn begin(witness: &'c Witness, question: &Question, model: &'c Model) -> Self {
        let (subject, purpose) = (question.subject.clone(), question.purpose.name());
        let name = hop_name(&subject, model, purpose);
        if let Some(audit) = &witness.audit {
            let upstream = model.upstream.name.clone();
            let asked = model.upstream_name(&question.conversation.model).to_owned();
            let event = AuditEvent::HopStart { upstream, model: asked, purpose: Some(purpose) };
            audit.publish(Some(&subject), event);
        }
        let asked = model.upstream_name(&question.conversation.model);
        let (sampling, is_streamed) = (&question.conversation.sampling, question.conversation.stream);
        let attempt = Attempt::begin(current().as_ref(), &model.upstream, asked, sampling, is_streamed);
        let traced = attempt.context().cloned();
        let record = HopRecord::begin(&Span::current(), name, attempt);
        let begun = Instant::now();
        let payer = question.payer.clone();
        Self {
            witness,
            model,
            subject,
            purpose,
            record,
            traced,
            begun,
            tally: None,
            payer,
            spent: (0, 0),
            failure: None,
        }
    }

    pub(super) fn context(&self) -> Option<&SpanContext> {
        self.traced.as_ref()
    }

    /// Records that the upstream's response has started. `input` is the estimated size of the question in tokens.
    pub(super) fn answered(&mut self, input: u64) {
        self.spent = (input, 0);
    }

    /// Records the usage once `pipeline` has read the upstream's response, to its end or to a failure.
    pub(super) fn counted(&mut self, pipeline: &Pipeline) {
        let tally = pipeline.tally();
        self.spent = count::spent(pipeline, &tally, self.spent.0);
        self.tally = Some(tally);
    }

    pub(super) fn failed(&mut self, failure: &Failure) {
        self.failure = Some(failure.clone());
    }
}

fn hop_name<'n>(subject: &'n Subject, model: &'n Model, purpose: &'static str) -> HopName<'n> {
    HopName {
        request: &subject.exchange.request,
        number: subject.hop,
        model: &model.name,
        upstream: &model.upstream,
        purpose: Some(purpose),
    }
}

impl Drop for QuestionReport<'_> {
    fn drop(&mut self) {
        let finish = match (&self.failure, &self.tally) {
            (Some(failure), _) => failure_name(failure),
            (None, Some(tally)) => tally.finish.map_or("none", finish_name),
            (None, None) => "cancelled",
        };
        let (upstream, tally) = (&self.model.upstream.name, self.tally.clone().unwrap_or_default());
        let error = match (&self.failure, &self.tally) {
            (Some(failure), _) => Some(kind_name(failure.kind())),
            (None, Some(_)) => None,
            (None, None) => Some("cancelled"),
        };
        let end = HopEnd { outcome: &finish, error, tokens: (tally.input_tokens, tally.output_tokens) };
        self.record.end(hop_name(&self.subject, self.model, self.purpose), &end, &self.witness.metrics);
        self.witness.metrics.tokens(&self.model.name, upstream, &tally);
        if let Some(payer) = &self.payer {
            payer.pay(&self.model.name, self.spent);
            self.witness.metrics.key_tokens(payer.name(), &self.model.name, self.spent);
        }
        if let Some(audit) = &self.witness.audit {
            let event = AuditEvent::HopEnd {
                finish: finish.to_owned(),
                usage: usage(tally.input_tokens, tally.output_tokens),
                millis: millis(self.begun.elapsed()),
                purpose: Some(self.purpose),
            };
            audit.publish(Some(&self.subject), event);
        }
    }
}
