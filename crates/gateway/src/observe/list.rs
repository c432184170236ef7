//! [`List`]: several texts as one value of a log line.

use std::{error::Error, fmt};

/// A list of texts, which becomes an array in JSON. tracing does not support lists, so the list is recorded as an error
/// (`value as &dyn Error`), which the formatter recognises.
#[derive(Debug)]
pub struct List(pub Vec<String>);

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(", "))
    }
}

impl Error for List {}
