//! `kind = "mcp"`: the tools of an MCP server, which is a program or has a URL.
//!
//! ```text
//! supervise ─▶ connect ─▶ rmcp ─▶ Guard ─▶ Stdio (a program) or HttpServer (streamable HTTP)
//!     │           └─▶ list the tools, all pages
//!     └─▶ while it is ready: calls; lists again when the server says so
//! ```
//!
//! The server is started in the background. Its tools are offered when it is ready, and it is restarted when it ends.
//! It is not trusted: the size and number of its messages and tools are limited.

mod call_tool;
mod client_side;
mod elicitation;
mod fault;
mod guard;
mod http;
mod http_sse;
mod message;
mod of_client;
mod output;
mod per_key;
mod prompts;
mod reported_calls;
mod resources;
mod stdio;
mod supervise;
mod tasks;
mod tools;

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ::http::Uri;
use parking_lot::Mutex;
use futures_util::FutureExt;
use rmcp::{
    RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest, ErrorData,
        RequestId, ServerResult,
    },
    service::{Peer, PeerRequestOptions},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

pub(super) use self::of_client::{ClientLimits, connect_for_client};
use self::{elicitation::People, per_key::PerKey, reported_calls::ReportedCalls};
use crate::{
    ErrorCode, Host, Invocation, Output, Prompt, Provider, Running, Status, Testing, ToolError, ToolSpec,
    http::HttpClient, oauth::{Account, LoginPer, OAuthOptions, Vault}, process::Program,
    provider::{Filling, ProviderState}, providers::Fault, stderr::StderrLog,
};
use toolwire_net::redact::Redactor;
use toolwire_pipeline::settings::{Field, Key, Settings, TableText, Visitor};

/// Maximum length of a server's text outside results, in characters.
const LONGEST_REASON: usize = 500;

/// How a connection begins, by protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
enum Protocol {
    /// Whichever the server supports.
    Auto,
    /// With the handshake of the versions up to 2025-11-25.
    Initialize,
    /// Without a handshake, as of version 2026-07-28.
    Discover,
}

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct Options {
    #[setting(visit = Self::visit_program)]
    program: Program,
    /// instead of `command`: the server's URL (streamable HTTP, or HTTP with SSE)
    url: Option<Uri>,
    /// bearer token for `url`: `"env:NAME"` or `"file:PATH"`
    api_key: Option<SecretString>,
    /// headers for `url`; secrets as `"env:NAME"` or `"file:PATH"`
    headers: BTreeMap<String, TableText>,
    #[setting(nested)]
    oauth: OAuthOptions,
    /// `initialize` (up to 2025-11-25), `discover` (2026-07-28), or `auto`, with which an older server may be
    /// ready 10 s later
    #[setting(default = Protocol::Auto, word)]
    protocol: Protocol,
    /// how long a call may take; progress renews it, up to ten times as long
    #[setting(default = Duration::from_secs(60))]
    timeout: Duration,
    /// until the server's tools are known; then it is started again
    #[setting(default = Duration::from_secs(60))]
    start_timeout: Duration,
    /// one message of the server; with a larger result, the call fails
    #[setting(default = 4 << 20, size)]
    max_output: usize,
    /// give the model what the server says about its tools, at most 4 KiB
    #[setting(default = true)]
    instructions: bool,
    /// trust marks of read-only and idempotent tools, whose calls may be repeated and results kept
    trust_annotations: bool,
}

impl Options {
    fn visit_program(&mut self, keys: &mut dyn Visitor) {
        let about = "the program that is the server, and its arguments, without a shell";
        keys.key(Key::new("command", about).or(" ").file_only(), Field::Texts(&mut self.program.command));
        self.program.settings(keys);
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        match (self.program.command.is_empty(), &self.url) {
            (true, None) => return Err(Fault::new("command", "`command` or `url` is missing")),
            (false, Some(_)) => return Err(Fault::new("url", "either `command` or `url`, not both")),
            _ => {}
        }
        if let Some((key, message)) = self.oauth.fault() {
            return Err(Fault::new(key, message));
        }
        if self.oauth.oauth_login_per == LoginPer::Key && (self.url.is_none() || self.has_key()) {
            let message = "only a server with `url` and without a key of the configuration has logins";
            return Err(Fault::new("oauth_login_per", message));
        }
        http::check_headers(&self.headers)
    }

