//! [`Extent`]: finds where a call's arguments, which are a JSON object, end, and repairs them if necessary.
//!
//! Valid arguments are only scanned, and pass unchanged. At the first byte that is not valid JSON,
//! [`JsonBody`], the lexer for calls written as text, takes over the scanner's state and repairs the
//! remaining bytes. For this to work, the scanner holds back an unfinished escape, and a comma until the
//! token after it has arrived, because these may still have to change. Everything that has been passed on is
//! therefore a prefix of valid JSON.
//!
//! In addition, a doubly encoded object is decoded, the word `null` stands for no arguments, and closers of a
//! model's own format after the object are dropped. Arguments that cannot be repaired pass unchanged.

use std::borrow::Cow;

use crate::{
    detect::{Fed, JsonBody},
    wire::json::{Json, Progress, Scanner, Unsettled},
};

#[derive(Debug)]
pub(super) struct Extent {
    scanner: Scanner,
    stage: Stage,
    begun: bool,
    max_depth: usize,
    /// Whether invalid arguments are repaired, and the maximum bytes that may be held for this.
    repair: Option<usize>,
    held: String,
    /// Whether the held text of a string ends with a backslash that escapes the next character.
    is_escaped: bool,
    /// The lexer that repairs the remaining bytes.
    body: Option<Box<JsonBody>>,
    /// Number of bytes at the end of the passed-on text that belong to a second object.
    second: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Only white space so far.
    Blank,
    Inside,
    /// Inside the object, after the first invalid byte.
    Mended,
    /// In a string that may be the doubly encoded object. The complete string is held.
    Quoted,
    /// The start of the word `null` or of a fence, which is held.
    Word,
    Whole,
    /// Not a single object.
    Broken,
}

impl Extent {
    /// Creates an extent without repair. Arguments nested deeper than `max_depth` are invalid.
    pub(super) fn new(max_depth: usize) -> Self {
        Self {
            scanner: Scanner::new(max_depth),
            stage: Stage::Blank,
            begun: false,
            max_depth,
            repair: None,
            held: String::new(),
            is_escaped: false,
            body: None,
            second: 0,
        }
    }

    /// Enables repair, for which up to `max_held` bytes may be held, or disables it with `None`.
    pub(super) fn mending(self, max_held: Option<usize>) -> Self {
        Self { repair: max_held, ..self }
    }

