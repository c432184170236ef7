//! [`CallIds`]: converts call ids to what the API requires, `[a-zA-Z0-9_-]+`.

use std::{
    borrow::Cow,
    collections::VecDeque,
    hash::{DefaultHasher, Hasher},
};

/// Assigns an id to each call, and the same id to the call's result.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    /// Number of calls without an id so far.
    unnamed: usize,
    /// The generated ids of calls that have no result yet.
    unanswered: VecDeque<String>,
}

impl CallIds {
    pub(super) fn of_call<'c>(&mut self, id: &'c str) -> Cow<'c, str> {
        if id.is_empty() {
            let new = format!("call_{}", self.unnamed);
            self.unnamed += 1;
            self.unanswered.push_back(new.clone());
            return new.into();
        }
        valid(id)
    }

    /// The id for a result. A result without an id belongs to the first call without an id that has no result
    /// yet.
    pub(super) fn of_result<'c>(&mut self, id: &'c str) -> Cow<'c, str> {
        if id.is_empty() {
            return self.unanswered.pop_front().unwrap_or_else(|| "call_0".to_owned()).into();
        }
        valid(id)
    }
}

/// Whether the API accepts `id`.
pub(super) fn is_valid(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(is_allowed)
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns `id`, or a replacement that depends only on `id`.
fn valid(id: &str) -> Cow<'_, str> {
    if is_valid(id) {
        return Cow::Borrowed(id);
    }
    // Ids that differ only in the replaced characters must stay different.
    let mut hasher = DefaultHasher::new();
    hasher.write(id.as_bytes());
    let kept: String = id.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).collect();
    Cow::Owned(format!("{kept}_{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_another_form_are_replaced_by_the_same_one_each_time() {
        let mut ids = CallIds::default();
        assert_eq!(ids.of_call("toolu_01-A"), "toolu_01-A");
        let other = ids.of_call("functions.f:0").into_owned();
        assert!(is_valid(&other) && other.starts_with("functions_f_0_"), "{other}");
        assert_eq!(ids.of_result("functions.f:0"), other);
        assert_ne!(ids.of_call("functions.f.0"), other);
        assert!(is_valid(&ids.of_call("é\n\"")));
    }

    #[test]
    fn calls_without_ids_are_answered_in_order() {
        let mut ids = CallIds::default();
        assert_eq!((ids.of_call(""), ids.of_call("")), ("call_0".into(), "call_1".into()));
        assert_eq!((ids.of_result(""), ids.of_result("")), ("call_0".into(), "call_1".into()));
        assert_eq!(ids.of_result(""), "call_0");
    }
}
