//! `toolwire mcp`: offers the hosted tools to one MCP client, over stdin and stdout.

use std::{process::ExitCode, sync::Arc};

use tokio::{
    io::{stdin, stdout},
    runtime::Builder,
};

use super::{
    LogFormat, UpstreamFlags,
    block_on::block_on,
    output::{self, Failed, refused},
};
use toolwire_config::Config;
use toolwire_execution::{Asker, mcp_server::McpServer};
use toolwire_gateway::Server;

/// Options of `mcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_name = "ACTION")]
    action: Action,
    /// The configuration.
    #[command(flatten)]
    upstream: UpstreamFlags,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Offer the hosted tools to the MCP client that starts this program
    Serve,
}

pub(super) fn run(args: &Args, log_format: LogFormat) -> ExitCode {
    let Args { action: Action::Serve, upstream } = args;
    let mut config = match upstream.load_or_say(log_format) {
        Ok(config) => config,
        Err(status) => return status,
    };
    if config.execution.is_none() {
        let next = "`[execution]` and `[[providers]]` add them: docs/tools.md";
        return refused("the configuration has no hosted tools", Some(next));
    }
    // Nothing is served over HTTP.
    config.listen.clear();
    let served = block_on(Builder::new_current_thread(), serve(config));
    match served.map_err(Failed::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(error.as_ref(), None),
    }
}

async fn serve(config: Config) -> Result<(), Failed> {
    let server = Server::bind(Arc::new(config), None)?;
    let Some(execution) = server.execution() else { return Ok(()) };
    let asker = Asker {
        owner: Default::default(),
        client: None,
        payer: None,
        describer: None,
        model: "".into(),
        exchange: "mcp".into(),
    };
    let talked = McpServer::new(Arc::clone(&*execution), asker).talk(stdin(), stdout()).await;
    execution.stop();
    Ok(talked?)
}
