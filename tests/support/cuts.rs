//! Ways to split data into pieces (docs/protocols/text-formats.md#split-independence).

/// Piece sizes for splits into equal pieces.
pub(crate) const SIZES: [usize; 6] = [1, 2, 3, 5, 7, 13];

/// The maximum number of positions at which a stream is split in two. Longer streams are split at evenly spaced
/// positions.
const MOST: usize = 700;

/// Returns the positions at which to split `len` items in two: all of them, or evenly spaced ones if there are too
/// many.
pub(crate) fn places(len: usize) -> impl Iterator<Item = usize> {
    // An odd step has no common factor with the even lengths that repeat in streams, so the splits eventually cover
    // every position within a frame.
    let step = if len > MOST { (len / MOST + 1) | 1 } else { 1 };
    (0..=len).step_by(step)
}

pub(crate) fn character_ends(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, c)| at + c.len_utf8()).collect()
}

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

pub(crate) fn in_sizes(text: &str) -> impl Iterator<Item = Vec<&str>> {
    SIZES.into_iter().map(move |size| by_characters(text, size))
}

/// Splits `text` in two at every character boundary, and into equal pieces.
pub(crate) fn of_text(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let ends = character_ends(text);
    let twos: Vec<_> = places(ends.len().saturating_sub(1)).filter_map(|at| ends.get(at).copied()).collect();
    let twos = twos.into_iter().map(move |at| vec![&text[..at], &text[at..]]);
    twos.chain(in_sizes(text))
}
