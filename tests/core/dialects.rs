//! Checks that no dialect imports another. Dialects share code through modules beside them. The compiler enforces
//! all other boundaries, since a crate can only use its dependencies.

use std::{fs, path::Path};

use toolwire::dialect::Dialect;

use crate::support::repository::root;

/// The folders of the dialects, which have the dialects' names.
fn dialects() -> impl Iterator<Item = &'static str> {
    Dialect::ALL.iter().map(|dialect| dialect.name())
}

#[test]
fn no_dialect_imports_another() {
    let mut found = Vec::new();
    for dialect in dialects() {
        visit(&root().join("crates/dialects/src").join(dialect), &mut |file, text| {
            let others = imported(text).into_iter().filter(|name| *name != dialect);
            found.extend(others.map(|other| format!("{}: {other}", file.display())));
        });
    }
    assert!(found.is_empty(), "dialects that import others:\n{}", found.join("\n"));
}

#[test]
fn imports_are_found_in_every_form() {
    for (text, names) in [
        ("use crate::chat;", vec!["chat"]),
        ("use super::super::chat::Reader;", vec!["chat"]),
        ("use crate::{event::{self, Event},\n    chat::Reader, lumo};", vec!["chat", "lumo"]),
        ("fn f() -> crate::lumo::Version {}", vec!["lumo"]),
        ("use crate::{fit::chat, Dialect};\n// use crate::chat;", vec![]),
    ] {
        assert_eq!(imported(text), names, "{text}");
    }
}

fn visit(folder: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a dialect's folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(&path, &fs::read_to_string(&path).expect("a source file"));
        }
    }
}

/// Returns the dialects that `text` imports by a path from `crate` or `super`.
fn imported(text: &str) -> Vec<&'static str> {
    let code: String =
        text.lines().flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect();
    let mut found = Vec::new();
    for prefix in ["crate::", "super::"] {
        for (at, _) in code.match_indices(prefix) {
            let rest = &code[at + prefix.len()..];
            for name in rest.strip_prefix('{').map_or_else(|| vec![rest], branches) {
                let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next();
                found.extend(dialects().find(|dialect| Some(*dialect) == name));
            }
        }
    }
    found
}

/// Splits the inside of an import group at its top-level commas.
fn branches(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (index, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.push(group[start..index].trim());
                start = index + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}
