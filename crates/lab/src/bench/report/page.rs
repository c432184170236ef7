//! The report as a self-contained HTML page, which includes the report's JSON and the script that draws it.

use super::{Report, caveats::caveats, json::json, table::table};
use crate::html::{Page, escaped};

const STYLE: &str = include_str!("page/charts.css");
const SCRIPT: &str =
    concat!(include_str!("page/draw.js"), include_str!("page/charts.js"), include_str!("page/page.js"));

pub fn page(report: &Report) -> String {
    let figures = escaped(&table(report, None));
    let without_script = format!(
        "<noscript><p>The charts need JavaScript. These are the figures:</p>\n\
         <pre role=\"region\" aria-label=\"Figures\" tabindex=\"0\">{figures}</pre></noscript>"
    );
    Page {
        command: "bench",
        subject: &names(report),
        caveats: &caveats(report),
        sections: without_script,
        report: &json(report),
        style: STYLE,
        script: Some(SCRIPT),
        ..Page::default()
    }
    .html()
}

fn names(report: &Report) -> String {
    report.targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{super::example, *};

    /// Returns the text between the first `from` and the next `to`.
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
