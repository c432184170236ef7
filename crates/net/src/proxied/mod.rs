//! Connections through HTTP proxies: the choice of the proxy, connectors, and tunnels.

mod choice;
mod connector;
mod tunnel;

pub use choice::{HttpProxy, Proxies, is_loopback};
pub use connector::{TcpConnection, TcpConnector, port_of};
pub use tunnel::open as open_tunnel;
