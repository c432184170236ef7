//! Shortens results that are too long.
//!
//! JSON stays valid: its longest strings are cut. If that is not enough, or if the result is plain text, its end is cut
//! off. In both cases, a remark tells the model that the result is incomplete.

use serde_json::{Map, Value};

use toolwire_pipeline::wire::text::{boundary_upto, head};

/// Appended to strings that were cut.
const MARK: &str = "… [shortened]";

/// Strings in JSON are not cut to fewer bytes than this.
const MIN_STRING: usize = 64;

/// Results that are longer than this multiple of the limit are not parsed as JSON.
const MAX_RATIO: usize = 64;

/// Shortens `content` to at most `limit` bytes. Returns `None` if there is not even room for the remark.
pub(super) fn shrink(content: String, limit: usize) -> Option<String> {
    if content.len() <= limit {
        return Some(content);
    }
    let is_json = content.starts_with(['{', '[']) && content.len() / MAX_RATIO <= limit;
    let json = is_json.then(|| serde_json::from_str(&content).ok()).flatten();
    json.and_then(|value| json_within(value, limit)).or_else(|| text_within(&content, limit))
}

fn text_within(content: &str, limit: usize) -> Option<String> {
    let note = |kept: usize| format!("\n[Shortened: the first {kept} of {} bytes.]", content.len());
    let kept = boundary_upto(content, limit.checked_sub(note(content.len()).len())?);
    Some(format!("{}{}", head(content, kept), note(kept)))
}

/// Cuts the longest strings in `value`. Returns `None` if that is not enough.
fn json_within(mut value: Value, limit: usize) -> Option<String> {
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
        Value::String(text) => lengths.push(text.bytes().map(written).sum()),
        Value::Array(elements) => elements.iter().for_each(|element| measure(element, lengths)),
        Value::Object(members) => members.values().for_each(|member| measure(member, lengths)),
        _ => {}
    }
}

/// The number of bytes that a byte of a string needs in JSON.
fn written(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_results_stay_as_they_are() {
        for content in ["", "text", "{\"a\": 1}"] {
            assert_eq!(shrink(content.to_owned(), 8).as_deref(), Some(content));
        }
    }

    #[test]
    fn text_is_cut_between_characters_and_says_so() {
        for length in 100..140 {
            let content = "é".repeat(200);
            let short = shrink(content, length).unwrap();
            assert!(short.len() <= length, "{length}: {}", short.len());
            assert!(short.starts_with('é') && short.ends_with(" of 400 bytes.]"), "{short}");
        }
        assert_eq!(shrink("text".repeat(100), 10), None);
    }

    #[test]
    fn json_stays_json_and_loses_its_longest_strings() {
        let content =
            json!({"title": "short", "pages": [{"text": "a".repeat(5000)}, {"text": "é\n".repeat(900)}, 7]});
        for limit in [600, 1000, 3000, 6000] {
            let short = shrink(content.to_string(), limit).unwrap();
            assert!(short.len() <= limit, "{limit}: {}", short.len());
            let read: Value = serde_json::from_str(&short).unwrap();
            assert_eq!((&read["title"], &read["shortened"]), (&json!("short"), &json!(true)));
            assert_eq!(read["pages"][2], 7);
            assert!(read["pages"][0]["text"].as_str().unwrap().ends_with(MARK));
        }
    }

    #[test]
    fn json_without_long_strings_is_cut_as_text() {
        let content = Value::from((0..1000).collect::<Vec<_>>()).to_string();
        let short = shrink(content, 500).unwrap();
        assert!(short.len() <= 500 && short.contains("[Shortened"), "{short}");
    }

    #[test]
    fn broken_json_is_cut_as_text() {
        let short = shrink(format!("{{\"a\": \"{}", "x".repeat(1000)), 200).unwrap();
        assert!(short.len() <= 200 && short.contains("[Shortened"), "{short}");
    }
}
