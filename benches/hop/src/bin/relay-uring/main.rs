//! Forwards bytes over io_uring, with one ring on one thread: one system call per wake-up submits all sends and waits
//! for what is received. Each client gets a connection to the upstream of its own. HTTP is not parsed.
//!
//! `--probe` only says whether this system allows that.

mod ring;

use std::{env, error::Error, io, mem, net::SocketAddr, os::fd::OwnedFd, process::ExitCode};

use rustix::net::{self, Shutdown, SocketFlags, sockopt};
use toolwire_hop::{
    option,
    sockets::{self, End, State},
};

use ring::{Completion, Filled, Kind, Ring, WayId};

const CLIENT: usize = 0;
const UPSTREAM: usize = 1;

fn main() -> ExitCode {
    let ended = if env::args().any(|argument| argument == "--probe") { probe() } else { run() };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay-uring: {error}");
            ExitCode::FAILURE
        }
    }
}

fn probe() -> Result<(), Box<dyn Error>> {
    Ok(ring(SocketAddr::from(([127, 0, 0, 1], 1))).map(drop)?)
}

fn run() -> Result<(), Box<dyn Error>> {
    let (listen, upstream) = (option("--listen")?, option("--upstream")?);
    let mut relay = Relay {
        ring: ring(upstream)?,
        listener: sockets::listener(listen, SocketFlags::empty())?,
        pairs: Vec::new(),
        free: Vec::new(),
        touched: Vec::new(),
        ended: Vec::new(),
        doubtful: Vec::new(),
    };
    relay.ring.accept(&relay.listener)?;
    loop {
        relay.turn()?;
    }
}

fn ring(upstream: SocketAddr) -> Result<&'static mut Ring, String> {
    Ring::new(upstream.into())
        .map_err(|error| format!("io_uring is not available: {error} (it needs Linux 6.1)"))
}

struct Relay {
    ring: &'static mut Ring,
    listener: OwnedFd,
    pairs: Vec<Option<Pair>>,
    free: Vec<u32>,
    /// The ways that have received something in this turn, which `send_now` sends.
    touched: Vec<WayId>,
    /// The ways whose end has been seen and not forwarded.
    ended: Vec<WayId>,
    /// Pairs that may have ended.
    doubtful: Vec<u32>,
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
    receiving: Receiving,
    /// Buffers that were filled in this turn.
    received: Vec<Filled>,
    /// Whether a send waits for space in the socket.
    waits: bool,
    /// Bytes that are sent after it.
    backlog: Vec<u8>,
    end: End,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Receiving {
    #[default]
    Off,
    On,
    Cancelled,
}

impl Relay {
    /// Sends what the turn before has received, waits, and takes in what has completed.
    fn turn(&mut self) -> io::Result<()> {
        for &way in &self.touched {
            if let Some(pair) = pair(&mut self.pairs, way.pair) {
                self.ring.send_now(&pair.sockets[1 - way.side], &pair.ways[way.side].received, way)?;
            }
        }
        // The end of a sender is forwarded once the sends before it have been submitted.
        self.ring.enter(usize::from(self.ended.is_empty()))?;
        let mut completions = mem::take(&mut self.ring.completions);
        // Sends first: a way whose send did not fit must not send what it has received since.
        for completion in &mut completions {
            match completion.kind {
                Kind::SendNow => self.did_not_fit(completion)?,
                Kind::SendLater => self.sent_later(completion)?,
                _ => {}
            }
        }
        for way in mem::take(&mut self.touched) {
            if let Some(pair) = pair(&mut self.pairs, way.pair) {
                pair.ways[way.side].received.drain(..).for_each(|filled| self.ring.release(filled));
                self.doubtful.push(way.pair);
            }
        }
        for way in mem::take(&mut self.ended) {
            self.forward_end(way);
        }
        for completion in completions.drain(..) {
            match completion.kind {
                Kind::Accept => self.accepted(completion)?,
                Kind::Connect => self.connected(&completion)?,
                Kind::Receive => self.received(completion)?,
                Kind::SendNow | Kind::SendLater | Kind::Cancel => {}
            }
        }
        if self.ring.completions.is_empty() {
            // Keeps the allocation.
            self.ring.completions = completions;
        }
        self.settle();
        Ok(())
    }

