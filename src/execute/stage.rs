//! [`Execution`], the stage as all requests share it, and [`HostedTurn`], its part in one request.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::{
    files::{self, ImageFiles, ImageGauges},
    http::HttpClient,
    provider::{Host, Invocation},
    registry::{Registry, Snapshot},
    runtime::Runtime,
    settings::{ExecutionSettings, Injection, Permission},
    tool::{ErrorCode, Output, ToolError},
};
use crate::{
    conversation::{Call, CallOutput, Conversation, Tool, ToolChoice},
    store::Owner,
};

/// The stage. All threads share it.
#[derive(Debug)]
pub(crate) struct Execution {
    settings: Arc<ExecutionSettings>,
    registry: Arc<Registry>,
    files: Option<Arc<ImageFiles>>,
    runtime: Runtime,
}

impl Execution {
    /// Starts the providers. `images` show how many images they have generated.
    ///
    /// # Errors
    /// If no thread can be started. The settings of the providers were checked when they were read.
    pub(crate) fn start(settings: Arc<ExecutionSettings>, images: ImageGauges) -> io::Result<Self> {
        let runtime = Runtime::start()?;
        let (http, changed) = (HttpClient::new(), Arc::new(tokio::sync::Notify::new()));
        let files = ImageFiles::new(&settings.images, images).map(Arc::new);
        let mut providers = Vec::new();
        for entry in &settings.providers {
            let host = Host::new(&entry.name, (http.clone(), files.clone()), Arc::clone(&changed));
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
        let registry = Arc::new(Registry::new(Arc::clone(&settings), providers));
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
        Ok(Self { settings, registry, files, runtime })
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

    /// Declares the hosted tools that the model gets in this request, beside those of the client, whose names come first. `None`: it
    /// gets none.
    pub(crate) fn offer(
        self: &Arc<Self>,
        conversation: &mut Conversation,
        client: Owner,
    ) -> Option<HostedTurn> {
        if matches!(conversation.tool_choice, ToolChoice::None) {
            return None;
        }
        let snapshot = self.registry.snapshot();
        for hosted in snapshot.tools() {
            let is_declared = conversation.tools.iter().any(|tool| *tool.name == *hosted.name);
            let is_off =
                hosted.rules.injection == Injection::Off || hosted.rules.permission == Permission::Deny;
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
        is_offered.then(|| HostedTurn { execution, snapshot, client, deadline, state })
    }
}

/// The hosted tools in one client request.
#[derive(Debug)]
pub(crate) struct HostedTurn {
    execution: Arc<Execution>,
    snapshot: Arc<Snapshot>,
    client: Owner,
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
            client: self.client,
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
    let is_error = result.is_err();
    let (content, note) = match result {
        Ok(output) => (output.content, output.summary),
        Err(error) => (error.content(&call.name), error.message),
    };
    let note = format!("{}: {note}", call.name);
    let output = CallOutput { id: call.id, name: call.name, content, is_error };
    Ran { output, arguments: call.arguments, note }
}
