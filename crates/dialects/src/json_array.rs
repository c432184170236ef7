//! [`JsonArray`]: splits a body that is one JSON array into its elements as they arrive.

use std::ops::ControlFlow;

use crate::wire::json::{MAX_DEPTH, Progress, Scanner};

#[derive(Debug)]
pub(super) struct JsonArray {
    place: Place,
    scanner: Scanner,
    partial: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the opening bracket.
    Before,
    /// Between elements. Commas are not checked, since a missing one does no harm.
    Between,
    Inside,
    /// After the closing bracket. Further input is ignored.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementError {
    TooLong,
    NotJson,
}

impl Default for JsonArray {
    fn default() -> Self {
        Self { place: Place::Before, scanner: Scanner::new(MAX_DEPTH), partial: Vec::new() }
    }
}

impl JsonArray {
    /// Reads the next bytes, and passes each element that they complete to `on`, until `on` breaks. Elements
    /// may be up to `limit` bytes long.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        limit: usize,
        mut on: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ElementError> {
        let mut rest = bytes;
        while let Some((first, tail)) = rest.split_first() {
            if self.place != Place::Inside && !self.begins(*first) {
                rest = tail;
                continue;
            }
            let (taken, progress) = self.scanner.push(rest);
            let (piece, tail) = rest.split_at_checked(taken).unwrap_or((rest, &[]));
            if piece.len() > limit.saturating_sub(self.partial.len()) {
                return Err(ElementError::TooLong);
            }
            rest = tail;
            match progress {
                Progress::More => self.partial.extend_from_slice(piece),
                Progress::Invalid => return Err(ElementError::NotJson),
                Progress::End => {
                    self.place = Place::Between;
                    if self.complete(piece, &mut on).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.place == Place::Closed
    }

    /// Handles a byte outside of an element. Returns whether it starts an element.
    fn begins(&mut self, byte: u8) -> bool {
        self.place = match (self.place, byte) {
            (Place::Before, _) => Place::Between,
            (Place::Between, b']') => Place::Closed,
            (Place::Between, b',' | b' ' | b'\t' | b'\n' | b'\r') => Place::Between,
            (Place::Between, _) => {
                self.scanner = Scanner::new(MAX_DEPTH);
                Place::Inside
            }
            (place, _) => place,
        };
        self.place == Place::Inside
    }

    fn complete(&mut self, piece: &[u8], on: &mut impl FnMut(&[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
        if self.partial.is_empty() {
            return on(piece);
        }
        self.partial.extend_from_slice(piece);
        let flow = on(&self.partial);
        self.partial.clear();
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of `text` when it arrives in pieces of `size` bytes, and the result of reading it.
    fn elements(text: &str, size: usize, limit: usize) -> (Vec<String>, Result<bool, ElementError>) {
        let mut array = JsonArray::default();
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            let read = array.push(piece, limit, |element| {
                found.push(String::from_utf8(element.to_vec()).unwrap());
                ControlFlow::Continue(())
            });
            if let Err(error) = read {
                return (found, Err(error));
            }
        }
        (found, Ok(array.is_closed()))
    }

    #[test]
    fn elements_are_found_however_the_array_is_cut() {
        for (text, expected, closed) in [
            ("[]", &[] as &[&str], true),
            ("[ {\"a\": [1, \"]\"]} ,\n{}\n]\n", &["{\"a\": [1, \"]\"]}", "{}"], true),
            ("[1,-2.5e3 ,true,null,\"a\\\"]\"]", &["1", "-2.5e3", "true", "null", "\"a\\\"]\""], true),
            ("[{}{},]x", &["{}", "{}"], true),
            ("[{\"a\":1},{\"b\"", &["{\"a\":1}"], false),
            ("[[[]],[", &["[[]]"], false),
        ] {
            for size in [1, 2, 3, 100] {
                let (found, end) = elements(text, size, 100);
                assert_eq!(
                    (found.as_slice(), end),
                    (&*expected.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>(), Ok(closed)),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn elements_that_are_too_long_or_not_json_are_refused() {
        for size in [1, 3, 100] {
            assert_eq!(elements("[{\"a\":1}]", size, 7).0.len(), 1);
            assert_eq!(elements("[{\"a\":1}]", size, 6), (vec![], Err(ElementError::TooLong)));
            assert_eq!(elements("[{},x]", size, 6), (vec!["{}".to_owned()], Err(ElementError::NotJson)));
            let deep = "[".repeat(200);
            assert_eq!(elements(&deep, size, 1000), (vec![], Err(ElementError::NotJson)));
        }
    }
}
