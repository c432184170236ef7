//! Connects `serve` with systemd: takes over sockets that systemd has opened (`sd_listen_fds(3)`), and reports the server's
//! state (`sd_notify(3)`). Without systemd, this does nothing.

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

/// How often to ask systemd for more time to stop.
const EXTENSION: Duration = Duration::from_secs(10);

/// Why an inherited socket cannot be used. The field is the socket's number.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    #[error("the inherited socket {0} is missing")]
    Missing(usize),
    #[error("the inherited socket {0} is not a TCP socket: {1}")]
    NotTcp(usize, #[source] io::Error),
}

/// Returns the listening sockets passed to this process (`LISTEN_FDS`, if `LISTEN_PID` is this process). Removes both
/// variables, so that child processes do not try to use the sockets. Must be called before other threads start, since they
/// might read the environment.
///
/// # Errors
/// A socket is missing, or is not a TCP socket.
pub(super) fn sockets() -> Result<Vec<TcpListener>, SocketError> {
    let mut inherited = ListenFd::from_env();
    let sockets = (0..inherited.len()).map(|number| match inherited.take_tcp_listener(number) {
        Ok(Some(socket)) => Ok(socket),
        Ok(None) => Err(SocketError::Missing(number)),
        Err(error) => Err(SocketError::NotTcp(number, error)),
    });
    sockets.collect()
}

/// How long a message that must not be lost waits for room in systemd's queue, which all units share.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reports the server's state to systemd.
#[derive(Debug)]
pub(super) struct Notifier(Option<Sockets>);

#[derive(Debug)]
struct Sockets {
    address: SocketAddr,
    /// For messages that must not be lost: waits for room in the queue.
    patient: UnixDatagram,
    /// For messages that are repeated anyway: drops them if the queue is full.
    hasty: UnixDatagram,
}

impl Sockets {
    fn to(address: SocketAddr) -> io::Result<Self> {
        let (patient, hasty) = (UnixDatagram::unbound()?, UnixDatagram::unbound()?);
        patient.set_write_timeout(Some(PATIENCE))?;
        hasty.set_nonblocking(true)?;
        Ok(Self { address, patient, hasty })
    }

    fn send(&self, socket: &UnixDatagram, state: &str) {
        if let Err(error) = socket.send_to_addr(state.as_bytes(), &self.address) {
            tracing::debug!(%error, "systemd could not be notified");
        }
    }
}

impl Notifier {
    /// Creates a notifier for the socket in `NOTIFY_SOCKET`. If the variable is not set, the notifier does nothing.
    pub(super) fn from_env() -> Self {
        let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Self(None) };
        let address = match name.as_encoded_bytes().split_first() {
            Some((b'@', name)) => abstract_address(name),
            _ => SocketAddr::from_pathname(&name),
        };
        match address.and_then(Sockets::to) {
            Ok(sockets) => Self(Some(sockets)),
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be used");
                Self(None)
            }
        }
    }

    /// Reports that the server is ready.
    pub(super) fn ready(&self, generation: u64) {
        self.tell(&format!("READY=1\nSTATUS=Serving, configuration {generation}"));
    }

    /// Reports that the configuration is being reloaded. Must be followed by [`Notifier::ready`].
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
        let micros = seconds.unwrap_or_default() * 1_000_000 + nanos.unwrap_or_default() / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=Loading the configuration"));
    }

    /// Reports that the server is stopping.
    pub(super) fn stopping(&self) {
        self.tell(&format!("STOPPING=1\n{}\nSTATUS=Open streams may end", extension()));
    }

    /// Asks for more time to stop, again and again, until the future is dropped: the server itself limits the
    /// time.
    pub(super) async fn extend(&self) {
        let mut ticks = interval(EXTENSION);
        loop {
            ticks.tick().await;
            self.tell(&extension());
        }
    }

    /// Reports that the server is alive, twice per watchdog interval (`WATCHDOG_USEC`), until the future is dropped.
    pub(super) async fn watchdog(&self) {
        let variable = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let limit = variable("WATCHDOG_USEC").filter(|micros| *micros > 1 && is_ours && self.0.is_some());
        let Some(limit) = limit else { return pending().await };
        let mut ticks = interval(Duration::from_micros(limit / 2));
        loop {
            ticks.tick().await;
            if let Some(sockets) = &self.0 {
                sockets.send(&sockets.hasty, "WATCHDOG=1");
            }
        }
    }

    fn tell(&self, state: &str) {
        if let Some(sockets) = &self.0 {
            sockets.send(&sockets.patient, state);
        }
    }
}

fn extension() -> String {
    format!("EXTEND_TIMEOUT_USEC={}", (EXTENSION * 3).as_micros())
}

/// The address of an abstract socket, which has a name but no file.
#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn message_of_a_new_state_waits_for_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        systemd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let sockets = Sockets::to(SocketAddr::from_pathname(&path).unwrap()).unwrap();
        // Fill the queue.
        (0..1000).for_each(|_| sockets.send(&sockets.hasty, "WATCHDOG=1"));
        let notifier = Notifier(Some(sockets));
        let told = thread::spawn(move || notifier.ready(1));
        thread::sleep(Duration::from_millis(20));
        let mut message = [0; 64];
        while !message.starts_with(b"READY=1") {
            systemd.recv(&mut message).unwrap();
        }
        told.join().unwrap();
    }
}
