//! [`Schema`]: what a schema says about a value at its top level, with references and branches merged.
//!
//! Everything that types a value reads schemas here: detection, examples, and what is written into the history.
//! Clients choose the schemas, so [`SchemaReader`] limits the number of schemas and bytes that it reads.

use std::{collections::HashSet, ops::BitOr};

use super::{references::References, types::Types};
use crate::wire::json::Json;

/// Maximum number of nested branches and references.
const MAX_DEPTH: usize = 32;

/// The top level of a schema.
#[derive(Debug, Default)]
pub(crate) struct Schema<'a> {
    /// The allowed types. Empty if the schema does not specify any. They come from its `type`, restricted by its
    /// branches, or else from `enum` and `const`, or else from keywords that apply only to objects or arrays.
    pub(crate) types: Types,
    /// The `properties` of the schema and its branches.
    pub(crate) properties: Vec<Json<'a>>,
    /// The schemas of members that are not in `properties`.
    pub(crate) others: Vec<Json<'a>>,
    /// The schemas of an array's elements.
    pub(crate) items: Vec<Json<'a>>,
    pub(crate) required: Vec<Json<'a>>,
}

impl<'a> Schema<'a> {
    /// Reads the top level of `schema`.
    pub(crate) fn read(schema: Json<'a>, references: &References<'a>) -> Self {
        SchemaReader::new(references, 256, schema.raw().len().saturating_mul(8)).read(&[schema])
    }

    /// Adds what another schema says about the members of the same value.
    fn absorb(&mut self, other: Self, is_required: bool) {
        self.properties.extend(other.properties);
        self.others.extend(other.others);
        self.items.extend(other.items);
        if is_required {
            self.required.extend(other.required);
        }
    }

    /// Restricts the types by those of another schema that the value must match as well.
    fn restrict(&mut self, types: Types) {
        let common = self.types.common(types);
        if self.types.is_empty() {
            self.types = types;
        } else if !common.is_empty() {
            self.types = common;
        }
    }
}

/// Reads schemas with a limited amount of work.
#[derive(Debug)]
pub(crate) struct SchemaReader<'r, 'a> {
    references: &'r References<'a>,
    /// Number of schemas that may still be read.
    left: usize,
    /// Number of bytes that may still be read.
    bytes: usize,
    /// The addresses of the targets of references that were followed for the current value. Each is read only once.
    followed: HashSet<usize>,
}

impl<'r, 'a> SchemaReader<'r, 'a> {
    pub(crate) fn new(references: &'r References<'a>, left: usize, bytes: usize) -> Self {
        Self { references, left, bytes, followed: HashSet::new() }
    }

