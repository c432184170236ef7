//! How secrets appear in the tables of a resolved configuration.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use toml::Value;

pub(super) const MASK: &str = "********";

const HASH_DIGITS: usize = 16;

/// The mask, followed by a hash for comparing configurations within this process. The hash is keyed with a value that
/// is random for each process. [`hide`] removes the hash.
pub(super) fn masked(secret: impl AsRef<[u8]>) -> String {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    format!("{MASK}{:0HASH_DIGITS$x}", HASHER.hash_one(secret.as_ref()))
}

/// Separates a value from the hash of the content that it refers to. No path contains this character.
const MARK: char = '\0';

/// Returns `shown` followed by the mask and a hash of `content`, which [`hide`] removes. Used for values that refer to
/// content elsewhere, such as paths.
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
            // The mask may be part of a URL.
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
