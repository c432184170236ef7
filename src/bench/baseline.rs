//! The loopback baseline: a mock in the bench's own process, on a thread of its own.
//!
//! Read by the same client in the same rounds as the targets, it shows what of their figures is the tool, the kernel
//! and the machine: nothing is between the two but a loopback socket.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    thread,
};

use tokio::{net::TcpSocket, runtime::Builder};

use crate::fixture::mock::Mock;

/// Serves `mock` until the process ends; gives its address.
///
/// # Errors
/// No thread, or no socket.
pub(crate) fn start(mock: Mock) -> io::Result<SocketAddr> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        // Streams come in crowds: one that finds no place in the line would try again a second later.
        socket.listen(4096)?
    };
    let address = listener.local_addr()?;
    thread::Builder::new()
        .name("baseline".to_owned())
        .spawn(move || runtime.block_on(mock.serve(listener)))?;
    Ok(address)
}
