//! `toolwire calibrate`: finds the format in which a model calls tools most reliably.

mod flags;
mod subject;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use tokio::runtime::Builder;

pub(super) use self::flags::Args;
use self::{flags::PromptFlags, subject::Subject};
use super::{
    block_on::block_on,
    output::{Failed, FileError, failed, in_file, refused, warn},
    problems,
};
use toolwire_gateway::{terminated, with_known_servers};
use toolwire_lab::calibrate::{
    plan::{MAX_QUESTIONS, Plan},
    report,
    run::{self, Measured, RunError},
    set::{CaseSet, MAX_FILE},
    variant::Variant,
};
use toolwire_pipeline::wire::digest::Digest;

const DESCRIBED: &str =
    "`toolwire calibrate --help` describes the options, docs/calibrate.md the measures and the files";

pub(super) fn run(args: &Args) -> ExitCode {
    match block_on(Builder::new_current_thread(), calibrate(args)) {
        Ok(Ok(status) | Err(status)) => status,
        Err(error) => failed(error, None),
    }
}

/// Returns the exit status: as an error if calibration could not start.
async fn calibrate(args: &Args) -> Result<ExitCode, ExitCode> {
    let cases = cases(&args.prompts).map_err(|error| refused(error, Some(DESCRIBED)))?;
    let wordings = args.variants.wordings().map_err(|error| refused(error, Some(DESCRIBED)))?;
    let subject = Subject::find(&args.upstream, args.run.timeout).await?;
    let formats = subject.formats(&args.variants.formats).map_err(|error| refused(error, None))?;
    let variants = Variant::combinations(&formats, &wordings, &args.variants.enforce);
    let config = subject.with_variants(&variants).map_err(|problems| problems::refused(&problems))?;
    let config = Arc::new(with_known_servers(config).await);
    let measured = format!("{} {}", subject.url(), subject.upstream_name);
    let mut plan = Plan {
        config,
        variants,
        cases: cases.cases,
        runs: args.prompts.runs,
        sampling: args.prompts.sampling(),
        concurrency: args.run.concurrency.get(),
        timeout: args.run.timeout,
        cache: args.run.cache.clone().unwrap_or_else(|| default_cache(&measured)),
        quiet: args.output.quiet,
        measured,
    };
    let repeated = plan.drop_repeated();
    if !repeated.is_empty() {
        eprintln!("left out as duplicates of others: {}", repeated.join(", "));
    }
    if plan.size() > MAX_QUESTIONS {
        let message = format_args!("{} requests are too many: at most {MAX_QUESTIONS}", plan.size());
        return Err(refused(message, Some("fewer --runs, --format or --wordings")));
    }
    eprintln!("answers are kept in {}", plan.cache.display());
    let measured = measure(&plan).await.map_err(|error| failed(error, None))?;
    Ok(conclude(args, &subject, &plan, &measured))
}

async fn measure(plan: &Plan) -> Result<Measured, Failed> {
    let (stop, abort) = (terminated(1)?, terminated(2)?);
    run::run(plan, stop, abort).await.map_err(|error| match error {
        RunError::Cache(error) => in_file(&plan.cache)(error).into(),
        error => error.into(),
    })
}

/// Writes the report, and returns the exit status.
fn conclude(args: &Args, subject: &Subject, plan: &Plan, measured: &Measured) -> ExitCode {
    let entry =
        |place: usize| plan.variants.get(place).map(|variant| subject.entry(variant)).unwrap_or_default();
    let report = report::report(plan, measured, &subject.url(), &subject.upstream_name, entry);
    let resume = "the same command resumes where this one ended";
    if report.answers == 0 {
        let why = report.stopped.unwrap_or_else(|| "nothing was answered".to_owned());
        return failed(why, Some(resume));
    }
    let table = |width| report::table(&report, width);
    let shown = args.output.write(ExitCode::SUCCESS, || report.json(), || report::page(&report), table);
    let is_useless = measured.given_up.len() == plan.variants.len();
    match &report.stopped {
        Some(why) => {
            let left = report.questions.saturating_sub(report.answers);
            warn(format_args!("{why}; {left} of {} requests were not asked", report.questions), Some(resume));
            ExitCode::FAILURE
        }
        None if is_useless => {
            let message = measured.given_up.first().map_or("", |(_, message)| message);
            failed(format_args!("the upstream rejects every request: {message}"), None)
        }
        None => shown,
    }
}

/// Loads the prompts in the given files, or the built-in ones.
fn cases(flags: &PromptFlags) -> Result<CaseSet, Failed> {
    let Some(prompts) = &flags.prompts else { return Ok(CaseSet::built_in()?) };
    let text = read(prompts)?;
    let tools = flags.tools_file.as_ref().map(|tools| Ok::<_, Failed>((tools, read(tools)?))).transpose()?;
    let tools = tools.as_ref().map(|(path, text)| (path.as_path(), text.as_str()));
    Ok(CaseSet::read((prompts, &text), tools)?)
}

fn read(path: &Path) -> Result<String, FileError> {
    if fs::metadata(path).map_err(in_file(path))?.len() > MAX_FILE {
        return Err(in_file(path)(format!("longer than {} MiB", MAX_FILE >> 20)));
    }
    fs::read_to_string(path).map_err(in_file(path))
}

/// The default file for caching the answers of one model at one upstream, in the user's cache folder.
fn default_cache(measured: &str) -> PathBuf {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let name = format!("calibrate-{}.jsonl", Digest::of(measured));
    cache.map_or_else(|| PathBuf::from(&name), |cache| cache.join("toolwire").join(&name))
}
