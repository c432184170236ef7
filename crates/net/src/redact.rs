//! [`Redactor`]: masks secrets in recordings, logs and forwarded error messages.
//!
//! It masks the configured secrets and any text that looks like a key. Each byte of a secret is replaced with an `x`,
//! so that lengths and the timing of recorded pieces stay accurate.

mod pieces;
mod spread;

use std::{borrow::Cow, collections::VecDeque, ops::Range, sync::Arc};

use parking_lot::RwLock;
use regex::bytes::Regex;
use serde_json::Value;

pub use self::pieces::Pieces;
use crate::failure::Redact;

/// Patterns of secrets. The first group is masked. A key may directly follow a JSON escape (`\nsk-…`), whose last
/// character looks like a letter. Members may be inside a JSON string, so their quotes may be escaped with backslashes.
const PATTERNS: [&str; 5] = [
    r"(?i-u)\bbearer[ \t]+((?:[a-z0-9._~+/=-]|\\/){8,})",
    concat!(
        r"(?-u)(?:\A|\W|\\[bfnrt]|\\u[0-9A-Fa-f]{4})",
        r"((?:sk-|(?:sk|pk|rk|gsk|hf|ghp|gho|ghs|xox[abp]|github_pat|glpat|nvapi|xai|pplx|r8)[-_][A-Za-z0-9_-]{4})",
        r"[A-Za-z0-9_-]{8,})",
    ),
    r"(?-u)(?:\A|\W|\\[bfnrt]|\\u[0-9A-Fa-f]{4})((?:AIza|AKIA|eyJ)[A-Za-z0-9_.-]{16,})",
    concat!(
        r#"(?i-u)"[a-z0-9_-]*(?:api[_-]?key|authorization|access[_-]?token|refresh[_-]?token|password|passwd|"#,
        r#"secret|cookie)"\s*:\s*"((?:[^"\\]|\\.)+)"#
    ),
    concat!(
        r#"(?i-u)"[a-z0-9_-]*(?:api[_-]?key|authorization|access[_-]?token|refresh[_-]?token|password|passwd|"#,
        r#"secret|cookie)\\+"\s*:\s*\\+"([^"\\]+)"#
    ),
];

/// Minimum length of a configured secret that is masked, in bytes. Shorter values (`none`, `EMPTY`, `key`) are
/// placeholders or ordinary words.
const SHORTEST: usize = 6;

/// Maximum number of bytes of an unfinished line that are held back. If the line is longer, only its last [`WINDOW`]
/// bytes are held back.
const LONGEST_LINE: usize = 256 << 10;

/// Number of bytes at the end of a long unfinished line that may be the start of a secret.
const WINDOW: usize = 16 << 10;

/// Finds and masks secrets. `Debug` does not print them.
#[derive(Clone)]
pub struct Redactor {
    patterns: Vec<Regex>,
    /// Number of patterns for configured secrets, which come first.
    configured: usize,
    secrets: Arc<[Box<str>]>,
    /// In bytes.
    longest: usize,
    /// Secrets that were learned at run time, oldest first. Clones share them.
    learned: Arc<RwLock<VecDeque<LearnedSecret>>>,
}

#[derive(Clone)]
struct LearnedSecret {
    secret: Box<str>,
    pattern: Regex,
}

/// Maximum number of learned secrets. Beyond it, the oldest are dropped, because they are no longer valid.
const MAX_LEARNED: usize = 64;

