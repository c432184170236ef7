//! `toolwire mock`: serves fixtures as an upstream.

use std::{io, net::SocketAddr, path::PathBuf, process::ExitCode};

use tokio::{net::TcpListener, runtime::Runtime};

use crate::fixture::{
    Fixture,
    mock::{Mock, Pace},
};

/// Options of `mock`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Fixtures, or folders with fixtures below them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8788")]
    listen: SocketAddr,
    /// When pieces leave: recorded, none (all at once), or a time between two of them, such as 20ms
    #[arg(long, value_name = "PACE", default_value = "recorded")]
    pace: Pace,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let fixtures = match Fixture::load_all(&args.paths) {
        Ok(fixtures) => fixtures.into_iter().map(|(_, fixture)| fixture).collect::<Vec<_>>(),
        Err(error) => {
            eprintln!("{error}");
            return super::WRONG_INPUT.into();
        }
    };
    match serve(args.listen, fixtures, args.pace) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", args.listen);
            ExitCode::FAILURE
        }
    }
}

/// Serves until a signal comes.
fn serve(listen: SocketAddr, fixtures: Vec<Fixture>, pace: Pace) -> io::Result<()> {
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        eprintln!(
            "{} fixtures on http://{}/v1; a request chooses one by its model or by x-fixture",
            fixtures.len(),
            listener.local_addr()?
        );
        for fixture in &fixtures {
            eprintln!("  {:<32} {:<5} {}", fixture.name, fixture.from, fixture.title);
        }
        tokio::select! {
            ended = Mock::new(fixtures, pace).serve(listener) => ended,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })
}
