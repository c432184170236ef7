//! `toolwire mock`: plays an upstream that serves fixtures or generated responses.

use std::{io, net::SocketAddr, num::NonZeroUsize, path::PathBuf, process::ExitCode, thread};

use tokio::{
    net::{TcpListener, TcpSocket},
    runtime::{Builder, Runtime},
};

use super::{
    NO_FIXTURE, OTHER_ADDRESS,
    offered_values::{answer, mock_dialect, offering, pace, taught},
    output::{Failed, failed, refused},
};
use toolwire_config as config;
use toolwire_gateway::{observe::terminal::counted, terminated};
use toolwire_lab::{
    fixture::{
        Fixture,
        generate::{Kind, Script},
        mock::{Mock, Pace, timeline::BURST},
        postmark::Postmark,
    },
    upstream::Api,
};
use toolwire_pipeline::format::{self, Format};

/// Options of `mock`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fixtures, or folders of fixtures
    #[arg(required_unless_present = "generate", conflicts_with = "generate", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Address to listen on
    #[arg(long, short, value_name = "ADDR", default_value = "127.0.0.1:8788")]
    listen: SocketAddr,
    /// Pace of the upstream: recorded, none (all at once), or a time between two pieces, such as 20ms
    /// [default: recorded; with --generate 10ms]
    #[arg(long, value_name = "PACE", value_parser = pace(), hide_possible_values = true)]
    pace: Option<Pace>,
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    generate: Generate,
}

/// Options of generated responses.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Generated responses")]
struct Generate {
    /// Generate responses with timestamps for `toolwire bench`; the headers x-mock-tokens and x-mock-pace
    /// override length and pace
    #[arg(long)]
    generate: bool,
    /// Dialect of the upstream [default: by the request's path]
    #[arg(long, value_name = "DIALECT", requires = "generate", value_parser = mock_dialect())]
    dialect: Option<Api>,
    /// Content of the upstream's responses: text, a call, or text and then a call
    #[arg(long, value_name = "KIND", requires = "generate", value_parser = answer(), default_value = "text")]
    answer: Kind,
    /// Text format of calls [default: native calls]
    #[arg(long, value_name = "FORMAT", requires = "generate")]
    #[arg(value_parser = offering(taught(), format_named), hide_possible_values = true)]
    format: Option<&'static Format>,
    /// Tool to call; if it is not declared, the first declared tool
    #[arg(long, value_name = "NAME", requires = "generate", default_value = "write_file")]
    tool: String,
    /// Tokens in a response
    #[arg(long, value_name = "N", requires = "generate", default_value_t = 100)]
    tokens: usize,
    /// Bytes of text per token, 27 of them its timestamp
    #[arg(long, value_name = "N", requires = "generate", default_value_t = 32, value_parser = token_bytes)]
    token_bytes: usize,
    /// Frames per write with --pace none
    #[arg(long, value_name = "N", requires = "generate", default_value_t = BURST)]
    burst: NonZeroUsize,
}

fn format_named(name: &str) -> Result<&'static Format, Failed> {
    let taught = || format::all_and(&[]).filter(|format| format.teach.is_some());
    let found = taught().find(|format| format.name == name).ok_or_else(|| match format::by_name(name) {
        Some(_) => format!("the format `{name}` can be read, but not written"),
        None => config::unknown_format(name, taught()),
    });
    Ok(found?)
}

fn token_bytes(text: &str) -> Result<usize, Failed> {
    match text.parse() {
        Ok(bytes) if bytes >= Postmark::LEN => Ok(bytes),
        _ => Err(format!("a token has at least {} bytes", Postmark::LEN).into()),
    }
}

impl Generate {
    fn script(self, pace: Option<Pace>) -> Script {
        let script = Script {
            dialect: self.dialect,
            answer: self.answer,
            format: self.format,
            tool: self.tool,
            tokens: self.tokens,
            token_bytes: self.token_bytes,
            burst: self.burst,
            ..Script::default()
        };
        match pace {
            Some(Pace::Every(gap)) => Script { pace: Some(gap), ..script },
            Some(Pace::None) => Script { pace: None, ..script },
            Some(Pace::Recorded) | None => script,
        }
    }
}

pub(super) fn run(args: Args) -> ExitCode {
    super::open_files::allow_all();
    let (mock, about) = if args.generate.generate {
        let script = args.generate.script(args.pace);
        let pace = script
            .pace
            .map_or("at once".to_owned(), |pace| format!("every {}", humantime::format_duration(pace)));
        let about = vec![format!("responses of {}, {pace}", counted(script.tokens, "token"))];
        (Mock::generated(script), about)
    } else {
        let fixtures: Vec<_> = match Fixture::load_all(&args.paths) {
            Ok(fixtures) => fixtures.into_iter().map(|(_, fixture)| fixture).collect(),
            Err(error) => return refused(error, Some(NO_FIXTURE)),
        };
        let about = about(&fixtures);
        (Mock::new(fixtures, args.pace.unwrap_or(Pace::Recorded)), about)
    };
    match serve(args.listen, args.threads, &mock, &about) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format_args!("cannot listen on {}: {error}", args.listen), Some(OTHER_ADDRESS)),
    }
}

/// Describes each fixture on one line.
fn about(fixtures: &[Fixture]) -> Vec<String> {
    let count = counted(fixtures.len(), "fixture");
    let count = format!("{count}; a request selects one by its model or by the header x-fixture");
    let line =
        |fixture: &Fixture| format!("  {:<32} {:<5} {}", fixture.name, fixture.from.dialect(), fixture.title);
    std::iter::once(count).chain(fixtures.iter().map(line)).collect()
}

/// Serves until a signal arrives, and then reports how late the pieces were sent.
fn serve(listen: SocketAddr, threads: usize, mock: &Mock, about: &[String]) -> io::Result<()> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let listener = bind(listen, threads > 1)?;
        let address = listener.local_addr()?;
        eprintln!("listening on http://{address}/v1");
        about.iter().for_each(|line| eprintln!("{line}"));
        let ended = terminated(1)?;
        for _ in 1..threads {
            beside(address, mock.clone())?;
        }
        tokio::select! {
            ended = mock.clone().serve(listener) => ended?,
            () = ended => {}
        }
        eprintln!("{}", mock.lateness());
        Ok(())
    })
}

/// Starts another thread that serves the same address until the process exits.
fn beside(address: SocketAddr, mock: Mock) -> io::Result<()> {
    let runtime = runtime()?;
    let listener = {
        let _inside = runtime.enter();
        bind(address, true)?
    };
    thread::Builder::new().name("mock".to_owned()).spawn(move || runtime.block_on(mock.serve(listener)))?;
    Ok(())
}

/// Creates a single-threaded runtime: each thread has one, so that a stream's timer and socket wake the same thread.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    socket.bind(address)?;
    // Many streams may start at the same moment.
    socket.listen(4096)
}
