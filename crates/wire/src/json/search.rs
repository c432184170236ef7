//! Searches string bodies for quotes, backslashes and control characters. Most bytes of a JSON text are read here.
//!
//! Keys and tokens are short. Most end within eight bytes, which are cheaper to check in one register than as a
//! block. After the first eight bytes, [`specials`] checks 64 bytes at once, with the widest instructions of the
//! processor.

use std::sync::LazyLock;

use fearless_simd::{Level, dispatch, prelude::*, u8x64};

use super::whole::Rest;

const WORD: usize = 8;
const BLOCK: usize = 64;

static LEVEL: LazyLock<Level> = LazyLock::new(Level::new);

pub(super) fn has_no_escapes(body: &str) -> bool {
    plain_run(body.as_bytes()) == body.len()
}

/// Returns the offset of the first quote, backslash or control character, or the length if there is none.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    let first = bytes.first_chunk().map_or(0, special);
    if first != 0 { place(first) } else { longer_run(bytes) }
}

/// Like [`plain_run`], but for text that is longer than one word, and whose first word is known to be plain.
fn longer_run(bytes: &[u8]) -> usize {
    if bytes.len() < BLOCK {
        return run_by_words(bytes);
    }
    dispatch!(*LEVEL, simd => run_by_blocks(simd, bytes))
}

#[inline(always)]
fn run_by_blocks<S: Simd>(simd: S, bytes: &[u8]) -> usize {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for (at, block) in blocks.iter().enumerate() {
        let found = specials(u8x64::from_slice(simd, block));
        if found != 0 {
            return at * BLOCK + found.trailing_zeros() as usize;
        }
    }
    blocks.len() * BLOCK + run_by_words(rest)
}

fn run_by_words(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let found = special(word);
        if found != 0 {
            return at * WORD + place(found);
        }
    }
    words.len() * WORD + rest.iter().take_while(|byte| !is_special(**byte)).count()
}

/// Reads a string body up to its closing quote. `escape` reads what follows a backslash, except for single-letter
/// escapes.
///
/// # Errors
/// See [`Rest`], and the errors of `escape`.
#[inline]
pub(super) fn body<'a>(text: &'a [u8], escape: impl FnMut(&'a [u8]) -> Rest<'a>) -> Rest<'a> {
    let first = text.first_chunk().map_or(0, special);
    match text.get(place(first)..) {
        Some([b'"', tail @ ..]) if first != 0 => Ok(tail),
        _ => longer_body(text, escape),
    }
}

fn longer_body<'a>(text: &'a [u8], escape: impl FnMut(&'a [u8]) -> Rest<'a>) -> Rest<'a> {
    if text.len() < BLOCK {
        return body_end(text, false, escape);
    }
    dispatch!(*LEVEL, simd => body_by_blocks(simd, text, escape))
}

#[inline(always)]
fn body_by_blocks<'a, S: Simd>(
    simd: S,
    text: &'a [u8],
    mut escape: impl FnMut(&'a [u8]) -> Rest<'a>,
) -> Rest<'a> {
    let escapes = Escapes::new(simd);
    let mut rest = text;
    // Whether a backslash precedes `rest`.
    let mut is_escaped = false;
    while let Some(block) = rest.first_chunk::<BLOCK>() {
        let block = u8x64::from_slice(simd, block);
        let escaped = escaped_bytes(block.simd_eq(b'\\').to_bitmask(), &mut is_escaped);
        // Most escapes are a single letter. All of them in a block are skipped at once, without a branch for each.
        let invalid = escaped & !escapes.among(block);
        let mut ends = quotes_and_controls(block) & !escaped | invalid;
        if ends == 0 {
            // A separate statement, so that the start of the next block does not depend on the contents of this
            // one.
            rest = rest.get(BLOCK..).unwrap_or_default();
            continue;
        }
        rest = loop {
            let at = ends.trailing_zeros() as usize;
            let tail = rest.get(at..).unwrap_or_default();
            match tail {
                _ if at >= BLOCK => break tail,
                _ if invalid >> at & 1 == 1 => {
                    // Longer escapes end with a digit, so the special bytes found after them are correct.
                    let behind = escape(tail)?;
                    let read = rest.len() - behind.len();
                    if read >= BLOCK {
                        is_escaped = false;
                        break behind;
                    }
                    ends &= u64::MAX << read;
                }
                [b'"', tail @ ..] => return Ok(tail),
                _ => return Err(tail),
            }
        };
    }
    body_end(rest, is_escaped, escape)
}

