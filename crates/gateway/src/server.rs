//! [`Server`]: listens, serves on all its threads, and shuts down gracefully.

use std::{
    future::pending,
    io,
    net::{SocketAddr, TcpListener},
    pin::pin,
    sync::Arc,
    thread,
    time::Duration,
};

use tokio::{
    runtime,
    sync::oneshot,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use super::{
    clock_watch,
    current_service::CurrentService,
    extension::Extension,
    listen,
    reload::Reloader,
    reloads::{Reloads, reloads},
    serve_error::ServeError,
    service::Service,
    tap::Tap,
    worker::{AtEnd, Worker},
};
use toolwire_config::Config;
use toolwire_execution::Started;

/// Time limit for sending the remaining telemetry to the collector when the server stops.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);

/// A server that listens but does not accept connections yet.
///
/// The server runs on the configured number of threads: the caller's, and others that each have their own runtime. Each
/// thread has its own listening sockets, among which the kernel distributes connections, and its own connections to
/// upstreams, so that both sockets of a stream wake only the thread that processes it.
#[derive(Debug)]
pub struct Server {
    first: Worker,
    others: Vec<Worker>,
    current: Arc<CurrentService>,
    reloader: Reloader,
}

impl Server {
    /// Listens on the configured addresses. `tap`, if given, observes all exchanges.
    ///
    /// # Errors
    /// If it is not possible to listen on an address, or if no request can be built for an upstream.
    pub fn bind(config: Arc<Config>, tap: Option<Arc<dyn Tap>>) -> Result<Self, ServeError> {
        Self::bind_or_inherit(config, tap, Vec::new())
    }

    /// Like [`Server::bind`], but uses the `inherited` sockets in place of the configured addresses, if there are any.
    ///
    /// # Errors
    /// As for [`Server::bind`], or if the inherited sockets cannot be used.
    pub fn bind_or_inherit(
        config: Arc<Config>,
        tap: Option<Arc<dyn Tap>>,
        inherited: Vec<TcpListener>,
    ) -> Result<Self, ServeError> {
        Self::bind_extended(config, tap, inherited, None)
    }

    /// Like [`Server::bind_or_inherit`], but adds `extension`, if given.
    ///
    /// # Errors
    /// As for [`Server::bind_or_inherit`], or if the extension cannot start.
    pub fn bind_extended(
        config: Arc<Config>,
        tap: Option<Arc<dyn Tap>>,
        inherited: Vec<TcpListener>,
        extension: Option<Arc<dyn Extension>>,
    ) -> Result<Self, ServeError> {
        let (reloads, requests) = reloads(Arc::clone(&config));
        let first = Service::new(Arc::clone(&config), tap, extension, reloads.clone())?;
        let others: Vec<_> = (1..config.threads).map(|_| first.sibling(None)).collect();
        let services = std::iter::once(first).chain(others);
        let services: Vec<_> = services.map(|service| Arc::new(CurrentService::new(service))).collect();
        let at_end = if inherited.is_empty() { AtEnd::Accept } else { AtEnd::Leave };
        let workers = services.iter().map(|service| Worker::new(Arc::clone(service), at_end));
        let mut workers: Vec<_> = workers.collect();
        let addresses = match at_end {
            AtEnd::Accept => listen_on(&config.listen, &mut workers)?,
            AtEnd::Leave => take_over(inherited, &config, &mut workers)?,
        };
        let mut workers = workers.into_iter();
        let (Some(first), Some(current)) = (workers.next(), services.first().cloned()) else {
            return Err(ServeError::Thread(io::Error::other("there are no threads")));
        };
        current.get().listens_on(&addresses);
        let reloader = Reloader { reloads, requests, services, addresses, retiring: JoinSet::new() };
        Ok(Self { first, others: workers.collect(), current, reloader })
    }

    /// The addresses on which the server listens. A configured port 0 is replaced by the actual port.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.reloader.addresses
    }

    /// Returns a handle that reloads the configuration while the server runs.
    pub fn reloads(&self) -> Reloads {
        self.reloader.reloads.clone()
    }

    /// The stage that runs hosted tools, if there is one.
    pub fn execution(&self) -> Option<Arc<Started>> {
        self.current.get().execution().cloned()
    }

    /// Returns the names of the hosted tools, and of the providers whose tools are not known yet.
    pub fn hosted_tools(&self) -> (Vec<String>, Vec<String>) {
        self.current.get().hosted_tools()
    }

    /// Serves until `shutdown` is ready and `drain_delay` has passed. Then refuses new connections and requests, lets
    /// open responses continue for up to `drain_timeout`, and ends the remaining ones with an error that gives the
    /// reason. Deferred calls to hosted tools may finish within the same time. Dropping the future ends everything
    /// immediately.
    ///
    /// # Errors
    /// If a thread cannot be created.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        // Also stops the stage if this future is dropped: the programs of hosted tools must not outlive the server.
        let stage = StopOnDrop(Arc::clone(&self.current));
        let drain = Arc::clone(self.current.drain());
        let threads = self.others.into_iter().zip(2..).map(|(worker, number)| Thread::start(number, worker));
        let threads = threads.collect::<io::Result<Vec<_>>>().map_err(ServeError::Thread)?;
        let stop = async {
            shutdown.await;
            let config = Arc::clone(&self.current.get().shared.config);
            if let Some(delay) = config.drain_delay {
                tracing::info!(?delay, "not ready any more: requests are still served");
                drain.announce();
                sleep(delay).await;
            }
            let limit = config.drain_timeout;
            tracing::info!(?limit, "shutting down: open responses may finish");
            drain.begin();
            Ok(Instant::now() + limit)
        };
        let certificates = self.current.get().shared.tls.as_ref().map(|tls| Arc::clone(&tls.certificates));
        let watching = async {
            match certificates {
                Some(certificates) => certificates.watch().await,
                None => pending().await,
            }
        };
        let metrics = Arc::clone(&self.current.get().shared.monitors.metrics);
        let mut reloading = pin!(self.reloader.run());
        let served = async {
            let (deadline, ()) = tokio::try_join!(stop, self.first.run()).map_err(ServeError::Thread)?;
            for thread in threads {
                thread.ended().await;
            }
            if let Some(execution) = &stage.0.get().shared.hosting.execution {
                // Calls that take longer are stopped, and their results say so.
                let _ = timeout_at(deadline, execution.settled()).await;
            }
            if let Some(tracer) = &stage.0.get().shared.monitors.tracer {
                tracer.flush(FLUSH_LIMIT).await;
            }
            Ok(())
        };
        tokio::select! {
            served = served => served,
            never = &mut reloading => match never {},
            never = watching => match never {},
            never = clock_watch::watch(metrics) => match never {},
        }
    }
}

