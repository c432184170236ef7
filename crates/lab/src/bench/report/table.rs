//! The report for a terminal: plain-text tables in aligned columns, at most as wide as the terminal.
//!
//! The rows of a measure are the targets, for easy comparison. A table that is too wide is continued below, with the
//! targets' names repeated.

use strum::VariantArray;
use toolwire_gateway::observe::{
    terminal::{WITHOUT_TERMINAL, plural, wrapped},
    untrusted_text::{escaped, is_unprintable},
};

use super::{
    Distribution, Metric, Ramp, RampStep, Ratio, Report, Summary, Target,
    caveats::caveats,
    figure::{self, NONE},
    grid::Grid,
};

/// Maximum width of a line of prose, in characters.
const WORDS: usize = 110;
/// Maximum displayed length of a target's name, in characters.
const NAME: usize = 18;
/// The displayed name of the baseline.
pub(super) const BASELINE: &str = "(baseline)";

/// Returns the report's tables in lines of at most `width` characters. `width` is `None` if the output is not a terminal.
pub fn table(report: &Report, width: Option<usize>) -> String {
    let width = width.unwrap_or(WITHOUT_TERMINAL);
    let words = width.min(WORDS);
    let grids = [streams(report), costs(report), latencies(report)];
    let mut parts = vec![head(report, words)];
    parts.extend(grids.map(|grid| grid.fitted(width)));
    parts.extend(legend(report, words));
    parts.extend(ramps(report, width));
    parts.extend(complaints(report, words));
    parts.push(tool(report, words));
    parts.extend(warnings(report, words));
    parts.join("\n\n") + "\n"
}

/// Describes the run and the machine.
fn head(report: &Report, width: usize) -> String {
    let machine = &report.machine;
    let load =
        machine.load.map_or_else(String::new, |(before, after)| format!(", load {before:.2} → {after:.2}"));
    let rounds = match report.rounds {
        0 => String::new(),
        1 => "1 round in ".to_owned(),
        rounds => format!("{rounds} rounds in "),
    };
    let took = figure::span(report.seconds);
    let first = format!("toolwire {} bench · {} · {rounds}{took}", report.version, report.dialect);
    let cores = plural(machine.cores as u64, "core");
    let machine = format!("{}, {} {cores}{load}", machine.system, machine.cores);
    [first, report.load.clone(), machine].map(|line| wrapped(&line, "", width)).join("\n")
}

/// Returns the baseline and then the targets, each with its displayed name.
fn sides(report: &Report) -> impl Iterator<Item = (String, &Target)> {
    let baseline = report.baseline.iter().map(|target| (BASELINE.to_owned(), target));
    baseline.chain(report.targets.iter().map(|target| (name(&target.name), target)))
}

/// Replaces control characters in a name, and shortens it.
fn name(name: &str) -> String {
    let clean = || name.chars().map(|char| if is_unprintable(char) { '?' } else { char });
    if clean().count() <= NAME { clean().collect() } else { clean().take(NAME - 1).chain(['…']).collect() }
}

/// The table of streams, counted by how they ended.
fn streams(report: &Report) -> Grid {
    let heads =
        ["streams", "all", "good", "refused", "failed", "broken", "malformed", "unsent", "gaps", "tokens"];
    let mut table = Grid::new(heads.into_iter().chain(["streams/s"]), 1);
    for (name, Target { all, .. }) in sides(report) {
        let how = [all.streams, all.good, all.refused, all.failed, all.broken, all.malformed, all.unsent];
        let counts = how.into_iter().chain([all.gaps, all.tokens]).map(figure::count);
        table.add_row([name].into_iter().chain(counts).chain([figure::number(all.streams_per_second)]));
    }
    table
}

/// The table of throughput, and of the cost per token and per stream in the process under test.
fn costs(report: &Report) -> Grid {
    let process = report.targets.iter().any(|target| target.all.process.is_some());
    let measures: &[Cost] = if process { &COSTS } else { COSTS.split_at(1).0 };
    let heads = measures.iter().flat_map(|cost| [cost.title.to_owned(), against(report, cost.measure)]);
    let mut table = Grid::new(["rate and cost".to_owned()].into_iter().chain(heads), 1);
    for (name, target) in sides(report) {
        let cells = measures.iter().flat_map(|cost| {
            let value = (cost.value)(&target.all).map_or_else(|| NONE.to_owned(), cost.told);
            [value, ratio(report, &target.name, cost.measure)]
        });
        table.add_row([name].into_iter().chain(cells));
    }
    table
}

struct Cost {
    title: &'static str,
    measure: &'static str,
    value: fn(&Summary) -> Option<f64>,
    told: fn(f64) -> String,
}

