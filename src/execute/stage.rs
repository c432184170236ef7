//! [`Execution`], the stage as all requests share it, and [`HostedTurn`], its part in one request.

use std::{
    fmt, io,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};

use super::{
    Registrations,
    ask::Ask,
    audit::{Audit, Observer, write_file},
    deferred::{Deferred, Record},
    engines,
    files::{self, ImageFiles, ImageGauges},
    http::HttpClient,
    permission::Permissions,
    provider::{Host, Invocation, Provider},
    registry::{Registry, Snapshot},
    runtime::Runtime,
    settings::{ExecutionSettings, Injection, Permission, Visibility},
    tool::{ErrorCode, Output, ToolError},
};
use crate::{
    conversation::{Call, CallOutput, Conversation, Tool, ToolChoice, Turn},
    pipeline::DeferredTurn,
    redact::Redactor,
    rules::HostedRules,
    store::Owner,
};

/// The stage. All threads share it.
#[derive(Debug)]
pub(crate) struct Execution {
    settings: Arc<ExecutionSettings>,
    registry: Arc<Registry>,
    permissions: Arc<Permissions>,
    audit: Arc<Audit>,
    deferred: Arc<Deferred>,
    files: Option<Arc<ImageFiles>>,
    runtime: Runtime,
}

/// The stage while a server uses it. When it is dropped, everything that runs is cancelled.
#[derive(Debug)]
pub(crate) struct Started(Arc<Execution>);

impl Deref for Started {
    type Target = Arc<Execution>;

    fn deref(&self) -> &Arc<Execution> {
        &self.0
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.runtime.stop();
    }
}

/// What the stage gets from the server.
pub(crate) struct Surroundings {
    /// Knows the configured secrets.
    pub(crate) redactor: Arc<Redactor>,
    /// The folder for what outlives a restart. `None`: nothing does.
    pub(crate) state_dir: Option<PathBuf>,
    /// Sees every event at once: the metrics.
    pub(crate) observer: Option<Observer>,
    /// Show how many generated images are kept.
    pub(crate) images: ImageGauges,
    /// Asks the configured models.
    pub(crate) models: Option<Arc<dyn Ask>>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}

/// Without secrets, state and observer.
impl Default for Surroundings {
    fn default() -> Self {
        Self {
            redactor: Arc::new(Redactor::new([])),
            state_dir: None,
            models: None,
            observer: None,
            images: ImageGauges::default(),
        }
    }
}

/// Who asks, for rules, limits and events.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    /// Whose request it is.
    pub(crate) owner: Owner,
    /// The model that the client requested.
    pub(crate) model: Arc<str>,
    /// The id of the client's request.
    pub(crate) exchange: Arc<str>,
}

impl Execution {
    /// Starts the providers.
    ///
    /// # Errors
    /// If no thread can be started. The settings of the providers were checked when they were read.
    pub(crate) fn start(settings: Arc<ExecutionSettings>, around: Surroundings) -> io::Result<Started> {
        let runtime = Runtime::start()?;
        let audit = Arc::new(Audit::new(around.redactor, around.observer));
        if let (Some(path), Some(records)) = (settings.audit.clone(), audit.filed()) {
            runtime.spawn(write_file(path, records));
        }
        let deferred = Arc::new(Deferred::new(around.state_dir.clone()));
        let images = settings.images.clone().in_state_dir(around.state_dir.as_deref());
        let file = around.state_dir.map(|folder| folder.join("permissions.json"));
        let permissions = Permissions::new(settings.permissions.clone(), Arc::clone(&audit), file);
        let permissions = Arc::new(permissions);
        runtime.spawn(save(permissions.changed(), Arc::downgrade(&permissions)));
        let (http, changed) = (HttpClient::new(), Arc::new(Notify::new()));
        let files = ImageFiles::new(&images, around.images).map(Arc::new);
        let mut providers = Vec::new();
        for entry in &settings.providers {
            let host = Host::new(&entry.name, http.clone(), Arc::clone(&audit), Arc::clone(&changed));
            let host = host.with_files(files.clone()).with_models(around.models.clone());
            match entry.options.build(&host) {
                Ok(provider) => {
                    let starting = Arc::clone(&provider);
                    let name = Arc::clone(&host.name);
                    runtime.spawn(async move { starting.start(&host) });
                    providers.push((name, provider));
                }
                Err(reason) => tracing::error!(provider = entry.name, reason, "the provider cannot be used"),
            }
        }
        let registry = Arc::new(Registry::new(Arc::clone(&settings), engines::joined(providers)));
        let refreshed = Arc::downgrade(&registry);
        runtime.spawn(async move {
            loop {
                changed.notified().await;
                let Some(registry) = refreshed.upgrade() else { return };
                registry.refresh();
            }
        });
        if let Some(files) = files.clone() {
            runtime.spawn(files::keep_clean(files));
        }
        Ok(Started(Arc::new(Self { settings, registry, permissions, audit, deferred, files, runtime })))
    }

