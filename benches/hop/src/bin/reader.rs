//! A client with minimal overhead. It shares a core with the mock, so its own cost would slow both down.
//!
//! It sends the same request over a given number of connections, a given number of times on each. It reads the responses as
//! bytes, looks only for postmarks, and prints one JSON object at the end. Unlike `toolwire bench`, it does not check the
//! streams.

use std::{env, error::Error, net::SocketAddr, rc::Rc, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::{JoinSet, LocalSet},
    time::{sleep_until, timeout},
};

type Failed = Box<dyn Error>;

fn main() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, measure())
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec) as u64
}

fn option(name: &str) -> Option<String> {
    env::args().skip_while(|argument| argument != name).nth(1)
}

/// Returns the values of an option that may be repeated.
fn options(name: &str) -> Vec<String> {
    let all: Vec<String> = env::args().collect();
    all.windows(2).filter(|pair| pair[0] == name).map(|pair| pair[1].clone()).collect()
}

fn number(name: &str, default: u64) -> Result<u64, Failed> {
    option(name).map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name} wants a number").into()))
}

struct Task {
    address: SocketAddr,
    request: Vec<u8>,
    requests: u64,
    /// The time limit for a response.
    limit: Duration,
    /// Whether to read only the first bytes of a response and then wait for the end of the run.
    hold: bool,
}

#[derive(Default)]
struct Seen {
    /// The times from sending a request to the first postmark, in ns.
    first: Vec<u64>,
    /// The age of each postmark when it is read, in ns.
    transit: Vec<u64>,
    /// Like `transit`, but only for the first postmark of each response.
    first_transit: Vec<u64>,
    slip: Vec<u64>,
    bytes: u64,
    whole: u64,
    broken: Vec<String>,
}

async fn measure() -> Result<(), Failed> {
    let address: SocketAddr = option("--to").ok_or("--to ADDR is missing")?.parse()?;
    let path = option("--path").unwrap_or_else(|| "/v1/chat/completions".to_owned());
    let body = std::fs::read_to_string(option("--body").ok_or("--body FILE is missing")?)?;
    let more: String = options("--header").iter().map(|header| format!("{header}\r\n")).collect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: text/event-stream\r\n\
         {more}content-length: {}\r\n\r\n",
        body.len()
    );
    let task = Rc::new(Task {
        address,
        request: (head + &body).into_bytes(),
        requests: number("--requests", 1)?,
        limit: Duration::from_secs(number("--limit", 60)?),
        hold: env::args().any(|argument| argument == "--hold"),
    });
    let (streams, stagger) = (number("--streams", 1)?, Duration::from_micros(number("--stagger-us", 0)?));
    let (begun, start) = (now(), tokio::time::Instant::now());
    let mut running = JoinSet::new();
    for number in 0..streams {
        let task = Rc::clone(&task);
        let at = start + stagger.mul_f64(number as f64 / streams as f64);
        running.spawn_local(async move {
            sleep_until(at).await;
            task.run().await
        });
    }
    let mut all = Seen::default();
    while let Some(seen) = running.join_next().await {
        all.add(seen?);
    }
    println!("{}", all.told(now() - begun));
    if task.hold {
        // The sockets are still open, since `Task::run` leaks them.
        BufReader::new(tokio::io::stdin()).read_line(&mut String::new()).await?;
    }
    Ok(())
}

impl Task {
    async fn run(&self) -> Seen {
        let mut seen = Seen::default();
        let mut socket = match TcpStream::connect(self.address).await {
            Ok(socket) => socket,
            Err(error) => {
                seen.broken.push(error.to_string());
                return seen;
            }
        };
        let _ = socket.set_nodelay(true);
        for _ in 0..self.requests {
            let ended = match timeout(self.limit, self.exchange(&mut socket, &mut seen)).await {
                Ok(ended) => ended.map_err(|error| error.to_string()),
                Err(_) => Err("time limit".to_owned()),
            };
            match ended {
                Ok(()) => seen.whole += 1,
                Err(error) => {
                    seen.broken.push(error);
                    break;
                }
            }
        }
        if self.hold {
            // Leaked, so that the socket stays open until the process ends.
            std::mem::forget(socket);
        }
        seen
    }

    async fn exchange(&self, socket: &mut TcpStream, seen: &mut Seen) -> Result<(), Failed> {
        let sent = now();
        socket.write_all(&self.request).await?;
        let mut buffer = vec![0; 64 << 10];
        let mut begun = 0;
        let mut tail = Vec::new();
        let mut first = true;
        let mut is_head = true;
        loop {
            let Some(room) = buffer.get_mut(begun..) else { return Err("no room".into()) };
            let read = socket.read(room).await?;
            let at = now();
            if read == 0 {
                return Err("closed before its end".into());
            }
            seen.bytes += read as u64;
            let bytes = &buffer[..begun + read];
            if is_head && !bytes.starts_with(b"HTTP/1.1 200") {
                let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
                return Err(line.escape_ascii().to_string().into());
            }
            is_head = false;
            tail.extend_from_slice(&bytes[begun.max(bytes.len().saturating_sub(8))..]);
            let mut rest = bytes;
            let mut kept = 0;
            while let Some(place) = memchr::memchr(b'@', rest) {
                let Some(mark) = rest.get(place..place + LEN) else {
                    kept = rest.len() - place;
                    break;
                };
                let Some((left, slip)) = postmark(mark) else {
                    rest = &rest[place + 1..];
                    continue;
                };
                rest = &rest[place + LEN..];
                let transit = at.saturating_sub(left);
                if first {
                    seen.first.push(at - sent);
                    seen.first_transit.push(transit);
                    first = false;
                }
                seen.transit.push(transit);
                seen.slip.push(slip);
            }
            let len = bytes.len();
            buffer.copy_within(len - kept..len, 0);
            begun = kept;
            let cut = tail.len().saturating_sub(8);
            tail.drain(..cut);
            if tail.ends_with(b"\r\n0\r\n\r\n") || (self.hold && !first) {
                return Ok(());
            }
        }
    }
}

const LEN: usize = 27;

/// Parses the time and the slip from `@`, 16 digits, `+`, 8 digits, `;`.
fn postmark(mark: &[u8]) -> Option<(u64, u64)> {
    let digits = |range| u64::from_str_radix(std::str::from_utf8(mark.get(range)?).ok()?, 16).ok();
    (mark.last() == Some(&b';')).then_some((digits(1..17)?, digits(18..26)?))
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.first.extend(other.first);
        self.transit.extend(other.transit);
        self.first_transit.extend(other.first_transit);
        self.slip.extend(other.slip);
        self.bytes += other.bytes;
        self.whole += other.whole;
        self.broken.extend(other.broken);
    }

    fn told(self, nanos: u64) -> serde_json::Value {
        let tokens = self.transit.len();
        json!({
            "seconds": nanos as f64 / 1e9,
            "tokens": tokens,
            "tokens_per_second": tokens as f64 * 1e9 / nanos as f64,
            "bytes": self.bytes,
            "whole": self.whole,
            "broken": self.broken.len(),
            "why_broken": self.broken.first(),
            "ttft_us": percentiles(self.first),
            "transit_us": percentiles(self.transit),
            "first_transit_us": percentiles(self.first_transit),
            "slip_us": percentiles(self.slip),
        })
    }
}

fn percentiles(mut values: Vec<u64>) -> serde_json::Value {
    values.sort_unstable();
    let at = |share: f64| {
        let place = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
        values.get(place).map(|&nanos| nanos as f64 / 1e3)
    };
    json!({ "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0) })
}
