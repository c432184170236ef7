//! [`Quotations`]: the texts that the model was given to read, and whether a call repeats one of them.
//!
//! Whoever writes a page can write a call into it. If the model repeats the page, the call is a quotation, so a call
//! whose source occurs in a result waits. Only results that contain a marker are kept, and nothing else is done with
//! them until a call begins. Then a call is compared with the first place in which all of its source so far occurs,
//! and that place only moves forward: a call costs at most one search of the results. The source so far is read again
//! at each place. Places overlap only where the source repeats itself, so this adds up to about the length of the results.

use memchr::memmem;

use super::search::SearchPlan;
use crate::text::{head, tail};

/// Between two texts. Models do not write it.
const SEPARATOR: char = '\0';

/// How many times escapes are decoded: JSON in JSON, and HTML in it.
const MAX_READINGS: usize = 2;

/// The texts that the model was given to read and that may contain calls.
#[derive(Debug, Default)]
pub(super) struct Quotations {
    /// The texts as they are, until a call begins.
    unread: Vec<String>,
    /// All texts, each also without its escapes.
    readings: String,
}

impl Quotations {
    /// Adds a text if it contains a marker of `plan`.
    pub(super) fn add(&mut self, text: &str, plan: &SearchPlan) {
        if may_hide_marker(text) {
            let readings = readings(text);
            if readings.iter().any(|reading| plan.has_marker(reading)) {
                self.unread.push(text.to_owned());
            }
        } else if plan.has_marker(text) {
            self.unread.push(text.to_owned());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unread.is_empty() && self.readings.is_empty()
    }

    /// Whether the source of a call still occurs in a text after it has continued with `more`.
    pub(super) fn follow(&mut self, trace: &mut Trace, more: &str) -> bool {
        for text in std::mem::take(&mut self.unread) {
            for reading in readings(&text) {
                self.readings.push(SEPARATOR);
                self.readings.push_str(&reading);
            }
        }
        trace.follow(self.readings.as_bytes(), more.as_bytes())
    }
}

/// The first place in the texts at which the source of a call occurs.
#[derive(Debug, Default)]
pub(super) struct Trace {
    at: usize,
    len: usize,
}

impl Trace {
    /// How many bytes of the source have been compared.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn follow(&mut self, texts: &[u8], more: &[u8]) -> bool {
        let behind = texts.get(self.at + self.len..).unwrap_or_default();
        if self.len > 0 && behind.starts_with(more) {
            self.len += more.len();
            return true;
        }
        let so_far = texts.get(self.at..self.at + self.len).unwrap_or_default();
        let source = [so_far, more].concat();
        let from = texts.get(self.at..).unwrap_or_default();
        let Some(found) = memmem::find(from, &source) else { return false };
        (self.at, self.len) = (self.at + found, source.len());
        true
    }
}

/// Whether escapes in `text` may hide a marker.
fn may_hide_marker(text: &str) -> bool {
    let hides = |(at, byte): (usize, u8)| match byte {
        b'\\' => matches!(text.as_bytes().get(at + 1), Some(b'u' | b'/')),
        _ => matches!(text.as_bytes().get(at + 1), Some(b'l' | b'#' | b'q')),
    };
    memchr::memchr2_iter(b'\\', b'&', text.as_bytes())
        .any(|at| hides((at, text.as_bytes().get(at).copied().unwrap_or_default())))
}

/// Returns the ways in which a model may repeat `text`: as it is, and with its escapes decoded.
fn readings(text: &str) -> Vec<String> {
    let mut readings = vec![text.to_owned()];
    for decode in [decode_json, decode_html, decode_line_ends] {
        let mut last = readings.clone();
        for _ in 0..MAX_READINGS {
            last = last.iter().filter_map(|reading| decode(reading)).collect();
            if last.is_empty() {
                break;
            }
            readings.extend(last.iter().cloned());
        }
    }
    readings
}

/// Writes line ends as models do. Returns `None` if they are so already.
fn decode_line_ends(text: &str) -> Option<String> {
    text.contains("\r\n").then(|| text.replace("\r\n", "\n"))
}

/// Decodes the escapes of JSON strings. Returns `None` if there are none.
fn decode_json(text: &str) -> Option<String> {
    memchr::memchr(b'\\', text.as_bytes())?;
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        decoded.push_str(head(rest, at));
        let (len, meant) = json_escape(tail(rest, at));
        changed |= len != meant.len() || head(tail(rest, at), len) != meant;
        decoded.push_str(&meant);
        rest = tail(rest, at + len);
    }
    decoded.push_str(rest);
    changed.then_some(decoded)
}

