//! [`HostedCall`]: runs one call.
//!
//! ```text
//! permission ─▶ cache ─▶ rate limit ─▶ permits ─▶ run with timeout ─▶ mask secrets, shorten ─▶ result
//!                 │                       ▲               │
//!                 └─▶ an equal call's     └─ 1, 2, 4 s ◀──┘ failed, but can be retried
//!                     result
//! ```
//!
//! A cached result does not count against a rate limit.

use std::{pin::pin, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{Instrument, Span, field::Empty};

use super::{
    address,
    audit::{AuditEvent, CallRecord, Subject},
    cache::CacheKey,
    media::{kept, without_base64},
    progress,
    provider::{GivenUp, Hosts, Invocation},
    question::Shown,
    registry::Hosted,
    reports::{Late, Progress, Report, Reports, within as within_limits},
    rules::Permission,
    settings::ToolRules,
    shrink::shrink,
    tool::{ErrorCode, Output, ToolError},
    turn::{Finished, HostedTurn, too_large},
};
use toolwire_net::telemetry::{self, Parent, SpanKind, within};

/// Maximum size of [`Output::details`], in bytes. Larger details are left out.
const MAX_DETAILS: usize = 1 << 20;

/// Maximum length of an error message for the model, in characters.
const MAX_MESSAGE: usize = 1_000;

/// Delay before the first retry. It doubles with each retry.
const FIRST_DELAY: Duration = Duration::from_secs(1);

pub(super) struct HostedCall {
    pub(super) turn: Arc<HostedTurn>,
    pub(super) hosted: Hosted,
    pub(super) id: String,
    /// The arguments as the model wrote them, except that a checked URL is in normal form.
    pub(super) written: String,
    pub(super) arguments: Map<String, Value>,
    /// The host in the call's URL, if it has one.
    pub(super) domain: Option<String>,
    pub(super) canonical: String,
    pub(super) subject: Subject,
    /// The span of the call's hop.
    pub(super) hop: Span,
    /// The span of the request.
    pub(super) trace: Option<Parent>,
}

impl HostedCall {
    /// Runs the call and publishes its events.
    pub(super) async fn run(self) -> Finished {
        let audit = Arc::clone(self.turn.execution.audit());
        let provider = Arc::clone(&self.hosted.provider_name);
        let event = AuditEvent::ToolUse { call: self.record(), provider, progress: self.progress() };
        audit.publish(Some(&self.subject), event);
        let span = tracing::info_span!(
            parent: &self.hop,
            "hosted_call",
            request_id = &*self.subject.exchange.request,
            hop = self.subject.hop,
            call_id = self.id,
            tool = &*self.hosted.name,
            provider = &*self.hosted.provider_name,
            outcome = Empty
        );
        let trace = self.trace();
        // Pinned here, since the future is large and would be moved otherwise.
        let found = pin!(within(trace.parent(), self.found().instrument(span.clone())));
        let mut reporting = Reporting { call: &self, span, trace, began: Instant::now(), outcome: None };
        let running = self.turn.execution.cancels().begin(&self.subject.exchange.own, &self.id);
        let found = async {
            tokio::select! {
                biased;
                () = running.cancelled() => Err(ToolError::new(ErrorCode::Cancelled, "A person cancelled the call.")),
                found = found => found,
            }
        };
        let late = |_| out_of_time();
        let found = timeout_at(self.turn.deadline, found).await.map_err(late);
        let found = found.and_then(|found| found).map_err(|error| self.covered(error));
        reporting.outcome = Some(match &found {
            Ok((output, is_cached)) => {
                let code = output.is_error.then_some(ErrorCode::ProviderError);
                Told {
                    result: audit.content(&output.content),
                    details: audit.details(&output.details),
                    code,
                    is_cached: *is_cached,
                }
            }
            Err(error) => Told { result: audit.content(&error.message), ..Told::failed(error.code) },
        });
        found.map(|(output, _)| output)
    }

    /// Starts the call's span, which contains neither arguments nor results.
    fn trace(&self) -> telemetry::Span {
        let about = || {
            let name = &*self.hosted.name;
            let attributes = vec![
                ("gen_ai.operation.name", "execute_tool".into()),
                ("gen_ai.tool.name", name.into()),
                ("gen_ai.tool.type", "function".into()),
                ("gen_ai.tool.call.id", self.id.as_str().into()),
                ("toolwire.provider", (&*self.hosted.provider_name).into()),
                ("toolwire.hop", (self.subject.hop as u64).into()),
            ];
            (format!("execute_tool {name}"), attributes)
        };
        self.trace.as_ref().map(|trace| trace.begin(SpanKind::Internal, about)).unwrap_or_default()
    }

    /// Returns the result, and whether it was taken from an equal call.
    async fn found(&self) -> Result<(Arc<Output>, bool), ToolError> {
        self.permitted().await?;
        let execution = &self.turn.execution;
        let options = self.turn.options_of(&self.hosted);
        let ttl = self.hosted.rules.cache.ttl(self.hosted.spec.is_idempotent);
        let Some(ttl) = ttl.filter(|_| options.is_none_or(|options| !options.is_fresh)) else {
            return Ok((Arc::new(self.attempts().await?), false));
        };
        let key = CacheKey {
            client: self.turn.asker.owner,
            provider: Arc::clone(&self.hosted.provider_name),
            mark: execution.mark_of(&self.hosted.provider_name),
            tool: Arc::clone(&self.hosted.name),
            // The client's options are part of what is asked.
            arguments: options
                .map_or_else(|| self.canonical.clone(), |options| format!("{} {options:?}", self.canonical)),
        };
        let (output, is_cached) = execution.cache().get_or_run(key, ttl, self.attempts()).await?;
        if is_cached {
            let event = AuditEvent::CacheHit { call: self.record() };
            execution.audit().publish(Some(&self.subject), event);
        }
        Ok((output, is_cached))
    }

    /// Checks the call's URL against the tool's rules and the client's request, and the call itself against the permissions.
    async fn permitted(&self) -> Result<(), ToolError> {
        let rules = &self.hosted.rules;
        let url = self.hosted.url_argument().and_then(|argument| self.arguments.get(argument)?.as_str());
        self.turn.check_page(&self.hosted, url)?;
        if self.hosted.is_url_unknown() {
            let message = "The rules limit the domains of this tool, but not which argument has its URL (`url_argument`).";
            return Err(ToolError::new(ErrorCode::BlockedUrl, message));
        }
        if let Some(domain) = &self.domain
            && !address::is_admitted(domain, &rules.allow_domains, &rules.deny_domains)
        {
            let message = format!("Addresses at {domain} may not be used.");
            return Err(ToolError::new(ErrorCode::BlockedUrl, message));
        }
        let asked = self.turn.asker.asked(&self.hosted, self.domain.as_deref());
        let params = Value::Object(self.arguments.clone()).to_string();
        let spec = &self.hosted.spec;
        let shown = Shown { label: &spec.label, params: &params, definition: &|| spec.definition() };
        let permissions = self.turn.execution.permissions();
        permissions.check(&asked, shown, Some(&self.subject), self.turn.deadline).await
    }

    /// The hosts that the rules admit for this call, so that a redirect cannot lead to another one.
    fn hosts(&self) -> Hosts {
        let (hosted, asker) = (self.hosted.clone(), self.turn.asker.clone());
        let permissions = Arc::clone(self.turn.execution.permissions());
        Hosts::new(move |host| {
            let ToolRules { allow_domains, deny_domains, .. } = &hosted.rules;
            address::is_admitted(host, allow_domains, deny_domains)
                && permissions.configured(&asker.asked(&hosted, Some(host))) == Permission::Allow
        })
    }

    /// Runs the call, and retries it after failures if that is safe.
    async fn attempts(&self) -> Result<Output, ToolError> {
        let execution = &self.turn.execution;
        let client = self.turn.asker.owner;
        execution.rates().take(&self.hosted, client, self.turn.deadline).await?;
        let invocation = Invocation {
            id: self.id.clone(),
            tool: self.hosted.spec.name.clone(),
            arguments: self.arguments.clone(),
            client,
            payer: self.turn.asker.payer.clone(),
            subject: self.subject.clone(),
            deadline: self.turn.deadline,
            given_up: GivenUp::default(),
            reports: Reports::default(),
            options: self.turn.options_of(&self.hosted).cloned().unwrap_or_default(),
            hosts: self.hosts(),
        };
        let mut attempt = 1;
        loop {
            let error = match self.attempt(&invocation).await {
                Ok(output) => return self.cleaned(kept(output, execution.files()).await),
                Err(error) => error,
            };
            let Some(delay) = self.delay(&error, attempt) else { return Err(error) };
            attempt += 1;
            let delay_millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            let event = AuditEvent::Retry { call: self.record(), attempt, delay_millis, code: error.code };
            execution.audit().publish(Some(&self.subject), event);
            sleep(delay).await;
        }
    }

    /// Runs the call once, as soon as the turn, the provider and the process each have a permit for it.
    async fn attempt(&self, invocation: &Invocation) -> Result<Output, ToolError> {
        let closed = |_| ToolError::new(ErrorCode::Cancelled, "The tool was stopped.");
        // All calls acquire their permits in this order, so that they cannot deadlock.
        let _in_turn = self.turn.running.acquire().await.map_err(closed)?;
        let places = self.turn.execution.places();
        let _at_provider = match places.of_provider(&self.hosted.provider_name) {
            Some(provider) => Some(provider.acquire().await.map_err(closed)?),
            None => None,
        };
        let _in_process = places.all().acquire().await.map_err(closed)?;
        let limits = (self.hosted.spec.timeout, self.turn.deadline);
        let running = self.hosted.provider.run(invocation);
        let ended =
            within_limits(running, &invocation.reports, limits, |progress| self.shown(progress)).await;
        ended.unwrap_or_else(|late| match late {
            Late::Deadline => Err(out_of_time()),
            Late::Limit(limit) => {
                Err(timed_out(&format!("The tool did not answer within {}.", seconds(limit))))
            }
        })
    }

    /// Shows how far the call is, and how long it has taken. People who read events measure the time themselves.
    fn shown(&self, Progress { report, elapsed }: Progress<'_>) {
        let (secrets, label) = (self.turn.execution.secrets(), &self.hosted.spec.label);
        let line = match report {
            Some(report) => report.line(label, |text| secrets.text(text).into_owned()),
            None => progress::plain(label),
        };
        let audit = self.turn.execution.audit();
        if let Some(&Report { done, total, .. }) = report.filter(|_| audit.is_watched()) {
            let call = CallRecord::new(&self.id, &self.hosted.name, &self.written, None);
            let provider = Arc::clone(&self.hosted.provider_name);
            let event = AuditEvent::ToolProgress { call, provider, line: audit.content(&line), done, total };
            audit.publish(Some(&self.subject), event);
        }
        self.turn.report(progress::timed(&line, elapsed));
    }

    /// The delay before the next attempt after `error`. `None` if the call is not retried.
    fn delay(&self, error: &ToolError, attempt: usize) -> Option<Duration> {
        let most = self.hosted.rules.retries.unwrap_or(self.turn.execution.settings().retries);
        let may_repeat = error.is_retryable && (self.hosted.spec.is_idempotent || error.is_unsent);
        if !may_repeat || attempt > most {
            return None;
        }
        let doubled = FIRST_DELAY.saturating_mul(1 << (attempt - 1).min(10));
        // Jitter, so that calls that failed together are not retried together.
        let delay = doubled.mul_f64(0.75 + fastrand::f64() / 2.0).max(error.retry_after.unwrap_or_default());
        let again = Instant::now().checked_add(delay)?;
        (again < self.turn.deadline).then_some(delay)
    }

    /// Masks configured secrets in the error, then limits the length of its message. Messages may quote programs and
    /// servers. Redaction comes first, because it would not recognize a truncated secret.
    fn covered(&self, error: ToolError) -> ToolError {
        let message = self.turn.execution.secrets().text(&error.message);
        ToolError { message: message.chars().take(MAX_MESSAGE).collect(), ..error }
    }

    /// Masks configured secrets in the output, replaces files in its text, and cuts it at the length limit.
    fn cleaned(&self, output: Output) -> Result<Output, ToolError> {
        let secrets = self.turn.execution.secrets();
        let Output { content, summary, details, images, media, is_error } = output;
        let content = secrets.text(&without_base64(&content)).into_owned();
        let content = shrink(content, self.turn.max_result(&self.hosted)).ok_or_else(too_large)?;
        let details = match details {
            Value::Null => Value::Null,
            details => {
                let text = details.to_string();
                match text.len() <= MAX_DETAILS {
                    true => serde_json::from_str(&secrets.text(&text)).unwrap_or_default(),
                    false => Value::Null,
                }
            }
        };
        let summary = secrets.text(&summary).into_owned();
        Ok(Output { content, summary, details, images, media, is_error })
    }

    /// Returns the line that tells users what the tool is doing.
    fn progress(&self) -> Option<String> {
        let audit = self.turn.execution.audit();
        if !audit.is_captured() {
            return None;
        }
        audit.content(&self.hosted.progress(&self.arguments, |text| audit.redacted(text))?)
    }

    fn record(&self) -> CallRecord {
        let input = self.turn.execution.audit().json(&self.written);
        CallRecord::new(&self.id, &self.hosted.name, &self.written, input)
    }
}

/// The error when the time limit for all calls of a response has passed.
fn out_of_time() -> ToolError {
    timed_out("The time for the tools of this response is over.")
}

fn timed_out(message: &str) -> ToolError {
    ToolError::new(ErrorCode::Timeout, message)
}

fn seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} ms", duration.as_millis()),
    }
}