    /// The settings.
    pub(crate) fn settings(&self) -> &ExecutionSettings {
        &self.settings
    }

    /// The generated images, if there is a folder for them.
    pub(crate) fn files(&self) -> Option<&Arc<ImageFiles>> {
        self.files.as_ref()
    }

    /// The tools of all providers.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether calls may run.
    pub(crate) fn permissions(&self) -> &Arc<Permissions> {
        &self.permissions
    }

    /// What happens in the stage.
    pub(crate) fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Completes the turns of the history that the client knows only in part. Returns whether there was one.
    pub(crate) async fn complete(&self, conversation: &mut Conversation, client: Owner) -> bool {
        let deadline = Instant::now() + self.settings.deadline;
        self.deferred.restore(conversation, client, deadline).await
    }

    /// Where hosted tools run.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The provider `name`.
    pub(crate) fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        let mut providers = self.registry.providers().iter();
        providers.find(|(own, _)| **own == *name).map(|(_, provider)| Arc::clone(provider))
    }

    /// The programs that may register at run time, one for each provider that lets them.
    pub(crate) fn registrations(&self) -> Vec<Arc<Registrations>> {
        let providers = self.registry.providers().iter();
        providers.filter_map(|(_, provider)| Arc::clone(provider).registrations()).collect()
    }

    /// A turn in which a person calls tools by hand or by a command, under the rules that hold for models.
    pub(crate) fn by_hand(self: &Arc<Self>, asker: Asker) -> HostedTurn {
        HostedTurn {
            execution: Arc::clone(self),
            snapshot: self.registry.snapshot(),
            asker,
            deadline: Instant::now() + self.settings.deadline,
            state: Mutex::default(),
        }
    }

    /// Declares the hosted tools that the model gets in this request, beside those of the client, whose names come first. `None`: it
    /// gets none.
    pub(crate) fn offer(
        self: &Arc<Self>,
        conversation: &mut Conversation,
        asker: Asker,
    ) -> Option<HostedTurn> {
        if matches!(conversation.tool_choice, ToolChoice::None) {
            return None;
        }
        let snapshot = self.registry.snapshot();
        for hosted in snapshot.tools() {
            let is_declared = conversation.tools.iter().any(|tool| *tool.name == *hosted.name);
            let is_off = !hosted.is_enabled
                || hosted.rules.injection == Injection::Off
                || hosted.rules.permission == Permission::Deny;
            if is_declared || is_off {
                continue;
            }
            conversation.hosted_tools.push(hosted.name.to_string());
            conversation.tools.push(Tool {
                description: hosted.spec.description.clone(),
                parameters: Some(hosted.spec.parameters.clone()),
                ..Tool::named(&*hosted.name)
            });
        }
        let deadline = Instant::now() + self.settings.deadline;
        let is_offered = !conversation.hosted_tools.is_empty();
        let (execution, state) = (Arc::clone(self), Mutex::default());
        is_offered.then(|| HostedTurn { execution, snapshot, asker, deadline, state })
    }
}

/// Keeps remembered permissions on disk, until the runtime ends. What is not written by then is written when they are dropped.
async fn save(changed: Arc<Notify>, permissions: Weak<Permissions>) {
    /// Changes that are this close are written together.
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        changed.notified().await;
        let Some(save) = permissions.upgrade().map(|permissions| permissions.unsaved()) else { return };
        if let Some(save) = save {
            // Fails if the runtime ends.
            let _ = tokio::task::spawn_blocking(|| save.write()).await;
        }
        sleep(PAUSE).await;
    }
}

/// The hosted tools in one client request.
#[derive(Debug)]
pub(crate) struct HostedTurn {
    execution: Arc<Execution>,
    snapshot: Arc<Snapshot>,
    asker: Asker,
    deadline: Instant,
    state: Mutex<Progress>,
}

