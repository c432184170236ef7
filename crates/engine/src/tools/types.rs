//! [`Types`]: the set of types of a value, which decides how text becomes a value.

use std::ops::BitOr;

use crate::wire::json::{Json, Kind};

/// The set of types that a value may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// A string.
    pub const STRING: Self = Self(1);
    /// `null`.
    pub const NULL: Self = Self(2);
    /// A number, whether or not it is an integer.
    pub const NUMBER: Self = Self(4);
    /// `true` or `false`.
    pub const BOOLEAN: Self = Self(8);
    /// An object.
    pub const OBJECT: Self = Self(16);
    /// An array.
    pub const ARRAY: Self = Self(32);
    /// Any JSON value, or a string if the text is not valid JSON.
    pub const JSON: Self = Self(64);

    pub(super) fn of_name(name: Json<'_>) -> Self {
        name.as_str().map(|name| Self::named(&name)).unwrap_or_default()
    }

    /// The type with this name. Empty if there is no such type.
    pub fn named(name: &str) -> Self {
        const NAMES: [(&str, Types); 17] = [
            ("string", Types::STRING),
            ("str", Types::STRING),
            ("text", Types::STRING),
            ("enum", Types::STRING),
            ("null", Types::NULL),
            ("none", Types::NULL),
            ("integer", Types::NUMBER),
            ("int", Types::NUMBER),
            ("number", Types::NUMBER),
            ("float", Types::NUMBER),
            ("double", Types::NUMBER),
            ("boolean", Types::BOOLEAN),
            ("bool", Types::BOOLEAN),
            ("object", Types::OBJECT),
            ("dict", Types::OBJECT),
            ("array", Types::ARRAY),
            ("list", Types::ARRAY),
        ];
        let found = NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        found.map(|(_, types)| *types).unwrap_or_default()
    }

    /// The type of this value.
    pub(crate) fn of_value(value: Json<'_>) -> Self {
        match value.kind() {
            Kind::Null => Self::NULL,
            Kind::Bool => Self::BOOLEAN,
            Kind::Number => Self::NUMBER,
            Kind::String => Self::STRING,
            Kind::Array => Self::ARRAY,
            Kind::Object => Self::OBJECT,
        }
    }

    /// Whether no types are known.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The types that are also in `other`.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all types in `other` are allowed.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether an array is allowed.
    pub fn may_be_array(self) -> bool {
        self.has(Self::ARRAY)
    }

    /// Whether only objects and arrays are allowed.
    pub fn is_container(self) -> bool {
        self.may_nest() && self.0 & !(Self::ARRAY.0 | Self::OBJECT.0) == 0
    }

    /// Whether an object or array is allowed.
    pub fn may_nest(self) -> bool {
        self.0 & (Self::ARRAY.0 | Self::OBJECT.0) != 0
    }

    /// The types of a value that a tag describes as `written`. The schema's types count if the tag says that it is a
    /// string, and the schema rules strings out (docs/protocols/text-formats.md#tagged-parameters).
    #[must_use]
    pub fn described_as(self, written: Self) -> Self {
        let may_be_string = self == Self::default() || self.has(Self::JSON) || self.has(Self::STRING);
        if written.is_string() && !may_be_string { self } else { written }
    }

    /// Whether only a string is allowed.
    pub fn is_string(self) -> bool {
        self == Self::STRING
    }
}

impl BitOr for Types {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
