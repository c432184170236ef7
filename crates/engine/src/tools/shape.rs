//! [`ArgumentTypes`]: the types of a tool's arguments, as a graph of the schemas that matter for them.
//!
//! A schema that is reached again through references is the same node, so recursive schemas need no depth limit.

use std::{borrow::Cow, collections::HashMap};

use super::{
    references::{Budget, MAX_FOLLOWED, References},
    schema::SchemaReader,
    types::Types,
};
use crate::wire::json::{Json, Kind};

/// Maximum number of schemas to read for one tool.
const MAX_SCHEMAS: usize = 1 << 16;

/// Maximum number of nodes for one tool. Values beyond them have no known type.
const MAX_NODES: usize = 1 << 14;

/// The types of the arguments of one tool, and of everything in them.
#[derive(Debug, Default)]
pub(crate) struct ArgumentTypes {
    /// The node of the arguments object is the first one.
    nodes: Box<[Node]>,
    required: Box<[Box<str>]>,
}

#[derive(Debug, Default)]
struct Node {
    types: Types,
    members: Box<[(Box<str>, usize)]>,
    others: Option<usize>,
    items: Option<usize>,
}

/// The types of one value, and of what is in it.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    nodes: &'a [Node],
    node: &'a Node,
}

impl ArgumentTypes {
    /// The types in `schema`.
    pub(crate) fn of(schema: Json<'_>) -> Self {
        // The reader limits the bytes itself.
        let left = Budget::new(usize::MAX);
        let references = References::new(schema, &left);
        let bytes = MAX_FOLLOWED.saturating_add(schema.raw().len().saturating_mul(8));
        let mut building = Building {
            reader: SchemaReader::new(&references, MAX_SCHEMAS, bytes),
            nodes: Vec::new(),
            queue: vec![vec![schema]],
            known: schema.raw().contains("\"$ref\"").then(HashMap::new),
            required: Vec::new(),
        };
        while building.nodes.len() < building.queue.len() {
            building.build();
        }
        Self { nodes: building.nodes.into(), required: building.required.into() }
    }

    /// The types of the arguments object.
    pub(crate) fn shape(&self) -> Option<Shape<'_>> {
        self.nodes.first().map(|node| Shape { nodes: &self.nodes, node })
    }

    /// The declared arguments in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let members = self.nodes.first().into_iter().flat_map(|root| &root.members);
        members.map(|(key, _)| key.as_ref())
    }

    pub(crate) fn required(&self) -> impl Iterator<Item = &str> {
        self.required.iter().map(Box::as_ref)
    }
}

impl<'a> Shape<'a> {
    /// The types that the value may have. Empty if the schema does not specify any.
    pub fn types(self) -> Types {
        self.node.types
    }

    /// The member `key`, or the elements of an array if `key` is `None`.
    pub fn inner(self, key: Option<&str>) -> Option<Self> {
        let place = match key {
            Some(key) => {
                let mut members = self.node.members.iter();
                let declared = members.find(|(name, _)| name.as_ref() == key);
                declared.map(|(_, place)| *place).or(self.node.others)?
            }
            None => self.node.items?,
        };
        self.nodes.get(place).map(|node| Self { node, ..self })
    }
}

/// The schemas that apply to one value.
type Schemas<'a> = Vec<Json<'a>>;

struct Building<'r, 'a> {
    reader: SchemaReader<'r, 'a>,
    /// The nodes that have been built, which are the first ones of `queue`.
    nodes: Vec<Node>,
    queue: Vec<Schemas<'a>>,
    /// The nodes by the addresses of their schemas, if the schema contains references.
    known: Option<HashMap<Vec<usize>, usize>>,
    required: Vec<Box<str>>,
}

