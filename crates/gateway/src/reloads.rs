//! [`Reloads`]: asks for reloads of the configuration, and knows how the last one went.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{mpsc, oneshot};

use toolwire_config::{Config, Problem, Severity};
use toolwire_execution::audit::unix_millis;

/// Requests that may wait for the reload before them. Further ones wait to be taken note of.
const MAX_WAITING: usize = 16;

/// Why the configuration is loaded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadReason {
    /// A signal asks for it.
    Signal,
    /// The file, or one that it names, has changed.
    FileChanged,
    /// Someone asks for it over the admin API.
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

/// A configuration that was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// How many configurations were loaded so far; the one of the start is the first.
    pub generation: u64,
    /// The paths of the settings that hold now and did not before, or have other values.
    pub changed: Vec<String>,
    /// The paths of the settings that would be others after a restart.
    pub restart_required: Vec<String>,
}

/// Why the configuration was not loaded again. The one before stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadError {
    /// It has mistakes.
    Invalid(Vec<Problem>),
    /// The server stops.
    Stopping,
    /// Exchanges are being recorded, and the recorder does not know other secrets.
    Recording,
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(problems) => {
                let first = problems.iter().find(|problem| problem.severity == Severity::Error);
                let first = first.map(ToString::to_string);
                write!(
                    f,
                    "the configuration was not reloaded: {}",
                    first.as_deref().unwrap_or("it is not valid")
                )
            }
            Self::Stopping => f.write_str("toolwire is shutting down"),
            Self::Recording => {
                f.write_str("the configuration cannot be reloaded while exchanges are recorded")
            }
        }
    }
}

impl Error for ReloadError {}

/// Asks for reloads, and knows how the last one went.
#[derive(Debug, Clone)]
pub struct Reloads {
    asked: mpsc::Sender<Asked>,
    status: Arc<Mutex<ReloadStatus>>,
}

/// How the last reload went.
#[derive(Debug, Clone)]
pub struct ReloadStatus {
    pub generation: u64,
    pub(crate) config: Arc<Config>,
    /// When the configuration was loaded, in milliseconds of Unix time.
    pub loaded_at: u64,
    pub restart_required: Vec<String>,
    /// The problems of later attempts, and the time of the last one.
    pub failed: Option<(u64, Vec<Problem>)>,
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) reason: ReloadReason,
    pub(super) answer: oneshot::Sender<Result<Reloaded, ReloadError>>,
}

impl Reloads {
    /// Loads the configuration again, after reloads that were asked for before.
    ///
    /// # Errors
    /// Nothing has changed.
    pub async fn reload(&self, reason: ReloadReason) -> Result<Reloaded, ReloadError> {
        let (answer, answered) = oneshot::channel();
        // Errors mean that the server has ended.
        self.asked.send(Asked { reason, answer }).await.map_err(|_| ReloadError::Stopping)?;
        answered.await.unwrap_or(Err(ReloadError::Stopping))
    }

    /// How many configurations were loaded so far; the one of the start is the first.
    pub fn generation(&self) -> u64 {
        self.locked().generation
    }

    /// The configuration that was loaded last.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.locked().config)
    }

    pub fn status(&self) -> ReloadStatus {
        self.locked().clone()
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, ReloadStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reloads that were asked for.
#[derive(Debug)]
pub(super) struct Requests(pub(super) mpsc::Receiver<Asked>);

/// What asks for reloads, and what was asked for. The server begins with `config`.
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
