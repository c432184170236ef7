//! [`Reloads`]: requests reloads of the configuration, and reports the outcome of the latest one.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use toolwire_config::{Config, Problem, Severity};
use toolwire_execution::audit::unix_millis;

/// Maximum number of queued requests. Further ones wait for space.
const MAX_WAITING: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadReason {
    Signal,
    /// The configuration file, or a file to which it refers, has changed.
    FileChanged,
    Requested,
    /// Settings were saved through the admin API.
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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// How many configurations have been loaded, including the first.
    pub generation: u64,
    /// Paths of the settings that were added or changed.
    pub changed: Vec<String>,
    /// Paths of the settings that take effect only after a restart.
    pub restart_required: Vec<String>,
}

/// Why a reload failed. The previous configuration stays in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    #[error("the configuration was not reloaded: {}", first_error(.0))]
    Invalid(Vec<Problem>),
    #[error("toolwire is shutting down")]
    Stopping,
    /// Exchanges are being recorded, and the recorder could not mask new secrets.
    #[error("the configuration cannot be reloaded while exchanges are recorded")]
    Recording,
}

fn first_error(problems: &[Problem]) -> String {
    let first = problems.iter().find(|problem| problem.severity == Severity::Error);
    first.map_or_else(|| "it is not valid".to_owned(), ToString::to_string)
}

/// Requests reloads, and reports the outcome of the latest one.
#[derive(Debug, Clone)]
pub struct Reloads {
    asked: mpsc::Sender<Asked>,
    pub(super) status: Arc<Mutex<ReloadStatus>>,
}

/// The state after the latest reload.
#[derive(Debug, Clone)]
pub struct ReloadStatus {
    pub generation: u64,
    pub(crate) config: Arc<Config>,
    /// When the configuration was loaded, as Unix time in milliseconds.
    pub loaded_at: u64,
    pub restart_required: Vec<String>,
    /// The time and the problems of the latest reload, if it failed.
    pub failed: Option<(u64, Vec<Problem>)>,
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) reason: ReloadReason,
    pub(super) answer: oneshot::Sender<Result<Reloaded, ReloadError>>,
}

impl Reloads {
    /// Reloads the configuration once the reloads requested earlier are done.
    ///
    /// # Errors
    /// If the reload failed. In that case, nothing has changed.
    pub async fn reload(&self, reason: ReloadReason) -> Result<Reloaded, ReloadError> {
        let (answer, answered) = oneshot::channel();
        // An error means that the server has ended.
        self.asked.send(Asked { reason, answer }).await.map_err(|_| ReloadError::Stopping)?;
        answered.await.unwrap_or(Err(ReloadError::Stopping))
    }

    /// How many configurations have been loaded, including the first.
    pub fn generation(&self) -> u64 {
        self.status.lock().generation
    }

    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.status.lock().config)
    }

    pub fn status(&self) -> ReloadStatus {
        self.status.lock().clone()
    }
}

/// The queue of requests for a reload.
#[derive(Debug)]
pub(super) struct Requests(pub(super) mpsc::Receiver<Asked>);

/// Creates the two ends of the queue. The server starts with `config`.
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
