//! A bare relay: a hyper server, a hyper client with kept-alive connections, one thread. The caller decides
//! how bodies are transformed.

use std::{convert::Infallible, env, net::SocketAddr};

use http_body_util::{Either, Empty};
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

/// Relays from `--listen ADDR` to `--upstream ADDR`; `adapt` transforms each response's body.
pub fn run<B>(adapt: fn(Incoming) -> B) -> Result<(), Box<dyn std::error::Error>>
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
        let client = Client::builder(TokioExecutor::new()).build::<_, Incoming>(connector);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let client = client.clone();
            let service = service_fn(move |request| relay(client.clone(), upstream, request, adapt));
            #[expect(clippy::disallowed_methods, reason = "a bare relay has nothing but its connections")]
            tokio::spawn(async move {
                // A client's disconnect is not reported.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
            });
        }
    })
}

async fn relay<B>(
    client: Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    mut request: Request<Incoming>,
    adapt: fn(Incoming) -> B,
) -> Result<Response<Either<B, Empty<Bytes>>>, Infallible>
where
    B: Body<Data = Bytes>,
{
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
    let Some(mut answer) = answer else {
        let mut refused = Response::new(Either::Right(Empty::new()));
        *refused.status_mut() = StatusCode::BAD_GATEWAY;
        return Ok(refused);
    };
    answer.headers_mut().remove(CONNECTION);
    answer.headers_mut().remove(TRANSFER_ENCODING);
    Ok(answer.map(|body| Either::Left(adapt(body))))
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

fn option(name: &str) -> Result<SocketAddr, String> {
    let value = env::args().skip_while(|argument| argument != name).nth(1);
    value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("{name} ADDR is missing"))
}
