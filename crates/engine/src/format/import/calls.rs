//! Reads a template's `tool_calls`: how calls start, what they contain, and how a call is built from its
//! contents.

use serde_json::Value;

use super::{Anchor, Definition, Field, Part, Refused, only};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Content,
    Opener,
}

/// Keys in a call's JSON that the engine accepts for its name, its arguments and its id.
const NAMES: [&str; 5] = ["name", "tool_name", "tool", "function_name", "action"];
const ARGUMENTS: [&str; 7] =
    ["arguments", "parameters", "args", "input", "params", "tool_input", "action_input"];
const IDS: [&str; 3] = ["id", "tool_call_id", "call_id"];

impl Field<'_> {
    pub(super) fn calls(&self, definition: &mut Definition) -> Result<(), Refused> {
        only(
            self.table,
            &self.path("."),
            &[
                "open",
                "open_pattern",
                "close",
                "close_pattern",
                "content",
                "content_args",
                "repeats",
                "optional",
                "transform",
                "transform_each",
            ],
        )?;
        let close = self.anchors("close", "close_pattern")?;
        definition.close = self.one("close", close)?;
        let name = self.opener(definition)?;
        match self.get("content").and_then(Value::as_str) {
            Some("json") => self.json_arguments()?,
            Some("xml-inline") if name == Name::Opener => self.parameters(definition)?,
            Some("xml-inline") => return self.refused("open_pattern", "it must hold the group `name`"),
            Some(kind) => {
                return self
                    .refused("content", format!("`{kind}`; calls are read in `json` and `xml-inline`"));
            }
            None => return self.refused("content", "it is missing, and so calls are plain text"),
        }
        self.transform(name)
    }

    /// Reads the text with which calls start. Returns where their names are.
    fn opener(&self, definition: &mut Definition) -> Result<Name, Refused> {
        let Some(Anchor(parts)) = self.pattern("open_pattern")? else {
            let open = self.literals("open")?;
            definition.open = self.one("open", open)?;
            return match definition.open.is_empty() {
                true => self.refused("open", "it is missing: calls without a marker cannot be told"),
                false => Ok(Name::Content),
            };
        };
        let (section, parts) = match parts.as_slice() {
            [Part::Literal(section), rest @ ..] if matches!(rest, [Part::Literal(_), ..]) => {
                (Some(section), rest)
            }
            all => (None, all),
        };
        let (open, name, name_end) = match parts {
            [Part::Literal(open)] => (open, Name::Content, None),
            [Part::Literal(open), Part::Group(group), Part::Literal(end)] if group == "name" => {
                (open, Name::Opener, Some(end))
            }
            [Part::Literal(open), Part::Group(group), Part::Any, Part::Literal(end)] if group == "name" => {
                definition.name_first = true;
                (open, Name::Opener, Some(end))
            }
            _ => {
                let why = "a marker, then perhaps the group `name` and a marker that ends it, can be told";
                return self.refused("open_pattern", why);
            }
        };
        definition.open.clone_from(open);
        if let Some(end) = name_end {
            definition.name_end.clone_from(end);
        }
        match section {
            Some(_) if name == Name::Content => {
                self.refused("open_pattern", "two markers before a call's JSON")
            }
            Some(section) => {
                definition.section = Some([section.clone(), std::mem::take(&mut definition.close)]);
                Ok(name)
            }
            None => Ok(name),
        }
    }

    /// Checks how arguments are written as JSON. Unquoted keys are repaired in any case.
    fn json_arguments(&self) -> Result<(), Refused> {
        let Some(Value::Object(arguments)) = self.get("content_args") else { return Ok(()) };
        only(arguments, &self.path("content_args."), &["unquoted_keys"])
    }

    /// Reads how each argument is tagged.
    fn parameters(&self, definition: &mut Definition) -> Result<(), Refused> {
        const KEY: &str = "content_args.tag_pattern";
        let Some(Value::Object(arguments)) = self.get("content_args") else {
            return self.refused("content_args", "it is missing");
        };
        // The tool's schema determines the type of a value, so it does not matter how the template parses it.
        only(arguments, &self.path("content_args."), &["tag_pattern", "value_parser"])?;
        let pattern = arguments.get("tag_pattern").and_then(Value::as_str).unwrap_or_default();
        let parts = Anchor::read(pattern).or_else(|why| self.refused(KEY, why.to_string()))?.0;
        let [
            Part::Literal(before),
            Part::Group(key),
            Part::Literal(behind),
            Part::Group(value),
            Part::Literal(end),
        ] = parts.as_slice()
        else {
            return self.refused(
                KEY,
                "a marker, the group `key`, a marker, the group `value`, a marker can be told",
            );
        };
        if (key.as_str(), value.as_str()) != ("key", "value") {
            return self.refused(KEY, "the groups must be `key` and `value`, in this order");
        }
        definition.parameter = Some([before.clone(), behind.clone(), end.clone()]);
        definition.trim = pattern.contains(r"\s*(?P<value>") || pattern.contains(r"\n(?P<value>");
        // The template skips the closer of the call's own tag, so the closer must be derived from the opener.
        if definition.section.is_some() {
            let tag: String = definition
                .open
                .trim_start_matches('<')
                .chars()
                .take_while(|c| c.is_alphanumeric() || "_:-".contains(*c))
                .collect();
            definition.close = format!("</{tag}>");
        }
        Ok(())
    }

    /// Checks how a call is built from the parsed parts. Only the engine's own way is supported.
    fn transform(&self, name: Name) -> Result<(), Refused> {
        let Some(transform) = self.get("transform") else {
            return match name {
                Name::Content => Ok(()),
                Name::Opener => {
                    self.refused("transform", "it is missing, so the opener's `name` goes nowhere")
                }
            };
        };
        let Some(members) = transform.as_object() else {
            return self.refused("transform", "expected an object");
        };
        only(members, &self.path("transform."), &["type", "id", "function"])?;
        if let Some(id) = members.get("id") {
            self.placeholder("transform.id", id, &IDS)?;
        }
        match (members.get("function"), name) {
            (Some(Value::String(all)), Name::Content) if all == "{content}" => Ok(()),
            (Some(Value::Object(function)), _) => {
                only(function, &self.path("transform.function."), &["name", "arguments"])?;
                let member = |key: &str| function.get(key).unwrap_or(&Value::Null);
                match name {
                    Name::Content => {
                        self.placeholder("transform.function.name", member("name"), &NAMES)?;
                        self.placeholder("transform.function.arguments", member("arguments"), &ARGUMENTS)
                    }
                    Name::Opener if member("name") == "{name}" && member("arguments") == "{content}" => {
                        Ok(())
                    }
                    Name::Opener => self.refused(
                        "transform.function",
                        "expected the name `{name}` and the arguments `{content}`",
                    ),
                }
            }
            _ => self
                .refused("transform.function", "expected `{content}`, or an object with name and arguments"),
        }
    }

    /// Checks that the value is a placeholder for one of these keys of the content.
    fn placeholder(&self, place: &str, value: &Value, keys: &[&str]) -> Result<(), Refused> {
        let inner = value.as_str().and_then(|text| text.strip_prefix('{')?.strip_suffix('}'));
        let key = inner.map(|key| key.strip_prefix("content.").unwrap_or(key));
        match key.is_some_and(|key| keys.contains(&key)) {
            true => Ok(()),
            false => self.refused(place, format!("{value}; expected one of `{{{}}}`", keys.join("}`, `{"))),
        }
    }
}
