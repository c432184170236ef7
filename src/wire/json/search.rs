//! Where a string's body has a quote, a backslash or a control character. Most of a text is read by these functions.
//!
//! Keys and tokens are short: most end within eight bytes, which cost less in one register than a block does. Behind those,
//! [`specials`] looks at 64 bytes at once.

use wide::u8x16;

use super::whole::Rest;

const WORD: usize = 8;
const BLOCK: usize = 64;

/// Whether a string body contains nothing to decode.
pub(super) fn has_no_escapes(body: &str) -> bool {
    plain_run(body.as_bytes()) == body.len()
}

/// The number of bytes before the first one that must be escaped in a string's body (quote, backslash or
/// control character); all of them if there is none.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    let first = bytes.first_chunk().map_or(0, special);
    if first != 0 { place(first) } else { longer_run(bytes) }
}

/// [`plain_run`] for more than one word, the first of which is known to be plain.
fn longer_run(bytes: &[u8]) -> usize {
    let (blocks, rest) = bytes.as_chunks();
    for (at, block) in blocks.iter().enumerate() {
        let found = specials(block);
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

/// Reads the rest of a string's body. `escape` reads what follows a backslash, unless that is an escape of one letter.
///
/// # Errors
/// As those of [`Rest`], or those of `escape`.
#[inline]
pub(super) fn body<'a>(text: &'a [u8], escape: impl FnMut(&'a [u8]) -> Rest<'a>) -> Rest<'a> {
    let first = text.first_chunk().map_or(0, special);
    match text.get(place(first)..) {
        Some([b'"', tail @ ..]) if first != 0 => Ok(tail),
        _ => longer_body(text, escape),
    }
}

fn longer_body<'a>(text: &'a [u8], mut escape: impl FnMut(&'a [u8]) -> Rest<'a>) -> Rest<'a> {
    let mut rest = text;
    // Whether a backslash is before `rest`.
    let mut is_escaped = false;
    while let Some(block) = rest.first_chunk::<BLOCK>() {
        let found = specials(block);
        if !is_escaped {
            if found == 0 {
                rest = rest.get(BLOCK..).unwrap_or_default();
                continue;
            }
            match rest.get(found.trailing_zeros() as usize..).unwrap_or_default() {
                [b'"', tail @ ..] => return Ok(tail),
                [b'\\', ..] => {}
                tail => return Err(tail),
            }
        }
        let backslashes = ones(block, |part| part.simd_eq(u8x16::splat(b'\\')));
        let escaped = escaped_bytes(backslashes, &mut is_escaped);
        // Most escapes are of one letter. All of those in a block are passed at once: to branch at each is what takes time.
        let others =
            if escaped == 0 { 0 } else { escaped & !(backslashes | ones(block, is_escape_but_backslash)) };
        let mut ends = found & !backslashes & !escaped | others;
        rest = loop {
            let at = ends.trailing_zeros() as usize;
            let tail = rest.get(at..).unwrap_or_default();
            match tail {
                _ if at >= BLOCK => break tail,
                _ if others >> at & 1 == 1 => {
                    // An escape of more bytes ends with a digit, so that what was found behind it is right.
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

/// The bytes of a block that a backslash escapes. `is_escaped`: whether a backslash is before the block; then, whether one is before the
/// next.
///
/// A backslash escapes the next byte, unless it is escaped itself. So in a run of them every second one is escaped, and the byte behind
/// the run if their number is odd. An addition carries through each run that begins at an odd place, which turns the bits of those runs.
fn escaped_bytes(backslashes: u64, is_escaped: &mut bool) -> u64 {
    const EVEN: u64 = u64::MAX / 3;
    if backslashes == 0 {
        return u64::from(std::mem::take(is_escaped));
    }
    let backslashes = backslashes & !u64::from(*is_escaped);
    let behind = backslashes << 1 | u64::from(*is_escaped);
    let begins_odd = backslashes & !EVEN & !behind;
    let (carried, overflow) = begins_odd.overflowing_add(backslashes);
    *is_escaped = overflow;
    (EVEN ^ carried << 1) & behind
}

/// The text after a backslash, and after what it escapes.
fn escaped<'a>(rest: &'a [u8], escape: impl FnOnce(&'a [u8]) -> Rest<'a>) -> Rest<'a> {
    match rest {
        [letter, tail @ ..] if is_escape(*letter) => Ok(tail),
        _ => escape(rest),
    }
}

/// Whether a backslash and this letter are an escape.
fn is_escape(letter: u8) -> bool {
    matches!(letter, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

/// One bit for each byte that must be escaped.
fn specials(block: &[u8; BLOCK]) -> u64 {
    ones(block, |part| {
        let is_control = part.min(u8x16::splat(0x1f)).simd_eq(part);
        is_control | part.simd_eq(u8x16::splat(b'"')) | part.simd_eq(u8x16::splat(b'\\'))
    })
}

/// As [`is_escape`], for all but backslashes.
fn is_escape_but_backslash(part: u8x16) -> u8x16 {
    let quote_or_b_or_r =
        part.simd_eq(u8x16::splat(b'"')) | (part & u8x16::splat(!0x10)).simd_eq(u8x16::splat(b'b'));
    let f_or_n = (part & u8x16::splat(!0x08)).simd_eq(u8x16::splat(b'f'));
    quote_or_b_or_r | f_or_n | part.simd_eq(u8x16::splat(b't')) | part.simd_eq(u8x16::splat(b'/'))
}

/// One bit for each byte that is of a kind, that of the first byte lowest.
fn ones(block: &[u8; BLOCK], is_one: impl Fn(u8x16) -> u8x16) -> u64 {
    let (parts, _) = block.as_chunks();
    parts.iter().rev().fold(0, |found, part| found << 16 | u64::from(is_one(u8x16::new(*part)).to_bitmask()))
}

/// The index of the first byte found in a word.
fn place(found: u64) -> usize {
    found.trailing_zeros() as usize / 8
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Sets the top bit of each byte of `word` that must be escaped. Bits above the lowest one may be wrong: a
/// subtraction borrows from the next byte only where it has found something.
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

    /// A text whose first bytes need no escape.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            8 => any::<u8>(),
            4 => prop_oneof![Just(0x20), Just(0x1f), Just(0x80), Just(0xff)],
            4 => prop_oneof![Just(b'"'), Just(b'\\')],
            40 => 0x21..0xff_u8,
        ];
        let plain = (0..300_usize).prop_map(|length| vec![b'a'; length]);
        // Runs of backslashes of all lengths, across the ends of blocks too.
        let run = (0..70_usize, prop::sample::select(&b"n\"u\0"[..]));
        let run = run.prop_map(|(length, last)| [vec![b'\\'; length], vec![last]].concat());
        let runs = prop::collection::vec(run, 0..8).prop_map(|runs| runs.concat());
        (plain, runs, prop::collection::vec(byte, 0..200))
            .prop_map(|(plain, runs, bytes)| [plain, runs, bytes].concat())
    }

    /// Byte by byte, where every letter may follow a backslash.
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

    proptest! {
        #[test]
        fn a_run_ends_before_the_first_byte_that_needs_an_escape(text in text()) {
            let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            prop_assert_eq!(plain_run(&text), text.iter().position(special).unwrap_or(text.len()));
        }

        #[test]
        fn a_body_ends_with_its_first_quote_that_is_not_escaped(text in text()) {
            let place = |rest: &[u8]| text.len() - rest.len();
            let read = body(&text, |tail| tail.get(1..).ok_or(tail));
            prop_assert_eq!(read.map(place).map_err(place), plainly(&text));
        }
    }
}
