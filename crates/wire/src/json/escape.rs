//! Decodes and writes string bodies, which are the text between the quotes of a JSON string.

use bytes::BufMut;
use memchr::memchr;

use super::search::{has_no_escapes, plain_run};

/// Decodes string bodies that arrive in pieces, which may end anywhere, even inside an escape.
///
/// A stream may split a surrogate pair over two events, each of which is separate JSON, so a high surrogate is
/// carried over. An unpaired surrogate becomes U+FFFD, since UTF-8 cannot represent it.
#[derive(Debug, Clone, Default)]
pub struct Unescaper {
    escape: Escape,
    /// A high surrogate whose low surrogate has not arrived yet.
    high: Option<u16>,
}

/// Where in an escape the last piece ended.
#[derive(Debug, Clone, Copy, Default)]
enum Escape {
    #[default]
    Outside,
    /// After a backslash.
    Begun,
    /// Within `\u`, with the digits so far.
    Hex { digits: u8, unit: u16 },
}

impl Unescaper {
    /// Creates a decoder for the start of a string.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the next piece of a valid string body. The result borrows from `body` if there is nothing to decode,
    /// and otherwise from `scratch`. In an invalid body, an unknown escape stands for its letter.
    pub fn decode<'b>(&mut self, body: &'b str, scratch: &'b mut String) -> &'b str {
        let carried = self.high.is_some() || !matches!(self.escape, Escape::Outside);
        if !carried && has_no_escapes(body) {
            return body;
        }
        scratch.clear();
        let mut rest = body;
        while !rest.is_empty() {
            rest = self.step(rest, scratch);
        }
        scratch
    }

    /// Ends the string. Returns U+FFFD if a surrogate is left unpaired.
    pub fn finish(&mut self) -> Option<char> {
        self.escape = Escape::Outside;
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER)
    }

    /// Decodes either a run without escapes or one character of an escape. Returns what follows.
    fn step<'b>(&mut self, rest: &'b str, out: &mut String) -> &'b str {
        if let Escape::Outside = self.escape {
            let end = memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
            let (run, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
            if !run.is_empty() {
                out.extend(self.high.take().map(|_| char::REPLACEMENT_CHARACTER));
                out.push_str(run);
            }
            let Some(tail) = tail.strip_prefix('\\') else { return tail };
            self.escape = Escape::Begun;
            return tail;
        }
        let mut chars = rest.chars();
        if let Some(char) = chars.next() {
            self.escape = self.escaped(char, out);
        }
        chars.as_str()
    }

    fn escaped(&mut self, char: char, out: &mut String) -> Escape {
        let (digits, unit) = match self.escape {
            Escape::Begun if char == 'u' => return Escape::Hex { digits: 0, unit: 0 },
            Escape::Hex { digits, unit } => (digits, unit),
            Escape::Begun | Escape::Outside => {
                out.extend(self.high.take().map(|_| char::REPLACEMENT_CHARACTER));
                out.push(meaning(char));
                return Escape::Outside;
            }
        };
        let digit = char.to_digit(16).and_then(|digit| u16::try_from(digit).ok()).unwrap_or(0);
        let unit = unit << 4 | digit;
        if digits < 3 {
            return Escape::Hex { digits: digits + 1, unit };
        }
        self.unit(unit, out);
        Escape::Outside
    }

    fn unit(&mut self, unit: u16, out: &mut String) {
        if let Some(high) = self.high.take() {
            if let Some(Ok(char)) = char::decode_utf16([high, unit]).next() {
                out.push(char);
                return;
            }
            out.push(char::REPLACEMENT_CHARACTER);
        }
        match unit {
            0xd800..=0xdbff => self.high = Some(unit),
            _ => out.push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }
}

fn meaning(char: char) -> char {
    match char {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        other => other,
    }
}

/// Writes `text` as the body of a JSON string, without quotes. Only quotes, backslashes and control characters are
/// escaped.
pub fn escape_into(out: &mut impl BufMut, text: &str) {
    let mut rest = text.as_bytes();
    while let Some((run, tail)) = rest.split_at_checked(plain_run(rest)) {
        out.put_slice(run);
        let Some((byte, tail)) = tail.split_first() else { return };
        escape_byte(out, *byte);
        rest = tail;
    }
}

