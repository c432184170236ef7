//! [`Quotations`]: the texts that the model was given to read, and whether a call repeats one of them.
//!
//! Whoever writes a page can write a call into it. If the model repeats the page, the call is a quotation, so a call
//! whose source occurs in a result waits. Only results that contain a marker are kept, and nothing else is done with
//! them until a call begins. Then a call is compared with the first place in which all of its source so far occurs,
//! and that place only moves forward: a call costs at most one search of the results. The source so far is read again
//! at each place. Places overlap only where the source repeats itself, so this adds up to about the length of the results.
//!
//! The texts and the work are bounded. Beyond that, every call counts as a repetition.

use memchr::memmem;

use super::{
    search::SearchPlan,
    tag::ENTITIES,
    text::{head, tail},
};

/// Between two texts. Models do not write it.
const SEPARATOR: char = '\0';

/// How many times escapes are decoded: JSON in JSON, and HTML in it.
const MAX_READINGS: usize = 2;

/// The maximum length of all texts that are kept, in bytes, counting all readings.
const MAX_KEPT: usize = 16 << 20;

/// How many times all texts may be searched during a response.
const MAX_SEARCHES: usize = 512;

/// The texts that the model was given to read and that may contain calls.
#[derive(Debug, Default)]
pub(super) struct Quotations {
    /// The texts as they are, until a call begins.
    unread: Vec<String>,
    /// All texts, each also without its escapes.
    readings: String,
    /// How many bytes have been searched.
    searched: usize,
    /// Whether a limit was exceeded. Then no texts are kept, and every call counts as a repetition.
    is_exceeded: bool,
}

