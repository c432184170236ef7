//! `toolwire top`: shows a running server's responses in progress and its statistics for the last minute.
//!
//! It reads `/admin/streams`. The event feed has the same information, but toolwire asks the feed's readers to approve tool
//! calls, which `top` cannot do.

mod screen;
mod snapshot;
mod source;
mod view;

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use self::{
    screen::Screen,
    snapshot::Snapshot,
    source::{Snapshots, Source, SourceError},
    view::{Act, Canvas, View},
};
use super::{
    admin_server::AdminServer,
    block_on::block_on,
    output::{failed, refused},
    results,
};
use toolwire_gateway::{observe::terminal, terminated};
use toolwire_net::untrusted_text::printable_json;

/// Delay before reconnecting.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of `top`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: AdminServer,
    /// Exit after one round: print the current responses (the default without a terminal)
    #[arg(long)]
    once: bool,
    /// Write JSON: what GET /admin/streams responds, a line a second
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The output is closed, or the runtime could not be created.
    #[error("cannot write to the terminal: {0}")]
    Output(#[from] io::Error),
}

pub(super) fn run(args: &Args) -> ExitCode {
    let source = match Source::new(&args.server) {
        Ok(source) => source,
        Err(why) => return refused(why, None),
    };
    // Does not wait for the thread that reads keys, which may still be blocked.
    let shown = block_on(Builder::new_current_thread(), show(args, &source)).map_err(TopError::Output);
    let server = &args.server.server;
    match shown.flatten() {
        Ok(code) => code,
        Err(TopError::Source(SourceError::Refused(why, next))) => {
            failed(format_args!("{server}: {why}"), Some(next))
        }
        Err(TopError::Source(SourceError::Lost(why))) => {
            failed(format_args!("{server}: {why}"), Some(source::NOT_ADMIN))
        }
        Err(error @ TopError::Output(_)) => failed(error, None),
    }
}

async fn show(args: &Args, source: &Source) -> Result<ExitCode, TopError> {
    let mut snapshots = source.open().await?;
    let first = snapshots.next().await?;
    if args.json {
        return write_json(first, &mut snapshots, args.once).await;
    }
    let first = read(&first)?;
    if args.once || !io::stdout().is_terminal() {
        let columns = terminal::width(&io::stdout()).unwrap_or(usize::MAX);
        let is_coloured = terminal::is_coloured(&io::stdout());
        let canvas = Canvas { columns, rows: usize::MAX, is_coloured };
        let lines = View::default().report(&args.server.server, &first, canvas);
        return Ok(results(ExitCode::SUCCESS, |out| {
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))
        }));
    }
    watch(args, source, snapshots, first).await?;
    Ok(ExitCode::SUCCESS)
}

fn read(json: &Value) -> Result<Snapshot, SourceError> {
    Snapshot::deserialize(json).map_err(|error| {
        let message = format!("the server's events do not have the expected form: {error}");
        SourceError::Refused(message.into(), source::NOT_ADMIN)
    })
}

/// Writes one line per snapshot, until the server disconnects, the output is closed, or a signal arrives.
async fn write_json(first: Value, snapshots: &mut Snapshots, once: bool) -> Result<ExitCode, TopError> {
    let mut ended = Box::pin(terminated(1)?);
    let mut next = first;
    loop {
        let mut is_taken = false;
        let code = results(ExitCode::SUCCESS, |out| {
            writeln!(out, "{}", printable_json(&next))?;
            out.flush()?;
            is_taken = true;
            Ok(())
        });
        if once || !is_taken {
            return Ok(code);
        }
        tokio::select! {
            snapshot = snapshots.next() => next = snapshot?,
            () = &mut ended => return Ok(code),
        }
    }
}

/// Shows the snapshots on the terminal until the user quits or a signal arrives. Reconnects if the connection is lost.
async fn watch(args: &Args, source: &Source, snapshots: Snapshots, first: Snapshot) -> Result<(), TopError> {
    let (mut ended, mut hangups) = (Box::pin(terminated(1)?), signal(SignalKind::hangup())?);
    let mut resized = signal(SignalKind::window_change())?;
    let screen = Screen::open()?;
    let mut keys = screen::keys();
    let is_coloured = terminal::is_coloured(&io::stdout());
    let (mut view, mut shown, mut lost) = (View::default(), first, None);
    let mut snapshots = Some(snapshots);
    loop {
        let (columns, rows) = screen.size();
        let canvas = Canvas { columns, rows, is_coloured };
        screen.draw(&view.screen(&args.server.server, &shown, lost.as_deref(), canvas))?;
        tokio::select! {
            next = advance(source, &mut snapshots) => match next {
                Ok(next) => (shown, lost) = (next, None),
                Err(SourceError::Lost(why)) => (snapshots, lost) = (None, Some(why.to_string())),
                Err(refused) => return Err(refused.into()),
            },
            Some(key) = keys.recv() => if view.press(key) == Act::Quit {
                return Ok(());
            },
            _ = resized.recv() => {}
            _ = hangups.recv() => return Ok(()),
            () = &mut ended => return Ok(()),
        }
    }
}

/// Reads the next snapshot, connecting first if necessary.
async fn advance(source: &Source, snapshots: &mut Option<Snapshots>) -> Result<Snapshot, SourceError> {
    let open = match snapshots {
        Some(open) => open,
        None => {
            sleep(PAUSE).await;
            snapshots.insert(source.open().await?)
        }
    };
    read(&open.next().await?)
}
