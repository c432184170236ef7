//! Estimates how much memory a tree of values takes. Small values take many times the size of their text.

use serde_json::{Map, Value};

/// The overhead of an allocation in bytes.
pub const ALLOCATION: usize = 16;

/// The entry of a member in its object: its hash, its name and its value.
const ENTRY: usize = size_of::<usize>() + size_of::<String>() + size_of::<Value>();

/// Estimates how much memory `value` takes, in bytes.
pub fn memory_of(value: &Value) -> usize {
    size_of::<Value>() + beyond(value)
}

/// Like [`memory_of`], but for the members of an object.
pub fn memory_of_members(members: &Map<String, Value>) -> usize {
    if members.is_empty() {
        return 0;
    }
    // The index has a power of two of slots, each with a byte for its state. An eighth of them stays free, and there is
    // room for as many entries as for the others.
    let slots = (members.len().saturating_mul(8) / 7 + 1).next_power_of_two().max(4);
    let index = ALLOCATION + slots * (size_of::<usize>() + 1) + ALLOCATION;
    let entries = ALLOCATION + slots * 7 / 8 * ENTRY;
    let member = |(name, value): (&String, &Value)| ALLOCATION + name.capacity() + beyond(value);
    index + entries + members.iter().map(member).sum::<usize>()
}

/// The memory that a value takes besides its own place.
fn beyond(value: &Value) -> usize {
    match value {
        Value::String(text) => ALLOCATION + text.capacity(),
        Value::Array(elements) => {
            let places = elements.capacity() * size_of::<Value>();
            ALLOCATION + places + elements.iter().map(beyond).sum::<usize>()
        }
        Value::Object(members) => memory_of_members(members),
        // A number is stored as it was written.
        Value::Number(number) => ALLOCATION + number.as_str().len(),
        Value::Null | Value::Bool(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimate is never below what the heap really holds, nor above five times as much.
    #[test]
    fn estimate_covers_the_bytes_that_are_held() {
        let number = |n: usize| format!("{n}");
        let shapes: [(&str, &dyn Fn(usize) -> String); 6] = [
            ("numbers", &|n| format!("[{}]", vec!["0"; n].join(","))),
            ("strings", &|n| format!("[{}]", vec!["\"abc\""; n].join(","))),
            ("a long string", &|n| format!("[\"{}\"]", "x".repeat(n))),
            ("arrays", &|n| format!("[{}]", vec!["[0]"; n].join(","))),
            ("members", &|n| {
                let members: Vec<_> = (0..n).map(|n| format!("\"{}\":0", number(n))).collect();
                format!("{{{}}}", members.join(","))
            }),
            ("objects", &|n| format!("[{}]", vec![r#"{"a":{}}"#; n].join(","))),
        ];
        for (shape, text) in shapes {
            for count in [1, 2, 3, 5, 9, 100, 257, 1025, 4000, 8193] {
                let (text, mut value) = (text(count), Value::Null);
                let heap = allocation_counter::measure(|| value = serde_json::from_str(&text).unwrap());
                let held = usize::try_from(heap.bytes_current).unwrap() + size_of::<Value>();
                let estimate = memory_of(&value);
                assert!(
                    held <= estimate,
                    "{count} {shape}: {held} bytes are held, the estimate is {estimate}"
                );
                assert!(estimate <= 5 * held + 200, "{count} {shape}: {held} bytes, estimate {estimate}");
            }
        }
    }
}