    /// Whether requests have a key of the configuration.
    fn has_key(&self) -> bool {
        self.api_key.is_some() || self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// The login at the provider's server. `None` if it is a program, or has a key.
    pub(crate) fn account(
        &self,
        name: &str,
        http: &HttpClient,
        vault: Option<Arc<Vault>>,
        redactor: Option<Arc<Redactor>>,
    ) -> Option<Arc<Account>> {
        let url = self.url.as_ref().filter(|_| !self.has_key())?;
        Account::new(name.into(), url, self.oauth.clone(), http, vault, redactor)
    }

    /// A pattern for the names of the provider's tools.
    pub(super) fn offers(&self, name: &str) -> Vec<String> {
        vec![tools::wire_name(name, "*")]
    }

    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, Fault> {
        let redactor = Some(host.redactor());
        let account = self.account(&host.name, &host.http, host.vault.clone(), redactor);
        Ok(match account {
            Some(account) if account.is_per_key() => Arc::new(PerKey::new(self.clone(), account)),
            account => Arc::new(Server::new(self.clone(), Arc::clone(&host.name), account)),
        })
    }

    /// Values that must not appear in logs or messages.
    fn secrets(&self) -> Vec<&str> {
        let headers = self.headers.values().filter_map(TableText::as_secret);
        let own = headers.chain(&self.api_key).map(ExposeSecret::expose_secret);
        self.program.secrets().chain(own).collect()
    }
}

/// An MCP server. [`Server::supervise`] runs it.
#[derive(Debug)]
struct Server {
    options: Options,
    name: Arc<str>,
    account: Option<Arc<Account>>,
    redactor: Redactor,
    stderr: Arc<StderrLog>,
    host: OnceLock<Host>,
    state: Mutex<State>,
    /// The calls that wait for reports of their progress.
    reported: ReportedCalls,
    people: Arc<People>,
    /// Notified when the server reports that its tools have changed.
    changed: Arc<Notify>,
    /// Notified when a call got no answer, so that the server is checked.
    suspected: Notify,
    /// Notified when the server must be restarted.
    restarted: Notify,
    running: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    tools: Vec<Arc<ToolSpec>>,
    peer: Option<Peer<RoleClient>>,
    /// The tools that must be called as tasks, by their own names.
    task_tools: HashSet<String>,
    /// Whether the tool [`resources::NAME`] is toolwire's own.
    has_resource_tool: bool,
    prompts: Vec<Arc<Prompt>>,
    /// What the server says about its tools.
    instructions: Option<Arc<str>>,
    /// When the list of tools must be requested again.
    expiry: Option<Instant>,
}

impl Server {
    fn new(options: Options, name: Arc<str>, account: Option<Arc<Account>>) -> Self {
        let redactor = Redactor::new(options.secrets());
        let stderr = Arc::new(StderrLog::new(Arc::clone(&name), options.secrets()));
        let status = Status { state: ProviderState::Starting, ..Status::default() };
        let people = Arc::new(People::new(Arc::clone(&name)));
        Self {
            options,
            name,
            account,
            redactor,
            stderr,
            host: OnceLock::new(),
            state: Mutex::new(State { status, ..State::default() }),
            reported: ReportedCalls::default(),
            people,
            changed: Arc::default(),
            suspected: Notify::new(),
            restarted: Notify::new(),
            running: AtomicUsize::new(0),
        }
    }

    /// Sets what the server needs to run. Returns whether that was missing.
    fn begin(&self, host: &Host) -> bool {
        let is_new = self.host.set(host.clone()).is_ok();
        if let Some(people) = host.people.as_ref().filter(|_| is_new) {
            self.people.answer_by(Arc::clone(people));
        }
        is_new
    }

    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock())
    }

    /// Turns text from the server into one short line without secrets.
    fn plain(&self, text: &str) -> String {
        let text: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
        let text = match self.host.get() {
            Some(host) => host.redacted(&text),
            None => self.redactor.text(&text).into_owned(),
        };
        // Redaction comes first, because it would not recognize a truncated secret.
        text.chars().take(LONGEST_REASON).collect()
    }

    async fn call(&self, call: &Invocation) -> Result<Output, ToolError> {
        let peer = self.state(|state| state.peer.clone());
        let not_ready = || failed("The server of the tool is not ready.");
        let peer = peer.ok_or_else(|| self.needs_login_of_key().unwrap_or_else(not_ready))?;
        let _running = self.people.calls(call);
        let own_name = tools::own_name(&self.name, &call.tool);
        if own_name == resources::NAME && self.state(|state| state.has_resource_tool) {
            return self.resources(&peer, call).await;
        }
        let params = CallToolRequestParams::new(own_name.to_owned()).with_arguments(call.arguments.clone());
        let called = match self.state(|state| state.task_tools.contains(own_name)) {
            true => self.call_as_task(&peer, params, &call.reports).await,
            false => self.call_tool(&peer, params, &call.reports).await,
        };
        called.or_else(Unanswered::into_output)
    }

    /// Sends a request that belongs to a call. Dropping the future cancels it at the server.
    async fn answer(
        &self,
        peer: &Peer<RoleClient>,
        request: ClientRequest,
    ) -> Result<ServerResult, Unanswered> {
        let mut running = RunningCall::new(self);
        let answered = match peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
            Ok(handle) => {
                let mut given_up = CancelOnDrop { peer, id: Some(handle.id.clone()) };
                let answered = handle.await_response().await;
                given_up.id = None;
                answered
            }
            Err(error) => Err(error),
        };
        running.is_answered = true;
        answered.map_err(|error| match error {
            ServiceError::McpError(error) => self.refused(error),
            ServiceError::UnexpectedResponse => not_a_result().into(),
            error => {
                let need = self.account.as_ref().and_then(|account| account.need());
                let said = need.clone().unwrap_or_else(|| error.to_string());
                tracing::warn!(provider = %self.name, error = self.plain(&said), "a call failed");
                self.suspected.notify_one();
                self.needs_login_of_key().unwrap_or_else(|| Self::lost(&error, need.is_some())).into()
            }
        })
    }

    /// Turns an error from the server into that of a call.
    fn refused(&self, error: ErrorData) -> Unanswered {
        match error.code {
            message::TOO_LARGE => {
                ToolError::new(ErrorCode::TooLarge, "The server of the tool sent more than it may.").into()
            }
            message::UNREADABLE => not_a_result().into(),
            elicitation::PAGES_REQUIRED => Unanswered::Pages(Box::new(error)),
            _ => Unanswered::Said(self.plain(&error.message)),
        }
    }

    /// The error of a call for want of the login of a client key.
    fn needs_login_of_key(&self) -> Option<ToolError> {
        let refusal = self.account.as_ref()?.refusal_of_key()?;
        Some(ToolError::new(ErrorCode::AuthFailed, refusal))
    }

    fn lost(error: &ServiceError, needs_login: bool) -> ToolError {
        match error {
            _ if needs_login => {
                ToolError::new(ErrorCode::AuthFailed, "The server of the tool needs a login by the operator.")
            }
            ServiceError::TransportSend(error) if http::is_refusal(error) => {
                ToolError::new(ErrorCode::AuthFailed, "The server of the tool refused the key.")
            }
            _ => failed("The server of the tool did not answer."),
        }
    }
}