/// Reads the end of a string body, which is shorter than a block. `is_escaped` is set if a backslash precedes it.
fn body_end<'a>(text: &'a [u8], is_escaped: bool, mut escape: impl FnMut(&'a [u8]) -> Rest<'a>) -> Rest<'a> {
    let mut rest = text;
    if is_escaped {
        rest = escaped(rest, &mut escape)?;
    }
    loop {
        rest = match rest.get(run_by_words(rest)..).unwrap_or_default() {
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', tail @ ..] => escaped(tail, &mut escape)?,
            rest => return Err(rest),
        };
    }
}

/// Returns one bit for each byte of a block that a backslash escapes. `is_escaped` is set if a backslash precedes
/// the block, and is then updated for the next block.
///
/// A backslash escapes the next byte unless it is escaped itself. In a run of backslashes, this escapes every
/// second one and, if the length of the run is odd, the byte after it. An addition carries through each run that
/// starts at an odd index, which flips the bits of those runs.
fn escaped_bytes(backslashes: u64, is_escaped: &mut bool) -> u64 {
    const EVEN: u64 = u64::MAX / 3;
    let backslashes = backslashes & !u64::from(*is_escaped);
    let behind = backslashes << 1 | u64::from(*is_escaped);
    let begins_odd = backslashes & !EVEN & !behind;
    let (carried, overflow) = begins_odd.overflowing_add(backslashes);
    *is_escaped = overflow;
    (EVEN ^ carried << 1) & behind
}

/// Returns the text after a backslash and the escape that it begins.
fn escaped<'a>(rest: &'a [u8], escape: impl FnOnce(&'a [u8]) -> Rest<'a>) -> Rest<'a> {
    match rest {
        [letter, tail @ ..] if is_escape(*letter) => Ok(tail),
        _ => escape(rest),
    }
}

/// Whether this letter after a backslash is a complete escape.
const fn is_escape(letter: u8) -> bool {
    matches!(letter, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

/// The tables of [`Escapes`], repeated for every sixteen bytes.
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it")]
const TABLES: ([u8; BLOCK], [u8; BLOCK]) = {
    let (mut low, mut high) = ([0; BLOCK], [0; BLOCK]);
    let mut place = 0;
    while place < BLOCK {
        let entry = (place % 16) as u8;
        let mut bit = 0;
        while bit < 8 {
            if is_escape(bit << 4 | entry) {
                low[place] |= 1 << bit;
            }
            bit += 1;
        }
        if entry < 8 {
            high[place] = 1 << entry;
        }
        place += 1;
    }
    (low, high)
};

/// The letters that may follow a backslash, as tables. Bit `h` of entry `l` in the first table is set if the byte
/// with the hexadecimal digits `hl` is such a letter. Entry `h` of the second table is that bit. All the letters
/// are at most `7f`.
struct Escapes<S: Simd> {
    low: u8x64<S>,
    high: u8x64<S>,
}

impl<S: Simd> Escapes<S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        Self { low: u8x64::from_slice(simd, &TABLES.0), high: u8x64::from_slice(simd, &TABLES.1) }
    }

    /// Returns one bit for each byte that is the letter of an escape.
    #[inline(always)]
    fn among(&self, block: u8x64<S>) -> u64 {
        let low = self.low.swizzle_dyn_within_blocks(block & 0xf);
        let high = self.high.swizzle_dyn_within_blocks(block >> 4);
        !(low & high).simd_eq(0).to_bitmask()
    }
}

/// Returns one bit for each byte that must be escaped.
#[inline(always)]
fn specials<S: Simd>(block: u8x64<S>) -> u64 {
    quotes_and_controls(block) | block.simd_eq(b'\\').to_bitmask()
}

