//! Points on a screen, as models write them in a string.

/// The markers that may be around a point.
const MARKS: [&str; 4] = ["<point>", "</point>", "<|box_start|>", "<|box_end|>"];

/// Returns the coordinates in `json`, a JSON string such as `"<point>10 20</point>"` or `"(10,20)"`, as a JSON
/// list. A box has four of them. `None` if the string contains anything else.
pub(super) fn coordinates(json: &str) -> Option<String> {
    let mut text = json.strip_prefix('"')?.strip_suffix('"')?.to_owned();
    for mark in MARKS {
        text = text.replace(mark, " ");
    }
    let separates = |c: char| matches!(c, ' ' | ',' | '(' | ')' | '[' | ']');
    let numbers: Vec<&str> = text.split(separates).filter(|number| !number.is_empty()).collect();
    let legal = numbers.iter().all(|number| is_number(number));
    (legal && matches!(numbers.len(), 2 | 4)).then(|| format!("[{}]", numbers.join(", ")))
}

/// Whether `text` is a number in JSON's notation, without an exponent.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    digits(whole) && digits(fraction) && (whole.len() == 1 || !whole.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_lists_of_numbers() {
        for (text, wanted) in [
            ("\"<point>10 20</point>\"", Some("[10, 20]")),
            ("\"<|box_start|>(10,20)<|box_end|>\"", Some("[10, 20]")),
            ("\"(0.5, -2)\"", Some("[0.5, -2]")),
            ("\"[1,2,3,4]\"", Some("[1, 2, 3, 4]")),
            ("\"\"", None),
            ("\"10\"", None),
            ("\"1 2 3\"", None),
            ("\"01 2\"", None),
            ("\"1. 2\"", None),
            ("\"a b\"", None),
            ("[1, 2]", None),
        ] {
            assert_eq!(coordinates(text).as_deref(), wanted, "{text}");
        }
    }
}
