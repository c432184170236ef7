//! [`UpstreamBench`]: measures an upstream of the configuration on behalf of the admin API.

use std::{
    error::Error,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use http::{HeaderName, HeaderValue, header};
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::{runtime, sync::oneshot};

use super::{
    plan::{Contender, Length, Load, Plan},
    prompts::{Prompts, Terms},
    target::Target,
};
use crate::Invalid;
use toolwire_config::Upstream;
use toolwire_gateway::{Bench, BenchError, BenchRequest, BenchRun};
use toolwire_pipeline::dialect::{ClientDialect, KeyHeader};

/// Number of words in a prompt.
const PROMPT: usize = 64;

/// Time limit for a stream.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Pauses between two tokens count as gaps if they are longer than this.
const GAP: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct UpstreamBench;

impl Bench for UpstreamBench {
    fn begin(&self, wanted: BenchRequest) -> Result<Box<dyn BenchRun>, BenchError> {
        let plan = plan(&wanted)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (course, result) = (Arc::clone(&plan.course), Arc::new(OnceLock::new()));
        let told = Arc::clone(&result);
        let work = move || _ = told.get_or_init(|| measure(&plan, stopped).map_err(BenchError::Failed));
        let thread = thread::Builder::new().name("toolwire-bench".into()).spawn(work);
        let thread = thread.map_err(BenchError::NoThread)?;
        Ok(Box::new(Running { course, result, thread, _stop: stop }))
    }
}

fn measure(plan: &Plan, stopped: oneshot::Receiver<()>) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let stop = async {
        // Completes when the sender is dropped together with the run.
        let _ = stopped.await;
    };
    let report = runtime.block_on(super::run(plan, stop))?;
    Ok(serde_json::to_value(report)?)
}

#[derive(Debug)]
struct Running {
    course: Arc<AtomicU32>,
    result: Arc<OnceLock<Result<Value, BenchError>>>,
    thread: JoinHandle<()>,
    /// Dropping this stops the run.
    _stop: oneshot::Sender<()>,
}

impl BenchRun for Running {
    fn progress(&self) -> f64 {
        f64::from(self.course.load(Ordering::Relaxed)) / 1000.0
    }

    fn result(&self) -> Option<Result<&Value, &BenchError>> {
        let is_over = self.thread.is_finished();
        let result = self.result.get().map(Result::as_ref);
        result.or_else(|| is_over.then_some(Err(&BenchError::BrokenOff)))
    }
}

fn plan(wanted: &BenchRequest) -> Result<Plan, Invalid> {
    let BenchRequest { upstream, model, streams, tokens } = wanted;
    let dialect = upstream.dialect();
    let dialect = ClientDialect::try_from(dialect).map_err(|_| {
        let known: Vec<_> = ClientDialect::all().map(|client| client.dialect().name()).collect();
        format!("upstreams of the dialect `{dialect}` cannot be measured: {} can", known.join(", "))
    })?;
    if upstream.proxy.is_some() {
        return Err("this upstream is reached through a proxy, which the bench cannot use".into());
    }
    let target = Target {
        name: upstream.name.clone(),
        url: upstream.base_url.clone(),
        headers: headers(upstream)?,
        tls: upstream.tls.as_ref().map(|tls| tls.config.clone()),
    };
    let terms = Terms { dialect, model: Some(model.clone()), max_tokens: Some(*tokens) };
    Ok(Plan {
        dialect,
        model: model.clone(),
        targets: vec![Contender { target: Arc::new(target), pids: Vec::new() }],
        prompts: Prompts::generated(&terms, PROMPT, 0),
        load: Load::Closed { concurrency: usize::try_from(*streams).unwrap_or(1) },
        length: Length { requests: Some(*streams), duration: None },
        max_open: usize::MAX,
        spread: Duration::ZERO,
        rounds: 1,
        warm_up: 0,
        timeout: TIMEOUT,
        gap: GAP,
        ramp: None,
        baseline: None,
        command: "POST /admin/bench".to_owned(),
        quiet: true,
        course: Arc::default(),
    })
}

fn headers(upstream: &Upstream) -> Result<Vec<(HeaderName, HeaderValue)>, Invalid> {
    let side = upstream.options.side();
    let mut headers: Vec<_> = side
        .headers()
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    if let Some(key) = upstream.api_key.as_ref().map(ExposeSecret::expose_secret) {
        let (name, value) = match side.key_header() {
            KeyHeader::Bearer => (header::AUTHORIZATION, format!("Bearer {key}")),
            KeyHeader::Named(name) => (HeaderName::from_static(name), key.to_owned()),
        };
        let value = HeaderValue::try_from(value);
        let mut value = value.map_err(|_| "the upstream's key has characters that no header may have")?;
        value.set_sensitive(true);
        headers.push((name, value));
    }
    headers.extend(upstream.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(headers)
}
