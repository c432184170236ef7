//! [`BrokenCall`]: reads the rest of a call whose arguments broke after the call had begun.
//!
//! The rest is neither text nor another call. It ends at a marker that ends the call or begins the next one, or where
//! the brackets of the arguments are balanced again. In JSON, the rest is passed on as it was written. What the
//! client receives is then exactly what the model wrote, and it is not JSON, because the first byte of the rest cannot
//! follow what precedes it. In other notations, what was sent is an open JSON object, and the rest is dropped
//! (docs/protocols/text-formats.md#failed-candidates).

use super::{
    pattern::Fit,
    text::{head, is_blank, tail},
    walk::{Out, Piece},
};

/// What is known about the rest of a broken call.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Text that has been read, but not sent.
    pub(super) held: String,
    /// The brackets around the arguments. `None` if only a marker can end the call.
    pub(super) brackets: Option<Brackets>,
    /// Whether the arguments are sent as written, so that the rest can be sent as well.
    pub(super) as_written: bool,
}

/// Where a walk continues after a broken call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resumes {
    /// The walk has ended.
    Never,
    /// Right after the call, where the closer of the call may follow.
    BeforeCloser,
    /// Right after the call, where other calls may follow.
    BetweenCalls,
}

/// What ended the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// A marker, directly where the call broke. If only brackets are missing, the call is complete.
    MarkerAtOnce,
    Marker,
    /// The closing bracket of the arguments, or the first byte after them.
    Value,
    /// The next call of the same list, which is not nested in this one.
    NextCall,
    /// The limit.
    Limit,
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skipped {
    /// This many bytes were read, and the rest goes on.
    Took(usize),
    Hold,
    /// The rest ended after this many bytes.
    Ended(usize, EndedBy),
}

/// Reads the rest of a broken call.
#[derive(Debug)]
pub(super) struct BrokenCall {
    rest: Rest,
    fresh: bool,
    /// How many more bytes may be read.
    room: usize,
}

/// How much of the text behind the value of a broken call may belong to the call, in bytes. More of it is hardly junk.
const MAX_BEHIND: usize = 1024;

impl BrokenCall {
    /// Reads what follows the value of a broken call, up to a marker.
    pub(super) fn behind_value(rest: &Rest) -> Self {
        let rest = Rest { as_written: rest.as_written, ..Rest::default() };
        Self { rest, fresh: false, room: MAX_BEHIND }
    }

    pub(super) fn new(rest: Rest, most: usize) -> Self {
        Self { rest, fresh: true, room: most }
    }

    /// Whether none of the rest has been read.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Continues with `text`. `marker` matches the text at an offset against the markers that end the call.
    pub(super) fn step(&mut self, text: &str, marker: impl Fn(&str) -> Fit, out: &mut Out<'_>) -> Skipped {
        let skipped = self.find(text, marker);
        let taken = match skipped {
            Skipped::Hold | Skipped::Ended(_, EndedBy::MarkerAtOnce) => return skipped,
            Skipped::Took(taken) | Skipped::Ended(taken, _) => taken,
        };
        self.fresh = false;
        self.room = self.room.saturating_sub(taken);
        if self.rest.as_written {
            let held = std::mem::take(&mut self.rest.held);
            [held.as_str(), head(text, taken)]
                .into_iter()
                .filter(|part| !part.is_empty())
                .for_each(|part| out(Piece::Arguments(part)));
        }
        skipped
    }

    /// Ends the rest right here, without having found its end.
    pub(super) fn abandon(&mut self, out: &mut Out<'_>) {
        if self.rest.as_written && !self.rest.held.is_empty() {
            out(Piece::Arguments(&std::mem::take(&mut self.rest.held)));
        }
    }

    fn find(&mut self, text: &str, marker: impl Fn(&str) -> Fit) -> Skipped {
        let more = |at: usize| if at == 0 { Skipped::Hold } else { Skipped::Took(at) };
        for (at, character) in text.char_indices() {
            let rest = tail(text, at);
            match marker(rest) {
                Fit::Whole(_) if self.fresh && at == 0 => return Skipped::Ended(0, EndedBy::MarkerAtOnce),
                Fit::Whole(_) => return Skipped::Ended(at, EndedBy::Marker),
                Fit::Begins => return more(at),
                Fit::No if at >= self.room => return Skipped::Ended(at, EndedBy::Limit),
                Fit::No => {}
            }
            let Some(brackets) = &mut self.rest.brackets else { continue };
            match if brackets.misplaces(character) { begins_call(rest) } else { Fit::No } {
                Fit::Whole(_) => return Skipped::Ended(at, EndedBy::NextCall),
                Fit::Begins => return more(at),
                Fit::No => {}
            }
            match brackets.read(character) {
                Place::Inside => {}
                Place::Before => return Skipped::Ended(at, EndedBy::Value),
                Place::Last => return Skipped::Ended(at + character.len_utf8(), EndedBy::Value),
            }
        }
        more(text.len())
    }
}

/// The open brackets and quotes of a value that broke, which are followed without knowing what is between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Brackets {
    open: Vec<u8>,
    quote: Option<char>,
    escaped: bool,
    /// The last character outside of strings that is not blank.
    last: char,
    /// Whether strings are in quotes.
    quotes: bool,
    /// Whether the value is in a JSON object that is a call, so that another one may follow.
    in_call: bool,
    /// Whether that object is in a list.
    in_list: bool,
}

/// Where a character is.
enum Place {
    Inside,
    /// After the value.
    Before,
    /// At the last byte of the value.
    Last,
}

/// How many brackets are followed. If there are more, only a marker ends the call.
const MAX_OPEN: usize = 4096;

