//! [`Said`]: which arguments a form with one text for each argument can express, so that they are read back as they
//! are.
//!
//! Such a form has no types of its own: the reader takes them from the tool's schema. `7` for a string is `"7"`, a
//! number for a string cannot be written at all, and neither can a key that is not a tag's name. Objects and lists
//! that cannot be written as elements are written as JSON text. If that is not enough, all arguments of the call are
//! written as one JSON object in their place, which every such form allows.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::{ArgumentForm, Form, Values, form::members, value_text::spaced};
use crate::{
    conversation::{Call, Tool},
    tools::{ArgumentTypes, Shape, Types},
};

/// The schemas of the tools, which are read when a call needs them.
#[derive(Debug)]
pub(super) struct Schemas<'t> {
    tools: &'t [Tool],
    read: HashMap<String, Option<ArgumentTypes>>,
}

impl<'t> Schemas<'t> {
    pub(super) fn new(tools: &'t [Tool]) -> Self {
        Self { tools, read: HashMap::new() }
    }

    /// What the form can express in a call. `None` if it can express everything, or if the tool is not declared.
    pub(super) fn said(&mut self, form: &Form, call: &Call) -> Option<Said<'_>> {
        let markup = Markup::of(form)?;
        let tools = self.tools;
        let read = || {
            let tool = tools.iter().find(|tool| tool.name == call.name)?;
            Some(tool.parameters.as_ref().map(|schema| ArgumentTypes::of(schema.view())).unwrap_or_default())
        };
        let types = self.read.entry(call.name.clone()).or_insert_with(read).as_ref()?;
        let declares = types.keys().next().is_some();
        Some(Said { markup, shape: types.shape(), declares })
    }
}

/// The markup of a form with one text for each argument.
#[derive(Debug, Clone, Copy)]
struct Markup {
    /// What precedes a key.
    open: &'static str,
    /// What follows a value.
    close: &'static str,
    /// What follows the arguments.
    end: &'static str,
    /// Whether arguments are elements whose tags are the keys.
    elements: bool,
    /// Whether values state their type, or whether they are strings.
    typed: bool,
    /// Whether the reader strips a line end at the start and the end of a value that has none of its own there.
    strips_lines: bool,
}

impl Markup {
    fn of(form: &Form) -> Option<Self> {
        let ArgumentForm::Each { one, values, .. } = form.arguments else { return None };
        let elements = match values {
            Values::Text => false,
            Values::Elements => true,
            Values::Python(_) | Values::Delimited(_) => return None,
        };
        let (open, _) = one.split_once("{{key}}")?;
        let (_, close) = one.split_once("{{value}}")?;
        let (_, end) = form.call.split_once("{{arguments}}")?;
        Some(Self {
            open: open.trim(),
            close: close.trim(),
            end: end.trim().split_inclusive('>').next().unwrap_or_default(),
            elements,
            typed: one.contains("{{is_string}}") || one.contains("{{type}}"),
            strips_lines: elements && open == "<",
        })
    }

    /// Whether `text` contains something that could end the value of `key`.
    fn breaks(&self, key: &str, text: &str) -> bool {
        if self.elements {
            let sign = self.open.trim_end_matches('<');
            return if sign.is_empty() { text.contains(&format!("</{key}")) } else { text.contains(sign) };
        }
        let has = |marker: &str| {
            let word = marker.trim_start_matches(['<', '/']).trim_end_matches('>');
            !word.is_empty() && text.contains(word)
        };
        text.contains('<')
            && (has(self.open) || has(self.close) || has(self.end) || text.contains("<![CDATA["))
    }

    /// Whether `key` can be written.
    fn names(&self, key: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        match self.elements {
            true => {
                let is_number = key.chars().all(|c| c.is_ascii_digit());
                key.len() <= 128 && !is_number && key.chars().all(is_word)
            }
            false => {
                let breaks = |c: char| c.is_whitespace() || c.is_control() || "<>\"'=&/\\".contains(c);
                (1..=256).contains(&key.len()) && !key.contains(breaks)
            }
        }
    }
}

/// Parameters that may contain all arguments if the tool does not declare them.
const WRAPPERS: [&str; 5] = ["arguments", "input", "properties", "args", "parameters"];

/// What a form can express at one place in a call's arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    markup: Markup,
    /// The schema at this place, if it is known.
    shape: Option<Shape<'a>>,
    /// Whether the tool declares any arguments.
    declares: bool,
}

impl<'a> Said<'a> {
    /// The same for the member `key`, or for the elements of a list.
    pub(super) fn inner(self, key: Option<&str>) -> Self {
        Self { shape: self.shape.and_then(|shape| shape.inner(key)), ..self }
    }

