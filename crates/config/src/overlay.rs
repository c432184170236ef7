//! [`Overlay`]: settings that were saved through the admin API. They live in a separate file; the user's file is never
//! modified.
//!
//! Like flags, the values are inserted into the file's tables before the tables are read, so the same code checks them.
//! They cannot add `[execution]` or a provider. Keys declared as
//! [`file_only`](toolwire_pipeline::settings::Key::file_only) are rejected when they are read.

mod file;
mod path;

use std::{borrow::Cow, collections::BTreeMap, fmt, ops::Range, path::PathBuf};

use serde_json::{Map, Value as Json};
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

pub(super) use self::path::below;
use self::path::keys_of;
use super::{Environment, source::Source, state_folder, value::as_json};
use toolwire_pipeline::wire::{Invalid, suggest::suggest};

const MAX_SETTINGS: usize = 1000;

/// In bytes, for all settings together.
const MAX_TEXT: usize = 1 << 20;

/// In bytes.
const MAX_PATH: usize = 256;

/// Saved values by path, such as `providers.serper.max_results`. `Debug` prints only the paths, since values may be
/// secret.
#[derive(Clone, Default, PartialEq)]
pub struct Overlay(BTreeMap<String, Json>);

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A path that cannot be set, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The path as given, shortened if it is long.
    pub path: String,
    pub message: String,
}

#[derive(Debug, Default)]
pub(super) struct LaidOver {
    /// The file's own values at the overlay's paths.
    pub(super) shadowed: BTreeMap<String, Json>,
    /// Settings that do not fit into the file's tables.
    pub(super) refused: Vec<Refused>,
}

impl Overlay {
    /// The paths of the settings, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether both overlays have the same value at `path`, or both have none.
    pub fn agrees(&self, other: &Self, path: &str) -> bool {
        self.0.get(path) == other.0.get(path)
    }

    /// Applies `patch`, an object that maps paths to values. A value that is an object contains paths below its own
    /// path, unless `is_whole` says that it is the value of the path. `null` removes a setting and all settings below
    /// it. Returns the new overlay and the paths of all settings that were set or removed.
    ///
    /// # Errors
    /// The invalid paths.
    pub fn patched(
        &self,
        patch: &Map<String, Json>,
        is_whole: &dyn Fn(&str) -> bool,
    ) -> Result<(Self, Vec<String>), Vec<Refused>> {
        let mut leaves = Vec::new();
        let mut refused = Vec::new();
        flatten("", patch, is_whole, &mut leaves, &mut refused);
        if !refused.is_empty() {
            return Err(refused);
        }
        let mut patched = self.clone();
        for (path, value) in &leaves {
            patched.remove(path);
            if !value.is_null() {
                // A path cannot be both a table and a value.
                patched.0.retain(|other, _| !is_below(path, other));
                patched.0.insert(path.clone(), (*value).clone());
            }
        }
        if patched.0.len() > MAX_SETTINGS {
            let message = format!("more than {MAX_SETTINGS} settings would be saved");
            return Err(vec![Refused { path: String::new(), message }]);
        }
        if patched.text().len() > MAX_TEXT {
            let message = "the saved settings would be larger than 1 MiB".to_owned();
            return Err(vec![Refused { path: String::new(), message }]);
        }
        let mut paths: Vec<_> =
            self.paths().filter(|path| !self.agrees(&patched, path)).map(str::to_owned).collect();
        let set = leaves.into_iter().filter(|(_, value)| !value.is_null()).map(|(path, _)| path);
        paths.extend(set);
        paths.sort_unstable();
        paths.dedup();
        Ok((patched, paths))
    }

    /// Removes the setting at `path` and all settings below it. Also returns their paths. `None` if nothing is set
    /// there.
    pub fn without(&self, path: &str) -> Option<(Self, Vec<String>)> {
        let path = joined(&keys_of(path)?);
        let mut left = self.clone();
        let removed = left.remove(&path);
        (!removed.is_empty()).then_some((left, removed))
    }

    fn remove(&mut self, path: &str) -> Vec<String> {
        let gone = |other: &String| *other == path || is_below(other, path);
        let removed: Vec<_> = self.0.keys().filter(|other| gone(other)).cloned().collect();
        self.0.retain(|other, _| !gone(other));
        removed
    }

