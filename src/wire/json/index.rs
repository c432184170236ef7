//! [`Index`]: the ends of a text's containers, recorded while it is checked.

use super::{
    Invalid, Json,
    whole::{self, Marks},
};

/// Allows a text to be walked without searching for the ends of its containers again, which a view without an
/// index does at each level. Worthwhile if most of a deep text is walked, as for a request.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// In the order in which they begin: the contents of a container follow it.
    extents: Vec<Extent>,
    /// The index of the innermost open container.
    innermost: usize,
}

/// A container of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Its length in bytes, including brackets. While it is open: the number of bytes left in the text at its
    /// beginning.
    pub(super) bytes: u32,
    /// The number of containers in it, at any depth. While it is open: the index of its parent.
    pub(super) inner: u32,
}

impl Index {
    /// As [`Json::parse`]; the view knows where its containers end.
    ///
    /// # Errors
    /// `text` is not one JSON value.
    pub(crate) fn parse<'a>(&'a mut self, text: &'a str) -> Result<Json<'a>, Invalid> {
        if u32::try_from(text.len()).is_err() {
            return Json::parse(text);
        }
        *self = Self::default();
        let json = Json::checked(text, |begin| whole::value(begin, self))?;
        // The value itself is the first, unless it is not a container.
        let inner = self.extents.get(1..).unwrap_or_default();
        Ok(Json { inner, ..json })
    }
}

impl Marks for Index {
    fn open(&mut self, left: usize) {
        let outer = std::mem::replace(&mut self.innermost, self.extents.len());
        self.extents.push(Extent { bytes: left as u32, inner: outer as u32 });
    }

    fn close(&mut self, left: usize) {
        let count = self.extents.len();
        let Some(extent) = self.extents.get_mut(self.innermost) else { return };
        let inner = count - self.innermost - 1;
        self.innermost = extent.inner as usize;
        *extent = Extent { bytes: extent.bytes - left as u32, inner: inner as u32 };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::json::Kind;

    /// Everything that a walk finds.
    fn walked(json: Json<'_>, found: &mut Vec<String>) {
        found.push(json.raw().to_owned());
        match json.kind() {
            Kind::Array => json.elements().for_each(|element| walked(element, found)),
            Kind::Object => json.members().for_each(|(key, value)| {
                found.push(key.into_owned());
                walked(value, found);
            }),
            _ => {}
        }
    }

    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("1.50".to_owned()),
            Just(" null ".to_owned()),
            Just(r#""a{[\"\\""#.to_owned()),
            Just("{ }".to_owned()),
            Just("[]".to_owned()),
        ];
        leaf.prop_recursive(6, 60, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|all| format!("[{}]", all.join(", "))),
                prop::collection::vec(inner, 0..5).prop_map(|all| {
                    let members: Vec<_> = all.iter().map(|value| format!(r#""k}}" :{value}"#)).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn views_with_and_without_an_index_are_equal(text in value()) {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            walked(Index::default().parse(&text).unwrap(), &mut with);
            walked(Json::parse(&text).unwrap(), &mut without);
            prop_assert_eq!(with, without);
        }
    }
}
