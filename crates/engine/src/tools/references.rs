//! [`References`] and [`referred`]: resolve the references within a tool's schema.
//!
//! Only references to places in the same schema are resolved, such as `#/$defs/Place`: JSON pointers in a URI's
//! fragment (RFC 6901, section 6).
//!
//! Clients choose the schemas, and a reference costs them only a few bytes. An object on the path of a
//! reference is therefore parsed only once, and since every reference reads its target again, the sizes of
//! all targets count toward one budget for the request. So does the memory for the members of those objects.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::HashMap,
};

use serde_json::Value;

use crate::wire::json::{ALLOCATION, Json, Kind};

/// Maximum total size, in bytes, of the targets of all references in a request's tools. Once it is exceeded,
/// further targets count as unknown.
pub(crate) const MAX_FOLLOWED: usize = 4 << 20;

/// Maximum number of bytes for the members of all objects on the paths of references. Further objects count as unknown.
/// A schema of [`MAX_FOLLOWED`] bytes could otherwise take sixteen times as many.
pub(crate) const MAX_MEMBERS: usize = 16 << 20;

/// The bytes that a member takes at most: its entry, in a table that has just doubled.
const MEMBER: usize = 3 * size_of::<(Cow<'static, str>, Json<'static>)>();

const MAX_PATH: usize = 16;

/// How much references may still read, in bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Of targets.
    targets: Cell<usize>,
    /// Of the memory for members.
    members: Cell<usize>,
}

impl Budget {
    /// Returns a budget of `targets` and of [`MAX_MEMBERS`].
    pub(crate) fn new(targets: usize) -> Self {
        Self { targets: targets.into(), members: MAX_MEMBERS.into() }
    }

    /// Lets as many targets be read again. Members that were read stay in memory.
    pub(crate) fn renew(&self, targets: usize) {
        self.targets.set(targets);
    }
}

/// The references within a schema.
#[derive(Debug)]
pub(crate) struct References<'a> {
    root: Json<'a>,
    /// The members of each object on the path of a reference, by the object's address. Filled only when a
    /// reference is found, since most schemas have none.
    members: RefCell<HashMap<usize, Members<'a>>>,
    left: &'a Budget,
}

type Members<'a> = HashMap<Cow<'a, str>, Json<'a>>;

impl<'a> References<'a> {
    /// Creates a resolver for the schema `root`.
    pub(crate) fn new(root: Json<'a>, left: &'a Budget) -> Self {
        Self { root, members: RefCell::default(), left }
    }

