//! [`signature`]: writes a tool like the signature of a function.

use std::collections::HashSet;

use super::{budget::Detail, described_tool::DescribedTool};
use crate::{
    tools::References,
    wire::json::{Encoder, Json, Kind},
};

/// Maximum nesting depth of types. A deeper type is written as `any`.
const MAX_DEPTH: usize = 4;

/// Maximum number of values to list for an argument. If there are more, only the type is written.
const MAX_VALUES: usize = 12;

/// Maximum number of schemas to visit for one tool.
const MAX_STEPS: usize = 1024;

/// A tool on one line: `get_weather(city: string, unit?: "celsius" | "fahrenheit"): the current weather`.
pub(super) fn signature(described: &DescribedTool<'_>, prefix: &str, detail: Detail) -> String {
    let tool = described.tool;
    let references = described.references();
    let mut types = TypeWriter { references, detail, steps: MAX_STEPS };
    let root = types.resolved(references.root());
    let members = root.map(|root| types.members(&root, 0)).unwrap_or_default();
    let description = detail.of_tool(&tool.description);
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let call = format!("{prefix}{}({})", tool.name, members.join(", "));
    if description.is_empty() { call } else { format!("{call}: {description}") }
}

/// The keywords of a schema that a signature shows, read in one pass.
#[derive(Debug, Clone, Default)]
struct Keywords<'a> {
    reference: Option<Json<'a>>,
    description: Option<Json<'a>>,
    bounds: [Option<Json<'a>>; BOUNDS.len()],
    constant: Option<Json<'a>>,
    listed: Option<Json<'a>>,
    all_of: Option<Json<'a>>,
    any_of: Option<Json<'a>>,
    one_of: Option<Json<'a>>,
    types: Option<Json<'a>>,
    properties: Option<Json<'a>>,
    /// The `properties` and `required` of other schemas that the value must match as well.
    more: Vec<(Option<Json<'a>>, Option<Json<'a>>)>,
    items: Option<Json<'a>>,
    required: Option<Json<'a>>,
}

/// The keywords that constrain an argument and how to word them.
const BOUNDS: [(&str, &str); 4] =
    [("format", "format"), ("pattern", "pattern"), ("minimum", "at least"), ("maximum", "at most")];

impl<'a> Keywords<'a> {
    fn read(schema: Json<'a>) -> Self {
        let mut read = Self::default();
        for (key, value) in schema.members() {
            let place = match &*key {
                "$ref" => &mut read.reference,
                "description" => &mut read.description,
                "const" => &mut read.constant,
                "enum" => &mut read.listed,
                "allOf" => &mut read.all_of,
                "anyOf" => &mut read.any_of,
                "oneOf" => &mut read.one_of,
                "type" => &mut read.types,
                "properties" => &mut read.properties,
                "items" => &mut read.items,
                "required" => &mut read.required,
                key => {
                    let bounds = BOUNDS.iter().zip(&mut read.bounds);
                    match bounds.into_iter().find(|((name, _), _)| *name == key) {
                        Some((_, place)) => place,
                        None => continue,
                    }
                }
            };
            // If a key is repeated, its first value counts.
            place.get_or_insert(value);
        }
        read
    }

    /// Adds what another schema says that the value must match as well.
    fn fill(&mut self, other: Self) {
        let own = [
            (&mut self.description, other.description),
            (&mut self.constant, other.constant),
            (&mut self.listed, other.listed),
            (&mut self.any_of, other.any_of),
            (&mut self.one_of, other.one_of),
            (&mut self.types, other.types),
            (&mut self.items, other.items),
        ];
        for (own, other) in own.into_iter().chain(self.bounds.iter_mut().zip(other.bounds)) {
            *own = own.or(other);
        }
        self.more.push((other.properties, other.required));
        self.more.extend(other.more);
    }

    fn has_properties(&self) -> bool {
        self.properties.is_some() || self.more.iter().any(|(properties, _)| properties.is_some())
    }
}

struct TypeWriter<'r, 'a> {
    references: &'r References<'a>,
    detail: Detail,
    steps: usize,
}

