//! [`Place`]: where the opener of a format counts.

/// Where an opener counts. Ordered from the least to the most restrictive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Anywhere in the text.
    #[default]
    Anywhere,
    /// At the beginning of a line, ignoring blanks.
    LineStart,
    /// Wherever a bracket may begin a list of calls, since the format has no opener.
    Bracket,
    /// At the beginning of the message, ignoring blanks and reasoning.
    MessageStart,
}
