//! [`Provider`]: offers tools and runs the calls to them.

use std::{collections::HashSet, fmt, future::ready, pin::Pin, sync::Arc};

use parking_lot::Mutex;
use secrecy::SecretString;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    Registrations,
    ask::{Ask, Payer},
    audit::{Audit, AuditEvent, Subject, unix_millis},
    client_options::ClientOptions,
    client_servers::ClientServer,
    files::ImageFiles,
    http::HttpClient,
    oauth::{Account, Vault},
    prompt::{FilledPrompt, Prompt},
    question::AskPerson,
    reports::Reports,
    runtime::Tasks,
    tool::{ErrorCode, Output, ToolError, ToolSpec},
};
use toolwire_net::store::Owner;

/// A running call.
///
/// # Errors
/// Why the call has no output.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send + 'a>>;

/// A prompt that is being filled in.
///
/// # Errors
/// Why there is no text.
pub type Filling<'a> = Pin<Box<dyn Future<Output = Result<FilledPrompt, ToolError>> + Send + 'a>>;

/// A connection that is being made, as the provider of the server's tools.
///
/// # Errors
/// Why the server cannot be used, without secrets.
pub(crate) type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Provider>, String>> + Send + 'a>>;

pub type Testing<'a> = Pin<Box<dyn Future<Output = Option<Verdict>> + Send + 'a>>;

/// Whether a provider works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    /// The key was rejected.
    Invalid,
    /// The server did not answer.
    Unreachable,
    /// The server answers, but is rejecting requests because of a rate limit.
    RateLimited,
}

/// The state of a provider, for display.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    pub state: ProviderState,
    /// Why the provider cannot be used. Contains no secrets.
    pub reason: Option<String>,
    /// The last lines that the provider's program wrote to stderr, without secrets.
    pub stderr: Vec<String>,
}

/// Whether a provider can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ProviderState {
    /// The server is being started or connected to for the first time.
    Starting,
    #[default]
    Ready,
    /// The server has ended and will be restarted.
    Restarting,
    /// The last attempt to start the server failed. It will be tried again.
    Failed,
    /// A person must log in at the server.
    NeedsLogin,
}

impl ProviderState {
    /// The name for programs.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

pub trait Provider: fmt::Debug + Send + Sync {
    /// The tools that the provider offers at the moment. Empty if none of them can run, because there is no key or the
    /// server is unreachable. The provider calls [`Host::tools_changed`] when this changes.
    fn tools(&self) -> Vec<Arc<ToolSpec>>;

    /// What the provider's server tells models about its tools. It is not trusted.
    fn instructions(&self) -> Option<Arc<str>> {
        None
    }

    /// The prompts that the provider's server offers to people at the moment.
    fn prompts(&self) -> Vec<Arc<Prompt>> {
        Vec::new()
    }

    /// Fills in a prompt.
    fn fill<'a>(&'a self, _prompt: &'a str, _arguments: Map<String, Value>) -> Filling<'a> {
        let message = "The provider has no prompts.";
        Box::pin(ready(Err(ToolError::new(ErrorCode::InvalidArguments, message))))
    }

    /// Runs a call whose arguments match the tool's schema. Need not enforce a time limit: dropping the future cancels
    /// the call.
    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a>;

    /// Tests the provider with one cheap request. `key` replaces the configured key. Returns `None` if there is no
    /// server to test.
    fn test<'a>(&'a self, _key: Option<&'a SecretString>) -> Testing<'a> {
        Box::pin(ready(None))
    }

    fn status(&self) -> Status {
        Status::default()
    }

    /// Whether this provider's tool `web_search` searches the web and can be combined with those of other providers.
    fn is_search_engine(&self) -> bool {
        false
    }

    /// Restarts the provider's server. Returns whether there is one.
    fn restart(&self) -> bool {
        false
    }

    /// Whether other providers' tools take precedence over this provider's, even if this one comes first in the
    /// configuration.
    fn yields(&self) -> bool {
        false
    }

    /// The login at the provider's server, or that of the client key `key`. `None` if there cannot be one.
    fn account(&self, _key: Option<&str>) -> Option<Arc<Account>> {
        None
    }

    /// All logins at the provider's server that are in use.
    fn accounts(&self) -> Vec<Arc<Account>> {
        self.account(None).into_iter().collect()
    }

    /// The provider as the client key `key` uses it, if each key has a login of its own. A request without a named key has
    /// none.
    fn of_key(&self, _key: Option<&str>) -> Option<Arc<dyn Provider>> {
        None
    }

    /// The programs that have registered with this provider. `None` if it does not accept registrations.
    fn registrations(self: Arc<Self>) -> Option<Arc<Registrations>> {
        None
    }

    /// Whether a client may name the MCP server with this URL.
    fn admits_server(&self, _url: &str) -> bool {
        false
    }

    /// Connects to an MCP server that a client has named, for one request.
    fn connect<'a>(&'a self, _server: &'a ClientServer) -> Connecting<'a> {
        Box::pin(ready(Err("it is not allowed".to_owned())))
    }

