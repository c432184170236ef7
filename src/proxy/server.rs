//! [`Server`]: listens, serves on all of its threads, and shuts down gracefully.

use std::{fmt, future::pending, io, net::SocketAddr, sync::Arc, thread};

use tokio::{
    runtime,
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{listen, service::Service, tap::Tap, worker::Worker};
use crate::{config::Config, execute::Started};

/// Why a server cannot start.
#[derive(Debug)]
pub enum ServeError {
    /// An address cannot be listened on.
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// A thread or its runtime cannot be created.
    Thread(io::Error),
    /// TLS cannot be spoken as the configuration says.
    Tls(tokio_rustls::rustls::Error),
    /// No request to an upstream can be written: its key contains characters that no header may have, or its address is too
    /// long.
    Upstream {
        /// The upstream's name.
        name: String,
        /// Why not.
        error: http::Error,
    },
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Thread(error) => write!(f, "a thread cannot be started: {error}"),
            Self::Tls(error) => write!(f, "TLS cannot be spoken: {error}"),
            Self::Upstream { name, error } => write!(
                f,
                "no request to upstream `{name}` can be written, are its api_key and base_url right? {error}"
            ),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { error, .. } | Self::Thread(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::Upstream { error, .. } => Some(error),
        }
    }
}

/// A server that listens but does not accept connections yet.
///
/// It runs on as many threads as are configured: the caller's, and others that each have a runtime. Each thread has its
/// own listening sockets (the kernel distributes connections) and its own connections to upstreams, so that both sockets
/// of a stream wake the thread that works on it, and no other.
#[derive(Debug)]
pub struct Server {
    first: Worker,
    others: Vec<Worker>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Listens on the configured addresses. `tap`, if given, observes the exchanges.
    ///
    /// # Errors
    /// If an address cannot be listened on, or no request to an upstream can be written.
    pub fn bind(config: Arc<Config>, tap: Option<Arc<dyn Tap>>) -> Result<Self, ServeError> {
        let mut addresses = Vec::new();
        let mut first = Worker::new(Service::new(Arc::clone(&config), tap)?, config.drain_timeout);
        let mut others: Vec<_> = (1..config.threads).map(|_| first.sibling()).collect();
        for &address in &config.listen {
            let failed = |error| ServeError::Bind { address, error };
            let (one, more) = listen::bind(address, others.len()).map_err(failed)?;
            addresses.push(one.local_addr().map_err(failed)?);
            first.listeners.push(one);
            others.iter_mut().zip(more).for_each(|(other, listener)| other.listeners.push(listener));
        }
        first.listens_on(&addresses);
        Ok(Self { first, others, addresses })
    }

    /// The addresses on which it listens, with the actual ports where the configuration says 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// A new code with which a browser may sign in to the admin API once, within two minutes. `None`: there is no such API, or it
    /// needs no key.
    pub fn sign_in_code(&self) -> Option<String> {
        self.first.service().sign_in_code()
    }

    /// The names of the hosted tools, and of the providers whose tools are not known yet.
    pub fn hosted_tools(&self) -> (Vec<String>, Vec<String>) {
        self.first.service().hosted_tools()
    }

    /// Serves until `shutdown` is ready, then drains: no new connections and requests, open responses go on for at most
    /// `drain_timeout`, and what is left then ends with an error that says so. Deferred calls of hosted tools may finish within the
    /// same time. Dropping the future ends everything at once.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let drain = Arc::clone(self.first.drain());
        let threads = self.others.into_iter().zip(2..).map(|(worker, number)| Thread::start(number, worker));
        let threads = threads.collect::<io::Result<Vec<_>>>().map_err(ServeError::Thread)?;
        let limit = self.first.drain_timeout;
        let stop = async {
            shutdown.await;
            tracing::info!(?limit, "shutting down: open responses may finish");
            drain.begin();
            Ok(Instant::now())
        };
        let certificates = self.first.service().certificates().cloned();
        // Also if this future is dropped: the programs of hosted tools do not outlive the server.
        let stage = StopOnDrop(self.first.execution().cloned());
        let serving = async { tokio::try_join!(stop, self.first.run()) };
        let watching = async {
            match certificates {
                Some(certificates) => certificates.watch().await,
                None => pending().await,
            }
        };
        let (begun, ()) = tokio::select! {
            served = serving => served.map_err(ServeError::Thread)?,
            never = watching => match never {},
        };
        for thread in threads {
            thread.ended().await;
        }
        if let Some(execution) = &stage.0 {
            // Calls that take longer are stopped, and the model is told.
            let _ = timeout_at(begun + limit, execution.settled()).await;
        }
        Ok(())
    }
}

/// Stops the execution stage on drop, whatever else still refers to it.
#[derive(Debug)]
struct StopOnDrop(Option<Arc<Started>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stage) = &self.0 {
            stage.stop();
        }
    }
}

/// A thread that serves. Dropping it ends the thread at once.
#[derive(Debug)]
struct Thread {
    /// Dropping it stops the thread.
    _wanted: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Thread {
    fn start(number: usize, worker: Worker) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (wanted, unwanted) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        thread::Builder::new().name(format!("toolwire-{number}")).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    served = worker.run() => if let Err(error) = served {
                        tracing::error!(%error, "a thread cannot serve");
                    },
                    _ = unwanted => {}
                }
            });
            // Connections that were cut go before the thread counts as ended. A pending DNS lookup is not waited for.
            runtime.shutdown_background();
            // Fails if the server was dropped, and then nothing waits for it.
            let _ = end.send(());
        })?;
        Ok(Self { _wanted: wanted, ended })
    }

    async fn ended(self) {
        // An error means that the thread panicked, so it has ended too.
        let _ = self.ended.await;
    }
}
