//! Compares toolwire's engine with the parsers of other servers: whether results are correct and independent of splits, how
//! fast each parser is, and how much it streams. Prints Markdown.
//!
//! ```text
//! --quick           fewer rounds, a shorter time limit, every fifth split
//! --format NAME     only this format
//! --sums, --times   only these measurements
//! --wrong           list wrong results
//! --json FILE       write all results as JSON
//! ```

mod behaviour;
mod client;
mod contenders;
mod render;
mod report;
mod results;
mod samples;
mod shapes;
mod speed;
mod tools;

use std::{process::ExitCode, time::Duration};

use report::Report;
use samples::Sample;
use speed::Effort;

struct Options {
    quick: bool,
    wrong: bool,
    sums: bool,
    times: bool,
    format: Option<String>,
    json: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { quick: false, wrong: false, sums: true, times: true, format: None, json: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--wrong" => options.wrong = true,
            "--sums" => options.times = false,
            "--times" => options.sums = false,
            "--format" => options.format = Some(arguments.next().ok_or("--format NAME")?),
            "--json" => options.json = Some(arguments.next().ok_or("--json FILE")?),
            other => return Err(format!("{other}: no such option")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let (tools, cases) = tools::published();
    let contenders = contenders::all(&tools);
    let cases: Vec<(String, Sample)> = cases
        .iter()
        .filter_map(|case| Some((ours(case["format"].as_str()?).to_owned(), samples::case(case)?)))
        .collect();
    let effort = if options.quick {
        Effort { rounds: 3, budget: Duration::from_millis(400), least: Duration::from_millis(1) }
    } else {
        Effort { rounds: 9, budget: Duration::from_secs(3), least: Duration::from_millis(4) }
    };
    let mut report = Report { budget: effort.budget, ..Report::default() };
    let mut seen = Vec::new();
    let wanted = |format: &str| options.format.as_deref().is_none_or(|only| only == format);
    for shape in shapes::ALL.iter().filter(|shape| wanted(shape.format)) {
        eprintln!("{}", shape.label);
        let first = !seen.contains(&shape.format);
        seen.push(shape.format);
        if options.sums && first {
            let step = if options.quick { 5 } else { 1 };
            report.behaviours.extend(results::behaviour(&contenders, shape.format, &cases, step));
        }
        if options.times {
            report.speeds.extend(results::speed(&contenders, shape, effort));
            if first {
                report.proses.extend(results::prose(&contenders, shape.format, effort));
            }
        }
    }
    print(options, &report, &contenders);
    let Some(file) = &options.json else { return Ok(()) };
    std::fs::write(file, format!("{:#}\n", report.json())).map_err(|failure| format!("{file}: {failure}"))
}

/// Returns toolwire's name for the format of a case.
fn ours(format: &str) -> &str {
    match format {
        "pre_json" => "pre",
        "md_json" => "fenced",
        "bare_json" => "bare",
        other => other,
    }
}

fn print(options: &Options, report: &Report, contenders: &results::Contenders) {
    let mut versions: Vec<_> = contenders.iter().map(|contender| contender.version()).collect();
    versions.dedup();
    println!("toolwire's engine against {}.\n", versions.get(1..).unwrap_or_default().join(", "));
    if options.times {
        println!("## One call of 200 KB, four bytes a piece\n\n{}", report.summary());
    }
    if options.sums {
        println!("## Sums\n\n{}", report.sums());
    }
    if options.times {
        println!(
            "## Times\n\n† markers given whole, as tokens: cut, the call is missed.\n\n{}",
            report.times()
        );
        println!("## Prose, 200 KB, four bytes a piece, tools declared\n\n{}", report.prose());
    }
    if options.wrong {
        println!("## Wrong, or not the same for every cut\n");
        for row in report.behaviours.iter().filter(|row| !row.wrong.is_empty()) {
            println!("- {}, {}: {}", row.format, row.contender, row.wrong.join("; "));
        }
    }
}
