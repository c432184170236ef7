//! Readers for single values: strings, sizes, durations, choices, secrets, URLs.

use std::{collections::BTreeMap, fs, ops::RangeInclusive, time::Duration};

use bytesize::ByteSize;
use http::{HeaderValue, Uri};
use secrecy::SecretString;
use toml::de::DeValue;

use super::table::Cell;
use toolwire_pipeline::{
    settings::{TableText, names_secret},
    wire::{Invalid, suggest::suggest},
};

/// Reads a non-empty string.
pub(super) fn text(cell: Cell<'_>) -> Option<String> {
    match cell.value {
        DeValue::String(text) if text.is_empty() => cell.wrong("expected text, found an empty string"),
        DeValue::String(text) => Some(text.as_ref().to_owned()),
        _ => cell.expected("a string"),
    }
}

pub(super) fn switch(cell: Cell<'_>) -> Option<bool> {
    match cell.value {
        DeValue::Boolean(switch) => Some(*switch),
        _ => cell.expected("`true` or `false`"),
    }
}

/// Reads an integer of at least `least`.
pub(super) fn count(least: usize) -> impl Fn(Cell<'_>) -> Option<usize> {
    move |cell| {
        let DeValue::Integer(number) = cell.value else { return cell.expected("a whole number") };
        match usize::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if number >= least => Some(number),
            _ => cell.wrong(format!("expected a whole number of at least {least}")),
        }
    }
}

pub(super) fn count_in(range: RangeInclusive<usize>) -> impl Fn(Cell<'_>) -> Option<usize> {
    move |cell| {
        let DeValue::Integer(number) = cell.value else { return cell.expected("a whole number") };
        match usize::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if range.contains(&number) => Some(number),
            _ => cell.wrong(format!("expected a whole number from {} to {}", range.start(), range.end())),
        }
    }
}

/// Reads a positive integer, or `"off"` for `None`.
pub(super) fn count_or_off(cell: Cell<'_>) -> Option<Option<usize>> {
    match cell.value {
        DeValue::String(text) if text == "off" => Some(None),
        _ => count(1)(cell).map(Some),
    }
}

/// Reads a size in bytes: `"10MiB"`, or an integer.
pub(super) fn size(cell: Cell<'_>) -> Option<usize> {
    const EXPECTED: &str = "a size such as \"10MiB\"";
    let size = match cell.value {
        DeValue::String(text) => text.parse::<ByteSize>().ok().and_then(|size| usize::try_from(size.0).ok()),
        DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => return cell.expected(EXPECTED),
    };
    match size {
        Some(0) => cell.wrong("a size of zero lets nothing through"),
        Some(size) => Some(size),
        None => cell.wrong(format!("expected {EXPECTED}")),
    }
}

/// Reads a positive duration: `"90s"`, `"1m 30s"`, `"250ms"`.
pub(super) fn duration(cell: Cell<'_>) -> Option<Duration> {
    const EXPECTED: &str = "a duration such as \"90s\"";
    let DeValue::String(text) = cell.value else { return cell.expected(EXPECTED) };
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => cell.wrong("expected a duration greater than zero"),
        Ok(duration) => Some(duration),
        Err(error) => cell.wrong(format!("expected {EXPECTED}: {error}")),
    }
}

pub(super) fn duration_in(range: RangeInclusive<Duration>) -> impl Fn(Cell<'_>) -> Option<Duration> {
    move |cell| match duration(cell.clone())? {
        given if range.contains(&given) => Some(given),
        _ => {
            let written = |duration: &Duration| humantime::format_duration(*duration).to_string();
            cell.wrong(format!(
                "expected a duration from {} to {}",
                written(range.start()),
                written(range.end())
            ))
        }
    }
}

pub(super) fn duration_or_off(cell: Cell<'_>) -> Option<Option<Duration>> {
    match cell.value {
        DeValue::String(text) if text == "off" => Some(None),
        _ => duration(cell).map(Some),
    }
}

