//! The report for a terminal: plain-text tables in aligned columns, at most as wide as the terminal.

use strum::VariantArray;

use super::{Example, Report, VariantReport};
use crate::{
    bench::report::{
        figure::{self, NONE},
        grid::Grid,
    },
    calibrate::{interval::Share, judge::Verdict},
};
use toolwire_gateway::observe::{
    terminal::{WITHOUT_TERMINAL, counted, wrapped},
    untrusted_text::{clip, escaped},
};

/// Maximum width of a line of prose, in characters.
const WORDS: usize = 110;

/// Maximum number of examples for each kind of failure.
const EXAMPLES: usize = 2;

/// Maximum number of bytes of an answer in an example.
const SHOWN: usize = 160;

/// Minimum number of answers per variant. With fewer, only large differences are significant.
const FEW: u64 = 80;

/// The failures that have a column.
pub(super) const FAILURES: [Verdict; 9] = [
    Verdict::WrongTool,
    Verdict::WrongArguments,
    Verdict::SchemaError,
    Verdict::UndeclaredName,
    Verdict::NoCall,
    Verdict::Leak,
    Verdict::Imitation,
    Verdict::Truncated,
    Verdict::Failed,
];

/// Returns the report's tables in lines of at most `width` characters. `width` is `None` if the output is not a terminal.
pub fn table(report: &Report, width: Option<usize>) -> String {
    let width = width.unwrap_or(WITHOUT_TERMINAL);
    let words = width.min(WORDS);
    let mut parts = vec![head(report, words)];
    parts.push(shares(report).fitted(width));
    parts.push(failures(report).fitted(width));
    let legend = HEADS.map(|(head, meaning)| format!("{head}: {meaning}"));
    parts.push(wrapped(&format!("{}.", legend.join("; ")), "", words));
    parts.extend(examples(report, words));
    let caveats: Vec<_> = caveats(report).iter().map(|line| wrapped(&escaped(line), "! ", words)).collect();
    if !caveats.is_empty() {
        parts.push(caveats.join("\n"));
    }
    parts.push(conclusion(report));
    parts.join("\n\n")
}

/// The columns of [`shares`] after the variant's name, with what they show.
pub(super) const HEADS: [(&str, &str); 10] = [
    ("proper", "calls as wanted, of the prompts that want one"),
    ("95 %", "the interval of that share"),
    ("new", "proper, of those without earlier calls in the conversation"),
    ("history", "proper, of those with earlier calls"),
    ("required", "proper, of those whose tool_choice requires a call"),
    ("false", "calls where none was wanted"),
    ("leaks", "answers with markup of a call in the text, of all"),
    ("copies", "answers with copies of what the model was shown, of all"),
    ("tokens", "of the instructions, estimated"),
    ("to call", "time to the call, the median"),
];

/// Describes the run and its settings.
pub(super) fn head(report: &Report, width: usize) -> String {
    let Report { version, upstream, model, prompts, runs, temperature, max_tokens, seconds, .. } = report;
    let first = format!("toolwire {version} calibrate · {model} at {upstream}");
    let variants = counted(report.variants.len(), "variant");
    let second = format!(
        "{}, {}, {variants} · temperature {temperature}, at most {max_tokens} tokens · {}",
        counted(*prompts, "prompt"),
        counted(usize::try_from(*runs).unwrap_or(usize::MAX), "run"),
        figure::span(*seconds)
    );
    let third = format!("{} answers, {} of them from earlier runs", report.answers, report.cached);
    [first, second, third].map(|line| wrapped(&escaped(&line), "", width)).join("\n")
}

/// Formats a share in percent, without its interval: `73 %`.
pub(super) fn percent(share: &Share) -> String {
    share.value().map_or_else(|| NONE.to_owned(), |value| format!("{:.0} %", value * 100.0))
}

/// Formats the interval of a share in percent: `59–84`.
pub(super) fn interval(share: &Share) -> String {
    match share.of {
        0 => NONE.to_owned(),
        _ => format!("{:.0}–{:.0}", share.low * 100.0, share.high * 100.0),
    }
}

fn shares(report: &Report) -> Grid {
    let heads = ["variant"].into_iter().chain(HEADS.map(|(head, _)| head));
    let mut grid = Grid::new(heads, 1);
    for variant in &report.variants {
        let time = variant.call_ms.map_or_else(|| NONE.to_owned(), |millis| figure::time(millis * 1e3));
        grid.add_row([
            name(variant),
            percent(&variant.proper),
            interval(&variant.proper),
            percent(&variant.proper_without_history),
            percent(&variant.proper_with_history),
            percent(&variant.proper_required),
            percent(&variant.false_calls),
            percent(&variant.leaks),
            percent(&variant.imitations),
            format!("{:.0}", variant.tool_tokens),
            time,
        ]);
    }
    grid
}

fn failures(report: &Report) -> Grid {
    let heads = ["failures", "of"].into_iter().chain(FAILURES.map(Verdict::short_title));
    let mut grid = Grid::new(heads, 1);
    for variant in &report.variants {
        let counts = FAILURES.map(|verdict| variant.verdicts.get(&verdict).copied().unwrap_or_default());
        let counts = counts.map(|count| if count == 0 { "·".to_owned() } else { figure::count(count) });
        grid.add_row([name(variant), figure::count(variant.answers)].into_iter().chain(counts));
    }
    grid
}

