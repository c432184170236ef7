//! The report as a page: one file that needs no network and contains the report's JSON and the script that
//! draws it.

use super::{Report, caveats::caveats, json::json, table::table};

/// The template of the page: names between `@@` mark the places of its parts.
const FRAME: &str = include_str!("page/page.html");
/// The style of the tool's pages.
pub(crate) const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str =
    concat!(include_str!("page/draw.js"), include_str!("page/charts.js"), include_str!("page/page.js"));

pub fn page(report: &Report) -> String {
    let title = format!("toolwire bench: {}", names(report));
    let caveats =
        caveats(report).iter().map(|line| format!("<li>{}</li>", escaped(line))).collect::<String>();
    let parts = [
        ("@@title@@", escaped(&title)),
        ("@@style@@", STYLE.to_owned()),
        ("@@caveats@@", caveats),
        ("@@table@@", escaped(&table(report, None))),
        ("@@report@@", embedded(&json(report))),
        ("@@script@@", SCRIPT.to_owned()),
    ];
    filled(FRAME, &parts)
}

/// Fills a template with its parts, each instead of its mark. The parts must be in the order of the template: each mark
/// is searched for after the previous part, never inside it, because a target's name may contain any text.
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

/// The names of the measured targets.
fn names(report: &Report) -> String {
    report.targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Text escaped for use between tags and in quoted attributes.
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

/// Escapes JSON for use in a `script` element. Only `<` can end such an element or begin a comment in it, and in JSON,
/// `<` occurs only in strings.
pub(crate) fn embedded(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::{super::example, *};

    /// The text between the first `from` and the next `to` after it.
    fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
        page.split_once(from).and_then(|(_, behind)| behind.split_once(to)).unwrap().0
    }

    #[test]
    fn report_round_trips_through_the_page() {
        let report = example::report();
        let page = page(&report);
        let data = between(&page, r#"<script type="application/json" id="report">"#, "</script>");
        assert_eq!(serde_json::from_str::<Report>(data).unwrap(), report);
    }

    #[test]
    fn target_name_is_escaped_in_the_page() {
        let evil =
            "</script><script>alert(1)</script><!-- <script> @@report@@ @@script@@ \u{2028} ' \" & ]]>";
        let mut report = example::report();
        let harmless = page(&report);
        for target in &mut report.targets {
            target.name = evil.to_owned();
            target.complaints.insert(evil.to_owned(), 1);
            target.all.good = 0;
        }
        report.command = evil.to_owned();
        report.ramps[0].slo = evil.to_owned();
        let page = page(&report);
        for tag in ["<script", "</script", "<!--", "<style", "<li"] {
            let differ = if tag == "<li" { 2 } else { 0 };
            assert_eq!(page.matches(tag).count(), harmless.matches(tag).count() + differ, "{tag}");
        }
        let data = between(&page, r#"<script type="application/json" id="report">"#, "</script>");
        assert_eq!(serde_json::from_str::<Report>(data).unwrap(), report);
        assert!(between(&page, "<title>", "</title>").contains("&lt;/script&gt;"));
    }

    #[test]
    fn page_needs_no_network() {
        let page = page(&example::report());
        let code =
            page.replace(between(&page, r#"<script type="application/json" id="report">"#, "</script>"), "");
        for mark in [" src=", "@import", "url(", "fetch(", "XMLHttp", "innerHTML", "eval("] {
            assert!(!code.contains(mark), "{mark}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn every_part_has_a_place_in_the_template() {
        let page = page(&example::report());
        assert!(!page.contains("@@"), "a mark was left, or is in another order");
        assert!(between(&page, "<noscript>", "</noscript>").contains("toolwire 0.1.0 bench"));
    }
}