    /// Reads the top levels of schemas of which a value must match at least one.
    pub(crate) fn read(&mut self, schemas: &[Json<'a>]) -> Schema<'a> {
        self.followed.clear();
        match schemas {
            [one] => self.schema(*one, MAX_DEPTH).unwrap_or_default(),
            several => {
                let mut read = Schema::default();
                let types = self.alternatives(several.iter().copied(), MAX_DEPTH, &mut read);
                Schema { types, ..read }
            }
        }
    }

    /// `None` if nothing more may be read.
    fn schema(&mut self, schema: Json<'a>, depth: usize) -> Option<Schema<'a>> {
        let depth = depth.checked_sub(1)?;
        self.left = self.left.checked_sub(1)?;
        self.bytes = self.bytes.checked_sub(schema.raw().len())?;
        let mut read = Schema::default();
        let (mut values, mut nullable) = (Types::default(), false);
        let (mut reference, mut parts, mut choices) = (None, None, [None; 2]);
        for (key, value) in schema.members() {
            match &*key {
                "type" => {
                    let names = value.elements().map(Types::of_name);
                    read.types = names.fold(read.types | Types::of_name(value), Types::bitor);
                }
                "$ref" => reference = Some(value),
                "allOf" => parts = Some(value),
                "anyOf" => choices[0] = Some(value),
                "oneOf" => choices[1] = Some(value),
                "enum" => values = value.elements().map(Types::of_value).fold(values, Types::bitor),
                "const" => values = values | Types::of_value(value),
                "properties" => read.properties.push(value),
                "additionalProperties" => read.others.push(value),
                "items" | "prefixItems" => match value.elements().next() {
                    Some(_) => read.items.extend(value.elements()),
                    None => read.items.push(value),
                },
                "required" => read.required.push(value),
                "nullable" => nullable |= value.as_bool() == Some(true),
                "default" => nullable |= value.is_null(),
                _ => {}
            }
        }
        if read.types.is_empty() {
            read.types = values;
        }
        nullable |= values.has(Types::NULL);
        let target = reference.and_then(|reference| self.target(reference));
        for part in target.into_iter().chain(parts.into_iter().flat_map(|parts| parts.elements())) {
            if let Some(part) = self.schema(part, depth) {
                read.restrict(part.types);
                read.absorb(part, true);
            }
        }
        if read.types.is_empty() {
            let object = if read.properties.is_empty() { Types::default() } else { Types::OBJECT };
            let array = if read.items.is_empty() { Types::default() } else { Types::ARRAY };
            read.types = object | array;
        }
        for choices in choices.into_iter().flatten() {
            let types = self.alternatives(choices.elements(), depth, &mut read);
            read.restrict(types);
        }
        if nullable {
            // A value without a type is a string.
            let known = if read.types.is_empty() { Types::STRING } else { read.types };
            read.types = known | Types::NULL;
        }
        Some(read)
    }

    /// The types of a value that must match at least one of `schemas`. Empty if none of them specifies any. What they
    /// say about members is added to `read`.
    fn alternatives(
        &mut self,
        schemas: impl Iterator<Item = Json<'a>>,
        depth: usize,
        read: &mut Schema<'a>,
    ) -> Types {
        let (mut types, mut any) = (Types::default(), false);
        for schema in schemas {
            let schema = match schema.get("$ref") {
                // A schema that was already followed adds nothing.
                Some(reference) if schema.members().count() == 1 => self.target(reference),
                _ => Some(schema),
            };
            let Some(branch) = schema.and_then(|schema| self.schema(schema, depth)) else { continue };
            any |= branch.types.is_empty();
            types = types | branch.types;
            read.absorb(branch, false);
        }
        // A value that may have any type is a string.
        if any && !types.is_empty() { types | Types::STRING } else { types }
    }

    fn target(&mut self, reference: Json<'a>) -> Option<Json<'a>> {
        let target = self.references.target(&reference.as_str()?)?;
        self.followed.insert(target.raw().as_ptr().addr()).then_some(target)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::references::{Budget, MAX_FOLLOWED},
        *,
    };
    use crate::wire::json::Raw;

    fn types(schema: &Value) -> Types {
        let schema = Raw::from(schema.clone());
        let left = Budget::new(MAX_FOLLOWED);
        Schema::read(schema.view(), &References::new(schema.view(), &left)).types
    }

    #[test]
    fn types_come_from_references_and_branches() {
        let defs = json!({
            "I": {"type": "integer"}, "O": {"properties": {"a": {}}}, "E": {"enum": ["a", "b"]},
            "Loop": {"$ref": "#/$defs/Loop"}, "Or": {"anyOf": [{"$ref": "#/$defs/Or"}, {"type": "boolean"}]},
        });
        let (number, null, string) = (Types::NUMBER, Types::NULL, Types::STRING);
        for (mut schema, expected) in [
            (json!({"$ref": "#/$defs/I"}), number),
            (json!({"$ref": "#/$defs/E", "default": null}), string | null),
            (json!({"anyOf": [{"$ref": "#/$defs/I"}, {"type": "null"}]}), number | null),
            (json!({"anyOf": [{"$ref": "#/$defs/I"}, {"$ref": "#/$defs/I"}]}), number),
            (json!({"allOf": [{"$ref": "#/$defs/O"}], "description": "D"}), Types::OBJECT),
            (json!({"allOf": [{"type": ["integer", "null"]}, {"$ref": "#/$defs/I"}]}), number),
            (json!({"oneOf": [{"$ref": "#/$defs/O"}, {"type": "array"}]}), Types::OBJECT | Types::ARRAY),
            (json!({"$ref": "#/$defs/Loop"}), Types::default()),
            (json!({"$ref": "#/$defs/Or"}), Types::BOOLEAN),
            (json!({"$ref": "#/$defs/None"}), Types::default()),
            (json!({"properties": {}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}), Types::OBJECT),
            (json!({"anyOf": [{}, {"type": "null"}]}), string | null),
            (json!({"type": "string", "default": null}), string | null),
            (json!({"type": "string", "enum": ["a", null]}), string | null),
            (json!({"default": null}), string | null),
            (json!({"type": "integer", "nullable": true}), number | null),
            (json!({"type": "any"}), Types::default()),
            (json!(true), Types::default()),
        ] {
            if let Some(members) = schema.as_object_mut() {
                members.insert("$defs".to_owned(), defs.clone());
            }
            assert_eq!(types(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn schemas_that_repeat_themselves_end() {
        let both = |below: Value| json!({"anyOf": [below, below, {"allOf": [below, below]}]});
        let mut doubling = json!({"$defs": {"d0": {"type": "object"}}, "$ref": "#/$defs/d60"});
        for level in 1..=60 {
            let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
            doubling["$defs"][format!("d{level}")] = both(below);
        }
        assert_eq!(types(&doubling), Types::default());
        let wide: Vec<Value> = (0..100_000).map(|_| json!({"$ref": "#"})).collect();
        assert_eq!(types(&json!({"anyOf": wide})), Types::default());
    }
}