    /// Converts the values to TOML for [`lay_over`](Self::lay_over). Values that TOML cannot express become errors.
    pub(super) fn to_toml(&self) -> Vec<Result<String, Invalid>> {
        self.0.values().map(text_of).collect()
    }

    /// Inserts the values into `root`, each with the span that `source` reserves for it. `values` is the result of
    /// `to_toml`.
    pub(super) fn lay_over<'i>(
        &self,
        root: &mut DeTable<'i>,
        values: &'i [Result<String, Invalid>],
        source: &Source,
    ) -> LaidOver {
        let mut laid = LaidOver::default();
        for (number, (path, value)) in self.0.keys().zip(values).enumerate() {
            let span = source.overlaid(number);
            let put = value.as_deref().map_err(Clone::clone).and_then(|text| {
                let value = DeValue::parse(text).map_err(|error| Invalid::from(error.message()))?;
                let keys = keys_of(path).ok_or("this is not the path of a setting")?;
                put(root, &keys, at(value, &span))
            });
            match put {
                Ok(shadowed) => laid.shadowed.extend(shadowed.map(|value| (path.clone(), value))),
                Err(why) => laid.refused.push(Refused { path: path.clone(), message: why.to_string() }),
            }
        }
        laid
    }
}

/// The folder with the overlay's file. `None` if the configuration in `root` has no admin API or no state folder.
pub(super) fn folder(root: &DeTable<'_>, environment: Environment<'_>) -> Option<PathBuf> {
    root.get("admin")?;
    state_folder(root, environment)
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'))
}

fn joined(keys: &[String]) -> String {
    keys.iter().fold(String::new(), |path, key| below(&path, key))
}

/// The values in a patch that are not tables, by path.
fn flatten<'p>(
    above: &str,
    patch: &'p Map<String, Json>,
    is_whole: &dyn Fn(&str) -> bool,
    leaves: &mut Vec<(String, &'p Json)>,
    refused: &mut Vec<Refused>,
) {
    for (written, value) in patch {
        if leaves.len() + refused.len() > MAX_SETTINGS {
            return;
        }
        let keys = keys_of(written).filter(|_| above.len() + written.len() <= MAX_PATH);
        let Some(keys) = keys else {
            let path = format!("{above}{}{written}", if above.is_empty() { "" } else { "." });
            let path = path.chars().take(MAX_PATH).collect();
            let message =
                "this is not the path of a setting, such as `providers.serper.max_results`".to_owned();
            refused.push(Refused { path, message });
            continue;
        };
        let path = keys.iter().fold(above.to_owned(), |path, key| below(&path, key));
        match value {
            Json::Object(members) if !is_whole(&path) => flatten(&path, members, is_whole, leaves, refused),
            value => leaves.push((path, value)),
        }
    }
}

fn put<'i>(
    root: &mut DeTable<'i>,
    keys: &[String],
    value: Spanned<DeValue<'i>>,
) -> Result<Option<Json>, Invalid> {
    let table = match keys {
        [top, _, ..] if top == "execution" => match root.get_mut("execution").map(Spanned::get_mut) {
            Some(DeValue::Table(table)) => table,
            _ => return Err("the configuration file has no table `[execution]`".into()),
        },
        [top, name, _, ..] if top == "providers" || top == "tools" => entry(root, top, name, &value.span())?,
        _ => return Err("this can only be set in the configuration file".into()),
    };
    match keys {
        [top, keys @ ..] if top == "execution" => put_below(table, keys, value),
        // A changed name would make this a different entry.
        [_, _, key] if key == "name" => Err("a name can only be set in the configuration file".into()),
        [_, _, keys @ ..] => put_below(table, keys, value),
        _ => Ok(None),
    }
}

