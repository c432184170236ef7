//! [`Values`]: splits the text of v1's tool channels into payloads.
//!
//! In v1, tool calls and results arrive as text: a JSON object in several pieces, several objects in one
//! piece, or results that are not JSON (docs/protocols/lumo.md#v1-stream). Only the JSON syntax and the end
//! of the segment separate the payloads.

use crate::{
    failure::{Failure, Kind},
    wire::json::{MAX_DEPTH, Progress, Scanner, Unescaper},
};

/// How to treat text outside of the JSON on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    /// Dropped: it consists of quotes, commas and brackets around calls.
    Noise,
    /// Treated as a payload that extends to the end of the segment: it is a result in plain text.
    Prose,
}

#[derive(Debug)]
pub(super) struct Values {
    outside: Outside,
    state: State,
    text: String,
    max_text: usize,
    broken: u64,
    unescaper: Unescaper,
    scratch: String,
}

#[derive(Debug)]
enum State {
    Between,
    Json(Scanner),
    Prose,
    /// Inside a call that is not valid JSON, until its brackets are closed. Objects within it are not calls.
    Broken(Nesting),
}

/// The approximate nesting depth in text that is not valid JSON.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Skips to the point where the last bracket is closed. Returns the text after it.
    fn skip<'r>(&mut self, text: &'r str) -> Option<&'r str> {
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return text.get(at + 1..);
                    }
                }
                _ => {}
            }
            self.in_string ^= byte == b'"' && !self.escaped;
            self.escaped = self.in_string && byte == b'\\' && !self.escaped;
        }
        None
    }
}

impl Values {
    /// Creates a splitter for one channel, on which payloads may have up to `max_text` bytes.
    pub(super) fn new(outside: Outside, max_text: usize) -> Self {
        Self {
            outside,
            state: State::Between,
            text: String::new(),
            max_text,
            broken: 0,
            unescaper: Unescaper::new(),
            scratch: String::new(),
        }
    }

    /// Handles the next piece, which is the raw body of a JSON string, and calls `on` with each payload that
    /// it completes.
    ///
    /// # Errors
    /// A payload exceeds the limit.
    pub(super) fn push(&mut self, body: &str, mut on: impl FnMut(&str)) -> Result<(), Failure> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut rest = self.unescaper.decode(body, &mut scratch);
        if rest.len() > self.max_text.saturating_sub(self.text.len()) {
            let message = format!("the upstream sent a tool payload of more than {} bytes", self.max_text);
            return Err(Failure::new(Kind::Protocol, message));
        }
        while !rest.is_empty() {
            rest = self.step(rest, &mut on);
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Ends the segment, and with it a plain-text payload. An incomplete call is dropped and counted.
    pub(super) fn end(&mut self, mut on: impl FnMut(&str)) {
        if let Some(half) = self.unescaper.finish() {
            self.text.push(half);
        }
        match (&self.state, self.outside) {
            (State::Between | State::Broken(_), _) => {}
            (State::Json(_), Outside::Noise) => self.broken += 1,
            (State::Json(_) | State::Prose, _) => on(&self.text),
        }
        self.state = State::Between;
        self.text.clear();
    }

    /// Whether the current payload lasts to the end of the segment.
    pub(super) fn is_prose(&self) -> bool {
        matches!(self.state, State::Prose)
    }

    /// Number of payloads that were not JSON on a channel on which only JSON is valid.
    pub(super) fn broken(&self) -> u64 {
        self.broken
    }

    /// Reads up to the end of `rest` or of a payload. Returns the remaining text.
    fn step<'r>(&mut self, rest: &'r str, on: &mut impl FnMut(&str)) -> &'r str {
        match &mut self.state {
            State::Between => self.begin(rest),
            State::Prose => {
                self.text.push_str(rest);
                ""
            }
            State::Broken(nesting) => {
                let Some(rest) = nesting.skip(rest) else { return "" };
                self.state = State::Between;
                rest
            }
            State::Json(scanner) => {
                let (taken, progress) = scan(scanner, rest, self.outside, &mut self.text);
                let rest = rest.get(taken..).unwrap_or_default();
                match (progress, self.outside) {
                    (Progress::More, _) => return "",
                    (Progress::End, _) => on(&self.text),
                    (_, Outside::Noise) => {
                        self.broken += 1;
                        let mut nesting = Nesting::default();
                        nesting.skip(&self.text);
                        self.text.clear();
                        self.state = State::Broken(nesting);
                        return rest;
                    }
                    (_, Outside::Prose) => {
                        self.state = State::Prose;
                        return rest;
                    }
                }
                self.state = State::Between;
                self.text.clear();
                rest
            }
        }
    }

    fn begin<'r>(&mut self, rest: &'r str) -> &'r str {
        let rest = match self.outside {
            Outside::Noise => rest.find('{').and_then(|at| rest.get(at..)).unwrap_or_default(),
            Outside::Prose => rest.trim_ascii_start(),
        };
        match rest.bytes().next() {
            None => {}
            Some(b'{' | b'[') => self.state = State::Json(Scanner::new(MAX_DEPTH)),
            Some(_) => self.state = State::Prose,
        }
        rest
    }
}

