//! The HTTP server of the mocks.

use std::{convert::Infallible, error::Error, time::Duration};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body::Body;
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

/// Serves connections of `listener` until the future is dropped, which also ends open streams. Calls `answer` with each
/// request, and with whether its connection is to a loopback address.
pub(crate) async fn serve<A, F, B>(listener: TcpListener, builder: auto::Builder<TokioExecutor>, answer: A)
where
    A: Fn(Request<Incoming>, bool) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                connections.spawn(connection(socket, builder.clone(), answer.clone()));
            }
            // Most likely there are too many open files, which is temporary.
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                sleep(Duration::from_millis(10)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection<A, F, B>(socket: TcpStream, builder: auto::Builder<TokioExecutor>, answer: A)
where
    A: Fn(Request<Incoming>, bool) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    // Prevents Nagle's algorithm from joining and delaying small pieces.
    let _ = socket.set_nodelay(true);
    let is_loopback = socket.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let service = service_fn(move |request| {
        let answer = answer(request, is_loopback);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    // Errors are ignored: clients may disconnect at any time.
    let _ = builder.serve_connection(TokioIo::new(socket), service).await;
}

/// Creates a response. Skips invalid headers, and adds the default headers of an event stream where they are missing.
pub(crate) fn stream<'h, B>(
    status: u16,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    body: B,
) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let all = response.headers_mut();
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
            all.append(name, value);
        }
    }
    all.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("text/event-stream"));
    all.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    response
}

/// Creates a JSON response.
pub(crate) fn json(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
