//! [`HeaderWalk`]: reads a call whose name precedes its arguments, such as `NAME[ARGS]{…}` or
//! `functions.NAME:0<|sep|>{…}`.
//!
//! The header extends to one of its end markers, and contains the name and the ID. The arguments that follow are
//! JSON. A format may define literals without meaning around the arguments, such as a fence or a constraint marker,
//! and a closer.

use super::{
    bare_text::BareText,
    body::JsonBody,
    broken::{Rest, Resumes},
    pattern::fit_any,
    string_fast_path::StringFastPath,
    tag::json,
    text::tail,
    walk::{CallRules, Out, Piece, Step, Walk},
};
use crate::format::{Header, HeaderEnd};

#[derive(Debug)]
enum At {
    /// In the header. [`HeaderWalk::captured`] includes a possible end marker.
    Name,
    /// Before the arguments, where white space and the format's literals may occur.
    Before,
    Arguments,
    /// In plain text in place of the arguments.
    Text(BareText),
    /// After the arguments, where white space, literals and the closer may occur.
    After,
}

/// What precedes or follows the arguments.
enum Literal {
    /// A literal of this many bytes, without meaning.
    Framing(usize),
    /// The call's closer, of this many bytes.
    Closer(usize),
    /// Possibly the start of a literal or of the closer.
    Begins,
    /// Text that starts like a literal but is not one.
    Broken,
    None,
}

#[derive(Debug)]
pub(super) struct HeaderWalk {
    header: &'static Header,
    at: At,
    captured: String,
    /// How many bytes of [`HeaderWalk::captured`] are certain to be part of the header, because no end marker
    /// begins in them.
    legal: usize,
    /// How many bytes after the arguments are known to be white space.
    blank: usize,
    body: JsonBody,
}

