//! Plausible values for arguments whose schema does not list any. They are chosen by `format`, by words in
//! the argument's name, or by type.

use super::sample::Keywords;

/// Words in an argument's name (or in `format`), with suitable values. The first entry that matches is used.
const TEXTS: &[(&[&str], [&str; 2])] = &[
    (&["email", "mail", "recipient", "cc", "bcc"], ["ann@example.com", "bob@example.com"]),
    (&["date-time", "datetime", "timestamp"], ["2026-03-14T09:30:00Z", "2026-03-15T18:00:00Z"]),
    (&["date", "day", "deadline"], ["2026-03-14", "2026-04-02"]),
    (&["duration"], ["PT30M", "PT2H"]),
    (&["timezone", "tz"], ["Europe/Paris", "Asia/Tokyo"]),
    (&["time"], ["09:30:00", "18:00:00"]),
    (&["uri", "url", "link", "href", "website"], ["https://example.com", "https://example.org/news"]),
    (&["uuid"], ["3f2504e0-4f89-41d3-9a0c-0305e82c3301", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
    (&["hostname", "host", "domain"], ["example.com", "example.org"]),
    (&["ipv4", "ip"], ["192.0.2.10", "198.51.100.7"]),
    (&["ipv6"], ["2001:db8::1", "2001:db8::2"]),
    (&["city", "town", "location", "place", "destination"], ["Paris", "Tokyo"]),
    (&["origin", "from"], ["London", "Berlin"]),
    (&["country"], ["France", "Japan"]),
    (&["address", "street"], ["10 Main Street", "5 Station Road"]),
    (&["language", "lang", "locale"], ["en", "fr"]),
    (&["currency"], ["EUR", "USD"]),
    (&["filename", "file", "path", "filepath"], ["notes.txt", "src/main.py"]),
    (&["directory", "dir", "folder"], ["documents", "src"]),
    (&["command", "cmd", "shell"], ["ls -l", "git status"]),
    (&["code", "script", "program"], ["x = 1", "y = 2"]),
    (&["expression", "formula", "equation"], ["2 + 3", "7 - 4"]),
    (&["sql"], ["SELECT name FROM users", "SELECT id FROM orders"]),
    (&["query", "search", "keyword", "keywords", "q", "term"], ["solar eclipse", "train times"]),
    (&["pattern", "regex"], ["error", "warning"]),
    (&["question", "prompt"], ["How far is the moon?", "Who wrote Hamlet?"]),
    (&["subject", "title", "topic", "summary"], ["Meeting", "Lunch"]),
    (&["body", "message", "content", "text", "note", "comment", "reason"], ["See you soon.", "Thank you."]),
    (&["description"], ["A short note", "Monthly report"]),
    (&["phone", "tel", "telephone"], ["+1 555 0100", "+1 555 0101"]),
    (&["color", "colour"], ["blue", "green"]),
    (&["room"], ["kitchen", "office"]),
    (&["unit", "units"], ["metric", "imperial"]),
    (&["ticker", "symbol", "stock"], ["ACME", "INIT"]),
    (&["category", "tag", "label", "type", "kind"], ["news", "sports"]),
    (&["to"], ["ann@example.com", "bob@example.com"]),
    (&["user", "username", "person", "author", "name"], ["Ann", "Bob"]),
    (&["id", "key", "identifier"], ["item-1", "item-2"]),
    (&["status", "state"], ["open", "closed"]),
];

const NUMBERS: &[(&[&str], [&str; 2])] = &[
    (&["year"], ["2026", "2025"]),
    (&["latitude", "lat"], ["48.85", "35.68"]),
    (&["longitude", "lon", "lng"], ["2.35", "139.69"]),
    (&["minutes", "seconds", "duration", "timeout"], ["10", "30"]),
    (&["price", "amount", "cost", "budget"], ["25", "40"]),
    (&["temperature"], ["21", "18"]),
    (&["percent", "percentage", "brightness", "volume"], ["50", "80"]),
    (&["port"], ["8080", "443"]),
    (&["age"], ["30", "42"]),
    (&["page", "offset", "index", "line"], ["1", "2"]),
    (&["quantity", "count", "number", "people", "guests"], ["2", "4"]),
];

/// Strings and numbers for arguments whose names say nothing. They hardly occur in requests, so that models do not take
/// them for answers.
const OTHER_TEXTS: &[[&str; 2]] =
    &[["blue lamp", "red door"], ["north gate", "green field"], ["old town", "west hill"]];
const OTHER_NUMBERS: &[[&str; 2]] = &[["12", "30"], ["7", "4"], ["25", "9"]];

/// The next of `values`, which are used in turn.
fn next(values: &'static [[&'static str; 2]], guessed: &mut usize) -> &'static [&'static str; 2] {
    let place = *guessed % values.len();
    *guessed += 1;
    values.get(place).unwrap_or(&["", ""])
}

