//! Finds the headings and links of a Markdown page.

use std::{collections::HashMap, fs};

use super::root;

/// Checks a reference to `path#anchor`, where `path` is relative to the repository's root. Returns an error message
/// if the target does not exist.
pub(crate) fn fault(path: &str, anchor: Option<&str>) -> Option<String> {
    let Ok(target) = root().join(path).canonicalize() else {
        return Some(format!("{path} does not exist"));
    };
    let anchor = anchor?;
    let text = fs::read_to_string(target).ok()?;
    let known = anchors(&text).iter().any(|known| known == anchor);
    (!known).then(|| format!("{path} has no heading #{anchor}"))
}

/// Returns the lines of a page that are not in fenced code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    page.lines().filter(move |line| {
        // Backticks indented by four spaces belong to an indented code block.
        let is_indented = line.starts_with("    ");
        let line = line.trim_start();
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if ticks.len() >= open.len() && line.trim_end() == ticks => fence = None,
            None if ticks.len() >= 3 && !is_indented => fence = Some(ticks),
            open => return open.is_none(),
        }
        false
    })
}

/// Returns the anchors that GitHub generates for the headings.
fn anchors(page: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose(page).filter_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then(|| title.trim())
    });
    let anchor = |title: &str| {
        let kept = title.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
        let name: String =
            kept.flat_map(char::to_lowercase).map(|it| if it == ' ' { '-' } else { it }).collect();
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
    };
    headings.map(anchor).collect()
}

/// Returns the targets of all links in the form `[text](target)`. Inline code is ignored.
pub(crate) fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        // Every second piece is inline code. A placeholder keeps links whose text is code.
        let code: Vec<&str> = line.split('`').collect();
        let plain = code.iter().enumerate().map(|(at, piece)| if at % 2 == 0 { piece } else { "code" });
        let plain = plain.collect::<String>();
        for rest in plain.split("](").skip(1) {
            found.extend(rest.split_once(')').map(|(target, _)| target.to_owned()));
        }
    }
    found
}

#[test]
fn anchors_are_made_as_github_makes_them() {
    let page =
        "# `[[upstreams]]`\n\n```\n# no heading\n```\n## A token's way: 1, 2\n## Twice\n## Twice\n#hash\n";
    assert_eq!(anchors(page), ["upstreams", "a-tokens-way-1-2", "twice", "twice-1"]);
}

#[test]
fn indented_backticks_open_no_code_block() {
    assert_eq!(anchors("    ```json\n    {}\n    ```<end>\n\n# After\n"), ["after"]);
}

#[test]
fn links_in_code_are_not_links() {
    let page = "[a](b.md) `[c](d.md)` and [`e`](f.md#g)\n````text\n[h](i.md)\n```\n[j](k.md)\n````\n[l](m)";
    assert_eq!(links(page), ["b.md", "f.md#g", "m"]);
}