/// Scans `rest` and appends what it consumes to `text`. Returns the number of bytes consumed. Control
/// characters in the strings of calls are escaped, because models write raw line breaks there.
fn scan(scanner: &mut Scanner, rest: &str, outside: Outside, text: &mut String) -> (usize, Progress) {
    let mut at = 0;
    loop {
        let ahead = rest.get(at..).unwrap_or_default();
        let run = ahead.bytes().position(|byte| byte < b' ').filter(|_| outside == Outside::Noise);
        let (plain, control) = ahead.split_at_checked(run.unwrap_or(ahead.len())).unwrap_or((ahead, ""));
        let (taken, progress) = scanner.push(plain.as_bytes());
        text.push_str(plain.get(..taken).unwrap_or_default());
        at += taken;
        let Some(byte) = control.bytes().next().filter(|_| progress == Progress::More) else {
            return (at, progress);
        };
        let mut as_it_is = scanner.clone();
        if as_it_is.push(&[byte]).1 == Progress::Invalid {
            let escaped = format!("\\u{byte:04x}");
            if scanner.push(escaped.as_bytes()).1 == Progress::Invalid {
                return (at, Progress::Invalid);
            }
            text.push_str(&escaped);
        } else {
            *scanner = as_it_is;
            text.push(char::from(byte));
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payloads in one segment that arrives as `pieces`, and the number of invalid ones.
    fn split(outside: Outside, pieces: &[&str]) -> (Vec<String>, u64) {
        let mut values = Values::new(outside, 1000);
        let mut found = Vec::new();
        for piece in pieces {
            values.push(piece, |text| found.push(text.to_owned())).unwrap();
        }
        values.end(|text| found.push(text.to_owned()));
        (found, values.broken())
    }

    #[test]
    fn objects_are_found_among_noise() {
        let text = r#"\"x\"}, [{\"a\":1},\n{\"b\":\"}{\\\"\"}] \" {bad} {\"c\":{}}"#;
        let (found, broken) = split(Outside::Noise, &[text]);
        assert_eq!(found, [r#"{"a":1}"#, r#"{"b":"}{\""}"#, r#"{"c":{}}"#]);
        assert_eq!(broken, 1);
    }

    #[test]
    fn object_inside_a_broken_payload_is_not_a_payload() {
        let (found, broken) = split(Outside::Noise, &[r#"{\"a\":bad,\"b\":{\"c\":\"}\"}} {\"d\":1}"#]);
        assert_eq!((found, broken), (vec![r#"{"d":1}"#.to_owned()], 1));
    }

    #[test]
    fn control_characters_in_strings_are_escaped() {
        let (found, broken) = split(Outside::Noise, &[r#"{\n\"a\":\"b\nc\u0000\"}"#]);
        assert_eq!((found, broken), (vec!["{\n\"a\":\"b\\u000ac\\u0000\"}".to_owned()], 0));
    }

    #[test]
    fn payloads_do_not_depend_on_cuts() {
        for (outside, text) in [
            (Outside::Noise, r#" x{\"a\":\"\u00e9{\"}{}[{\"b\":[1]}]"#),
            (Outside::Prose, r#" {\"a\":\"\u00e9{\"}{}[1] plain {words}"#),
            (Outside::Prose, r#"{no json} at all"#),
        ] {
            let whole = split(outside, &[text]);
            for at in 0..=text.len() {
                let (head, tail) = text.split_at(at);
                assert_eq!(split(outside, &[head, tail]), whole, "{text} cut at {at}");
            }
        }
    }

    #[test]
    fn plain_text_payload_lasts_to_the_end_of_the_segment() {
        let (found, _) = split(Outside::Prose, &["{}", "plain ", "words {}"]);
        assert_eq!(found, ["{}", "plain words {}"]);
        assert_eq!(split(Outside::Prose, &[r#"{\"cut\":"#]).0, [r#"{"cut":"#]);
        assert_eq!(split(Outside::Prose, &["  "]).0, [""; 0]);
    }

    #[test]
    fn payloads_are_bounded() {
        let mut values = Values::new(Outside::Prose, 10);
        assert!(values.push("12345678", |_| {}).is_ok());
        assert!(values.push("901", |_| {}).is_err());
    }
}
