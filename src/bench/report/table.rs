//! The report for a terminal: at most 120 columns, plain text, numbers under numbers.
//!
//! Targets stand below one another under each measure, since that is what a reader compares.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use super::{
    Distribution, Metric, Ramp, RampStep, Ratio, Report, Summary, Target,
    caveats::caveats,
    figure::{self, NONE},
};

/// Columns of a line.
const WIDTH: usize = 110;
/// Characters of a target's name that are shown.
const NAME: usize = 18;
/// Under what name the baseline stands.
pub(super) const BASELINE: &str = "(baseline)";

/// The report's table.
pub fn table(report: &Report) -> String {
    let mut parts = vec![head(report), streams(report), costs(report), latencies(report)];
    parts.extend(legend(report));
    parts.extend(ramps(report));
    parts.extend(complaints(report));
    parts.push(tool(report));
    parts.extend(warnings(report));
    parts.join("\n\n") + "\n"
}

/// What was measured, and where.
fn head(report: &Report) -> String {
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
    let machine = format!("{}, {} cores{load}", machine.system, machine.cores);
    format!("{first}\n{}\n{machine}", wrapped(&report.load, ""))
}

/// The targets with what they are called, the baseline first.
fn sides(report: &Report) -> impl Iterator<Item = (String, &Target)> {
    let baseline = report.baseline.iter().map(|target| (BASELINE.to_owned(), target));
    baseline.chain(report.targets.iter().map(|target| (name(&target.name), target)))
}

/// A name as it fits: without control characters, and not too long.
fn name(name: &str) -> String {
    let clean = || name.chars().map(|char| if char.is_control() { '?' } else { char });
    if clean().count() <= NAME { clean().collect() } else { clean().take(NAME - 1).chain(['…']).collect() }
}

/// How the streams came.
fn streams(report: &Report) -> String {
    let heads =
        ["streams", "all", "good", "refused", "failed", "broken", "malformed", "unsent", "gaps", "tokens"];
    let mut table = grid(heads.into_iter().chain(["streams/s"]), &[0]);
    for (name, Target { all, .. }) in sides(report) {
        let how = [all.streams, all.good, all.refused, all.failed, all.broken, all.malformed, all.unsent];
        let counts = how.into_iter().chain([all.gaps, all.tokens]).map(figure::count);
        table.add_row([name].into_iter().chain(counts).chain([figure::number(all.streams_per_second)]));
    }
    table.trim_fmt()
}

/// What a second brings, and what a token and a stream cost the process under test.
fn costs(report: &Report) -> String {
    let process = report.targets.iter().any(|target| target.all.process.is_some());
    let measures: &[Cost] = if process { &COSTS } else { COSTS.split_at(1).0 };
    let heads = measures.iter().flat_map(|cost| [cost.title.to_owned(), against(report, cost.measure)]);
    let mut table = grid(["rate and cost".to_owned()].into_iter().chain(heads), &[0]);
    for (name, target) in sides(report) {
        let cells = measures.iter().flat_map(|cost| {
            let value = (cost.value)(&target.all).map_or_else(|| NONE.to_owned(), cost.told);
            [value, ratio(report, &target.name, cost.measure)]
        });
        table.add_row([name].into_iter().chain(cells));
    }
    table.trim_fmt()
}

/// A column of the costs.
struct Cost {
    title: &'static str,
    measure: &'static str,
    value: fn(&Summary) -> Option<f64>,
    told: fn(f64) -> String,
}

/// The columns; the last two where a process was watched.
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

/// The distributions, a group a measure.
fn latencies(report: &Report) -> String {
    let (p50, p99) = (against(report, "ttft_p50"), against(report, "ttft_p99"));
    let heads = ["latency", "", "p50", "p90", "p99", "max"].map(str::to_owned);
    let heads = heads.into_iter().chain([("p50 ", p50), ("p99 ", p99)].map(|(of, to)| titled(of, &to)));
    let mut table = grid(heads, &[0, 1]);
    let mut first = true;
    for metric in Metric::ALL {
        let rows =
            sides(report).filter_map(|(name, target)| Some((name, target, target.all.metrics.get(&metric)?)));
        for (index, (name, target, distribution)) in rows.enumerate() {
            if index == 0 && !std::mem::take(&mut first) {
                table.add_row([""]);
            }
            let title = if index == 0 { metric.title() } else { "" };
            table.add_row(latency(report, (title, name, &target.name), metric, distribution));
        }
    }
    table.trim_fmt()
}

