//! The memory that a tree of values takes: for small values it is many times their text.

use serde_json::{Map, Value};

/// What an allocation takes beside its bytes.
pub const ALLOCATION: usize = 16;

/// What a member of an object takes beside its name and its value: its hash, its place in the index, and room for more.
const MEMBER: usize = 64;

/// Bytes of memory that `value` takes, by estimate.
pub fn memory_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => ALLOCATION + text.len(),
            Value::Array(elements) => ALLOCATION + elements.iter().map(memory_of).sum::<usize>(),
            Value::Object(members) => memory_of_members(members),
            _ => 0,
        }
}

/// The same for the members of an object.
pub fn memory_of_members(members: &Map<String, Value>) -> usize {
    let member = |(name, value): (&String, &Value)| {
        MEMBER + size_of::<String>() + ALLOCATION + name.len() + memory_of(value)
    };
    ALLOCATION + members.iter().map(member).sum::<usize>()
}
