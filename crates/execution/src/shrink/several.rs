//! Shortens several JSON texts that follow one another, such as the lines of a log or an export.

use serde_json::{Deserializer, value::RawValue};

use super::json_within;

/// Keeps the first texts of `content`, and adds one that says how many are missing. Returns `None` if not all of them are
/// JSON.
pub(super) fn within(content: &str, limit: usize) -> Option<String> {
    let texts: Result<Vec<&RawValue>, _> = Deserializer::from_str(content).into_iter().collect();
    let texts = texts.ok()?;
    let note = |missing: usize| {
        let shortened = format!("the last {missing} of {} JSON texts are missing", texts.len());
        serde_json::json!({"shortened": shortened}).to_string()
    };
    let mut room = limit.checked_sub(note(texts.len()).len())?;
    let mut kept = Vec::new();
    for text in &texts {
        let text = text.get();
        let left = room.checked_sub(text.len() + 1);
        match left {
            Some(left) => {
                kept.push(text.to_owned());
                room = left;
            }
            None if kept.is_empty() => {
                kept.push(json_within(serde_json::from_str(text).ok()?, room.checked_sub(1)?)?);
                break;
            }
            None => break,
        }
    }
    if kept.len() < texts.len() {
        kept.push(note(texts.len() - kept.len()));
    }
    Some(kept.join("\n"))
}
