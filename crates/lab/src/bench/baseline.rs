//! The loopback baseline: a mock in the bench's own process, on a separate thread.
//!
//! In every round, the client also measures this mock, with only a loopback socket in between. The result shows how much
//! of the targets' figures is due to the tool, the kernel and the machine.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    thread,
};

use tokio::{net::TcpSocket, runtime::Builder};

use crate::fixture::mock::Mock;

/// Serves `mock` until the process ends, and returns its address.
///
/// # Errors
/// The thread cannot be started, or the socket cannot be opened.
pub fn start(mock: Mock) -> io::Result<SocketAddr> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        // Many streams may start at once, and a client whose connection overflows the backlog retries only after a
        // second.
        socket.listen(4096)?
    };
    let address = listener.local_addr()?;
    thread::Builder::new()
        .name("baseline".to_owned())
        .spawn(move || runtime.block_on(mock.serve(listener)))?;
    Ok(address)
}
