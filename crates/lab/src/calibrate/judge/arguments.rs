//! Compares the arguments of calls with the expected arguments and with the text that the model was shown.

use serde_json::{Map, Value};

/// Placeholders for values, both those shown to models and the variations that models write.
const PLACEHOLDERS: [&str; 14] = [
    "value",
    "string",
    "number",
    "argument",
    "arg",
    "tool_name",
    "name",
    "example",
    "placeholder",
    "text",
    "todo",
    "...",
    "…",
    "xxx",
];

/// Minimum number of characters for a value to count as copied. Shorter values occur in any text.
const MIN_COPY: usize = 3;

/// Whether a call has the `wanted` arguments.
pub(super) fn fits(wanted: &Map<String, Value>, actual: &Value) -> bool {
    wanted.iter().all(|(key, wanted)| actual.get(key).is_some_and(|actual| value_fits(wanted, actual)))
}

/// Describes the first argument that differs from the expected one.
pub(super) fn difference(wanted: &Map<String, Value>, actual: &Value) -> String {
    for (key, wanted) in wanted {
        match actual.get(key) {
            None => return format!("`{key}` is missing, not {wanted}"),
            Some(actual) if !value_fits(wanted, actual) => {
                return format!("`{key}` is {actual}, not {wanted}");
            }
            Some(_) => {}
        }
    }
    "called once too often".to_owned()
}

/// Whether `actual` matches `wanted`. A string must contain the expected words in order, ignoring case and differences in
/// whitespace; a number must have the same value; a list must have the expected elements in any order. `{ exact = … }`
/// requires exactly this value, or one of several, and `{ any = [ … ] }` accepts any of several values.
fn value_fits(wanted: &Value, actual: &Value) -> bool {
    match (wanted, actual) {
        (Value::String(wanted), Value::String(actual)) => contains_words(&folded(actual), &folded(wanted)),
        (Value::Number(wanted), Value::Number(actual)) => wanted.as_f64() == actual.as_f64(),
        (Value::Array(wanted), Value::Array(actual)) => {
            let mut open: Vec<_> = actual.iter().collect();
            let mut take = |wanted: &Value| {
                let place = open.iter().position(|actual| value_fits(wanted, actual));
                place.map(|place| open.remove(place)).is_some()
            };
            wanted.len() == actual.len() && wanted.iter().all(&mut take)
        }
        (Value::Object(wanted), actual) => match (wanted.len(), wanted.get("exact"), wanted.get("any")) {
            (1, Some(Value::Array(exact)), _) => exact.contains(actual),
            (1, Some(exact), _) => exact == actual,
            (1, _, Some(Value::Array(any))) => any.iter().any(|wanted| value_fits(wanted, actual)),
            _ => actual.is_object() && fits(wanted, actual),
        },
        _ => wanted == actual,
    }
}

/// Returns the text in lowercase, with each run of whitespace replaced by one space.
fn folded(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `text` contains `words` as whole words: `Oslo` is in `Oslo, Norway`, but not in `Osloer` or `oslo@example.com`.
fn contains_words(text: &str, words: &str) -> bool {
    if words.is_empty() {
        return text.is_empty();
    }
    let is_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    let goes_on = |mut chars: &mut dyn Iterator<Item = char>| {
        let next = chars.next();
        // A sign such as a period joins words only if another word follows. Otherwise it may end a sentence.
        is_word(next) || next.is_some_and(|sign| "@_-.".contains(sign)) && is_word((&mut chars).next())
    };
    let (first, last) = (words.chars().next(), words.chars().next_back());
    text.match_indices(words).any(|(at, found)| {
        let (before, rest) = text.split_at_checked(at).unwrap_or_default();
        let behind = rest.get(found.len()..).unwrap_or_default();
        let joined_before = is_word(first) && goes_on(&mut before.chars().rev());
        let joined_behind = is_word(last) && goes_on(&mut behind.chars());
        !joined_before && !joined_behind
    })
}

/// Returns a placeholder in the arguments that does not occur in the conversation.
pub(super) fn placeholder(arguments: &Value, said: &str) -> Option<String> {
    let said = folded(said);
    leaves(arguments).into_iter().map(|(_, value)| value).find_map(|value| {
        let text = value.as_str()?;
        let folded = folded(text);
        (is_placeholder(&folded) && !contains_words(&said, &folded)).then(|| value.to_string())
    })
}

/// Whether a lowercase text is a placeholder: a generic word, `<city>`, `{{city}}`, `your_city`.
fn is_placeholder(text: &str) -> bool {
    let between = |open: &str, close: &str| {
        let inner = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        inner.is_some_and(|inner| {
            !inner.is_empty() && inner.len() < 40 && !inner.contains(['<', '>', '{', '}', '='])
        })
    };
    PLACEHOLDERS.contains(&text)
        || between("<", ">")
        || between("{{", "}}")
        || between("{", "}") && !text.contains('"')
        || between("your_", "")
        || between("your ", "") && text.split(' ').count() == 2
}

/// Returns an unexpected value that was copied from the text that the model was shown. Values listed in the schema are
/// meant to be used, so they do not count as copies.
pub(super) fn copied(
    arguments: &Value,
    wanted: Option<&Map<String, Value>>,
    schema: &Value,
    shown: &str,
    said: &str,
) -> Option<String> {
    let said = folded(said);
    let shown = folded(shown);
    leaves(arguments).into_iter().find_map(|(key, value)| {
        let is_wanted =
            wanted.and_then(|wanted| wanted.get(key)).is_some_and(|wanted| value_fits(wanted, value));
        let text = match value {
            Value::String(text) => folded(text),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        let long_enough = text.chars().count() >= MIN_COPY;
        let is_copy = contains_words(&shown, &text) && !contains_words(&said, &text);
        (!is_wanted && long_enough && is_copy && !lists(schema, value)).then(|| value.to_string())
    })
}

/// Whether a schema lists the value in an `enum`, or as a `const` or `default`.
fn lists(schema: &Value, value: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, inner)| match (key.as_str(), inner) {
            ("enum", Value::Array(values)) => values.contains(value),
            ("const" | "default", inner) => inner == value,
            (_, inner) => lists(inner, value),
        }),
        Value::Array(items) => items.iter().any(|item| lists(item, value)),
        _ => false,
    }
}

/// Returns all scalars in the arguments, each with the name of its top-level argument.
fn leaves(arguments: &Value) -> Vec<(&str, &Value)> {
    fn collect<'v>(key: &'v str, value: &'v Value, found: &mut Vec<(&'v str, &'v Value)>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| collect(key, item, found)),
            Value::Object(members) => members.values().for_each(|value| collect(key, value, found)),
            scalar => found.push((key, scalar)),
        }
    }
    let mut found = Vec::new();
    if let Value::Object(members) = arguments {
        members.iter().for_each(|(key, value)| collect(key, value, &mut found));
    }
    found
}