/// Reads the escape at the start of `text`. Returns its length and what it means.
fn json_escape(text: &str) -> (usize, String) {
    let plain = |meant: &str| (2, meant.to_owned());
    match text.as_bytes().get(..2) {
        Some(b"\\n") => plain("\n"),
        Some(b"\\t") => plain("\t"),
        Some(b"\\r") => plain("\r"),
        Some(b"\\\"") => plain("\""),
        Some(b"\\\\") => plain("\\"),
        Some(b"\\/") => plain("/"),
        Some(b"\\u") => unicode_escape(text).unwrap_or_else(|| plain("\\u")),
        _ => (1, head(text, 1).to_owned()),
    }
}

fn unicode_escape(text: &str) -> Option<(usize, String)> {
    let unit = |at: usize| u16::from_str_radix(text.get(at + 2..at + 6)?, 16).ok();
    let first = unit(0)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((6, character.to_string()));
    }
    let second = text.get(6..8).filter(|escape| *escape == "\\u").and_then(|_| unit(6))?;
    Some((12, String::from_utf16(&[first, second]).ok()?))
}

/// Decodes the entities of markup. Returns `None` if there are none.
fn decode_html(text: &str) -> Option<String> {
    const ENTITIES: &[(&str, &str)] = &[
        ("&lt;", "<"),
        ("&#60;", "<"),
        ("&#x3c;", "<"),
        ("&gt;", ">"),
        ("&#62;", ">"),
        ("&#x3e;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#x22;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    memchr::memchr(b'&', text.as_bytes())?;
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = memchr::memchr(b'&', rest.as_bytes()) {
        decoded.push_str(head(rest, at));
        let from = rest.as_bytes().get(at..).unwrap_or_default();
        let is = |entity: &str| {
            from.get(..entity.len()).is_some_and(|own| own.eq_ignore_ascii_case(entity.as_bytes()))
        };
        let known = ENTITIES.iter().find(|(entity, _)| is(entity));
        let (len, meant) = known.map_or((1, "&"), |(entity, meant)| (entity.len(), meant));
        changed |= known.is_some();
        decoded.push_str(meant);
        rest = tail(rest, at + len);
    }
    decoded.push_str(rest);
    changed.then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(texts: &[&str], pieces: &[&str]) -> usize {
        let mut quotations =
            Quotations { unread: texts.iter().map(|&text| text.to_owned()).collect(), ..Default::default() };
        let mut trace = Trace::default();
        pieces.iter().take_while(|piece| quotations.follow(&mut trace, piece)).count()
    }

    #[test]
    fn source_is_compared_with_all_its_occurrences() {
        let text = "<a><a>1 <a>2 <a>23";
        assert_eq!(repeated(&[text], &["<a>", "2", "3"]), 3);
        assert_eq!(repeated(&[text], &["<a>", "<a>", "1", " "]), 4);
        assert_eq!(repeated(&[text], &["<a>", "2", "4"]), 2);
        assert_eq!(repeated(&["<a>1", "<a>2"], &["<a>", "2"]), 2);
        assert_eq!(repeated(&["<a>1", "<a>2"], &["<a>1", "<a>2"]), 1);
    }

    #[test]
    fn escapes_are_decoded() {
        for text in [
            r#"{"page": "<a>{\"b\":\"c\"}</a>"}"#,
            r#"{"page": "\u003ca>{\"b\":\"c\"}<\/a>"}"#,
            r#"{"page": "{\"inner\": \"<a>{\\\"b\\\":\\\"c\\\"}</a>\"}"}"#,
            "&lt;a&gt;{&quot;b&quot;:\"c\"}&lt;/a&#62;",
            r#"{"page": "&lt;a>{\"b\":\"c\"}&lt;/a>"}"#,
        ] {
            assert_eq!(repeated(&[text], &["<a>", r#"{"b":"c"}"#, "</a>"]), 3, "{text}");
        }
        assert_eq!(repeated(&["a\r\nb"], &["a\nb"]), 1);
        assert_eq!(repeated(&[r"<\uff5ca\ud83d\ude00>"], &["<｜a😀>"]), 1);
        assert_eq!(repeated(&[r"\u12 \ud83d & &am"], &[r"\u12 \ud83d & &am"]), 1);
    }
}
