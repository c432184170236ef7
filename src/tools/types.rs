//! What a tool's schema says of its arguments, as far as values that are written as plain text need it.
//!
//! [`Types`] is what one value may be; [`ArgumentTypes`] keeps that of a whole schema; a [`Schema`] is read to make one.

use std::ops::BitOr;

use crate::wire::json::{Json, Kind};

/// The types that a value may have: a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const STRING: Self = Self(1);
    pub(crate) const NULL: Self = Self(2);
    pub(crate) const NUMBER: Self = Self(4);
    pub(crate) const BOOLEAN: Self = Self(8);
    pub(crate) const OBJECT: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    /// Whatever JSON value it is, and a string if it is none.
    pub(crate) const JSON: Self = Self(64);

    fn of_name(name: Json<'_>) -> Self {
        name.as_str().map(|name| Self::named(&name)).unwrap_or_default()
    }

    /// The type of this name; none if there is no such type.
    pub(crate) fn named(name: &str) -> Self {
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

    /// All of `other` is allowed.
    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// An array may stand here.
    pub(crate) fn may_be_array(self) -> bool {
        self.has(Self::ARRAY)
    }

    /// Nothing but a container may stand here.
    pub(crate) fn is_container(self) -> bool {
        self.may_nest() && self.0 & !(Self::ARRAY.0 | Self::OBJECT.0) == 0
    }

    /// A container may stand here.
    pub(crate) fn may_nest(self) -> bool {
        self.0 & (Self::ARRAY.0 | Self::OBJECT.0) != 0
    }

    /// Nothing but a string may stand here.
    pub(crate) fn is_string(self) -> bool {
        self == Self::STRING
    }
}

/// What a JSON schema says at its outermost, read in one pass.
#[derive(Debug, Default)]
pub(crate) struct Schema<'a> {
    /// What it allows; empty if it does not say. In this order: its `type` and branches, its `enum` and `const`, what
    /// only containers have.
    pub(crate) types: Types,
    properties: Option<Json<'a>>,
    items: Option<Json<'a>>,
    pub(crate) required: Option<Json<'a>>,
}

impl<'a> Schema<'a> {
    pub(crate) fn read(schema: Json<'a>) -> Self {
        Self::within(schema, 8)
    }

    /// Reads `schema`, and branches so deep.
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

/// A schema as far as values that are written as text need it.
#[derive(Debug, Default)]
pub(crate) struct ArgumentTypes {
    pub(crate) types: Types,
    members: Box<[(Box<str>, ArgumentTypes)]>,
    items: Option<Box<ArgumentTypes>>,
}

impl ArgumentTypes {
    /// What `schema` says, no deeper than values may nest.
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

    /// The keys of the members that are told of, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(key, _)| key.as_ref())
    }

    /// The shape of the member `key`; of an array's elements without one.
    pub(crate) fn inner(&self, key: Option<&str>) -> Option<&Self> {
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