/// A string. `None` if no known value satisfies the schema's `pattern`, `minLength` and `maxLength`.
pub(super) fn text(schema: &Keywords<'_>, key: &str, variant: usize, guessed: &mut usize) -> Option<String> {
    if schema.get("pattern").is_some() {
        return None;
    }
    let format = schema.get("format").and_then(|format| format.as_str());
    let by_format = format.and_then(|format| TEXTS.iter().find(|(words, _)| words.contains(&&*format)));
    let [one, other] = match by_format {
        Some((_, texts)) => texts,
        None => lookup(TEXTS, key).unwrap_or_else(|| next(OTHER_TEXTS, guessed)),
    };
    let text = if variant.is_multiple_of(2) { one } else { other };
    let bound = |key: &str| schema.get(key).and_then(|bound| bound.as_u64());
    let length = text.chars().count() as u64;
    let fits = bound("minLength").is_none_or(|least| least <= length)
        && bound("maxLength").is_none_or(|most| length <= most);
    fits.then(|| (*text).to_owned())
}

/// A number. `None` if no known value satisfies the schema's bounds.
pub(super) fn number(
    schema: &Keywords<'_>,
    key: &str,
    whole: bool,
    variant: usize,
    guessed: &mut usize,
) -> Option<String> {
    let [one, other] = lookup(NUMBERS, key).unwrap_or_else(|| next(OTHER_NUMBERS, guessed));
    let mut text = if variant.is_multiple_of(2) { *one } else { *other };
    if whole {
        text = text.split('.').next().unwrap_or(text);
    }
    let value: f64 = text.parse().ok()?;
    let bound = |key: &str| schema.get(key).and_then(|bound| bound.raw().parse::<f64>().ok());
    let above = bound("exclusiveMinimum").is_none_or(|least| value > least);
    let below = bound("exclusiveMaximum").is_none_or(|most| value < most);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let multiple = bound("multipleOf").is_none_or(|step| step > 0.0 && value % step == 0.0);
    if above
        && below
        && multiple
        && least.is_none_or(|least| value >= least)
        && most.is_none_or(|most| value <= most)
    {
        return Some(text.to_owned());
    }
    // The bounds are themselves valid values, unless they are exclusive. With `multipleOf`, nothing else is
    // tried.
    let key = if least.is_some_and(|least| value < least) { "minimum" } else { "maximum" };
    let bound = schema.get(key).filter(|bound| {
        let raw = bound.raw();
        raw.len() <= 12
            && raw.bytes().all(|byte| byte.is_ascii_digit() || !whole && byte == b'.' || byte == b'-')
    })?;
    let plain =
        ["exclusiveMinimum", "exclusiveMaximum", "multipleOf"].iter().all(|key| schema.get(key).is_none());
    plain.then(|| bound.raw().to_owned())
}

/// The entry for one of the words in `key`. The last word is looked up first.
fn lookup(
    entries: &'static [(&'static [&'static str], [&'static str; 2])],
    key: &str,
) -> Option<&'static [&'static str; 2]> {
    words(key).into_iter().rev().find_map(|word| {
        let entry = entries.iter().find(|(words, _)| words.contains(&word.as_str()));
        let singular = || {
            entries.iter().find(|(words, _)| word.strip_suffix('s').is_some_and(|word| words.contains(&word)))
        };
        entry.or_else(singular).map(|(_, values)| values)
    })
}

/// Splits a name in snake case, kebab case or camel case into lower-case words.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for character in name.chars() {
        let begins = !character.is_alphanumeric() || character.is_uppercase() && after_lower;
        if begins {
            words.push(String::new());
        }
        after_lower = character.is_lowercase();
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
