//! The names of hosted tools, and how models write them.

use crate::digest::Digest;

/// The longest name that models are given, in bytes.
const MAX_NAME: usize = 64;

/// Namespaces that models put before a tool's name, as the prompts that they were trained with do.
const NAMESPACES: [&str; 3] = ["functions", "tools", "default_api"];

/// A tool's name in the form that all upstreams accept: lower case, `[a-z0-9_-]`, at most [`MAX_NAME`] bytes. Names that would lose
/// more than the case and separators end with a hash, so that different names remain different.
pub(crate) fn normalized(name: &str) -> String {
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

/// Whether a model means the tool `own` by `written`: case, spaces around it, separators and a namespace do not count.
pub(crate) fn is_spelling_of(written: &str, own: &str) -> bool {
    let is_same = |written: &str| normalized(written) == normalized(own);
    is_same(written) || inner(written).is_some_and(is_same)
}

/// The name behind its namespace.
fn inner(written: &str) -> Option<&str> {
    let (namespace, name) = written.trim().split_once(['.', ':'])?;
    NAMESPACES.iter().any(|known| namespace.eq_ignore_ascii_case(known)).then_some(name)
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
