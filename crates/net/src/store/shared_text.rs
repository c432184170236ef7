//! [`SharedText`]: a string that all instances read, and change one at a time.

use std::fmt;

use super::{StoreError, shared_limits::Asked};

/// A string that instances share. Each change gives it a new revision.
pub trait SharedText: fmt::Debug + Send + Sync {
    /// Returns the current string, or `None` if its revision is still `known`.
    ///
    /// # Errors
    /// The string cannot be reached.
    fn newest(&self, known: &Revision) -> Asked<Result<Option<Revised>, StoreError>>;

    /// Replaces the string if its revision is still `before`. Returns the new revision, or `None` if another instance
    /// has replaced it first.
    ///
    /// # Errors
    /// The string cannot be reached, so it is unknown whether it was replaced.
    fn replace(&self, before: &Revision, text: String) -> Asked<Result<Option<Revision>, StoreError>>;
}

/// The revision of a string. The default means that there is no string yet. Other revisions are random, so that they do
/// not repeat after a server has lost its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revision(pub(super) String);

impl Revision {
    /// Creates a revision that has not been used before.
    pub fn random() -> Self {
        Self(format!("{:032x}", fastrand::u128(..)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revised {
    pub revision: Revision,
    /// Empty if there is no string.
    pub text: String,
}
