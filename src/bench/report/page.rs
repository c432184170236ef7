//! The report as a page: one file that needs no network, with the report's JSON in it and what draws it.

use super::{Report, caveats::caveats, json::json, table::table};

/// The page: where a part belongs stands its name between `@@`.
const FRAME: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str =
    concat!(include_str!("page/draw.js"), include_str!("page/charts.js"), include_str!("page/page.js"));

/// The page.
pub fn page(report: &Report) -> String {
    let title = format!("toolwire bench: {}", names(report));
    let caveats =
        caveats(report).iter().map(|line| format!("<li>{}</li>", escaped(line))).collect::<String>();
    let parts = [
        ("@@title@@", escaped(&title)),
        ("@@style@@", STYLE.to_owned()),
        ("@@caveats@@", caveats),
        ("@@table@@", escaped(&table(report))),
        ("@@report@@", embedded(&json(report))),
        ("@@script@@", SCRIPT.to_owned()),
    ];
    let mut page = String::new();
    let mut rest = FRAME;
    // Each part is looked for behind the one before, never in it: a target's name may be whatever it likes.
    for (mark, part) in parts {
        let (before, behind) = rest.split_once(mark).unwrap_or((rest, ""));
        page.extend([before, &part]);
        rest = behind;
    }
    page + rest
}

/// Who was measured.
fn names(report: &Report) -> String {
    report.targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Text as it stands between tags and in quoted attributes.
fn escaped(text: &str) -> String {
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

/// JSON as it stands in a `script` element. There `<` alone can end the element or begin a comment, and in JSON it
/// stands only in strings.
fn embedded(json: &str) -> String {
    json.replace('<', "\\u003c")
}
