//! Every key of a configuration file, as docs/configuration.md describes it.

use std::fmt::Write;

use crate::observe::terminal::wrapped;

/// The page; a test checks that it has every key.
const PAGE: &str = include_str!("../../docs/configuration.md");

/// Indentation of the descriptions.
const INDENT: &str = "      ";

/// All keys: a heading for each table and a paragraph for each key, wrapped to `width` columns.
pub(super) fn keys(width: usize) -> String {
    let mut text = String::new();
    let mut heading = None;
    let mut in_keys = false;
    for line in PAGE.lines() {
        let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix('|')).map(cells);
        match cells.as_deref() {
            Some([key, _, _]) if key == "key" => {
                in_keys = true;
                // The root table has no name.
                text.extend(heading.take().map(|heading: String| format!("{heading}\n\n")));
            }
            Some([key, default, about]) if in_keys => {
                let default =
                    if default == "required" { "required".to_owned() } else { format!("default: {default}") };
                let about = wrapped(&format!("{about} [{default}]"), INDENT, width);
                // Writing into a string cannot fail.
                let _ = writeln!(text, "  {key}\n{about}\n");
            }
            _ => {
                in_keys = in_keys && line.starts_with('|');
                heading = named_table(line).or(heading);
            }
        }
    }
    text
}

/// The table that a line of the page names: a heading, or a line such as "`[upstreams.lumo]`, for …".
fn named_table(line: &str) -> Option<String> {
    let name = line.trim_start_matches("## ");
    let name = name.strip_prefix('`').and_then(|name| name.split('`').next());
    match name {
        Some(name) if name.starts_with('[') => Some(name.to_owned()),
        _ => (line == "## Top level").then(|| "Top level".to_owned()),
    }
}

/// The cells of a row, without Markdown markup.
fn cells(row: &str) -> Vec<String> {
    let plain = |cell: &str| cell.trim().replace('`', "").replace("\\|", "|");
    row.replace("\\|", "\u{0}").split('|').map(|cell| plain(&cell.replace('\u{0}', "|"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_and_key_is_there() {
        let text = keys(80);
        for part in [
            "Top level\n\n  listen\n",
            "[[upstreams]]\n\n  name\n",
            "[upstreams.lumo]\n\n  version\n",
            "[upstreams.chat]\n\n  include_usage\n",
            "[[models]]\n\n  name\n",
            "[[formats]]\n\n  name\n",
            "[metrics]\n\n  tool_names\n",
            "[limits]\n\n  max_body\n      a client's request body; larger ones get 413 [default: \"10MiB\"]\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("TOOLWIRE_CONFIG") && !text.contains('`'), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
