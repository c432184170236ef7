//! Reads tags with their names and attributes, and the text between them.

use std::borrow::Cow;

use super::{
    body::{Fed, JsonBody},
    pattern::{Fit, fit, fit_any},
    text::{head, slice, tail},
    typed_value::TypedValue,
    walk::{Out, Piece, Step},
};
use crate::format::Key;
use crate::tools::Types;

/// What a possible terminator in a value is.
pub(super) enum Verdict {
    /// This many bytes of data.
    Data(usize),
    Open,
    /// The end of the value, with a closer of this many bytes.
    Ends(usize),
    /// The opener of a CDATA section, of this many bytes.
    Shield(usize),
    /// An entity of this many bytes, which stands for this character.
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

/// The maximum length of white space that is skipped after a closer, in bytes. It limits how much held text is
/// examined again.
pub(super) const MAX_BLANK: usize = 256;
pub(super) const CDATA: (&str, &str) = ("<![CDATA[", "]]>");
pub(super) const ENTITIES: [(&str, char); 6] =
    [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"'), ("&apos;", '\''), ("&#39;", '\'')];

/// Returns the text of a CDATA section up to its closer, and the next step, which is `End` if the closer was found.
pub(super) fn cdata(text: &str) -> (&str, Step) {
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

/// What the text of a value has reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    Data,
    Cdata,
    End,
}

/// Returns the offset of the first terminator in `text`, and what it is. `candidate` finds the next offset at which
/// a terminator may begin, and `verdict` classifies the text at an offset.
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

/// Adds `text` up to its terminator to `value`.
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

pub(super) fn read_cdata(text: &str, value: &mut TypedValue, out: &mut Out<'_>) -> (Step, Reached) {
    let (data, step) = cdata(text);
    value.push(data, out);
    if let Step::End(len) = step { (Step::Took(len), Reached::Data) } else { (step, Reached::Cdata) }
}

/// Splits a candidate at the start of a value's text into its line ending and what follows, where a marker may
/// begin. If `takes_line` is set, a line ending before a marker belongs to the marker.
///
/// # Errors
/// If no marker can begin there, returns what the text is.
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

/// Reads the start of CDATA or an entity, if the value may contain it.
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

/// Reads the opening tag of a parameter, starting after its marker. Returns its key, its type and its length,
/// `Some(None)` if more text is needed, or `None` if it is not an opening tag.
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

/// Reads the key-value pair at the start of `text`. Returns its key, its type and its length up to the value,
/// `Some(None)` if more text is needed, or `None` if it is not a pair.
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
    // The closer of the key may be missing.
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

/// Returns the length of the white space at the start of `text`.
fn blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Continues to read a JSON object with all arguments.
pub(super) fn json(body: &mut JsonBody, text: &str, out: &mut Out<'_>) -> Step {
    match body.feed(text, &mut |text: &str| out(Piece::Arguments(text))) {
        Fed::More => Step::Took(text.len()),
        Fed::Done(len) => Step::Whole(len),
        Fed::Fault(len) => Step::Stop(len),
    }
}

/// Returns the types that a tag specifies for its value.
pub(super) fn types_of(kind: &str) -> Option<Types> {
    match kind {
        "true" => Some(Types::STRING),
        "false" => Some(Types::JSON),
        kind => Some(Types::named(kind)).filter(|types| *types != Types::default()),
    }
}

/// Returns the name at the start of `text` and its end, or `None` if it does not end in `text`.
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

/// Replaces the entities in an attribute's value.
pub(super) fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('&') {
        return Cow::Borrowed(value);
    }
    let (mut plain, mut rest) = (String::with_capacity(value.len()), value);
    while let Some(at) = rest.find('&') {
        plain.push_str(head(rest, at));
        rest = tail(rest, at);
        let entity = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity));
        let (len, character) = entity.map_or((1, '&'), |(entity, character)| (entity.len(), *character));
        plain.push(character);
        rest = tail(rest, len);
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Returns the text of a tag before its `end`, `Some(None)` if more text is needed, or `None` if it is not a tag.
pub(super) fn tag_text<'t>(text: &'t str, end: &str) -> Option<Option<&'t str>> {
    if let Some(at) = text.find(end) {
        return Some(head(text, at)).filter(|tag| !tag.contains('<')).map(Some);
    }
    let begins = text.find('<').is_none_or(|at| end.starts_with(tail(text, at)));
    begins.then_some(None)
}

/// Like [`tag_text`], but without `marks`, which mean nothing in the tag. Also returns the length of the tag as it was
/// written, with its `end`.
pub(super) fn tag_without(text: &str, end: &str, marks: &[&str]) -> Option<Option<(String, usize)>> {
    let (mut tag, mut at) = (String::new(), 0);
    loop {
        let rest = tail(text, at);
        if rest.starts_with(end) {
            return Some(Some((tag, at + end.len())));
        }
        if end.starts_with(rest) {
            return Some(None);
        }
        match fit_any(marks.iter().copied(), rest) {
            Fit::Whole(len) => at += len,
            Fit::Begins => return Some(None),
            Fit::No => {
                let character = rest.chars().next().filter(|character| *character != '<')?;
                tag.push(character);
                at += character.len_utf8();
            }
        }
    }
}

/// Returns the value of the attribute `key`, which may be quoted.
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
