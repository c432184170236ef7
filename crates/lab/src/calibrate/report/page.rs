//! The report as a self-contained HTML page without scripts, which includes the report's JSON.

use super::{
    Report, VariantReport,
    table::{FAILURES, LEGEND, caveats, head, interval, percent},
};
use crate::{
    bench::report::figure::{self, NONE},
    calibrate::interval::Share,
    html::{Cell, TABLE_STYLE, embedded, escaped, filled, html_table, visible},
};

/// The page's template. Names between `@@` are placeholders.
const FRAME: &str = include_str!("page.html");

pub fn page(report: &Report) -> String {
    let caveats = caveats(report).iter().map(|line| format!("<li>{}</li>", visible(line))).collect();
    let entry = report.entry.clone().unwrap_or_else(|| "No variant had a proper call.".to_owned());
    let parts = [
        ("@@title@@", visible(&format!("toolwire calibrate: {}", report.model))),
        ("@@style@@", TABLE_STYLE.to_owned()),
        ("@@lead@@", visible(&head(report, usize::MAX).replace('\n', " · "))),
        ("@@caveats@@", caveats),
        ("@@legend@@", escaped(LEGEND)),
        ("@@variants@@", variants(report)),
        ("@@failures@@", failures(report)),
        ("@@groups@@", groups(report)),
        ("@@examples@@", report.variants.iter().map(examples).collect()),
        ("@@entry@@", escaped(&entry)),
        ("@@report@@", embedded(&report.json())),
    ];
    filled(FRAME, &parts)
}

fn variants(report: &Report) -> String {
    let heads = [
        "variant",
        "answers",
        "proper",
        "without history",
        "with history",
        "required",
        "false calls",
        "leaking",
        "imitating",
        "tokens",
        "to call",
        "to end",
    ];
    let time = |millis: Option<f64>| {
        Cell::Plain(millis.map_or_else(|| NONE.to_owned(), |millis| figure::time(millis * 1e3)))
    };
    let rows = report.variants.iter().map(|variant| {
        vec![
            Cell::Plain(visible(&variant.name)),
            Cell::Plain(figure::count(variant.answers)),
            share(&variant.proper),
            share(&variant.proper_without_history),
            share(&variant.proper_with_history),
            share(&variant.proper_required),
            share(&variant.false_calls),
            share(&variant.leaks),
            share(&variant.imitations),
            Cell::Plain(format!("{:.0}", variant.tool_tokens)),
            time(variant.call_ms),
            time(variant.total_ms),
        ]
    });
    html_table(&heads.map(str::to_owned), rows)
}

/// Returns a cell that shows a share with its interval and a bar.
fn share(share: &Share) -> Cell {
    match share.value() {
        None => Cell::Plain(NONE.to_owned()),
        Some(value) => Cell::Share { value, text: format!("{} ({})", percent(share), interval(share)) },
    }
}

fn failures(report: &Report) -> String {
    let heads: Vec<_> = ["variant".to_owned()]
        .into_iter()
        .chain(FAILURES.map(|verdict| verdict.title().to_owned()))
        .collect();
    let rows = report.variants.iter().map(|variant| {
        let counts = FAILURES.map(|verdict| variant.verdicts.get(&verdict).copied().unwrap_or_default());
        let counts = counts.into_iter().map(|count| Cell::Plain(figure::count(count)));
        [Cell::Plain(visible(&variant.name))].into_iter().chain(counts).collect()
    });
    html_table(&heads, rows)
}

fn groups(report: &Report) -> String {
    let mut names: Vec<_> = report.variants.iter().flat_map(|variant| variant.groups.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let heads: Vec<_> =
        ["variant".to_owned()].into_iter().chain(names.iter().map(|name| visible(name))).collect();
    let rows = report.variants.iter().map(|variant| {
        let shares = names.iter().map(|name| variant.groups.get(*name).copied().unwrap_or_default());
        let shares = shares.map(|group| share(&group));
        [Cell::Plain(visible(&variant.name))].into_iter().chain(shares).collect()
    });
    html_table(&heads, rows)
}

fn examples(variant: &VariantReport) -> String {
    if variant.examples.is_empty() {
        return String::new();
    }
    let shown = variant.examples.iter().map(|example| {
        let calls =
            example.calls.iter().map(|call| format!("<pre>{}</pre>", visible(call))).collect::<String>();
        let text = match example.text.is_empty() {
            true => String::new(),
            false => format!("<pre>{}</pre>", visible(&example.text)),
        };
        format!(
            "<dl><dt>{}: {}</dt><dd class=\"soft\">{}: {}</dd><dd>{calls}{text}</dd></dl>",
            example.verdict,
            visible(&example.why),
            visible(&example.prompt),
            visible(&example.user)
        )
    });
    let shown = shown.collect::<String>();
    format!("<details><summary>{}</summary>{shown}</details>", visible(&variant.name))
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
        let read: Report = serde_json::from_str(data).unwrap();
        assert_eq!(read.variants.len(), report.variants.len());
        assert_eq!(read.entry, report.entry);
        assert!(!page.contains("@@"), "a mark was left, or is in another order");
    }

    #[test]
    fn hostile_text_is_escaped_in_the_page() {
        let evil = "</pre></script><script>alert(1)</script><!-- @@report@@ \u{202e} ' \" & <b onclick=x>";
        let mut report = example_report();
        let harmless = page(&report);
        report.model = evil.to_owned();
        report.stopped = Some(evil.to_owned());
        report.entry = Some(evil.to_owned());
        for variant in &mut report.variants {
            variant.name = evil.to_owned();
            variant.given_up = Some(evil.to_owned());
            variant.groups = [(evil.to_owned(), Share::new(1, 2))].into();
            for example in &mut variant.examples {
                for text in [&mut example.text, &mut example.why, &mut example.prompt, &mut example.user] {
                    *text = evil.to_owned();
                }
                example.calls = vec![evil.to_owned()];
            }
        }
        let page = page(&report);
        for tag in ["<script", "</script", "<!--", "<b ", "</section"] {
            assert_eq!(page.matches(tag).count(), harmless.matches(tag).count(), "{tag}");
        }
        assert_eq!(page.matches("<pre").count(), page.matches("</pre").count());
    }

    #[test]
    fn page_needs_no_network_and_no_scripts() {
        let page = page(&example_report());
        assert!(page.contains("default-src 'none'"));
        for mark in [" src=", "@import", "url(", "href="] {
            assert!(!page.contains(mark), "{mark}");
        }
    }
}