impl Redactor {
    /// Creates a redactor that masks `secrets` in any escaped form, keys in well-known formats, and the values of
    /// members whose names suggest a secret.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let patterns = PATTERNS.iter().filter_map(|pattern| Regex::new(pattern).ok());
        // Each secret has its own pattern, since a combined one could exceed the size limit. Each line of a secret has
        // its own pattern too, since a text may contain only some of the lines, with any kind of line ending.
        let lines = secrets.into_iter().flat_map(|secret| secret.split(['\n', '\r']));
        let secrets: Vec<_> = lines.filter(|secret| secret.len() >= SHORTEST).collect();
        let longest = secrets.iter().map(|secret| secret.len()).max().unwrap_or(0);
        let own: Vec<_> = secrets.iter().filter_map(|secret| Regex::new(&pattern_of(secret)).ok()).collect();
        let configured = own.len();
        let patterns = own.into_iter().chain(patterns).collect();
        let secrets = secrets.into_iter().map(Box::from).collect();
        Self { patterns, configured, secrets, longest, learned: Arc::default() }
    }

    /// Returns a redactor for only the configured secrets. Use it for text that must otherwise stay unchanged, even if
    /// some of it looks like a key.
    pub fn of_configured(&self) -> Self {
        Self { patterns: self.patterns.iter().take(self.configured).cloned().collect(), ..self.clone() }
    }

    /// Returns a redactor with different configured secrets. It shares the learned secrets with this one.
    pub fn with_configured<'s>(&self, secrets: impl IntoIterator<Item = &'s str>) -> Self {
        Self { learned: Arc::clone(&self.learned), ..Self::new(secrets) }
    }

    /// Masks `secret` from now on, like a configured secret.
    pub fn learn(&self, secret: &str) {
        let is_known =
            |learned: &VecDeque<LearnedSecret>| learned.iter().any(|known| *known.secret == *secret);
        if secret.len() < SHORTEST || is_known(&self.learned.read()) {
            return;
        }
        let Ok(pattern) = Regex::new(&pattern_of(secret)) else { return };
        let mut learned = self.learned.write();
        if learned.len() == MAX_LEARNED {
            learned.pop_front();
        }
        learned.push_back(LearnedSecret { secret: secret.into(), pattern });
    }

    /// Returns how many bytes at the end of `text`, which is still incomplete, may be the start of a configured secret.
    /// Does not recognize escaped secrets.
    pub fn begun_in(&self, text: &str) -> usize {
        let learned = self.learned.read();
        let secrets = self.secrets.iter().chain(learned.iter().map(|learned| &learned.secret));
        let begun = |secret: &str| {
            let most = text.len().min(secret.len() - 1);
            let is_end = |length: &usize| {
                secret.as_bytes().get(..*length).is_some_and(|begin| text.as_bytes().ends_with(begin))
            };
            (1..=most).rev().find(is_end)
        };
        secrets.filter_map(|secret| begun(secret)).max().unwrap_or(0)
    }

    /// The length of the longest configured secret, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns `text` with its secrets masked. Borrows if there are none.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let found = self.find(text.as_bytes());
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut covered = text.as_bytes().to_vec();
        found.into_iter().for_each(|range| cover_range(&mut covered, range));
        // Only complete characters are masked, so this cannot fail.
        String::from_utf8(covered).unwrap_or_else(|_| "x".repeat(text.len())).into()
    }

    /// Masks the secrets in `bytes`.
    pub fn cover(&self, bytes: &mut [u8]) {
        self.find(bytes).into_iter().for_each(|range| cover_range(bytes, range));
    }

    /// Masks the secrets in all strings in `value`.
    pub fn cover_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(covered) = self.text(text) {
                    *text = covered;
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.cover_json(element)),
            Value::Object(members) => members.values_mut().for_each(|member| self.cover_json(member)),
            _ => {}
        }
    }

    /// Returns how many bytes at the start of `bytes`, which are still incomplete, can be masked now because no secret
    /// that starts in them continues after them. That covers every complete line, since no secret contains a line
    /// ending. If the incomplete last line is very long, it also covers everything but the end of that line.
    pub fn settled(&self, bytes: &[u8]) -> usize {
        let lines = memchr::memrchr2(b'\n', b'\r', bytes).map_or(0, |at| at + 1);
        if bytes.len() - lines <= LONGEST_LINE {
            return lines;
        }
        let end = bytes.len() - WINDOW;
        let across = self.find(bytes).into_iter().filter(|range| range.start < end && range.end > end);
        // A match this long cannot be a secret, so it does not hold back the text.
        across.map(|range| range.start).min().filter(|start| *start > lines).unwrap_or(end)
    }

    /// Returns the ranges of secrets, which may overlap.
    pub fn find(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found = self.find_written(bytes);
        if let Some(unescaped) = Unescaped::of(bytes) {
            let ranges = self.find_written(&unescaped.bytes);
            found.extend(ranges.into_iter().map(|range| unescaped.original(range)));
        }
        found
    }

    fn find_written(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let matches = |pattern: &Regex| -> Vec<Range<usize>> {
            let groups = pattern.captures_iter(bytes).filter_map(|found| Some(found.get(1)?.range()));
            groups.map(|range| behind_escape(bytes, range)).collect()
        };
        let learned = self.learned.read();
        let learned = learned.iter().map(|learned| &learned.pattern);
        self.patterns.iter().chain(learned).flat_map(matches).collect()
    }
}

crate::wire::debug_fields!(Redactor {});

/// A text with each `\u` escape replaced with its character. In JSON, a secret may contain such escapes
/// (RFC 8259, section 7). In JSON inside a JSON string, each escape has several backslashes.
struct Unescaped {
    bytes: Vec<u8>,
    /// For each escape, the range of its character in `bytes`, and the range of the escape in the original text.
    escapes: Vec<(Range<usize>, Range<usize>)>,
}