/// What has been run so far.
#[derive(Debug, Default)]
struct Progress {
    rounds: usize,
    calls: usize,
}

/// A call that was run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ran {
    /// Its result, as the model gets it.
    pub(crate) output: CallOutput,
    /// The arguments that were used.
    pub(crate) arguments: String,
    /// One line for people: `Web Search: 5 results`.
    pub(crate) note: String,
}

impl HostedTurn {
    /// How the pipeline handles their calls.
    pub(crate) fn rules(&self) -> HostedRules {
        let ExecutionSettings { mixed_turns, separator, .. } = &*self.execution.settings;
        HostedRules { mixed_turns: *mixed_turns, separator: separator.clone() }
    }

    /// Runs the calls of one hop. The results are in the order of the calls, and there is one for each: what cannot run has a result
    /// that says so. Dropping the future cancels what runs.
    pub(crate) fn run(self: &Arc<Self>, calls: Vec<Call>) -> impl Future<Output = Vec<Ran>> + Send + use<> {
        let turn = Arc::clone(self);
        {
            let mut state = turn.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.rounds += 1;
            state.calls += calls.len();
        }
        async move {
            let mut ran = Vec::with_capacity(calls.len());
            let tasks: Vec<_> = calls
                .into_iter()
                .map(|call| {
                    let (own, copy) = (Arc::clone(&turn), call.clone());
                    (call, turn.execution.runtime.run(async move { own.one(&copy).await }))
                })
                .collect();
            for (call, task) in tasks {
                let lost = || Err(ToolError::new(ErrorCode::ProviderError, "The tool failed."));
                let result = task.await.unwrap_or_else(lost);
                ran.push(finished(call, result));
            }
            ran
        }
    }

    /// Runs the hosted calls of a turn whose other calls the client runs, for its next request. It goes on when the client has
    /// left. `before`: the turns of earlier hops.
    pub(crate) fn defer(self: &Arc<Self>, before: Vec<Turn>, DeferredTurn { turn, hosted }: DeferredTurn) {
        let ids = hosted.iter().map(|call| call.id.clone()).collect();
        let record = Record { before, turn, hosted: ids, results: Vec::new() };
        let pending = self.execution.deferred.begin(self.asker.owner, record);
        if hosted.is_empty() {
            return;
        }
        let running = self.run(hosted);
        self.execution.runtime.spawn(async move {
            let ran = running.await;
            pending.finish(ran.into_iter().map(|ran| ran.output).collect());
        });
    }

    /// What clients see of the calls.
    pub(crate) fn visibility(&self) -> Visibility {
        self.execution.settings.visibility
    }

    /// Whether a further hop may call hosted tools. If not, the model must answer without them.
    pub(crate) fn may_call(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = &self.execution.settings;
        state.rounds < settings.max_rounds
            && state.calls < settings.max_calls
            && Instant::now() < self.deadline
    }

    async fn one(&self, call: &Call) -> Result<Output, ToolError> {
        let unknown = || ToolError::new(ErrorCode::UnknownTool, format!("There is no tool `{}`.", call.name));
        let hosted = self.snapshot.find(&call.name).ok_or_else(unknown)?;
        let arguments: Map<String, Value> = match call.arguments.trim() {
            "" | "null" => Map::new(),
            text => serde_json::from_str(text).map_err(|_| {
                ToolError::new(ErrorCode::InvalidArguments, "The arguments are not a JSON object.")
            })?,
        };
        let invocation = Invocation {
            id: call.id.clone(),
            tool: hosted.spec.name.clone(),
            arguments,
            client: self.asker.owner,
            deadline: self.deadline,
        };
        let limit = hosted.rules.timeout.unwrap_or(hosted.spec.timeout);
        let end = self.deadline.min(Instant::now() + limit);
        let late =
            |_| ToolError::new(ErrorCode::Timeout, format!("The tool did not answer within {limit:?}."));
        timeout_at(end, hosted.provider.run(&invocation)).await.map_err(late)?
    }
}

fn finished(call: Call, result: Result<Output, ToolError>) -> Ran {
    let is_error = result.as_ref().map_or(true, |output| output.is_error);
    let (content, note) = match result {
        Ok(output) => (output.content, output.summary),
        Err(error) => (error.content(&call.name), error.message),
    };
    let note = format!("{}: {note}", call.name);
    let output = CallOutput { id: call.id, name: call.name, content, is_error };
    Ran { output, arguments: call.arguments, note }
}
