//! Tags: their names and attributes, and the text between them.

use super::{
    body::{Fed, JsonBody},
    pattern::{Fit, fit},
    text::{head, slice, tail},
    typed_value::TypedValue,
    walk::{Out, Piece, Step},
};
use crate::format::Key;
use crate::tools::Types;

/// The meaning of a possible terminator in a value.
pub(super) enum Verdict {
    /// This many bytes are data.
    Data(usize),
    Open,
    /// The value ends here; its closer has this many bytes.
    Ends(usize),
    /// This many bytes open a CDATA section.
    Shield(usize),
    /// This many bytes stand for a character.
    Entity(usize, char),
}

/// A three-valued truth value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sure {
    Yes,
    Maybe,
    No,
}

impl From<Fit> for Sure {
    fn from(fit: Fit) -> Self {
        match fit {
            Fit::No => Self::No,
            Fit::Begins => Self::Maybe,
            Fit::Whole(_) => Self::Yes,
        }
    }
}

/// Maximum length of a run of blanks that is skipped after a closer, in bytes. This limits how much held text
/// is examined again.
pub(super) const MAX_BLANK: usize = 256;
pub(super) const CDATA: (&str, &str) = ("<![CDATA[", "]]>");
pub(super) const ENTITIES: [(&str, char); 6] =
    [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"'), ("&apos;", '\''), ("&#39;", '\'')];

/// Returns the text of a CDATA section up to its closer, and the next step: `End` if the closer was found.
fn cdata(text: &str) -> (&str, Step) {
    let mut from = 0;
    while let Some(found) = memchr::memchr(b']', tail(text, from).as_bytes()) {
        let at = from + found;
        match fit(CDATA.1, tail(text, at)) {
            Fit::No => from = at + 1,
            Fit::Whole(len) => return (head(text, at), Step::End(at + len)),
            Fit::Begins if at == 0 => return ("", Step::Hold),
            Fit::Begins => return (head(text, at), Step::Took(at)),
        }
    }
    (text, Step::Took(text.len()))
}

/// The point that a value's text has reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    Data,
    /// A CDATA section.
    Cdata,
    /// The value's end.
    End,
}

/// The first terminator in `text`, and its offset. `candidate` returns the offset in a text at which a
/// terminator may begin, and `verdict` classifies the text at an offset.
pub(super) fn terminator(
    text: &str,
    candidate: impl Fn(&str) -> Option<usize>,
    mut verdict: impl FnMut(usize) -> Verdict,
) -> (usize, Verdict) {
    let mut from = 0;
    while let Some(found) = candidate(tail(text, from)) {
        let at = from + found;
        match verdict(at) {
            Verdict::Data(len) => from = at + len,
            verdict => return (at, verdict),
        }
    }
    (text.len(), Verdict::Open)
}

/// Reads `text` up to its terminator as part of `value`.
pub(super) fn read_value(
    text: &str,
    (at, terminator): (usize, Verdict),
    value: &mut TypedValue,
    out: &mut Out<'_>,
) -> (Step, Reached) {
    value.push(head(text, at), out);
    match terminator {
        Verdict::Ends(len) => (Step::Took(at + len), Reached::End),
        Verdict::Shield(len) => (Step::Took(at + len), Reached::Cdata),
        Verdict::Entity(len, character) => {
            value.push(character.encode_utf8(&mut [0; 4]), out);
            (Step::Took(at + len), Reached::Data)
        }
        Verdict::Open | Verdict::Data(_) if at == 0 => (Step::Hold, Reached::Data),
        Verdict::Open | Verdict::Data(_) => (Step::Took(at), Reached::Data),
    }
}

/// Reads a CDATA section of `value`.
pub(super) fn read_cdata(text: &str, value: &mut TypedValue, out: &mut Out<'_>) -> (Step, Reached) {
    let (data, step) = cdata(text);
    value.push(data, out);
    if let Step::End(len) = step { (Step::Took(len), Reached::Data) } else { (step, Reached::Cdata) }
}

/// The parts of a candidate at the beginning of a value's text: the line end, and the text after it, where a
/// marker may begin.
///
/// # Errors
/// The meaning of the text if no marker can begin there. `takes_line`: a line end before a marker belongs to
/// the marker.
pub(super) fn candidate(
    text: &str,
    takes_line: bool,
    has_cdata: bool,
    has_entities: bool,
) -> Result<(usize, &str), Verdict> {
    let newline = usize::from(takes_line && text.starts_with('\n'));
    let marker = tail(text, newline);
    if marker.is_empty() {
        return Err(Verdict::Open);
    }
    if newline == 1 && !marker.starts_with('<') {
        return Err(Verdict::Data(1));
    }
    if newline == 0
        && let Some(verdict) = shield(text, has_cdata, has_entities)
    {
        return Err(verdict);
    }
    Ok((newline, marker))
}

/// Reads CDATA or an entity at the beginning of `text`, where a value may contain it.
fn shield(text: &str, has_cdata: bool, has_entities: bool) -> Option<Verdict> {
    if has_entities && text.starts_with('&') {
        for (entity, character) in ENTITIES {
            match fit(entity, text) {
                Fit::Whole(len) => return Some(Verdict::Entity(len, character)),
                Fit::Begins => return Some(Verdict::Open),
                Fit::No => {}
            }
        }
        return Some(Verdict::Data(1));
    }
    match fit(CDATA.0, text) {
        Fit::Whole(len) if has_cdata => Some(Verdict::Shield(len)),
        Fit::Begins if has_cdata && text.len() > 1 => Some(Verdict::Open),
        _ => None,
    }
}