impl Walk for HeaderWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        match &mut self.at {
            At::Name => {
                let character = text.chars().next().unwrap_or_default();
                match self.name(character, rules) {
                    Some(true) => Step::Took(character.len_utf8()),
                    Some(false) => Step::Took(0),
                    None => Step::Stop(0),
                }
            }
            At::Before => self.before(text, rules, out),
            At::Arguments => {
                let step = json(&mut self.body, text, out);
                if let Step::Whole(_) = step {
                    self.at = At::After;
                }
                step
            }
            At::Text(bare) => {
                let header = self.header;
                let closers = || header.after.iter().chain(header.close).copied();
                let Some(call) = called(header, &self.captured, rules) else { return Step::Stop(0) };
                let step = bare.step(text, call, |text| fit_any(closers(), text), out);
                if let Step::Whole(_) = step {
                    self.at = At::After;
                }
                step
            }
            At::After => self.after(text),
        }
    }

    fn close(&mut self, _held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        stopped && self.body.close_last(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        self.body.close(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn breaks(&mut self) -> Rest {
        self.body.breaks()
    }

    fn resume(&mut self) -> Resumes {
        (self.at, self.blank) = (At::After, 0);
        Resumes::BeforeCloser
    }

    fn string(&self) -> Option<StringFastPath> {
        if matches!(self.at, At::Arguments) { self.body.flow() } else { None }
    }
}

impl HeaderWalk {
    pub(super) fn new(header: &'static Header, rules: &CallRules<'_>) -> Self {
        Self {
            header,
            at: At::Name,
            captured: String::new(),
            legal: 0,
            blank: 0,
            body: JsonBody::new(rules.repair, rules.max_depth),
        }
    }

    /// Reads one character of the header. Returns whether it was part of the header, or `None` if this is not a
    /// header.
    fn name(&mut self, character: char, rules: &CallRules<'_>) -> Option<bool> {
        let (ends, brace) = match self.header.end {
            HeaderEnd::Markers(ends) | HeaderEnd::MarkersThenBrace(ends) => (ends, false),
            HeaderEnd::MarkersOrBrace(ends) => (ends, character == '{'),
        };
        if !brace {
            self.captured.push(character);
        }
        let end = ends.iter().find(|end| self.captured.ends_with(**end)).map(|end| end.len());
        let Some(end) = end.or(brace.then_some(0)) else {
            return self.may_go_on(ends, rules.max_markup).then_some(true);
        };
        self.captured.truncate(self.captured.len() - end);
        called(self.header, &self.captured, rules)?;
        self.at = At::Before;
        Some(!brace)
    }

    fn start(&self, rules: &CallRules<'_>, out: &mut Out<'_>) {
        if let Some((name, id)) = called(self.header, &self.captured, rules) {
            out(Piece::Start { name, id });
        }
    }

    /// Whether the captured text may be a header, possibly with the start of an end marker. The offset at which an
    /// end marker may begin only moves forward, so each character is checked once.
    fn may_go_on(&mut self, ends: &[&str], most: usize) -> bool {
        if self.captured.len() > most {
            return false;
        }
        let rest = tail(&self.captured, self.legal);
        for (at, character) in rest.char_indices() {
            if ends.iter().any(|end| end.starts_with(tail(rest, at))) {
                self.legal += at;
                return true;
            }
            let legal = character.is_alphanumeric()
                || "_-.:/ \t\r\n".contains(character)
                || self.header.legal.contains(character);
            if !legal {
                return false;
            }
        }
        self.legal = self.captured.len();
        true
    }

    /// Reads what precedes the arguments: white space, literals, and anything that ends or replaces the arguments.
    fn before(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let blank = text.len() - text.trim_ascii_start().len();
        if blank > 0 {
            return Step::Took(blank);
        }
        if text.starts_with('{') {
            self.start(rules, out);
            self.at = At::Arguments;
            return Step::Took(0);
        }
        match self.literal(text, self.header.before) {
            Literal::Framing(len) => Step::Took(len),
            Literal::Closer(len) => {
                self.start(rules, out);
                out(Piece::Arguments("{}"));
                Step::End(len)
            }
            Literal::Begins => Step::Hold,
            Literal::None if self.begin_text(rules) => Step::Took(0),
            Literal::None | Literal::Broken => Step::Stop(0),
        }
    }

    /// Begins plain text in place of the arguments, if it may be an argument.
    fn begin_text(&mut self, rules: &CallRules<'_>) -> bool {
        let call = called(self.header, &self.captured, rules).filter(|_| !self.header.close.is_empty());
        let certain = !matches!(self.header.end, HeaderEnd::MarkersThenBrace(_));
        let Some(bare) = call.and_then(|(name, _)| BareText::new(name, certain, rules)) else { return false };
        self.at = At::Text(bare);
        true
    }

    /// Reads what follows the arguments. White space belongs to the call only if a literal or the closer follows
    /// it.
    fn after(&mut self, text: &str) -> Step {
        let rest = tail(text, self.blank);
        self.blank = text.len() - rest.trim_ascii_start().len();
        let marker = tail(text, self.blank);
        if marker.is_empty() {
            return Step::Hold;
        }
        match self.literal(marker, self.header.after) {
            Literal::Framing(len) => Step::Took(std::mem::take(&mut self.blank) + len),
            Literal::Closer(len) => Step::End(self.blank + len),
            Literal::Begins => Step::Hold,
            Literal::Broken | Literal::None => Step::End(0),
        }
    }

    /// Classifies the start of `text`: one of `framing`, the closer, or neither.
    fn literal(&self, text: &str, framing: &[&str]) -> Literal {
        let close = self.header.close;
        let literals = || framing.iter().chain(close);
        if let Some(literal) =
            literals().filter(|literal| text.starts_with(**literal)).min_by_key(|l| l.len())
        {
            let len = literal.len();
            return if close.contains(literal) { Literal::Closer(len) } else { Literal::Framing(len) };
        }
        let first = text.chars().next().unwrap_or_default();
        match () {
            () if literals().any(|literal| literal.starts_with(text)) => Literal::Begins,
            () if literals().any(|literal| literal.starts_with(first)) => Literal::Broken,
            () => Literal::None,
        }
    }
}

/// Returns the name and the ID in a header.
fn called<'c>(header: &Header, captured: &'c str, rules: &CallRules<'_>) -> Option<(&'c str, &'c str)> {
    let (id, name) = (header.read)(captured.trim())?;
    let rules = CallRules { any_name: rules.any_name && !header.common, ..*rules };
    Some((rules.dotted_name(name)?, id))
}
