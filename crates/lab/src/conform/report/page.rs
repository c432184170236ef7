//! The report as a self-contained HTML page without scripts, which includes the report's JSON.

use super::{Count, Report, Rule, table::held};
use crate::html::{Cell, TABLE_STYLE, embedded, filled, html_table, visible};

/// The page's template. Names between `@@` are placeholders.
const FRAME: &str = include_str!("page.html");

/// Maximum number of failed cases that are listed. The JSON in the page contains all of them.
const LISTED: usize = 500;

pub fn page(report: &Report) -> String {
    let Count { cases, held } = report.total();
    let lead = format!(
        "{} · {held} of {cases} cases held · seed {} · toolwire {}",
        report.gateway, report.seed, report.version
    );
    let parts = [
        ("@@title@@", visible(&format!("toolwire conform: {}", report.gateway))),
        ("@@style@@", TABLE_STYLE.to_owned()),
        ("@@lead@@", visible(&lead)),
        ("@@counts@@", counts(report)),
        ("@@rules@@", rules(&report.rules)),
        ("@@notes@@", rules(&report.notes)),
        ("@@failures@@", failures(report)),
        ("@@report@@", embedded(&report.json())),
    ];
    filled(FRAME, &parts)
}

fn counts(report: &Report) -> String {
    let heads = ["upstream", "category"].map(str::to_owned).into_iter();
    let heads: Vec<_> = heads.chain(report.clients.iter().map(|client| visible(client))).collect();
    let rows = report.rows.iter().map(|row| {
        let names = [&row.upstream, &row.category].map(|name| Cell::Plain(visible(name)));
        names.into_iter().chain(row.counts.iter().map(|count| share(*count))).collect()
    });
    html_table(&heads, rows)
}

fn share(count: Count) -> Cell {
    #[expect(clippy::cast_precision_loss, reason = "the width of a bar")]
    let value = count.held as f64 / count.cases.max(1) as f64;
    Cell::Share { value, text: held(count) }
}

fn rules(rules: &[Rule]) -> String {
    if rules.is_empty() {
        return "<p>None.</p>".to_owned();
    }
    let shown = rules.iter().map(|rule| {
        format!(
            "<dl><dt>{} × {}</dt><dd class=\"soft\">{}: {}</dd><dd><pre>{}</pre></dd></dl>",
            rule.cases,
            visible(&rule.rule),
            visible(&rule.first),
            visible(&rule.detail),
            visible(&rule.command)
        )
    });
    shown.collect()
}

fn failures(report: &Report) -> String {
    let heads = ["case", "client", "rule"].map(str::to_owned);
    let rows = report.failures.iter().take(LISTED).map(|failure| {
        let rules = failure.faults.iter().map(|(rule, _)| visible(rule)).collect::<Vec<_>>().join("<br>");
        vec![Cell::Plain(visible(&failure.case)), Cell::Plain(visible(&failure.client)), Cell::Plain(rules)]
    });
    html_table(&heads, rows)
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
