//! [`Invalid`]: the error of everything that reads a text which a person wrote.

/// Why a text or a file cannot be used, as a sentence that contains the location of the mistake.
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
