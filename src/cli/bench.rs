//! `toolwire bench`: measures the streams of the given targets. Without targets, it starts a mock and a toolwire in front
//! of the mock, and measures both.

mod children;
mod flags;
mod started_servers;

use std::{collections::BTreeSet, env, fs, io, path::Path, process::ExitCode, sync::Arc};

use http::{HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::rustls::ClientConfig;

pub(super) use self::flags::Args;
use self::{children::Child, started_servers::StartedServers};
use super::{
    output::{Failed, failed, in_file, refused, warn},
    report_flags::STDOUT,
    upstream_flags::{is_typed, resolved_secret},
};
use toolwire_gateway::{observe::terminal, terminated};
use toolwire_lab::{
    bench::{
        self, RunError,
        plan::{Contender, Plan},
        prompts::{Prompts, Terms},
        report::{self, Report},
        target::Target,
    },
    fixture::Fixture,
};
use toolwire_net::{
    causes::causes,
    tls::{self, UpstreamTls},
};
use toolwire_pipeline::dialect::ClientDialect;

pub(super) fn run(args: &Args) -> ExitCode {
    super::open_files::allow_all();
    warn_of_keys(args);
    let (plan, _children) = match plan(args) {
        Ok(plan) => plan,
        Err(error) => return refused(error, Some(DESCRIBED)),
    };
    let measured = runtime(args.load.threads.get())
        .and_then(|runtime| runtime.block_on(async { Ok(bench::run(&plan, terminated(1)?).await?) }));
    match measured.and_then(|report| show(args, &report)) {
        Ok(status) => status,
        Err(error) => match error.downcast_ref() {
            Some(RunError::Process(_)) => refused(error, Some(DESCRIBED)),
            _ => failed(error, None),
        },
    }
}

const DESCRIBED: &str = "`toolwire bench --help` describes the options, docs/bench.md the figures";

const IN_ENVIRONMENT: &str = "set the environment variable TOOLWIRE_BENCH_KEY instead";

const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// Warns about keys on the command line, which every user of the machine can read.
fn warn_of_keys(args: &Args) {
    let is_typed = args.api_key.as_ref().is_some_and(|key| is_typed(key, "TOOLWIRE_BENCH_KEY"));
    let is_key = |name: &HeaderName| KEY_HEADERS.iter().any(|key| name == key);
    if args.headers.iter().any(|(name, _)| is_key(name)) {
        warn(
            "--header: a key in the command line is visible in the list of processes (`ps`)",
            Some(IN_ENVIRONMENT),
        );
    }
    if is_typed {
        warn(
            "--api-key: a key in the command line is visible in the list of processes (`ps`)",
            Some(IN_ENVIRONMENT),
        );
    }
}

fn runtime(threads: usize) -> Result<Runtime, Failed> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    Ok(builder.worker_threads(threads).enable_all().build()?)
}

/// Builds the plan, and starts the servers that it needs.
fn plan(args: &Args) -> Result<(Plan, Vec<Child>), Failed> {
    let fixtures = Fixture::load_all(&args.prompts.replay)?.into_iter().map(|(_, fixture)| fixture);
    let fixtures: Vec<_> = fixtures.collect();
    let own = if args.targets.is_empty() {
        StartedServers::start(args, &fixtures)?
    } else {
        StartedServers::default()
    };
    let tls = args.ca.as_deref().map(trusting).transpose()?;
    let targets = args.targets.iter().cloned().chain(own.targets);
    let targets = targets.map(|target| Target { tls: tls.clone(), ..target }).collect();
    let pids: Vec<_> = args.pids.iter().cloned().chain(own.pids).collect();
    let headers = headers(args)?;
    let baseline = (!args.mock.no_baseline).then(|| started_servers::baseline(&args.mock)).transpose()?;
    let terms =
        Terms { dialect: args.client, model: args.model.clone(), max_tokens: args.prompts.max_tokens };
    let plan = Plan {
        dialect: args.client,
        model: terms.model().to_owned(),
        targets: contenders(targets, &pids, &headers)?,
        prompts: prompts(args, &terms, &fixtures)?,
        load: args.load.load(),
        length: args.load.length(),
        max_open: args.load.max_open,
        spread: args.load.spread,
        rounds: args.load.rounds.get(),
        warm_up: args.load.warm_up,
        timeout: args.load.timeout,
        gap: args.load.gap,
        ramp: args.ramp.ramp(),
        baseline: baseline.map(|target| contender(target, &[], &headers)),
        command: command(env::args().skip(1)),
        quiet: args.output.quiet,
        course: Arc::default(),
    };
    Ok((plan, own.children))
}

/// Creates a TLS configuration that trusts only the certificate authorities in the file `ca`.
fn trusting(ca: &Path) -> Result<ClientConfig, Failed> {
    let roots = tls::authorities(ca).map_err(|error| format!("--ca: {}", causes(&error)))?;
    Ok(UpstreamTls::new(Some((ca.to_owned(), Arc::new(roots))), None)?.config)
}

/// Adds each target's processes and headers.
fn contenders(
    targets: Vec<Target>,
    pids: &[(String, u32)],
    headers: &[(HeaderName, HeaderValue)],
) -> Result<Vec<Contender>, Failed> {
    let names: BTreeSet<_> = targets.iter().map(|target| target.name.as_str()).collect();
    if names.len() < targets.len() {
        return Err("two targets have the same name: give each its own with --target NAME=URL".into());
    }
    if let Some((stranger, _)) = pids.iter().find(|(name, _)| !names.contains(name.as_str())) {
        let known: Vec<_> = names.into_iter().collect();
        return Err(format!("--pid {stranger}: there is no such target; known: {}", known.join(", ")).into());
    }
    Ok(targets.into_iter().map(|target| contender(target, pids, headers)).collect())
}

