//! [`StreamedCall`]: a call whose arguments arrive in pieces (`partialArgs`), each with the path of its
//! value.
//!
//! The pieces set values of an object in any order, so the call can be passed on only when it is complete.
//! Only Vertex AI sends such calls, and only if the request asks for them, which toolwire's requests never
//! do.

use serde_json::{Map, Value};

use crate::{
    event::Opaque,
    failure::Failure,
    rules::Limits,
    wire::json::{Json, MAX_DEPTH},
};

#[derive(Debug)]
pub(super) struct StreamedCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) signature: Option<Opaque<'static>>,
    arguments: Value,
    /// The total size of all pieces in bytes.
    bytes: usize,
}

impl StreamedCall {
    /// Creates a call with the first `arguments`, if there are any.
    pub(super) fn new(
        id: &str,
        name: &str,
        arguments: Option<Json<'_>>,
        signature: Option<Opaque<'_>>,
    ) -> Self {
        let arguments = arguments.map(|json| json.to_value()).filter(Value::is_object);
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            signature: signature.map(Opaque::into_owned),
            arguments: arguments.unwrap_or_else(|| Map::new().into()),
            bytes: 0,
        }
    }

    /// Adds a piece, which is a value or part of a string. Returns whether it was understood.
    ///
    /// # Errors
    /// The arguments are too long.
    pub(super) fn add(&mut self, piece: Json<'_>, limits: &Limits) -> Result<bool, Failure> {
        self.bytes += piece.raw().len();
        if self.bytes > limits.max_arguments {
            return Err(limits.arguments_too_long());
        }
        Ok(self.put(piece).is_some())
    }

    pub(super) fn arguments(&self) -> String {
        self.arguments.to_string()
    }

    fn put(&mut self, piece: Json<'_>) -> Option<()> {
        let path = piece.get("jsonPath")?.as_str()?;
        let place = place(&mut self.arguments, &path)?;
        let value = |key: &str| piece.get(key).filter(|value| !value.is_null());
        if let Some(text) = value("stringValue").and_then(|text| text.as_str()) {
            match place {
                Value::String(so_far) => so_far.push_str(&text),
                place => *place = text.into_owned().into(),
            }
        } else {
            let given = value("numberValue").or_else(|| value("boolValue"));
            *place = given.map(|given| given.to_value()).unwrap_or_default();
        }
        Some(())
    }
}

/// The value at a path such as `$.list[0].name` or `$['a']`. Missing values along the path are created.
/// `None` if `path` is invalid, or a value along the path is of another type.
fn place<'v>(root: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    let mut rest = path.strip_prefix('$')?;
    let mut place = root;
    for _ in 0..MAX_DEPTH {
        if rest.is_empty() {
            return Some(place);
        }
        let (step, after) = step(rest)?;
        rest = after;
        place = match step {
            Step::Key(key) => {
                if place.is_null() {
                    *place = Map::new().into();
                }
                place.as_object_mut()?.entry(key).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let list = place.as_array_mut()?;
                if index == list.len() {
                    list.push(Value::Null);
                }
                list.get_mut(index)?
            }
        };
    }
    None
}

enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

/// The first step of a path and the remaining path.
fn step(path: &str) -> Option<(Step<'_>, &str)> {
    if let Some(path) = path.strip_prefix('.') {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (key, rest) = path.split_at_checked(end)?;
        return (!key.is_empty()).then_some((Step::Key(key), rest));
    }
    let path = path.strip_prefix('[')?;
    if let Some(quote @ ('\'' | '"')) = path.chars().next() {
        let (key, rest) = path.get(1..)?.split_once(quote)?;
        return Some((Step::Key(key), rest.strip_prefix(']')?));
    }
    let (index, rest) = path.split_once(']')?;
    Some((Step::Index(index.parse().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(pieces: &[&str]) -> (String, usize) {
        let mut call = StreamedCall::new("", "f", None, None);
        let add = |piece: &&&str| call.add(Json::parse(piece).unwrap(), &Limits::default()).unwrap();
        let understood = pieces.iter().filter(add).count();
        (call.arguments(), understood)
    }

    #[test]
    fn arguments_are_assembled_from_paths() {
        let pieces = [
            r#"{"jsonPath":"$.city","stringValue":"Pa","willContinue":true}"#,
            r#"{"jsonPath":"$.list[0].x","numberValue":1.5}"#,
            r#"{"jsonPath":"$.city","stringValue":"ris"}"#,
            r#"{"jsonPath":"$.list[1]","boolValue":true}"#,
            r#"{"jsonPath":"$['a b']","nullValue":"NULL_VALUE"}"#,
        ];
        let expected = r#"{"city":"Paris","list":[{"x":1.5},true],"a b":null}"#;
        assert_eq!(assembled(&pieces), (expected.to_owned(), 5));
    }

    #[test]
    fn paths_that_lead_nowhere_are_not_followed() {
        let deep = format!("{{\"jsonPath\":\"${}\",\"stringValue\":\"x\"}}", ".a".repeat(10_000));
        for path in ["", "city", "$.", "$.a[4000000000]", "$[0]", "$.a[-1]", "$['a", "$.a.."] {
            let piece = format!("{{\"jsonPath\":\"{path}\",\"stringValue\":\"x\"}}");
            assert_eq!(assembled(&[&piece]).1, 0, "{path}");
        }
        assert_eq!(assembled(&[&deep]).1, 0);
    }
}
