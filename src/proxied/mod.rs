//! Servers behind HTTP proxies: which proxy, connections through it, and tunnels.

mod choice;
mod connector;
mod tunnel;

pub use choice::HttpProxy;
pub(crate) use choice::{Proxies, is_loopback};
pub(crate) use connector::{TcpConnection, TcpConnector, port_of};
pub(crate) use tunnel::open as open_tunnel;
