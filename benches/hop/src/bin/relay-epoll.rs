//! Forwards bytes over epoll, edge-triggered, on one thread: per token one wait, one read and one write. Each client
//! gets a connection to the upstream of its own. HTTP is not parsed, so that the comparison with relay-uring is one of
//! the interfaces.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
    io::Errno,
    net::{self, RecvFlags, SendFlags, Shutdown, SocketFlags, sockopt},
};
use toolwire_hop::{
    option,
    sockets::{self, End, State},
};

const CLIENT: usize = 0;
const UPSTREAM: usize = 1;
const LISTENER: u64 = u64::MAX;

fn main() -> Result<(), Box<dyn Error>> {
    let mut relay = Relay::new(option("--listen")?, option("--upstream")?)?;
    let mut events = Vec::with_capacity(1024);
    loop {
        relay.turn(&mut events)?;
    }
}

struct Relay {
    epoll: OwnedFd,
    listener: OwnedFd,
    upstream: SocketAddr,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    /// Pairs that have ended in this turn. Events of this turn may still name them.
    ended: Vec<usize>,
    /// Sockets that must be read again although no event will come.
    again: Vec<(usize, usize)>,
    buffer: Vec<u8>,
}

/// A client's connection, and that to the upstream.
struct Pair {
    sockets: [OwnedFd; 2],
    /// The first is from the client to the upstream.
    ways: [Way; 2],
    state: State,
}

/// One direction.
#[derive(Default)]
struct Way {
    /// Bytes that the reader's socket has not accepted yet.
    backlog: Vec<u8>,
    end: End,
    /// Whether the sender has closed its side. Then more bytes may follow a short read.
    closed: bool,
}

impl Relay {
    fn new(listen: SocketAddr, upstream: SocketAddr) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let listener = sockets::listener(listen, SocketFlags::NONBLOCK)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let (pairs, free, ended, again) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { epoll, listener, upstream, pairs, free, ended, again, buffer: vec![0; 64 << 10] })
    }

    fn turn(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let limit = (!self.again.is_empty()).then_some(&at_once);
        match epoll::wait(&self.epoll, spare_capacity(events), limit) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let again = std::mem::take(&mut self.again);
        for event in events.drain(..) {
            let data = event.data.u64();
            if data == LISTENER {
                self.accept()?;
            } else {
                self.ready((data >> 1) as usize, (data & 1) as usize, event.flags);
            }
        }
        for (number, side) in again {
            self.read(number, side);
            self.settle(number);
        }
        self.free.append(&mut self.ended);
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let client = match net::accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
            {
                Ok(client) => client,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            sockopt::set_tcp_nodelay(&client, true)?;
            let upstream = sockets::outgoing(SocketFlags::NONBLOCK)?;
            match net::connect(&upstream, &self.upstream) {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                // Closes both.
                Err(_) => continue,
            }
            let number = self.free.pop().unwrap_or(self.pairs.len());
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            for (side, socket) in [&client, &upstream].into_iter().enumerate() {
                epoll::add(&self.epoll, socket, EventData::new_u64((number << 1 | side) as u64), flags)?;
            }
            let pair =
                Pair { sockets: [client, upstream], ways: Default::default(), state: State::Connecting };
            match self.pairs.get_mut(number) {
                Some(slot) => *slot = Some(pair),
                None => self.pairs.push(Some(pair)),
            }
        }
    }

    fn ready(&mut self, number: usize, side: usize, flags: EventFlags) {
        // An event of a pair that ended earlier in the same turn.
        let Some(pair) = self.pairs.get_mut(number).and_then(Option::as_mut) else { return };
        if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            pair.ways[side].closed = true;
        }
        if pair.state == State::Connecting {
            if side == UPSTREAM {
                match sockopt::socket_error(&pair.sockets[UPSTREAM]) {
                    Ok(Ok(())) if flags.contains(EventFlags::OUT) => pair.state = State::Open,
                    _ => pair.state = State::Broken,
                }
                // What the client has sent in the meantime.
                self.read(number, CLIENT);
            }
        } else {
            if flags.contains(EventFlags::OUT) {
                self.write(number, 1 - side);
            }
            if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                self.read(number, side);
            }
        }
        self.settle(number);
    }

    /// Reads once from `side`, and writes that to the other one.
    fn read(&mut self, number: usize, side: usize) {
        let Some(pair) = self.pairs.get_mut(number).and_then(Option::as_mut) else { return };
        let way = &mut pair.ways[side];
        if pair.state != State::Open || way.end != End::Open || way.backlog.len() >= sockets::BACKLOG {
            return;
        }
        let len = match net::recv(&pair.sockets[side], &mut self.buffer[..], RecvFlags::empty()) {
            Ok((len, _)) => len,
            Err(Errno::AGAIN) => return,
            Err(Errno::INTR) => return self.again.push((number, side)),
            Err(_) => return pair.state = State::Broken,
        };
        if len == 0 {
            way.end = End::Seen;
            return pair.forward_end(side);
        }
        if len == self.buffer.len() || way.closed {
            self.again.push((number, side));
        }
        let bytes = &self.buffer[..len];
        if !way.backlog.is_empty() {
            return way.backlog.extend_from_slice(bytes);
        }
        match sent(&pair.sockets[1 - side], bytes) {
            Ok(sent) => way.backlog.extend_from_slice(&bytes[sent..]),
            Err(_) => pair.state = State::Broken,
        }
    }

    /// Writes what comes from `side` and waits for the other one.
    fn write(&mut self, number: usize, side: usize) {
        let Some(pair) = self.pairs.get_mut(number).and_then(Option::as_mut) else { return };
        let way = &mut pair.ways[side];
        if pair.state != State::Open || way.backlog.is_empty() {
            return;
        }
        let Ok(sent) = sent(&pair.sockets[1 - side], &way.backlog) else {
            return pair.state = State::Broken;
        };
        let was_full = way.backlog.len() >= sockets::BACKLOG;
        way.backlog.drain(..sent);
        if was_full && way.backlog.len() < sockets::BACKLOG {
            // No event will come for bytes that arrived while nothing was read.
            self.again.push((number, side));
        }
        pair.forward_end(side);
    }

    /// Closes the connections of a pair that has ended.
    fn settle(&mut self, number: usize) {
        let Some(slot) = self.pairs.get_mut(number) else { return };
        let has_ended = |pair: &Pair| {
            pair.state == State::Broken || pair.ways.iter().all(|way| way.end == End::Forwarded)
        };
        if slot.as_ref().is_some_and(has_ended) {
            *slot = None;
            self.ended.push(number);
        }
    }
}

impl Pair {
    fn forward_end(&mut self, side: usize) {
        let way = &mut self.ways[side];
        if way.end == End::Seen && way.backlog.is_empty() {
            way.end = End::Forwarded;
            // Fails if the reader has closed its connection, which is then seen by reading it.
            let _ = net::shutdown(&self.sockets[1 - side], Shutdown::Write);
        }
    }
}

/// Sends as much as the socket has room for.
fn sent(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match net::send(&socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => return Ok(sent),
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