    /// Handles a piece and returns the text to pass on in its place. This is nearly always the piece itself.
    /// The result is borrowed only in that case.
    pub(super) fn push<'p>(&mut self, piece: &'p str) -> Cow<'p, str> {
        match self.take(piece) {
            Cow::Borrowed(part) if part.len() != piece.len() => Cow::Owned(part.to_owned()),
            passed => passed,
        }
    }

    fn take<'p>(&mut self, piece: &'p str) -> Cow<'p, str> {
        self.begun |= !piece.is_empty();
        match self.stage {
            _ if piece.is_empty() => Cow::Borrowed(piece),
            Stage::Inside => self.scan(piece, 0),
            Stage::Blank => self.begin(piece),
            Stage::Whole => self.behind(piece),
            Stage::Broken => {
                self.second += if self.second > 0 { piece.len() } else { 0 };
                Cow::Borrowed(piece)
            }
            Stage::Mended => Cow::Owned(self.mend(piece)),
            Stage::Quoted => Cow::Owned(self.quoted(piece)),
            Stage::Word => Cow::Owned(self.word(piece)),
        }
    }

    /// Ends the arguments and returns the remaining text to pass on. `cut` is set if the response was cut
    /// off.
    pub(super) fn finish(&mut self, cut: bool) -> Cow<'static, str> {
        let held = std::mem::take(&mut self.held);
        match self.stage {
            Stage::Blank if !cut => {
                self.stage = Stage::Whole;
                Cow::Borrowed("{}")
            }
            Stage::Word if !cut && NULLS.contains(&held.trim_end_matches(BLANKS)) => {
                self.stage = Stage::Whole;
                Cow::Borrowed("{}")
            }
            Stage::Word => {
                self.stage = Stage::Broken;
                Cow::Owned(held)
            }
            // An incomplete closer is not part of the arguments.
            Stage::Whole => Cow::Borrowed(""),
            Stage::Mended => {
                // The arguments were already invalid before this point, so it is not known whether they were
                // cut off.
                self.stage = if cut { Stage::Mended } else { Stage::Broken };
                Cow::Owned(self.body.as_mut().map(|body| body.take_held()).unwrap_or_default())
            }
            Stage::Blank | Stage::Inside | Stage::Quoted | Stage::Broken => Cow::Owned(held),
        }
    }

    /// Handles the first bytes that are not white space.
    fn begin<'p>(&mut self, piece: &'p str) -> Cow<'p, str> {
        let inner = piece.trim_start_matches(BLANKS);
        let blank = piece.len() - inner.len();
        self.stage = match inner.bytes().next() {
            None => return Cow::Borrowed(piece),
            Some(b'{') => {
                self.stage = Stage::Inside;
                return self.scan(piece, blank);
            }
            Some(b'"') if self.repair.is_some() => Stage::Quoted,
            Some(b'n' | b'N' | b'`') if self.repair.is_some() => Stage::Word,
            Some(_) => Stage::Broken,
        };
        let inner = match self.stage {
            Stage::Quoted => self.quoted(inner),
            Stage::Word => self.word(inner),
            _ => return Cow::Borrowed(piece),
        };
        joined(Cow::Borrowed(piece.get(..blank).unwrap_or_default()), Cow::Owned(inner))
    }

    /// Scans the object from `at` on.
    fn scan<'p>(&mut self, piece: &'p str, at: usize) -> Cow<'p, str> {
        let rest = piece.get(at..).unwrap_or_default();
        let (taken, progress) = self.scanner.push(rest.as_bytes());
        let unsettled = if self.repair.is_some() { self.scanner.unsettled() } else { Unsettled::Nothing };
        if progress == Progress::More && self.held.is_empty() && unsettled == Unsettled::Nothing {
            return Cow::Borrowed(piece);
        }
        let (scanned, rest) = piece.split_at_checked(at + taken).unwrap_or((piece, ""));
        let text = match std::mem::take(&mut self.held) {
            held if held.is_empty() => Cow::Borrowed(scanned),
            held => Cow::Owned(held + scanned),
        };
        match progress {
            Progress::More => self.hold(text, unsettled),
            Progress::End => {
                self.stage = Stage::Whole;
                joined(text, self.behind(rest))
            }
            Progress::Invalid => {
                let sent = self.hold(text, unsettled);
                self.enter();
                let mended = match self.stage {
                    Stage::Mended => Cow::Owned(self.mend(rest)),
                    _ => joined(Cow::Owned(std::mem::take(&mut self.held)), Cow::Borrowed(rest)),
                };
                joined(sent, mended)
            }
        }
    }

    /// Holds the end of `text` that may still have to change. Returns the part before it.
    fn hold<'p>(&mut self, text: Cow<'p, str>, unsettled: Unsettled) -> Cow<'p, str> {
        let length = match unsettled {
            Unsettled::Nothing => 0,
            Unsettled::Escape(length) => length,
            Unsettled::Comma => {
                let comma = text.trim_end_matches(BLANKS).strip_suffix(',').map_or(text.len(), str::len);
                Some(text.len() - comma).filter(|length| *length <= MAX_BLANK).unwrap_or(0)
            }
        };
        let Some(at) = text.len().checked_sub(length).filter(|at| *at < text.len()) else { return text };
        self.held.push_str(text.get(at..).unwrap_or_default());
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.get(..at).unwrap_or_default()),
            Cow::Owned(mut text) => {
                text.truncate(at);
                Cow::Owned(text)
            }
        }
    }

    /// Starts the repair at the next byte.
    fn enter(&mut self) {
        let body = self.repair.and_then(|_| JsonBody::resume(&self.scanner, &self.held, self.max_depth));
        self.stage = if body.is_some() { Stage::Mended } else { Stage::Broken };
        if body.is_some() {
            self.held.clear();
        }
        self.body = body.map(Box::new);
    }

    fn mend(&mut self, piece: &str) -> String {
        let mut sent = String::new();
        let Some(body) = &mut self.body else { return piece.to_owned() };
        match body.feed(piece, &mut |text: &str| sent.push_str(text)) {
            Fed::More => {}
            Fed::Done(at) => {
                self.stage = Stage::Whole;
                let behind = self.behind(piece.get(at..).unwrap_or_default());
                sent.push_str(&behind);
            }
            Fed::Fault(at) => {
                sent.push_str(&body.take_held());
                sent.push_str(piece.get(at..).unwrap_or_default());
                self.stage = Stage::Broken;
            }
        }
        sent
    }

    /// Handles a piece of a string that stands for the object.
    fn quoted(&mut self, piece: &str) -> String {
        let before = self.held.len();
        self.held.push_str(piece);
        // Search only the new bytes.
        let mut end = None;
        for (at, byte) in self.held.bytes().enumerate().skip(before.max(1)) {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let Some(end) = end else {
            if self.repair.is_none_or(|most| self.held.len() > most) {
                self.stage = Stage::Broken;
                return std::mem::take(&mut self.held);
            }
            return String::new();
        };
        let held = std::mem::take(&mut self.held);
        let decoded = Json::decoded(held.get(1..end).unwrap_or_default());
        let mut inner = Self::new(self.max_depth).mending(self.repair);
        let mut sent = match decoded.trim_start_matches(BLANKS).starts_with('{') {
            true => inner.push(&decoded).into_owned(),
            false => String::new(),
        };
        let is_none =
            decoded.trim_matches(BLANKS).is_empty() || NULLS.contains(&decoded.trim_matches(BLANKS));
        self.stage = match inner.is_whole() {
            true => Stage::Whole,
            false if is_none => Stage::Blank,
            false => {
                self.stage = Stage::Broken;
                return held;
            }
        };
        let behind = self.push(held.get(end + 1..).unwrap_or_default()).into_owned();
        sent.push_str(&behind);
        sent
    }

    /// Handles a piece of what may be the word `null` or the start of a fence.
    fn word(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        if self.held.starts_with('`') {
            return self.fence();
        }
        let word = self.held.trim_end_matches(BLANKS);
        if NULLS.iter().any(|null| null.starts_with(word)) && self.held.len() <= MAX_BLANK {
            return String::new();
        }
        let held = std::mem::take(&mut self.held);
        // Some servers send this word first, followed by the arguments.
        let rest = NULLS.iter().find_map(|null| held.strip_prefix(null));
        let rest = rest.filter(|rest| rest.trim_start_matches(BLANKS).starts_with('{'));
        self.stage = if rest.is_some() { Stage::Blank } else { Stage::Broken };
        match rest {
            Some(rest) => self.push(rest).into_owned(),
            None => held,
        }
    }

    /// Handles held text that may be the first line of a fence around the object. The line is dropped.
    fn fence(&mut self) -> String {
        let is_info = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'\r');
        let may_be = |line: &str| "```".starts_with(line) || line.strip_prefix("```").is_some_and(is_info);
        let line = self.held.split_once('\n');
        if line.is_none() && may_be(&self.held) && self.held.len() <= MAX_BLANK {
            return String::new();
        }
        let rest = line.filter(|(line, _)| line.len() >= 3 && may_be(line)).map(|(_, rest)| rest.to_owned());
        let held = std::mem::take(&mut self.held);
        self.stage = if rest.is_some() { Stage::Blank } else { Stage::Broken };
        match rest {
            Some(rest) => self.push(&rest).into_owned(),
            None => held,
        }
    }

    /// Handles text after the object.
    fn behind<'p>(&mut self, piece: &'p str) -> Cow<'p, str> {
        let blank = match self.held.is_empty() {
            true => piece.len() - piece.trim_start_matches(BLANKS).len(),
            false => 0,
        };
        let (blank, rest) = piece.split_at_checked(blank).unwrap_or((piece, ""));
        if rest.is_empty() {
            return Cow::Borrowed(blank);
        }
        self.held.push_str(rest);
        if self.repair.is_some() && self.held.len() <= MAX_BEHIND && may_be_closers(&self.held) {
            return Cow::Borrowed(blank);
        }
        self.stage = Stage::Broken;
        self.second = if self.held.starts_with('{') { self.held.len() } else { 0 };
        joined(Cow::Borrowed(blank), Cow::Owned(std::mem::take(&mut self.held)))
    }

    /// Takes back a second object that follows a complete one. Returns how many of the bytes passed on last
    /// belong to the second object, or 0 if there is none.
    pub(super) fn take_second(&mut self) -> usize {
        if self.second > 0 {
            self.stage = Stage::Whole;
        }
        std::mem::take(&mut self.second)
    }

    /// Treats text after the complete object as part of the arguments, which makes them invalid.
    pub(super) fn keep_second(&mut self) {
        self.second = 0;
    }

    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }

    /// Whether the text so far ends inside the object or before it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Blank | Stage::Inside)
    }

    pub(super) fn is_blank(&self) -> bool {
        self.stage == Stage::Blank
    }

    /// The text that has arrived but has not been passed on. `None` if its original form is no longer known.
    pub(super) fn pending(&self) -> Option<&str> {
        (self.stage != Stage::Mended).then_some(&self.held)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.stage == Stage::Whole
    }

    pub(super) fn is_broken(&self) -> bool {
        self.stage == Stage::Broken
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// The words that models write to say "no arguments".
const NULLS: [&str; 2] = ["null", "None"];

/// Maximum length, in bytes, of a comma and white space that are held.
const MAX_BLANK: usize = 256;

/// Maximum total length of the closers after an object, in bytes.
const MAX_BEHIND: usize = 256;

/// Maximum length of a single closer, in bytes.
const MAX_CLOSER: usize = 64;

/// Whether `text` may be the start of closers: `</…>`, `<|…|>`, the end of a fence, or unmatched closing
/// brackets.
fn may_be_closers(text: &str) -> bool {
    let mut text = text.trim_start_matches(BLANKS);
    loop {
        let behind = ["}", "]", "```"].iter().find_map(|closer| text.strip_prefix(closer));
        let behind = behind.or_else(|| {
            let (closer, behind) = text.split_once('>')?;
            (opens(closer) && is_closer(closer)).then_some(behind)
        });
        match behind {
            Some(behind) => text = behind.trim_start_matches(BLANKS),
            None => return text.is_empty() || "```".starts_with(text) || (opens(text) && is_closer(text)),
        }
    }
}

fn opens(text: &str) -> bool {
    ["</", "<|", "<\u{ff5c}"].iter().any(|opener| text.starts_with(opener) || opener.starts_with(text))
}

fn is_closer(text: &str) -> bool {
    text.len() < MAX_CLOSER && !text.contains([' ', '\t', '\n', '\r', '{', '"', '\''])
}

/// Joins both strings, without a copy if one of them is empty.
fn joined<'p>(one: Cow<'p, str>, other: Cow<'p, str>) -> Cow<'p, str> {
    match (one.is_empty(), other.is_empty()) {
        (_, true) => one,
        (true, false) => other,
        (false, false) => Cow::Owned(one.into_owned() + &other),
    }
}

#[cfg(test)]
#[allow(clippy::string_slice, reason = "tests cut texts at known places")]
mod tests;
