//! Checks HTTP/1.1 responses: splits do not change the result, a truncated response is never read as complete, and
//! hyper's client agrees except for the differences listed in docs/protocols/http1.md.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    runtime::Builder,
    sync::oneshot,
    time::timeout,
};
use toolwire_http1::{BodyError, HeadError, HeadReader, ResponseEncoder};

use super::input::{Input, cut};

/// Longer inputs are not truncated at every byte.
const SHORT: usize = 200;

/// The first byte is a choice; a response, or the body of a response to write, follows.
pub(crate) fn http1(data: &[u8]) {
    let mut input = Input::new(data);
    let seed = input.byte();
    let bytes = input.bytes();
    let ours = read(&[bytes]);
    for pieces in [bytes.chunks(1).collect(), cut(bytes, seed)] {
        assert_eq!(read(&pieces), ours, "{pieces:?}");
    }
    if bytes.len() <= SHORT {
        (0..bytes.len()).for_each(|length| check_truncated(&bytes[..length], &ours));
    }
    compare(&ours, &read_with_hyper(bytes), bytes.len());
    for head in HYPER_HEADS {
        check_written(head, &cut(bytes, seed));
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Read<H, E> {
    /// `Ok(None)` if the head is incomplete.
    head: Result<Option<Head>, H>,
    data: Vec<u8>,
    end: Result<After, E>,
}

#[derive(Debug, Clone, PartialEq)]
struct Head {
    status: StatusCode,
    version: Version,
    headers: HeaderMap,
}

/// The state of the connection after a complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    KeepAlive,
    /// The connection cannot be reused: the response says so, or more bytes follow it.
    Close,
    /// The response ended when the connection was closed.
    Closed,
}

/// Reads with toolwire's decoder. The connection is closed after the last piece.
fn read(pieces: &[&[u8]]) -> Read<HeadError, BodyError> {
    let mut heads = HeadReader::default();
    let mut pieces = pieces.iter();
    let head = loop {
        let Some(piece) = pieces.next() else { return incomplete(Ok(None)) };
        heads.push(piece);
        match heads.next_head() {
            Ok(None) => {}
            Ok(Some(head)) => break head,
            Err(error) => return incomplete(Err(error)),
        }
    };
    let (parts, mut decoder) = (head.parts, head.body);
    let mut data = Vec::new();
    let mut left_over = 0;
    let rest = heads.into_rest();
    for mut piece in std::iter::once(&rest[..]).chain(pieces.copied()) {
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(found)) => data.extend_from_slice(found),
                Ok(None) => break,
                Err(error) => return Read { head: Ok(Some(parts.into())), data, end: Err(error) },
            }
        }
        left_over += piece.len();
    }
    let after = match decoder.is_over() {
        false => After::Closed,
        true if head.keep_alive && left_over == 0 => After::KeepAlive,
        true => After::Close,
    };
    Read { head: Ok(Some(parts.into())), data, end: decoder.close().map(|()| after) }
}

fn incomplete(head: Result<Option<Head>, HeadError>) -> Read<HeadError, BodyError> {
    Read { head, data: Vec::new(), end: Err(BodyError::Incomplete) }
}

impl From<http::response::Parts> for Head {
    fn from(parts: http::response::Parts) -> Self {
        Self { status: parts.status, version: parts.version, headers: parts.headers }
    }
}

/// Checks that a truncated response is not read as complete, unless its head and data are complete.
fn check_truncated(beginning: &[u8], whole: &Read<HeadError, BodyError>) {
    let read = read(&[beginning]);
    match read.end {
        Ok(After::KeepAlive | After::Close) => {
            assert_eq!(
                (&read.head, &read.data),
                (&whole.head, &whole.data),
                "{:?}",
                beginning.escape_ascii()
            );
            assert!(whole.end.is_ok());
        }
        Ok(After::Closed) => assert!(whole.data.starts_with(&read.data)),
        Err(_) => {}
    }
}

/// Reads with hyper's client. The connection is closed once hyper has read everything and waits for more.
#[allow(clippy::disallowed_methods, reason = "both tasks end with the runtime, which is made here")]
fn read_with_hyper(bytes: &[u8]) -> Read<(), ()> {
    let bytes = bytes.to_vec();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        // Takes no real time: the clock is paused and advances only when every task is idle.
        const IDLE: Duration = Duration::from_secs(1);
        let (client, mut server) = duplex(1 << 20);
        let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
        let driver = tokio::spawn(connection);
        let (close, closed) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            let mut request = [0; 512];
            let _ = server.read(&mut request).await;
            let _ = server.write_all(&bytes).await;
            let _ = closed.await;
        });
        let mut read = Read { head: Ok(None), data: Vec::new(), end: Err(()) };
        let mut exchange = Box::pin(exchange(&mut sender, &mut read));
        let (is_complete, is_closed) = match timeout(IDLE, &mut exchange).await {
            Ok(is_complete) => (is_complete, false),
            Err(_) => {
                let _ = close.send(());
                (exchange.as_mut().await, true)
            }
        };
        drop(exchange);
        let is_kept = async { timeout(IDLE, sender.ready()).await.is_ok_and(|ready| ready.is_ok()) };
        read.end = match (is_complete, is_closed) {
            (false, _) => Err(()),
            (true, true) => Ok(After::Closed),
            (true, false) if is_kept.await => Ok(After::KeepAlive),
            (true, false) => Ok(After::Close),
        };
        serving.abort();
        driver.abort();
        read
    })
}

