//! `toolwire replay`: plays fixtures and shows differences.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::json;

use super::{
    NO_FIXTURE,
    offered_values::splits,
    output::{failed, refused},
};
use toolwire_gateway::observe::{terminal::counted, untrusted_text::escaped};
use toolwire_lab::fixture::{
    BUDGET, Cutting, Fixture, Splits, cuts_in_two,
    load::{EXPECT, EXPECT_STREAM},
    replay::{Finding, check_all},
};

/// Options of `replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fixtures, or folders of fixtures
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Split the input into pieces of N bytes; with `every`, in every way; `recorded` and `whole` are other ways
    #[arg(long, alias = "splits", value_name = "N|every", default_value = "recorded")]
    #[arg(value_parser = splits(), hide_possible_values = true)]
    split: Splits,
    /// Write the actual output of each fixture that differs to its expect.json (and expect.sse)
    #[arg(long)]
    update: bool,
    /// Write JSON: one object per fixture
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> ExitCode {
    let fixtures = match Fixture::load_all(&args.paths) {
        Ok(fixtures) => fixtures,
        Err(error) => return refused(error, Some(NO_FIXTURE)),
    };
    match report(&args, &fixtures) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failed(error, None),
    }
}

/// Prints the result for each fixture, and returns how many fixtures differ.
fn report(args: &Args, fixtures: &[(PathBuf, Fixture)]) -> io::Result<usize> {
    let played: Vec<_> = fixtures.iter().map(|(_, fixture)| fixture).collect();
    let findings = check_all(&played, args.split);
    let mut out = io::stdout().lock();
    let mut differing = 0;
    for ((dir, fixture), finding) in fixtures.iter().zip(&findings) {
        differing += usize::from(finding.is_some());
        if args.json {
            writeln!(out, "{}", as_json(dir, finding.as_ref()))?;
        } else if let Some(finding) = finding {
            let (title, finding) = (escaped(&fixture.title), finding.to_string());
            writeln!(out, "{}  {title}", dir.display())?;
            finding.lines().try_for_each(|line| writeln!(out, "  {}", escaped(line)))?;
        }
        if args.update && (finding.is_some() || fixture.expect.is_none()) {
            update(dir, fixture)?;
            writeln!(io::stderr(), "{}: rewritten", dir.display())?;
        }
    }
    let is_large = |fixture: &&&Fixture| {
        let (made, all) = cuts_in_two(fixture.upstream_len(), BUDGET);
        made < all
    };
    let large = played.iter().filter(is_large).count();
    if args.split == Splits::Every && large > 0 {
        writeln!(
            io::stderr(),
            "fixtures too large for every two-way split, which are split at evenly spread places: {large}"
        )?;
    }
    if !args.json {
        let differ = if differing == 1 { "differs" } else { "differ" };
        writeln!(out, "{}, {differing} {differ}", counted(fixtures.len(), "fixture"))?;
    }
    Ok(differing)
}

fn as_json(dir: &Path, finding: Option<&Finding>) -> serde_json::Value {
    match finding {
        None => json!({ "fixture": dir.display().to_string(), "ok": true }),
        Some(finding) => json!({
            "fixture": dir.display().to_string(),
            "ok": false,
            "cut": finding.cutting.to_string(),
            "wrong": finding.wrong.to_string(),
        }),
    }
}

/// Makes the current output, with the input in one piece, the fixture's expected output.
fn update(dir: &Path, fixture: &Fixture) -> io::Result<()> {
    let played = fixture.play(Cutting::Whole).map_err(io::Error::other)?;
    let answer = fixture.assemble(&played).answer.into_expectation(fixture);
    let mut text = serde_json::to_vec_pretty(&answer)?;
    text.push(b'\n');
    fs::write(dir.join(EXPECT), text)?;
    if fixture.expect_stream.is_some() {
        fs::write(dir.join(EXPECT_STREAM), &played.bytes)?;
    }
    Ok(())
}
