//! A fuzzer's bytes, used as choices, text and cuts.

/// Bytes that supply choices from their front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'i> {
    rest: &'i [u8],
}

impl<'i> Input<'i> {
    pub(crate) fn new(bytes: &'i [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next choice; 0 if there are none left.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    /// Returns one of `all`, chosen by two bytes and the hashes of the names, so that a choice in the corpus
    /// stays the same when other items are added.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T], name: impl Fn(T) -> &'static str) -> Option<T> {
        let choice = u16::from_be_bytes([self.byte(), self.byte()]);
        all.iter().copied().min_by_key(|one| code(name(*one)).wrapping_sub(choice))
    }

    /// The remaining bytes.
    pub(crate) fn bytes(self) -> &'i [u8] {
        self.rest
    }

    /// The remaining bytes, without those that are not UTF-8.
    pub(crate) fn text(self) -> String {
        self.rest.utf8_chunks().map(|chunk| chunk.valid()).collect()
    }
}

/// The choice that selects the item of this name.
pub(crate) fn code(name: &str) -> u16 {
    name.bytes().fold(0x811c, |hash, byte| (hash ^ u16::from(byte)).wrapping_mul(0x0193))
}

/// `bytes` in pieces whose sizes are derived from `seed`.
pub(crate) fn cut(bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut state = u32::from(seed);
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        // Knuth's multiplier; the middle bits are mixed best.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = 1 + (state >> 16) as usize % (1 + usize::from(seed & 31));
        let (piece, tail) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// Returns `text` in pieces, cut between characters, whose sizes are derived from `seed`.
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

/// `text`, split into its characters.
pub(crate) fn characters(text: &str) -> Vec<&str> {
    text.split_inclusive(|_: char| true).collect()
}