/// The columns. The last two are shown only if a process was measured.
const COSTS: [Cost; 3] = [
    Cost {
        title: "tokens/s",
        measure: "tokens_per_second",
        value: |all| Some(all.tokens_per_second),
        told: figure::number,
    },
    Cost {
        title: "CPU/token",
        measure: "cpu_per_token",
        value: |all| all.process.as_ref().map(|process| process.cpu_per_token),
        told: figure::time,
    },
    Cost {
        title: "KiB/stream",
        measure: "kib_per_stream",
        value: |all| all.process.as_ref().map(|process| process.kib_per_stream),
        told: figure::number,
    },
];

/// The table of latencies, with a group of rows for each measure.
fn latencies(report: &Report) -> Grid {
    let (p50, p99) = (against(report, "ttft_p50"), against(report, "ttft_p99"));
    let heads = ["latency", "", "p50", "p90", "p99", "max"].map(str::to_owned);
    let heads = heads.into_iter().chain([("p50 ", p50), ("p99 ", p99)].map(|(of, to)| titled(of, &to)));
    let mut table = Grid::new(heads, 2);
    let mut first = true;
    for &metric in Metric::VARIANTS {
        let rows =
            sides(report).filter_map(|(name, target)| Some((name, target, target.all.metrics.get(&metric)?)));
        for (index, (name, target, distribution)) in rows.enumerate() {
            if index == 0 && !std::mem::take(&mut first) {
                table.add_row([""]);
            }
            let title = if index == 0 { metric.title() } else { "" };
            table.add_row(latency(report, title, name, &target.name, metric, distribution));
        }
    }
    table
}

/// Returns the row for the target named `called`, which is displayed as `shown`.
fn latency(
    report: &Report,
    title: &str,
    shown: String,
    called: &str,
    metric: Metric,
    distribution: &Distribution,
) -> [String; 8] {
    let Distribution { p50, p90, p99, max, .. } = *distribution;
    let [p50, p90, p99, max] = [p50, p90, p99, max].map(figure::time);
    let [typical, tail] = ["p50", "p99"].map(|of| ratio(report, called, &format!("{metric}_{of}")));
    [title.to_owned(), shown, p50, p90, p99, max, typical, tail]
}

/// Returns the heading for a column of ratios, which names the reference target, or an empty string if the measure has no
/// ratios.
fn against(report: &Report, measure: &str) -> String {
    let found = ratios(report).iter().find(|ratio| ratio.measure == measure);
    found.map_or_else(String::new, |ratio| format!("÷ {}", name(&ratio.to)))
}

/// Returns the ratios of the report. A ramp loads each target differently, so its ratios would be meaningless.
fn ratios(report: &Report) -> &[Ratio] {
    if report.rounds > 0 { &report.ratios } else { &[] }
}

fn titled(of: &str, against: &str) -> String {
    if against.is_empty() { String::new() } else { format!("{of}{against}") }
}

/// Formats a ratio with its spread, and marks it `≈` if the spread includes 1.
fn ratio(report: &Report, target: &str, measure: &str) -> String {
    let found = ratios(report).iter().find(|ratio| ratio.target == target && ratio.measure == measure);
    found.map_or_else(String::new, |ratio| {
        let mark = if ratio.min <= 1.0 && ratio.max >= 1.0 { "≈ " } else { "" };
        let [median, min, max] = [ratio.median, ratio.min, ratio.max].map(figure::factor);
        format!("{mark}{median} ({min}–{max})")
    })
}

fn legend(report: &Report, width: usize) -> Option<String> {
    (!ratios(report).is_empty()).then(|| {
        const LEGEND: &str =
            "Ratios: median over the rounds (lowest–highest round); ≈ if rounds lie on both sides of 1.";
        wrapped(LEGEND, "", width)
    })
}

fn ramps(report: &Report, width: usize) -> Option<String> {
    let words = width.min(WORDS);
    let slo = &report.ramps.first()?.slo;
    let mut table = Grid::new(["ramp", "most streams", "fewest that failed"], 1);
    for ramp in &report.ramps {
        let told = |streams: Option<u64>| streams.map_or_else(|| NONE.to_owned(), figure::count);
        let failed = limit(ramp).map(|step| step.streams);
        table.add_row([name(&ramp.target), told(ramp.streams), told(failed)]);
    }
    let slo = wrapped(&format!("Service level: {}", slo.replace(',', ", ")), "", words);
    let steps = report.ramps.iter().map(|ramp| steps(ramp, words)).collect::<Vec<_>>();
    Some(format!("{slo}\n\n{}\n\n{}", table.fitted(width), steps.join("\n")))
}

/// Lists the steps of a ramp, marks failed steps, and gives the measurements of the smallest failed step.
fn steps(ramp: &Ramp, width: usize) -> String {
    let steps = ends(ramp).map(|step| format!("{}{}", step.streams, if step.held { "" } else { "✗" }));
    let steps = steps.collect::<Vec<_>>().join(" ");
    let limit = limit(ramp).map(|step| format!("; at {}: {}", step.streams, step.measured.join(", ")));
    wrapped(&format!("{}: {steps}{}", name(&ramp.target), limit.unwrap_or_default()), "  ", width)
}