/// One line of the latencies: of the target `called` so, which is shown under the name `shown`.
fn latency(
    report: &Report,
    (title, shown, called): (&str, String, &str),
    metric: Metric,
    distribution: &Distribution,
) -> [String; 8] {
    let Distribution { p50, p90, p99, max, .. } = *distribution;
    let [p50, p90, p99, max] = [p50, p90, p99, max].map(figure::time);
    let [typical, tail] = ["p50", "p99"].map(|of| ratio(report, called, &format!("{metric}_{of}")));
    [title.to_owned(), shown, p50, p90, p99, max, typical, tail]
}

/// The heading of a column of ratios: against whom. Empty where nothing is compared by the measure.
fn against(report: &Report, measure: &str) -> String {
    let found = ratios(report).iter().find(|ratio| ratio.measure == measure);
    found.map_or_else(String::new, |ratio| format!("÷ {}", name(&ratio.to)))
}

/// The ratios that say something: after a ramp each target's figures are of another load.
fn ratios(report: &Report) -> &[Ratio] {
    if report.rounds > 0 { &report.ratios } else { &[] }
}

/// A heading behind what it is of, or nothing where there is none.
fn titled(of: &str, against: &str) -> String {
    if against.is_empty() { String::new() } else { format!("{of}{against}") }
}

/// A ratio with its spread, marked where the rounds do not agree which side has more.
fn ratio(report: &Report, target: &str, measure: &str) -> String {
    let found = ratios(report).iter().find(|ratio| ratio.target == target && ratio.measure == measure);
    found.map_or_else(String::new, |ratio| {
        let mark = if ratio.min <= 1.0 && ratio.max >= 1.0 { "≈ " } else { "" };
        let [median, min, max] = [ratio.median, ratio.min, ratio.max].map(figure::factor);
        format!("{mark}{median} ({min}–{max})")
    })
}

/// How to read the ratios.
fn legend(report: &Report) -> Option<String> {
    (!ratios(report).is_empty()).then(|| {
        "Ratios: median over the rounds (least–greatest of a round); ≈ where rounds lie on both sides of 1.".to_owned()
    })
}

/// What the ramp found.
fn ramps(report: &Report) -> Option<String> {
    let slo = &report.ramps.first()?.slo;
    let mut table = grid(["ramp", "most streams", "least that did not hold"], &[0]);
    for ramp in &report.ramps {
        let told = |streams: Option<u64>| streams.map_or_else(|| NONE.to_owned(), figure::count);
        let failed = limit(ramp).map(|step| step.streams);
        table.add_row([name(&ramp.target), told(ramp.streams), told(failed)]);
    }
    let slo = wrapped(&format!("Service level: {}", slo.replace(',', ", ")), "");
    let steps = report.ramps.iter().map(steps).collect::<Vec<_>>();
    Some(format!("{slo}\n\n{}\n\n{}", table.trim_fmt(), steps.join("\n")))
}

/// The steps of a ramp, those that did not hold marked, and what was measured at the least of these.
fn steps(ramp: &Ramp) -> String {
    let steps = ends(ramp).map(|step| format!("{}{}", step.streams, if step.held { "" } else { "✗" }));
    let steps = steps.collect::<Vec<_>>().join(" ");
    let limit = limit(ramp).map(|step| format!("; at {}: {}", step.streams, step.measured.join(", ")));
    wrapped(&format!("{}: {steps}{}", name(&ramp.target), limit.unwrap_or_default()), "  ")
}

/// The least step that did not hold.
fn limit(ramp: &Ramp) -> Option<&RampStep> {
    ends(ramp).filter(|step| !step.held).min_by_key(|step| step.streams)
}

/// The last try of each step: one that does not hold is tried again.
fn ends(ramp: &Ramp) -> impl Iterator<Item = &RampStep> {
    ramp.steps.chunk_by(|one, next| one.streams == next.streams).filter_map(|tries| tries.last())
}

