//! [`Quote`]: how the text before an opener shows that what follows is quoted.
//!
//! Quotation marks quote what is directly between them. A block quote, an HTML comment, an indented code block and a
//! backslash quote by their place (docs/protocols/text-formats.md#quoted-text).

use super::{Detector, text::head};
use crate::rules::QuotedCalls;

/// How many quoted calls there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotedCount {
    /// Those that stayed text.
    pub as_text: u64,
    /// Those that repeat a text, but stand alone and are therefore calls.
    pub as_calls: u64,
    /// Those of `as_text` that repeat a text and have not been reported by a warning.
    pub(super) repetitions: u64,
}

/// How an opener is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    /// This mark precedes it. The calls are quoted if the matching mark follows them.
    Marks(char),
    /// Its place quotes it.
    Place,
}

impl Quote {
    /// Whether what follows the calls decides.
    pub(super) fn has_marks(self) -> bool {
        matches!(self, Self::Marks(_))
    }

    pub(super) fn has_backtick(self) -> bool {
        self == Self::Marks('`')
    }

    /// Whether `mark` closes the quotation.
    pub(super) fn ends_with(self, mark: char) -> bool {
        matches!(self, Self::Marks(open) if closers(open).contains(&mark))
    }
}

/// Returns the marks that close a quotation that `open` opens.
fn closers(open: char) -> &'static [char] {
    match open {
        '`' => &['`'],
        '"' => &['"'],
        '\'' => &['\''],
        '“' | '”' => &['”'],
        '„' => &['“', '”'],
        '‘' => &['’'],
        '‚' => &['‘', '’'],
        '«' => &['»'],
        '»' => &['«'],
        '‹' => &['›'],
        '›' => &['‹'],
        '「' => &['」'],
        '『' => &['』'],
        '＂' => &['＂'],
        _ => &[],
    }
}

/// Whether `mark` may stand between calls and the mark that closes their quotation.
pub(super) fn is_punctuation(mark: char) -> bool {
    matches!(mark, '.' | ',' | ';' | ':' | '!' | '?')
}

/// In what a line is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    Nothing,
    /// A line of a block quote.
    Line,
    /// An HTML comment. The flag is true after two hyphens.
    Comment(bool),
}

impl Detector {
    /// Returns how the text sent so far quotes an opener that follows it.
    pub(super) fn quote(&self, starts_line: bool) -> Quote {
        let last = self.prose.last("");
        if self.search.quoted_calls != QuotedCalls::Call {
            let place =
                self.prose.is_quoting() || last == '\\' || (starts_line && self.prose.is_indented_code());
            if place {
                return Quote::Place;
            }
            if !closers(last).is_empty() {
                return Quote::Marks(last);
            }
        }
        if last == '`' { Quote::Marks(last) } else { Quote::None }
    }

    /// Whether the byte at `at` begins or ends a quotation by its place.
    pub(super) fn turns_quoting(&self, text: &str, at: usize, byte: u8) -> bool {
        match byte {
            b'>' => self.prose.ends_comment(head(text, at)) || self.begins_block_quote(head(text, at)),
            b'\n' | b'-' => self.prose.is_quoting(),
            _ => false,
        }
    }

    fn begins_block_quote(&self, before: &str) -> bool {
        self.search.quoted_calls != QuotedCalls::Call && self.prose.starts_line(before)
    }
}