/// The smallest step that failed.
fn limit(ramp: &Ramp) -> Option<&RampStep> {
    ends(ramp).filter(|step| !step.held).min_by_key(|step| step.streams)
}

/// Returns the last attempt of each step, since a failed step is repeated.
fn ends(ramp: &Ramp) -> impl Iterator<Item = &RampStep> {
    ramp.steps.chunk_by(|one, next| one.streams == next.streams).filter_map(|tries| tries.last())
}

/// Lists errors and violations in streams, by target.
fn complaints(report: &Report, width: usize) -> Option<String> {
    let mut lines = Vec::new();
    for (name, target) in sides(report) {
        for (complaint, times) in &target.complaints {
            let complaint = format!("{name}: {} × {}", figure::count(*times), escaped(complaint));
            lines.push(wrapped(&complaint, "  ", width));
        }
    }
    (!lines.is_empty()).then(|| format!("Complaints\n{}", lines.join("\n")))
}

fn tool(report: &Report, width: usize) -> String {
    let overhead = &report.overhead;
    let cost = format!(
        "The tool itself: {} CPU per token, {:.0} ns per delta read, {:.0} ns per clock reading",
        figure::time(overhead.cpu_per_token),
        overhead.parse_ns,
        overhead.clock_ns
    );
    let lag = overhead.start_lag.as_ref().map(|lag| {
        format!(
            "Requests were sent {} (p50), {} (p99) after their intended start",
            figure::time(lag.p50),
            figure::time(lag.p99)
        )
    });
    let lines = [cost].into_iter().chain(lag).map(|line| wrapped(&line, "", width));
    lines.collect::<Vec<_>>().join("\n")
}

fn warnings(report: &Report, width: usize) -> Option<String> {
    let lines = caveats(report).into_iter().map(|line| wrapped(&line, "! ", width));
    let lines = lines.collect::<Vec<_>>();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{super::example, *};

    /// If `TOOLWIRE_APPROVE` is set, overwrites the expected table. The test passes after the next build.
    #[test]
    fn table_matches_the_approved_one() {
        let told = table(&example::report(), None);
        if std::env::var_os("TOOLWIRE_APPROVE").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bench/report/example/table.txt"), &told)
                .unwrap();
        }
        assert_eq!(told, include_str!("example/table.txt"));
    }

    #[test]
    fn table_lines_fit_the_terminal() {
        let mut report = example::report();
        report.targets[1].name = "a-gateway-with-a-very-long-name".to_owned();
        report.targets[1].all.metrics.get_mut(&Metric::Slip).unwrap().p99 = 4_200.0;
        report.load = "ramp ".repeat(40);
        report.ramps[0]
            .steps
            .extend((0..30).map(|step| RampStep { streams: 9_000 + step, ..RampStep::default() }));
        for width in [None, Some(120), Some(100), Some(80), Some(60)] {
            for line in table(&report, width).lines() {
                let columns = line.chars().count();
                assert!(columns <= width.unwrap_or(120), "{columns} of {width:?} columns: {line}");
            }
        }
    }

    #[test]
    fn narrow_table_contains_the_same_figures() {
        let report = example::report();
        let words = |width| {
            let told = table(&report, Some(width));
            told.split_whitespace().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        let rules = |word: &String| !word.starts_with('─');
        let (wide, narrow) = (words(200), words(60));
        assert_eq!(
            wide.iter().filter(|word| rules(word)).collect::<Vec<_>>(),
            narrow.iter().filter(|word| rules(word)).collect::<Vec<_>>()
        );
        // A table is printed even if nothing fits the width.
        assert!(table(&report, Some(1)).contains("toolwire"));
    }

    #[test]
    fn target_name_cannot_control_the_terminal() {
        let mut report = example::report();
        report.targets[0].name = "\u{1b}[31mred".to_owned();
        report.targets[0].complaints.insert("bad\u{1b}[2J".to_owned(), 1);
        report.command = "\u{7}".to_owned();
        let told = table(&report, None);
        assert!(told.contains("?[31mred"));
        assert!(!told.contains(['\u{1b}', '\u{7}']), "{told}");
    }

    #[test]
    fn second_attempt_of_a_ramp_step_counts() {
        let step = |streams, held| RampStep { streams, held, measured: vec![format!("{streams} {held}")] };
        let steps = vec![step(8, false), step(8, true), step(16, false), step(16, false)];
        let ramp = Ramp { steps, ..Ramp::default() };
        assert_eq!(super::steps(&ramp, WORDS), "  : 8 16✗; at 16: 16 false");
    }

    #[test]
    fn empty_report_is_printed() {
        let report = Report {
            baseline: None,
            targets: Vec::new(),
            ratios: Vec::new(),
            ramps: Vec::new(),
            ..example::report()
        };
        assert!(table(&report, None).contains("latency"));
    }
}
