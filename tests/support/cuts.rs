//! The ways of splitting data into pieces (docs/protocols/text-formats.md#split-independence).

/// The sizes of equal pieces.
pub(crate) const SIZES: [usize; 6] = [1, 2, 3, 5, 7, 13];

/// Maximum number of two-way splits of one stream; a longer stream is split at evenly spaced positions.
const MOST: usize = 700;

/// Returns the positions at which data of length `len` is split in two: all, or evenly spaced positions.
pub(crate) fn places(len: usize) -> impl Iterator<Item = usize> {
    // The step is relatively prime to the lengths that repeat in streams, so that every position inside a
    // frame is tried.
    let step = if len > MOST { (len / MOST + 1) | 1 } else { 1 };
    (0..=len).step_by(step)
}

/// The ends of the characters of `text`.
pub(crate) fn character_ends(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, c)| at + c.len_utf8()).collect()
}

/// Returns `text` in pieces of `size` characters.
pub(crate) fn by_characters(text: &str, size: usize) -> Vec<&str> {
    let mut from = 0;
    let ends = character_ends(text);
    let pieces = ends.chunks(size).map(|chunk| {
        let to = *chunk.last().unwrap();
        let piece = &text[from..to];
        from = to;
        piece
    });
    pieces.collect()
}

/// `text` in equal pieces of all sizes.
pub(crate) fn in_sizes(text: &str) -> impl Iterator<Item = Vec<&str>> {
    SIZES.into_iter().map(move |size| by_characters(text, size))
}

/// `text` in two pieces at every position between characters, and in equal pieces.
pub(crate) fn of_text(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let ends = character_ends(text);
    let twos: Vec<_> = places(ends.len().saturating_sub(1)).filter_map(|at| ends.get(at).copied()).collect();
    let twos = twos.into_iter().map(move |at| vec![&text[..at], &text[at..]]);
    twos.chain(in_sizes(text))
}
