//! [`Stores`]: where each kind of state is kept.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{EmbeddedStore, OnFailure, SharedLimits, SharedText, Store, StoreSettings};

/// A kind of state. It has its own file, or its own name space on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Responses that clients may continue.
    Responses,
    /// Turns that contain calls of hosted tools as well as of the client.
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

    /// The prefix of the keys on a server.
    #[cfg(feature = "redis")]
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Responses => "toolwire:response:",
            Self::Deferred => "toolwire:deferred:",
            Self::TurnStates => "toolwire:turn:",
            Self::Usage | Self::UsageCopy => "toolwire:usage:",
            Self::Results => "toolwire:result:",
        }
    }
}

/// The place where state that outlives a request is kept.
#[derive(Debug, Clone)]
pub enum Stores {
    /// On this machine: in this folder, or in memory only.
    Embedded(Option<PathBuf>),
    /// On a server that several instances share.
    #[cfg(feature = "redis")]
    Redis(Arc<super::redis::RedisServer>),
}

impl Stores {
    /// Opens the store for a kind of state, whose values are kept for `ttl`. On this machine they take at most
    /// `max_bytes`; beyond that, the oldest are removed.
    pub fn open(
        &self,
        space: Space,
        (max_bytes, ttl): (usize, Duration),
        on_failure: OnFailure,
    ) -> Arc<dyn Store> {
        match self {
            Self::Embedded(folder) => {
                let settings = StoreSettings { folder: folder.clone(), max_bytes, ttl };
                Arc::new(EmbeddedStore::in_file(settings, space.file(), on_failure))
            }
            #[cfg(feature = "redis")]
            Self::Redis(server) => Arc::new(server.space(space, ttl, on_failure)),
        }
    }

    /// Whether other instances share the values.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }

    /// The limits that apply to clients at all instances together. `None` if the state is not shared.
    pub fn limits(&self) -> Option<Arc<dyn SharedLimits>> {
        match self {
            Self::Embedded(_) => None,
            #[cfg(feature = "redis")]
            Self::Redis(server) => Some(Arc::clone(server) as _),
        }
    }

    /// The text `name` that all instances share. `None` if the state is not shared.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables, reason = "only a server has names"))]
    pub fn text(&self, name: &str) -> Option<Arc<dyn SharedText>> {
        match self {
            Self::Embedded(_) => None,
            #[cfg(feature = "redis")]
            Self::Redis(server) => Some(Arc::new(super::redis::Text::new(Arc::clone(server), name))),
        }
    }
}
