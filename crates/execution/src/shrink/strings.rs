//! Cuts the longest strings of JSON.

use serde_json::{Map, Value};

use toolwire_pipeline::wire::text::boundary_upto;

/// Appended to strings that were cut.
pub(super) const MARK: &str = "… [shortened]";

/// Strings are not cut to fewer bytes than this.
const MIN_STRING: usize = 64;

/// Cuts the longest strings in `value`. Returns `None` if that is not enough.
pub(super) fn within(value: &Value, limit: usize) -> Option<String> {
    let mut value = value.clone();
    let mut lengths = Vec::new();
    measure(&value, &mut lengths);
    lengths.sort_unstable();
    if let Value::Object(members) = &mut value {
        members.insert("shortened".to_owned(), Value::Bool(true));
    }
    let excess = value.to_string().len().checked_sub(limit)?;
    let mut most = longest_allowed(&lengths, excess)?;
    // The estimate assumes that escapes are evenly distributed.
    while most >= MIN_STRING {
        cut(&mut value, most);
        let text = value.to_string();
        if text.len() <= limit {
            return Some(text);
        }
        most /= 2;
    }
    None
}

/// The length to which strings must be cut so that they become `excess` bytes shorter in total. `lengths` contains
/// their lengths in JSON, sorted. All lengths are in bytes.
fn longest_allowed(lengths: &[usize], excess: usize) -> Option<usize> {
    let (mut longer, mut sum) = (0, 0_usize);
    for (place, length) in lengths.iter().enumerate().rev() {
        longer += 1;
        sum = sum.saturating_add(*length);
        let next = place.checked_sub(1).and_then(|place| lengths.get(place)).copied().unwrap_or(0);
        // The length to which the longest strings, `longer` of them, must be cut, not counting the mark.
        let most =
            sum.checked_sub(excess).map(|left| left / longer).and_then(|most| most.checked_sub(MARK.len()));
        if let Some(most) = most.filter(|most| *most + MARK.len() >= next && *most >= MIN_STRING) {
            return Some(most);
        }
    }
    None
}

fn measure(value: &Value, lengths: &mut Vec<usize>) {
    match value {
        Value::String(text) => lengths.push(written_length(text)),
        Value::Array(elements) => elements.iter().for_each(|element| measure(element, lengths)),
        Value::Object(members) => members.values().for_each(|member| measure(member, lengths)),
        _ => {}
    }
}

/// Number of bytes of a string in JSON, without its quotes.
pub(super) fn written_length(text: &str) -> usize {
    text.bytes().map(written).sum()
}

/// The number of bytes that a byte of a string needs in JSON.
fn written(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// Length of the longest beginning of `text` that needs at most `room` bytes in JSON.
pub(crate) fn fitting(text: &str, room: usize) -> usize {
    let mut used = 0;
    let is_over = |byte: u8| {
        used += written(byte);
        used > room
    };
    boundary_upto(text, text.bytes().position(is_over).unwrap_or(text.len()))
}

fn cut(value: &mut Value, most: usize) {
    match value {
        Value::String(text) if text.len() > most + MARK.len() => {
            text.truncate(boundary_upto(text, most));
            text.push_str(MARK);
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| cut(element, most)),
        Value::Object(members) => Map::values_mut(members).for_each(|member| cut(member, most)),
        _ => {}
    }
}
