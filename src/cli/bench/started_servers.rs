//! The servers that the bench starts itself: a mock, a toolwire in front of it, and the baseline.

use super::{super::output::Failed, Args, Child, flags::MockFlags};
use toolwire_lab::{
    bench::{baseline, target::Target},
    fixture::{
        Fixture,
        generate::Script,
        mock::{Mock, Pace},
    },
};
use toolwire_pipeline::dialect;

#[derive(Debug, Default)]
pub(super) struct StartedServers {
    pub(super) targets: Vec<Target>,
    pub(super) pids: Vec<(String, u32)>,
    pub(super) children: Vec<Child>,
}

impl StartedServers {
    /// Starts a mock, which becomes the target *direct*, and a proxy in front of it, the target *toolwire*. There is no
    /// direct target if the replayed fixtures are not in the clients' dialect.
    pub(super) fn start(args: &Args, fixtures: &[Fixture]) -> Result<Self, Failed> {
        let upstream = upstream(args, fixtures)?;
        let mock = Child::start(mock_arguments(args), "")?;
        // At the default level, the cost of logging would be measured too.
        let serve = ["serve", "--log-level=warn", "--config=/dev/stdin"].into_iter();
        let serve = serve.chain(args.serve.iter().map(String::as_str));
        let proxy = Child::start(serve, &configuration(upstream, &mock.address))?;
        let mut own = Self::default();
        if fixtures.is_empty() || upstream == dialect::Dialect::Chat {
            own.targets.push(format!("direct={}/v1", mock.address).parse()?);
        }
        own.targets.push(format!("toolwire={}/v1", proxy.address).parse()?);
        if cfg!(target_os = "linux") {
            own.pids.push(("toolwire".to_owned(), proxy.pid()));
        }
        own.children = vec![proxy, mock];
        Ok(own)
    }
}

/// The dialect that the mock serves.
fn upstream(args: &Args, fixtures: &[Fixture]) -> Result<dialect::Dialect, Failed> {
    let Some(first) = fixtures.first() else { return Ok(args.mock.upstream_dialect) };
    match fixtures.iter().find(|fixture| fixture.from.dialect() != first.from.dialect()) {
        None => Ok(first.from.dialect()),
        Some(other) => {
            let both = format!("{} and {}", first.from.dialect(), other.from.dialect());
            Err(format!("the fixtures have different dialects ({both}), but an upstream has one: choose")
                .into())
        }
    }
}

/// The proxy's configuration: the defaults, but with enough upstream slots for all streams.
fn configuration(dialect: dialect::Dialect, mock: &str) -> String {
    // Lumo's paths start at the root.
    let base = if dialect == dialect::Dialect::Chat { "/v1" } else { "" };
    format!(
        "[[upstreams]]\nname = \"mock\"\ndialect = \"{dialect}\"\nbase_url = \"{mock}{base}\"\n\
         max_concurrent = 1_000_000\n[[models]]\nname = \"*\"\n"
    )
}

fn mock_arguments(args: &Args) -> Vec<String> {
    let paths = &args.prompts.replay;
    let pace = match args.mock.pace(!paths.is_empty()) {
        Pace::Recorded => "recorded".to_owned(),
        Pace::None => "none".to_owned(),
        Pace::Every(gap) => humantime::format_duration(gap).to_string(),
    };
    let mut arguments = vec!["mock".to_owned(), format!("--pace={pace}")];
    if paths.is_empty() {
        let MockFlags { answer_tokens, answer, format, .. } = &args.mock;
        let made_up =
            ["--generate".to_owned(), format!("--tokens={answer_tokens}"), format!("--answer={answer}")];
        arguments.extend(made_up);
        arguments.extend(format.as_ref().map(|format| format!("--format={format}")));
    } else {
        arguments.extend(paths.iter().map(|path| path.display().to_string()));
    }
    arguments
}

/// Starts the baseline: a mock in this process. It always generates its responses, since the bench may be unable to read
/// the dialect of replayed fixtures.
pub(super) fn baseline(flags: &MockFlags) -> Result<Target, Failed> {
    let pace = match flags.pace(false) {
        Pace::Every(gap) => Some(gap),
        Pace::Recorded | Pace::None => None,
    };
    let script = Script { tokens: flags.answer_tokens, pace, ..Script::default() };
    let address = baseline::start(Mock::generated(script))?;
    Ok(format!("loopback=http://{address}/v1").parse()?)
}
