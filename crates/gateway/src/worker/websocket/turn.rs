//! [`Turn`]: one response on a connection.

use std::{
    ops::ControlFlow,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use http::{HeaderMap, Response, response::Parts};
use http_body::Body as _;
use tokio::io::{AsyncRead, AsyncWrite};

use super::transport::Transport;
use crate::{answer::AnswerBody, reply, service::Created, websocket::LocalRecord};
use toolwire_pipeline::{
    dialect::{HttpError, SocketSide},
    failure::Failure,
    wire::sse::{Frame, Frames, Message},
};

/// The future of a request.
pub(super) type Creating = Pin<Box<dyn Future<Output = Created> + Send>>;

/// A response that is running.
pub(super) struct Turn {
    socket: &'static dyn SocketSide,
    lane: Option<String>,
    /// The id of the response that is continued.
    previous: Option<String>,
    state: State,
    frames: Frames,
    record: Option<LocalRecord>,
}

enum State {
    Creating(Creating),
    /// It is not known yet whether there will be a response or an error.
    Committing(Pin<Box<AnswerBody>>),
    Streaming(Pin<Box<AnswerBody>>),
    /// The body of an error is read.
    Refusing(Box<Parts>, Pin<Box<AnswerBody>>, BytesMut),
    /// The client has not received the last event yet.
    Ended(Option<Pin<Box<AnswerBody>>>),
}

/// What a turn shows besides its events.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The upstream is silent, and a keep-alive is due.
    pub(super) is_silent: bool,
    /// The continuation of this response has failed.
    pub(super) failed: Option<String>,
}

impl Turn {
    pub(super) fn new(
        socket: &'static dyn SocketSide,
        lane: Option<String>,
        previous: Option<String>,
        creating: Creating,
    ) -> Self {
        // Our own code has written the events, so their size is not limited again.
        let frames = Frames::new(usize::MAX);
        Self { socket, lane, previous, state: State::Creating(creating), frames, record: None }
    }

    pub(super) fn lane(&self) -> Option<&str> {
        self.lane.as_deref()
    }

    /// Whether all events have been given to the transport.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// Records that the client has accepted nothing for too long.
    pub(super) fn stalled(&mut self) {
        if let State::Committing(answer)
        | State::Streaming(answer)
        | State::Refusing(_, answer, _)
        | State::Ended(Some(answer)) = &mut self.state
        {
            answer.as_mut().stalled();
        }
    }

    /// Must be polled in place of [`Turn::poll`] while the client accepts nothing.
    pub(super) fn poll_overdue(&mut self, cx: &mut Context<'_>) {
        if let State::Streaming(answer) = &mut self.state {
            answer.as_mut().poll_overdue(cx);
        }
    }

    /// Continues, and gives the next events to `transport`.
    pub(super) fn poll<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport<S>,
    ) -> Poll<Progress> {
        let mut progress = Progress::default();
        match &mut self.state {
            State::Creating(creating) => match ready!(creating.as_mut().poll(cx)) {
                Created::Asked(answer, record) => {
                    self.record = record;
                    self.state = State::Committing(answer);
                }
                Created::Made(events, record) => {
                    self.record = record;
                    self.send(&events, transport);
                    self.state = State::Ended(None);
                }
                Created::Refused(response) => {
                    let (parts, body) = reply::into_plain(response);
                    self.refuse(&parts, &body, transport, &mut progress);
                    self.state = State::Ended(None);
                }
            },
            State::Committing(answer) => {
                let committed = ready!(answer.as_mut().poll_commit(cx));
                self.commit(committed);
            }
            State::Refusing(parts, answer, body) => {
                if ready!(answer.as_mut().poll_some(cx)) {
                    body.extend_from_slice(&answer.as_mut().take());
                } else {
                    let (parts, body) =
                        (std::mem::replace(parts, Box::new(Response::new(()).into_parts().0)), body.split());
                    self.refuse(&parts, &body, transport, &mut progress);
                    self.end();
                }
            }
            State::Streaming(answer) => {
                if ready!(answer.as_mut().poll_some(cx)) {
                    let data = answer.as_mut().take();
                    let is_over = answer.is_end_stream();
                    progress.is_silent = self.send(&data, transport);
                    if let State::Streaming(answer) = &mut self.state {
                        answer.as_mut().put_back(data);
                    }
                    if is_over {
                        self.end();
                    }
                } else {
                    self.end();
                }
            }
            State::Ended(_) => return Poll::Pending,
        }
        Poll::Ready(progress)
    }

    fn commit(&mut self, committed: Result<(), Failure>) {
        let is_refused = committed.is_err();
        self.state = match std::mem::replace(&mut self.state, State::Ended(None)) {
            State::Committing(answer) => {
                let (parts, answer) = reply::answer(answer, committed);
                match is_refused {
                    true => State::Refusing(Box::new(parts), answer, BytesMut::new()),
                    false => State::Streaming(answer),
                }
            }
            other => other,
        };
    }

    fn end(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Ended(None)) {
            State::Streaming(answer) | State::Refusing(_, answer, _) => State::Ended(Some(answer)),
            other => other,
        };
    }

    /// Sends the events in the next bytes of a stream. Returns whether there was a keep-alive.
    fn send<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        bytes: &[u8],
        transport: &mut Transport<S>,
    ) -> bool {
        let Self { socket, lane, record, frames, .. } = self;
        let mut is_silent = false;
        let read = frames.push(bytes, |frame| {
            match frame {
                Frame::Event(Message { event, data, .. }) => {
                    let (kind, data) = (str::from_utf8(event), str::from_utf8(data).unwrap_or_default());
                    // Kept before the client receives the end, since its next request may continue the response.
                    if let Some(response) = socket.response(kind.unwrap_or_default(), data)
                        && let Some(record) = record.take()
                    {
                        record.keep(response);
                    }
                    if let Some(event) = socket.event(data, lane.as_deref()) {
                        transport.push(event);
                    }
                }
                Frame::Comment(_) => is_silent = true,
                Frame::Retry(_) => {}
            }
            ControlFlow::Continue(())
        });
        debug_assert!(read.is_ok(), "there is no limit");
        is_silent
    }

    /// Sends the event of an error.
    fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        parts: &Parts,
        body: &[u8],
        transport: &mut Transport<S>,
        progress: &mut Progress,
    ) {
        transport.push(error_event(self.socket, parts, body, self.lane.as_deref()));
        progress.failed = self.previous.take();
    }
}

/// The event that stands for a response with an error.
pub(super) fn error_event(socket: &dyn SocketSide, parts: &Parts, body: &[u8], lane: Option<&str>) -> String {
    let headers = shown(&parts.headers);
    socket.error(&HttpError { status: parts.status.as_u16(), headers: &headers, body }, lane)
}

/// The headers of a response that the client should see in an event.
fn shown(headers: &HeaderMap) -> Vec<(&str, &str)> {
    let is_shown = |name: &str| name.starts_with("x-") || name.starts_with("retry-after");
    let text = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    text.filter(|(name, _)| is_shown(name)).collect()
}
