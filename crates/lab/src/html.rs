//! The HTML pages of reports, in the console's look.

use toolwire_gateway::observe::untrusted_text;

/// The page's template. Names between `@@` are placeholders.
const FRAME: &str = include_str!("html/frame.html");

/// The style of every page. `tokens.css` is the console's.
const STYLE: &str = concat!(include_str!("html/tokens.css"), include_str!("html/style.css"));

/// Minimum number of columns of a table that becomes a list of rows on narrow screens. Smaller tables wrap their text.
const MANY: usize = 6;

/// A report as a page that contains everything it needs. Members that are not plain text are already HTML.
#[derive(Default)]
pub(crate) struct Page<'a> {
    /// The name of the command.
    pub(crate) command: &'a str,
    /// What was measured, as plain text.
    pub(crate) subject: &'a str,
    /// A line that describes the run, as plain text.
    pub(crate) lead: &'a str,
    /// Warnings about the figures, as plain text.
    pub(crate) caveats: &'a [String],
    pub(crate) sections: String,
    /// The report as JSON.
    pub(crate) report: &'a str,
    /// Styles of elements that only this page has.
    pub(crate) style: &'a str,
    /// Without a script, the page's policy allows none.
    pub(crate) script: Option<&'a str>,
}

impl Page<'_> {
    pub(crate) fn html(&self) -> String {
        let script = self.script.map(|script| format!("<script>\n{script}</script>\n")).unwrap_or_default();
        let policy = self.script.map(|_| "; script-src 'unsafe-inline'").unwrap_or_default();
        let parts = [
            ("@@policy@@", policy.to_owned()),
            ("@@title@@", visible(&format!("toolwire {}: {}", self.command, self.subject))),
            ("@@style@@", format!("{STYLE}{}", self.style)),
            ("@@command@@", escaped(self.command)),
            ("@@lead@@", visible(self.lead)),
            ("@@body@@", format!("{}{}", caveats(self.caveats), self.sections)),
            ("@@report@@", embedded(self.report)),
            ("@@script@@", script),
        ];
        filled(FRAME, &parts)
    }
}

fn caveats(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines = lines.iter().map(|line| format!("<li>{}</li>", visible(line))).collect::<String>();
    format!("<ul class=\"caveats\" aria-label=\"Caveats\">{lines}</ul>\n")
}

/// Creates a section. `content` is already HTML.
pub(crate) fn section(title: &str, content: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{content}\n</section>\n", escaped(title))
}

/// Replaces the placeholders in a template with their parts, which must be in the template's order. Never searches for a
/// placeholder inside an inserted part, because a target's name may contain any text.
fn filled(template: &str, parts: &[(&str, String)]) -> String {
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
fn embedded(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Which values of a share are good.
#[derive(Clone, Copy)]
pub(crate) enum Better {
    More,
    Less,
}

/// A cell. Its text is already HTML.
pub(crate) enum Cell {
    /// The name of the row.
    Name(String),
    Number(String),
    Text(String),
    /// Text over a bar that shows a share, 0 to 1. The bar is green only if more is better.
    Share {
        value: f64,
        text: String,
        better: Better,
    },
}

impl Cell {
    fn is_text(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Text(_))
    }

    fn html(&self, head: &str) -> String {
        match self {
            Self::Name(text) => format!("<th scope=\"row\">{text}</th>"),
            Self::Number(text) => format!("<td data-head=\"{head}\">{text}</td>"),
            Self::Text(text) => format!("<td class=\"text\" data-head=\"{head}\">{text}</td>"),
            Self::Share { value, text, better } => {
                let class = match better {
                    Better::More => "more",
                    Better::Less => "less",
                };
                let share = value.clamp(0.0, 1.0);
                format!(
                    "<td class=\"share {class}\" data-head=\"{head}\" style=\"--share: {share:.3}\">{text}</td>"
                )
            }
        }
    }
}

/// Creates a table with this name and these headings, which are already HTML.
pub(crate) fn html_table(name: &str, heads: &[String], rows: impl Iterator<Item = Vec<Cell>>) -> String {
    let rows: Vec<_> = rows.collect();
    let kinds = rows.first().into_iter().flatten().map(Cell::is_text).chain(std::iter::repeat(false));
    let columns = heads.iter().zip(kinds).map(|(head, is_text)| match is_text {
        true => format!("<th scope=\"col\" class=\"text\">{head}</th>"),
        false => format!("<th scope=\"col\">{head}</th>"),
    });
    let columns = columns.collect::<String>();
    let rows = rows.iter().map(|cells| {
        let cells = cells.iter().zip(heads).map(|(cell, head)| cell.html(head)).collect::<String>();
        format!("<tr>{cells}</tr>\n")
    });
    let rows = rows.collect::<String>();
    let size = if heads.len() < MANY { "few" } else { "many" };
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n<table class=\"{size}\">\n\
         <thead><tr>{columns}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>",
        escaped(name)
    )
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// The crates are packaged separately, so the tokens are copied.
    #[test]
    fn tokens_are_those_of_the_console() {
        let console = Path::new(env!("CARGO_MANIFEST_DIR")).join("../admin/src/console/page/css/tokens.css");
        let console = fs::read_to_string(console).unwrap();
        let (tokens, _) = console.split_once("\n/* A theme for").unwrap();
        assert_eq!(include_str!("html/tokens.css"), tokens);
    }
}
