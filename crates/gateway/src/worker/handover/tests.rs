use std::{pin::pin, time::Duration};

use http_body_util::BodyExt;
use hyper::body::Frame;
use proptest::{prelude::*, sample::Index};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::worker::{client_socket::ClientSocket, client_stream::ClientStream, rewind::Rewind};

enum Echo {
    Path(Option<Bytes>),
    /// Handed over: hyper receives neither data nor an end.
    NeverYields,
}

impl Body for Echo {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Path(path) => Poll::Ready(path.take().map(|path| Ok(Frame::data(path)))),
            Self::NeverYields => Poll::Pending,
        }
    }
}

/// Answers each request with its path. If the path starts with `/own`, the response is handed over.
async fn echo_paths(stream: TcpStream) {
    let socket = ClientSocket::new(stream, Duration::from_secs(60));
    let mut client = Rewind::new(ClientStream::Tcp(socket));
    loop {
        let handover = Handover::default();
        let to = handover.clone();
        let handler = move |request: Request<Incoming>| {
            let handover = to.clone();
            async move {
                handover.request_begins();
                let path = request.uri().path().to_owned();
                request.into_body().collect().await.unwrap();
                let response = if path.starts_with("/own") {
                    handover.hand_over(path).await;
                    Response::new(Echo::NeverYields)
                } else {
                    Response::new(Echo::Path(Some(path.into())))
                };
                Ok(response.map(|body| HandledBody::new(body, handover)))
            }
        };
        let never = pin!(std::future::pending());
        let (back, unread, served) = until_handover(client, handover, handler, never).await;
        let Served::HandedOver(path, encoder) = served else { return };
        client = back.put_back(&unread);
        let (parts, ()) = Response::new(()).into_parts();
        let mut out = encoder.head(&parts, std::time::SystemTime::now());
        let (first, second) = path.as_bytes().split_at(path.len() / 2);
        encoder.put_data(&mut out, first, false);
        encoder.put_data(&mut out, second, true);
        client.write_all(&out).await.unwrap();
        if !encoder.is_keep_alive() {
            return client.shutdown().await.unwrap();
        }
    }
}

/// Returns the bodies of the responses to `requests`, which arrive in pieces that end at `cuts`.
async fn responses(requests: &[u8], cuts: &[usize]) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    client.set_nodelay(true).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let exchange = async {
        for cut in cuts.windows(2) {
            client.write_all(&requests[cut[0]..cut[1]]).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        bodies(&read)
    };
    let (bodies, ()) = tokio::join!(exchange, echo_paths(stream));
    bodies
}

/// Parses responses with toolwire's own reader.
fn bodies(mut read: &[u8]) -> Vec<String> {
    let mut bodies = Vec::new();
    while !read.is_empty() {
        let mut heads = toolwire_http1::HeadReader::default();
        heads.push(read);
        let mut head = heads.next_head().unwrap().unwrap();
        let rest = heads.into_rest();
        let mut rest = rest.as_ref();
        let mut body = Vec::new();
        while let Some(data) = head.body.next(&mut rest).unwrap() {
            body.extend_from_slice(data);
        }
        assert!(head.body.is_over());
        read = &read[read.len() - rest.len()..];
        bodies.push(String::from_utf8(body).unwrap());
    }
    bodies
}

/// Creates a request whose body looks like another request.
fn request(path: &str, is_chunked: bool, is_last: bool) -> String {
    let connection = if is_last { "connection: close\r\n" } else { "" };
    let hidden = "GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n";
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\n{connection}");
    let length = hidden.len();
    if is_chunked {
        format!("{head}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{hidden}\r\n0\r\n\r\n")
    } else {
        format!("{head}content-length: {length}\r\n\r\n{hidden}")
    }
}

proptest! {
    #[test]
    fn connections_taken_over_lose_and_add_no_byte(
        kinds in prop::collection::vec(any::<(bool, bool)>(), 1..8),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let path = |(number, &(is_own, _)): (usize, &(bool, bool))| {
            format!("/{}/{number}", if is_own { "own" } else { "hyper" })
        };
        let paths: Vec<_> = kinds.iter().enumerate().map(path).collect();
        let last = kinds.len() - 1;
        let requests: String = kinds
            .iter()
            .enumerate()
            .map(|(number, &(_, is_chunked))| request(&paths[number], is_chunked, number == last))
            .collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(requests.len())).collect();
        cuts.extend([0, requests.len()]);
        cuts.sort_unstable();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        prop_assert_eq!(runtime.block_on(responses(requests.as_bytes(), &cuts)), paths);
    }
}

/// hyper may write the head in any number of pieces.
#[tokio::test]
async fn nothing_that_hyper_writes_after_a_handover_reaches_the_client() {
    let (mut near, mut far) = tokio::io::duplex(1024);
    let handover = Handover::default();
    {
        let mut lent = LentStream::new(&mut near, handover.clone());
        lent.write_all(b"before").await.unwrap();
        assert!(matches!(handover.next(), Next::Wait), "not flushed");
        lent.flush().await.unwrap();
        handover.0.lock().stage = Stage::HandedOver(());
        assert!(matches!(handover.next(), Next::Poll));
        assert!(matches!(handover.next(), Next::Wait), "no head yet");
        lent.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        lent.write_all(b"transfer-encoding: chunked\r\n\r\n").await.unwrap();
        let Next::TakeOver((), encoder) = handover.next() else { panic!("no head") };
        assert!(encoder.is_keep_alive());
    }
    drop(near);
    let mut seen = Vec::new();
    far.read_to_end(&mut seen).await.unwrap();
    assert_eq!(seen, b"before");
}

/// The missing headers are unknown, so nothing can be assumed about the connection.
#[tokio::test]
async fn an_incomplete_head_of_hyper_closes_the_connection() {
    let (near, _far) = tokio::io::duplex(1024);
    let handover = Handover::default();
    let mut lent = LentStream::new(near, handover.clone());
    handover.0.lock().stage = Stage::HandedOver(());
    assert!(matches!(handover.next(), Next::Poll));
    lent.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n").await.unwrap();
    let Next::TakeOver((), encoder) = handover.next() else { panic!("no head") };
    assert!(!encoder.is_keep_alive());
}
