//! Estimates the memory that a tree of values takes, which for small values is many times the size of their
//! text.

use serde_json::{Map, Value};

/// Memory that an allocation takes in addition to its bytes.
pub const ALLOCATION: usize = 16;

/// Memory that a member of an object takes in addition to its name and value: its hash, its place in the
/// index, and spare capacity.
const MEMBER: usize = 64;

/// Estimate of the memory that `value` takes, in bytes.
pub fn memory_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => ALLOCATION + text.len(),
            Value::Array(elements) => ALLOCATION + elements.iter().map(memory_of).sum::<usize>(),
            Value::Object(members) => memory_of_members(members),
            _ => 0,
        }
}

/// Like [`memory_of`], for the members of an object.
pub fn memory_of_members(members: &Map<String, Value>) -> usize {
    let member = |(name, value): (&String, &Value)| {
        MEMBER + size_of::<String>() + ALLOCATION + name.len() + memory_of(value)
    };
    ALLOCATION + members.iter().map(member).sum::<usize>()
}
