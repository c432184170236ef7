//! [`Stores`]: where each kind of state is kept.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use super::{
    EmbeddedStore, OnFailure, SharedLimits, SharedText, Store, StoreAddress, StoreSettings,
    redis::RedisServer,
};

/// A kind of state. Each kind has its own file, or its own namespace on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Responses that clients may continue.
    Responses,
    /// Turns that contain both hosted calls and calls for the client.
    Deferred,
    /// State that upstreams need back with their turns.
    TurnStates,
    /// Usage of named clients.
    Usage,
    /// A copy of the usage, in case the other file is damaged.
    UsageCopy,
    /// Results of hosted tools.
    Results,
}

impl Space {
    /// The name of the file. The formats of these files stay readable across versions.
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

/// Whether a server, or every server, can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The server answers.
    There,
    /// The server does not answer.
    Away,
}

/// Called when the servers can be used again or no longer can, for metrics.
pub type OnChange = Box<dyn Fn(Reach) + Send + Sync>;

/// The place where state that outlives a request is kept.
#[derive(Debug, Clone)]
pub enum Stores {
    /// On this machine: in this folder, or in memory only.
    Embedded(Option<PathBuf>),
    /// On a server that several instances share.
    Redis(Arc<RedisServer>),
}

impl Stores {
    /// Keeps state on the server or the cluster at `address`, which need not answer yet.
    ///
    /// # Errors
    /// If the thread cannot be created, or this build cannot use a server.
    pub fn on_server(address: StoreAddress, on_change: OnChange) -> io::Result<Self> {
        Ok(Self::Redis(Arc::new(RedisServer::new(address, on_change)?)))
    }

    /// Opens the store for one kind of state, whose values are kept for `ttl`. On this machine, they take at most
    /// `max_bytes`: if there are more, the oldest are removed.
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

    /// Whether other instances share the values.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }

    /// The limits that apply to clients across all instances. `None` if the state is not shared.
    pub fn limits(&self) -> Option<Arc<dyn SharedLimits>> {
        match self {
            Self::Embedded(_) => None,
            Self::Redis(server) => Some(server.limits()),
        }
    }

    /// The text `name` that all instances share. `None` if there is only this instance.
    pub fn text(&self, name: &str) -> Option<Arc<dyn SharedText>> {
        match self {
            Self::Embedded(_) => None,
            Self::Redis(server) => Some(server.text(name)),
        }
    }
}
