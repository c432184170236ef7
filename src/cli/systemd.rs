//! What systemd and `serve` tell each other: sockets that were opened before (`sd_listen_fds(3)`), and how the server is
//! (`sd_notify(3)`). Without systemd, all of it does nothing.

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::{
    env,
    future::pending,
    io,
    net::TcpListener,
    os::unix::net::{SocketAddr, UnixDatagram},
    time::Duration,
};

use listenfd::ListenFd;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::interval;

/// How often more time to stop is asked for.
const EXTENSION: Duration = Duration::from_secs(10);

/// The listening sockets that this process was started with (`LISTEN_FDS`, if `LISTEN_PID` names this process). Their variables
/// are removed, so that programs that this one starts do not take the sockets for theirs. Called before there are other threads,
/// which might read the environment.
///
/// # Errors
/// One is not a TCP socket.
pub(super) fn sockets() -> Result<Vec<TcpListener>, String> {
    let mut inherited = ListenFd::from_env();
    let sockets = (0..inherited.len()).map(|number| match inherited.take_tcp_listener(number) {
        Ok(Some(socket)) => Ok(socket),
        Ok(None) => Err(format!("the inherited socket {number} is missing")),
        Err(error) => Err(format!("the inherited socket {number} is not a TCP socket: {error}")),
    });
    sockets.collect()
}

/// Tells systemd how the server is.
#[derive(Debug)]
pub(super) struct Notifier(Option<(UnixDatagram, SocketAddr)>);

impl Notifier {
    /// Notifies the socket that `NOTIFY_SOCKET` names, if it is set.
    pub(super) fn from_env() -> Self {
        let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Self(None) };
        let address = match name.as_encoded_bytes().split_first() {
            Some((b'@', name)) => abstract_address(name),
            _ => SocketAddr::from_pathname(&name),
        };
        match address.and_then(|address| Ok((UnixDatagram::unbound()?, address))) {
            Ok((socket, address)) => {
                // It must not delay anything.
                let _ = socket.set_nonblocking(true);
                Self(Some((socket, address)))
            }
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be used");
                Self(None)
            }
        }
    }

    /// The server serves.
    pub(super) fn ready(&self, generation: u64) {
        self.send(&format!("READY=1\nSTATUS=Serving, configuration {generation}"));
    }

    /// The configuration is being loaded again. [`Notifier::ready`] follows.
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
        let micros = seconds.unwrap_or_default() * 1_000_000 + nanos.unwrap_or_default() / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=Loading the configuration"));
    }

    /// The server stops. Asks again and again for more time: it ends by itself.
    pub(super) async fn stopping(&self) {
        let extend = format!("EXTEND_TIMEOUT_USEC={}", (EXTENSION * 3).as_micros());
        self.send(&format!("STOPPING=1\n{extend}\nSTATUS=Open streams may end"));
        let mut ticks = interval(EXTENSION);
        loop {
            ticks.tick().await;
            self.send(&extend);
        }
    }

    /// Says again and again that the server is alive, if systemd wants to hear it (`WATCHDOG_USEC`).
    pub(super) async fn watchdog(&self) {
        let variable = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let limit = variable("WATCHDOG_USEC").filter(|micros| *micros > 1 && is_ours && self.0.is_some());
        let Some(limit) = limit else { return pending().await };
        let mut ticks = interval(Duration::from_micros(limit / 2));
        loop {
            ticks.tick().await;
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, state: &str) {
        let Some((socket, address)) = &self.0 else { return };
        if let Err(error) = socket.send_to_addr(state.as_bytes(), address) {
            tracing::debug!(%error, "systemd could not be notified");
        }
    }
}

/// The address of a socket that is in no folder.
#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
