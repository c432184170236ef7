//! (to be written)

/// (to be written)
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// The name.
    pub name: &'static str,
}