impl Quotations {
    /// Adds a text if it contains a marker of `plan`.
    pub(super) fn add(&mut self, text: &str, plan: &SearchPlan) {
        if self.is_exceeded {
            return;
        }
        let hides = may_hide_marker(text);
        let room = self.room();
        if text.len() > room {
            if hides || plan.has_marker(text) {
                self.exceed();
            }
        } else if plan.has_marker(text) {
            self.unread.push(text.to_owned());
        } else if hides {
            match readings(text, MAX_KEPT) {
                Some(readings) if readings.iter().any(|reading| plan.has_marker(reading)) => {
                    self.unread.push(text.to_owned());
                }
                Some(_) => {}
                None => self.exceed(),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unread.is_empty() && self.readings.is_empty() && !self.is_exceeded
    }

    /// Whether the texts are too long to be compared, so that every call counts as a repetition.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Whether the source of a call still occurs in a text after it has continued with `more`.
    pub(super) fn follow(&mut self, trace: &mut Trace, more: &str) -> bool {
        self.read();
        let most = self.readings.len().saturating_mul(MAX_SEARCHES);
        let follows = trace.follow(self.readings.as_bytes(), more.as_bytes(), &mut self.searched);
        if self.searched > most {
            self.exceed();
        }
        follows || self.is_exceeded
    }

    /// Decodes the texts that were not read yet.
    fn read(&mut self) {
        for text in std::mem::take(&mut self.unread) {
            let Some(readings) = readings(&text, self.room()) else { return self.exceed() };
            for reading in readings {
                self.readings.push(SEPARATOR);
                self.readings.push_str(&reading);
            }
        }
    }

    fn room(&self) -> usize {
        let unread: usize = self.unread.iter().map(String::len).sum();
        MAX_KEPT.saturating_sub(unread + self.readings.len())
    }

    fn exceed(&mut self) {
        *self = Self { is_exceeded: true, ..Self::default() };
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

    /// Adds to `searched` how many bytes of `texts` were searched.
    fn follow(&mut self, texts: &[u8], more: &[u8], searched: &mut usize) -> bool {
        let behind = texts.get(self.at + self.len..).unwrap_or_default();
        if self.len > 0 && behind.starts_with(more) {
            self.len += more.len();
            return true;
        }
        let so_far = texts.get(self.at..self.at + self.len).unwrap_or_default();
        let source = [so_far, more].concat();
        let from = texts.get(self.at..).unwrap_or_default();
        let found = memmem::find(from, &source);
        *searched += source.len() + found.unwrap_or(from.len());
        let Some(found) = found else { return false };
        (self.at, self.len) = (self.at + found, source.len());
        true
    }
}

/// Whether escapes in `text` may hide a marker.
fn may_hide_marker(text: &str) -> bool {
    let hides = |at: usize| match text.as_bytes().get(at..at + 2) {
        Some(b"\\u" | b"\\/") => true,
        Some([b'&', _]) => entity(tail(text, at)).is_some(),
        _ => false,
    };
    memchr::memchr2_iter(b'\\', b'&', text.as_bytes()).any(hides)
}

/// Returns the ways in which a model may repeat `text`: as it is, and with its escapes decoded. Returns `None` if they
/// have more than `room` bytes, with a separator for each.
fn readings(text: &str, room: usize) -> Option<Vec<String>> {
    let mut readings = vec![text.to_owned()];
    let mut room = room.checked_sub(text.len() + 1)?;
    for decode in [decode_json, decode_html, decode_line_ends] {
        let mut from = 0;
        for _ in 0..MAX_READINGS {
            let upto = readings.len();
            for at in from..upto {
                if let Some(decoded) = readings.get(at).and_then(|reading| decode(reading)) {
                    room = room.checked_sub(decoded.len() + 1)?;
                    readings.push(decoded);
                }
            }
            from = upto;
        }
    }
    Some(readings)
}

/// Writes line ends as models do. Returns `None` if they are so already.
fn decode_line_ends(text: &str) -> Option<String> {
    text.contains("\r\n").then(|| text.replace("\r\n", "\n"))
}

/// Decodes the escapes of JSON strings. Returns `None` if there are none.
fn decode_json(text: &str) -> Option<String> {
    decode(text, b'\\', json_escape)
}

/// Decodes the entities of markup. Returns `None` if there are none.
fn decode_html(text: &str) -> Option<String> {
    decode(text, b'&', entity)
}

/// Decodes escapes that begin with `mark`. `escape` returns the length of one and its meaning. Returns `None` if there
/// are none.
fn decode(text: &str, mark: u8, escape: fn(&str) -> Option<(usize, char)>) -> Option<String> {
    let mut rest = text;
    let mut decoded = String::new();
    let mut searched = 0;
    while let Some(at) = memchr::memchr(mark, rest.as_bytes().get(searched..).unwrap_or_default()) {
        let at = searched + at;
        let Some((len, meant)) = escape(tail(rest, at)) else {
            searched = at + 1;
            continue;
        };
        if decoded.is_empty() {
            decoded.reserve(text.len());
        }
        decoded.push_str(head(rest, at));
        decoded.push(meant);
        (rest, searched) = (tail(rest, at + len), 0);
    }
    decoded.push_str(if decoded.is_empty() { "" } else { rest });
    (!decoded.is_empty()).then_some(decoded)
}

/// Reads the escape at the start of `text`.
fn json_escape(text: &str) -> Option<(usize, char)> {
    let meant = match text.as_bytes().get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'u' => return unicode_escape(text),
        byte @ (b'"' | b'\'' | b'\\' | b'/') => char::from(*byte),
        _ => return None,
    };
    Some((2, meant))
}

fn unicode_escape(text: &str) -> Option<(usize, char)> {
    let unit = |at: usize| u16::from_str_radix(text.get(at + 2..at + 6)?, 16).ok();
    let first = unit(0)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((6, character));
    }
    let second = text.get(6..8).filter(|escape| *escape == "\\u").and_then(|_| unit(6))?;
    Some((12, char::decode_utf16([first, second]).next()?.ok()?))
}

/// Reads the entity at the start of `text`.
fn entity(text: &str) -> Option<(usize, char)> {
    /// The length of the longest entity.
    const MAX_LEN: usize = 10;
    let known = text.as_bytes().get(..text.len().min(MAX_LEN))?;
    let end = memchr::memchr(b';', known)?;
    let written = text.get(..=end)?;
    let meant = match text.get(1..end)?.strip_prefix('#') {
        None => ENTITIES.iter().find(|(known, _)| known.eq_ignore_ascii_case(written))?.1,
        Some(number) => char::from_u32(match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        })?,
    };
    Some((end + 1, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotations(texts: &[&str]) -> Quotations {
        Quotations { unread: texts.iter().map(|&text| text.to_owned()).collect(), ..Default::default() }
    }

    fn repeated(texts: &[&str], pieces: &[&str]) -> usize {
        let mut quotations = quotations(texts);
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

    /// How many bytes are searched for a call with this source, which arrives by characters.
    fn searched(text: &str, source: &str) -> usize {
        let mut quotations = quotations(&[text]);
        let mut trace = Trace::default();
        let mut buffer = [0; 4];
        for piece in source.chars() {
            if !quotations.follow(&mut trace, piece.encode_utf8(&mut buffer)) {
                break;
            }
        }
        assert!(!quotations.is_exceeded());
        quotations.searched
    }

    #[test]
    fn call_costs_one_search_of_the_results() {
        let call = r#"<tool_call>{"name":"f","arguments":{"x":"1"}}</tool_call>"#;
        let prefixes = |count: usize| -> String {
            (0..count).map(|n| format!("{} ", head(call, n % (call.len() + 1)))).collect()
        };
        let openers = |count: usize| "<tool_call>".repeat(count);
        let numbered =
            |count: usize| -> String { (0..count).map(|n| call.replace('1', &n.to_string())).collect() };
        let nested =
            |count: usize| -> String { (0..count).map(|n| format!("{}x", "<a>".repeat(n % 99))).collect() };
        let other = call.replace("\"1\"", "\"9999999\"");
        let deep = "<a>".repeat(200);
        for (text, source) in [
            (openers(100_000), call),
            (openers(100_000), &openers(200_000)),
            (prefixes(2_000), call),
            (numbered(10_000), &other),
            (nested(2_000), &deep),
        ] {
            let searched = searched(&text, source);
            assert!(searched <= 2 * text.len() + 2 * source.len(), "{searched} of {}", text.len());
        }
    }

    #[test]
    fn every_call_repeats_a_text_if_there_is_too_much_to_search() {
        let mut quotations = quotations(&["<a>1"]);
        let miss = |quotations: &mut Quotations| quotations.follow(&mut Trace::default(), "<b>");
        let misses = (0..10_000).take_while(|_| !miss(&mut quotations)).count();
        assert!((200..2_000).contains(&misses), "{misses}");
        assert!(quotations.is_exceeded() && !quotations.is_empty());
        assert!(miss(&mut quotations));
    }

    #[test]
    fn kept_texts_are_bounded() {
        let text = |len: usize| "a\r\n\\n".repeat(len / 5);
        let mut kept = quotations(&[&text(MAX_KEPT / 8)]);
        assert!(!kept.follow(&mut Trace::default(), "<b>"));
        assert!((MAX_KEPT / 4..=MAX_KEPT).contains(&kept.readings.len()));
        let mut kept = quotations(&[&text(MAX_KEPT / 2)]);
        assert!(kept.follow(&mut Trace::default(), "<b>"));
        assert_eq!((kept.is_exceeded(), kept.readings.capacity()), (true, 0));
    }

    #[test]
    fn numeric_entities_are_decoded() {
        assert_eq!(
            repeated(&["&#123;&#x22;a&#X22;&#125; &#55296; &#; &lt"], &[r#"{"a"} &#55296; &#; &lt"#]),
            1
        );
    }
}
