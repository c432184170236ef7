//! Tests upstreams over HTTP/2: which connection carries a request, when a request is sent again, and which failure the
//! client receives. Connections are in-memory pipes, and the clock is paused.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use h2::{
    Reason,
    server::{Builder, SendResponse},
};
use http::Response;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::TcpStream,
    sync::{Barrier, Notify},
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    connector::Connecting,
    http2::{PING_INTERVAL, PING_TIMEOUT},
    stream::{Duplex, IdleState, Stream},
    *,
};
use toolwire_config::{QueueLimits, Timeouts};
use toolwire_http1 as http1;
use toolwire_pipeline::dialect::{Dialect, UpstreamDialect};

const SECOND: Duration = Duration::from_secs(1);

/// A timeout longer than any test.
const NEVER: Duration = Duration::from_secs(86_400);

impl Duplex for DuplexStream {
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

/// Serves one connection. The number counts connections from 0.
type Serve = dyn Fn(usize, DuplexStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A server whose connections are in-memory pipes.
pub(crate) struct Server {
    serve: Box<Serve>,
    connections: AtomicUsize,
    tasks: Mutex<JoinSet<()>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl Connect for Server {
    fn connect(&self) -> Connecting<'_> {
        let (ours, theirs) = duplex(16 << 10);
        let number = self.connections.fetch_add(1, Ordering::SeqCst);
        self.tasks.lock().spawn((self.serve)(number, theirs));
        Box::pin(async { Ok(Stream::Tls { stream: Box::new(ours), http2: true }) })
    }
}

impl Server {
    fn new<F>(serve: impl Fn(usize, DuplexStream) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Arc::new(Self {
            serve: Box::new(move |number, stream| Box::pin(serve(number, stream))),
            connections: AtomicUsize::new(0),
            tasks: Mutex::default(),
        })
    }

    /// Creates a server that passes each request to `answer`.
    pub(crate) fn answering<F>(
        max_streams: u32,
        answer: impl Fn(Asked) -> F + Clone + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let requests = Arc::new(AtomicUsize::new(0));
        Self::new(move |number, stream| {
            let (answer, requests) = (answer.clone(), requests.clone());
            async move {
                let handshake = Builder::new().max_concurrent_streams(max_streams).handshake(stream);
                let mut connection = handshake.await.unwrap();
                let (mut answers, close) = (JoinSet::new(), Arc::new(Notify::new()));
                loop {
                    let accepted = tokio::select! {
                        accepted = connection.accept() => accepted,
                        () = close.notified() => return,
                    };
                    let Some(Ok((_, respond))) = accepted else { return };
                    let request = requests.fetch_add(1, Ordering::SeqCst);
                    answers.spawn(answer(Asked { number, request, respond, close: close.clone() }));
                }
            }
        })
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub(crate) struct Asked {
    number: usize,
    /// Number of earlier requests, on all connections.
    pub(crate) request: usize,
    respond: SendResponse<Bytes>,
    /// Closes the connection immediately.
    close: Arc<Notify>,
}

impl Asked {
    async fn answer(self) {
        let body = format!("by {}", self.number);
        self.say(body);
    }

    pub(crate) fn say(mut self, body: impl Into<Bytes>) {
        let mut stream = self.respond.send_response(Response::new(()), false).unwrap();
        stream.send_data(body.into(), true).unwrap();
    }

    pub(crate) fn refuse(mut self, status: StatusCode) {
        let mut response = Response::new(());
        *response.status_mut() = status;
        self.respond.send_response(response, true).unwrap();
    }

    async fn never(self) {
        std::future::pending::<()>().await;
    }
}

pub(crate) fn upstream() -> Upstream {
    Upstream {
        name: "up".to_owned(),
        options: UpstreamDialect::try_from(Dialect::Chat).unwrap(),
        base_url: "https://up.example".parse().unwrap(),
        api_key: None,
        headers: HeaderMap::new(),
        tls: None,
        proxy: None,
        timeouts: Timeouts { connect: NEVER, header: NEVER, idle: NEVER, total: None },
        queue: QueueLimits { max_concurrent: 100, max_waiting: 0, wait_timeout: NEVER },
        tolerate_truncation: false,
        retry_unanswered: true,
    }
}

pub(crate) fn client(server: &Arc<Server>, upstream: Upstream) -> Arc<Client> {
    let line = Arc::new(Queue::new(upstream.queue.clone(), Gauge::default()));
    let connector: Arc<dyn Connect> = server.clone();
    Arc::new(Client::with_connector(Arc::new(upstream), line, Counter::default(), connector).unwrap())
}

async fn open(client: &Arc<Client>) -> Result<Opened, Failure> {
    let asked = UpstreamRequest {
        body: Bytes::from_static(b"{}"),
        path: None,
        dropped: Vec::new(),
        stream: true,
        prefill: None,
        key: None,
    };
    client.clone().open(asked, Admission::New(Claimant::Own)).await.map_err(|unopened| unopened.failure)
}

async fn ask(client: &Arc<Client>) -> Result<String, Failure> {
    let mut opened = open(client).await?;
    let mut read = Vec::new();
    while poll_fn(|cx| opened.body.poll_data(cx, |data| read.extend_from_slice(data))).await.unwrap()
        == BodyRead::Data
    {}
    Ok(String::from_utf8(read).unwrap())
}

#[tokio::test(start_paused = true)]
async fn requests_share_a_connection() {
    let all_there = Arc::new(Barrier::new(10));
    let server = Server::answering(100, move |asked| {
        let all_there = all_there.clone();
        async move {
            if asked.request > 0 {
                all_there.wait().await;
            }
            asked.answer().await;
        }
    });
    let client = client(&server, upstream());
    ask(&client).await.unwrap();
    for answer in join_all((0..10).map(|_| ask(&client))).await {
        assert_eq!(answer.unwrap(), "by 0");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_stream_limit_get_further_connections() {
    for max_streams in [1, 3] {
        let all_there = Arc::new(Barrier::new(10));
        let server = Server::answering(max_streams, move |asked| {
            let all_there = all_there.clone();
            async move {
                // If the requests waited for each other, they would exceed the time limit.
                sleep(3 * SECOND).await;
                all_there.wait().await;
                asked.answer().await;
            }
        });
        let mut upstream = upstream();
        upstream.timeouts.header = 5 * SECOND;
        let client = client(&server, upstream);
        for _ in 0..3 {
            for answer in join_all((0..10).map(|_| ask(&client))).await {
                answer.unwrap();
            }
        }
        // Idle connections are reused.
        assert_eq!(server.connections(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn full_connection_is_used_again_when_a_stream_has_ended() {
    let server = Server::answering(2, |asked| async move {
        sleep(SECOND).await;
        asked.answer().await;
    });
    let client = client(&server, upstream());
    ask(&client).await.unwrap();
    for _ in 0..5 {
        let answers = join_all((0..4).map(|_| ask(&client))).await;
        let mut by = HashMap::new();
        answers.into_iter().for_each(|answer| *by.entry(answer.unwrap()).or_insert(0) += 1);
        assert_eq!(by.get("by 0"), Some(&2), "{by:?}");
    }
    assert!(server.connections() <= 3, "{}", server.connections());
}

/// Creates a server whose first connection stops reading after `answered` requests.
fn stalled(answered: usize) -> Arc<Server> {
    Server::new(move |number, stream| async move {
        let mut connection = Builder::new().handshake(stream).await.unwrap();
        let mut answers = JoinSet::new();
        for request in 0..if number == 0 { answered } else { usize::MAX } {
            let Some(Ok((_, respond))) = connection.accept().await else { return };
            answers.spawn(Asked { number, request, respond, close: Arc::default() }.answer());
        }
        if answered > 0 {
            // Gives the last response time to be sent.
            let _ = tokio::time::timeout(SECOND, connection.accept()).await;
        }
        std::future::pending::<()>().await;
    })
}

#[tokio::test(start_paused = true)]
async fn connection_without_an_answer_to_a_ping_is_closed() {
    for answered in [0, 1] {
        let server = stalled(answered);
        let client = client(&server, Upstream { retry_unanswered: false, ..upstream() });
        if answered > 0 {
            ask(&client).await.unwrap();
            sleep(2 * SECOND).await;
        }
        let begun = Instant::now();
        let failures = join_all((0..3).map(|_| ask(&client))).await;
        assert_eq!(failures[0].as_ref().unwrap_err().kind(), Kind::Timeout, "{failures:?}");
        assert!(begun.elapsed() <= PING_INTERVAL + PING_TIMEOUT + SECOND);
        assert!(server.connections() <= 3);
        assert_ne!(ask(&client).await.unwrap(), "by 0");
    }
}

#[tokio::test(start_paused = true)]
async fn stream_on_a_dead_connection_ends() {
    let server = Server::new(|_, stream| async move {
        let mut connection = Builder::new().handshake::<_, Bytes>(stream).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"first"), false).unwrap();
        let _ = tokio::time::timeout(SECOND, connection.accept()).await;
        std::future::pending::<()>().await;
    });
    let client = client(&server, upstream());
    let mut opened = open(&client).await.unwrap();
    let read = poll_fn(|cx| opened.body.poll_data(cx, |data| assert_eq!(data, b"first"))).await;
    assert_eq!(read.unwrap(), BodyRead::Data);
    let begun = Instant::now();
    poll_fn(|cx| opened.body.poll_data(cx, |_| ())).await.unwrap_err();
    assert!(begun.elapsed() <= PING_INTERVAL + PING_TIMEOUT + SECOND);
}

#[tokio::test(start_paused = true)]
async fn connection_that_dies_while_idle_is_not_used_again() {
    let server = stalled(1);
    let client = client(&server, upstream());
    ask(&client).await.unwrap();
    sleep(PING_INTERVAL + PING_TIMEOUT + SECOND).await;
    assert_eq!(ask(&client).await.unwrap(), "by 1");
}

#[tokio::test(start_paused = true)]
async fn connection_of_a_request_that_timed_out_gets_no_more_requests() {
    let server = Server::answering(100, |asked| async move {
        if asked.request == 1 { asked.never().await } else { asked.answer().await }
    });
    let mut upstream = upstream();
    upstream.timeouts.header = 5 * SECOND;
    let client = client(&server, upstream);
    assert_eq!(ask(&client).await.unwrap(), "by 0");
    let late = ask(&client).await.unwrap_err();
    assert_eq!(late.code(), Some("upstream_timeout"));
    for _ in 0..3 {
        assert_eq!(ask(&client).await.unwrap(), "by 1");
    }
}

/// `AnswerBody` notices the silence and calls `retire`.
#[tokio::test(start_paused = true)]
async fn connection_of_a_silent_stream_gets_no_more_requests() {
    let server = Server::answering(100, Asked::answer);
    let client = client(&server, upstream());
    let silent = open(&client).await.unwrap();
    let other = open(&client).await.unwrap();
    silent.body.retire();
    drop(silent);
    let connections = server.connections();
    assert_eq!(ask(&client).await.unwrap(), format!("by {}", 1));
    assert!(connections <= 2, "{connections}");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn connection_that_was_idle_for_too_long_is_not_used_again() {
    let server = Server::answering(100, Asked::answer);
    let client = client(&server, upstream());
    ask(&client).await.unwrap();
    sleep(pool::IDLE - SECOND).await;
    assert_eq!(ask(&client).await.unwrap(), "by 0");
    sleep(pool::IDLE).await;
    assert_eq!(ask(&client).await.unwrap(), "by 1");
}

#[tokio::test(start_paused = true)]
async fn refused_request_is_sent_again_only_once() {
    for (refused, requests) in [(1, 2), (2, 2)] {
        let asked_for = Arc::new(AtomicUsize::new(0));
        let count = asked_for.clone();
        let server = Server::answering(100, move |mut asked| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                if asked.request < refused {
                    asked.respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    asked.answer().await;
                }
            }
        });
        let answer = ask(&client(&server, upstream())).await;
        if refused == 1 {
            assert_eq!(answer.unwrap(), "by 1");
        } else {
            assert_eq!(answer.unwrap_err().kind(), Kind::Overloaded);
        }
        assert_eq!(asked_for.load(Ordering::SeqCst), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_was_reset_for_another_reason_is_not_sent_again() {
    for retry_unanswered in [false, true] {
        for reason in [
            Reason::NO_ERROR,
            Reason::PROTOCOL_ERROR,
            Reason::INTERNAL_ERROR,
            Reason::CANCEL,
            Reason::ENHANCE_YOUR_CALM,
            Reason::HTTP_1_1_REQUIRED,
        ] {
            let server = Server::answering(100, move |mut asked| async move {
                if asked.request == 1 {
                    asked.respond.send_reset(reason);
                } else {
                    asked.answer().await;
                }
            });
            let client = client(&server, Upstream { retry_unanswered, ..upstream() });
            ask(&client).await.unwrap();
            let failure = ask(&client).await.unwrap_err();
            assert_eq!(failure.status(), 502, "{failure}");
            assert_eq!(ask(&client).await.unwrap(), "by 0", "{reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn request_on_a_reused_connection_that_closes_silently_is_retried_unless_forbidden() {
    for (retry_unanswered, answered) in [(false, false), (true, true)] {
        let server = Server::answering(100, |asked| async move {
            if asked.request == 1 {
                asked.close.notify_one();
                asked.never().await;
            } else {
                asked.answer().await;
            }
        });
        let client = client(&server, Upstream { retry_unanswered, ..upstream() });
        ask(&client).await.unwrap();
        match ask(&client).await {
            Ok(answer) => assert!(answered && answer == "by 1", "{answer}"),
            Err(failure) => assert!(!answered && failure.kind() == Kind::Connect, "{failure}"),
        }
        assert_eq!(ask(&client).await.unwrap(), "by 1");
    }
}

#[tokio::test(start_paused = true)]
async fn connection_that_closes_while_idle_is_replaced() {
    let server = Server::answering(100, |asked| async move {
        let close = asked.close.clone();
        let number = asked.number;
        asked.answer().await;
        if number == 0 {
            sleep(SECOND).await;
            close.notify_one();
        }
    });
    let client = client(&server, upstream());
    ask(&client).await.unwrap();
    sleep(2 * SECOND).await;
    assert_eq!(ask(&client).await.unwrap(), "by 1");
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

async fn write_frame(stream: &mut DuplexStream, kind: u8, flags: u8, id: u8, payload: &[u8]) {
    let head = [0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, id];
    stream.write_all(&[&head, payload].concat()).await.unwrap();
}

/// Reads up to the end of the first frame of this kind.
async fn read_until(stream: &mut DuplexStream, kind: u8) {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await.unwrap();
        if head[3] == kind {
            return;
        }
    }
}

async fn answer_by_hand(stream: &mut DuplexStream, id: u8, text: &[u8]) {
    write_frame(stream, HEADERS, 4, id, &[0x88]).await;
    write_frame(stream, DATA, 1, id, text).await;
}

#[tokio::test(start_paused = true)]
async fn request_after_the_last_stream_of_a_goaway_is_sent_again() {
    for (last, reason, retry_unanswered, repeated) in [
        (1, 0, false, true),
        (1, 2, false, true),
        (3, 0, false, false),
        (3, 2, false, false),
        // The server may have seen the request, but no byte of a response has arrived.
        (3, 0, true, true),
        (3, 2, true, true),
    ] {
        let server = Server::new(move |number, mut stream| async move {
            stream.read_exact(&mut [0; 24]).await.unwrap();
            write_frame(&mut stream, SETTINGS, 0, 0, &[]).await;
            read_until(&mut stream, HEADERS).await;
            answer_by_hand(&mut stream, 1, format!("by {number}").as_bytes()).await;
            if number == 0 {
                read_until(&mut stream, HEADERS).await;
                read_until(&mut stream, DATA).await;
                write_frame(&mut stream, GOAWAY, 0, 0, &[0, 0, 0, last, 0, 0, 0, reason]).await;
            } else {
                std::future::pending::<()>().await;
            }
        });
        let client = client(&server, Upstream { retry_unanswered, ..upstream() });
        assert_eq!(ask(&client).await.unwrap(), "by 0");
        match ask(&client).await {
            Ok(answer) => assert!(repeated && answer == "by 1", "{last} {reason}: {answer}"),
            Err(failure) => assert!(!repeated && failure.status() == 502, "{last} {reason}: {failure}"),
        }
    }
}

/// The server closes the connection while the request is being sent.
#[tokio::test(start_paused = true)]
async fn request_during_a_goaway_gets_a_new_connection() {
    let server = Server::new(move |number, mut stream| async move {
        stream.read_exact(&mut [0; 24]).await.unwrap();
        write_frame(&mut stream, SETTINGS, 0, 0, &[]).await;
        read_until(&mut stream, HEADERS).await;
        read_until(&mut stream, DATA).await;
        answer_by_hand(&mut stream, 1, format!("by {number}").as_bytes()).await;
        if number == 0 {
            write_frame(&mut stream, GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]).await;
        }
        std::future::pending::<()>().await;
    });
    let client = client(&server, upstream());
    assert_eq!(ask(&client).await.unwrap(), "by 0");
    assert_eq!(ask(&client).await.unwrap(), "by 1");
}

#[tokio::test(start_paused = true)]
async fn response_heads_have_the_same_limit_as_in_http1() {
    let begun = "HTTP/1.1 200 OK\r\n\r\n".len();
    for (length, is_taken) in
        [(20 << 10, true), (http1::MAX_HEAD - 1, true), (http1::MAX_HEAD, true), (http1::MAX_HEAD + 1, false)]
    {
        // One long value, then many short ones, for which HTTP/2 counts an overhead per field.
        for value in [4000, 1] {
            let server = Server::answering(100, move |mut asked| async move {
                let mut response = Response::new(());
                let mut left = length - begun;
                while left > 0 {
                    let size = if left < 2 * (value + 9) { left } else { value + 9 };
                    let name = format!("x{:04}", response.headers().len());
                    let text = "v".repeat(size - 9);
                    response.headers_mut().insert(
                        http::HeaderName::try_from(name).unwrap(),
                        HeaderValue::try_from(text).unwrap(),
                    );
                    left -= size;
                }
                let mut body = asked.respond.send_response(response, false).unwrap();
                body.send_data(Bytes::from_static(b"all"), true).unwrap();
            });
            let answer = ask(&client(&server, upstream())).await;
            if is_taken {
                assert_eq!(answer.unwrap(), "all", "{length} by {value}");
            } else {
                let failure = answer.unwrap_err();
                assert_eq!(failure.kind(), Kind::Protocol);
                assert!(failure.message().contains("longer than 65536 bytes"), "{failure}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn error_says_that_a_head_is_too_long() {
    let server = Server::answering(100, move |mut asked| async move {
        let mut response = Response::new(());
        for number in 0..200 {
            let name = http::HeaderName::try_from(format!("x{number}")).unwrap();
            response.headers_mut().insert(name, HeaderValue::try_from("v".repeat(8000)).unwrap());
        }
        asked.respond.send_response(response, true).unwrap();
        asked.never().await;
    });
    let failure = ask(&client(&server, upstream())).await.unwrap_err();
    assert_eq!(failure.kind(), Kind::Protocol, "{failure}");
    assert!(failure.message().contains("headers that are too long"), "{failure}");
}

/// Empty frames do not show that the model is still writing.
#[tokio::test(start_paused = true)]
async fn empty_frames_are_not_data() {
    let server = Server::answering(100, |mut asked| async move {
        let mut body = asked.respond.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"first"), false).unwrap();
        for _ in 0..100 {
            sleep(SECOND).await;
            if body.send_data(Bytes::new(), false).is_err() {
                return;
            }
        }
        body.send_data(Bytes::from_static(b"last"), true).unwrap();
    });
    let client = client(&server, upstream());
    let mut opened = open(&client).await.unwrap();
    let mut pieces = Vec::new();
    while poll_fn(|cx| opened.body.poll_data(cx, |data| pieces.push(data.to_vec()))).await.unwrap()
        == BodyRead::Data
    {}
    assert_eq!(pieces, [&b"first"[..], b"last"]);
}

/// The server refuses a request without reading its body.
#[tokio::test(start_paused = true)]
async fn refusal_before_the_request_is_read_reaches_the_client() {
    let server = Server::answering(100, |mut asked| async move {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
        let mut body = asked.respond.send_response(response, false).unwrap();
        body.send_data(Bytes::from_static(b"{\"error\":{\"message\":\"too much\"}}"), true).unwrap();
    });
    let client = client(&server, upstream());
    let large = UpstreamRequest {
        path: None,
        body: Bytes::from(vec![b'x'; 4 << 20]),
        dropped: Vec::new(),
        stream: true,
        prefill: None,
        key: None,
    };
    let failure = client.clone().open(large, Admission::New(Claimant::Own)).await.unwrap_err().failure;
    assert_eq!(failure.status(), 413, "{failure}");
    assert!(failure.message().contains("too much"), "{failure}");
}

/// The runtime does not know yet that the bytes have arrived.
#[tokio::test]
async fn check_of_an_idle_connection_sees_bytes_that_just_arrived() {
    use std::io::Write as _;

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (says, closes, seen) in [
        ("", false, IdleState::Quiet),
        ("HTTP/1.1 200 OK\r\n", false, IdleState::Unsolicited),
        ("x", true, IdleState::Unsolicited),
        ("", true, IdleState::Closed),
    ] {
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let nothing = poll_fn(|cx| {
            let mut buffer = [0];
            let mut buffer = tokio::io::ReadBuf::new(&mut buffer);
            Poll::Ready(tokio::io::AsyncRead::poll_read(Pin::new(&mut stream), cx, &mut buffer))
        });
        assert!(nothing.await.is_pending());
        let mut connection = connection::Connection::new(Stream::Tcp(stream));
        server.write_all(says.as_bytes()).unwrap();
        let server = (!closes).then_some(server);
        assert_eq!(connection.check_idle().await, seen, "{says:?} {closes}");
        drop(server);
    }
}

#[tokio::test(start_paused = true)]
async fn keep_alive_is_trusted_again_after_a_while() {
    let trust = Trust::new("up".to_owned(), Counter::default());
    assert!(trust.holds());
    trust.lose();
    assert!(!trust.holds());
    sleep(trust::WITHOUT_KEEP_ALIVE - SECOND).await;
    assert!(!trust.holds());
    sleep(SECOND).await;
    assert!(trust.holds());
}
