//! Tables of HTML pages.

/// The style of these tables.
pub(crate) const STYLE: &str = include_str!("page/tables.css");

/// A cell; its text is HTML already.
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

/// Creates a table with these heads, which are HTML already.
pub(crate) fn html_table(heads: &[String], rows: impl Iterator<Item = Vec<Cell>>) -> String {
    let heads = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect::<String>();
    let rows = rows.map(|cells| format!("<tr>{}</tr>\n", cells.iter().map(Cell::html).collect::<String>()));
    let rows = rows.collect::<String>();
    format!("<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>")
}
