//! `toolwire conform`: checks a gateway by playing known upstream responses through it.

mod flags;

use std::{
    future::pending,
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::{Uri, uri::Scheme};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Builder,
};

pub(super) use self::flags::Args;
use super::{
    NO_FIXTURE,
    block_on::block_on,
    output::{Failed, failed, refused, results, warn},
    problems::say,
};
use toolwire_config as config;
use toolwire_config::Problems;
use toolwire_gateway::{Server, observe::terminal};
use toolwire_lab::{
    conform::{
        Api, Selection,
        case::Case,
        cases,
        client::Client,
        departures::Departures,
        gateway::{self, Models},
        mock::Mock,
        report::{Report, page::page, table::table},
        run::{self, Played},
    },
    fixture::{Fixture, LoadError},
};
use toolwire_pipeline::{
    dialect::{ClientDialect, Dialect, UpstreamDialect},
    format::Format,
};

/// The number of cases after which the mock must have been called.
const FIRST: usize = 8;

const DESCRIBED: &str = "`toolwire conform --help` describes the options, docs/conformance.md the cases";

pub(super) fn run(args: &Args) -> ExitCode {
    match block_on(Builder::new_multi_thread(), conform(args)) {
        Ok(Ok(status) | Err(status)) => status,
        Err(error) => failed(error, None),
    }
}

/// Returns the exit status: as an error if no case could be played.
async fn conform(args: &Args) -> Result<ExitCode, ExitCode> {
    let selection = selection(args).map_err(|error| refused(error, Some(DESCRIBED)))?;
    let mut cases = cases(&selection);
    if !args.cases.only.is_empty() {
        cases.retain(|case| args.cases.only.iter().any(|pattern| matches(pattern, &case.name)));
    }
    if cases.is_empty() {
        return Err(refused("no case is selected", Some("--list shows the names; * stands for any text")));
    }
    if args.cases.list {
        return Ok(results(ExitCode::SUCCESS, |out| {
            cases.iter().try_for_each(|case| writeln!(out, "{}", case.name))
        }));
    }
    let listener = TcpListener::bind(args.mock_listen()).await.map_err(|error| {
        let next = "--mock-listen ADDR selects another address";
        failed(format_args!("{}: {error}", args.mock_listen()), Some(next))
    })?;
    let address = listener.local_addr().map_err(|error| failed(error, None))?;
    let mock = Mock::new(&cases);
    let (departures, is_called) = (mock.departures(), mock.is_called());
    let upstream = MockUpstream { address, departures: &departures, is_called: &is_called };
    let played = async {
        match &args.gateway.target {
            Some(url) => with_gateway(args, url, &selection.apis, &upstream, &cases).await,
            None => with_own(args, &selection, &upstream, &cases).await,
        }
    };
    tokio::select! {
        played = played => Ok(conclude(args, &played?)),
        () = mock.serve(listener) => Err(ExitCode::FAILURE),
    }
}

/// The mock that the gateway has to call.
struct MockUpstream<'m> {
    address: SocketAddr,
    departures: &'m Departures,
    is_called: &'m AtomicBool,
}

impl MockUpstream<'_> {
    /// Warns if the gateway has not called the mock: then each case fails, for reasons that say nothing.
    fn warn_if_unused(&self) {
        if !self.is_called.load(Ordering::Relaxed) {
            let address = self.address;
            warn(
                format_args!("the mock at {address} got no request: is it the gateway's upstream?"),
                Some("docs/conformance.md says how to configure the gateway"),
            );
        }
    }
}

/// Plays the cases through the gateway at `url`.
async fn with_gateway(
    args: &Args,
    url: &Uri,
    apis: &[Api],
    upstream: &MockUpstream<'_>,
    cases: &[Arc<Case>],
) -> Result<Report, ExitCode> {
    let (host, port) = (url.host().unwrap_or_default(), url.port_u16().unwrap_or(80));
    if let Err(error) = TcpStream::connect((host.trim_matches(['[', ']']), port)).await {
        return Err(failed(format_args!("--target {url}: {error}"), Some("is the gateway running there?")));
    }
    let (models, mock) = (args.models(), upstream.address);
    eprintln!("the gateway has to call the mock:");
    for &api in apis {
        let named = cases.iter().find(|case| case.api == api && case.format.is_none());
        let model = named.or_else(|| cases.iter().find(|case| case.api == api));
        let model = model.map(|case| models.of(case)).unwrap_or_default();
        eprintln!("  {model}: {} at {}", api.name(), gateway::base_url(mock, api));
    }
    let report = play(args, url, &models, cases, upstream).await;
    upstream.warn_if_unused();
    Ok(report)
}

/// Plays the cases through a toolwire that is started for this run.
async fn with_own(
    args: &Args,
    selection: &Selection,
    upstream: &MockUpstream<'_>,
    cases: &[Arc<Case>],
) -> Result<Report, ExitCode> {
    let mock = upstream.address;
    let text = gateway::configuration(mock, &selection.apis, &selection.formats);
    let config = config::of_text(text).map_err(|Problems(problems)| {
        say(&problems);
        ExitCode::FAILURE
    })?;
    let server = Server::bind(Arc::new(config), None).map_err(|error| failed(error, None))?;
    let address = server.addresses().first().copied().unwrap_or(mock);
    let url = format!("http://{address}/v1").parse().map_err(|error| failed(error, None))?;
    let models = Models::default();
    tokio::select! {
        report = play(args, &url, &models, cases, upstream) => Ok(report),
        served = server.run(pending()) => {
            let why = served.map_or_else(|error| error.to_string(), |()| "the server has ended".to_owned());
            Err(failed(why, None))
        }
    }
}

