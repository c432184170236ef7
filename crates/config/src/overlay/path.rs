//! Paths of settings, in TOML's dotted-key notation.

use toml::de::DeValue;

/// Appends `key` to the path of a table.
pub(crate) fn below(path: &str, key: &str) -> String {
    let key = match !key.is_empty() && key.chars().all(is_bare) {
        true => key.to_owned(),
        // A JSON string is also a valid single-line string in TOML.
        false => serde_json::Value::from(key).to_string(),
    };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// Splits a path into its keys. `None` if it is malformed.
pub(super) fn keys_of(path: &str) -> Option<Vec<String>> {
    let (mut keys, mut rest) = (Vec::new(), path);
    loop {
        let (key, after) = first_key(rest)?;
        keys.push(key);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None => return after.is_empty().then_some(keys),
        }
    }
}

/// Splits off the key at the start of `text`. Returns the key and the remaining text.
fn first_key(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    let Some(quote) = quote else {
        let end = text.find(|character| !is_bare(character)).unwrap_or(text.len());
        let (key, rest) = text.split_at_checked(end)?;
        return (!key.is_empty()).then(|| (key.to_owned(), rest));
    };
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, character)| {
        let ends = *character == quote && !is_escaped;
        is_escaped = *character == '\\' && quote == '"' && !is_escaped;
        ends
    });
    let (key, rest) = text.split_at_checked(end?.0 + 1)?;
    match DeValue::parse(key).ok()?.into_inner() {
        DeValue::String(key) => Some((key.into_owned(), rest)),
        _ => None,
    }
}

fn is_bare(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_split_where_it_was_joined() {
        for keys in [
            &["limits", "max_body"][..],
            &["models", "gpt-4.1", "tools"],
            &["a b", "\"", "'", "\\", "", "ä", "x\n.y", "'\""],
        ] {
            let path = keys.iter().fold(String::new(), |path, key| below(&path, key));
            let split = keys_of(&path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(split, keys, "{path}");
        }
        for wrong in
            ["", ".", "a.", ".a", "a..b", "a b", "a = 1", "\"a", "\"a\"b", "a\n", "'''a'''", "a#", "ä"]
        {
            assert_eq!(keys_of(wrong), None, "{wrong}");
        }
    }
}
