//! The forms of secrets in the tables of a resolved configuration.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use toml::Value;

/// Shown instead of a secret.
pub(super) const MASK: &str = "********";

/// Digits of the hash after it.
const HASH_DIGITS: usize = 16;

/// The form of a secret in tables: the mask, and a hash that differs in every process. It tells whether two configurations of this
/// process have the same secret. [`hide`] leaves only the mask.
pub(super) fn masked(secret: impl AsRef<[u8]>) -> String {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    format!("{MASK}{:0HASH_DIGITS$x}", HASHER.hash_one(secret.as_ref()))
}

/// Separates a value from the mark of what it names. No path contains it.
const MARK: char = '\0';

/// The form in tables of a value that names `content`: the value as it is shown, and a hash as that of [`masked`], which [`hide`]
/// removes.
pub(super) fn marked(shown: &str, content: impl AsRef<[u8]>) -> String {
    format!("{shown}{MARK}{}", masked(content))
}

/// Replaces all masks with hashes in `value` by the mask alone, and takes away the marks of [`marked`].
pub(super) fn hide(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(end) = text.find(MARK) {
                text.truncate(end);
            }
            // It may stand inside a URL.
            if let Some((before, after)) = text.split_once(MASK) {
                let rest = after.get(HASH_DIGITS..).unwrap_or_default();
                *text = [before, MASK, rest].concat();
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(hide),
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| hide(value)),
        _ => {}
    }
}
