//! Argument types from a tool's schema, reduced to what is needed to convert values written as plain text.
//!
//! [`Types`] is the set of types of a value, [`ArgumentTypes`] are the types in a complete schema, and
//! [`Schema`] is an intermediate result of reading a schema.

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

    fn of_name(name: Json<'_>) -> Self {
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

    fn of_value(value: Json<'_>) -> Self {
        match value.kind() {
            Kind::Null => Self::NULL,
            Kind::Bool => Self::BOOLEAN,
            Kind::Number => Self::NUMBER,
            Kind::String => Self::STRING,
            Kind::Array => Self::ARRAY,
            Kind::Object => Self::OBJECT,
        }
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

    /// Whether only a string is allowed.
    pub fn is_string(self) -> bool {
        self == Self::STRING
    }
}

/// The top level of a JSON schema, read in one pass.
#[derive(Debug, Default)]
pub struct Schema<'a> {
    /// The allowed types. Empty if the schema does not specify any. They come from its `type` and branches,
    /// or else from `enum` and `const`, or else from keywords that apply only to objects or arrays.
    pub types: Types,
    properties: Option<Json<'a>>,
    items: Option<Json<'a>>,
    pub(crate) required: Option<Json<'a>>,
}

impl<'a> Schema<'a> {
    /// Reads the top level of `schema`.
    pub fn read(schema: Json<'a>) -> Self {
        Self::within(schema, 8)
    }

    /// Reads `schema` and its branches up to this depth.
    fn within(schema: Json<'a>, depth: usize) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::default() };
        let mut read = Self::default();
        let (mut values, mut nullable) = (Types::default(), false);
        for (key, value) in schema.members() {
            match &*key {
                "type" => {
                    let names = value.elements().map(Types::of_name);
                    read.types = names.fold(read.types | Types::of_name(value), Types::bitor);
                }
                "anyOf" | "oneOf" | "allOf" => {
                    let branches = value.elements().map(|branch| Self::within(branch, depth).types);
                    read.types = branches.fold(read.types, Types::bitor);
                }
                "enum" => values = value.elements().map(Types::of_value).fold(values, Types::bitor),
                "const" => values = values | Types::of_value(value),
                "properties" => read.properties = Some(value),
                "items" => read.items = Some(value),
                "required" => read.required = Some(value),
                "nullable" => nullable = value.as_bool() == Some(true),
                _ => {}
            }
        }
        if read.types == Types::default() {
            read.types = values;
        }
        if read.types == Types::default() {
            let object = read.properties.map_or(Types::default(), |_| Types::OBJECT);
            let array = read.items.map_or(Types::default(), |_| Types::ARRAY);
            read.types = object | array;
        }
        if nullable {
            read.types = read.types | Types::NULL;
        }
        read
    }
}

/// A schema, reduced to what is needed to convert values written as text.
#[derive(Debug, Default)]
pub struct ArgumentTypes {
    pub types: Types,
    members: Box<[(Box<str>, ArgumentTypes)]>,
    items: Option<Box<ArgumentTypes>>,
}

impl ArgumentTypes {
    /// The types in `schema`, to the depth that values may have.
    pub(crate) fn of(schema: &Schema<'_>) -> Self {
        Self::within(schema, 16)
    }

    fn within(schema: &Schema<'_>, depth: usize) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::default() };
        let within = |schema| Self::within(&Schema::read(schema), depth);
        let members = schema.properties.into_iter().flat_map(|properties| properties.members());
        Self {
            types: schema.types,
            members: members.map(|(key, schema)| (key.into(), within(schema))).collect(),
            items: schema.items.map(|items| Box::new(within(items))),
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(key, _)| key.as_ref())
    }

    /// The types of the member `key`, or of an array's elements if `key` is `None`.
    pub fn inner(&self, key: Option<&str>) -> Option<&Self> {
        let Some(key) = key else { return self.items.as_deref() };
        let mut members = self.members.iter();
        members.find(|(name, _)| name.as_ref() == key).map(|(_, shape)| shape)
    }
}

impl BitOr for Types {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
