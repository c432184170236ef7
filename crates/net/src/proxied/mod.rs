//! HTTP proxies: selecting one, and connecting through it.

mod choice;
mod connector;
mod tunnel;

pub use choice::{HttpProxy, Proxies, is_loopback};
pub use connector::{TcpConnection, TcpConnector, port_of};
pub use tunnel::open as open_tunnel;
