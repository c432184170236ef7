//! The relays that forward bytes themselves lose none when a reader is slow, and forward ends.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command},
    thread,
    time::Duration,
};

/// More bytes than all sockets on the way have room for.
const LEN: usize = 96 << 20;

#[test]
fn epoll_relay_forwards_past_a_slow_reader() {
    forwards(env!("CARGO_BIN_EXE_relay-epoll"));
}

#[test]
fn uring_relay_forwards_past_a_slow_reader() {
    let program = env!("CARGO_BIN_EXE_relay-uring");
    if Command::new(program).arg("--probe").status().unwrap().success() {
        forwards(program);
    } else {
        eprintln!("not tested: io_uring is not available here");
    }
}

fn forwards(program: &str) {
    let bytes: Vec<u8> =
        (0..LEN).map(|place| (place * 31 + (place >> 8) * 7 + (place >> 16)) as u8).collect();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = Relay::start(program, upstream.local_addr().unwrap());
    let mut client = relay.connect();
    let (mut server, _) = upstream.accept().unwrap();

    let sent = send_until_full(&mut client, &bytes);
    assert!(sent < LEN, "the sockets have room for everything");
    let rest = bytes[sent..].to_vec();
    let sender = thread::spawn(move || {
        client.write_all(&rest).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    let mut seen = Vec::new();
    server.read_to_end(&mut seen).unwrap();
    assert!(seen == bytes, "{} of {LEN} bytes, or others", seen.len());

    server.write_all(b"an answer after the end").unwrap();
    drop(server);
    let mut answer = String::new();
    sender.join().unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "an answer after the end");
}

/// Sends until there has been no room for a while, and returns how much that was.
fn send_until_full(client: &mut TcpStream, bytes: &[u8]) -> usize {
    client.set_nonblocking(true).unwrap();
    let (mut sent, mut refused) = (0, 0);
    while sent < bytes.len() && refused < 20 {
        match client.write(&bytes[sent..]) {
            Ok(len) => (sent, refused) = (sent + len, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
    client.set_nonblocking(false).unwrap();
    sent
}

struct Relay {
    process: Child,
    address: SocketAddr,
}

impl Relay {
    fn start(program: &str, upstream: SocketAddr) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = ["--listen", &address.to_string(), "--upstream", &upstream.to_string()];
        Self { process: Command::new(program).args(options).spawn().unwrap(), address }
    }

    /// Connects as soon as the relay listens.
    fn connect(&self) -> TcpStream {
        for _ in 0..500 {
            if let Ok(client) = TcpStream::connect(self.address) {
                return client;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("nothing listens on {}", self.address);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
