//! Listening on one address with several sockets, one for each thread.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use tokio::net::TcpSocket;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// A socket that listens on `address`, and so many `more` that share it: the kernel gives each connection to one of
/// them (`SO_REUSEPORT`). Called inside a runtime.
///
/// # Errors
/// If the address cannot be listened on, or somebody else does.
pub(super) fn bind(address: SocketAddr, more: usize) -> io::Result<(TcpListener, Vec<TcpListener>)> {
    let shared = more > 0;
    if shared {
        // Sockets that share a port share it with any other server of this user that does: whoever starts a second
        // server by mistake must be told, as by a socket that shares nothing.
        drop(socket(address, false)?);
    }
    let first = socket(address, shared)?;
    let address = first.local_addr()?;
    let more = (0..more).map(|_| socket(address, true)).collect::<io::Result<_>>()?;
    Ok((first, more))
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    // For the connections, which inherit it: tokens are small, and each is worth a packet. Nagle's algorithm would wait
    // for more.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn connections_inherit_what_is_set() {
        let (one, _) = bind(([127, 0, 0, 1], 0).into(), 0).unwrap();
        one.set_nonblocking(false).unwrap();
        let _client = TcpStream::connect(one.local_addr().unwrap()).unwrap();
        assert!(one.accept().unwrap().0.nodelay().unwrap());
    }
}