impl<'a> TypeWriter<'_, 'a> {
    /// The members of an object, each as `key: type` or `key?: type`.
    fn members(&mut self, object: &Keywords<'a>, depth: usize) -> Vec<String> {
        let own = std::iter::once((object.properties, object.required));
        let all: Vec<_> = own.chain(object.more.iter().copied()).collect();
        let required: HashSet<_> = all
            .iter()
            .filter_map(|(_, required)| *required)
            .flat_map(|required| required.elements())
            .filter_map(|key| key.as_str())
            .collect();
        let properties = all.iter().filter_map(|(properties, _)| *properties);
        let mut members = Vec::new();
        let mut known = HashSet::new();
        for (key, schema) in properties.flat_map(|properties| properties.members()) {
            if !object.more.is_empty() && !known.insert(key.clone()) {
                continue;
            }
            let optional = if required.contains(&key) { "" } else { "?" };
            let own = Keywords::read(schema);
            let resolved = self.joined(schema, own.clone(), MAX_DEPTH);
            let notes = self.notes(&key, &own, resolved.as_ref().unwrap_or(&own));
            members.push(format!("{key}{optional}: {}{notes}", self.named(resolved, depth + 1)));
        }
        members
    }

    /// The description and constraints of an argument, in brackets.
    fn notes(&mut self, key: &str, own: &Keywords<'a>, resolved: &Keywords<'a>) -> String {
        let description = own.description.or(resolved.description).and_then(|said| said.as_str());
        let mut notes: Vec<String> =
            description.and_then(|said| self.detail.of_argument(key, &said)).into_iter().collect();
        if self.detail < Detail::Names {
            for ((_, words), (own, resolved)) in BOUNDS.iter().zip(own.bounds.iter().zip(&resolved.bounds)) {
                let value =
                    own.or(*resolved).filter(|value| matches!(value.kind(), Kind::String | Kind::Number));
                notes.extend(value.map(|value| {
                    let text =
                        value.as_str().map_or_else(|| value.raw().to_owned(), |text| text.into_owned());
                    format!("{words} {text}")
                }));
            }
        }
        let notes = notes.join("; ").split_whitespace().collect::<Vec<_>>().join(" ");
        if notes.is_empty() { notes } else { format!(" ({notes})") }
    }

    /// Resolves references. `None` if there are too many, or a target does not exist. What several schemas say
    /// together counts as said by the first of them that says it.
    fn resolved(&mut self, schema: Json<'a>) -> Option<Keywords<'a>> {
        self.joined(schema, Keywords::read(schema), MAX_DEPTH)
    }

    fn joined(&mut self, schema: Json<'a>, mut keywords: Keywords<'a>, depth: usize) -> Option<Keywords<'a>> {
        let depth = depth.checked_sub(1)?;
        self.steps = self.steps.checked_sub(1)?;
        if keywords.reference.is_some() || keywords.all_of.is_some() {
            keywords = Keywords::read(self.references.resolved(schema)?);
        }
        for part in keywords.all_of.into_iter().flat_map(|parts| parts.elements()).take(8) {
            if let Some(part) = self.joined(part, Keywords::read(part), depth) {
                keywords.fill(part);
            }
        }
        Some(keywords)
    }

    fn of(&mut self, schema: Json<'a>, depth: usize) -> String {
        let resolved = self.resolved(schema);
        self.named(resolved, depth)
    }

    /// The type of a value whose schema contains no reference at this level.
    fn named(&mut self, schema: Option<Keywords<'a>>, depth: usize) -> String {
        let any = || "any".to_owned();
        let Some(schema) = schema.filter(|_| depth < MAX_DEPTH) else { return any() };
        if let Some(value) = schema.constant {
            return literal(value);
        }
        let values: Vec<_> =
            schema.listed.into_iter().flat_map(|values| values.elements()).take(MAX_VALUES + 1).collect();
        if !values.is_empty() && values.len() <= MAX_VALUES {
            return values.into_iter().map(literal).collect::<Vec<_>>().join(" | ");
        }
        for branches in [schema.any_of, schema.one_of] {
            let branches: Vec<_> = branches.into_iter().flat_map(|list| list.elements()).take(8).collect();
            if !branches.is_empty() {
                let names: Vec<_> = branches.into_iter().map(|branch| self.of(branch, depth + 1)).collect();
                return names.join(" | ");
            }
        }
        match schema.types.map(|types| types.kind()) {
            Some(Kind::Array) => {
                let names = schema.types.into_iter().flat_map(|types| types.elements()).take(8);
                names.filter_map(|name| name.as_str()).collect::<Vec<_>>().join(" | ")
            }
            Some(Kind::String) => {
                let name = schema.types.and_then(|types| types.as_str()).unwrap_or_default();
                match &*name {
                    "array" => match schema.items {
                        Some(items) => format!("list of {}", self.of(items, depth + 1)),
                        None => "list".to_owned(),
                    },
                    "object" => self.object(&schema, depth),
                    name => name.to_owned(),
                }
            }
            _ if schema.has_properties() => self.object(&schema, depth),
            _ => any(),
        }
    }

    fn object(&mut self, schema: &Keywords<'a>, depth: usize) -> String {
        let members = self.members(schema, depth);
        if members.is_empty() { "object".to_owned() } else { format!("{{{}}}", members.join(", ")) }
    }
}

fn literal(value: Json<'_>) -> String {
    let mut json = Encoder::default();
    json.compact(value);
    json.finish_text()
}
