//! [`SharedText`]: a text that all instances read and that they change one after the other.

use std::fmt;

use super::{StoreError, shared_limits::Asked};

/// Keeps a text in one place for all instances. Each change gives it a new revision.
pub trait SharedText: fmt::Debug + Send + Sync {
    /// Returns the current text, or `None` if its revision is still `known`.
    ///
    /// # Errors
    /// If the text cannot be reached.
    fn newest(&self, known: &Revision) -> Asked<Result<Option<Revised>, StoreError>>;

    /// Replaces the text if its revision is still `before`. Returns the new revision, or `None` if another instance
    /// was faster.
    ///
    /// # Errors
    /// If the text cannot be reached. It is then unknown whether the text was replaced.
    fn replace(&self, before: &Revision, text: String) -> Asked<Result<Option<Revision>, StoreError>>;
}

/// The revision of a text. The default means that there is no text yet. Other revisions are random, so that a server
/// that has lost its texts does not repeat a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revision(pub(super) String);

impl Revision {
    /// Creates a revision that differs from all earlier ones.
    pub fn random() -> Self {
        Self(format!("{:032x}", fastrand::u128(..)))
    }
}

/// A text and its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revised {
    pub revision: Revision,
    /// Empty if there is no text.
    pub text: String,
}
