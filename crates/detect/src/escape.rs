//! [`Escape`]: reads one escape of a JSON string, character by character.
//!
//! A surrogate pair is read as one escape, so that the output is always valid text. Text that turns out not to be
//! an escape is returned as written, and the character that revealed this is read again.

use super::text::{head, tail};

const HIGH: std::ops::Range<u16> = 0xd800..0xdc00;

/// The current escape from its backslash on. Empty between escapes.
#[derive(Debug, Clone, Default)]
pub(super) struct Escape {
    written: String,
}

/// The result of reading a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    More,
    /// The escape is complete and stands for this text. An unpaired surrogate is returned as written.
    Whole(String),
    /// An unpaired surrogate, as written. The current character is not part of it and must be read again.
    Half(String),
    /// Not an escape, but this text. The current character is not included and must be read again.
    None(String),
}

impl Escape {
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    pub(super) fn written(&self) -> &str {
        &self.written
    }

    /// Reads the next character. The first one must be the backslash.
    pub(super) fn read(&mut self, character: char) -> Read {
        let place = self.written.len();
        let expected = match place {
            0 | 6 => character == '\\',
            1 => character == 'u' || simple(character).is_some(),
            7 => character == 'u',
            _ => character.is_ascii_hexdigit(),
        };
        if !expected {
            return self.broken();
        }
        self.written.push(character);
        match self.written.len() {
            2 if character != 'u' => self.whole(simple(character)),
            6 if !HIGH.contains(&self.unit(2)) => self.whole(char::from_u32(self.unit(2).into())),
            12 => match char::decode_utf16([self.unit(2), self.unit(8)]).next() {
                Some(Ok(pair)) => self.whole(Some(pair)),
                _ => self.two(),
            },
            _ => Read::More,
        }
    }

    fn whole(&mut self, character: Option<char>) -> Read {
        let written = std::mem::take(&mut self.written);
        Read::Whole(character.map_or(written, String::from))
    }

    /// Handles two escapes that are not a pair. The first is returned as written, and the second may be the high
    /// half of a pair.
    fn two(&mut self) -> Read {
        let (first, second) = (head(&self.written, 6).to_owned(), tail(&self.written, 6).to_owned());
        match char::from_u32(self.unit(8).into()) {
            Some(character) => {
                self.written.clear();
                Read::Whole(first + character.encode_utf8(&mut [0; 4]))
            }
            None => {
                self.written = second;
                Read::Whole(first)
            }
        }
    }

    /// Returns the code unit whose four digits start at `at`.
    fn unit(&self, at: usize) -> u16 {
        let digits = self.written.get(at..at + 4).unwrap_or_default();
        u16::from_str_radix(digits, 16).unwrap_or_default()
    }

    /// Handles a character that cannot continue the escape. Returns the text before it, or the first half of a
    /// pair.
    fn broken(&mut self) -> Read {
        let written = std::mem::take(&mut self.written);
        if written.len() < 6 {
            return Read::None(written);
        }
        self.written.push_str(tail(&written, 6));
        Read::Half(head(&written, 6).to_owned())
    }
}

fn simple(letter: char) -> Option<char> {
    Some(match letter {
        '"' | '\\' | '/' => letter,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the content of a string. Invalid escapes are put in brackets.
    fn decoded(text: &str) -> String {
        let mut escape = Escape::default();
        let mut out = String::new();
        for character in text.chars() {
            loop {
                if escape.is_empty() && character != '\\' {
                    out.push(character);
                    break;
                }
                match escape.read(character) {
                    Read::More => break,
                    Read::Whole(text) => {
                        out.push_str(&text);
                        break;
                    }
                    Read::Half(text) => out.push_str(&text),
                    Read::None(text) => out.push_str(&format!("[{text}]")),
                }
            }
        }
        out + escape.written()
    }

    #[test]
    fn valid_escapes_are_decoded_and_invalid_ones_returned_as_written() {
        for (written, wanted) in [
            (r#"\"\\\/ \b\f\n\r\t"#, "\"\\/ \u{8}\u{c}\n\r\t"),
            (r"\u00e9\u65E5 \ud83d\ude00", "é日 😀"),
            (r"\q \' \é", r"[\]q [\]' [\]é"),
            (r"\u12 \u00é \u", r"[\u12] [\u00]é \u"),
            (r"\ud83d!\ude00", r"\ud83d!\ude00"),
            (r"\ud83d\n\ud83d\u0041", "\\ud83d\n\\ud83dA"),
            (r"\ud83d\ud83d\ude00", r"\ud83d😀"),
            (r"\ud83d\u00z", r"\ud83d[\u00]z"),
            (r"\ud83d\", r"\ud83d\"),
        ] {
            assert_eq!(decoded(written), wanted, "{written}");
        }
    }
}
