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
            // The descriptions are Markdown; a terminal does not render backticks.
            let about = format!("{about} [{default}]").replace('`', "");
            let _ = writeln!(text, "  {key}\n{}\n", wrapped(&about, INDENT, width));
        }
    }
    text
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
            "[upstreams.chat]\n\n  profile\n",
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