fn contender(mut target: Target, pids: &[(String, u32)], headers: &[(HeaderName, HeaderValue)]) -> Contender {
    target.headers.extend_from_slice(headers);
    let pids = pids.iter().filter(|(name, _)| *name == target.name).map(|(_, pid)| *pid).collect();
    Contender { target: Arc::new(target), pids }
}

/// Returns the headers to send with every request: the API key, in the header that the dialect uses for it, and those
/// given on the command line.
fn headers(args: &Args) -> Result<Vec<(HeaderName, HeaderValue)>, Failed> {
    let key = args.api_key.as_ref().map(|key| resolved_secret(key.expose_secret())).transpose();
    let key = key.map_err(|error| format!("--api-key: {error}"))?;
    let mut headers = bench::headers(args.client, key.as_ref().map(ExposeSecret::expose_secret))
        .map_err(|_| "--api-key: contains characters that a header cannot have")?;
    headers.extend(args.headers.iter().cloned());
    Ok(headers)
}

fn prompts(args: &Args, terms: &Terms, fixtures: &[Fixture]) -> Result<Prompts, Failed> {
    let flags = &args.prompts;
    if !fixtures.is_empty() {
        if args.client != ClientDialect::Chat {
            return Err("requests of fixtures are chat requests: --replay requires --client chat".into());
        }
        return Ok(Prompts::of_fixtures(fixtures)?);
    }
    match &flags.prompts {
        Some(file) => {
            Prompts::read(file, terms).map_err(|error| format!("{}:{error}", file.display()).into())
        }
        None => Ok(Prompts::generated(terms, flags.prompt_tokens, flags.tool_count)),
    }
}

/// Formats the command line, without its secrets.
fn command(arguments: impl Iterator<Item = String>) -> String {
    const SECRET: [&str; 2] = ["--api-key", "--header"];
    let mut command = "toolwire".to_owned();
    let mut is_secret = false;
    for argument in arguments {
        let option = argument.split_once('=').map(|(option, _)| option);
        let shown = match option.filter(|option| SECRET.contains(option)) {
            Some(option) => format!("{option}=…"),
            None if is_secret => "…".to_owned(),
            None => argument.clone(),
        };
        is_secret = SECRET.contains(&argument.as_str());
        let is_plain = |letter: char| letter.is_alphanumeric() || "-_=./:,+@%…".contains(letter);
        command.push(' ');
        match !shown.is_empty() && shown.chars().all(is_plain) {
            true => command.push_str(&shown),
            false => command.push_str(&format!("'{}'", shown.replace('\'', r"'\''"))),
        }
    }
    command
}

/// Writes the results where the options say, and returns the exit status.
fn show(args: &Args, report: &Report) -> Result<ExitCode, Failed> {
    let output = &args.output;
    let mut printed = None;
    let mut put = |file: &Path, text: Vec<u8>| {
        if file == Path::new(STDOUT) {
            printed = Some(text);
            return Ok(());
        }
        fs::write(file, text).map_err(in_file(file))
    };
    if let Some(file) = &output.json {
        put(file, report::json(report).into_bytes())?;
    }
    if let Some(file) = &output.csv {
        put(file, report::csv(report)?)?;
    }
    if let Some(file) = &output.html {
        put(file, report::page(report).into_bytes())?;
    }
    let text = printed.unwrap_or_else(|| report::table(report, terminal::width(&io::stdout())).into_bytes());
    Ok(super::results(status(args, report), |out| out.write_all(&text)))
}

/// Fails if a target has completed no stream, or, with `--strict`, if any stream was incomplete or malformed.
fn status(args: &Args, report: &Report) -> ExitCode {
    let all = || report.targets.iter().map(|target| &target.all);
    // A ramp in which no step met the service level has no figures, but is a valid result.
    let dead = report.ramps.is_empty() && all().any(|summary| summary.good + summary.malformed == 0);
    let bad = args.output.strict && all().any(|summary| summary.good < summary.streams + summary.unsent);
    if dead || bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_shown_without_secrets() {
        let line = [
            "bench",
            "--api-key",
            "sk-1",
            "--header=x-key: sk-2",
            "--header",
            "a: sk-3",
            "--slo",
            "ttft_p99<1s",
            "it's",
        ];
        let told = command(line.into_iter().map(str::to_owned));
        assert_eq!(told, r"toolwire bench --api-key … --header=… --header … --slo 'ttft_p99<1s' 'it'\''s'");
    }

    #[test]
    fn processes_belong_to_targets_by_name() {
        let targets = || vec!["a=http://h:1/v1".parse().unwrap(), "b=http://h:2/v1".parse().unwrap()];
        let pids = [("b".to_owned(), 7), ("b".to_owned(), 8)];
        let contenders_of = |pids: &[_]| contenders(targets(), pids, &[]);
        let found = contenders_of(&pids).unwrap();
        assert_eq!(found.iter().map(|found| found.pids.len()).collect::<Vec<_>>(), [0, 2]);
        let error = contenders_of(&[("c".to_owned(), 7)]).unwrap_err().to_string();
        assert_eq!(error, "--pid c: there is no such target; known: a, b");
        let twice = vec!["a=http://h:1/v1".parse().unwrap(), "a=http://h:2/v1".parse().unwrap()];
        assert!(contenders(twice, &[], &[]).unwrap_err().to_string().contains("the same name"));
    }
}
