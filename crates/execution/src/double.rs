//! A scripted provider for tests, and a stage that contains it.

use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::{
    Asker, ErrorCode, Execution, ExecutionSettings, HostedTurn, Invocation, Output, Provider, Running,
    Status, Subscription, Surroundings, ToolError, ToolSpec, reports::Report, running::RunningProvider,
    runtime::Runtime,
};
use toolwire_net::{redact::Redactor, store::Owner};
use toolwire_pipeline::{conversation::Call, wire::json::Raw};

/// How the provider responds to a call.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// Answers with this text after a delay.
    Answer(Duration, String),
    Detail(Value),
    /// Reports progress this often, each time after 20 seconds.
    Progress(u8),
    /// The tool runs and reports a failure.
    Report(String),
    Fail(ToolError),
    Hang,
    Panic,
}

impl Act {
    pub(super) fn say(text: &str) -> Self {
        Self::Answer(Duration::ZERO, text.to_owned())
    }

    pub(super) fn fail(code: ErrorCode) -> Self {
        Self::Fail(ToolError::new(code, "It failed."))
    }
}

/// Follows its script, one step per call. After the last step, it returns the arguments.
#[derive(Debug, Default)]
pub(super) struct Scripted {
    pub(super) specs: Mutex<Vec<Arc<ToolSpec>>>,
    pub(super) script: Mutex<VecDeque<Act>>,
    pub(super) calls: Mutex<Vec<(String, Map<String, Value>)>>,
    running: AtomicUsize,
    pub(super) most_running: AtomicUsize,
    /// The value that [`Provider::yields`] returns.
    pub(super) yields: AtomicBool,
    /// The value that [`Provider::instructions`] returns.
    pub(super) instructions: Mutex<Option<Arc<str>>>,
    /// The value that [`Provider::status`] returns.
    pub(super) status: Mutex<Status>,
}

impl Scripted {
    pub(super) fn new(specs: Vec<ToolSpec>, script: impl IntoIterator<Item = Act>) -> Arc<Self> {
        let specs = Mutex::new(specs.into_iter().map(Arc::new).collect());
        Arc::new(Self { specs, script: Mutex::new(script.into_iter().collect()), ..Self::default() })
    }

    pub(super) fn count(&self) -> usize {
        self.calls.lock().len()
    }
}

struct RunningCall<'s>(&'s Scripted);

impl<'s> RunningCall<'s> {
    fn begin(scripted: &'s Scripted) -> Self {
        let running = scripted.running.fetch_add(1, Ordering::SeqCst) + 1;
        scripted.most_running.fetch_max(running, Ordering::SeqCst);
        Self(scripted)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Provider for Scripted {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        self.specs.lock().clone()
    }

    fn instructions(&self) -> Option<Arc<str>> {
        self.instructions.lock().clone()
    }

    fn status(&self) -> Status {
        self.status.lock().clone()
    }

    fn yields(&self) -> bool {
        self.yields.load(Ordering::SeqCst)
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        self.calls.lock().push((call.tool.clone(), call.arguments.clone()));
        let act = self.script.lock().pop_front();
        Box::pin(async move {
            let _running = RunningCall::begin(self);
            match act {
                None => Ok(Output::text(Value::Object(call.arguments.clone()).to_string())),
                Some(Act::Answer(after, text)) => {
                    sleep(after).await;
                    Ok(Output { summary: "1 result".to_owned(), ..Output::text(text) })
                }
                Some(Act::Detail(details)) => Ok(Output { details, ..Output::text("ok") }),
                Some(Act::Progress(count)) => {
                    for number in 0..count {
                        sleep(Duration::from_secs(20)).await;
                        let (done, total) = (number.into(), Some(count.into()));
                        call.reports.report(Report { done, total, message: "a secret-word".to_owned() });
                    }
                    Ok(Output::text("done"))
                }
                Some(Act::Report(text)) => Ok(Output::failed(text)),
                Some(Act::Fail(error)) => Err(error),
                Some(Act::Hang) => std::future::pending().await,
                Some(Act::Panic) => panic!("the provider panics"),
            }
        })
    }
}

pub(super) fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        label: "A Tool".to_owned(),
        parameters: Raw::from(json!({"type": "object", "properties": {"q": {"type": "string"}}})),
        timeout: Duration::from_secs(30),
        ..ToolSpec::default()
    }
}

pub(super) fn idempotent(name: &str) -> ToolSpec {
    ToolSpec { is_idempotent: true, ..spec(name) }
}

pub(super) fn call(id: &str, name: &str, q: &str) -> Call {
    Call::new(id, name, json!({"q": q}).to_string())
}

/// A stage with these providers, on the test's runtime.
pub(super) fn stage(settings: ExecutionSettings, providers: &[(&str, &Arc<Scripted>)]) -> Arc<Execution> {
    let providers = providers.iter().map(|(name, provider)| (*name, Arc::clone(*provider) as _));
    stage_of(settings, providers.collect())
}

/// Like [`stage`], with providers of any kind.
pub(crate) fn stage_of(
    settings: ExecutionSettings,
    providers: Vec<(&str, Arc<dyn Provider>)>,
) -> Arc<Execution> {
    let around = Surroundings::covering(Redactor::new(["secret-word"]));
    let runtime = Arc::new(Runtime::here());
    let execution = Execution::assembled(Arc::new(settings), around, Arc::clone(&runtime), |_| {
        let own = providers.into_iter();
        own.map(|(name, provider)| RunningProvider::idle(name, provider, &runtime)).collect()
    });
    Arc::new(execution)
}

pub(crate) fn asker() -> Asker {
    Asker {
        owner: Owner([7; 32]),
        client: None,
        payer: None,
        model: "m".into(),
        exchange: "ex_1".into(),
        describer: None,
    }
}

/// A turn with all tools of the stage.
pub(super) fn turn(execution: &Arc<Execution>) -> Arc<HostedTurn> {
    Arc::new(execution.by_hand(asker()))
}

/// Runs a test with a paused clock.
pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}

/// The names of the events received so far.
pub(super) fn names(live: &mut Subscription) -> Vec<&'static str> {
    std::iter::from_fn(|| live.try_recv().ok()).map(|record| record.event.name()).collect()
}