    fn types(self) -> Types {
        self.shape.map(Shape::types).unwrap_or_default()
    }

    /// Whether all arguments can be written one after another.
    pub(super) fn all(self, arguments: &str) -> bool {
        let Some(members) = members(arguments) else { return true };
        let mut keys = HashSet::new();
        members.iter().all(|(key, value)| {
            let is_declared = self.shape.and_then(|shape| shape.inner(Some(key))).is_some();
            let is_found = is_declared || !(self.declares && self.markup.elements);
            let wraps = !is_declared && WRAPPERS.contains(&key.as_str());
            keys.insert(key.as_str())
                && !wraps
                && is_found
                && self.markup.names(key)
                && self.inner(Some(key)).one(key, value.get(), 0)
        })
    }

    /// Whether the value of `key` can be written as text or elements.
    fn one(self, key: &str, json: &str, depth: usize) -> bool {
        match json.bytes().next() {
            Some(b'"') => {
                let text = serde_json::from_str::<String>(json).unwrap_or_default();
                self.string(key, &text)
            }
            Some(b'{' | b'[') => self.text(json) || depth < MAX_DEPTH && self.elements(json, depth),
            first => {
                let types = self.types();
                let is_typed = self.markup.typed && !types.is_string();
                is_typed
                    || match first {
                        Some(b'n') => {
                            types.has(Types::NULL) || !(types.is_empty() || types.has(Types::STRING))
                        }
                        Some(b't' | b'f') => types.has(Types::BOOLEAN),
                        _ => types.has(Types::NUMBER),
                    }
            }
        }
    }

    fn string(self, key: &str, text: &str) -> bool {
        let types = self.types();
        let is_stripped = self.markup.strips_lines && (text.starts_with('\n') || text.ends_with('\n'));
        if self.markup.breaks(key, text) || is_stripped {
            return false;
        }
        // The schema's types count if they rule out the string that the markup states.
        let is_stated = self.markup.typed && types.described_as(Types::STRING).is_string();
        if types.is_empty() || types.is_string() || is_stated {
            return !(self.markup.elements && types.is_empty() && text.trim_start().starts_with('<'));
        }
        let word = text.trim();
        let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
        let begins = |characters: &[char]| word.starts_with(characters);
        let is_null = (types.has(Types::NULL) || !types.has(Types::STRING)) && is(&["null", "none"]);
        let is_number = types.has(Types::NUMBER)
            && (begins(&['-', '+', '.']) || word.starts_with(|first: char| first.is_ascii_digit()));
        let is_boolean = types.has(Types::BOOLEAN) && is(&["true", "false", "0", "1"]);
        let is_container =
            types.may_nest() && (begins(&['{', '[', '<']) || word.is_empty() && types.is_container());
        !(is_null || is_number || is_boolean || is_container)
    }

    /// Whether a container can be written as JSON text.
    fn text(self, json: &str) -> bool {
        let types = self.types();
        let kind = if json.starts_with('{') { Types::OBJECT } else { Types::ARRAY };
        types.has(kind) || self.markup.typed && !types.is_string()
    }

    /// The text of a container that is written as JSON. `None` if it is written as elements.
    pub(super) fn container(self, json: &str) -> Option<String> {
        if self.markup.elements && self.elements(json, 0) {
            return None;
        }
        // Outside of strings, JSON contains no `<`, so this hides all markup.
        let json = spaced(json);
        Some(if json.contains('<') { json.replace('<', "\\u003c") } else { json })
    }

    /// Whether a container can be written as elements.
    fn elements(self, json: &str, depth: usize) -> bool {
        let types = self.types();
        let is_list = json.starts_with('[');
        let kind = if is_list { Types::ARRAY } else { Types::OBJECT };
        if !self.markup.elements || !types.has(kind) || types.has(Types::OBJECT | Types::ARRAY) {
            return false;
        }
        if is_list {
            let items = serde_json::from_str::<Vec<&RawValue>>(json).unwrap_or_default();
            // A list in a list would have the same tags as its elements.
            return !items.is_empty()
                && items.iter().all(|item| {
                    !item.get().starts_with('[') && self.inner(None).one("item", item.get(), depth + 1)
                });
        }
        let members = members(json).unwrap_or_default();
        let mut keys = HashSet::new();
        !members.is_empty()
            && members.iter().all(|(key, value)| {
                keys.insert(key.as_str())
                    && self.markup.names(key)
                    && self.inner(Some(key)).one(key, value.get(), depth + 1)
            })
    }
}

/// Maximum depth to which a value is written as elements.
const MAX_DEPTH: usize = 8;