impl<'a> Building<'_, 'a> {
    /// Builds the next node of the queue.
    fn build(&mut self) {
        let schemas = self.queue.get_mut(self.nodes.len()).map(std::mem::take).unwrap_or_default();
        let schema = self.reader.read(&schemas);
        if self.nodes.is_empty() {
            let required = schema.required.iter().flat_map(|required| required.elements());
            self.required = required.filter_map(|key| Some(key.as_str()?.into())).collect();
        }
        let members = self.members(&schema.properties);
        let stated = |schema: &Json<'_>| schema.kind() == Kind::Object && schema.members().next().is_some();
        let others = self.node(schema.others.into_iter().filter(stated).collect());
        let items = self.node(schema.items);
        self.nodes.push(Node { types: schema.types, members, others, items });
    }

    fn members(&mut self, properties: &[Json<'a>]) -> Box<[(Box<str>, usize)]> {
        let mut members: Vec<(Cow<'a, str>, Schemas<'a>)> = Vec::new();
        match properties {
            [] => return Box::default(),
            [only] => members.extend(only.members().map(|(key, schema)| (key, vec![schema]))),
            several => {
                let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
                for (key, schema) in several.iter().flat_map(|properties| properties.members()) {
                    let place = *places.entry(key.clone()).or_insert(members.len());
                    match members.get_mut(place) {
                        Some((_, schemas)) => schemas.push(schema),
                        None => members.push((key, vec![schema])),
                    }
                }
            }
        }
        members.into_iter().filter_map(|(key, schemas)| Some((key.into(), self.node(schemas)?))).collect()
    }

    /// The place of the node for `schemas`. `None` if there are none, or too many nodes.
    fn node(&mut self, schemas: Schemas<'a>) -> Option<usize> {
        if schemas.is_empty() {
            return None;
        }
        let place = self.queue.len();
        if let Some(known) = &mut self.known {
            let addresses = schemas.iter().map(|schema| schema.raw().as_ptr().addr()).collect();
            let found = *known.entry(addresses).or_insert(place);
            if found < place {
                return Some(found);
            }
        }
        if place >= MAX_NODES {
            return None;
        }
        self.queue.push(schemas);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::json::Raw;

    fn built(schema: &Value) -> ArgumentTypes {
        ArgumentTypes::of(Raw::from(schema.clone()).view())
    }

    fn at<'s>(types: &'s ArgumentTypes, path: &[Option<&str>]) -> Option<Types> {
        let shape: Option<Shape<'s>> = path.iter().try_fold(types.shape()?, |shape, key| shape.inner(*key));
        shape.map(Shape::types)
    }

    #[test]
    fn branches_and_references_keep_their_members() {
        let types = built(&json!({
            "$defs": {"Node": {"type": "object", "properties": {
                "n": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                "all": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}},
            "properties": {
                "limit": {"oneOf": [{"type": "integer"}, {"type": "object", "properties": {"max": {"type": "integer"}}}]},
                "node": {"$ref": "#/$defs/Node"},
                "list": {"anyOf": [{"type": "array", "items": {"type": "boolean"}}, {"type": "null"}]},
                "map": {"type": "object", "additionalProperties": {"type": "number"}},
                "open": {"type": "object", "additionalProperties": true},
            },
            "anyOf": [{"properties": {"limit": {"properties": {"max": {"type": "null"}, "x": {"type": "boolean"}}}}}],
        }));
        let (number, boolean) = (Types::NUMBER, Types::BOOLEAN);
        for (path, expected) in [
            (&[Some("limit"), Some("max")] as &[_], Some(number | Types::NULL)),
            (&[Some("limit"), Some("x")], Some(boolean)),
            (&[Some("node"), Some("next"), Some("next"), Some("n")], Some(number)),
            (
                &[Some("node"), Some("all"), None, Some("all"), None, Some("next")],
                Some(Types::OBJECT | Types::NULL),
            ),
            (&[Some("list"), None], Some(boolean)),
            (&[Some("map"), Some("a")], Some(number)),
            (&[Some("open"), Some("a")], None),
            (&[Some("none")], None),
        ] {
            assert_eq!(at(&types, path), expected, "{path:?}");
        }
        assert_eq!(types.keys().collect::<Vec<_>>(), ["limit", "node", "list", "map", "open"]);
        assert!(types.nodes.len() < 20, "{}", types.nodes.len());
    }

    #[test]
    fn hostile_schemas_cost_a_limited_amount() {
        let many = |of: &dyn Fn(usize) -> Value| -> Value {
            (0..3000).map(|n| (format!("p{n}"), of(n))).collect::<serde_json::Map<_, _>>().into()
        };
        // Each property has a different set of schemas.
        let sets =
            json!({"properties": many(&|_| json!({"anyOf": [{"$ref": "#"}, {"$ref": "#/properties/p1"}]}))});
        let mut deep = json!({"type": "integer"});
        for _ in 0..60 {
            deep = json!({"properties": {"a": deep, "b": {"$ref": "#"}}, "anyOf": [{"$ref": "#"}]});
        }
        for schema in [sets, deep, json!({"properties": many(&|_| json!({"$ref": "#"}))})] {
            let types = built(&schema);
            assert!(types.nodes.len() <= MAX_NODES, "{}", types.nodes.len());
        }
    }
}
