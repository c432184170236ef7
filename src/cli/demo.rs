//! `toolwire demo`: runs a complete setup on one machine, without keys or a network.
//!
//! ```text
//! embedded fixture ─▶ Mock (at the recording's pace) ─▶ proxy ─▶ one streaming client
//!                                                 └─Tap─▶ Screen ◀─ deltas ─┘
//! ```
//!
//! Nothing in it is simulated: the client sends a real request to a real proxy, and reads the stream with a third-party
//! SSE parser.

mod screen;
mod tools;

use std::{
    error::Error,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::StreamExt;
use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::Instant,
};

use self::screen::{Moment, Screen, Side};
use super::{
    offered_values::pace,
    output::{Failed, failed},
};
use toolwire_admin as admin;
use toolwire_config as config;
use toolwire_config::{AdminSettings, Capture, Config, Overrides, Problems};
use toolwire_gateway::{
    tap::{Ending, Opening, Tap, Watch},
    terminated,
};
use toolwire_lab::fixture::{
    Fixture,
    load::{self, LoadError},
    mock::{Mock, Pace},
};

/// Options of `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Exit after one round: send one request
    #[arg(long)]
    once: bool,
    /// Play a model that searches the web: toolwire runs the search, with a scripted engine
    #[arg(long, alias = "tools")]
    hosted_tools: bool,
    /// Address to listen on
    #[arg(long, short, value_name = "ADDR", default_value = "127.0.0.1:8787")]
    listen: SocketAddr,
    /// Pace of the upstream: recorded, none (all at once), or a time between two pieces
    #[arg(long, value_name = "PACE", value_parser = pace(), default_value = "recorded", hide_possible_values = true)]
    pace: Pace,
}

/// How long open responses may continue after the demo has ended.
const END_LIMIT: Duration = Duration::from_secs(1);

/// The data of the last SSE event.
const DONE: &str = "[DONE]";

pub(super) fn run(args: Args) -> ExitCode {
    let shown = Runtime::new().map_err(Failed::from).and_then(|runtime| runtime.block_on(show(&args)));
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => failed(error, Some("`--listen 127.0.0.1:0` uses a free port")),
    }
}

/// Whether the output was closed by its reader (`… | head`), which is not a failure.
fn is_unread(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The fixture in `fixtures/demo`.
fn script() -> Result<Fixture, LoadError> {
    let manifest = include_bytes!("../../fixtures/demo/fixture.toml");
    let request = include_bytes!("../../fixtures/demo/request.json");
    let upstream = include_bytes!("../../fixtures/demo/upstream.sse");
    let times = include_bytes!("../../fixtures/demo/upstream.times");
    let mut fixture =
        Fixture::parse("demo", (Path::new(load::MANIFEST), manifest), (Path::new(load::REQUEST), request))?;
    fixture.upstream.pieces = load::parse_times(Path::new(load::TIMES), times, upstream.len())?;
    fixture.upstream.body = upstream.to_vec();
    Ok(fixture)
}

async fn show(args: &Args) -> Result<(), Failed> {
    let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let engine = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (fixture, mut config) = if args.hosted_tools {
        (tools::script()?, tools::configure(upstream.local_addr()?, engine.local_addr()?, args.listen)?)
    } else {
        (script()?, configure(upstream.local_addr()?, args.listen)?)
    };
    // Enables the console, which only this machine can reach.
    config.drain_timeout = END_LIMIT;
    config.admin = Some(Arc::new(AdminSettings { capture: Capture::Redacted, ..AdminSettings::default() }));
    let (moments, seen) = unbounded_channel();
    let started = Instant::now();
    let searches = tools::serve_engine(engine, moments.clone(), started);
    let tap = Arc::new(Window { moments: moments.clone(), started });
    let (server, _) = admin::bind(Arc::new(config), Some(tap), Vec::new())?;
    let proxy = server.addresses().first().copied().unwrap_or(args.listen);
    // The proxy ends after the story, so that it can still log the request.
    let (end, ended) = oneshot::channel::<()>();
    let story = async {
        let mut screen = Screen::new();
        screen.open(&fixture.title)?;
        let talk = converse(proxy, fixture.request.clone(), moments, started);
        tokio::try_join!(talk, draw(&mut screen, seen))?;
        screen.close()?;
        if !args.once {
            screen.invite(proxy, &fixture.request)?;
            terminated(1)?.await;
        }
        drop(end);
        Ok::<_, Failed>(())
    };
    let mock = Mock::new(vec![fixture.clone()], args.pace);
    let served = async { Ok::<_, Failed>(server.run(async { drop(ended.await) }).await?) };
    tokio::select! {
        ended = async { tokio::try_join!(story, served) } => ended.map(drop),
        ended = mock.serve(upstream) => Ok(ended?),
        ended = searches => Ok(ended?),
    }
}

/// Draws until the client's stream ends.
async fn draw(screen: &mut Screen, mut seen: UnboundedReceiver<Moment>) -> Result<(), Failed> {
    while let Some(moment) = seen.recv().await {
        screen.draw(&moment)?;
        if moment.side == Side::Client && moment.data == DONE {
            break;
        }
    }
    Ok(())
}

/// Creates a configuration whose only upstream is a Lumo server at `upstream`.
fn configure(upstream: SocketAddr, listen: SocketAddr) -> Result<Config, Failed> {
    let overrides = Overrides {
        listen: vec![listen.to_string()],
        upstream: Some(format!("http://{upstream}")),
        dialect: Some("lumo".to_owned()),
        ..Overrides::default()
    };
    let loaded = config::load(&overrides, &|_| None).map_err(|problems| told(&problems))?;
    Ok(loaded.config)
}

fn told(problems: &Problems) -> Failed {
    problems.0.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ").into()
}

/// Sends one request, and reports each event of the response as it arrives.
async fn converse(
    proxy: SocketAddr,
    request: Vec<u8>,
    moments: UnboundedSender<Moment>,
    started: Instant,
) -> Result<(), Failed> {
    let request = Request::post(format!("http://{proxy}/v1/chat/completions"))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(request)))?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let response = client.request(request).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("the proxy responded with {}", response.status()).into());
    }
    let mut events = response.into_body().into_data_stream().eventsource();
    while let Some(event) = events.next().await {
        let data = event?.data;
        let is_done = data == DONE;
        // If the receiver is gone, the demo is over.
        let _ = moments.send(Moment { at: started.elapsed(), side: Side::Client, data });
        if is_done {
            return Ok(());
        }
    }
    Err("the stream ended without [DONE]".into())
}

/// Reports each piece that arrives from the upstream.
#[derive(Debug)]
struct Window {
    moments: UnboundedSender<Moment>,
    started: Instant,
}

impl Tap for Window {
    fn begin(&self, _opening: &Opening<'_>) -> Option<Box<dyn Watch>> {
        Some(Box::new(Self { moments: self.moments.clone(), started: self.started }))
    }
}

impl Watch for Window {
    fn answered(&mut self, _status: StatusCode, _headers: &http::HeaderMap, _after: Duration) {}

    fn piece(&mut self, bytes: &[u8], _after: Duration) {
        let data = bytes.utf8_chunks().map(|chunk| chunk.valid()).collect();
        let _ = self.moments.send(Moment { at: self.started.elapsed(), side: Side::Upstream, data });
    }

    fn end(&mut self, _ending: Ending<'_>, _after: Duration) {}
}
