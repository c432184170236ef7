//! Prints the documentation of every key of a configuration file.

use std::fmt::Write;

use toolwire_config::{Row, reference};
use toolwire_gateway::observe::terminal::wrapped;
use toolwire_pipeline::settings::Key;

const INDENT: &str = "      ";

/// Formats all keys, with a heading per table and a paragraph per key, wrapped to `width` columns.
pub(super) fn keys(width: usize) -> String {
    let mut text = String::new();
    for section in reference() {
        let name = if section.name.is_empty() { "Top level" } else { &section.name };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name}\n");
        for Row { key, default, about } in &section.rows {
            let default = match default.as_str() {
                Key::REQUIRED => Key::REQUIRED.to_owned(),
                default => format!("default: {default}"),
            };
            let about = plain(&format!("{about} [{default}]"));
            let _ = writeln!(text, "  {key}\n{}\n", wrapped(&about, INDENT, width));
        }
    }
    text
}

/// Markdown as plain text: without backticks, and links as their texts, followed by the document.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((link, after)) = rest.split_once("](").and_then(|(link, after)| {
        let (target, after) = after.split_once(')')?;
        Some(((link, target), after))
    }) {
        let (link, target) = link;
        let (before, linked) = link.rsplit_once('[').unwrap_or(("", link));
        let document = target.split('#').next().filter(|name| !name.is_empty()).unwrap_or("configuration.md");
        let _ = write!(text, "{before}{linked} (docs/{document})");
        rest = after;
    }
    (text + rest).replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_texts_and_documents() {
        for (markdown, text) in [
            ("what [`teach`](teaching.md) does", "what teach (docs/teaching.md) does"),
            (
                "`[[a]]` [below](#there), [here](tls.md)",
                "[[a]] below (docs/configuration.md), here (docs/tls.md)",
            ),
            ("[not a link] (no) [a](", "[not a link] (no) [a]("),
        ] {
            assert_eq!(plain(markdown), text);
        }
    }

    #[test]
    fn every_table_and_key_is_there() {
        let text = keys(80);
        for part in [
            "Top level\n\n  listen\n",
            "[[upstreams]]\n\n  name\n",
            "[upstreams.lumo]\n\n  version\n",
            "[upstreams.chat]\n\n  profile\n",
            "[[models]]\n\n  name\n",
            "[[formats]]\n\n  name\n",
            "[metrics]\n\n  tool_names\n",
            "[limits]\n\n  max_body\n      a client's request body; larger ones get 413 [default: \"10MiB\"]\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("TOOLWIRE_CONFIG") && !text.contains('`') && !text.contains("]("), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
