//! [`Pieces`]: the pieces of a body without their secrets, each as soon as it can contain none.
//!
//! A piece waits until the line in which it ends is complete, since a secret may be cut into two pieces but not into two lines, and
//! until the last word of a streamed text has ended, since a model writes a secret token by token.

use std::{collections::VecDeque, ops::Range, time::Duration};

use super::{Redactor, spread::Spread};

/// See the module.
#[derive(Debug)]
pub(crate) struct Pieces {
    redactor: Redactor,
    /// Bytes that have not been passed on.
    held: Vec<u8>,
    /// How many of them have been covered.
    covered: usize,
    /// Bytes before them.
    passed: usize,
    spread: Spread,
    /// The pieces in which they arrived.
    waiting: VecDeque<(Duration, usize)>,
}

impl Pieces {
    /// For a new body.
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            held: Vec::new(),
            covered: 0,
            passed: 0,
            spread: Spread::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes a piece that arrived at `after`, and calls `pass` with those that are decided now.
    ///
    /// # Errors
    /// Those of `pass`.
    pub(crate) fn push<E>(
        &mut self,
        bytes: &[u8],
        after: Duration,
        pass: impl FnMut(&[u8], Duration) -> Result<(), E>,
    ) -> Result<(), E> {
        self.held.extend_from_slice(bytes);
        self.waiting.push_back((after, bytes.len()));
        let open = self.held.get(self.covered..).unwrap_or_default();
        self.cover(self.redactor.settled(open));
        let undecided = self.spread.undecided_from(&self.redactor);
        let decided = undecided.map_or(self.covered, |at| at.saturating_sub(self.passed).min(self.covered));
        self.pass(decided, pass)
    }

    /// The body has ended: calls `pass` with all that is left.
    ///
    /// # Errors
    /// Those of `pass`.
    pub(crate) fn finish<E>(&mut self, pass: impl FnMut(&[u8], Duration) -> Result<(), E>) -> Result<(), E> {
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

    /// Covers secrets in the next `len` held bytes, and what turns out to be part of one in the bytes before them.
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

    /// Covers these places of the body.
    fn mask(&mut self, found: Vec<Range<usize>>) {
        for place in found {
            let place = place.start.saturating_sub(self.passed)..place.end.saturating_sub(self.passed);
            if let Some(secret) = self.held.get_mut(place) {
                secret.fill(b'x');
            }
        }
    }
}