pub(super) fn json(cell: Cell<'_>) -> Option<serde_json::Value> {
    let DeValue::Table(_) = cell.value else { return cell.expected("a table") };
    as_json(cell.value)
}

/// Converts a value to JSON. Returns `None` if it contains a number that JSON cannot express.
pub(super) fn as_json(value: &DeValue<'_>) -> Option<serde_json::Value> {
    use serde_json::Value;
    Some(match value {
        DeValue::String(text) => Value::String(text.as_ref().to_owned()),
        DeValue::Boolean(switch) => Value::Bool(*switch),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()?.into(),
        DeValue::Float(number) => {
            number.as_str().parse::<f64>().ok().and_then(serde_json::Number::from_f64)?.into()
        }
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(elements) => {
            Value::Array(elements.iter().map(|element| as_json(element.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(entries) => {
            let entries = entries.iter();
            let entries = entries
                .map(|(key, value)| Some((key.get_ref().as_ref().to_owned(), as_json(value.get_ref())?)));
            Value::Object(entries.collect::<Option<_>>()?)
        }
    })
}

/// Reads one of several keywords.
pub(super) fn choice<T: Clone>(choices: &[(&str, T)]) -> impl Fn(Cell<'_>) -> Option<T> {
    listed_choice(choices, None)
}

/// Reads a non-empty string that `parse` accepts.
pub(super) fn parsed<T>(parse: impl Fn(&str) -> Result<T, Invalid>) -> impl Fn(Cell<'_>) -> Option<T> {
    move |cell| {
        let written = text(cell.clone())?;
        parse(&written).map_or_else(|wrong| cell.wrong(wrong.to_string()), Some)
    }
}

/// Reads one of many keywords, which the command `listed_by` prints.
pub(super) fn listed_choice<T: Clone>(
    choices: &[(&str, T)],
    listed_by: Option<&str>,
) -> impl Fn(Cell<'_>) -> Option<T> {
    move |cell| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let DeValue::String(word) = cell.value else {
            return cell.expected(&format!("one of \"{}\"", names.join("\", \"")));
        };
        match choices.iter().find(|(name, _)| name == word) {
            Some((_, value)) => Some(value.clone()),
            None => cell.wrong(format!("unknown value `{word}`; {}", suggest(word, &names, listed_by))),
        }
    }
}

/// Reads an array. Continues after a wrong element, to report all mistakes.
pub(super) fn list<'a, T>(each: impl Fn(Cell<'a>) -> Option<T>) -> impl Fn(Cell<'a>) -> Option<Vec<T>> {
    move |cell| {
        let DeValue::Array(elements) = cell.value else { return cell.expected("an array") };
        Some(elements.iter().filter_map(|element| each(Cell::new(element, cell.context))).collect())
    }
}

/// Reads an array or a single element.
pub(super) fn one_or_more<'a, T>(
    each: impl Fn(Cell<'a>) -> Option<T>,
) -> impl Fn(Cell<'a>) -> Option<Vec<T>> {
    move |cell| match cell.value {
        DeValue::Array(elements) if elements.is_empty() => cell.wrong("expected at least one"),
        DeValue::Array(_) => list(&each)(cell),
        _ => each(cell).map(|element| vec![element]),
    }
}

/// Reads a path. It is relative to the file's folder.
pub(super) fn path(cell: Cell<'_>) -> Option<std::path::PathBuf> {
    let written = text(cell.clone())?;
    Some(cell.context.source.resolve(&written, cell.span.start))
}

/// Reads `"env:NAME"`, `"file:PATH"`, or the text itself. Also returns the text's origin.
///
/// Removes one newline at the end of a file's content, because editors add it.
pub(super) fn referred(cell: Cell<'_>) -> Option<(String, Origin)> {
    let text = text(cell.clone())?;
    let is_reference = text.starts_with("env:") || text.starts_with("file:");
    if is_reference && cell.is_overlaid() {
        return cell.wrong("only the configuration file may refer to environment variables and files");
    }
    if text == "env:" {
        return cell.wrong("there is no name after `env:`");
    }
    if let Some(name) = text.strip_prefix("env:") {
        return match (cell.context.environment)(name) {
            Some(value) if value.is_empty() => {
                cell.wrong(format!("the environment variable `{name}` is empty"))
            }
            Some(value) => Some((value, Origin::Elsewhere)),
            None => cell.wrong(format!("the environment variable `{name}` is not set")),
        };
    }
    let Some(path) = text.strip_prefix("file:") else { return Some((text, Origin::Here)) };
    let path = cell.context.source.resolve(path, cell.span.start);
    cell.context.files.note(&path);
    match fs::read_to_string(&path) {
        Ok(content) => {
            let content = content.strip_suffix('\n').unwrap_or(&content);
            let content = content.strip_suffix('\r').unwrap_or(content);
            match content.is_empty() {
                true => cell.wrong(format!("the file {} is empty", path.display())),
                false => Some((content.to_owned(), Origin::Elsewhere)),
            }
        }
        Err(error) => cell.wrong(format!("cannot read {}: {error}", path.display())),
    }
}

/// The origin of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Here,
    /// The environment or a file.
    Elsewhere,
}

