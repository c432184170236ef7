//! [`List`]: several strings as one value in a log line.

use std::{error::Error, fmt};

/// A list of strings, which is written as an array in JSON. tracing does not support lists, so the list is recorded as
/// an error (`value as &dyn Error`) that the formatter recognizes.
#[derive(Debug)]
pub struct List(pub Vec<String>);

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(", "))
    }
}

impl Error for List {}