/// Like [`escape_into`], but appends to a string.
pub fn escape_str(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some((run, tail)) = rest.split_at_checked(plain_run(rest.as_bytes())) {
        out.push_str(run);
        let mut tail = tail.chars();
        let Some(special) = tail.next() else { return };
        let byte = u8::try_from(special).unwrap_or_default();
        match letter(byte) {
            Some(letter) => out.extend(['\\', char::from(letter)]),
            None => out.extend(numbered(byte).map(char::from)),
        }
        rest = tail.as_str();
    }
}

fn escape_byte(out: &mut impl BufMut, byte: u8) {
    match letter(byte) {
        Some(letter) => out.put_slice(&[b'\\', letter]),
        None => out.put_slice(&numbered(byte)),
    }
}

fn letter(byte: u8) -> Option<u8> {
    Some(match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x8 => b'b',
        0xc => b'f',
        _ => return None,
    })
}

fn numbered(byte: u8) -> [u8; 6] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
    [b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes all pieces, including a final unpaired surrogate.
    fn decode<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
        let (mut unescaper, mut scratch, mut all) = (Unescaper::new(), String::new(), String::new());
        for piece in pieces {
            all.push_str(unescaper.decode(piece, &mut scratch));
        }
        all.extend(unescaper.finish());
        all
    }

    fn escaped(text: &str) -> String {
        let mut out = bytes::BytesMut::new();
        escape_into(&mut out, text);
        String::from_utf8(out.to_vec()).unwrap()
    }

    proptest! {
        #[test]
        fn escaped_text_is_valid_json_and_round_trips(text in "\\PC{0,6}[\u{0}-\u{24}\\\\\"é😀\u{7f}\u{2028}]{0,12}\\PC{0,40}") {
            let body = escaped(&text);
            prop_assert_eq!(&serde_json::from_str::<String>(&format!("\"{body}\"")).unwrap(), &text);
            prop_assert_eq!(format!("\"{body}\""), serde_json::to_string(&text).unwrap());
            prop_assert_eq!(decode([&*body]), text);
        }

        #[test]
        fn bodies_are_decoded_as_by_serde_json_wherever_they_are_cut(
            body in r#"([a é😀]|\\["\\/bfnrt]|\\u00[0-7][0-9a-fA-F]|\\ud83[dD]\\uDe0[0-9]){0,12}"#,
        ) {
            let text: String = serde_json::from_str(&format!("\"{body}\"")).unwrap();
            for (at, _) in body.char_indices() {
                let (head, tail) = body.split_at(at);
                prop_assert_eq!(&decode([head, tail]), &text);
            }
            let mut characters = body.split("").collect::<Vec<_>>();
            prop_assert_eq!(&decode(characters.drain(..)), &text);
        }

        #[test]
        fn unpaired_surrogates_become_the_replacement_character(
            units in prop::collection::vec(prop_oneof![0xd7fe..0xe002_u16, Just(0xd83d), Just(0xde00), 0x20..0x7f_u16], 0..12),
        ) {
            let expected: String =
                char::decode_utf16(units.iter().copied()).map(|unit| unit.unwrap_or('\u{fffd}')).collect();
            let bodies: Vec<_> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(&decode(bodies.iter().map(String::as_str)), &expected);
            prop_assert_eq!(&decode([&*bodies.concat()]), &expected);
        }
    }

    #[test]
    fn a_surrogate_pair_is_joined_across_two_events() {
        let (mut unescaper, mut scratch) = (Unescaper::new(), String::new());
        assert_eq!(unescaper.decode(r"a\ud83d", &mut scratch), "a");
        assert_eq!(unescaper.decode("", &mut scratch), "");
        assert_eq!(unescaper.decode(r"\ude00", &mut scratch), "😀");
        assert_eq!(unescaper.decode(r"\ud83d", &mut scratch), "");
        assert_eq!(unescaper.decode("b", &mut scratch), "\u{fffd}b");
        let body = "plain";
        assert_eq!(unescaper.decode(body, &mut scratch).as_ptr(), body.as_ptr());
        assert_eq!(unescaper.finish(), None);
    }
}
