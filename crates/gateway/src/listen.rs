//! Listens on an address with one socket per thread, or on sockets inherited from another process.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use socket2::SockRef;
use tokio::net::TcpSocket;

/// Maximum number of connections waiting to be accepted.
const BACKLOG: u32 = 4096;

/// Opens a socket that listens on `address`, and `more` sockets on the same port, among which the kernel distributes
/// connections (`SO_REUSEPORT`). Must be called inside a runtime.
///
/// # Errors
/// If it is not possible to listen on the address, or if another process already does.
pub(super) fn bind(address: SocketAddr, more: usize) -> io::Result<(TcpListener, Vec<TcpListener>)> {
    let shared = more > 0;
    if shared {
        // Shared ports are also shared with other servers of the same user. Binding an unshared socket first makes it
        // an error to start a second server by mistake.
        drop(socket(address, false)?);
    }
    let first = socket(address, shared)?;
    let address = first.local_addr()?;
    let more = (0..more).map(|_| socket(address, true)).collect::<io::Result<_>>()?;
    Ok((first, more))
}

/// Duplicates the listening sockets of another process for each of `threads` threads. All threads accept connections
/// from the same queue, which outlives this process.
///
/// # Errors
/// If the sockets cannot be duplicated.
pub(super) fn share(inherited: Vec<TcpListener>, threads: usize) -> io::Result<Vec<Vec<TcpListener>>> {
    for listener in &inherited {
        listener.set_nonblocking(true)?;
        SockRef::from(listener).set_tcp_nodelay(true)?;
    }
    let clones = |_| inherited.iter().map(TcpListener::try_clone).collect();
    (0..threads).map(clones).collect()
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    // Connections inherit this option. Nagle's algorithm would delay tokens, which are small.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn accepted_connections_inherit_nodelay() {
        let (one, _) = bind(([127, 0, 0, 1], 0).into(), 0).unwrap();
        one.set_nonblocking(false).unwrap();
        let _client = TcpStream::connect(one.local_addr().unwrap()).unwrap();
        assert!(one.accept().unwrap().0.nodelay().unwrap());
    }
}
