//! [`Names`]: a bounded set of names that become labels.

use parking_lot::Mutex;
use std::{collections::HashSet, fmt};

use super::OTHER;

/// Maximum number of tool names that become labels in one process. Any others become `other`.
pub(super) const MAX_NAMES: usize = 256;

/// Maximum length in bytes of a tool name that becomes a label, which is the longest that OpenAI allows. Longer names
/// become `other`.
const MAX_NAME: usize = 64;

#[derive(Default)]
pub(super) struct Names(Mutex<HashSet<String>>);

impl Names {
    /// Returns `name` if it is a label or can become one, and [`OTHER`] otherwise.
    pub(super) fn label(&self, name: Option<&str>) -> String {
        let Some(name) = name else { return OTHER.to_owned() };
        let mut known = self.0.lock();
        let new = !known.contains(name);
        if new && (known.len() >= MAX_NAMES || name.len() > MAX_NAME) {
            return OTHER.to_owned();
        }
        if new {
            known.insert(name.to_owned());
        }
        name.to_owned()
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names")
    }
}
