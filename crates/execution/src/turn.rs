//! [`HostedTurn`]: the hosted tools of one client request.

mod described;
mod uses;

use std::{
    collections::HashMap,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::{
    sync::Semaphore,
    task::{JoinSet, spawn_blocking},
    time::Instant,
};
use tracing::Span;

use super::{
    arguments,
    asker::Asker,
    audit::{AuditEvent, CallRecord, Subject},
    call::HostedCall,
    deferred_turns::Record,
    inject::Offered,
    media::{MAX_COUNT, MAX_FILES, MediaFile},
    registry::{Hosted, Snapshot},
    reports::Lines,
    settings::{ExecutionSettings, Visibility},
    shrink::shrink,
    stage::Execution,
    tool::{ErrorCode, Output, ToolError},
    turn_options::TurnOptions,
};
use toolwire_net::telemetry;
use toolwire_pipeline::{
    conversation::{Call, CallOutput, Part, Turn},
    event::Media,
    pipeline::DeferredTurn,
    rules::HostedRules,
    tools::is_spelling_of,
    wire::text::boundary_upto,
};

/// Maximum number of equal calls in one turn.
const MAX_EQUAL: usize = 2;

/// Maximum size of a line for display, in bytes.
const MAX_NOTE: usize = 200;

/// The hosted tools of one client request.
pub struct HostedTurn {
    pub(super) execution: Arc<Execution>,
    snapshot: Arc<Snapshot>,
    /// `None` if all tools of the snapshot are available by their own names.
    offered: Option<Offered>,
    pub(super) asker: Asker,
    /// What the client's request says about the tools.
    options: TurnOptions,
    pub(super) deadline: Instant,
    /// Permits for running calls.
    pub(super) running: Semaphore,
    state: Mutex<Progress>,
    /// Reports of running calls, for the client's stream.
    lines: Lines,
}

#[derive(Debug, Default, Clone)]
struct Progress {
    rounds: usize,
    calls: usize,
    /// Size of all results so far.
    bytes: usize,
    /// Number and size of the files that models have got so far.
    files: (usize, usize),
    /// Number of calls, by tool.
    uses: HashMap<Arc<str>, usize>,
    /// Number of equal calls, by tool and canonical arguments.
    equal: HashMap<(Arc<str>, String), usize>,
}

impl Progress {
    /// Whether the model can get this file too. If so, it is counted.
    fn has_room(&mut self, file: &MediaFile) -> bool {
        let (count, bytes) = self.files;
        let is_admitted = count < MAX_COUNT && bytes + file.size() <= MAX_FILES;
        if is_admitted {
            self.files = (count + 1, bytes + file.size());
        }
        is_admitted
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// The result for the model.
    pub output: CallOutput,
    /// The arguments that were used.
    pub(crate) arguments: String,
    /// A line for display, such as `Web Search: 5 results`.
    pub note: String,
    /// What user interfaces show in addition to the text: [`Output::details`].
    pub details: Value,
    /// The names of the image files that the call created.
    pub(crate) images: Vec<String>,
    /// Files for the model.
    pub(crate) media: Vec<MediaFile>,
    /// The tool's own name, even if the model used another one.
    pub tool: Arc<str>,
    /// Empty if the tool is unknown.
    pub provider: Arc<str>,
}

impl Ran {
    /// The files that follow the result in requests to the model.
    pub fn files(&self) -> Vec<Part> {
        self.media.iter().map(MediaFile::part).collect()
    }
}

pub(super) type Finished = Result<Arc<Output>, ToolError>;

impl HostedTurn {
    pub(super) fn new(
        execution: Arc<Execution>,
        snapshot: Arc<Snapshot>,
        offered: Option<Offered>,
        asker: Asker,
    ) -> Self {
        let settings = execution.settings();
        let deadline = Instant::now() + settings.deadline;
        let running = Semaphore::new(settings.max_parallel.min(Semaphore::MAX_PERMITS));
        Self {
            execution,
            snapshot,
            offered,
            asker,
            options: TurnOptions::default(),
            deadline,
            running,
            state: Mutex::default(),
            lines: Lines::default(),
        }
    }

    /// The same tools, with what the client's request says about them.
    #[must_use]
    pub(super) fn with(self, options: TurnOptions) -> Self {
        Self { options, ..self }
    }

    /// The same tools for another request of a response, in which those of `earlier` have run: they share its limits.
    #[must_use]
    pub fn after(&self, earlier: &Self) -> Self {
        let (execution, snapshot) = (Arc::clone(&self.execution), Arc::clone(&self.snapshot));
        let new = Self::new(execution, snapshot, self.offered.clone(), self.asker.clone());
        let options = self.options.clone();
        Self { options, deadline: earlier.deadline, state: Mutex::new(earlier.state.lock().clone()), ..new }
    }

    /// The pipeline's rules for hosted calls.
    pub fn rules(&self) -> HostedRules {
        let ExecutionSettings { mixed_turns, separator, .. } = self.execution.settings();
        HostedRules { mixed_turns: *mixed_turns, separator: separator.clone() }
    }

    /// Runs calls as part of the first hop; see [`HostedTurn::run_in`].
    pub fn run(self: &Arc<Self>, calls: Vec<Call>) -> impl Future<Output = Vec<Ran>> + Send + use<> {
        self.run_in(1, calls)
    }

    /// Runs the calls of one hop. Returns one result per call, in order. A call that cannot run has a result that says
    /// so. Dropping the future cancels the running calls.
    pub fn run_in(
        self: &Arc<Self>,
        hop: usize,
        calls: Vec<Call>,
    ) -> impl Future<Output = Vec<Ran>> + Send + use<> {
        let (turn, span, trace) = (Arc::clone(self), Span::current(), telemetry::current());
        turn.state.lock().rounds += 1;
        async move {
            let (own, copy) = (Arc::clone(&turn), calls.clone());
            // Boxed, because the future of a task is moved several times.
            let work = Box::pin(telemetry::within(trace, async move { own.all(&copy, hop, span).await }));
            let running = turn.execution.runtime().run(work);
            match running.await {
                Some(ran) => ran,
                None => calls.into_iter().map(|call| turn.ran(call, Err(lost()))).collect(),
            }
        }
    }

    /// Runs the hosted calls of a turn that also contains calls for the client, and stores their results for the
    /// client's next request. The calls continue if the client disconnects. `before` contains the turns of earlier
    /// hops, and `hop` is the number of this turn's hop.
    pub fn defer(
        self: &Arc<Self>,
        (hop, before): (usize, Vec<Turn>),
        DeferredTurn { turn, hosted }: DeferredTurn,
    ) {
        let ids = hosted.iter().map(|call| call.id.clone()).collect();
        let record = Record { before, turn, hosted: ids, ..Record::default() };
        let pending = self.execution.deferred().begin(self.asker.owner, record);
        if hosted.is_empty() {
            return;
        }
        let running = self.run_in(hop, hosted);
        self.execution.runtime().spawn(async move {
            let ran = pending.during(running).await;
            let files =
                ran.iter().flat_map(|ran| ran.files().into_iter().map(|file| (ran.output.id.clone(), file)));
            let files = files.collect();
            pending.finish(ran.into_iter().map(|ran| ran.output).collect(), files);
        });
    }

    /// The names of the tools that are offered to the model.
    pub fn tool_names(&self) -> Vec<String> {
        let places = self.offered.iter().flatten().filter_map(|(name, place)| {
            let hosted = self.snapshot.tools().get(*place)?;
            // Aliases refer to the same tool.
            name.ends_with(&*hosted.name).then(|| (*place, name.clone()))
        });
        let mut names: Vec<_> = places.collect();
        names.sort();
        names.dedup_by_key(|(place, _)| *place);
        names.into_iter().map(|(_, name)| name).collect()
    }

    pub fn visibility(&self) -> Visibility {
        self.execution.settings().visibility
    }

    /// The tool that the model calls by this name, in any spelling.
    pub(crate) fn tool(&self, name: &str) -> Option<&Hosted> {
        match &self.offered {
            Some(offered) => {
                let spelled = || offered.iter().find(|(own, _)| is_spelling_of(name, own));
                let place = offered.get(name).or_else(|| spelled().map(|(_, place)| place))?;
                self.snapshot.tools().get(*place)
            }
            None => self.snapshot.find(name),
        }
    }

    /// The tools that are offered to the model, by the names that it knows.
    pub(super) fn offered_tools(&self) -> impl Iterator<Item = (&str, &Hosted)> {
        let tools = self.offered.iter().flatten();
        tools.filter_map(|(name, place)| Some((name.as_str(), self.snapshot.tools().get(*place)?)))
    }

    /// The tool's own name, which may differ from the name in the call.
    pub fn own_name(&self, called: &str) -> Arc<str> {
        self.tool(called).map_or_else(|| called.into(), |hosted| Arc::clone(&hosted.name))
    }

    /// The name under which the tool `own` is offered to the model. `None` if it is not offered.
    pub fn offered_name(&self, own: &str) -> Option<String> {
        let is_it = |place: &usize| {
            let tool = self.snapshot.tools().get(*place);
            tool.is_some_and(|tool| match &tool.shown {
                Some(shown) => shown.is_called(own),
                None => *tool.name == *own,
            })
        };
        let mut names = self.offered.iter().flatten().filter(|(_, place)| is_it(place)).map(|(name, _)| name);
        let is_alias = |name: &&String| {
            self.tool(name).is_some_and(|tool| tool.spec.aliases.iter().any(|alias| alias == name))
        };
        names.find(|name| *name == own || !is_alias(name)).cloned()
    }

    /// The name of the tool and that of its server, for the client.
    pub fn shown_names(&self, called: &str) -> (Arc<str>, Arc<str>) {
        match self.tool(called).and_then(|hosted| hosted.shown.as_deref()) {
            Some(shown) => (Arc::clone(&shown.tool), Arc::clone(&shown.server)),
            None => (self.own_name(called), self.provider(called)),
        }
    }

    /// The provider of the tool that the model calls by this name.
    pub fn provider(&self, called: &str) -> Arc<str> {
        self.tool(called).map_or_else(|| "".into(), |hosted| Arc::clone(&hosted.provider_name))
    }

    /// A line for display that says what the tool is doing. `None` if the tool has no such line.
    pub fn progress(&self, call: &Call) -> Option<String> {
        let hosted = self.tool(&call.name)?;
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
        let secrets = self.execution.secrets();
        hosted.progress(&arguments, |text| secrets.text(text).into_owned())
    }

    /// Takes the lines that say how far the running calls are, as soon as there are some.
    pub fn poll_reports(&self, cx: &Context<'_>) -> Poll<Vec<String>> {
        self.lines.poll_take(cx)
    }

    pub(super) fn report(&self, line: String) {
        if self.visibility() != Visibility::Off {
            self.lines.push(line);
        }
    }

    /// The images that these calls created, up to `room` bytes in total. Each has the id of its call.
    pub fn images(
        &self,
        ran: &[Ran],
        room: usize,
    ) -> impl Future<Output = Vec<Media<'static>>> + Send + use<> {
        let made = |ran: &Ran| {
            let id = ran.output.id.clone();
            ran.images.iter().map(move |name| (id.clone(), name.clone())).collect::<Vec<_>>()
        };
        let names: Vec<_> = ran.iter().flat_map(made).collect();
        let files = self.execution.files().filter(|_| !names.is_empty()).cloned();
        async move {
            let Some(files) = files else { return Vec::new() };
            spawn_blocking(move || files.media(names, room)).await.unwrap_or_default()
        }
    }

    pub(crate) fn subject(&self, hop: usize) -> Subject {
        Subject { exchange: self.asker.exchange.clone(), hop }
    }

    async fn all(self: &Arc<Self>, calls: &[Call], hop: usize, span: Span) -> Vec<Ran> {
        let subject = self.subject(hop);
        let mut running = JoinSet::new();
        let mut finished: Vec<Option<Finished>> = calls.iter().map(|_| None).collect();
        for (place, call) in calls.iter().enumerate() {
            match self.admit(call, &subject, &span) {
                Ok(admitted) => {
                    // The permits are fair, so calls start in order.
                    running.spawn(Box::pin(async move { (place, admitted.run().await) }));
                }
                Err(error) => {
                    self.refused(call, &error, &subject);
                    put(&mut finished, place, Err(error));
                }
            }
        }
        while let Some(joined) = running.join_next().await {
            // A call that panicked has no index. Its result is created below.
            if let Ok((place, result)) = joined {
                put(&mut finished, place, result);
            }
        }
        let finished = finished.into_iter().map(|result| result.unwrap_or_else(|| Err(lost())));
        let ran = calls.iter().cloned().zip(finished).map(|(call, result)| self.ran(call, result)).collect();
        self.described(ran).await
    }

    /// Counts a call, and makes all checks that do not have to wait.
    fn admit(self: &Arc<Self>, call: &Call, subject: &Subject, hop: &Span) -> Result<HostedCall, ToolError> {
        let settings = self.execution.settings();
        let hosted = self.tool(&call.name);
        let unknown =
            || ToolError::new(ErrorCode::UnknownTool, format!("There is no tool `{}`.", clipped(&call.name)));
        let read = hosted.ok_or_else(unknown).map(|hosted| (hosted, read(hosted, call)));
        let mut state = self.state.lock();
        state.calls += 1;
        let limits = [
            (ErrorCode::MaxCalls, state.calls > settings.max_calls),
            (ErrorCode::MaxRounds, state.rounds > settings.max_rounds),
        ];
        if let Some((code, _)) = limits.into_iter().find(|(_, is_exceeded)| *is_exceeded) {
            let message = "The limit of tool calls is reached. Answer with what is known.";
            return Err(ToolError::new(code, message));
        }
        if Instant::now() >= self.deadline {
            return Err(ToolError::new(
                ErrorCode::Timeout,
                "The time for tools in this response is over. Answer with what is known.",
            ));
        }
        let (hosted, arguments) = read?;
        let canonical = match &arguments {
            Ok((arguments, _)) => arguments::canonical(arguments),
            Err(_) => call.arguments.clone(),
        };
        let equal = state.equal.entry((Arc::clone(&hosted.name), canonical.clone())).or_default();
        *equal += 1;
        if *equal > MAX_EQUAL {
            return Err(ToolError::new(
                ErrorCode::Loop,
                "Repeated call refused: the same call was made before. Use its result.",
            ));
        }
        let (arguments, domain) = arguments?;
        let uses = state.uses.entry(Arc::clone(&hosted.name)).or_default();
        *uses += 1;
        if let Some(most) = self.max_uses(hosted).filter(|most| *uses > *most) {
            let message = format!("This tool may be called {most} times in one response.");
            return Err(ToolError::new(ErrorCode::MaxUses, message));
        }
        drop(state);
        Ok(HostedCall {
            turn: Arc::clone(self),
            hosted: hosted.clone(),
            id: call.id.clone(),
            written: if domain.is_some() {
                Value::from(arguments.clone()).to_string()
            } else {
                call.arguments.clone()
            },
            arguments,
            domain,
            canonical,
            subject: subject.clone(),
            hop: hop.clone(),
            trace: telemetry::current(),
        })
    }

    /// Publishes a call that is not run.
    fn refused(&self, call: &Call, error: &ToolError, subject: &Subject) {
        let audit = self.execution.audit();
        let provider = self.tool(&call.name).map(|hosted| Arc::clone(&hosted.provider_name));
        // Metrics show the names of tools, so a name that the model made up is replaced.
        let name = self.own_name(&call.name);
        let call = CallRecord::new(&call.id, clipped(&name), &call.arguments, audit.json(&call.arguments));
        if let Some(provider) = provider.clone() {
            let event = AuditEvent::ToolUse { call: call.clone(), provider, progress: None };
            audit.publish(Some(subject), event);
        }
        let result = audit.content(&error.message);
        let (details, code, millis, is_cached) = (None, Some(error.code), 0, false);
        let event = AuditEvent::ToolResult { call, provider, result, details, code, millis, is_cached };
        audit.publish(Some(subject), event);
    }

    /// Maximum size of a result of the tool, in bytes.
    pub(super) fn max_result(&self, hosted: &Hosted) -> usize {
        hosted.rules.max_result.unwrap_or(self.execution.settings().max_result)
    }

    /// The result of a call for the model and the client. All results of a turn share a size limit.
    fn ran(&self, call: Call, result: Finished) -> Ran {
        let hosted = self.tool(&call.name);
        let most = hosted.map_or(usize::MAX, |hosted| self.max_result(hosted));
        let mut state = self.state.lock();
        let left = self.execution.settings().max_results.saturating_sub(state.bytes);
        let result = result.and_then(|output| {
            let mut output = Output::clone(&output);
            output.retain_files(|file| state.has_room(file));
            // Not all dialects can mark a result as an error, so its text reports the error.
            if output.is_error {
                output.content = ToolError::reported(output.content).content(&call.name);
            }
            output.content = shrink(output.content, most.min(left)).ok_or_else(too_large)?;
            Ok(output)
        });
        let label = hosted.map_or(clipped(&call.name), |hosted| &hosted.spec.label).to_owned();
        let (tool, provider) = self.shown_names(&call.name);
        let output = result.unwrap_or_else(|error| Output {
            content: error.content(&call.name),
            summary: error.message,
            is_error: true,
            ..Output::default()
        });
        let Output { content, summary, details, images, media, is_error } = output;
        if let Some(pages) = self.options.pages.as_ref().filter(|_| !is_error) {
            pages.add_result(&content, &call.arguments);
        }
        state.bytes += content.len();
        drop(state);
        let arguments = match call.arguments.trim() {
            "" | "null" => "{}".to_owned(),
            _ => call.arguments,
        };
        let note = one_line(&format!("{label}: {}", if summary.is_empty() { "done" } else { &summary }));
        Ran {
            output: CallOutput { id: call.id, name: call.name, content, is_error },
            arguments,
            note,
            details,
            images,
            media,
            tool,
            provider,
        }
    }
}

toolwire_pipeline::wire::debug_fields!(HostedTurn { offered, asker, deadline, state });

/// Parses a call's arguments, and returns them with the host in its URL, if it has one.
fn read(hosted: &Hosted, call: &Call) -> Result<(Map<String, Value>, Option<String>), ToolError> {
    let mut arguments = arguments::read(&call.arguments, &hosted.spec.parameters)?;
    let domain = match hosted.url_argument() {
        Some(argument) => arguments::addressed(&mut arguments, argument)?,
        None => None,
    };
    Ok((arguments, domain))
}

fn put(finished: &mut [Option<Finished>], place: usize, result: Finished) {
    if let Some(slot) = finished.get_mut(place) {
        *slot = Some(result);
    }
}

fn lost() -> ToolError {
    ToolError::new(ErrorCode::ProviderError, "The tool failed.")
}

/// The error when this result, or all results of the turn together, are too large.
pub(super) fn too_large() -> ToolError {
    ToolError::new(ErrorCode::TooLarge, "The result is too large. Answer with what is known.")
}

/// Shortens a name that a model wrote, for messages.
fn clipped(name: &str) -> &str {
    name.get(..boundary_upto(name, MAX_NOTE)).unwrap_or_default()
}

/// Replaces line breaks and other control characters with spaces, and limits the length.
fn one_line(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() > MAX_NOTE {
        line.truncate(boundary_upto(&line, MAX_NOTE));
        line.push('…');
    }
    line
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tasks end with the runtime of their test")]
mod tests;
