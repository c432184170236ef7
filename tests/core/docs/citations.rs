//! Checks the citations in code and fixtures.

use std::{collections::HashSet, fs};

use super::{files, none, page, root};

/// The folders that are searched for citations.
const FOLDERS: &[&str] = &["src", "crates", "tests", "benches", "examples", "fuzz", "fixtures", "clients"];
const EXTENSIONS: &[&str] = &["rs", "toml", "py", "js", "mjs", "ts", "sh"];

/// Names of unpublished notes, which were once cited with a section number.
const UNPUBLISHED: &[&str] = &["Lumo", "formats", "dialects", "peers", "enforcement", "operations", "issue"];

fn sources() -> impl Iterator<Item = (String, String)> {
    let folders = FOLDERS.iter().filter(|folder| root().join(folder).exists());
    let files = folders.flat_map(|folder| files(folder, EXTENSIONS));
    files.map(|(path, text)| (path.to_str().unwrap().to_owned(), text))
}

/// Runs `check` on every line of every source file. Returns what it finds, with file names and line numbers.
fn in_all_lines(check: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in sources().filter(|(path, _)| !path.starts_with("tests/core/docs/")) {
        for (at, line) in text.lines().enumerate() {
            faults.extend(check(line).into_iter().map(|fault| format!("{path}:{}: {fault}", at + 1)));
        }
    }
    faults
}

/// Returns each `page.md` or `page.md#heading` in a line, split at the `#`.
fn cited(line: &str) -> Vec<(&str, Option<&str>)> {
    let is_path = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.' | '/');
    let is_anchor = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    let end = |text: &str, inside: &dyn Fn(char) -> bool| text.find(|it| !inside(it)).unwrap_or(text.len());
    let mut found = Vec::new();
    for (at, suffix) in line.match_indices(".md") {
        let start = line[..at].rfind(|it| !is_path(it)).map_or(0, |before| before + 1);
        let (path, rest) = (&line[start..at + suffix.len()], &line[at + suffix.len()..]);
        let anchor = rest.strip_prefix('#').map(|rest| &rest[..end(rest, &is_anchor)]);
        found.push((path, anchor.filter(|anchor| !anchor.is_empty())));
    }
    found
}

#[test]
fn cited_pages_and_headings_exist() {
    let faults = in_all_lines(|line| {
        // Without an anchor, only paths below `docs/` are clearly citations.
        let cited = cited(line).into_iter();
        let ours = cited.filter(|(path, anchor)| anchor.is_some() || path.starts_with("docs/"));
        ours.filter_map(|(path, anchor)| page::fault(path, anchor)).collect()
    });
    none(&faults);
}

#[test]
fn cited_rfcs_name_a_section() {
    none(&in_all_lines(|line| {
        let rest = line.match_indices("RFC ").map(|(at, word)| &line[at + word.len()..]);
        let numbered = rest.filter(|rest| rest.starts_with(|it: char| it.is_ascii_digit()));
        let bare = numbered.filter(|rest| {
            let rest = rest.trim_start_matches(|it: char| it.is_ascii_digit());
            let section = rest.strip_prefix(", section").map(|rest| rest.trim_start_matches('s'));
            !section.is_some_and(|rest| rest.trim_start().starts_with(|it: char| it.is_ascii_digit()))
        });
        bare.map(|rest| format!("an RFC without `, section N`: RFC {rest}")).collect()
    }));
}

#[test]
fn unpublished_notes_are_not_cited() {
    none(&in_all_lines(|line| {
        let Some((_, comment)) = line.split_once("//").or_else(|| line.split_once("rests_on")) else {
            return Vec::new();
        };
        let words: Vec<&str> = comment.split([' ', '(', ',', '"']).collect();
        let old = words.windows(2).filter(|pair| {
            UNPUBLISHED.contains(&pair[0]) && pair[1].starts_with(|it: char| it.is_ascii_digit())
        });
        old.map(|pair| format!("cites notes that are not in the repository: {}", pair.join(" "))).collect()
    }));
}

#[test]
fn fixtures_rest_on_headings_and_cases() {
    let folder = root().join("fixtures/conformance");
    let cases: HashSet<String> = ["lumo.jsonl", "formats.jsonl", "own.jsonl"]
        .iter()
        .flat_map(|name| ids(&fs::read_to_string(folder.join(name)).unwrap()))
        .collect();
    let mut faults = Vec::new();
    for (path, text) in files("fixtures", &["toml"]) {
        let manifest: toml::Table = toml::from_str(&text).unwrap();
        let rests_on = manifest.get("rests_on").and_then(|it| it.as_array()).cloned().unwrap_or_default();
        let unknown = rests_on.iter().filter(|it| {
            let it = it.as_str().unwrap();
            !it.contains(".md#") && !cases.contains(it)
        });
        faults.extend(unknown.map(|it| format!("{}: rests on {it}, which is neither", path.display())));
    }
    none(&faults);
}

fn ids(cases: &str) -> Vec<String> {
    let cases = cases.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    cases.filter_map(|case| Some(case["id"].as_str()?.to_owned())).collect()
}

#[test]
fn citations_are_found_in_text() {
    let line = "(docs/a.md#b-c), docs/d.md. See ARCHITECTURE.md#laws; `x.md`";
    let expected =
        [("docs/a.md", Some("b-c")), ("docs/d.md", None), ("ARCHITECTURE.md", Some("laws")), ("x.md", None)];
    assert_eq!(cited(line), expected);
}
