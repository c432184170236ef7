//! The report as a self-contained HTML page without scripts, which includes the report's JSON.

use super::{
    Report, VariantReport,
    table::{FAILURES, HEADS, caveats, head, interval, percent},
};
use crate::{
    bench::report::figure::{self, NONE},
    calibrate::interval::Share,
    html::{Better, Cell, Page, escaped, html_table, section, visible},
};

pub fn page(report: &Report) -> String {
    let entry = report.entry.clone().unwrap_or_else(|| "No variant had a proper call.".to_owned());
    let examples = report.variants.iter().map(examples).collect::<String>();
    let sections = [
        ("Variants", variants(report)),
        ("Failures", failures(report)),
        ("Right answers by group of prompts", groups(report)),
        ("Examples of failures", examples),
        ("Configuration", format!("<pre>{}</pre>", escaped(&entry))),
    ];
    let sections = sections.iter().filter(|(_, content)| !content.is_empty());
    Page {
        command: "calibrate",
        subject: &report.model,
        lead: &head(report, usize::MAX).replace('\n', " · "),
        caveats: &caveats(report),
        sections: sections.map(|(title, content)| section(title, content)).collect(),
        report: &report.json(),
        ..Page::default()
    }
    .html()
}

fn variants(report: &Report) -> String {
    // The interval of a share is part of its cell.
    let [first, _, rest @ ..] = HEADS;
    let answers = ("answers", "all responses, including failures");
    let end = ("to end", "time to the end of the response, the median");
    let columns: Vec<_> = [answers, first].into_iter().chain(rest).chain([end]).collect();
    let legend = columns.iter().map(|(head, meaning)| format!("<dt>{head}</dt><dd>{meaning}</dd>"));
    let legend = legend.collect::<String>();
    let heads: Vec<_> = ["variant"].into_iter().chain(columns.iter().map(|(head, _)| *head)).collect();
    let heads: Vec<_> = heads.into_iter().map(str::to_owned).collect();
    let time = |millis: Option<f64>| {
        Cell::Number(millis.map_or_else(|| NONE.to_owned(), |millis| figure::time(millis * 1e3)))
    };
    let rows = report.variants.iter().map(|variant| {
        vec![
            Cell::Name(visible(&variant.name)),
            Cell::Number(figure::count(variant.answers)),
            share(&variant.proper, Better::More),
            share(&variant.proper_without_history, Better::More),
            share(&variant.proper_with_history, Better::More),
            share(&variant.proper_required, Better::More),
            share(&variant.false_calls, Better::Less),
            share(&variant.leaks, Better::Less),
            share(&variant.imitations, Better::Less),
            Cell::Number(format!("{:.0}", variant.tool_tokens)),
            time(variant.call_ms),
            time(variant.total_ms),
        ]
    });
    let table = html_table("Variants", &heads, rows);
    format!(
        "{table}\n<p class=\"note\">Small: the 95 % interval of the share above it.</p>\n<dl>{legend}</dl>"
    )
}

/// Returns a cell that shows a share with its interval and a bar.
fn share(share: &Share, better: Better) -> Cell {
    match share.value() {
        None => Cell::Number(NONE.to_owned()),
        Some(value) => {
            let text = format!("{}<small>{}</small>", percent(share), interval(share));
            Cell::Share { value, text, better }
        }
    }
}

/// Returns nothing if there was no failure.
fn failures(report: &Report) -> String {
    let count =
        |variant: &VariantReport, verdict| variant.verdicts.get(&verdict).copied().unwrap_or_default();
    if report.variants.iter().all(|variant| FAILURES.iter().all(|verdict| count(variant, *verdict) == 0)) {
        return String::new();
    }
    let titles = FAILURES.map(|verdict| verdict.title().to_owned());
    let heads: Vec<_> = ["variant".to_owned()].into_iter().chain(titles).collect();
    let rows = report.variants.iter().map(|variant| {
        let counts = FAILURES.map(|verdict| Cell::Number(figure::count(count(variant, verdict))));
        [Cell::Name(visible(&variant.name))].into_iter().chain(counts).collect()
    });
    html_table("Failures", &heads, rows)
}

/// Returns nothing if there was no answer.
fn groups(report: &Report) -> String {
    let mut names: Vec<_> = report.variants.iter().flat_map(|variant| variant.groups.keys()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return String::new();
    }
    let heads: Vec<_> =
        ["variant".to_owned()].into_iter().chain(names.iter().map(|name| visible(name))).collect();
    let rows = report.variants.iter().map(|variant| {
        let shares = names.iter().map(|name| variant.groups.get(*name).copied().unwrap_or_default());
        let shares = shares.map(|group| share(&group, Better::More));
        [Cell::Name(visible(&variant.name))].into_iter().chain(shares).collect()
    });
    html_table("Right answers by group of prompts", &heads, rows)
}

fn examples(variant: &VariantReport) -> String {
    if variant.examples.is_empty() {
        return String::new();
    }
    let shown = variant.examples.iter().map(|example| {
        let answer = example.calls.iter().chain([&example.text]).filter(|text| !text.is_empty());
        let answer = answer.map(|text| format!("<pre>{}</pre>", visible(text))).collect::<String>();
        format!(
            "<li><h3>{}: {}</h3><p class=\"dim\">{}: {}</p>{answer}</li>",
            example.verdict,
            visible(&example.why),
            visible(&example.prompt),
            visible(&example.user)
        )
    });
    let shown = shown.collect::<String>();
    format!(
        "<details><summary>{}</summary><ul class=\"cases\">{shown}</ul></details>",
        visible(&variant.name)
    )
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
    fn every_column_is_explained_and_false_calls_are_not_green() {
        let page = page(&example_report());
        let (_, table) = page.split_once("aria-label=\"Variants\"").unwrap();
        let (heads, _) = table.split_once("</thead>").unwrap();
        let heads: Vec<_> = heads.split("</th>").filter_map(|head| head.rsplit('>').next()).collect();
        assert_eq!((heads[0], heads.len()), ("variant", 13));
        for head in &heads[1..12] {
            assert!(page.contains(&format!("<dt>{head}</dt>")), "{head}");
        }
        assert!(page.contains("class=\"share less\" data-head=\"false\""));
        assert!(page.contains("class=\"share more\" data-head=\"proper\""));
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
