//! `toolwire serve`: runs the proxy.

use std::{
    error::Error,
    future,
    io::{self, IsTerminal},
    process::ExitCode,
    sync::Arc,
};

use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use super::{
    LogFormat, OTHER_ADDRESS, UpstreamFlags,
    announce::Announcement,
    block_on::block_on,
    check::doctor::line,
    open_files,
    output::{self, Failed},
    reloading,
    systemd::{self, Notifier},
};
use toolwire_admin as admin;
use toolwire_config::{Config, FileWatch};
use toolwire_gateway::{ServeError, doctor::examine, tap::Tap, terminated};
use toolwire_lab::bench::upstream_bench::UpstreamBench;

/// Options of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration.
    #[command(flatten)]
    pub upstream: UpstreamFlags,
}

pub(super) fn run(args: Args, log_format: LogFormat) -> ExitCode {
    let is_examined = args.upstream.url.is_some() || args.upstream.upstream.is_some();
    match args.upstream.load_or_say(log_format) {
        Ok(config) => until_terminated(config, None, is_examined, log_format),
        Err(status) => status,
    }
}

/// Serves until a termination signal arrives, and then waits for open responses to end; a second signal aborts them.
/// `tap` observes the exchanges. If `is_examined`, each upstream is asked for its models, and the result is said.
pub(super) fn until_terminated(
    config: Config,
    tap: Option<Arc<dyn Tap>>,
    is_examined: bool,
    log_format: LogFormat,
) -> ExitCode {
    open_files::allow_all();
    // This is the server's first thread, which starts the others.
    let served =
        block_on(Builder::new_current_thread(), serve(Arc::new(config), tap, is_examined, log_format));
    match served.map_err(Failed::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref(), log_format),
    }
}

async fn serve(
    config: Arc<Config>,
    tap: Option<Arc<dyn Tap>>,
    is_examined: bool,
    log_format: LogFormat,
) -> Result<(), Failed> {
    // Install the handlers before the announcement, since whoever reads it may send a signal immediately.
    let (once, twice, hangups) = (terminated(1)?, terminated(2)?, signal(SignalKind::hangup())?);
    let (systemd, sockets) = (Notifier::from_env(), systemd::sockets()?);
    let watch = FileWatch::new(&config).filter(|_| tap.is_none());
    let (server, admin) = admin::bind(Arc::clone(&config), tap, sockets)?;
    admin.offer_bench(Arc::new(UpstreamBench));
    // The code must not end up in a log that other people can read.
    let is_read_by_a_person = log_format == LogFormat::Text && io::stderr().is_terminal();
    let code = is_read_by_a_person.then(|| admin.sign_in_code()).flatten();
    let (addresses, hosted) = (server.addresses(), server.hosted_tools());
    Announcement { config: &config, addresses, hosted, code }.say(log_format);
    systemd.ready(1);
    let (begin, begun) = oneshot::channel();
    let stopped = async {
        once.await;
        // Notify systemd first: a server without open streams stops immediately.
        systemd.stopping();
        let _ = begin.send(());
    };
    let stopping = async {
        let _ = begun.await;
        systemd.extend().await;
    };
    let examined = async {
        if is_examined {
            say_health(&config, log_format).await;
        }
        future::pending::<()>().await;
    };
    let reloads = server.reloads();
    tokio::select! {
        served = server.run(stopped) => served?,
        () = reloading::run(&reloads, hangups, watch, &systemd) => {}
        () = systemd.watchdog() => {}
        () = stopping => {}
        () = examined => {}
        () = twice => tracing::warn!("second signal to stop: open responses are dropped"),
    }
    Ok(())
}

/// Says what the upstreams answer.
async fn say_health(config: &Config, log_format: LogFormat) {
    for diagnosis in examine(config).await {
        match (log_format, &diagnosis.verdict) {
            (LogFormat::Text, _) => eprint!("{}", line(&diagnosis)),
            (LogFormat::Json, Ok(health)) => {
                tracing::info!(upstream = diagnosis.upstream, %health, "upstream")
            }
            (LogFormat::Json, Err(fault)) => {
                tracing::warn!(upstream = diagnosis.upstream, part = %fault.part, reason = fault.message, "upstream");
            }
        }
    }
}

fn failed(error: &(dyn Error + 'static), log_format: LogFormat) -> ExitCode {
    let next = match error.downcast_ref() {
        Some(ServeError::Bind { .. }) => Some(OTHER_ADDRESS),
        _ => None,
    };
    match log_format {
        LogFormat::Text => output::failed(error, next),
        LogFormat::Json => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
