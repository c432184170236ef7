//! Helpers for the HTML pages of reports.

use toolwire_gateway::observe::untrusted_text;

pub(crate) const STYLE: &str = include_str!("html/page.css");

pub(crate) const TABLE_STYLE: &str = concat!(include_str!("html/page.css"), include_str!("html/tables.css"));

/// Replaces the placeholders in a template with their parts, which must be in the template's order. Never searches for a
/// placeholder inside an inserted part, because a target's name may contain any text.
pub(crate) fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    for (mark, part) in parts {
        let (before, behind) = rest.split_once(mark).unwrap_or((rest, ""));
        page.extend([before, part]);
        rest = behind;
    }
    page + rest
}

/// Escapes text for use between tags and in quoted attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    out
}

/// Escapes untrusted text as HTML. Also makes unprintable characters visible, so that they cannot reorder or hide the text
/// around them.
pub(crate) fn visible(text: &str) -> String {
    escaped(&untrusted_text::escaped(text))
}

/// Escapes JSON for use in a `script` element. Only `<` can end such an element or open a comment in it, and `<` occurs in
/// JSON only within strings.
pub(crate) fn embedded(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// A cell. Its text is already HTML.
pub(crate) enum Cell {
    /// Text.
    Plain(String),
    /// Text over a bar that shows a share, 0 to 1.
    Share { value: f64, text: String },
}

impl Cell {
    fn html(&self) -> String {
        match self {
            Self::Plain(text) => format!("<td>{text}</td>"),
            Self::Share { value, text } => {
                let width = (value.clamp(0.0, 1.0) * 100.0).round();
                format!("<td class=\"share\" style=\"--width: {width}%\">{text}</td>")
            }
        }
    }
}

/// Creates a table with these headings, which are already HTML.
pub(crate) fn html_table(heads: &[String], rows: impl Iterator<Item = Vec<Cell>>) -> String {
    let heads = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect::<String>();
    let rows = rows.map(|cells| format!("<tr>{}</tr>\n", cells.iter().map(Cell::html).collect::<String>()));
    let rows = rows.collect::<String>();
    format!("<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>")
}
