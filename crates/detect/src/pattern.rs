//! [`fit`]: whether text starts with a marker, or may do so once more text has arrived.
//!
//! A marker that begins with `<` may contain one wildcard. All other characters are literal. After the `<` of a tag, `*` matches
//! an optional namespace and its colon (`<*invoke` matches `<x:invoke`). Before the end of a tag, `*` matches a
//! colon and an optional suffix (`<tool_call*>` matches `<tool_call:opensource>`). `~` matches the characters that
//! a malformed closer may have before its end (`</parameter~>` matches `</parameter/>`), and `%` matches a name,
//! which is not just a number (`<%>` matches `<get_weather>`). The length of what a wildcard matches is limited, and so is that of a possible
//! marker.

use super::text::{head, tail};

/// How text matches a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The text cannot be the marker.
    No,
    /// All of the text is a prefix of the marker.
    Begins,
    /// The text starts with the marker, which has this many bytes.
    Whole(usize),
}

/// The maximum length of what a wildcard matches, in bytes.
const MAX_WILD: usize = 128;

/// Whether ASCII letters are compared with their case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Exact,
    Any,
}

pub(super) fn fit(marker: &str, text: &str) -> Fit {
    fit_cased(marker, text, Case::Exact)
}

/// Matches `text` against `marker`, which must be in lower case if case is ignored.
pub(super) fn fit_cased(marker: &str, text: &str, case: Case) -> Fit {
    if is_refuted(marker, text, case) {
        return Fit::No;
    }
    let literal = |marker, text| literal(marker, text, case);
    let Some(at) = wildcard(marker) else { return literal(marker, text) };
    let Fit::Whole(len) = literal(head(marker, at), text) else { return literal(head(marker, at), text) };
    let (junk, end) = (marker.as_bytes().get(at) == Some(&b'~'), tail(marker, at + 1));
    let rest = tail(text, len);
    let wild = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if end.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return namespaced(len, rest, rest.find(|c| !wild(c)), end, case);
    }
    if marker.as_bytes().get(at) == Some(&b'%') {
        let run = rest.find(|c: char| !wild(c) && !c.is_alphanumeric()).unwrap_or(rest.len());
        let is_number = run < rest.len() && head(rest, run).bytes().all(|byte| byte.is_ascii_digit());
        let named = run > 0 && run <= MAX_WILD && !is_number;
        return if named || rest.is_empty() {
            shift(len + run, literal(end, tail(rest, run)))
        } else {
            Fit::No
        };
    }
    let may_be_junk = |c| matches!(c, ':' | '/' | ' ' | '[' | ']' | ',');
    let run = rest.find(|c| !wild(c) && !may_be_junk(c)).unwrap_or(rest.len());
    if run > MAX_WILD || !(junk || run == 0 || rest.starts_with(':')) {
        return Fit::No;
    }
    shift(len + run, literal(end, tail(rest, run)))
}

fn wildcard(marker: &str) -> Option<usize> {
    marker.find(['*', '~', '%']).filter(|_| marker.starts_with('<'))
}

/// Whether the marker has no wildcard.
pub(super) fn is_literal(marker: &str) -> bool {
    wildcard(marker).is_none()
}

/// Whether the first two bytes rule out the marker, as they do in most text.
fn is_refuted(marker: &str, text: &str, case: Case) -> bool {
    let known =
        marker.bytes().zip(text.bytes()).take(2).take_while(|(own, _)| !matches!(own, b'*' | b'~' | b'%'));
    known
        .into_iter()
        .any(|(own, byte)| own != byte && (case == Case::Exact || !own.eq_ignore_ascii_case(&byte)))
}

/// The namespaces that models are known to write in tags. If any word were accepted, every `<` in prose would be
/// held until a character rules out a colon.
const NAMESPACES: [&str; 3] = ["antml:", "ns:", "tool:"];

/// Matches the text after a tag's `<`, where a namespace may come first. `run` is the end of the first word.
fn namespaced(len: usize, rest: &str, run: Option<usize>, end: &str, case: Case) -> Fit {
    let plain = literal(end, rest, case);
    match run {
        None if plain == Fit::No && NAMESPACES.iter().any(|known| known.starts_with(rest)) => Fit::Begins,
        Some(at) if plain == Fit::No && NAMESPACES.contains(&head(rest, at + 1)) => {
            shift(len + at + 1, literal(end, tail(rest, at + 1), case))
        }
        _ => shift(len, plain),
    }
}