/// Why a request has no result.
#[derive(Debug)]
enum Unanswered {
    /// What the server says about the failure.
    Said(String),
    /// A person must open pages first, which the error lists.
    Pages(Box<ErrorData>),
    Failed(ToolError),
}

impl From<ToolError> for Unanswered {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

impl Unanswered {
    /// A failure that the server reports is the output of the call.
    fn into_output(self) -> Result<Output, ToolError> {
        match self {
            Self::Said(message) => Ok(Output::failed(message)),
            Self::Pages(_) => {
                Ok(Output::failed("The tool needs a person to open a page first, which nobody did.".to_owned()))
            }
            Self::Failed(error) => Err(error),
        }
    }
}

/// Tells the server on drop that the result of a request is not needed any more.
struct CancelOnDrop<'p> {
    peer: &'p Peer<RoleClient>,
    /// `None` if the request was answered.
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let params = CancelledNotificationParam::new(Some(id), Some("the call was cancelled".to_owned()));
            // Polled once, which puts it into the queue of the connection if that is not full.
            let _ = self.peer.send_notification(CancelledNotification::new(params).into()).now_or_never();
        }
    }
}

/// The error for an invalid result. The tool has run, so the call must not be retried.
fn not_a_result() -> ToolError {
    ToolError { is_retryable: false, ..failed("The server of the tool sent an invalid result.") }
}

fn failed(message: &str) -> ToolError {
    ToolError::new(ErrorCode::ProviderError, message)
}

impl Provider for Server {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        self.state(|state| state.tools.clone())
    }

    fn instructions(&self) -> Option<Arc<str>> {
        self.state(|state| state.instructions.clone())
    }

    fn prompts(&self) -> Vec<Arc<Prompt>> {
        self.state(|state| state.prompts.clone())
    }

    fn fill<'a>(&'a self, prompt: &'a str, arguments: Map<String, Value>) -> Filling<'a> {
        Box::pin(async move {
            let filling = timeout(self.options.timeout, self.fill_prompt(prompt, arguments));
            filling.await.unwrap_or_else(|_| Err(failed("The server of the prompt did not answer.")))
        })
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(self.call(call))
    }

    fn status(&self) -> Status {
        let status = self.state(|state| state.status.clone());
        Status { stderr: self.stderr.last(), ..status }
    }

    fn test<'a>(&'a self, key: Option<&'a SecretString>) -> Testing<'a> {
        Box::pin(async move { Some(self.tested(key).await) })
    }

    fn restart(&self) -> bool {
        self.restarted.notify_one();
        true
    }

    fn account(&self, key: Option<&str>) -> Option<Arc<Account>> {
        self.account.clone().filter(|account| account.key() == key)
    }

    fn start(self: Arc<Self>, host: &Host) {
        if self.begin(host) {
            host.spawn(self.supervise());
        }
    }
}

/// Counts as a running call until it is dropped.
#[derive(Debug)]
struct RunningCall<'s> {
    server: &'s Server,
    is_answered: bool,
}

impl<'s> RunningCall<'s> {
    fn new(server: &'s Server) -> Self {
        server.running.fetch_add(1, Ordering::Relaxed);
        Self { server, is_answered: false }
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.server.running.fetch_sub(1, Ordering::Relaxed);
        if !self.is_answered {
            self.server.suspected.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