/// Publishes the end of a call, even if the call is cancelled or panics.
struct Reporting<'c> {
    call: &'c HostedCall,
    span: Span,
    trace: telemetry::Span,
    began: Instant,
    outcome: Option<Told>,
}

/// What is published about a result.
struct Told {
    /// The result, if contents are captured.
    result: Option<String>,
    details: Option<Value>,
    code: Option<ErrorCode>,
    is_cached: bool,
}

impl Told {
    fn failed(code: ErrorCode) -> Self {
        Self { result: None, details: None, code: Some(code), is_cached: false }
    }
}

impl Drop for Reporting<'_> {
    fn drop(&mut self) {
        let unfinished = || match std::thread::panicking() {
            true => Told::failed(ErrorCode::ProviderError),
            false => Told::failed(ErrorCode::Cancelled),
        };
        let Told { result, details, code, is_cached } = self.outcome.take().unwrap_or_else(unfinished);
        self.span.record("outcome", code.map_or("ok", ErrorCode::name));
        if let Some(code) = code {
            self.trace.fail(code.name());
        }
        self.trace.end();
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (call, provider) = (self.call.record(), Some(Arc::clone(&self.call.hosted.provider_name)));
        let event = AuditEvent::ToolResult { call, provider, result, details, code, millis, is_cached };
        self.call.turn.execution.audit().publish(Some(&self.call.subject), event);
    }
}
