//! (to be written)

/// (to be written)
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// The name.
    pub name: &'static str,
}

/// (to be written)
pub const ALL: &[&Format] = &[
    &Format { name: "pre" },
    &Format { name: "fenced" },
    &Format { name: "bare" },
    &Format { name: "hermes" },
    &Format { name: "think" },
];

/// (to be written)
pub fn by_name(name: &str) -> Option<&'static Format> {
    ALL.iter().copied().find(|format| format.name == name)
}
