//! Text from bytes that are cut anywhere, also inside a character: nothing is lost and nothing is replaced.

use std::{error, fmt, mem};

/// The bytes are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidUtf8 {
    /// Where the first byte that cannot be lies, counted from the start of the stream.
    pub at: usize,
}

impl fmt::Display for InvalidUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} is not UTF-8", self.at)
    }
}

impl error::Error for InvalidUtf8 {}

/// Turns bytes into text, and carries the beginning of a character (three bytes at most) over to the next input.
#[derive(Debug, Default)]
pub struct Carry {
    head: Vec<u8>,
    /// Bytes turned into text so far.
    done: usize,
    broken: bool,
}

impl Carry {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that is complete with `bytes`: borrowed from them if nothing was carried, else put into `scratch`.
    ///
    /// # Errors
    /// A byte that UTF-8 does not allow. Text that comes before it is given first; then the next call, be it `push` or
    /// [`Carry::finish`], is the one that fails, and so does every later one.
    pub fn push<'a>(&mut self, bytes: &'a [u8], scratch: &'a mut String) -> Result<&'a str, InvalidUtf8> {
        scratch.clear();
        let mut rest = bytes;
        while !self.head.is_empty()
            && let Some((byte, tail)) = rest.split_first()
        {
            let mut head = mem::take(&mut self.head);
            head.push(*byte);
            scratch.push_str(self.text(&head));
            rest = tail;
        }
        let text = self.text(rest);
        if self.broken && scratch.is_empty() && text.is_empty() {
            return Err(self.invalid());
        }
        if scratch.is_empty() {
            return Ok(text);
        }
        scratch.push_str(text);
        Ok(scratch)
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// It ended inside a character, or an invalid byte has been seen.
    pub fn finish(&self) -> Result<(), InvalidUtf8> {
        if self.broken || !self.head.is_empty() { Err(self.invalid()) } else { Ok(()) }
    }

    /// The text at the start of `bytes`; the beginning of a character at their end is carried.
    fn text<'a>(&mut self, bytes: &'a [u8]) -> &'a str {
        if self.broken {
            return "";
        }
        let text = str::from_utf8(bytes).unwrap_or_else(|error| {
            match error.error_len() {
                None => self.head.extend(bytes.iter().skip(error.valid_up_to())),
                Some(_) => self.broken = true,
            }
            bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
        });
        self.done += text.len();
        text
    }

    fn invalid(&self) -> InvalidUtf8 {
        InvalidUtf8 { at: self.done }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text of all pieces, and whether (and where) it broke off.
    fn read(pieces: &[&[u8]]) -> (String, Result<(), InvalidUtf8>) {
        let (mut carry, mut scratch, mut all) = (Carry::new(), String::new(), String::new());
        for piece in pieces {
            match carry.push(piece, &mut scratch) {
                Ok(text) => all.push_str(text),
                Err(error) => {
                    assert_eq!(carry.finish(), Err(error));
                    return (all, Err(error));
                }
            }
        }
        (all, carry.finish())
    }

    proptest! {
        #[test]
        fn text_and_error_are_the_same_however_the_bytes_are_cut(
            text in "[aé€😀]{0,12}",
            junk in prop::collection::vec(any::<u8>(), 0..4),
            more in "[aé€😀]{0,3}",
            size in 1..6_usize,
        ) {
            let bytes = [text.as_bytes(), &junk, more.as_bytes()].concat();
            let expected = match str::from_utf8(&bytes) {
                Ok(text) => (text.to_owned(), Ok(())),
                Err(error) => {
                    let at = error.valid_up_to();
                    (str::from_utf8(&bytes[..at]).unwrap().to_owned(), Err(InvalidUtf8 { at }))
                }
            };
            prop_assert_eq!(&read(&[&bytes]), &expected);
            prop_assert_eq!(&read(&bytes.chunks(size).collect::<Vec<_>>()), &expected);
            for at in 0..bytes.len() {
                prop_assert_eq!(&read(&[&bytes[..at], &bytes[at..]]), &expected);
            }
        }
    }

    #[test]
    fn whole_text_is_borrowed() {
        let (mut carry, mut scratch) = (Carry::new(), String::new());
        let bytes = "é".as_bytes();
        assert_eq!(carry.push(bytes, &mut scratch).unwrap().as_ptr(), bytes.as_ptr());
    }
}
