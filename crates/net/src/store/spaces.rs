//! [`Stores`]: where each kind of state is stored.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use super::{
    EmbeddedStore, OnFailure, SharedLimits, SharedText, Store, StoreAddress, StoreSettings,
    redis::RedisServer,
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
    Embedded(Option<PathBuf>),
    /// On a server that several instances share.
    Redis(Arc<RedisServer>),
}

impl Stores {
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
            Self::Embedded(folder) => {
                let settings = StoreSettings { folder: folder.clone(), max_bytes, ttl };
                Arc::new(EmbeddedStore::in_file(settings, space.file(), on_failure))
            }
            Self::Redis(server) => server.store(space, ttl, on_failure),
        }
    }

    /// Whether state outlives this process.
    pub fn are_lasting(&self) -> bool {
        !matches!(self, Self::Embedded(None))
    }

    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }

    /// The limits that apply to all instances together. `None` if the state is not shared.
    pub fn limits(&self) -> Option<Arc<dyn SharedLimits>> {
        match self {
            Self::Embedded(_) => None,
            Self::Redis(server) => Some(server.limits()),
        }
    }

    /// The shared string called `name`. `None` if the state is not shared.
    pub fn text(&self, name: &str) -> Option<Arc<dyn SharedText>> {
        match self {
            Self::Embedded(_) => None,
            Self::Redis(server) => Some(server.text(name)),
        }
    }
}
