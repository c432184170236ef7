//! [`SharedText`]: a text that all instances read, and change one after the other.

use std::fmt;

use super::{StoreError, shared_limits::Asked};

/// Keeps a text at one place for all instances. Each change gives it another revision.
pub trait SharedText: fmt::Debug + Send + Sync {
    /// The text as it is now; `None`: its revision is still `known`.
    ///
    /// # Errors
    /// The place cannot be reached.
    fn newest(&self, known: &Revision) -> Asked<Result<Option<Revised>, StoreError>>;

    /// Replaces the text if its revision is still `before`. Returns the new one; `None`: another instance was faster.
    ///
    /// # Errors
    /// The place cannot be reached. Whether the text was replaced is not known.
    fn replace(&self, before: &Revision, text: String) -> Asked<Result<Option<Revision>, StoreError>>;
}

/// Which text it is. The default: there is none yet. The others are random, so that a place which has lost its texts repeats none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revision(pub(super) String);

impl Revision {
    /// Another one than all before.
    pub fn random() -> Self {
        Self(format!("{:032x}", fastrand::u128(..)))
    }
}

/// A text and its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revised {
    pub revision: Revision,
    /// Empty if there is none.
    pub text: String,
}
