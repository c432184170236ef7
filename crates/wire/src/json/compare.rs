//! Compares JSON by value rather than by how it is written.

use serde_json::{Number, Value};

/// Whether both texts are JSON with the same value. White space, the order of members, escapes and the spelling of
/// numbers are ignored. Texts that are not JSON are the same only if they are identical.
pub fn is_same(left: &str, right: &str) -> bool {
    let values = || Some((serde_json::from_str(left).ok()?, serde_json::from_str(right).ok()?));
    left == right || values().is_some_and(|(left, right): (Value, Value)| same(&left, &right))
}

/// Whether `longer` is a later state of the unfinished object `shorter`: every value is the same or longer, and
/// there may be additional values. A `null` may become anything.
pub fn continues(shorter: &str, longer: &str) -> bool {
    let values = || Some((serde_json::from_str(shorter).ok()?, serde_json::from_str(longer).ok()?));
    shorter == longer || values().is_some_and(|(shorter, longer): (Value, Value)| grows(&shorter, &longer))
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => same_number(left, right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let is_in =
                |(key, left): (&String, &Value)| right.get(key).is_some_and(|right| same(left, right));
            left.len() == right.len() && left.iter().all(is_in)
        }
        (left, right) => left == right,
    }
}

fn same_number(left: &Number, right: &Number) -> bool {
    left == right || ((left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64())
}

fn grows(shorter: &Value, longer: &Value) -> bool {
    match (shorter, longer) {
        (Value::Null, _) => true,
        (Value::String(shorter), Value::String(longer)) => longer.starts_with(shorter.as_str()),
        (Value::Number(shorter), Value::Number(longer)) => {
            same_number(shorter, longer) || longer.to_string().starts_with(&shorter.to_string())
        }
        (Value::Array(shorter), Value::Array(longer)) => {
            shorter.len() <= longer.len()
                && shorter.iter().zip(longer).all(|(shorter, longer)| grows(shorter, longer))
        }
        (Value::Object(shorter), Value::Object(longer)) => {
            let grown =
                |(key, value): (&String, &Value)| longer.get(key).is_some_and(|new| grows(value, new));
            shorter.iter().all(grown)
        }
        (shorter, longer) => shorter == longer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_value_are_the_same() {
        for (left, right) in [
            (r#"{"a":1,"b":[true,null]}"#, r#" { "b" : [true, null], "a": 1.0 } "#),
            (r#"{"a":"é"}"#, r#"{"a":"\u00e9"}"#),
            ("x", "x"),
        ] {
            assert!(is_same(left, right) && is_same(right, left), "{left} {right}");
            assert!(continues(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("{}", r#"{"a":null}"#),
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
            ("x", "y"),
            ("{}", "{"),
        ] {
            assert!(!is_same(left, right) && !is_same(right, left), "{left} {right}");
        }
    }

    #[test]
    fn an_object_continues_its_earlier_states() {
        for (shorter, longer) in [
            ("{}", r#"{"a":1}"#),
            (r#"{"path":"/h"}"#, r#"{"path":"/home"}"#),
            (r#"{"n":1,"p":null}"#, r#"{"p":{"x":[]},"n":12}"#),
            (r#"{"l":["a",{"b":""}]}"#, r#"{"l":["a",{"b":"c"},"d"]}"#),
        ] {
            assert!(continues(shorter, longer), "{shorter} {longer}");
            assert!(!continues(longer, shorter), "{shorter} {longer}");
        }
        for (one, other) in
            [(r#"{"a":"x"}"#, r#"{"a":"yx"}"#), (r#"{"a":true}"#, r#"{"a":false}"#), ("{}", r#"{"a"#)]
        {
            assert!(!continues(one, other), "{one} {other}");
        }
    }
}
