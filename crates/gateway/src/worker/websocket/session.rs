//! [`run`]: serves a connection from its handshake to its end.

use std::{
    collections::{HashSet, VecDeque},
    future::poll_fn,
    io::ErrorKind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tungstenite::{Utf8Bytes, protocol::frame::coding::CloseCode};

use super::{
    timers::{Due, Timers},
    transport::{Broken, Incoming, Transport},
    turn::{Turn, error_event},
};
use crate::{
    budget::Reservation,
    current_service::CurrentService,
    intake, large, reply,
    websocket::{Handshake, LocalResponses},
    yield_now,
};
use toolwire_pipeline::{
    dialect::{SocketCreate, SocketFailure, SocketMessage, SocketSide},
    failure::{Failure, Kind},
};

/// Maximum number of responses that run at the same time, as with OpenAI's servers.
const MAX_RUNNING: usize = 16;

/// Maximum number of requests that wait for another response of their lane. While there are that many, nothing is read.
const MAX_QUEUED: usize = 16;

/// Maximum number of named lanes of a connection, as with OpenAI's servers.
const MAX_LANES: usize = 32;

/// Number of rounds after which the thread's other connections get a turn, and of messages that are read in one round.
const MAX_ROUNDS: usize = 16;

/// Serves the connection `stream` until either side closes it. Once `leave` is ready, only the responses that are open
/// continue. Returns the connection, on which the last messages have been sent.
pub(crate) async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    handshake: Handshake,
    service: &CurrentService,
    mut leave: Pin<&mut impl Future<Output = ()>>,
) -> S {
    let Some(socket) = handshake.dialect.side().socket() else { return stream };
    let limits = service.get().limits().clone();
    let mut session = Session {
        transport: Transport::new(stream, limits.max_body),
        socket,
        handshake: Arc::new(handshake),
        service,
        local: Arc::new(LocalResponses::new(limits.max_body)),
        timers: Timers::new(),
        reading: None,
        partial: service.get().reservation(),
        queue: VecDeque::new(),
        turns: Vec::new(),
        lanes: HashSet::new(),
        end: End::Open,
        is_aged: false,
        is_leaving: false,
    };
    poll_fn(|cx| {
        session.is_leaving = session.is_leaving || leave.as_mut().poll(cx).is_ready();
        session.poll(cx)
    })
    .await;
    session.transport.into_inner()
}

/// How far the end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    /// The connection is closed with this code and reason once the messages before it are sent.
    Closing(CloseCode, &'static str),
    /// The close is being sent.
    Closed,
}

type Read = Result<SocketMessage, SocketFailure>;

struct Queued {
    create: SocketCreate,
    memory: Reservation,
}

