//! [`signature`]: a tool as the signature of a function.

use super::{budget::Detail, sample::target};
use crate::{
    conversation::Tool,
    wire::json::{Encoder, Json, Kind},
};

/// How deeply types nest before they are only named.
const MAX_DEPTH: usize = 4;

/// Listed values of an argument; of more, only the type is shown.
const MAX_VALUES: usize = 12;

/// Schemas that are looked at for one tool.
const MAX_STEPS: usize = 1024;

/// A tool in one line: `get_weather(city: string, unit?: "celsius" | "fahrenheit"): the current weather`.
pub(super) fn signature(tool: &Tool, prefix: &str, detail: Detail) -> String {
    let root = tool.parameters.as_ref().map(|schema| schema.view()).unwrap_or_default();
    let mut types = TypeWriter { root, detail, steps: MAX_STEPS };
    let members = types.members(root, 0);
    let description = detail.of_tool(&tool.description);
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let call = format!("{prefix}{}({})", tool.name, members.join(", "));
    if description.is_empty() { call } else { format!("{call}: {description}") }
}

struct TypeWriter<'a> {
    root: Json<'a>,
    detail: Detail,
    /// Schemas that may still be looked at.
    steps: usize,
}

impl<'a> TypeWriter<'a> {
    /// The members of an object, each as `key: type` or `key?: type`.
    fn members(&mut self, schema: Json<'a>, depth: usize) -> Vec<String> {
        let Some(schema) = self.resolve(schema) else { return Vec::new() };
        let required: std::collections::HashSet<_> = schema
            .get("required")
            .into_iter()
            .flat_map(|required| required.elements())
            .filter_map(|key| key.as_str())
            .collect();
        let properties = schema.get("properties").into_iter().flat_map(|properties| properties.members());
        let mut members = Vec::new();
        for (key, schema) in properties {
            let optional = if required.contains(&key) { "" } else { "?" };
            let notes = self.notes(&key, schema);
            members.push(format!("{key}{optional}: {}{notes}", self.named(schema, depth + 1)));
        }
        members
    }

    /// What else is said of an argument: its description and bounds, in brackets.
    fn notes(&mut self, key: &str, schema: Json<'a>) -> String {
        let resolved = self.resolve(schema).unwrap_or(schema);
        let keyword = |name: &str| schema.get(name).or_else(|| resolved.get(name));
        let description = keyword("description").and_then(|said| said.as_str());
        let mut notes: Vec<String> =
            description.and_then(|said| self.detail.of_argument(key, &said)).into_iter().collect();
        if self.detail < Detail::Names {
            for (name, words) in [
                ("format", "format"),
                ("pattern", "pattern"),
                ("minimum", "at least"),
                ("maximum", "at most"),
            ] {
                let value = keyword(name).filter(|value| matches!(value.kind(), Kind::String | Kind::Number));
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

    fn resolve(&mut self, mut schema: Json<'a>) -> Option<Json<'a>> {
        loop {
            self.steps = self.steps.checked_sub(1)?;
            let Some(reference) = schema.get("$ref") else { return Some(schema) };
            schema = target(self.root, &reference.as_str()?)?;
        }
    }

    /// The type of a value.
    fn named(&mut self, schema: Json<'a>, depth: usize) -> String {
        let any = || "any".to_owned();
        let Some(schema) = self.resolve(schema).filter(|_| depth < MAX_DEPTH) else { return any() };
        if let Some(value) = schema.get("const") {
            return literal(value);
        }
        let values: Vec<_> = schema
            .get("enum")
            .into_iter()
            .flat_map(|values| values.elements())
            .take(MAX_VALUES + 1)
            .collect();
        if !values.is_empty() && values.len() <= MAX_VALUES {
            return values.into_iter().map(literal).collect::<Vec<_>>().join(" | ");
        }
        for key in ["anyOf", "oneOf"] {
            let branches: Vec<_> =
                schema.get(key).into_iter().flat_map(|list| list.elements()).take(8).collect();
            if !branches.is_empty() {
                let names: Vec<_> =
                    branches.into_iter().map(|branch| self.named(branch, depth + 1)).collect();
                return names.join(" | ");
            }
        }
        let types = schema.get("type");
        match types.map(|types| types.kind()) {
            Some(Kind::Array) => {
                let names = types.into_iter().flat_map(|types| types.elements()).take(8);
                names.filter_map(|name| name.as_str()).collect::<Vec<_>>().join(" | ")
            }
            Some(Kind::String) => {
                let name = types.and_then(|types| types.as_str()).unwrap_or_default();
                match &*name {
                    "array" => match schema.get("items") {
                        Some(items) => format!("list of {}", self.named(items, depth + 1)),
                        None => "list".to_owned(),
                    },
                    "object" => self.object(schema, depth),
                    name => name.to_owned(),
                }
            }
            _ if schema.get("properties").is_some() => self.object(schema, depth),
            _ => any(),
        }
    }

    fn object(&mut self, schema: Json<'a>, depth: usize) -> String {
        let members = self.members(schema, depth);
        if members.is_empty() { "object".to_owned() } else { format!("{{{}}}", members.join(", ")) }
    }
}

fn literal(value: Json<'_>) -> String {
    let mut json = Encoder::default();
    json.compact(value);
    json.finish_text()
}