    /// Starts background work. Called once, on the stage's runtime. Tasks are cancelled together with the host.
    fn start(self: Arc<Self>, _host: &Host) {}
}

#[derive(Debug, Clone)]
pub struct Invocation {
    /// The call's id, as known to the upstream and the client.
    pub(crate) id: String,
    /// The tool's [`ToolSpec::name`].
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
    /// The client whose request contains the call.
    pub(crate) client: Owner,
    /// The client that pays for tokens, if they are counted.
    pub(crate) payer: Option<Arc<dyn Payer>>,
    /// The exchange and hop that contain the call.
    pub(crate) subject: Subject,
    /// When the turn must end.
    pub(crate) deadline: Instant,
    /// Engines to skip when the call is retried. Shared by all attempts.
    pub(crate) given_up: GivenUp,
    /// Receives reports of how far the call is. Shared by all attempts.
    pub(crate) reports: Reports,
    /// What the client's declaration of the tool says about its calls.
    pub(crate) options: Arc<ClientOptions>,
    /// Which hosts the rules admit without a question.
    pub(crate) hosts: Hosts,
}

#[cfg(test)]
impl Invocation {
    /// A call that may take ten minutes.
    ///
    /// # Panics
    /// If the arguments are no object.
    pub(crate) fn in_test(tool: &str, arguments: serde_json::Value) -> Self {
        Self {
            id: "call_1".to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            client: Owner::default(),
            payer: None,
            subject: Default::default(),
            deadline: Instant::now() + std::time::Duration::from_secs(600),
            given_up: Default::default(),
            reports: Default::default(),
            options: Default::default(),
            hosts: Default::default(),
        }
    }
}

type Admission = dyn Fn(&str) -> bool + Send + Sync;

/// Decides which hosts a call may reach. By default, all.
#[derive(Clone, Default)]
pub(crate) struct Hosts(Option<Arc<Admission>>);

toolwire_pipeline::wire::debug_fields!(Hosts {});

impl Hosts {
    pub(crate) fn new(admits: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(admits)))
    }

    /// Whether the call may reach `host`, in the form that [`comparable`](super::address::comparable) returns.
    pub(crate) fn admit(&self, host: &str) -> bool {
        self.0.as_ref().is_none_or(|admits| admits(host))
    }
}

/// Names of engines whose failures a retry cannot fix.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenUp(Arc<Mutex<HashSet<String>>>);

impl GivenUp {
    pub(crate) fn add(&self, name: &str) {
        self.0.lock().insert(name.to_owned());
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.lock().contains(name)
    }
}

/// What the stage provides for a provider.
#[derive(Debug, Clone)]
pub struct Host {
    /// The provider's name in the configuration.
    pub(crate) name: Arc<str>,
    /// Sends HTTP requests to URLs from the configuration.
    pub(crate) http: HttpClient,
    /// Stores generated images. `None` if there is no folder for them.
    pub(crate) files: Option<Arc<ImageFiles>>,
    /// Sends questions to the configured models. `None` in tests without models.
    pub(crate) models: Option<Arc<dyn Ask>>,
    /// Keeps the logins of servers. `None` if there is no folder for them.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only MCP servers have logins"))]
    pub(crate) vault: Option<Arc<Vault>>,
    /// Puts questions to people. `None` if there is no admin API over which they could answer.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only MCP servers ask people"))]
    pub(crate) people: Option<Arc<dyn AskPerson>>,
    audit: Arc<Audit>,
    changed: Arc<tokio::sync::Notify>,
    /// `None` if background work ends with the runtime.
    tasks: Option<Arc<Tasks>>,
}

impl Host {
    pub(super) fn new(
        name: &str,
        http: HttpClient,
        audit: Arc<Audit>,
        changed: Arc<tokio::sync::Notify>,
    ) -> Self {
        Self {
            name: name.into(),
            http,
            files: None,
            models: None,
            vault: None,
            people: None,
            audit,
            changed,
            tasks: None,
        }
    }

    /// Sets the folder for generated images.
    pub(super) fn with_files(self, files: Option<Arc<ImageFiles>>) -> Self {
        Self { files, ..self }
    }

    pub(super) fn with_models(self, models: Option<Arc<dyn Ask>>) -> Self {
        Self { models, ..self }
    }

    pub(crate) fn with_vault(self, vault: Option<Arc<Vault>>) -> Self {
        Self { vault, ..self }
    }

    pub(super) fn with_people(self, people: Option<Arc<dyn AskPerson>>) -> Self {
        Self { people, ..self }
    }

    /// Adds the provider's background work to `tasks`.
    pub(super) fn with_tasks(self, tasks: Arc<Tasks>) -> Self {
        Self { tasks: Some(tasks), ..self }
    }

    /// A host without a stage, for tests of the provider `name`.
    #[cfg(test)]
    pub(super) fn detached(name: &str) -> Self {
        let redactor = Arc::new(toolwire_net::redact::Redactor::new([]));
        Self::new(name, HttpClient::direct(), Arc::new(Audit::new(redactor, None)), Arc::default())
    }

    /// Publishes that the provider's state has changed: `starting`, `ready`, `failed`, `restarting`, ….
    pub fn state_changed(&self, state: &'static str, tools: usize) {
        let (name, since) = (Arc::clone(&self.name), unix_millis());
        self.audit.publish(None, AuditEvent::ProviderStatus { name, state, since, tools });
    }

    /// Masks secrets in logs, events and messages.
    #[cfg(feature = "mcp")]
    pub(crate) fn redactor(&self) -> Arc<toolwire_net::redact::Redactor> {
        self.audit.redactor()
    }

    /// Masks configured secrets in text from the provider, for logs.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.audit.redacted(text)
    }

    /// Runs `work` until it ends, or until no stage contains the provider any more. Only for use in
    /// [`Provider::start`].
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match &self.tasks {
            Some(tasks) => tasks.spawn(work),
            None => _ = tokio::runtime::Handle::current().spawn(work),
        }
    }

    /// Reports that the provider's tools have changed.
    pub(crate) fn tools_changed(&self) {
        self.changed.notify_one();
    }
}
