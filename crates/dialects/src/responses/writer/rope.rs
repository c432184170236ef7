//! [`Rope`]: a string of any size that is stored only once, no matter how often it is written. [`Pending`]:
//! output that is written later.
//!
//! The last events of a stream repeat its text up to four times. Built in one piece, they would take many
//! times the memory of the response, and block the thread while they are written.

use std::{collections::VecDeque, sync::Arc};

use bytes::{BufMut, BytesMut};

use crate::wire::json::escape_str;

/// Size of a piece in bytes. Shorter strings are copied, and longer ones are shared.
const PIECE: usize = 64 << 10;

/// A string in pieces. A small one is a single piece.
#[derive(Debug, Default)]
pub(super) struct Rope {
    /// Pieces that no longer change.
    pieces: Vec<Arc<String>>,
    /// The text that follows `pieces`.
    tail: String,
}

impl Rope {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.tail.is_empty()
    }

    /// Whether the text should be written in pieces.
    pub(super) fn is_large(&self) -> bool {
        !self.pieces.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum::<usize>() + self.tail.len()
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().map(|piece| piece.as_str()).chain([self.tail.as_str()])
    }

    pub(super) fn push(&mut self, text: &str) {
        self.make_room(text.len());
        self.tail.push_str(text);
    }

    /// Appends `text`, escaped for a JSON string. Returns the escaped text.
    pub(super) fn push_escaped(&mut self, text: &str) -> &str {
        self.make_room(text.len());
        let before = self.tail.len();
        escape_str(&mut self.tail, text);
        self.tail.get(before..).unwrap_or_default()
    }

    /// Appends `text`: a copy if it is small, and otherwise the string itself as a shared piece.
    pub(super) fn push_string(&mut self, text: String) {
        if text.len() < PIECE {
            return self.push(&text);
        }
        self.close_piece();
        self.pieces.push(Arc::new(text));
    }

    /// Appends another rope. Its pieces are shared, not copied.
    pub(super) fn append(&mut self, other: &Self) {
        if other.is_large() {
            self.close_piece();
            self.pieces.extend(other.pieces.iter().cloned());
        }
        self.push(&other.tail);
    }

    fn make_room(&mut self, more: usize) {
        if self.tail.len() + more > PIECE && !self.tail.is_empty() {
            self.close_piece();
            self.tail = String::with_capacity(PIECE.max(more));
        }
    }

    fn close_piece(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(Arc::new(std::mem::take(&mut self.tail)));
        }
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.len());
        text.extend(self.pieces());
        text
    }
}

impl From<String> for Rope {
    fn from(text: String) -> Self {
        let mut rope = Self::default();
        match text.len() < PIECE {
            true => rope.tail = text,
            false => rope.push_string(text),
        }
        rope
    }
}

/// Output of a stream that is written as fast as the client reads it.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pieces: VecDeque<Arc<String>>,
    tail: String,
    /// Number of bytes of the first piece that have been written.
    taken: usize,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.tail.is_empty()
    }

    pub(super) fn push(&mut self, text: &str) {
        if self.tail.len() + text.len() > PIECE {
            self.close_piece();
        }
        self.tail.push_str(text);
    }

    pub(super) fn append(&mut self, rope: &Rope) {
        if rope.is_large() {
            self.close_piece();
            self.pieces.extend(rope.pieces.iter().cloned());
        }
        self.push(&rope.tail);
    }

    fn close_piece(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(Arc::new(std::mem::take(&mut self.tail)));
        }
    }

    /// Moves pending output to `out` until `out` is `upto` bytes long.
    pub(super) fn pour(&mut self, out: &mut BytesMut, upto: usize) {
        if self.pieces.is_empty() {
            self.close_piece();
        }
        while let Some(first) = self.pieces.front() {
            let room = upto.saturating_sub(out.len());
            if room == 0 {
                return;
            }
            let end = first.len().min(self.taken + room);
            out.put_slice(first.as_bytes().get(self.taken..end).unwrap_or_default());
            self.taken = end;
            if end == first.len() {
                self.taken = 0;
                self.pieces.pop_front();
                if self.pieces.is_empty() {
                    self.close_piece();
                }
            }
        }
        *self = Self::default();
    }
}

#[cfg(test)]
#[allow(clippy::string_slice, reason = "tests cut texts at known places")]
mod tests {
    use super::*;

    fn poured(pending: &mut Pending, upto: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !pending.is_empty() {
            let mut out = BytesMut::new();
            pending.pour(&mut out, upto);
            assert!((1..=upto).contains(&out.len()));
            all.extend_from_slice(&out);
        }
        all
    }

    #[test]
    fn text_is_written_as_it_was_pushed() {
        for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let text: String = "añ\"b\n".chars().cycle().take(size).collect();
            let (mut rope, mut escaped) = (Rope::default(), String::new());
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(rest.floor_char_boundary(997.min(rest.len())));
                let before = escaped.len();
                escape_str(&mut escaped, piece);
                assert_eq!(rope.push_escaped(piece), &escaped[before..]);
                rest = behind;
            }
            assert_eq!(
                (rope.to_text(), rope.len(), rope.is_empty()),
                (escaped.clone(), escaped.len(), size == 0)
            );
            let mut outer = Rope::from("[".to_owned());
            outer.append(&rope);
            outer.push_string(escaped.clone());
            outer.push("]");
            let expected = format!("[{escaped}{escaped}]");
            assert_eq!(outer.to_text(), expected);
            for upto in [7, 4096, 10 * PIECE] {
                let mut pending = Pending::default();
                pending.push("<");
                pending.append(&outer);
                pending.append(&outer);
                pending.push(">");
                assert_eq!(poured(&mut pending, upto), format!("<{expected}{expected}>").as_bytes());
            }
        }
    }

    #[test]
    fn large_text_is_shared() {
        let large = Rope::from("x".repeat(10 * PIECE));
        let mut outer = Rope::default();
        outer.append(&large);
        assert!(Arc::ptr_eq(&large.pieces[0], &outer.pieces[0]));
        let mut pending = Pending::default();
        pending.append(&outer);
        assert!(Arc::ptr_eq(&large.pieces[0], &pending.pieces[0]));
    }
}