#[inline(always)]
fn quotes_and_controls<S: Simd>(block: u8x64<S>) -> u64 {
    (block.simd_eq(b'"') | block.simd_le(0x1f)).to_bitmask()
}

/// Returns the index of the first byte whose top bit is set.
fn place(found: u64) -> usize {
    found.trailing_zeros() as usize / 8
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Sets the top bit of each byte of `word` that must be escaped. Bits above the lowest one set may be wrong, since
/// a subtraction borrows from the next byte, but only after it has found something.
fn special(word: &[u8; WORD]) -> u64 {
    let word = u64::from_le_bytes(*word);
    const ONES: u64 = u64::MAX / 0xff;
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates text that begins with bytes that need no escape.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            8 => any::<u8>(),
            4 => prop_oneof![Just(0x20), Just(0x1f), Just(0x80), Just(0xff)],
            4 => prop_oneof![Just(b'"'), Just(b'\\')],
            40 => 0x21..0xff_u8,
        ];
        let plain = (0..300_usize).prop_map(|length| vec![b'a'; length]);
        // Runs of backslashes of every length, including across block boundaries.
        let run = (0..70_usize, prop::sample::select(&b"n\"u\0"[..]));
        let run = run.prop_map(|(length, last)| [vec![b'\\'; length], vec![last]].concat());
        let runs = prop::collection::vec(run, 0..8).prop_map(|runs| runs.concat());
        (plain, runs, prop::collection::vec(byte, 0..200))
            .prop_map(|(plain, runs, bytes)| [plain, runs, bytes].concat())
    }

    /// Like `body`, but reads one byte at a time, and allows any letter after a backslash.
    fn plainly(text: &[u8]) -> Result<usize, usize> {
        let mut at = 0;
        loop {
            match text.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') if at + 1 < text.len() => at += 2,
                Some(b'\\') => return Err(text.len()),
                Some(0x20..) => at += 1,
                _ => return Err(at),
            }
        }
    }

    /// The baseline instruction set and that of this processor.
    fn levels() -> [Level; 2] {
        [Level::baseline(), *LEVEL]
    }

    #[test]
    fn only_escapes_of_one_letter_are_passed_without_a_question() {
        for level in levels() {
            for (letter, before) in (0..=u8::MAX).zip((0..BLOCK).cycle()) {
                let text = [&vec![b'a'; before], &[b'\\', letter][..], &[b'a'; 2 * BLOCK], b"\""].concat();
                let mut asked = Vec::new();
                let escape = |tail| {
                    asked.push(offset(&text, tail));
                    Err(tail)
                };
                let read = dispatch!(level, simd => body_by_blocks(simd, &text, escape));
                assert_eq!(read.is_ok(), is_escape(letter), "{letter}");
                assert_eq!(asked, if is_escape(letter) { vec![] } else { vec![before + 1] }, "{letter}");
            }
        }
    }

    fn offset(text: &[u8], rest: &[u8]) -> usize {
        text.len() - rest.len()
    }

    proptest! {
        #[test]
        fn a_run_ends_before_the_first_byte_that_needs_an_escape(text in text()) {
            let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            let run = text.iter().position(special).unwrap_or(text.len());
            prop_assert_eq!(plain_run(&text), run);
            for level in levels() {
                prop_assert_eq!(dispatch!(level, simd => run_by_blocks(simd, &text)), run);
            }
        }

        #[test]
        fn a_body_ends_with_its_first_quote_that_is_not_escaped(text in text()) {
            let offset = |rest| offset(&text, rest);
            let read = body(&text, |tail| tail.get(1..).ok_or(tail));
            prop_assert_eq!(read.map(offset).map_err(offset), plainly(&text));
            for level in levels() {
                let read = dispatch!(level, simd => {
                    body_by_blocks(simd, &text, |tail| tail.get(1..).ok_or(tail))
                });
                prop_assert_eq!(read.map(offset).map_err(offset), plainly(&text));
            }
        }
    }
}