/// The entry called `name` in the array `top`. Creates the entry if it is missing and belongs to `[[tools]]`, whose
/// entries only hold rules. Never creates a provider.
fn entry<'r, 'i>(
    root: &'r mut DeTable<'i>,
    top: &str,
    name: &str,
    span: &Range<usize>,
) -> Result<&'r mut DeTable<'i>, Invalid> {
    let is_rules = top == "tools";
    if is_rules && !root.contains_key("execution") {
        return Err("the configuration file has no table `[execution]`".into());
    }
    if is_rules && !root.contains_key(top) {
        let made = Spanned::new(span.clone(), DeValue::Array(DeArray::new()));
        root.insert(Spanned::new(span.clone(), Cow::Owned(top.to_owned())), made);
    }
    let entries = match root.get_mut(top).map(Spanned::get_mut) {
        Some(DeValue::Array(entries)) => entries,
        _ => return Err(format!("the configuration file has no `[[{top}]]`").into()),
    };
    let place = entries.iter().position(|entry| name_of(entry) == Some(name));
    let place = match place {
        Some(place) => place,
        None if is_rules => {
            let mut entry = DeTable::new();
            let value = Spanned::new(span.clone(), DeValue::String(Cow::Owned(name.to_owned())));
            entry.insert(Spanned::new(span.clone(), Cow::Borrowed("name")), value);
            entries.push(Spanned::new(span.clone(), DeValue::Table(entry)));
            entries.len() - 1
        }
        None => {
            let names: Vec<_> = entries.iter().filter_map(name_of).collect();
            let hint = suggest(name, &names, None);
            return Err(format!("the configuration file has no provider `{name}`; {hint}").into());
        }
    };
    match entries.get_mut(place).map(Spanned::get_mut) {
        Some(DeValue::Table(entry)) => Ok(entry),
        _ => Err(format!("the configuration file has no `[[{top}]]`").into()),
    }
}

fn name_of<'e>(entry: &'e Spanned<DeValue<'_>>) -> Option<&'e str> {
    match entry.get_ref() {
        DeValue::Table(table) => match table.get("name").map(Spanned::get_ref) {
            Some(DeValue::String(name)) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// Sets `value` at `keys` below `table`, creating tables as needed.
fn put_below<'i>(
    table: &mut DeTable<'i>,
    keys: &[String],
    value: Spanned<DeValue<'i>>,
) -> Result<Option<Json>, Invalid> {
    let Some((key, rest)) = keys.split_first() else { return Ok(None) };
    let span = value.span();
    if rest.is_empty() {
        let shadowed = table.remove(key.as_str()).and_then(|old| as_json(old.get_ref()));
        table.insert(Spanned::new(span, Cow::Owned(key.clone())), value);
        return Ok(shadowed);
    }
    if !table.contains_key(key.as_str()) {
        let made = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        table.insert(Spanned::new(span, Cow::Owned(key.clone())), made);
    }
    match table.get_mut(key.as_str()).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => put_below(inner, rest, value),
        _ => Err(format!("`{key}` is not a table").into()),
    }
}

/// Formats a JSON value as TOML.
fn text_of(value: &Json) -> Result<String, Invalid> {
    Ok(match value {
        Json::Null => return Err("a configuration cannot have the value `null`".into()),
        Json::Bool(switch) => switch.to_string(),
        // A JSON number is also valid TOML.
        Json::Number(number) => number.to_string(),
        Json::String(text) => toml::Value::String(text.clone()).to_string(),
        Json::Array(elements) => {
            let elements: Result<Vec<_>, _> = elements.iter().map(text_of).collect();
            format!("[{}]", elements?.join(", "))
        }
        Json::Object(members) => {
            let members =
                members.iter().map(|(key, value)| Ok(format!("{} = {}", below("", key), text_of(value)?)));
            format!("{{ {} }}", members.collect::<Result<Vec<_>, Invalid>>()?.join(", "))
        }
    })
}

/// Gives all parts of a value the same span.
fn at<'i>(value: Spanned<DeValue<'i>>, span: &Range<usize>) -> Spanned<DeValue<'i>> {
    let value = match value.into_inner() {
        DeValue::Array(elements) => {
            DeValue::Array(elements.into_iter().map(|element| at(element, span)).collect())
        }
        DeValue::Table(entries) => {
            let entries = entries
                .into_iter()
                .map(|(key, value)| (Spanned::new(span.clone(), key.into_inner()), at(value, span)));
            DeValue::Table(entries.collect())
        }
        value => value,
    };
    Spanned::new(span.clone(), value)
}