/// The key, the type and the length of a parameter's opening tag, starting after its marker. `Some(None)` if
/// more text is needed, `None` if the text is not an opening tag.
pub(super) fn read_key<'t>(
    parameter: &Key,
    text: &'t str,
) -> Option<Option<(&'t str, Option<&'t str>, usize)>> {
    let (end, attributes) = match *parameter {
        Key::Tag(_, end) => (end, None),
        Key::Attribute { end, key, kind, .. } => (end, Some((key, kind))),
        Key::Pair { .. } => return None,
    };
    let Some(tag) = tag_text(text, end)? else { return Some(None) };
    let (key, kind) = match attributes {
        Some((key, kind)) => (attribute(tag, key)?, attribute(tag, kind)),
        None => (tag.trim().trim_matches(['"', '\'']), None),
    };
    (!key.is_empty()).then_some(Some((key, kind, tag.len() + end.len())))
}

/// The key and the type of a key-value pair that `text` begins, and the pair's length up to the value.
/// `Some(None)` if more text is needed, `None` if the text is not a pair.
pub(super) fn read_pair<'t>(
    parameter: &Key,
    text: &'t str,
) -> Option<Option<(&'t str, Option<&'t str>, usize)>> {
    let Key::Pair { open, close, kind, value } = *parameter else { return None };
    let before = match fit(open, text) {
        Fit::Whole(len) => len,
        Fit::Begins => return Some(None),
        Fit::No => return None,
    };
    let Some(len) = tail(text, before).find('<') else {
        return Some(None);
    };
    let mut at = before + len;
    let key = slice(text, before, at).trim();
    // The key's closer may be missing.
    match fit(close, tail(text, at)) {
        Fit::Whole(len) => at += len,
        Fit::Begins => return Some(None),
        Fit::No => {}
    }
    at += blanks(tail(text, at));
    let open = Some(None);
    let mut told = None;
    match fit(kind.0, tail(text, at)) {
        Fit::Whole(len) if len > 0 => {
            let Some(end) = tail(text, at + len).find(kind.1) else { return open };
            told = Some(slice(text, at + len, at + len + end).trim());
            at += len + end + kind.1.len();
            at += blanks(tail(text, at));
        }
        Fit::Begins if fit(value, tail(text, at)) == Fit::No => return open,
        _ => {}
    }
    match fit(value, tail(text, at)) {
        Fit::Whole(len) if !key.is_empty() => Some(Some((key, told, at + len))),
        Fit::Begins => open,
        _ => None,
    }
}

/// The number of bytes of blanks at the beginning of `text`.
fn blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Continues reading the JSON object of all arguments.
pub(super) fn json(body: &mut JsonBody, text: &str, out: &mut Out<'_>) -> Step {
    match body.feed(text, &mut |text: &str| out(Piece::Arguments(text))) {
        Fed::More => Step::Took(text.len()),
        Fed::Done(len) => Step::Whole(len),
        Fed::Fault(len) => Step::Stop(len),
    }
}

/// The types that a tag declares for its value.
pub(super) fn types_of(kind: &str) -> Option<Types> {
    match kind {
        "true" => Some(Types::STRING),
        "false" => Some(Types::JSON),
        kind => Some(Types::named(kind)).filter(|types| *types != Types::default()),
    }
}

/// The name at the beginning of `text`, and where it ends. `None` if it does not end in `text`.
pub(super) fn bare_name(text: &str) -> Option<(&str, usize)> {
    let blank = text.len() - text.trim_start().len();
    let name = tail(text, blank);
    let len = name.find(|c: char| !is_name(c)).filter(|&len| len > 0)?;
    Some((head(name, len), blank + len))
}

pub(super) fn blank_or_name(text: &str) -> bool {
    text.trim_start().chars().all(is_name)
}

pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/')
}

/// The text of a tag before its `end`. `Some(None)` if more text is needed, `None` if this is not a tag.
pub(super) fn tag_text<'t>(text: &'t str, end: &str) -> Option<Option<&'t str>> {
    if let Some(at) = text.find(end) {
        return Some(head(text, at)).filter(|tag| !tag.contains('<')).map(Some);
    }
    let begins = text.find('<').is_none_or(|at| end.starts_with(tail(text, at)));
    begins.then_some(None)
}

/// The attribute `key` of a tag, quoted or unquoted.
pub(super) fn attribute<'t>(tag: &'t str, key: &str) -> Option<&'t str> {
    let mut rest = tag;
    while let Some(at) = rest.find('=') {
        let name = head(rest, at).trim();
        let value = tail(rest, at + 1).trim_start();
        let (value, end) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let inner = tail(value, 1);
                let end = inner.find(quote)?;
                (head(inner, end), tail(inner, end + 1))
            }
            _ => value.split_at(value.find(|c: char| c.is_whitespace()).unwrap_or(value.len())),
        };
        if name.rsplit(char::is_whitespace).next() == Some(key) {
            return Some(value.trim());
        }
        rest = end;
    }
    None
}