impl Unescaped {
    fn of(text: &[u8]) -> Option<Self> {
        memchr::memmem::find(text, br"\u")?;
        let mut unescaped = Self { bytes: Vec::with_capacity(text.len()), escapes: Vec::new() };
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let plain = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
            unescaped.bytes.extend_from_slice(rest.get(..plain).unwrap_or_default());
            let escape = rest.get(plain..).unwrap_or_default();
            at += plain;
            if let Some((char, length)) = escaped_char(escape) {
                let start = unescaped.bytes.len();
                unescaped.bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                unescaped.escapes.push((start..unescaped.bytes.len(), at..at + length));
                at += length;
            } else {
                // Skips all backslashes at once, so that no byte is examined twice.
                let backslashes = escape.iter().take_while(|byte| **byte == b'\\').count();
                unescaped.bytes.extend_from_slice(escape.get(..backslashes).unwrap_or_default());
                at += backslashes;
            }
        }
        (!unescaped.escapes.is_empty()).then_some(unescaped)
    }

    /// Converts `range` to a range in the original text, which contains only complete escapes.
    fn original(&self, range: Range<usize>) -> Range<usize> {
        let place = |at: usize, is_end: bool| {
            let before = self.escapes.partition_point(|(own, _)| own.start < at);
            match before.checked_sub(1).and_then(|before| self.escapes.get(before)) {
                None => at,
                Some((own, written)) if at < own.end => {
                    if is_end {
                        written.end
                    } else {
                        written.start
                    }
                }
                Some((own, written)) => written.end + (at - own.end),
            }
        };
        place(range.start, false)..place(range.end, true)
    }
}

/// Returns the character of the escape at the start of `bytes`, and the length of the escape.
fn escaped_char(bytes: &[u8]) -> Option<(char, usize)> {
    let (first, length) = escaped_unit(bytes)?;
    if let Some(char) = char::from_u32(first.into()) {
        return Some((char, length));
    }
    let (second, more) = escaped_unit(bytes.get(length..)?)?;
    let char = char::decode_utf16([first, second]).next()?.ok()?;
    Some((char, length + more))
}

/// Parses one UTF-16 code unit, written as `\uXXXX` with one or more backslashes.
fn escaped_unit(bytes: &[u8]) -> Option<(u16, usize)> {
    let backslashes = bytes.iter().take_while(|byte| **byte == b'\\').count();
    let digits = bytes.get(backslashes..)?.strip_prefix(b"u")?.get(..4)?;
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|_| backslashes > 0 && digits.iter().all(u8::is_ascii_hexdigit))?;
    Some((u16::from_str_radix(digits, 16).ok()?, backslashes + 5))
}

/// Returns a pattern for all forms that a secret can have in JSON, in JSON inside a JSON string, and in a URL, except
/// `\u` escapes.
fn pattern_of(secret: &str) -> String {
    let byte = |byte: u8| {
        let plain = regex::escape(char::from(byte).encode_utf8(&mut [0; 4]));
        let written = match byte {
            b'"' | b'/' => format!(r"\\*{plain}"),
            b'\\' => r"\\+".to_owned(),
            0x80.. => format!(r"\x{byte:02x}"),
            _ => plain,
        };
        format!(r"(?:{written}|%(?i:{byte:02x}))")
    };
    format!("(?-u)({})", secret.bytes().map(byte).collect::<String>())
}

/// If a match starts with the letter of a JSON escape (the `n` of `\n`, for a secret that starts with `n`), moves its
/// start past that letter, because masking the letter would make the JSON invalid.
fn behind_escape(bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let before = bytes.get(..range.start).unwrap_or_default();
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    let begins_with_escape = bytes.get(range.start).is_some_and(|byte| b"\\\"/".contains(byte));
    match backslashes % 2 {
        1 if !begins_with_escape => range.start + 1..range.end,
        _ => range,
    }
}

fn cover_range(bytes: &mut [u8], range: Range<usize>) {
    if let Some(secret) = bytes.get_mut(range) {
        secret.fill(b'x');
    }
}

impl Redact for Redactor {
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cover(text: &str) -> String {
        Redactor::new([]).text(text).into_owned()
    }

