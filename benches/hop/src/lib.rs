//! A minimal relay: a hyper server and a hyper client with keep-alive connections, on one thread. The caller
//! decides how to transform the bodies of responses.

pub mod sockets;

use std::{convert::Infallible, env, net::SocketAddr};

use http_body_util::{BodyExt, Either, Empty, Full};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::{Body, Bytes, Incoming},
    header::{CONNECTION, HOST, TRANSFER_ENCODING},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::{TcpListener, TcpSocket};

/// When requests are forwarded.
#[derive(Clone, Copy)]
pub enum Requests {
    /// As they arrive.
    Streamed,
    /// Once they are complete and known to be valid JSON.
    Checked,
}

type RequestBody = Either<Incoming, Full<Bytes>>;

/// Relays from `--listen ADDR` to `--upstream ADDR`. `adapt` transforms the body of each response.
pub fn run<B>(requests: Requests, adapt: fn(Incoming) -> B) -> Result<(), Box<dyn std::error::Error>>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let (listen, upstream) = (option("--listen")?, option("--upstream")?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = bind(listen)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build::<_, RequestBody>(connector);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let client = client.clone();
            let service =
                service_fn(move |request| relay(client.clone(), upstream, (request, requests), adapt));
            #[expect(clippy::disallowed_methods, reason = "a bare relay has nothing but its connections")]
            tokio::spawn(async move {
                // Fails if the client disconnects, which is not reported.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
            });
        }
    })
}

async fn relay<B>(
    client: Client<HttpConnector, RequestBody>,
    upstream: SocketAddr,
    (request, requests): (Request<Incoming>, Requests),
    adapt: fn(Incoming) -> B,
) -> Result<Response<Either<B, Empty<Bytes>>>, Infallible>
where
    B: Body<Data = Bytes>,
{
    let refused = |status| {
        let mut refused = Response::new(Either::Right(Empty::new()));
        *refused.status_mut() = status;
        Ok(refused)
    };
    let (parts, body) = request.into_parts();
    let body = match requests {
        Requests::Streamed => Either::Left(body),
        Requests::Checked => match checked(body).await {
            Some(body) => Either::Right(body.into()),
            None => return refused(StatusCode::BAD_REQUEST),
        },
    };
    let mut request = Request::from_parts(parts, body);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = format!("http://{upstream}{path}").parse::<Uri>();
    let answer = match uri {
        Ok(uri) => {
            *request.uri_mut() = uri;
            request.headers_mut().remove(HOST);
            request.headers_mut().remove(CONNECTION);
            client.request(request).await.ok()
        }
        Err(_) => None,
    };
    let Some(mut answer) = answer else { return refused(StatusCode::BAD_GATEWAY) };
    answer.headers_mut().remove(CONNECTION);
    answer.headers_mut().remove(TRANSFER_ENCODING);
    Ok(answer.map(|body| Either::Left(adapt(body))))
}

/// Reads the complete body. Returns `None` if it is not JSON.
async fn checked(body: Incoming) -> Option<Bytes> {
    let body = body.collect().await.ok()?.to_bytes();
    serde_json::from_slice::<serde::de::IgnoredAny>(&body).ok()?;
    Some(body)
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

/// Returns the address that follows `name` on the command line.
pub fn option(name: &str) -> Result<SocketAddr, String> {
    let value = env::args().skip_while(|argument| argument != name).nth(1);
    value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("{name} ADDR is missing"))
}
