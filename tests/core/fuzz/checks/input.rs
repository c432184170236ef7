//! Interprets a fuzzer's bytes as choices, text and splits.

/// Input whose first bytes are used up as choices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'i> {
    rest: &'i [u8],
}

impl<'i> Input<'i> {
    pub(crate) fn new(bytes: &'i [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next choice, or 0 at the end of the input.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    /// Chooses one of `all` by two bytes and the hashes of the names. Adding items rarely changes what existing
    /// corpus files choose.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T], name: impl Fn(T) -> &'static str) -> Option<T> {
        let choice = u16::from_be_bytes([self.byte(), self.byte()]);
        all.iter().copied().min_by_key(|one| code(name(*one)).wrapping_sub(choice))
    }

    pub(crate) fn bytes(self) -> &'i [u8] {
        self.rest
    }

    /// Returns the remaining bytes as text, without invalid UTF-8.
    pub(crate) fn text(self) -> String {
        self.rest.utf8_chunks().map(|chunk| chunk.valid()).collect()
    }
}

/// The two-byte choice that selects the item called `name`.
pub(crate) fn code(name: &str) -> u16 {
    name.bytes().fold(0x811c, |hash, byte| (hash ^ u16::from(byte)).wrapping_mul(0x0193))
}

/// Splits `bytes` into pieces whose sizes depend on `seed`.
pub(crate) fn cut(bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut state = u32::from(seed);
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        // A linear congruential generator with Knuth's constants. Its high bits are more random than its low bits.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = 1 + (state >> 16) as usize % (1 + usize::from(seed & 31));
        let (piece, tail) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// Splits `text` at character boundaries into pieces whose sizes depend on `seed`.
pub(crate) fn cut_text(text: &str, seed: u8) -> Vec<&str> {
    let (mut from, mut to) = (0, 0);
    let mut pieces = Vec::new();
    for piece in cut(text.as_bytes(), seed) {
        to += piece.len();
        let end = text.ceil_char_boundary(to);
        if end > from {
            pieces.push(&text[from..end]);
            from = end;
        }
    }
    pieces
}

pub(crate) fn characters(text: &str) -> Vec<&str> {
    text.split_inclusive(|_: char| true).collect()
}
