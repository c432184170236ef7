//! The forms of secrets in the tables of a resolved configuration.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use toml::Value;

/// Shown instead of a secret.
pub(super) const MASK: &str = "********";

/// Number of digits of the hash after the mask.
const HASH_DIGITS: usize = 16;

/// The form of a secret in tables: the mask, and a hash that differs in every process. Equal hashes show that two
/// configurations in this process have the same secret. [`hide`] removes the hash.
pub(super) fn masked(secret: impl AsRef<[u8]>) -> String {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    format!("{MASK}{:0HASH_DIGITS$x}", HASHER.hash_one(secret.as_ref()))
}

/// Separates a value from the hash of the content that the value names. No path contains this character.
const MARK: char = '\0';

/// The form, in tables, of a value that names `content`: the value as it is shown, and a hash like that of
/// [`masked`], which [`hide`] removes.
pub(super) fn marked(shown: &str, content: impl AsRef<[u8]>) -> String {
    format!("{shown}{MARK}{}", masked(content))
}

/// Removes the hashes of [`masked`] and [`marked`] from `value`.
pub(super) fn hide(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(end) = text.find(MARK) {
                text.truncate(end);
            }
            // The mask may be inside a URL.
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
