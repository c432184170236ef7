//! Numbers and literals in arguments: recognises valid JSON, and converts other notations to JSON.

use crate::text::tail;

/// Converts a literal to JSON. If `repair` is set, also accepts Python's and JavaScript's literals.
pub(crate) fn literal(word: &str, repair: bool) -> Option<&'static str> {
    match word {
        "true" => Some("true"),
        "false" => Some("false"),
        "null" => Some("null"),
        _ if !repair => None,
        "True" => Some("true"),
        "False" => Some("false"),
        "None" => Some("null"),
        "NaN" => Some("\"NaN\""),
        "Infinity" => Some("\"Infinity\""),
        "-Infinity" => Some("\"-Infinity\""),
        _ => None,
    }
}

/// Whether `text` is a number as defined in RFC 8259, section 6.
pub(crate) fn is_number(text: &str) -> bool {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let int = digits(unsigned);
    if int == 0 || (int > 1 && unsigned.starts_with('0')) {
        return false;
    }
    let mut rest = tail(unsigned, int);
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = digits(fraction);
        if len == 0 {
            return false;
        }
        rest = tail(fraction, len);
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let len = digits(exponent);
        return len > 0 && len == exponent.len();
    }
    rest.is_empty()
}

/// Converts numbers such as `+1`, `.5`, `5.`, `007` and `1_000` to JSON.
pub(crate) fn mend_number(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let mut number = digits.replace('_', "");
    if number.starts_with('.') {
        number.insert(0, '0');
    }
    if number.ends_with('.') {
        number.push('0');
    }
    let leading = number.len() - number.trim_start_matches('0').len();
    if leading > 0 && tail(&number, leading).starts_with(|c: char| c.is_ascii_digit()) {
        number.drain(..leading);
    } else if leading > 1 {
        number.drain(..leading - 1);
    }
    number.insert_str(0, sign);
    is_number(&number).then_some(number)
}