/// Reads a secret in one of the forms of [`referred`]. Warns if the secret itself is in the configuration file.
pub(super) fn secret(cell: Cell<'_>) -> Option<SecretString> {
    let is_header = |value: &str| HeaderValue::from_str(value).is_ok();
    secret_that(cell, is_header, "the secret holds characters that no HTTP header can carry")
}

fn secret_that(cell: Cell<'_>, is_usable: impl Fn(&str) -> bool, fault: &str) -> Option<SecretString> {
    let (value, origin) = referred(cell.clone())?;
    if !is_usable(&value) {
        return cell.wrong(fault);
    }
    if origin == Origin::Here && !cell.context.source.is_outside(cell.span.start) {
        cell.warn("a secret in the file itself; `\"env:NAME\"` or `\"file:PATH\"` keeps it out");
    }
    Some(SecretString::from(value))
}

/// Reads a table of named strings in the forms of [`referred`]. A string from the environment or a file is secret; a
/// string in the configuration itself is secret if [its name says so](names_secret). Values may contain line breaks,
/// because a program's environment variable may hold a key with several lines.
pub(super) fn text_table(cell: Cell<'_>) -> Option<BTreeMap<String, TableText>> {
    let is_passable = |value: &str| !value.contains('\0');
    let text = |name: &str, cell: Cell<'_>| match referred(cell.clone())? {
        (text, Origin::Here) if !names_secret(name) => match is_passable(&text) {
            true => Some(TableText::plain(text)),
            false => cell.wrong("the value contains a NUL character, which cannot be passed to a program"),
        },
        _ => {
            let problem = "the secret contains a NUL character, which cannot be passed to a program";
            secret_that(cell, is_passable, problem).map(TableText::secret)
        }
    };
    let entries = cell.entries().into_iter();
    entries.map(|(name, _, cell)| Some((name.to_owned(), text(name, cell)?))).collect()
}

pub(super) fn base_url(cell: Cell<'_>) -> Option<Uri> {
    // The URL may contain a password, so no message quotes it.
    let Ok(url) = text(cell.clone())?.trim_end_matches('/').parse::<Uri>() else {
        return cell.wrong("not a URL; expected one such as \"https://host/v1\"");
    };
    let (Some("http" | "https"), Some(authority)) = (url.scheme_str(), url.authority()) else {
        return cell.wrong("expected a URL that begins with `http://` or `https://`");
    };
    if authority.as_str().contains('@') {
        return cell.wrong("no user or password in the URL; put the key into `api_key` or `headers`");
    }
    if url.query().is_some() {
        return cell.wrong("no query in the URL; the dialect's own path is appended to it");
    }
    if url.path().ends_with("/chat/completions") {
        return cell.wrong("the dialect's own path is appended to the URL; leave `chat/completions` out");
    }
    Some(url)
}