impl Brackets {
    pub(super) fn new(open: Vec<u8>, quote: Option<char>) -> Self {
        Self { open, quote, quotes: true, ..Self::default() }
    }

    /// Returns the brackets of a notation in which strings have no quotes.
    pub(super) fn without_quotes(self) -> Self {
        Self { quotes: false, quote: None, ..self }
    }

    /// Returns the brackets of the arguments of a JSON call, which may be in a list.
    pub(super) fn in_call(self, in_list: bool) -> Self {
        Self { in_call: true, in_list, ..self }
    }

    /// Whether a bracket cannot be here, so that it may begin the next call instead. A string has no raw quotes, and
    /// an object no members without a key.
    fn misplaces(&self, character: char) -> bool {
        let member = self.open.last() == Some(&b'{') && self.last != ':';
        self.in_call && character == '{' && (self.quote.is_some() || member)
    }

    fn read(&mut self, character: char) -> Place {
        if std::mem::take(&mut self.escaped) {
            return Place::Inside;
        }
        if let Some(quote) = self.quote {
            match character {
                '\\' => self.escaped = true,
                _ if character == quote => (self.quote, self.last) = (None, character),
                _ => {}
            }
            return Place::Inside;
        }
        let place = match character {
            '"' if self.quotes => self.begin_string(character),
            // An apostrophe inside a word is not a quote.
            '\'' if self.quotes && !self.last.is_alphanumeric() => self.begin_string(character),
            '{' | '[' | '(' if self.open.len() < MAX_OPEN => {
                self.open.push(u8::try_from(character).unwrap_or_default());
                Place::Inside
            }
            '}' => self.close(b'{'),
            ']' => self.close(b'['),
            ')' => self.close(b'('),
            ',' if self.open.is_empty() => Place::Before,
            _ => Place::Inside,
        };
        if !character.is_ascii_whitespace() {
            self.last = character;
        }
        place
    }

    fn begin_string(&mut self, quote: char) -> Place {
        self.quote = Some(quote);
        Place::Inside
    }

    /// Closes the innermost bracket of this kind, and all brackets inside it.
    fn close(&mut self, open: u8) -> Place {
        match self.open.iter().rposition(|other| *other == open) {
            Some(0) => {
                self.open.clear();
                Place::Last
            }
            Some(place) => {
                self.open.truncate(place);
                Place::Inside
            }
            None if self.open.is_empty() || (self.in_list && open == b'[') => Place::Before,
            None => Place::Inside,
        }
    }
}

/// How much white space is accepted between the brace and the first key of a call.
const MAX_BLANK: usize = 64;

/// Whether `text`, which starts with a brace, begins a call in a JSON list.
fn begins_call(text: &str) -> Fit {
    let inner = tail(text, 1);
    let blank = inner.bytes().take_while(|byte| is_blank(*byte)).count();
    let rest = tail(inner, blank);
    if blank > MAX_BLANK {
        return Fit::No;
    }
    let mut best = Fit::No;
    for key in ["\"name\"", "\"tool_name\"", "\"tool_call_id\"", "\"id\"", "\"type\"", "\"function\""] {
        match rest.strip_prefix(key).map(|rest| rest.trim_ascii_start()) {
            Some(rest) if rest.starts_with(':') => return Fit::Whole(1),
            Some("") => best = Fit::Begins,
            None if key.starts_with(rest) => best = Fit::Begins,
            _ => {}
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{head, tail};

    /// Returns what belongs to the broken value at the start of `text`, and what ended it.
    fn rest(brackets: Brackets, text: &str) -> (String, Option<EndedBy>) {
        let mut sent = String::new();
        let rest = Rest { held: String::new(), brackets: Some(brackets), as_written: true };
        let mut call = BrokenCall::new(rest, 1000);
        let mut at = 0;
        for end in 1..=text.len() {
            let skipped = call.step(
                head(tail(text, at), end - at),
                |text| super::super::pattern::fit("</c>", text),
                &mut |piece| {
                    if let Piece::Arguments(text) = piece {
                        sent.push_str(text);
                    }
                },
            );
            match skipped {
                Skipped::Took(len) => at += len,
                Skipped::Hold => {}
                Skipped::Ended(_, by) => return (sent, Some(by)),
            }
        }
        (sent, None)
    }

    #[test]
    fn rest_ends_at_marker_bracket_or_next_call() {
        let object = || Brackets::new(b"{".to_vec(), None).in_call(true);
        for (text, wanted, by) in [
            (":30}}, {\"name\":", ":30}", Some(EndedBy::Value)),
            ("oops [1, {\"a\": \"}\"}]} x", "oops [1, {\"a\": \"}\"}]}", Some(EndedBy::Value)),
            ("oops [1} x", "oops [1}", Some(EndedBy::Value)),
            ("x</c>", "x", Some(EndedBy::Marker)),
            ("\"</b></c>", "\"</b>", Some(EndedBy::Marker)),
            ("</c>", "", Some(EndedBy::MarkerAtOnce)),
            ("b\": 1}}, {\"name\": \"g\"", "b\": 1}}, ", Some(EndedBy::NextCall)),
            ("{\"name\": \"g\"", "", Some(EndedBy::NextCall)),
            ("don't}", "don't}", Some(EndedBy::Value)),
            ("x]", "x", Some(EndedBy::Value)),
            ("x", "x", None),
        ] {
            assert_eq!(rest(object(), text), (wanted.to_owned(), by), "{text}");
        }
        assert_eq!(rest(Brackets::new(Vec::new(), None), "oops, 1"), ("oops".into(), Some(EndedBy::Value)));
    }
}
