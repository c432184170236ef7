//! Checks that docs/protocols/http1.md#requirements names an existing test for every requirement.

use std::{collections::HashSet, fs};

use super::{files, none, root};

/// Returns the names in backticks in a row's last cell.
fn tests(row: &str) -> Vec<&str> {
    let cell = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
    cell.split('`').skip(1).step_by(2).collect()
}

/// Returns the rows of all requirement tables, without the header rows.
fn rows(page: &str) -> Vec<&str> {
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| requirement ");
    page.lines().filter(is_row).collect()
}

#[test]
fn each_requirement_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/protocols/http1.md")).unwrap();
    let sources: Vec<_> =
        ["src", "crates", "tests"].into_iter().flat_map(|folder| files(folder, &["rs"])).collect();
    let functions: HashSet<&str> = sources
        .iter()
        .flat_map(|(_, text)| text.match_indices("fn ").map(|(at, word)| &text[at + word.len()..]))
        .filter_map(|rest| Some(&rest[..rest.find('(')?]))
        .collect();
    let rows = rows(&page);
    assert!(rows.len() > 50, "only {} requirements were found", rows.len());
    let mut faults = Vec::new();
    for row in rows {
        let tests = tests(row);
        if tests.is_empty() {
            faults.push(format!("no test: {row}"));
        }
        let missing = tests.into_iter().filter(|test| !functions.contains(test));
        faults.extend(missing.map(|test| format!("there is no test `{test}`")));
    }
    none(&faults);
}
