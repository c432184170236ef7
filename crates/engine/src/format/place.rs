//! [`Place`]: where the opener of a format is recognised.

/// Where an opener is recognised, from the least to the most restrictive place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Anywhere in the text.
    #[default]
    Anywhere,
    /// At the start of a line, ignoring blanks.
    LineStart,
    /// Wherever a bracket may start a list of calls. For formats without an opener.
    Bracket,
    /// At the start of the message, ignoring blanks and reasoning.
    MessageStart,
}
