//! [`Provider`]: something that offers tools and runs their calls.

use std::{collections::HashSet, fmt, future::ready, pin::Pin, sync::Arc};

use parking_lot::Mutex;
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
/// The reason why the call has no output.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send + 'a>>;

/// A running test of a provider.
pub type Testing<'a> = Pin<Box<dyn Future<Output = Option<Verdict>> + Send + 'a>>;

/// Result of testing a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The provider can be used.
    Valid,
    /// The provider's key was refused.
    Invalid,
    /// The provider's server did not answer.
    Unreachable,
    /// The provider's server answers, but currently refuses requests because of a rate limit.
    RateLimited,
}

/// State of a provider, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether the provider can be used.
    pub state: ProviderState,
    /// The reason why the provider cannot be used. It contains no secrets.
    pub reason: Option<String>,
    /// The last lines that its program wrote to stderr, without secrets.
    pub stderr: Vec<String>,
}

/// Whether a provider can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ProviderState {
    /// The provider's server is being started or connected to, for the first time.
    Starting,
    /// The provider can be used.
    #[default]
    Ready,
    /// The provider's server ended, and will be restarted.
    Restarting,
    /// The last attempt to start its server failed. Another one follows.
    Failed,
}

impl ProviderState {
    /// Name of the state, for programs.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Offers tools and runs their calls.
pub trait Provider: fmt::Debug + Send + Sync {
    /// The tools that the provider offers now. Empty if it cannot run any: no key is set, or its server is not reachable.
    /// When the tools change, the provider calls [`Host::tools_changed`].
    fn tools(&self) -> Vec<Arc<ToolSpec>>;

    /// Runs a call whose arguments fit the tool's schema. It need not enforce a time limit: dropping the future cancels the
    /// call.
    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a>;

    /// Asks its server, with one cheap request, whether the provider can be used. `key` replaces the configured key. `None`
    /// if there is no server to ask.
    fn test<'a>(&'a self, _key: Option<&'a SecretString>) -> Testing<'a> {
        Box::pin(ready(None))
    }

    /// Whether the provider can be used now.
    fn status(&self) -> Status {
        Status::default()
    }

    /// Whether its tool `web_search` searches the web, so that it can share the tool with other such providers.
    fn is_search_engine(&self) -> bool {
        false
    }

    /// Restarts the provider's server. Returns whether there is one.
    fn restart(&self) -> bool {
        false
    }

    /// Whether the provider's tools never displace those of other providers, even if it comes first in the configuration.
    fn yields(&self) -> bool {
        false
    }

    /// The programs that may register with it at run time, if it accepts registrations.
    fn registrations(self: Arc<Self>) -> Option<Arc<Registrations>> {
        None
    }

    /// Starts background work. Called once, on the stage's runtime. Tasks end when the host does.
    fn start(self: Arc<Self>, _host: &Host) {}
}

/// A call for a provider.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The call's id, as the upstream and the client know it.
    pub(crate) id: String,
    /// The provider's own name for the tool: [`ToolSpec::name`].
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
    /// The client whose request contains the call.
    pub(crate) client: Owner,
    /// The client, if its tokens are counted.
    pub(crate) payer: Option<Arc<dyn Payer>>,
    /// The exchange, and the hop that contains the call.
    pub(crate) subject: Subject,
    /// When the turn ends.
    pub(crate) deadline: Instant,
    /// The engines that are skipped when the call is tried again. All attempts share this set.
    pub(crate) given_up: GivenUp,
}

/// Names of engines that failed in a way that repeating the call cannot fix.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenUp(Arc<Mutex<HashSet<String>>>);

impl GivenUp {
    /// Adds an engine that must not be called again.
    pub(crate) fn add(&self, name: &str) {
        self.0.lock().insert(name.to_owned());
    }

    /// Whether the engine `name` must not be called again.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.lock().contains(name)
    }
}

/// The services that the stage gives a provider.
#[derive(Debug, Clone)]
pub struct Host {
    /// The provider's name in the configuration.
    pub(crate) name: Arc<str>,
    /// Sends HTTP requests to addresses from the configuration.
    pub(crate) http: HttpClient,
    /// Stores generated images. `None` if there is no folder for them.
    pub(crate) files: Option<Arc<ImageFiles>>,
    /// Asks the configured models. `None` in tests without models.
    pub(crate) models: Option<Arc<dyn Ask>>,
    audit: Arc<Audit>,
    changed: Arc<tokio::sync::Notify>,
    /// `None` if its background work ends with the runtime.
    tasks: Option<Arc<Tasks>>,
}

impl Host {
    /// Creates the services of the provider `name`.
    pub(super) fn new(
        name: &str,
        http: HttpClient,
        audit: Arc<Audit>,
        changed: Arc<tokio::sync::Notify>,
    ) -> Self {
        Self { name: name.into(), http, files: None, models: None, audit, changed, tasks: None }
    }

    /// Sets the folder for generated images.
    pub(super) fn with_files(self, files: Option<Arc<ImageFiles>>) -> Self {
        Self { files, ..self }
    }

    /// Sets the models that can be asked.
    pub(super) fn with_models(self, models: Option<Arc<dyn Ask>>) -> Self {
        Self { models, ..self }
    }

    /// Runs the provider's background work among `tasks`.
    pub(super) fn with_tasks(self, tasks: Arc<Tasks>) -> Self {
        Self { tasks: Some(tasks), ..self }
    }

    /// Services without a stage, for tests of the provider `name`.
    #[cfg(test)]
    pub(super) fn detached(name: &str) -> Self {
        let redactor = Arc::new(toolwire_net::redact::Redactor::new([]));
        Self::new(name, HttpClient::direct(), Arc::new(Audit::new(redactor, None)), Arc::default())
    }

    /// Reports that the provider's state has changed: `starting`, `ready`, `failed`, `restarting`, ….
    pub fn state_changed(&self, state: &'static str, tools: usize) {
        let (name, since) = (Arc::clone(&self.name), unix_millis());
        self.audit.publish(None, AuditEvent::ProviderStatus { name, state, since, tools });
    }

    /// Returns `text` from the provider for logs, with the configured secrets redacted.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.audit.redacted(text)
    }

    /// Runs `work` until it ends, or until no stage has the provider any more. For [`Provider::start`] only.
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
