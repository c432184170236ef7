//! `toolwire demo --hosted-tools`: toolwire runs a web search for the model, using a scripted search engine.
//!
//! The model has no native tool calls, so it writes its call as text. toolwire finds the call, queries the engine, and sends
//! the results to the model. The client receives a single response.

use std::{convert::Infallible, io, net::SocketAddr, path::Path};

use bytes::Bytes;
use http::{Request, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpListener, sync::mpsc::UnboundedSender, task::JoinSet, time::Instant};

use super::{
    super::output::Failed,
    screen::{Moment, Side},
};
use toolwire_config as config;
use toolwire_config::Config;
use toolwire_lab::fixture::{
    Fixture,
    load::{self, LoadError},
};

const FOUND: &str = include_str!("tools/search.json");

/// The fixture with the model's two responses.
pub(super) fn script() -> Result<Fixture, LoadError> {
    let manifest = include_bytes!("tools/fixture.toml");
    let request = include_bytes!("tools/request.json");
    let bodies: [(&[u8], &[u8]); 2] = [
        (include_bytes!("tools/upstream.sse"), include_bytes!("tools/upstream.times")),
        (include_bytes!("tools/upstream-2.sse"), include_bytes!("tools/upstream-2.times")),
    ];
    let mut fixture =
        Fixture::parse("demo", (Path::new(load::MANIFEST), manifest), (Path::new(load::REQUEST), request))?;
    let hops = fixture.hops.iter_mut().map(|hop| &mut hop.upstream);
    for (response, (body, times)) in std::iter::once(&mut fixture.upstream).chain(hops).zip(bodies) {
        response.pieces = load::parse_times(Path::new(load::TIMES), times, body.len())?;
        response.body = body.to_vec();
    }
    Ok(fixture)
}

/// Creates a configuration with the model at `upstream` and a search provider at `engine`.
pub(super) fn configure(
    upstream: SocketAddr,
    engine: SocketAddr,
    listen: SocketAddr,
) -> Result<Config, Failed> {
    let places = [("LISTEN", listen), ("UPSTREAM", upstream), ("ENGINE", engine)];
    let text = places.iter().fold(include_str!("tools/config.toml").to_owned(), |text, (name, address)| {
        text.replace(name, &address.to_string())
    });
    config::of_text(text).map_err(|problems| super::told(&problems))
}

/// Serves the same results for every search, and reports each query to the screen.
pub(super) async fn serve_engine(
    listener: TcpListener,
    moments: UnboundedSender<Moment>,
    started: Instant,
) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let moments = moments.clone();
        let service = service_fn(move |request| searched(request, moments.clone(), started));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn searched(
    request: Request<Incoming>,
    moments: UnboundedSender<Moment>,
    started: Instant,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let query = asked.get("q").and_then(Value::as_str).unwrap_or_default();
    for data in [format!("toolwire searches: {query}"), "the search engine answers".to_owned()] {
        // If the receiver is gone, the demo is over.
        let _ = moments.send(Moment { at: started.elapsed(), side: Side::Upstream, data });
    }
    let mut response = Response::new(Full::new(Bytes::from_static(FOUND.as_bytes())));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(response)
}
