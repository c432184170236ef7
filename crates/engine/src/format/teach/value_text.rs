//! Writes JSON values as models do: with the blanks of Python's `json.dumps`, which chat templates use too, or in
//! Python syntax.

use serde_json::Value;

use super::Quotes;

pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Writes `json`, which must be valid, on one line with a blank after each comma and colon. Numbers keep their digits.
/// In strings, only those characters are escaped that must be.
pub(super) fn spaced(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 8);
    let mut rest = json;
    while let Some((before, string)) = rest.split_once('"') {
        put_tokens(before, &mut out);
        let (string, behind) = string.split_at_checked(string_length(string)).unwrap_or((string, ""));
        put_string(string, &mut out);
        rest = behind;
    }
    put_tokens(rest, &mut out);
    out
}

fn put_tokens(text: &str, out: &mut String) {
    for character in text.chars().filter(|character| !character.is_ascii_whitespace()) {
        out.push(character);
        if matches!(character, ',' | ':') {
            out.push(' ');
        }
    }
}

/// The length of a string behind its opening quotation mark, with its closing one.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

/// Writes a string, given without its opening quotation mark.
fn put_string(string: &str, out: &mut String) {
    let literal = format!("\"{string}");
    let may_be_shorter = string.contains("\\u") || string.contains("\\/");
    match serde_json::from_str::<String>(&literal) {
        Ok(text) if may_be_shorter => out.push_str(&quoted(&text)),
        // A lone surrogate stays as it is.
        _ => out.push_str(&literal),
    }
}

/// Writes a string in Python syntax.
pub(super) fn python_string(text: &str, quotes: Quotes) -> String {
    if quotes == Quotes::Double {
        return quoted(text);
    }
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            character if character == quote => out.extend(['\\', quote]),
            character if is_printable(character) => out.push(character),
            character => out.push_str(&match u32::from(character) {
                code @ ..=0xff => format!("\\x{code:02x}"),
                code @ ..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
    out
}

/// Whether Python's `repr` writes a character as it is. Unassigned characters are not considered.
fn is_printable(character: char) -> bool {
    let is_blank = character.is_whitespace() && character != ' ';
    let is_format = matches!(character,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{10ffff}');
    !(character.is_control() || is_blank || is_format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_blanks_of_python() {
        for (given, written) in [
            ("{}", "{}"),
            (" [ ] ", "[]"),
            (r#"{"a":1.50,"b" : [true,null , "x:y,z"]}"#, r#"{"a": 1.50, "b": [true, null, "x:y,z"]}"#),
            ("{\n  \"a\": {\"b\": -1e5}\n}", r#"{"a": {"b": -1e5}}"#),
            (r#"{"a\"b":"\\"}"#, r#"{"a\"b": "\\"}"#),
            (r#""\u00e9\u003c\/\ud83d\ude00\n""#, r#""é</😀\n""#),
            (r#""\ud83d\u00e9""#, r#""\ud83d\u00e9""#),
            (r#""\u0001\u007F""#, "\"\\u0001\u{7f}\""),
        ] {
            assert_eq!(spaced(given), written, "{given}");
            assert_eq!(spaced(written), written);
        }
    }

    #[test]
    fn strings_have_the_quotes_of_python() {
        for (text, written) in [
            ("Paris", "'Paris'"),
            ("it's", r#""it's""#),
            (r#"it's "q""#, r#"'it\'s "q"'"#),
            ("a\\\n\t\u{1}\u{a0}\u{200b}é😀\u{e0001}", r"'a\\\n\t\x01\xa0\u200bé😀\U000e0001'"),
        ] {
            assert_eq!(python_string(text, Quotes::Repr), written);
        }
        assert_eq!(python_string("it's \"q\"", Quotes::Double), r#""it's \"q\"""#);
    }
}
