//! What the bench starts itself: a mock, a toolwire in front of it, and the baseline.

use super::{Args, Child, Failed, flags::MockFlags};
use crate::{
    bench::{Dialect, baseline, target::Target},
    dialect,
    fixture::{
        Fixture,
        generate::Script,
        mock::{Mock, Pace},
    },
};

/// A mock and a toolwire that were started for the run.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) targets: Vec<Target>,
    pub(super) pids: Vec<(String, u32)>,
    pub(super) children: Vec<Child>,
}

impl Own {
    /// Starts them: *direct* is the mock, *toolwire* the way through a toolwire. Fixtures of an upstream that does not
    /// speak the client's dialect have no direct way.
    pub(super) fn start(args: &Args, fixtures: &[Fixture]) -> Result<Self, Failed> {
        if args.dialect != Dialect::Chat {
            return Err(
                "without a --target it is a toolwire of our own that is measured: in dialect chat".into()
            );
        }
        let upstream = fixtures.first().map_or(dialect::Dialect::Chat, |fixture| fixture.from);
        if let Some(other) = fixtures.iter().find(|fixture| fixture.from != upstream) {
            let dialects = format!("{upstream} and {}", other.from);
            return Err(
                format!("one upstream speaks one dialect, and these fixtures {dialects}: choose").into()
            );
        }
        let mock = Child::start(mock_arguments(args))?;
        let dialect = upstream.to_string();
        // Its line for each request would be measured, too.
        let mut serve = vec!["serve", "--log-level", "warn", "--upstream"];
        let base = if upstream == dialect::Dialect::Chat { "/v1" } else { "" };
        let base = format!("{}{base}", mock.address);
        serve.extend([base.as_str(), "--dialect", dialect.as_str()]);
        serve.extend(args.serve.iter().map(String::as_str));
        let proxy = Child::start(serve)?;
        let mut own = Self::default();
        if upstream == dialect::Dialect::Chat {
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

/// The command line of the mock behind our own toolwire.
fn mock_arguments(args: &Args) -> Vec<String> {
    let paths = &args.prompts.replay;
    let pace = match args.mock.pace(!paths.is_empty()) {
        Pace::Recorded => "recorded".to_owned(),
        Pace::None => "none".to_owned(),
        Pace::Every(gap) => humantime::format_duration(gap).to_string(),
    };
    let mut arguments = vec!["mock".to_owned(), format!("--pace={pace}")];
    if paths.is_empty() {
        arguments.extend(["--generate".to_owned(), format!("--tokens={}", args.mock.answer_tokens)]);
    } else {
        arguments.extend(paths.iter().map(|path| path.display().to_string()));
    }
    arguments
}

/// A mock in our own process. It makes its answers up also where fixtures are replayed: an upstream's dialect may be one
/// that no client of ours reads.
pub(super) fn baseline(flags: &MockFlags) -> Result<Target, Failed> {
    let pace = match flags.pace(false) {
        Pace::Every(gap) => Some(gap),
        Pace::Recorded | Pace::None => None,
    };
    let script = Script { tokens: flags.answer_tokens, pace, ..Script::default() };
    let address = baseline::start(Mock::generated(script))?;
    Ok(format!("loopback=http://{address}/v1").parse()?)
}
