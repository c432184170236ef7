//! [`Invalid`]: the error for invalid input written by a person.

/// A sentence that says why an argument or a file is invalid, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

impl From<String> for Invalid {
    fn from(sentence: String) -> Self {
        Self(sentence)
    }
}

impl From<&str> for Invalid {
    fn from(sentence: &str) -> Self {
        Self(sentence.to_owned())
    }
}