struct Session<'s, S> {
    transport: Transport<S>,
    socket: &'static dyn SocketSide,
    handshake: Arc<Handshake>,
    service: &'s CurrentService,
    local: Arc<LocalResponses>,
    timers: Timers,
    /// A large message that is being read on another thread.
    reading: Option<(large::Apart<Read>, Reservation)>,
    /// The memory of a message that is not complete, and of buffers that stay allocated.
    partial: Reservation,
    queue: VecDeque<Queued>,
    turns: Vec<Turn>,
    /// The named lanes.
    lanes: HashSet<String>,
    end: End,
    is_aged: bool,
    is_leaving: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..MAX_ROUNDS {
            let is_flushed = match self.transport.poll_flush(cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(broken)) => {
                    self.lost(&broken);
                    return Poll::Ready(());
                }
                Poll::Pending => false,
            };
            if is_flushed {
                self.drop_ended();
                match self.end {
                    End::Open => {}
                    End::Closing(code, reason) => {
                        self.end = End::Closed;
                        self.transport.close(cx, code, reason);
                        continue;
                    }
                    End::Closed => return Poll::Ready(()),
                }
            }
            if self.end != End::Open {
                return Poll::Pending;
            }
            let mut has_progress = self.poll_turns(cx, is_flushed);
            has_progress |= self.poll_input(cx);
            has_progress |= self.start();
            has_progress |= self.poll_timers(cx);
            has_progress |= self.check_idle();
            if !has_progress {
                return Poll::Pending;
            }
        }
        yield_now::yield_now(cx);
        Poll::Pending
    }

    /// Drops the responses whose last event has been sent.
    fn drop_ended(&mut self) {
        let running = self.turns.len();
        self.turns.retain(|turn| !turn.has_ended());
        if self.turns.is_empty() && running > 0 {
            self.transport.release();
        }
    }

    fn poll_turns(&mut self, cx: &mut Context<'_>, is_flushed: bool) -> bool {
        let mut has_progress = false;
        for turn in &mut self.turns {
            if !is_flushed {
                turn.poll_overdue(cx);
                continue;
            }
            let Poll::Ready(progress) = turn.poll(cx, &mut self.transport) else { continue };
            has_progress = true;
            if progress.is_silent {
                self.transport.ping(cx);
            }
            if let Some(id) = progress.failed {
                self.local.forget(turn.lane(), &id);
            }
        }
        has_progress
    }

    /// Whether another message may be read.
    fn has_room(&self) -> bool {
        self.queue.len() < MAX_QUEUED && self.reading.is_none() && !self.transport.is_crowded()
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some((reading, _)) = &mut self.reading {
            let Poll::Ready(read) = reading.as_mut().poll(cx) else { return false };
            let Some((_, memory)) = self.reading.take() else { return false };
            self.received(read.unwrap_or_else(|failure| Err(failure.into())), memory);
            return true;
        }
        let mut has_progress = false;
        for _ in 0..MAX_ROUNDS {
            if self.end != End::Open || !self.has_room() {
                break;
            }
            let incoming = match self.transport.poll_message(cx) {
                Poll::Ready(incoming) => incoming,
                Poll::Pending => {
                    self.message_waits();
                    break;
                }
            };
            has_progress = true;
            self.timers.heard();
            match incoming {
                Ok(Incoming::Text(text)) => self.read(text),
                Ok(Incoming::Control) => {}
                // The transport answers.
                Ok(Incoming::Close) => self.end_with(End::Closed),
                Err(broken) => self.broken(&broken),
            }
        }
        has_progress
    }

    /// Accounts for a message of which more must arrive.
    fn message_waits(&mut self) {
        let partial = self.transport.partial();
        if partial == 0 {
            return;
        }
        self.timers.heard();
        self.timers.message_begun(self.service.get().limits().body_timeout);
        if let Err(failure) = self.partial.grow(partial + self.transport.retained()) {
            self.refuse(failure, None);
            self.close(CloseCode::Again, "no memory for the message");
        }
    }

    /// Reads a message, on another thread if it is large.
    fn read(&mut self, text: Utf8Bytes) {
        self.timers.message_ended();
        let service = self.service.get();
        let mut memory = service.reservation();
        self.partial = service.reservation();
        let reserved = memory.grow(text.len()).and_then(|()| self.partial.grow(self.transport.retained()));
        if let Err(failure) = reserved {
            self.refuse(failure, None);
            return;
        }
        let socket = self.socket;
        if large::is_large(text.len()) {
            self.reading = Some((large::apart(move || socket.read(text.as_str())), memory));
        } else {
            self.received(socket.read(text.as_str()), memory);
        }
    }

    fn received(&mut self, read: Read, memory: Reservation) {
        match read {
            Ok(SocketMessage::Create(create)) => self.queue_up(create, memory),
            Ok(SocketMessage::Cancel(lane)) => self.cancel(lane),
            Ok(SocketMessage::Reply(message)) => self.transport.push(message),
            Err(SocketFailure { failure, lane }) => self.refuse(failure, lane.as_deref()),
        }
    }

    fn queue_up(&mut self, create: SocketCreate, memory: Reservation) {
        if self.is_aged {
            return self.refuse(too_old(), create.lane.as_deref());
        }
        if let Some(lane) = &create.lane
            && !self.lanes.contains(lane)
        {
            if self.lanes.len() >= MAX_LANES {
                let message = format!(
                    "the connection has {MAX_LANES} different `stream_id`s; reuse one, or open another connection"
                );
                let failure = Failure::new(Kind::Request, message).with_param("stream_id");
                return self.refuse(failure.with_code("websocket_stream_limit_reached"), Some(lane));
            }
            self.lanes.insert(lane.clone());
        }
        self.queue.push_back(Queued { create, memory });
    }

    /// Cancels the response that is running in `lane`. Its upstream's request ends with it.
    fn cancel(&mut self, lane: Option<String>) {
        let running = self.turns.iter().position(|turn| turn.lane() == lane.as_deref() && !turn.has_ended());
        let failure = match running {
            Some(place) => {
                drop(self.turns.swap_remove(place));
                let failure = Failure::new(Kind::Request, "the client has cancelled the response");
                failure.with_status(499).with_code("response_cancelled")
            }
            None => {
                let failure = Failure::new(Kind::Request, "no response is running that could be cancelled");
                failure.with_code("response_not_active")
            }
        };
        let body = self.handshake.dialect.side().error_body(&failure);
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = StatusCode::from_u16(failure.status()).unwrap_or(parts.status);
        let event = error_event(self.socket, &parts, &body, lane.as_deref());
        self.transport.push(event);
    }

    /// Starts the requests whose lane is free.
    fn start(&mut self) -> bool {
        let mut has_started = false;
        let mut waiting: HashSet<Option<String>> = HashSet::new();
        let mut place = 0;
        while let Some(next) = self.queue.get(place) {
            let lane = &next.create.lane;
            let is_busy = self.turns.iter().any(|turn| turn.lane() == lane.as_deref());
            if self.turns.len() >= MAX_RUNNING {
                break;
            }
            if is_busy || waiting.contains(lane) {
                waiting.insert(lane.clone());
                place += 1;
                continue;
            }
            let Some(Queued { create, memory }) = self.queue.remove(place) else { break };
            let (lane, previous) = (create.lane.clone(), create.previous.clone());
            let (service, handshake, local) =
                (self.service.get(), Arc::clone(&self.handshake), Arc::clone(&self.local));
            let creating = Box::pin(service.create(handshake, create, local, memory));
            self.turns.push(Turn::new(self.socket, lane, previous, creating));
            has_started = true;
        }
        has_started
    }

    fn poll_timers(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(due) = self.timers.poll(cx) else { return false };
        match due {
            Due::Ping => self.transport.ping(cx),
            Due::Silence if self.is_idle() => self.close(CloseCode::Away, "the client is silent"),
            Due::Silence => self.transport.ping(cx),
            Due::Age => self.is_aged = true,
            Due::Message => {
                self.refuse(intake::too_slow(self.service.get().limits().body_timeout), None);
                self.close(CloseCode::Policy, "the message is incomplete");
            }
        }
        true
    }

    fn is_idle(&self) -> bool {
        self.turns.is_empty() && self.queue.is_empty() && self.reading.is_none()
    }

    /// Closes a connection that should end, as soon as no response is running.
    fn check_idle(&mut self) -> bool {
        if self.end != End::Open || !self.is_idle() {
            return false;
        }
        if self.is_leaving {
            self.close(CloseCode::Away, "toolwire is shutting down");
        } else if self.is_aged {
            self.refuse(too_old(), None);
            self.close(CloseCode::Away, "60 minutes");
        }
        self.end != End::Open
    }

    /// Sends the error for a message that does not become a request. It is logged and counted like one.
    fn refuse(&mut self, failure: Failure, lane: Option<&str>) {
        let response = self.service.get().refuse_message(&self.handshake, failure);
        let (parts, body) = reply::into_plain(response);
        self.transport.push(error_event(self.socket, &parts, &body, lane));
    }

    /// Handles what the client should not have sent.
    fn broken(&mut self, broken: &Broken) {
        match broken {
            Broken::Gone(_) => {
                self.lost(broken);
                self.end_with(End::Closed);
            }
            Broken::TooLarge => {
                let max = self.service.get().limits().max_body;
                self.refuse(intake::too_large(max, true), None);
                self.close(CloseCode::Size, "the message is too large");
            }
            Broken::Protocol(code) => self.close(*code, "the WebSocket protocol is violated"),
        }
    }

    fn close(&mut self, code: CloseCode, reason: &'static str) {
        self.end_with(End::Closing(code, reason));
    }

    /// Ends the connection, and all requests to upstreams.
    fn end_with(&mut self, end: End) {
        self.turns.clear();
        self.queue.clear();
        self.reading = None;
        self.end = end;
    }

    /// Handles a connection on which nothing can be sent.
    fn lost(&mut self, broken: &Broken) {
        if matches!(broken, Broken::Gone(error) if error.kind() == ErrorKind::TimedOut) {
            self.turns.iter_mut().for_each(Turn::stalled);
        }
    }
}

/// The failure of a request on a connection that has lasted too long, in the words of OpenAI's servers.
fn too_old() -> Failure {
    let message = "the connection has lasted for 60 minutes; open another one to continue";
    Failure::new(Kind::Request, message).with_code("websocket_connection_limit_reached")
}