    pub(crate) fn root(&self) -> Json<'a> {
        self.root
    }

    /// The target of a reference such as `#/$defs/Place`. `None` if there is no such target, or if the budget
    /// is used up.
    pub(crate) fn target(&self, reference: &str) -> Option<Json<'a>> {
        let mut found = self.root;
        for name in names(reference)? {
            found = match found.kind() {
                Kind::Array => found.elements().nth(name.parse().ok()?)?,
                _ => self.member(found, &name)?,
            };
        }
        let Budget { targets, .. } = self.left;
        targets.set(targets.get().checked_sub(found.raw().len())?);
        Some(found)
    }

    /// Follows the references at the top level of `schema`. A schema that consists of a single `allOf` is a
    /// reference, too: OpenAPI and older generators write it to add a description. `None` if there are too many
    /// references, or a target does not exist.
    pub(crate) fn resolved(&self, mut schema: Json<'a>) -> Option<Json<'a>> {
        for _ in 0..MAX_PATH {
            let (mut reference, mut parts) = (None, None);
            for (key, value) in schema.members() {
                match &*key {
                    "$ref" => reference = reference.or(Some(value)),
                    "allOf" => parts = parts.or(Some(value)),
                    _ => {}
                }
            }
            schema = match (reference, parts.and_then(|parts| lone_part(schema, parts))) {
                (Some(reference), _) => self.target(&reference.as_str()?)?,
                (None, Some(part)) => part,
                (None, None) => return Some(schema),
            };
        }
        None
    }

    /// The member of `object` with this name.
    fn member(&self, object: Json<'a>, name: &str) -> Option<Json<'a>> {
        let mut known = self.members.borrow_mut();
        let members = known.entry(object.raw().as_ptr().addr()).or_insert_with(|| {
            let mut members = Members::new();
            for (key, value) in object.members() {
                let size = MEMBER + if let Cow::Owned(key) = &key { ALLOCATION + key.len() } else { 0 };
                let Some(left) = self.left.members.get().checked_sub(size) else { return Members::new() };
                self.left.members.set(left);
                // If a key is repeated, its first value counts.
                members.entry(key).or_insert(value);
            }
            members
        });
        members.get(name).copied()
    }
}

/// The only one of the `parts` in the `allOf` of a schema that says nothing else about a value.
fn lone_part<'a>(schema: Json<'a>, parts: Json<'a>) -> Option<Json<'a>> {
    let mut parts = parts.elements();
    let part = parts.next().filter(|_| parts.next().is_none())?;
    let notes = ["allOf", "description", "title", "default", "examples", "deprecated"];
    schema.members().all(|(key, _)| notes.contains(&&*key)).then_some(part)
}

/// The names on the path of a reference, from the root. `None` if the reference leads elsewhere, or if the path is
/// too long.
fn names(reference: &str) -> Option<Vec<String>> {
    let path = percent_decoded(reference.strip_prefix('#')?);
    let mut names = path.split('/');
    let begins = names.next().is_some_and(str::is_empty);
    let names: Vec<String> =
        names.take(MAX_PATH + 1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    (begins && names.len() <= MAX_PATH).then_some(names)
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    let mut parts = text.split('%');
    let mut decoded: Vec<u8> = parts.next().unwrap_or_default().into();
    for part in parts {
        let digits = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (digits, part.get(2..)) {
            (Some(byte), Some(rest)) => {
                decoded.push(byte);
                decoded.extend_from_slice(rest.as_bytes());
            }
            _ => {
                decoded.push(b'%');
                decoded.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8(decoded).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The place in `root` that `reference` refers to.
pub fn referred<'v>(root: &'v Value, reference: &str) -> Option<&'v Value> {
    names(reference)?.iter().try_fold(root, |found, name| match found {
        Value::Object(members) => members.get(name),
        Value::Array(elements) => elements.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_by_their_path() {
        let schema = r##"{"$defs": {"a/b": {"x": 1}, "a~1b": 2, "c": {"d": {"e": 3}}, "c": 4}, "": 5, "list": [6, 7]}"##;
        let root = Json::parse(schema).unwrap();
        let left = Budget::new(MAX_FOLLOWED);
        let references = References::new(root, &left);
        for (reference, expected) in [
            ("#", Some(schema)),
            ("#/$defs/a~1b", Some(r#"{"x": 1}"#)),
            ("#/$defs/a~1b/x", Some("1")),
            ("#/$defs/a~01b", Some("2")),
            ("#/%24defs/a~1b/x", Some("1")),
            ("#/$defs/a%2Fb", None),
            ("#/list/1", Some("7")),
            ("#/list/2", None),
            ("#/$defs/c/d/e", Some("3")),
            ("#/", Some("5")),
            ("#/$defs/missing", None),
            ("#/$defs/c/d/e/f", None),
            ("#$defs", None),
            ("other.json#/$defs", None),
        ] {
            assert_eq!(references.target(reference).map(|found| found.raw()), expected, "{reference}");
            // A tree keeps the last of two members with the same key.
            if reference != "#" && !reference.contains("/c/") {
                let expected = expected.map(|text| serde_json::from_str::<Value>(text).unwrap());
                assert_eq!(referred(&root.to_value(), reference), expected.as_ref(), "{reference}");
            }
        }
    }

    /// The definitions are read only once, and not at all without references to them.
    #[test]
    fn many_references_past_many_definitions_read_them_once() {
        let definitions: String = (0..2000).map(|number| format!(r#""d{number}":{{}},"#)).collect();
        let schema = format!(r#"{{"$defs":{{{definitions}"zz":{{"type":"string"}}}}}}"#);
        let left = Budget::new(MAX_FOLLOWED);
        let references = References::new(Json::parse(&schema).unwrap(), &left);
        assert!(references.members.borrow().is_empty());
        for _ in 0..500 {
            assert_eq!(references.target("#/$defs/zz").unwrap().raw(), r#"{"type":"string"}"#);
            assert!(references.target("#/$defs/none").is_none());
        }
        let read: Vec<usize> = references.members.borrow().values().map(HashMap::len).collect();
        assert_eq!(read.iter().sum::<usize>(), 1 + 2001);
        assert_eq!(MAX_FOLLOWED - left.targets.get(), 500 * r#"{"type":"string"}"#.len());
    }

    #[test]
    fn large_targets_are_followed_up_to_a_limit() {
        let schema = format!(r##"{{"a":{{"const":"{}"}}}}"##, "x".repeat(1000));
        let left = Budget::new(10_000);
        let references = References::new(Json::parse(&schema).unwrap(), &left);
        assert_eq!((0..100).filter(|_| references.target("#/a").is_some()).count(), 9);
    }

    /// A target of exactly the budget is read, and one of a byte more is not.
    #[test]
    fn targets_are_limited_by_their_bytes() {
        for (more, is_read) in [(0, true), (1, false)] {
            let target = format!("\"{}\"", "x".repeat(MAX_FOLLOWED - 2 + more));
            let schema = format!("{{\"a\":{target}}}");
            let left = Budget::new(MAX_FOLLOWED);
            let references = References::new(Json::parse(&schema).unwrap(), &left);
            assert_eq!(references.target("#/a").is_some(), is_read);
            assert_eq!(left.targets.get(), if is_read { 0 } else { MAX_FOLLOWED });
        }
    }

    /// The members take no more bytes of the heap than their limit, at it and beyond it.
    #[test]
    fn members_are_limited_by_their_bytes() {
        // The root has one member, too.
        let most = MAX_MEMBERS / MEMBER - 1;
        let escaped = (MAX_MEMBERS - MEMBER) / (MEMBER + ALLOCATION + 7);
        for (key, most) in [("d", most), ("\\u0064", escaped)] {
            for (count, is_read) in [(most, true), (most + 1, false), (8 * most, false)] {
                let definitions: Vec<_> =
                    (0..count).map(|number| format!("\"{key}{number:06}\":{{}}")).collect();
                let schema = format!("{{\"$defs\":{{{}}}}}", definitions.join(","));
                let left = Budget::new(MAX_FOLLOWED);
                let references = References::new(Json::parse(&schema).unwrap(), &left);
                let mut found = None;
                let heap = allocation_counter::measure(|| found = references.target("#/$defs/d000007"));
                assert_eq!(found.is_some(), is_read, "{count} {key}");
                assert!(heap.bytes_max <= MAX_MEMBERS as u64, "{count} {key}: {} bytes", heap.bytes_max);
            }
        }
    }
}
