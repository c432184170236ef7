//! [`Stores`]: where each kind of state is stored.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    EmbeddedStore, FileMetrics, FileState, HeldBytes, OnFailure, SharedLimits, SharedText, Store,
    StoreAddress, StoreSettings, examine, file_report::FileReport, redis::RedisServer,
    steady_clock::SteadyClock,
};

/// A kind of state, which has its own file, or its own namespace on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Responses that clients can continue.
    Responses,
    /// Turns with both hosted calls and calls that the client runs.
    Deferred,
    /// State that must be sent back to upstreams with later requests, and turns as models wrote them.
    TurnStates,
    Usage,
    /// A copy of the usage, in case its file is damaged.
    UsageCopy,
    Results,
}

impl Space {
    /// All kinds of state, in the order of their files in reports.
    const ALL: [Self; 6] =
        [Self::Responses, Self::Deferred, Self::TurnStates, Self::Usage, Self::UsageCopy, Self::Results];

    /// The name of the file. Newer versions must be able to read it.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Responses => "store.redb",
            Self::Deferred => "deferred.redb",
            Self::TurnStates => "turn_states.redb",
            Self::Usage => "usage.redb",
            Self::UsageCopy => "usage_copy.redb",
            Self::Results => "results.redb",
        }
    }
}

/// Whether a server, or all servers together, can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    There,
    Away,
}

/// Called when the servers become usable or unusable, for metrics.
pub type OnChange = Box<dyn Fn(Reach) + Send + Sync>;

/// Where state that outlives a request is stored.
#[derive(Debug, Clone)]
pub enum Stores {
    /// On this machine: in this folder, or in memory if there is none.
    Embedded(Option<PathBuf>, FileMetrics),
    /// On a server that several instances share.
    Redis(Arc<RedisServer>),
}

/// Returns the state of each file below `folder` in which state is stored. Changes nothing, but reads all files.
pub fn examine_files(folder: &Path) -> Vec<(PathBuf, FileState)> {
    let files = Space::ALL.map(|space| folder.join(space.file()));
    files.into_iter().map(|file| (file.clone(), examine(&file))).collect()
}

impl Stores {
    /// Stores state on this machine, in `folder` or in memory, without metrics.
    pub fn in_folder(folder: Option<PathBuf>) -> Self {
        Self::Embedded(folder, FileMetrics::default())
    }

    /// Stores state on the server or cluster at `address`, which may be unreachable at this point.
    ///
    /// # Errors
    /// The thread cannot be created, or this build does not support servers.
    pub fn on_server(address: StoreAddress, on_change: OnChange) -> io::Result<Self> {
        Ok(Self::Redis(Arc::new(RedisServer::new(address, on_change)?)))
    }

    /// Opens the store for one kind of state, whose values expire after `ttl`. On this machine, the oldest values are
    /// removed if all values together exceed `max_bytes`.
    pub fn open(
        &self,
        space: Space,
        max_bytes: usize,
        ttl: Duration,
        on_failure: OnFailure,
    ) -> Arc<dyn Store> {
        match self {
            Self::Embedded(folder, metrics) => {
                let settings = StoreSettings { folder: folder.clone(), max_bytes, ttl };
                let report = FileReport::new(space.file(), metrics.clone());
                Arc::new(EmbeddedStore::in_file(settings, report, SteadyClock::default(), on_failure))
            }
            Self::Redis(server) => server.store(space, ttl, on_failure),
        }
    }

    /// Returns the memory for the values that wait to be written to the server. Stores on this machine hold their
    /// values themselves ([`Store::held`]).
    pub fn held(&self) -> HeldBytes {
        match self {
            Self::Embedded(..) => HeldBytes::default(),
            Self::Redis(server) => server.held(),
        }
    }

    /// Whether state outlives this process.
    pub fn are_lasting(&self) -> bool {
        !matches!(self, Self::Embedded(None, _))
    }

    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Embedded(..))
    }

    /// The limits that apply to all instances together. `None` if the state is not shared.
    pub fn limits(&self) -> Option<Arc<dyn SharedLimits>> {
        match self {
            Self::Embedded(..) => None,
            Self::Redis(server) => Some(server.limits()),
        }
    }

    /// The shared string called `name`. `None` if the state is not shared.
    pub fn text(&self, name: &str) -> Option<Arc<dyn SharedText>> {
        match self {
            Self::Embedded(..) => None,
            Self::Redis(server) => Some(server.text(name)),
        }
    }
}
