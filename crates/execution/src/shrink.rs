//! Shortens results that are too long.
//!
//! JSON stays JSON. Its longest strings are cut if that is enough. Otherwise, arrays and objects lose elements at their
//! ends, the largest ones first. The end of plain text is cut off. In each case, a remark tells the model what is missing.

mod several;
mod strings;
mod within;

use serde_json::Value;

pub(crate) use self::strings::fitting;
use toolwire_pipeline::wire::text::{boundary_upto, head};

/// Longer results are not parsed as JSON, which would take many times their size.
const MAX_PARSED: usize = 4 << 20;

/// Shortens `content` to at most `limit` bytes. Returns `None` if there is not even room for the remark.
pub(super) fn shrink(content: String, limit: usize) -> Option<String> {
    if content.len() <= limit {
        return Some(content);
    }
    let is_json = content.trim_ascii_start().starts_with(['{', '[', '"']) && content.len() <= MAX_PARSED;
    if !is_json {
        return text_within(&content, limit);
    }
    match serde_json::from_str(&content) {
        Ok(value) => json_within(value, limit).or_else(|| quoted_within(&content, limit)),
        Err(_) => several::within(&content, limit).or_else(|| text_within(&content, limit)),
    }
}

fn json_within(value: Value, limit: usize) -> Option<String> {
    let compact = value.to_string();
    if compact.len() <= limit {
        return Some(compact);
    }
    strings::within(&value, limit).or_else(|| within::within(&value, limit))
}

fn text_within(content: &str, limit: usize) -> Option<String> {
    let note = |kept: usize| format!("\n[Shortened: the first {kept} of {} bytes.]", content.len());
    let kept = boundary_upto(content, limit.checked_sub(note(content.len()).len())?);
    Some(format!("{}{}", head(content, kept), note(kept)))
}

/// The beginning of JSON as a string in JSON, for JSON of which nothing can be left out.
fn quoted_within(content: &str, limit: usize) -> Option<String> {
    let quoted = |kept: usize| {
        let shortened = format!("the first {kept} of {} bytes of JSON", content.len());
        serde_json::json!({"shortened": shortened, "beginning": head(content, kept)}).to_string()
    };
    let room = limit.checked_sub(quoted(0).len() + content.len().to_string().len())?;
    Some(quoted(fitting(content, room)))
}

#[cfg(test)]
mod tests;