/// Gives each worker sockets that listen on these addresses. Returns the addresses with their actual ports.
fn listen_on(addresses: &[SocketAddr], workers: &mut [Worker]) -> Result<Vec<SocketAddr>, ServeError> {
    let mut actual = Vec::new();
    for &address in addresses {
        let failed = |error| ServeError::Bind { address, error };
        let (one, more) = listen::bind(address, workers.len().saturating_sub(1)).map_err(failed)?;
        actual.push(one.local_addr().map_err(failed)?);
        let listeners = std::iter::once(one).chain(more);
        workers.iter_mut().zip(listeners).for_each(|(worker, listener)| worker.listeners.push(listener));
    }
    Ok(actual)
}

/// Gives each worker a duplicate of these sockets. Returns their addresses.
fn take_over(
    inherited: Vec<TcpListener>,
    config: &Config,
    workers: &mut [Worker],
) -> Result<Vec<SocketAddr>, ServeError> {
    let addresses = inherited.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
    let addresses = addresses.map_err(ServeError::Inherited)?;
    if let Some(address) = config.open_to_all(&addresses) {
        return Err(ServeError::Open(address));
    }
    let shared = listen::share(inherited, workers.len()).map_err(ServeError::Inherited)?;
    workers.iter_mut().zip(shared).for_each(|(worker, listeners)| worker.listeners = listeners);
    Ok(addresses)
}

/// On drop, stops the execution stage even if it is still referenced elsewhere, and closes the audit file.
#[derive(Debug)]
struct StopOnDrop(Arc<CurrentService>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let service = self.0.get();
        if let Some(stage) = &service.shared.hosting.execution {
            stage.stop();
        }
        if let Some(audit) = &service.shared.monitors.audit {
            audit.close_file();
        }
    }
}

/// A thread that serves. Dropping it ends the thread immediately.
#[derive(Debug)]
struct Thread {
    /// Dropping this sender ends the thread.
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
            // Drops the connections that were cut before reporting that the thread has ended. Unlike a drop of the
            // runtime, this does not wait for a pending DNS lookup.
            runtime.shutdown_background();
            // Fails if the server was dropped, in which case nothing waits for it.
            let _ = end.send(());
        })?;
        Ok(Self { _wanted: wanted, ended })
    }

    async fn ended(self) {
        // An error means that the thread panicked, so it has ended too.
        let _ = self.ended.await;
    }
}
