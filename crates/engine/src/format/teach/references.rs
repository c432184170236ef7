//! [`References`]: resolves the references within a tool's schema.
//!
//! Clients choose the schemas, and a reference costs them only a few bytes. An object on the path of a
//! reference is therefore parsed only once, and since every reference reads its target again, the sizes of
//! all targets count toward one budget for the request.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::HashMap,
};

use crate::wire::json::Json;

/// Maximum total size, in bytes, of the targets of all references in a request's tools. Once it is exceeded,
/// further targets count as unknown.
pub(super) const MAX_FOLLOWED: usize = 4 << 20;

const MAX_PATH: usize = 16;

#[derive(Debug)]
pub(super) struct References<'a> {
    root: Json<'a>,
    /// The members of each object on the path of a reference, by the object's address. Filled only when a
    /// reference is found, since most schemas have none.
    members: RefCell<HashMap<usize, Members<'a>>>,
    /// Number of bytes of targets that may still be read.
    left: &'a Cell<usize>,
}

type Members<'a> = HashMap<Cow<'a, str>, Json<'a>>;

impl<'a> References<'a> {
    /// Creates a resolver for the schema `root`. `left` is the remaining part of [`MAX_FOLLOWED`].
    pub(super) fn new(root: Json<'a>, left: &'a Cell<usize>) -> Self {
        Self { root, members: RefCell::default(), left }
    }

    pub(super) fn root(&self) -> Json<'a> {
        self.root
    }

    /// The target of a reference such as `#/$defs/Place`. `None` if there is no such target, or if the budget
    /// is used up.
    pub(super) fn target(&self, reference: &str) -> Option<Json<'a>> {
        let path = reference.strip_prefix('#')?;
        let mut found = self.root;
        if !path.is_empty() {
            let mut names = path.strip_prefix('/')?.split('/');
            for name in names.by_ref().take(MAX_PATH) {
                found = self.member(found, name)?;
            }
            if names.next().is_some() {
                return None;
            }
        }
        self.left.set(self.left.get().checked_sub(found.raw().len())?);
        Some(found)
    }

    /// The member of `object` with this name, which is escaped as in a reference.
    fn member(&self, object: Json<'a>, name: &str) -> Option<Json<'a>> {
        let mut known = self.members.borrow_mut();
        let members = known.entry(object.raw().as_ptr().addr()).or_insert_with(|| {
            let mut members = Members::new();
            for (key, value) in object.members() {
                // If a key is repeated, its first value counts.
                members.entry(key).or_insert(value);
            }
            members
        });
        let name = match name.contains('~') {
            true => Cow::Owned(name.replace("~1", "/").replace("~0", "~")),
            false => Cow::Borrowed(name),
        };
        members.get(&*name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_by_their_path() {
        let schema = r##"{"$defs": {"a/b": {"x": 1}, "a~1b": 2, "c": {"d": {"e": 3}}, "c": 4}, "": 5}"##;
        let root = Json::parse(schema).unwrap();
        let left = Cell::new(MAX_FOLLOWED);
        let references = References::new(root, &left);
        for (reference, expected) in [
            ("#", Some(schema)),
            ("#/$defs/a~1b", Some(r#"{"x": 1}"#)),
            ("#/$defs/a~1b/x", Some("1")),
            ("#/$defs/a~01b", Some("2")),
            ("#/$defs/c/d/e", Some("3")),
            ("#/", Some("5")),
            ("#/$defs/missing", None),
            ("#/$defs/c/d/e/f", None),
            ("#$defs", None),
            ("other.json#/$defs", None),
        ] {
            assert_eq!(references.target(reference).map(|found| found.raw()), expected, "{reference}");
        }
    }

    /// The definitions are read only once, and not at all without references to them.
    #[test]
    fn many_references_past_many_definitions_read_them_once() {
        let definitions: String = (0..2000).map(|number| format!(r#""d{number}":{{}},"#)).collect();
        let schema = format!(r#"{{"$defs":{{{definitions}"zz":{{"type":"string"}}}}}}"#);
        let left = Cell::new(MAX_FOLLOWED);
        let references = References::new(Json::parse(&schema).unwrap(), &left);
        assert!(references.members.borrow().is_empty());
        for _ in 0..500 {
            assert_eq!(references.target("#/$defs/zz").unwrap().raw(), r#"{"type":"string"}"#);
            assert!(references.target("#/$defs/none").is_none());
        }
        let read: Vec<usize> = references.members.borrow().values().map(HashMap::len).collect();
        assert_eq!(read.iter().sum::<usize>(), 1 + 2001);
        assert_eq!(MAX_FOLLOWED - left.get(), 500 * r#"{"type":"string"}"#.len());
    }

    #[test]
    fn large_targets_are_followed_up_to_a_limit() {
        let schema = format!(r##"{{"a":{{"const":"{}"}}}}"##, "x".repeat(1000));
        let left = Cell::new(10_000);
        let references = References::new(Json::parse(&schema).unwrap(), &left);
        assert_eq!((0..100).filter(|_| references.target("#/a").is_some()).count(), 9);
    }
}
