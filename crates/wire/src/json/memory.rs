//! Estimates how much memory a tree of values takes. Small values take many times the size of their text.

use serde_json::{Map, Value};

/// The overhead of an allocation in bytes.
pub const ALLOCATION: usize = 16;

/// The overhead of a member of an object in bytes: its hash, its index entry and spare capacity.
const MEMBER: usize = 64;

/// Estimates how much memory `value` takes, in bytes.
pub fn memory_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => ALLOCATION + text.len(),
            Value::Array(elements) => ALLOCATION + elements.iter().map(memory_of).sum::<usize>(),
            Value::Object(members) => memory_of_members(members),
            _ => 0,
        }
}

/// Like [`memory_of`], but for the members of an object.
pub fn memory_of_members(members: &Map<String, Value>) -> usize {
    let member = |(name, value): (&String, &Value)| {
        MEMBER + size_of::<String>() + ALLOCATION + name.len() + memory_of(value)
    };
    ALLOCATION + members.iter().map(member).sum::<usize>()
}
