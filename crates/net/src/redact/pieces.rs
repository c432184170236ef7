//! [`Pieces`]: masks secrets in a body that arrives in pieces, and passes each piece on as early as possible.
//!
//! A piece is held back until its last line is complete, since a secret may be split across pieces but not across
//! lines. It is also held back until the last word of a streamed text is complete, since a model produces a secret one
//! token at a time.
//!
//! A line of [`LONGEST_LINE`] with a single text takes less than 1 MiB of memory, and any body at most 10 MiB: its last line,
//! and the ends of 64 texts with the places of their bytes.

use std::{collections::VecDeque, ops::Range, time::Duration};

use super::{LONGEST_LINE, Redactor, spread::Spread};

/// Maximum number of pieces that are held back separately. Beyond it, further ones are joined to the last, so that tiny
/// pieces do not take many times their bytes.
const MAX_WAITING: usize = 4 << 10;

#[derive(Debug)]
pub struct Pieces {
    redactor: Redactor,
    /// Bytes that have not been passed on yet.
    held: Vec<u8>,
    /// Number of bytes at the start of `held` in which secrets were masked.
    covered: usize,
    /// Number of bytes that were passed on.
    passed: usize,
    spread: Spread,
    /// Arrival times and lengths of the held pieces.
    waiting: VecDeque<(Duration, usize)>,
}

impl Pieces {
    pub fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            held: Vec::new(),
            covered: 0,
            passed: 0,
            spread: Spread::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Adds a piece that arrived at the time `after`, and calls `pass` with the pieces that can be passed on now.
    ///
    /// # Errors
    /// Errors of `pass`.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        after: Duration,
        pass: impl FnMut(&[u8], Duration) -> Result<(), E>,
    ) -> Result<(), E> {
        self.held.extend_from_slice(bytes);
        let is_full = self.waiting.len() >= MAX_WAITING;
        match self.waiting.back_mut().filter(|_| is_full) {
            Some((_, len)) => *len += bytes.len(),
            None => self.waiting.push_back((after, bytes.len())),
        }
        let open = self.held.get(self.covered..).unwrap_or_default();
        // The held bytes before this piece contain no line ending.
        if open.len() > LONGEST_LINE || memchr::memchr2(b'\n', b'\r', bytes).is_some() {
            #[cfg(test)]
            tests::LOOKED.set(tests::LOOKED.get() + open.len());
            self.cover(self.redactor.settled(open));
        }
        let undecided = self.spread.undecided_from(&self.redactor);
        let decided = undecided.map_or(self.covered, |at| at.saturating_sub(self.passed).min(self.covered));
        self.pass(decided, pass)
    }

    /// Ends the body, and calls `pass` with all held pieces.
    ///
    /// # Errors
    /// Errors of `pass`.
    pub fn finish<E>(&mut self, pass: impl FnMut(&[u8], Duration) -> Result<(), E>) -> Result<(), E> {
        self.cover(self.held.len() - self.covered);
        let mut found = Vec::new();
        self.spread.end(&self.redactor, &mut found);
        self.mask(found);
        self.pass(self.covered, pass)
    }

    fn pass<E>(
        &mut self,
        decided: usize,
        mut pass: impl FnMut(&[u8], Duration) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut len = 0;
        while let Some((after, piece)) = self.waiting.front().copied()
            && len + piece <= decided
        {
            pass(self.held.get(len..len + piece).unwrap_or_default(), after)?;
            self.waiting.pop_front();
            len += piece;
        }
        self.held.drain(..len);
        self.covered -= len;
        self.passed += len;
        Ok(())
    }

    /// Masks secrets in the next `len` held bytes, and the earlier parts of those secrets.
    fn cover(&mut self, len: usize) {
        let mut at = self.passed + self.covered;
        let Some(open) = self.held.get_mut(self.covered..self.covered + len) else { return };
        let mut found = Vec::new();
        for line in open.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            found.append(&mut self.spread.line(line, at, &self.redactor));
            at += line.len();
        }
        self.redactor.cover(open);
        self.mask(found);
        self.covered += len;
    }

    fn mask(&mut self, found: Vec<Range<usize>>) {
        for place in found {
            let place = place.start.saturating_sub(self.passed)..place.end.saturating_sub(self.passed);
            if let Some(secret) = self.held.get_mut(place) {
                secret.fill(b'x');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible};

    use super::*;

    thread_local! {
        /// Number of bytes that were searched for the end of a line.
        pub(super) static LOOKED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn line_that_does_not_end_is_looked_at_a_bounded_number_of_times() {
        let (mut pieces, mut passed) = (Pieces::new(Redactor::new([])), Vec::new());
        let mut push = |pieces: &mut Pieces, bytes: &[u8]| {
            let Ok(()) = pieces.push(bytes, Duration::ZERO, |bytes, _| {
                passed.extend_from_slice(bytes);
                Ok::<_, Infallible>(())
            });
        };
        LOOKED.set(0);
        let count = 3 * LONGEST_LINE / 2;
        (0..count).for_each(|_| push(&mut pieces, b"x"));
        assert!(LOOKED.get() <= 2 * count, "{}", LOOKED.get());
        push(&mut pieces, b" sk-proj-abcdefghijkl\n");
        assert_eq!(passed.len(), count + 22);
        assert!(passed.ends_with(b"x xxxxxxxxxxxxxxxxxxxx\n"));
    }

    /// Pushes pieces of `size` bytes of an event with `len` bytes of text in each of `texts` members, and returns the most
    /// bytes of the heap that this takes.
    fn most_held(len: usize, texts: usize, size: usize) -> usize {
        let text = "Zm9v".repeat(len / 4);
        let members: Vec<_> =
            (0..texts).map(|number| format!("\"{number}\":{{\"text\":\"{text}\"}}")).collect();
        let line = format!("data: {{{}}}\n", members.join(","));
        let redactor = Redactor::new([]);
        let all = || {
            let mut pieces = Pieces::new(redactor.clone());
            for piece in line.as_bytes().chunks(size) {
                let Ok(()) = pieces.push(piece, Duration::ZERO, |_, _| Ok::<_, Infallible>(()));
            }
        };
        // The first run prepares the patterns.
        all();
        let heap = allocation_counter::measure(all);
        usize::try_from(heap.bytes_max).unwrap()
    }

    /// What is held back for a line without white space is bounded, just below the longest line that is read and beyond it.
    #[test]
    fn texts_without_white_space_take_bounded_memory() {
        const MOST: usize = 10 << 20;
        for (texts, size) in [(1, 1), (1, 1000), (1, LONGEST_LINE), (60, 16 << 10), (1000, 16 << 10)] {
            for len in
                [LONGEST_LINE - 1024, LONGEST_LINE - 16, LONGEST_LINE, LONGEST_LINE + 1024, 8 * LONGEST_LINE]
            {
                let held = most_held(len / texts, texts, size);
                assert!(held <= MOST, "{texts} texts in pieces of {size}, {len} bytes: {held} are held");
            }
        }
    }
}
