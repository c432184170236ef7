//! Sockets of the relays that forward bytes without a library for HTTP.

use std::{io, net::SocketAddr, os::fd::OwnedFd};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// The most bytes that wait for a slow reader before its sender is no longer read. What one read returns comes on top.
pub const BACKLOG: usize = 64 << 10;

/// The state of a client's connection and that to the upstream.
#[derive(Clone, Copy, PartialEq)]
pub enum State {
    Connecting,
    Open,
    Broken,
}

/// Whether the end of what a side sends has been read, and passed on.
#[derive(Default, Clone, Copy, PartialEq)]
pub enum End {
    #[default]
    Open,
    Seen,
    Forwarded,
}

pub fn listener(address: SocketAddr, flags: SocketFlags) -> io::Result<OwnedFd> {
    let socket = stream(flags)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, 4096)?;
    Ok(socket)
}

/// Returns a socket that is not connected yet, and sends without delay.
pub fn outgoing(flags: SocketFlags) -> io::Result<OwnedFd> {
    let socket = stream(flags)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

fn stream(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC | flags, None)?)
}