fn name(variant: &VariantReport) -> String {
    clip(&escaped(&variant.name), 40).into_owned()
}

/// Returns examples of each kind of failure, starting with the best variants.
fn examples(report: &Report, width: usize) -> Option<String> {
    let mut lines = Vec::new();
    for &verdict in Verdict::VARIANTS {
        let all = report.variants.iter().flat_map(|variant| {
            let examples = variant.examples.iter().filter(move |example| example.verdict == verdict);
            // The first example of every variant comes before the second example of any variant.
            examples.enumerate().map(move |(at, example)| (at, variant, example))
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(at, ..)| *at);
        for (_, variant, example) in all.into_iter().take(EXAMPLES) {
            lines.push(shown(variant, example, width));
        }
    }
    (!lines.is_empty()).then(|| format!("Examples\n{}", lines.join("\n")))
}

fn shown(variant: &VariantReport, example: &Example, width: usize) -> String {
    let head = format!("{} · {} · {}: {}", example.verdict, variant.name, example.prompt, example.why);
    let answer: Vec<_> = example.calls.iter().map(String::as_str).chain([example.text.as_str()]).collect();
    let answer = answer.join(" ");
    let answer = clip(answer.trim(), SHOWN);
    let head = wrapped(&escaped(clip(&head, SHOWN * 2).as_ref()), "  ", width);
    if answer.is_empty() { head } else { format!("{head}\n{}", wrapped(&escaped(&answer), "    ", width)) }
}

/// Warnings about the reliability of the figures.
pub(super) fn caveats(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(stopped) = &report.stopped {
        let left = report.questions.saturating_sub(report.answers);
        lines.push(format!("{stopped}: {left} of {} requests were not asked", report.questions));
    }
    for variant in &report.variants {
        if let Some(message) = &variant.given_up {
            lines.push(format!("{} was given up, its requests are rejected: {message}", variant.name));
        }
    }
    if let Some(best) = report.best().filter(|best| best.score < 0.0) {
        lines.push(format!(
            "even for {}, proper calls may be rarer than false ones: this model may do better without tools",
            best.name
        ));
    }
    let most = report.variants.iter().map(|variant| variant.proper.of).max().unwrap_or_default();
    if most < FEW && report.variants.len() > 1 {
        lines.push(format!(
            "at most {most} answers per variant to prompts that want a call: variants whose intervals overlap may be \
             equally good"
        ));
    }
    lines
}

/// The best variant, and its configuration as TOML.
fn conclusion(report: &Report) -> String {
    let Some((best, entry)) = report.best().zip(report.entry.as_ref()) else {
        return "# No variant had a proper call.\n".to_owned();
    };
    let comment = format!(
        "# {}: {} of {} prompts that want a call got a proper one (95 %: {} %), {} of {} others a false one.",
        best.name,
        best.proper.count,
        best.proper.of,
        interval(&best.proper),
        best.false_calls.count,
        best.false_calls.of
    );
    format!("{}\n{entry}", escaped(&comment))
}

#[cfg(test)]
mod tests {
    use super::{super::example::report as example_report, *};

    #[test]
    fn table_shows_shares_failures_examples_and_ends_with_the_entry() {
        let told = table(&example_report(), None);
        for part in ["hermes turns", "80 %", "49–94", "schema", "Examples\n", "! "] {
            assert!(told.contains(part), "{part} in\n{told}");
        }
        let (_, entry) = told.rsplit_once("\n\n# ").unwrap();
        assert!(entry.split_once('\n').unwrap().1.parse::<toml::Table>().is_ok(), "{entry}");
    }

    #[test]
    fn lines_fit_the_terminal_and_text_cannot_control_it() {
        let mut report = example_report();
        report.variants[0].examples[0].text = "\u{1b}[2J\r\nx\u{202e}".repeat(90);
        report.variants[0].given_up = Some("\u{7}bad".to_owned());
        report.model = "m\u{1b}[31m".to_owned();
        for width in [None, Some(100), Some(60)] {
            let told = table(&report, width);
            let (told, _) = told.rsplit_once("\n\n# ").unwrap();
            assert!(!told.contains(['\u{1b}', '\u{7}', '\r', '\u{202e}']), "{told}");
            for line in told.lines() {
                assert!(line.chars().count() <= width.unwrap_or(WITHOUT_TERMINAL), "{width:?}: {line}");
            }
        }
    }

    #[test]
    fn weaknesses_are_named() {
        let mut report = example_report();
        report.stopped = Some("the key is refused".to_owned());
        report.answers = 20;
        report.variants[0].score = -0.1;
        report.variants[1].given_up = Some("no tools".to_owned());
        let starts = [
            "the key is refused: 4 of 24 requests were not asked",
            "hermes was given up, its requests are rejected: no tools",
            "even for hermes turns, proper calls may be rarer",
            "at most 10 answers per variant",
        ];
        let lines = caveats(&report);
        assert_eq!(lines.len(), starts.len(), "{lines:?}");
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }

    #[test]
    fn report_without_answers_is_shown() {
        let told = table(&Report::default(), None);
        assert!(told.ends_with("# No variant had a proper call.\n"), "{told}");
    }
}