fn shift(by: usize, fit: Fit) -> Fit {
    if let Fit::Whole(len) = fit { Fit::Whole(by + len) } else { fit }
}

/// Matches `text` against a marker without a wildcard.
pub(super) fn literal(marker: &str, text: &str, case: Case) -> Fit {
    let known = marker.len().min(text.len());
    let (Some(begins), Some(comes)) = (marker.as_bytes().get(..known), text.as_bytes().get(..known)) else {
        return Fit::No;
    };
    let same = match case {
        Case::Exact => begins == comes,
        Case::Any => begins.eq_ignore_ascii_case(comes),
    };
    match same {
        false => Fit::No,
        true if known == marker.len() => Fit::Whole(known),
        true => Fit::Begins,
    }
}

/// Matches `text` against several markers. Returns the match of the first one that `text` starts with, or else
/// whether `text` may become one of them.
pub(super) fn fit_any<'m>(markers: impl IntoIterator<Item = &'m str>, text: &str) -> Fit {
    let mut best = Fit::No;
    for marker in markers {
        match fit(marker, text) {
            whole @ Fit::Whole(_) => return whole,
            Fit::Begins => best = Fit::Begins,
            Fit::No => {}
        }
    }
    best
}

/// Whether `text` contains one of `closers`, ignoring case.
pub(super) fn contains_any(text: &str, closers: &[&str]) -> bool {
    let starts = text.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'<' | b'['));
    let mut rests = starts.map(|(at, _)| tail(text, at));
    rests.any(|rest| closers.iter().any(|closer| matches!(fit_cased(closer, rest, Case::Any), Fit::Whole(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_namespaces_suffixes_and_junk() {
        for (marker, text, wanted) in [
            ("<a>", "<a>b", Fit::Whole(3)),
            ("<a>", "<", Fit::Begins),
            ("<a>", "<b", Fit::No),
            ("<*ab>", "<ab>", Fit::Whole(4)),
            ("<*ab>", "<ns:ab>", Fit::Whole(7)),
            ("<*ab>", "<n", Fit::Begins),
            ("<*ab>", "<x", Fit::No),
            ("<*ab>", "<:ab>", Fit::No),
            ("<a*>", "<a>", Fit::Whole(3)),
            ("<a*>", "<a:1>", Fit::Whole(5)),
            ("<a*>", "<a:1", Fit::Begins),
            ("<a*>", "<as>", Fit::No),
            ("</a~>", "</a/>", Fit::Whole(5)),
            ("</a~>", "</a1", Fit::Begins),
            ("</a~>", "</a<", Fit::No),
            ("<%>", "<", Fit::Begins),
            ("<%>", "<a_b", Fit::Begins),
            ("<%>", "<a_b>", Fit::Whole(5)),
            ("<%>", "<>", Fit::No),
            ("<%>", "<año>", Fit::Whole(6)),
            ("<%>", "<3", Fit::Begins),
            ("<%>", "<3d>", Fit::Whole(4)),
            ("<%>", "<3 ", Fit::No),
            ("<%>", "<3>", Fit::No),
            ("<%>", "</a>", Fit::No),
            ("</co*>", "</co: 0:[1,2]>", Fit::Whole(14)),
            ("</co*>", "</co>", Fit::Whole(5)),
            ("</co*>", "</code>", Fit::No),
            ("**a", "**a", Fit::Whole(3)),
            ("**a", "*b", Fit::No),
        ] {
            assert_eq!(fit(marker, text), wanted, "{marker} {text}");
        }
    }

    #[test]
    fn more_text_only_decides_what_was_open() {
        for marker in ["<a*>", "<*ab>", "</a~>", "<a>", "<%>"] {
            for text in ["<a:b>", "<ns:ab>", "</a x>", "<ab>", "<a", "<n:x>"] {
                let mut before = Fit::Begins;
                for at in 1..=text.len() {
                    let now = fit(marker, head(text, at));
                    assert!(before == Fit::Begins || before == now, "{marker} {text} {at}");
                    before = now;
                }
            }
        }
    }
}
