//! [`Provider`]: something that offers tools and runs their calls.

use std::{
    collections::HashSet,
    fmt,
    future::ready,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use secrecy::SecretString;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    Registrations,
    ask::{Ask, Payer},
    audit::{Audit, AuditEvent, Subject, unix_millis},
    files::ImageFiles,
    http::HttpClient,
    runtime::Tasks,
    tool::{Output, ToolError, ToolSpec},
};
use toolwire_net::store::Owner;

/// A call that is being run.
///
/// # Errors
/// Why it has no output.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send + 'a>>;

/// A test that is under way.
pub type Testing<'a> = Pin<Box<dyn Future<Output = Option<Verdict>> + Send + 'a>>;

/// What a test of a provider has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It can be used.
    Valid,
    /// Its key was refused.
    Invalid,
    /// Its server did not answer.
    Unreachable,
    /// Its server answers, but not now.
    RateLimited,
}

/// How a provider is, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether it can be used.
    pub state: ProviderState,
    /// Why not. It contains nothing that is secret.
    pub reason: Option<String>,
    /// The last lines that its program wrote to stderr, without secrets.
    pub stderr: Vec<String>,
}

/// Whether a provider can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProviderState {
    /// Its server is being started or connected to, for the first time.
    Starting,
    /// It can.
    #[default]
    Ready,
    /// Its server ended, and will be started again.
    Restarting,
    /// The last attempt to start its server failed. The next one follows.
    Failed,
}

impl ProviderState {
    /// Its name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Restarting => "restarting",
            Self::Failed => "failed",
        }
    }
}

/// Offers tools and runs their calls.
pub trait Provider: fmt::Debug + Send + Sync {
    /// What it offers now. Empty if it cannot run anything: no key is set, its server is not reachable. When that changes, it calls
    /// [`Host::tools_changed`].
    fn tools(&self) -> Vec<Arc<ToolSpec>>;

    /// Runs a call whose arguments fit the tool's schema. It need not limit the time: dropping the future cancels the call.
    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a>;

    /// Asks its server, with one cheap request, whether the provider can be used. `key` is tried in place of the configured one.
    /// `None`: there is nothing to ask.
    fn test<'a>(&'a self, _key: Option<&'a SecretString>) -> Testing<'a> {
        Box::pin(ready(None))
    }

    /// Whether it can be used now.
    fn status(&self) -> Status {
        Status::default()
    }

    /// Whether its tool `web_search` searches the web, so that several such providers can share the tool.
    fn is_search_engine(&self) -> bool {
        false
    }

    /// Starts its server again. Returns whether it has one.
    fn restart(&self) -> bool {
        false
    }

    /// Whether its tools never displace those of other providers, wherever it stands in the configuration.
    fn yields(&self) -> bool {
        false
    }

    /// The programs that may register with it at run time.
    fn registrations(self: Arc<Self>) -> Option<Arc<Registrations>> {
        None
    }

    /// Starts what has to run in the background. Called once, on the runtime of the stage. Tasks end when the host does.
    fn start(self: Arc<Self>, _host: &Host) {}
}

/// A call for a provider.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The call's id, as the upstream and the client know it.
    pub(crate) id: String,
    /// The provider's own name of the tool: [`ToolSpec::name`].
    pub(crate) tool: String,
    /// The arguments.
    pub(crate) arguments: Map<String, Value>,
    /// Whose request it is.
    pub(crate) client: Owner,
    /// The client, if its tokens are counted.
    pub(crate) payer: Option<Arc<dyn Payer>>,
    /// The request, and the hop that has the call.
    pub(crate) subject: Subject,
    /// When the turn ends.
    pub(crate) deadline: Instant,
    /// Who is not asked again when the call is tried again. Its attempts share this.
    pub(crate) given_up: GivenUp,
}

/// Names of those who failed in a way that the same call cannot mend.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenUp(Arc<Mutex<HashSet<String>>>);

impl GivenUp {
    /// `name` need not be asked again.
    pub(crate) fn add(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    /// Whether `name` need not be asked again.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

/// What providers get from the stage.
#[derive(Debug, Clone)]
pub struct Host {
    /// The provider's name in the configuration.
    pub(crate) name: Arc<str>,
    /// Sends HTTP requests to addresses of the configuration.
    pub(crate) http: HttpClient,
    /// Keeps generated images. `None`: there is no folder for them.
    pub(crate) files: Option<Arc<ImageFiles>>,
    /// Asks the configured models. `None`: there are none, as in tests.
    pub(crate) models: Option<Arc<dyn Ask>>,
    audit: Arc<Audit>,
    changed: Arc<tokio::sync::Notify>,
    /// `None`: what it runs ends with the runtime.
    tasks: Option<Arc<Tasks>>,
}

impl Host {
    /// For the provider `name`.
    pub(super) fn new(
        name: &str,
        http: HttpClient,
        audit: Arc<Audit>,
        changed: Arc<tokio::sync::Notify>,
    ) -> Self {
        Self { name: name.into(), http, files: None, models: None, audit, changed, tasks: None }
    }

    /// The same with a folder for generated images.
    pub(super) fn with_files(self, files: Option<Arc<ImageFiles>>) -> Self {
        Self { files, ..self }
    }

    /// The same with models that can be asked.
    pub(super) fn with_models(self, models: Option<Arc<dyn Ask>>) -> Self {
        Self { models, ..self }
    }

    /// The same for a provider whose work in the background is among `tasks`.
    pub(super) fn with_tasks(self, tasks: Arc<Tasks>) -> Self {
        Self { tasks: Some(tasks), ..self }
    }

    /// One without a stage, for tests of the provider `name`.
    #[cfg(test)]
    pub(super) fn detached(name: &str) -> Self {
        let redactor = Arc::new(toolwire_net::redact::Redactor::new([]));
        Self::new(name, HttpClient::new(), Arc::new(Audit::new(redactor, None)), Arc::default())
    }

    /// The provider is in another state than before: `starting`, `ready`, `failed`, `restarting`, ….
    pub(crate) fn state_changed(&self, state: &'static str, tools: usize) {
        let (name, since) = (Arc::clone(&self.name), unix_millis());
        self.audit.publish(None, AuditEvent::ProviderStatus { name, state, since, tools });
    }

    /// `text` from the provider with the configured secrets covered, for logs.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.audit.redacted(text)
    }

    /// Runs `work` until it ends, or no stage has the provider any more. For [`Provider::start`] only.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match &self.tasks {
            Some(tasks) => tasks.spawn(work),
            None => _ = tokio::runtime::Handle::current().spawn(work),
        }
    }

    /// The provider offers other tools than before.
    pub(crate) fn tools_changed(&self) {
        self.changed.notify_one();
    }
}