    fn accepted(&mut self, completion: Completion) -> io::Result<()> {
        if !completion.more {
            self.ring.accept(&self.listener)?;
        }
        let Some(client) = completion.accepted else {
            return match -completion.result {
                libc::ECONNABORTED | libc::EINTR | libc::EAGAIN => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            };
        };
        sockopt::set_tcp_nodelay(&client, true)?;
        let sockets = [client, sockets::outgoing(SocketFlags::empty())?];
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.pairs.push(None);
                u32::try_from(self.pairs.len() - 1).map_err(io::Error::other)?
            }
        };
        self.ring.connect(&sockets[UPSTREAM], WayId { pair: number, side: UPSTREAM })?;
        let pair = Pair { sockets, ways: Default::default(), state: State::Connecting };
        self.pairs[number as usize] = Some(pair);
        Ok(())
    }

    fn connected(&mut self, completion: &Completion) -> io::Result<()> {
        let number = completion.way.pair;
        let Some(pair) = pair(&mut self.pairs, number) else { return Ok(()) };
        if completion.result < 0 {
            pair.state = State::Broken;
            self.doubtful.push(number);
            return Ok(());
        }
        pair.state = State::Open;
        for side in [CLIENT, UPSTREAM] {
            self.receive(WayId { pair: number, side })?;
        }
        Ok(())
    }

    /// Receives from a way's sender, if that is not the case yet and makes sense.
    fn receive(&mut self, way: WayId) -> io::Result<()> {
        let Some(pair) = pair(&mut self.pairs, way.pair) else { return Ok(()) };
        let this = &mut pair.ways[way.side];
        let is_wanted = pair.state == State::Open && this.end == End::Open && !this.is_full();
        if is_wanted && this.receiving == Receiving::Off {
            this.receiving = Receiving::On;
            self.ring.receive(&pair.sockets[way.side], way)?;
        }
        Ok(())
    }

    fn received(&mut self, completion: Completion) -> io::Result<()> {
        let way = completion.way;
        let Some(pair) = pair(&mut self.pairs, way.pair) else { return Ok(()) };
        let this = &mut pair.ways[way.side];
        if let Some(filled) = completion.filled {
            if pair.state != State::Open || completion.result <= 0 {
                self.ring.release(filled);
            } else if this.waits {
                this.backlog.extend_from_slice(self.ring.bytes(&filled));
                self.ring.release(filled);
                if this.is_full() && this.receiving == Receiving::On {
                    this.receiving = Receiving::Cancelled;
                    self.ring.cancel(way)?;
                }
            } else {
                if this.received.is_empty() {
                    self.touched.push(way);
                }
                this.received.push(filled);
            }
        }
        match -completion.result {
            0 => {
                this.end = End::Seen;
                self.ended.push(way);
            }
            // A lack of buffers ends a receive, too. They are released in each turn.
            ..0 | libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
            _ => pair.break_off(),
        }
        if !completion.more {
            pair.ways[way.side].receiving = Receiving::Off;
            self.doubtful.push(way.pair);
            self.receive(way)?;
        }
        Ok(())
    }

    /// What a way has received has been sent in part, or not at all.
    fn did_not_fit(&mut self, completion: &Completion) -> io::Result<()> {
        let way = completion.way;
        let Some(pair) = pair(&mut self.pairs, way.pair) else { return Ok(()) };
        let sent = match usize::try_from(completion.result) {
            Ok(sent) => sent,
            Err(_) if completion.result == -libc::EAGAIN => 0,
            Err(_) => {
                pair.break_off();
                return Ok(());
            }
        };
        let this = &mut pair.ways[way.side];
        let mut bytes = Vec::new();
        this.received.iter().for_each(|filled| bytes.extend_from_slice(self.ring.bytes(filled)));
        bytes.drain(..sent.min(bytes.len()));
        if !bytes.is_empty() {
            this.waits = true;
            self.ring.send_later(&pair.sockets[1 - way.side], bytes, way)?;
        }
        Ok(())
    }

    fn sent_later(&mut self, completion: &mut Completion) -> io::Result<()> {
        let way = completion.way;
        let Some(pair) = pair(&mut self.pairs, way.pair) else { return Ok(()) };
        let this = &mut pair.ways[way.side];
        this.waits = false;
        self.doubtful.push(way.pair);
        let mut bytes = completion.bytes.take().unwrap_or_default();
        if completion.result <= 0 {
            pair.break_off();
            return Ok(());
        }
        bytes.drain(..bytes.len().min(completion.result as usize));
        bytes.append(&mut this.backlog);
        if bytes.is_empty() {
            self.forward_end(way);
            return self.receive(way);
        }
        this.waits = true;
        self.ring.send_later(&pair.sockets[1 - way.side], bytes, way)
    }

    fn forward_end(&mut self, way: WayId) {
        let Some(pair) = pair(&mut self.pairs, way.pair) else { return };
        let this = &mut pair.ways[way.side];
        if this.end == End::Seen && !this.waits {
            this.end = End::Forwarded;
            self.doubtful.push(way.pair);
            // Fails if the reader has closed its connection, which is then seen by reading it.
            let _ = net::shutdown(&pair.sockets[1 - way.side], Shutdown::Write);
        }
    }

    /// Closes the connections of pairs that have ended.
    fn settle(&mut self) {
        for number in self.doubtful.drain(..) {
            if pair(&mut self.pairs, number).is_some_and(|pair| pair.has_ended()) {
                self.pairs[number as usize] = None;
                self.free.push(number);
            }
        }
    }
}

fn pair(pairs: &mut [Option<Pair>], number: u32) -> Option<&mut Pair> {
    pairs.get_mut(number as usize)?.as_mut()
}

impl Pair {
    /// Ends what is under way on both connections.
    fn break_off(&mut self) {
        self.state = State::Broken;
        for socket in &self.sockets {
            // Fails if the connection has ended already.
            let _ = net::shutdown(socket, Shutdown::Both);
        }
    }

    /// Whether nothing is to be done, and nothing is under way.
    fn has_ended(&self) -> bool {
        let is_idle = |way: &Way| way.receiving == Receiving::Off && way.received.is_empty() && !way.waits;
        let has_ended = |way: &Way| self.state == State::Broken || way.end == End::Forwarded;
        self.state != State::Connecting && self.ways.iter().all(|way| is_idle(way) && has_ended(way))
    }
}

impl Way {
    fn is_full(&self) -> bool {
        self.backlog.len() >= sockets::BACKLOG
    }
}
