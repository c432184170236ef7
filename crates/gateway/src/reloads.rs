//! [`Reloads`]: requests reloads of the configuration, and reports the result of the last one.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use toolwire_config::{Config, Problem, Severity};
use toolwire_execution::audit::unix_millis;

/// Maximum number of reload requests in the queue. Further requests wait for space in it.
const MAX_WAITING: usize = 16;

/// The reason for a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadReason {
    /// A signal.
    Signal,
    /// The file, or one that it refers to, has changed.
    FileChanged,
    /// A request over the admin API.
    Requested,
    /// Settings were saved over the admin API.
    SettingsSaved,
}

impl ReloadReason {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::FileChanged => "a file has changed",
            Self::Requested => "admin API",
            Self::SettingsSaved => "settings were saved",
        }
    }
}

/// The result of a successful reload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Number of configurations loaded so far, including the one at the start.
    pub generation: u64,
    /// The paths of the settings that were added or have new values.
    pub changed: Vec<String>,
    /// The paths of the settings that change only with a restart.
    pub restart_required: Vec<String>,
}

/// The reason why a reload failed. The previous configuration stays in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// The configuration has errors.
    #[error("the configuration was not reloaded: {}", first_error(.0))]
    Invalid(Vec<Problem>),
    /// The server is stopping.
    #[error("toolwire is shutting down")]
    Stopping,
    /// Exchanges are being recorded, and the recorder does not know new secrets.
    #[error("the configuration cannot be reloaded while exchanges are recorded")]
    Recording,
}

/// The first error among `problems`.
fn first_error(problems: &[Problem]) -> String {
    let first = problems.iter().find(|problem| problem.severity == Severity::Error);
    first.map_or_else(|| "it is not valid".to_owned(), ToString::to_string)
}

/// Requests reloads, and reports the result of the last one.
#[derive(Debug, Clone)]
pub struct Reloads {
    asked: mpsc::Sender<Asked>,
    pub(super) status: Arc<Mutex<ReloadStatus>>,
}

/// The status after the last reload.
#[derive(Debug, Clone)]
pub struct ReloadStatus {
    pub generation: u64,
    pub(crate) config: Arc<Config>,
    /// Time at which the configuration was loaded, in milliseconds of Unix time.
    pub loaded_at: u64,
    pub restart_required: Vec<String>,
    /// The time of the last attempt and its problems, if it failed.
    pub failed: Option<(u64, Vec<Problem>)>,
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) reason: ReloadReason,
    pub(super) answer: oneshot::Sender<Result<Reloaded, ReloadError>>,
}

impl Reloads {
    /// Reloads the configuration, after reloads that were requested earlier.
    ///
    /// # Errors
    /// If the reload failed; nothing has changed.
    pub async fn reload(&self, reason: ReloadReason) -> Result<Reloaded, ReloadError> {
        let (answer, answered) = oneshot::channel();
        // An error means that the server has ended.
        self.asked.send(Asked { reason, answer }).await.map_err(|_| ReloadError::Stopping)?;
        answered.await.unwrap_or(Err(ReloadError::Stopping))
    }

    /// Number of configurations loaded so far, including the one at the start.
    pub fn generation(&self) -> u64 {
        self.status.lock().generation
    }

    /// The last configuration that was loaded.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.status.lock().config)
    }

    pub fn status(&self) -> ReloadStatus {
        self.status.lock().clone()
    }
}

/// Requested reloads.
#[derive(Debug)]
pub(super) struct Requests(pub(super) mpsc::Receiver<Asked>);

/// Creates the two ends: one that requests reloads, and the queue of requests. The server begins with `config`.
pub(super) fn reloads(config: Arc<Config>) -> (Reloads, Requests) {
    let (sender, asked) = mpsc::channel(MAX_WAITING);
    let status = ReloadStatus {
        generation: 1,
        config,
        loaded_at: unix_millis(),
        restart_required: Vec::new(),
        failed: None,
    };
    (Reloads { asked: sender, status: Arc::new(Mutex::new(status)) }, Requests(asked))
}
