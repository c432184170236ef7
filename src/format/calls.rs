//! The tables of formats whose calls are told by markers: sections, openers, and what a call's body is made of.

use super::{elements::Elements, params::Params};

/// Where an opener counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Anywhere in the text.
    #[default]
    Anywhere,
    /// At the beginning of a line, blanks aside.
    LineStart,
    /// The format has no opener: wherever a bracket may begin a list of calls.
    Bracket,
    /// At the beginning of the message, blanks and reasoning aside.
    MessageStart,
}

/// Calls told by markers.
#[derive(Debug)]
pub struct Calls {
    /// Openers and closers of the section around calls. An empty closer: the section has none.
    pub sections: &'static [(&'static str, &'static str)],
    /// What a call begins with; an empty one: its first character, in a section.
    pub open: &'static [&'static str],
    /// A call may stand outside a section.
    pub naked: bool,
    /// What may stand between calls and means nothing.
    pub noise: &'static [&'static str],
    /// Where openers count.
    pub place: Place,
    /// What a call is made of, from behind its opener.
    pub body: CallBody,
}

/// What a call is made of, from behind its opener.
#[derive(Debug)]
pub enum CallBody {
    /// A header with the name, then the arguments as JSON.
    Header(Header),
    /// Calls as Python writes them.
    Python(Python),
    /// A name, then arguments in braces with bare keys; strings stand between two of `quote`.
    Dsl {
        /// What strings are put between.
        quote: &'static str,
    },
    /// A name on its line, then `Action Input:` and the arguments, then perhaps an invented result.
    React,
    /// A tag for every argument.
    Params(Params),
    /// An element for every argument.
    Elements(Elements),
}

/// Calls as Python writes them, alone or in a list.
#[derive(Debug, PartialEq, Eq)]
pub struct Python {
    /// A call may be the argument of `print`.
    pub prints: bool,
    /// What stands behind the tool's name, as a method of it; may be empty.
    pub method: &'static str,
}

impl Calls {
    /// A call that stands alone counts only if its name is declared, since text of other kinds has its opener.
    pub(crate) fn naked_must_be_declared(&self) -> bool {
        match &self.body {
            CallBody::Params(params) => params.common,
            CallBody::Elements(elements) => elements.sign.is_empty(),
            CallBody::Header(_) | CallBody::Python(_) | CallBody::Dsl { .. } | CallBody::React => false,
        }
    }
}

/// A call whose name stands before its arguments.
#[derive(Debug)]
pub struct Header {
    /// What ends the header.
    pub end: HeaderEnd,
    /// Id and name of a header, blanks around it trimmed; `None` if it is none of this format. The id is empty where
    /// none is written.
    pub read: fn(&str) -> Option<(&str, &str)>,
    /// Characters besides those of names and blanks that a header may have.
    pub legal: &'static str,
    /// Literals that may stand before the arguments.
    pub before: &'static [&'static str],
    /// Literals that may stand behind the arguments.
    pub after: &'static [&'static str],
    /// What ends the call; it may be missing.
    pub close: &'static [&'static str],
}

/// What ends a header.
#[derive(Debug)]
pub enum HeaderEnd {
    /// One of these markers.
    Markers(&'static [&'static str]),
    /// One of these markers, or the arguments' brace.
    MarkersOrBrace(&'static [&'static str]),
    /// One of these markers, and a brace must follow: other formats have the same header before another body.
    MarkersThenBrace(&'static [&'static str]),
}
