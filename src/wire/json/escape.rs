//! String bodies, decoded and written: what stands between the quotes of a JSON string.

use bytes::{BufMut, BytesMut};
use memchr::memchr;

/// Decodes string bodies that come in pieces, cut anywhere, also inside an escape.
///
/// A pair of surrogates may be split over two events of a stream, each of which is a JSON text of its own: the first
/// half is carried. A half without its other one becomes U+FFFD, the only thing it can be in UTF-8.
#[derive(Debug, Clone, Default)]
pub struct Unescaper {
    escape: Escape,
    /// A first half whose second one has not come.
    high: Option<u16>,
}

/// Where a piece was cut.
#[derive(Debug, Clone, Copy, Default)]
enum Escape {
    /// Not inside an escape.
    #[default]
    Outside,
    /// Behind a backslash.
    Begun,
    /// Inside `\u`: the digits so far.
    Hex { digits: u8, unit: u16 },
}

impl Unescaper {
    /// A decoder at the start of a string.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the next piece of a valid string body: borrowed from `body` if there is nothing to decode, else put into
    /// `scratch`. (In a body that is not valid an unknown escape stands for its letter.)
    pub fn decode<'b>(&mut self, body: &'b str, scratch: &'b mut String) -> &'b str {
        let carried = self.high.is_some() || !matches!(self.escape, Escape::Outside);
        if !carried && memchr(b'\\', body.as_bytes()).is_none() {
            return body;
        }
        scratch.clear();
        let mut rest = body;
        while !rest.is_empty() {
            rest = self.step(rest, scratch);
        }
        scratch
    }

    /// The string has ended: U+FFFD for a half of a pair that is still alone.
    pub fn finish(&mut self) -> Option<char> {
        self.escape = Escape::Outside;
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER)
    }

    /// Decodes a run without escapes or one character of an escape; gives the rest.
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

    /// Takes the next character of an escape.
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

    /// Takes a UTF-16 code unit.
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

/// What a backslash and `char` stand for.
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

/// Writes `text` as the body of a JSON string, without the quotes: quote, backslash and control characters escaped, all
/// else as it is.
pub fn escape_into(out: &mut BytesMut, text: &str) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len());
    while let Some(end) = rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        let (run, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        out.put_slice(run);
        let Some((byte, tail)) = tail.split_first() else { return };
        escape_byte(out, *byte);
        rest = tail;
    }
    out.put_slice(rest);
}

fn escape_byte(out: &mut BytesMut, byte: u8) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x8 => b'b',
        0xc => b'f',
        _ => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.put_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            return;
        }
    };
    out.put_slice(&[b'\\', letter]);
}
