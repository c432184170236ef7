//! [`Stores`]: where each kind of state is kept.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{EmbeddedStore, OnFailure, SharedLimits, SharedText, Store, StoreSettings};

/// A kind of state. It has a file of its own, or a name space on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Responses that clients may continue.
    Responses,
    /// Turns with calls of hosted tools and of the client.
    Deferred,
    /// What upstreams want back of their turns.
    TurnStates,
    /// What clients with names have used.
    Usage,
    /// The same once more, in case that the other file is damaged.
    UsageCopy,
    /// Results of hosted tools.
    Results,
}

impl Space {
    /// The name of its file. The formats of these files hold across versions.
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

    /// How its keys begin on a server.
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

/// Where state is kept that outlives a request.
#[derive(Debug, Clone)]
pub enum Stores {
    /// On this machine: in this folder, or in memory only.
    Embedded(Option<PathBuf>),
    /// On a server that several instances share.
    #[cfg(feature = "redis")]
    Redis(Arc<super::redis::RedisServer>),
}

impl Stores {
    /// The store of a kind of state, whose values are kept for `ttl`. On this machine they take at most `max_bytes`; beyond, the oldest
    /// are removed.
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

    /// Whether other instances have the same values.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }

    /// The limits that clients have at all instances together. `None`: there is only this one.
    pub fn limits(&self) -> Option<Arc<dyn SharedLimits>> {
        match self {
            Self::Embedded(_) => None,
            #[cfg(feature = "redis")]
            Self::Redis(server) => Some(Arc::clone(server) as _),
        }
    }

    /// The text `name` that all instances share. `None`: there is only this one.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables, reason = "only a server has names"))]
    pub fn text(&self, name: &str) -> Option<Arc<dyn SharedText>> {
        match self {
            Self::Embedded(_) => None,
            #[cfg(feature = "redis")]
            Self::Redis(server) => Some(Arc::new(super::redis::Text::new(Arc::clone(server), name))),
        }
    }
}
