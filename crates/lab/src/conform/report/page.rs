//! The report as a self-contained HTML page without scripts, which includes the report's JSON.

use super::{Count, Report, Rule, table::held};
use crate::html::{Better, Cell, Page, html_table, section, visible};

/// Maximum number of failed cases that are listed. The JSON in the page contains all of them.
const LISTED: usize = 500;

pub fn page(report: &Report) -> String {
    let Count { cases, held } = report.total();
    let lead = format!(
        "{} · {held} of {cases} cases held · seed {} · toolwire {}",
        report.gateway, report.seed, report.version
    );
    let listed = match report.failures.len() {
        0..=LISTED => String::new(),
        all => format!("<p class=\"note\">The first {LISTED} of {all}.</p>\n"),
    };
    let sections = [
        ("Cases that held", counts(report)),
        ("Rules that were violated", rules(&report.rules)),
        ("Violations that all tested clients tolerate", rules(&report.notes)),
        ("Failed cases", failures(report).map(|table| listed + &table).unwrap_or_default()),
    ];
    let sections = sections.iter().filter(|(_, content)| !content.is_empty());
    Page {
        command: "conform",
        subject: &report.gateway,
        lead: &lead,
        sections: sections.map(|(title, content)| section(title, content)).collect(),
        report: &report.json(),
        ..Page::default()
    }
    .html()
}

fn counts(report: &Report) -> String {
    let heads = ["upstream", "category"].map(str::to_owned).into_iter();
    let heads: Vec<_> = heads.chain(report.clients.iter().map(|client| visible(client))).collect();
    let rows = report.rows.iter().map(|row| {
        let names = [&row.upstream, &row.category].map(|name| Cell::Name(visible(name)));
        names.into_iter().chain(row.counts.iter().map(|count| share(*count))).collect()
    });
    let table = html_table("Cases that held", &heads, rows);
    format!(
        "<p class=\"note\">By the dialect of the upstream and the category of the case; a column for each dialect of clients.</p>\n{table}"
    )
}

fn share(count: Count) -> Cell {
    if count.cases == 0 {
        return Cell::Number(held(count));
    }
    #[expect(clippy::cast_precision_loss, reason = "the width of a bar")]
    let value = count.held as f64 / count.cases as f64;
    let text = match count.held == count.cases {
        true => held(count),
        false => format!("<span class=\"bad\">{}</span>", held(count)),
    };
    Cell::Share { value, text, better: Better::More }
}

/// Returns nothing if there are no rules.
fn rules(rules: &[Rule]) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let shown = rules.iter().map(|rule| {
        format!(
            "<li><h3>{} × {}</h3><p><span class=\"dim\">first in {}:</span> {}</p><pre>{}</pre></li>",
            rule.cases,
            visible(&rule.rule),
            visible(&rule.first),
            visible(&rule.detail),
            visible(&rule.command)
        )
    });
    format!("<ul class=\"cases\">{}</ul>", shown.collect::<String>())
}

fn failures(report: &Report) -> Option<String> {
    if report.failures.is_empty() {
        return None;
    }
    let heads = ["case", "client", "violated"].map(str::to_owned);
    let rows = report.failures.iter().take(LISTED).map(|failure| {
        let rules = failure.faults.iter().map(|(rule, _)| visible(rule)).collect::<Vec<_>>().join("<br>");
        vec![Cell::Name(visible(&failure.case)), Cell::Text(visible(&failure.client)), Cell::Text(rules)]
    });
    Some(html_table("Failed cases", &heads, rows))
}

#[cfg(test)]
mod tests {
    use super::{super::example::report as example_report, *};

    #[test]
    fn report_round_trips_through_the_page() {
        let report = example_report();
        let page = page(&report);
        let (_, data) = page.split_once(r#"<script type="application/json" id="report">"#).unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        assert_eq!(serde_json::from_str::<Report>(data).unwrap(), report);
        assert!(!page.contains("@@"), "a mark was left, or is in another order");
    }

    #[test]
    fn only_sections_with_content_are_shown() {
        let mut report = example_report();
        let titles = |report: &Report| page(report).matches("<h2>").count();
        assert_eq!(titles(&report), 3);
        report.rules.clear();
        report.failures.clear();
        assert_eq!(titles(&report), 1);
    }

    #[test]
    fn hostile_text_is_escaped_in_the_page() {
        let evil = "</pre></script><script>alert(1)</script><!-- @@report@@ \u{202e} ' \" & <b onclick=x>";
        let mut report = example_report();
        let harmless = page(&report);
        report.gateway = evil.to_owned();
        for rule in &mut report.rules {
            for text in [&mut rule.rule, &mut rule.first, &mut rule.detail, &mut rule.command] {
                *text = evil.to_owned();
            }
        }
        for failure in &mut report.failures {
            failure.faults = vec![(evil.to_owned(), evil.to_owned())];
            failure.case = evil.to_owned();
        }
        let page = page(&report);
        for tag in ["<script", "</script", "<!--", "<b ", "</section"] {
            assert_eq!(page.matches(tag).count(), harmless.matches(tag).count(), "{tag}");
        }
    }
}