    #[test]
    fn every_line_of_a_secret_is_covered_alone() {
        let redactor = Redactor::new(["-----BEGIN-----\nfirst-line\r\nsecond-line\n"]);
        let text = r#"{"a":"first-line\nsecond-line"} second-line"#;
        assert_eq!(redactor.text(text), r#"{"a":"xxxxxxxxxx\nxxxxxxxxxxx"} xxxxxxxxxxx"#);
    }

    #[test]
    fn all_patterns_compile() {
        assert_eq!(Redactor::new([]).patterns.len(), PATTERNS.len());
        assert_eq!(Redactor::new(["secret", "none", r#"a"\/.*[é"#]).patterns.len(), PATTERNS.len() + 2);
    }

    #[test]
    fn secrets_are_covered_and_lengths_kept() {
        for (text, covered) in [
            ("authorization: Bearer abcdef123456", "authorization: Bearer xxxxxxxxxxxx"),
            ("key sk-proj-abcdefghijkl, sorry", "key xxxxxxxxxxxxxxxxxxxx, sorry"),
            (r"key:\nsk-proj-abcdefghijkl", r"key:\nxxxxxxxxxxxxxxxxxxxx"),
            (r"sk-abcdef12\nsk-abcdef34", r"xxxxxxxxxxx\nxxxxxxxxxxx"),
            (r#"{"api_key": "hunter2", "a": 1}"#, r#"{"api_key": "xxxxxxx", "a": 1}"#),
            (r#"{"password":"a\"bc\\","b":"c"}"#, r#"{"password":"xxxxxxx","b":"c"}"#),
            (
                r#"{"arguments":"{\"password\":\"hunter2\"}"}"#,
                r#"{"arguments":"{\"password\":\"xxxxxxx\"}"}"#,
            ),
        ] {
            assert_eq!(cover(text), covered);
        }
    }

    #[test]
    fn text_without_secrets_is_unchanged() {
        for text in [
            r#"{"max_tokens": 100, "model": "lumo-max"}"#,
            r#"{"properties": {"password": {"type": "string"}}}"#,
            "the bearer of this letter",
            "naïve 日本 task-oriented risk-averse-person",
        ] {
            assert_eq!(cover(text), text);
        }
    }

    #[test]
    fn configured_secrets_are_covered_in_every_escaped_form() {
        let secret = r#"p/a"s\s-w0rd"#;
        let redactor = Redactor::new([secret]);
        let json = serde_json::to_string(secret).unwrap();
        let nested = serde_json::to_string(&json).unwrap();
        for written in [
            secret.to_owned(),
            json.trim_matches('"').to_owned(),
            nested.trim_matches('"').trim_matches('\\').trim_matches('"').trim_end_matches('\\').to_owned(),
            json.trim_matches('"').replace('/', r"\/"),
            secret.bytes().map(|byte| format!("\\u00{byte:02X}")).collect(),
            secret.replace('/', "%2F").replace('"', "%22"),
        ] {
            let covered = redactor.text(&format!("<{written}>")).into_owned();
            assert_eq!(covered, format!("<{}>", "x".repeat(written.len())), "{written}");
        }
    }

    #[test]
    fn beginning_of_a_secret_is_found_at_the_end_of_a_text() {
        let redactor = Redactor::new(["sésame-open", "session-key"]);
        redactor.learn("learned-later");
        for (text, begun) in [
            ("the key is sésa", 5),
            ("the key is ses", 3),
            ("sésame-open", 0),
            ("sésame-open s", 1),
            ("a learned-late", 12),
            ("session-keys", 1),
            ("plain", 0),
            ("", 0),
        ] {
            assert_eq!(redactor.begun_in(text), begun, "{text}");
        }
    }

    #[test]
    fn secrets_with_unicode_escapes_are_covered() {
        let redactor = Redactor::new(["pässword-😀-1", "plain-secret"]);
        for (before, secret, behind) in [
            (r#"{"a":""#, r"p\u00e4ssword-\uD83D\ude00-1", r#""}"#),
            (r#"{"a":"{\"b\":\""#, r"p\\u00E4ssword-😀-1", r#"\"}"}"#),
            (r"\u0041", r"plain\u002dsecret", r"\u0042"),
            (r"é\u00e9 ", r"plain-secre\u0074", ""),
            ("key ", r"s\u006b-proj-abcdefghijkl", "."),
            (r#"{"pass\u0077ord":""#, "hunter2", r#""}"#),
            (r"\uD83D\u0041 \u00g1 \u00", "", ""),
            (r"\\\", "", ""),
        ] {
            let covered = format!("{before}{}{behind}", "x".repeat(secret.len()));
            assert_eq!(redactor.text(&format!("{before}{secret}{behind}")), covered);
        }
    }

    #[test]
    fn an_escape_before_a_covered_match_stays_valid_json() {
        let covered = Redactor::new(["n0-secret-here"]).text(r#""line\n0-secret-here""#).into_owned();
        assert!(serde_json::from_str::<String>(&covered).unwrap().starts_with("line\n"), "{covered}");
        assert!(!covered.contains("secret"), "{covered}");
    }

    #[test]
    fn bytes_are_settled_at_the_end_of_a_line_and_never_inside_a_secret() {
        let redactor = Redactor::new(["configured-secret"]);
        assert_eq!(redactor.settled(b"data: sk-abc"), 0);
        assert_eq!(redactor.settled(b"data: 1\n\nda"), 9);
        let mut line = vec![b'.'; LONGEST_LINE + WINDOW];
        assert_eq!(redactor.settled(&line), LONGEST_LINE);
        let secret = b"configured-secret";
        line[LONGEST_LINE - 5..LONGEST_LINE - 5 + secret.len()].copy_from_slice(secret);
        assert_eq!(redactor.settled(&line), LONGEST_LINE - 5);
    }
}
