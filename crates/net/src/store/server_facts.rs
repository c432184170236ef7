//! [`ServerFacts`]: the settings of a Redis or Valkey server that decide what it retains.

/// What a server says about itself. `None` if it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// What is removed when the memory is full: `noeviction` removes nothing.
    pub eviction_policy: Option<String>,
    /// The limit of the memory in bytes. 0 is no limit.
    pub max_memory: Option<u64>,
    /// Whether each write is appended to a file.
    pub appends: Option<bool>,
}
