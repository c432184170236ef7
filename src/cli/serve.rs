//! `toolwire serve`: runs the proxy.

use std::{error::Error, future::pending, process::ExitCode, sync::Arc};

use tokio::runtime::Runtime;

use super::{LogFormat, UpstreamFlags, announce::Announcement};
use crate::{
    config::Config,
    proxy::{ServeError, Server, tap::Tap, terminated},
};

/// Options of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What is served.
    #[command(flatten)]
    pub upstream: UpstreamFlags,
}

/// Runs the command.
pub fn run(args: Args, log_format: LogFormat) -> ExitCode {
    match args.upstream.load_or_say() {
        Ok(config) => until_terminated(config, None, log_format),
        Err(status) => status,
    }
}

/// Serves until a signal to stop and until what was open then is over; a second signal ends that at once. `tap`, if
/// there is one, watches the exchanges.
pub fn until_terminated(config: Config, tap: Option<Arc<dyn Tap>>, log_format: LogFormat) -> ExitCode {
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(serve(Arc::new(config), tap, log_format)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

async fn serve(
    config: Arc<Config>,
    tap: Option<Arc<dyn Tap>>,
    log_format: LogFormat,
) -> Result<(), ServeError> {
    let server = Server::bind(Arc::clone(&config), tap).await?;
    Announcement { config: &config, addresses: server.addresses() }.say(log_format);
    tokio::select! {
        () = server.run(signals(1)) => {}
        () = signals(2) => tracing::warn!("asked twice to stop: open answers are dropped"),
    }
    Ok(())
}

/// Waits for that many signals to stop; for ever if the system gives none.
async fn signals(count: usize) {
    if let Err(error) = terminated(count).await {
        tracing::error!(%error, "signals cannot be heard; only a kill stops the server");
        pending::<()>().await;
    }
}

fn failed(error: &dyn Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
