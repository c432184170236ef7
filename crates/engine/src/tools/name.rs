//! The names of hosted tools and how models write them.

use crate::digest::Digest;

/// Maximum length of the names shown to models, in bytes.
const MAX_NAME: usize = 64;

/// Namespaces that models add to the names of tools, as in the prompts that they were trained on.
const NAMESPACES: [&str; 3] = ["functions", "tools", "default_api"];

/// Converts a name to what all upstreams accept: lower case, `[a-z0-9_-]`, at most `MAX_NAME` bytes. If more
/// than case and separators would be lost, the name ends with a hash, so that different names stay different.
pub fn normalized(name: &str) -> String {
    let legal = |character: char| match character.to_ascii_lowercase() {
        legal @ ('a'..='z' | '0'..='9' | '_' | '-') => legal,
        _ => '_',
    };
    let name = name.trim();
    let short: String = name.chars().map(legal).collect();
    if name.is_ascii() && short.len() <= MAX_NAME {
        return short;
    }
    let hash = format!("_{:08x}", Digest::of(&name.to_lowercase()).short());
    let kept: String = short.chars().take(MAX_NAME - hash.len()).collect();
    kept + &hash
}

/// Whether a model that writes `written` means the tool `own`. Case, surrounding spaces, separators and a
/// namespace are ignored.
pub fn is_spelling_of(written: &str, own: &str) -> bool {
    let is_same = |written: &str| normalized(written) == normalized(own);
    is_same(written) || inner(written).is_some_and(is_same)
}

fn inner(written: &str) -> Option<&str> {
    let (namespace, name) = written.trim().split_once(['.', ':'])?;
    NAMESPACES.iter().any(|known| namespace.eq_ignore_ascii_case(known)).then_some(name)
}

/// The declared name in `written`, if there is exactly one and everything else is decoration: `<…>` and the
/// words after it, quotes, white space, namespaces, or `:` and a number.
pub(super) fn undecorated(written: &str, is_declared: impl Fn(&str) -> bool) -> Option<&str> {
    let is_space = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let has_declared = |text: &str| {
        let mut words = text.split(|c| !is_letter(c)).flat_map(|word| word.split('.').chain([word]));
        words.any(|word| !word.is_empty() && is_declared(word))
    };
    // The recipient in a Harmony header.
    let (before, written) = written.rsplit_once("to=").unwrap_or(("", written));
    if has_declared(before) {
        return None;
    }
    let written = written.trim_end_matches(is_space);
    let written = written.strip_suffix("()").unwrap_or(written);
    let mut rest = written.trim_start_matches(is_space);
    while rest.starts_with('<') {
        rest = rest.split_once('>')?.1.trim_start_matches(is_space);
    }
    let (name, behind) = rest.split_at_checked(rest.find('<').unwrap_or(rest.len()))?;
    if has_declared(behind) {
        return None;
    }
    let mut name = name.trim_end_matches(is_space);
    if let Some((before, number)) = name.rsplit_once(':')
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && !is_declared(name)
    {
        name = before;
    }
    for _ in 0..MAX_NAMESPACES {
        if is_declared(name) {
            return Some(name);
        }
        let (namespace, inner) = split_namespace(name)?;
        if is_declared(namespace) {
            return None;
        }
        name = inner;
    }
    None
}

/// Maximum number of namespaces before a name, as in `multi_tool_use.functions.f`.
const MAX_NAMESPACES: usize = 4;

/// Splits a name into a namespace of the model's own format and the name that follows.
fn split_namespace(name: &str) -> Option<(&str, &str)> {
    if let Some((namespace, inner)) = name.split_once("::") {
        return Some((namespace, inner.trim_start()));
    }
    let (namespace, inner) = name.split_once(['.', ':', '/'])?;
    let is_known = NAMESPACES.iter().chain(&["multi_tool_use", "tool", "function"]);
    let is_known = is_known.into_iter().any(|known| namespace.eq_ignore_ascii_case(known));
    is_known.then(|| (namespace, inner.trim_start()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_have_the_form_that_all_upstreams_accept() {
        for (name, expected) in [
            ("web_search", "web_search"),
            ("tab.open", "tab_open"),
            ("Files__Read File", "files__read_file"),
            (" a/b:c ", "a_b_c"),
            ("", ""),
        ] {
            assert_eq!(normalized(name), expected);
        }
        let long = "x".repeat(MAX_NAME);
        assert_eq!(normalized(&long), long);
        let others = [format!("{long}a"), format!("{long}b"), "搜索".to_owned(), "天气".to_owned()];
        let others: HashSet<_> = others.iter().map(|name| normalized(name)).collect();
        assert_eq!(others.len(), 4);
        assert!(others.iter().all(|name| name.len() <= MAX_NAME && name.is_ascii()));
        assert_eq!(normalized(&"é".repeat(100)).len(), MAX_NAME);
    }

    #[test]
    fn decoration_around_one_declared_name_is_taken_off() {
        let declared = |name: &str| ["get_weather", "f", "g", "ns"].contains(&name);
        for written in [
            "get_weather<|channel|>analysis",
            "get_weather<|channel|>commentary json",
            "get_weather<|constrain|>json",
            "get_weather <|message|>",
            "get_weather<\u{ff5c}tool\u{2581}sep\u{ff5c}>",
            "get_weather</tool_call>",
            "<|tool|>get_weather",
            " get_weather\n",
            "\"get_weather\"",
            "default_api:get_weather",
            "default_api.get_weather ",
            "default_api::get_weather",
            "Functions.get_weather:0",
            "multi_tool_use.functions.get_weather",
            "tools.get_weather<|call|>",
            "weather::get_weather",
            "get_weather()",
            "to=functions.get_weather",
            "assistant<|channel|>commentary to=functions.get_weather <|constrain|>json",
        ] {
            assert_eq!(undecorated(written, declared), Some("get_weather"), "{written:?}");
        }
        for written in [
            "",
            " ",
            "<",
            "<|channel|>",
            "get_weather2",
            "get weather",
            "xget_weather<|channel|>",
            "other.get_weather",
            "f<|call|>g",
            "f<|call|>functions.g",
            "ns::f",
            "f.g",
            "get_weather(1)",
            "g to=f",
            "f to=other",
            "get_weather:a",
            "a.b.c.d.e.f",
        ] {
            assert_eq!(undecorated(written, declared), None, "{written:?}");
        }
        assert_eq!(undecorated("f:0", |name| name == "f:0" || name == "f"), Some("f:0"));
    }

    #[test]
    fn spellings_of_a_name_differ_in_case_spaces_separators_and_namespace() {
        for written in [
            "calc",
            "Calc",
            "CALC ",
            "\tcalc\n",
            "default_api:calc",
            "Default_API.Calc",
            "tools.calc",
            "functions: calc",
        ] {
            assert!(is_spelling_of(written, "calc"), "{written:?}");
        }
        for written in [
            "",
            " ",
            "calc2",
            "ca lc",
            "other:calc",
            "default_api",
            "default_api:",
            "functions.other",
            "default_api:tools.calc",
        ] {
            assert!(!is_spelling_of(written, "calc"), "{written:?}");
        }
        assert!(is_spelling_of("Tab.Open", "tab_open") && is_spelling_of("WEB-SEARCH", "web-search"));
        assert!(!is_spelling_of("gr\u{f6}\u{df}e", "gr__e"), "other letters are not spellings");
    }
}