async fn exchange(sender: &mut http1::SendRequest<Empty<Bytes>>, read: &mut Read<(), ()>) -> bool {
    let request = Request::post("/").header("host", "x").body(Empty::new()).unwrap();
    let Ok(response) = sender.send_request(request).await else {
        read.head = Err(());
        return false;
    };
    let (parts, mut body) = response.into_parts();
    read.head = Ok(Some(parts.into()));
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        if let Some(data) = frame.data_ref() {
            read.data.extend_from_slice(data);
        }
    }
    true
}

/// Compares the results, allowing for docs/protocols/http1.md#differences-from-hyper.
fn compare(ours: &Read<HeadError, BodyError>, hypers: &Read<(), ()>, length: usize) {
    let context = || format!("{ours:?}\n{hypers:?}");
    let head = match (&ours.head, &hypers.head) {
        (Ok(Some(ours)), Ok(Some(hypers))) => {
            assert_eq!(ours, hypers);
            ours
        }
        (Ok(Some(head)), Err(())) => {
            let is_http10_with_coding =
                head.version == Version::HTTP_10 && head.headers.contains_key(header::TRANSFER_ENCODING);
            assert!(is_http10_with_coding && ours.end != Ok(After::KeepAlive), "{}", context());
            return;
        }
        (Ok(None) | Err(_), Err(())) => return,
        (Err(error), Ok(Some(_))) => {
            let is_listed = matches!(
                error,
                HeadError::TooLong
                    | HeadError::Upgrade
                    | HeadError::TransferEncoding
                    | HeadError::ContentLength
            );
            assert!(is_listed, "{}", context());
            return;
        }
        (_, Ok(_)) => panic!("{}", context()),
    };
    if last_coding_is_empty(&head.headers) {
        return;
    }
    match (&ours.end, &hypers.end) {
        (Ok(our_after), Ok(hypers_after)) => {
            assert_eq!(ours.data, hypers.data);
            if *our_after != *hypers_after {
                assert_eq!((our_after, hypers_after), (&After::Close, &After::KeepAlive), "{}", context());
            }
        }
        (Err(BodyError::Incomplete), Ok(_)) => panic!("{}", context()),
        (Err(_), Ok(_)) => {}
        (Err(_), Err(())) => {}
        // hyper limits the total size of all chunk extensions.
        (Ok(_), Err(())) => assert!(length > 16 << 10, "{}", context()),
    }
}

/// Whether `Transfer-Encoding` ends with a comma. hyper looks only at what follows the last comma.
fn last_coding_is_empty(headers: &HeaderMap) -> bool {
    let last = headers.get_all(header::TRANSFER_ENCODING).into_iter().next_back();
    last.is_some_and(|line| line.as_bytes().trim_ascii_end().ends_with(b","))
}

/// Heads that hyper writes for a response of unknown length: for HTTP/1.1, with `Connection: close`, and for
/// HTTP/1.0.
const HYPER_HEADS: [&str; 3] = [
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ndate: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\n",
];

/// Writes a response and checks that both readers read it back.
fn check_written(hyper_head: &str, pieces: &[&[u8]]) {
    let (parts, ()) = Response::builder().header("x", "y").body(()).unwrap().into_parts();
    let data = pieces.concat();
    for has_length in [false, true] {
        let mut encoder = ResponseEncoder::following(hyper_head.as_bytes());
        if has_length {
            encoder.set_length(data.len() as u64);
        }
        let mut written = encoder.head(&parts, SystemTime::UNIX_EPOCH);
        for piece in pieces {
            encoder.put_data(&mut written, piece, false);
        }
        encoder.put_data(&mut written, b"", true);
        let after = match (encoder.is_keep_alive(), has_length || hyper_head.contains("chunked")) {
            (true, _) => After::KeepAlive,
            (false, true) => After::Close,
            (false, false) => After::Closed,
        };
        let ours = read(&[&written]);
        assert_eq!((&ours.data, ours.end), (&data, Ok(after)), "{:?}", written.escape_ascii());
        let hypers = read_with_hyper(&written);
        assert_eq!((&hypers.data, hypers.end), (&data, Ok(after)), "{:?}", written.escape_ascii());
    }
}