/// What streams did wrong, target by target.
fn complaints(report: &Report) -> Option<String> {
    let mut lines = Vec::new();
    for (name, target) in sides(report) {
        for (complaint, times) in &target.complaints {
            let complaint = complaint.chars().map(|char| if char.is_control() { ' ' } else { char });
            lines.push(format!("  {name}: {} × {}", figure::count(*times), complaint.collect::<String>()));
        }
    }
    (!lines.is_empty()).then(|| format!("Complaints\n{}", lines.join("\n")))
}

/// What the tool itself costs.
fn tool(report: &Report) -> String {
    let overhead = &report.overhead;
    let lag = overhead.start_lag.as_ref().map_or_else(String::new, |lag| {
        format!(
            "\nRequests left {} (p50), {} (p99) after their intended start",
            figure::time(lag.p50),
            figure::time(lag.p99)
        )
    });
    format!(
        "The tool itself: {} CPU a token, {:.0} ns to read a delta, {:.0} ns to read the clock{lag}",
        figure::time(overhead.cpu_per_token),
        overhead.parse_ns,
        overhead.clock_ns
    )
}

/// What speaks against the figures.
fn warnings(report: &Report) -> Option<String> {
    let lines = caveats(report).into_iter().map(|line| wrapped(&line, "! "));
    let lines = lines.collect::<Vec<_>>();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A sentence in lines of [`WIDTH`], the first behind `mark` and the others as far in.
fn wrapped(sentence: &str, mark: &str) -> String {
    let mut lines = vec![mark.to_owned()];
    for word in sentence.split_whitespace() {
        let width = lines.last().map_or(0, |line| line.chars().count());
        if width + word.chars().count() > WIDTH {
            lines.push(" ".repeat(mark.len()));
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
            line.push(' ');
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// An empty table with a head; the columns that are not in `texts` hold numbers.
fn grid<T: Into<String>>(heads: impl IntoIterator<Item = T>, texts: &[usize]) -> Table {
    let rule = LineStyle::none().fill('─').junction('─');
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(rule))
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heads.into_iter().map(Into::into));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        column.set_cell_alignment(if texts.contains(&index) {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{super::example, *};

    /// Writes what is expected anew where it is asked for, and says so by failing.
    #[test]
    fn the_table_is_as_it_was_approved() {
        let told = table(&example::report());
        if std::env::var_os("TOOLWIRE_APPROVE").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bench/report/example/table.txt"), &told)
                .unwrap();
        }
        assert_eq!(told, include_str!("example/table.txt"));
    }

    #[test]
    fn no_line_is_too_long_for_a_terminal() {
        let mut report = example::report();
        report.targets[1].name = "a-gateway-with-a-very-long-name".to_owned();
        report.targets[1].all.metrics.get_mut(&Metric::Slip).unwrap().p99 = 4_200.0;
        report.load = "ramp ".repeat(40);
        report.ramps[0]
            .steps
            .extend((0..30).map(|step| RampStep { streams: 9_000 + step, ..RampStep::default() }));
        for line in table(&report).lines() {
            assert!(line.chars().count() <= 120, "{} columns: {line}", line.chars().count());
        }
    }

    #[test]
    fn a_name_cannot_write_to_the_terminal() {
        let mut report = example::report();
        report.targets[0].name = "\u{1b}[31mred".to_owned();
        report.targets[0].complaints.insert("bad\u{1b}[2J".to_owned(), 1);
        report.command = "\u{7}".to_owned();
        let told = table(&report);
        assert!(told.contains("?[31mred"));
        assert!(!told.contains(['\u{1b}', '\u{7}']), "{told}");
    }

    #[test]
    fn of_a_step_that_was_tried_again_the_second_try_counts() {
        let step = |streams, held| RampStep { streams, held, measured: vec![format!("{streams} {held}")] };
        let steps = vec![step(8, false), step(8, true), step(16, false), step(16, false)];
        let ramp = Ramp { steps, ..Ramp::default() };
        assert_eq!(super::steps(&ramp), "  : 8 16✗; at 16: 16 false");
    }

    #[test]
    fn an_empty_report_is_told_too() {
        let report = Report {
            baseline: None,
            targets: Vec::new(),
            ratios: Vec::new(),
            ramps: Vec::new(),
            ..example::report()
        };
        assert!(table(&report).contains("latency"));
    }
}