async fn play(
    args: &Args,
    url: &Uri,
    models: &Models,
    cases: &[Arc<Case>],
    upstream: &MockUpstream<'_>,
) -> Report {
    let clients = clients(args);
    let client =
        Client::new(url, args.gateway.api_key.clone(), args.gateway.headers.clone(), args.run.timeout);
    let total = cases.len() * clients.len();
    if !args.output.quiet {
        eprintln!(
            "{} with clients of {}",
            terminal::counted(cases.len(), "case"),
            names(&clients).join(", ")
        );
    }
    let mut done = 0;
    let (concurrency, is_strict) = (args.run.concurrency.get(), args.cases.strict);
    let played = Played { cases, clients: &clients, models, departures: upstream.departures, is_strict };
    let verdicts = run::run(&client, &played, concurrency, |_| {
        done += 1;
        if done == FIRST && done < total {
            upstream.warn_if_unused();
        }
        if !args.output.quiet && done % 1000 == 0 {
            eprintln!("{done} of {total}");
        }
    });
    let verdicts = verdicts.await;
    let gateway = match &args.gateway.target {
        Some(url) => url.to_string(),
        None => format!("toolwire {}", env!("CARGO_PKG_VERSION")),
    };
    Report::new(&gateway, args.cases.seed, &names(&clients), &verdicts, &args.repeated())
}

/// Writes the report, and returns the exit status.
fn conclude(args: &Args, report: &Report) -> ExitCode {
    let status = if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let table = |width| table(report, width) + "\n";
    args.output.write(status, || report.json(), || page(report), table)
}

/// The client dialects to test. By default, a given gateway is tested with Chat Completions, which every gateway serves,
/// and toolwire with all its dialects.
fn clients(args: &Args) -> Vec<ClientDialect> {
    match (&args.cases.client[..], &args.gateway.target) {
        ([], None) => ClientDialect::all().collect(),
        ([], Some(_)) => vec![ClientDialect::Chat],
        (clients, _) => clients.to_vec(),
    }
}

fn names(clients: &[ClientDialect]) -> Vec<String> {
    clients.iter().map(|client| client.dialect().name().to_owned()).collect()
}

fn selection(args: &Args) -> Result<Selection, Failed> {
    let apis = match (&args.cases.upstream_dialect[..], &args.gateway.target) {
        ([], None) => Api::ALL.into_iter().filter(|api| is_called(*api)).collect(),
        ([], Some(_)) => vec![Api::Chat],
        (apis, _) => apis.to_vec(),
    };
    let fixtures = Fixture::load_all(&args.cases.fixtures);
    let fixtures = fixtures.map_err(|error: LoadError| format!("{error}; {NO_FIXTURE}"))?;
    Ok(Selection {
        apis,
        formats: formats(args)?,
        fixtures: fixtures.into_iter().map(|(_, fixture)| fixture).collect(),
        cuts: args.cases.cuts.0,
        seed: args.cases.seed,
    })
}

/// Whether an address is all that toolwire needs to call an upstream of this dialect.
fn is_called(api: Api) -> bool {
    let dialect = api.name().parse::<Dialect>();
    let upstream = dialect.and_then(UpstreamDialect::try_from);
    upstream.is_ok_and(|upstream| !upstream.side().takes_prompt())
}

/// The text formats to test.
fn formats(args: &Args) -> Result<Vec<&'static Format>, Failed> {
    let taught = || toolwire_pipeline::format::ALL.iter().copied().filter(|format| format.teach.is_some());
    match args.cases.formats.as_deref() {
        None if args.gateway.target.is_some() => Ok(Vec::new()),
        None => Ok(taught().collect()),
        Some(names) => {
            let mut formats = Vec::new();
            for name in names {
                match name.as_str() {
                    "none" => {}
                    "all" => formats.extend(taught()),
                    name => formats.push(taught().find(|format| format.name == name).ok_or_else(|| {
                        let known: Vec<_> = taught().map(|format| format.name).collect();
                        let nearest =
                            toolwire_pipeline::wire::suggest::suggest(name, &known, Some("toolwire formats"));
                        format!("--format: there are no cases of the format `{name}`; {nearest}")
                    })?),
                }
            }
            Ok(formats)
        }
    }
}

/// Whether `name` matches `pattern`, in which `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.filter_map(|at| rest.get(at..)).any(|rest| matches(tail, rest))
}

/// Parses the URL of the gateway to test, which must be `http`.
pub(super) fn target_url(text: &str) -> Result<Uri, Failed> {
    let wrong = |why: &str| format!("{why}; write it as http://127.0.0.1:8787/v1");
    let uri: Uri = text.parse().map_err(|error| wrong(&format!("it is not a URL ({error})")))?;
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Ok(uri),
        _ => Err(wrong("it does not begin with http://").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_text() {
        for pattern in ["*", "a/b@cut=1", "a/*", "*cut*", "a*b*1", "a/b@cut=1*"] {
            assert!(matches(pattern, "a/b@cut=1"), "{pattern}");
        }
        for pattern in ["", "a/b", "b*", "*2", "a*c*b"] {
            assert!(!matches(pattern, "a/b@cut=1"), "{pattern}");
        }
    }
}
