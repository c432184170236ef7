//! [`Reloads`]: reloads the configuration while the server runs.
//!
//! ```text
//! signal, changed file, admin API ─▶ Reloads ─▶ Reloader (one at a time): read and check everything ─▶ a new service
//!                                                                                └▶ problems: nothing changes
//! ```
//!
//! Requests in progress keep the service with which they started ([`CurrentService`]). The replaced execution stage
//! ends after the last of them. The accounts of changed upstreams end once their sessions are no longer being
//! refreshed.

use std::{convert::Infallible, error::Error, future::pending, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    task::{JoinSet, spawn_blocking},
    time::sleep,
};

use super::{
    current_service::CurrentService,
    reloads::{Asked, ReloadError, ReloadReason, ReloadStatus, Reloaded, Reloads, Requests},
    service::{ListenersTls, Service},
    stamp::unix_time,
    upstream::ReplacedAccount,
};
use crate::observe::{List, untrusted_text::clip};
use toolwire_config::{Changes, Loaded, Problem, Problems, Severity};
use toolwire_execution::{AuditEvent, Started, audit::unix_millis};

/// Maximum number of paths in a log line.
const MAX_LOGGED: usize = 20;

/// Maximum number of problems that are stored and published.
const MAX_PROBLEMS: usize = 50;

/// Maximum length in bytes of such a problem's message. Some messages repeat the value.
const MAX_MESSAGE: usize = 500;

/// Interval at which a replaced stage or account is checked for remaining users.
const RETIRING: Duration = Duration::from_millis(100);

/// Replaces the services of all threads. Dropping it ends the stages that were replaced.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) reloads: Reloads,
    pub(super) requests: Requests,
    pub(super) services: Vec<Arc<CurrentService>>,
    pub(super) addresses: Vec<SocketAddr>,
    /// Waits for the last users of replaced stages and accounts.
    pub(super) retiring: JoinSet<()>,
}

/// The first thread's service for a new configuration.
struct Prepared {
    service: Service,
    changes: Changes,
    restart: Changes,
    warnings: Vec<Problem>,
}

impl Reloader {
    /// Handles requests for a reload, one at a time.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            let Some(Asked { reason, answer }) = self.requests.0.recv().await else { pending().await };
            while self.retiring.try_join_next().is_some() {}
            // An error means that the result is no longer awaited.
            let _ = answer.send(self.reload(reason).await);
        }
    }

    async fn reload(&mut self, reason: ReloadReason) -> Result<Reloaded, ReloadError> {
        let Some(first) = self.services.first().cloned() else { return Err(ReloadError::Stopping) };
        let before = first.get();
        if !first.drain().is_serving() {
            return Err(ReloadError::Stopping);
        }
        if before.shared.monitors.tap.is_some() {
            tracing::warn!("the configuration is not reloaded while exchanges are recorded");
            return Err(ReloadError::Recording);
        }
        let (service, addresses) = (Arc::clone(&before), self.addresses.clone());
        let may_skip = reason == ReloadReason::FileChanged && self.reloads.status.lock().failed.is_none();
        let prepared = spawn_blocking(move || prepare(&service, &addresses, may_skip)).await;
        match prepared {
            Ok(Ok(Some(prepared))) => {
                let reloaded = self.install(reason, &before, prepared);
                if let Some(ListenersTls { certificates, .. }) = &before.shared.tls {
                    // The certificates log their own problems.
                    let _ = certificates.reload().await;
                }
                Ok(reloaded)
            }
            Ok(Ok(None)) => {
                let ReloadStatus { generation, restart_required, .. } = self.reloads.status();
                Ok(Reloaded { generation, restart_required, changed: Vec::new() })
            }
            Ok(Err(Problems(problems))) => Err(self.failed(reason, &before, problems)),
            Err(_) => {
                let problem = Problem::error("the configuration could not be put into place");
                Err(self.failed(reason, &before, vec![problem]))
            }
        }
    }

    fn install(&mut self, reason: ReloadReason, before: &Service, prepared: Prepared) -> Reloaded {
        let Prepared { service, changes, restart, warnings } = prepared;
        service.listens_on(&self.addresses);
        service.shared.keys.reloaded(&service.shared.config, unix_time());
        let status = {
            let mut status = self.reloads.status.lock();
            *status = ReloadStatus {
                generation: status.generation + 1,
                config: Arc::clone(&service.shared.config),
                loaded_at: unix_millis(),
                restart_required: restart.paths().to_vec(),
                failed: None,
            };
            status.clone()
        };
        service.shared.monitors.metrics.config_loaded(status.generation, status.loaded_at);
        let (audit, stage) =
            (service.shared.monitors.audit.clone(), service.shared.hosting.execution.clone());
        let others = self.services.iter().skip(1);
        others.for_each(|other| other.replace(service.sibling(Some(&other.get()))));
        for account in before.accounts_replaced_by(&service) {
            self.retiring.spawn(retire_account(account));
        }
        if let Some(first) = self.services.first() {
            first.replace(service);
            if let Some(replaced) = &before.shared.hosting.execution
                && !stage.as_ref().is_some_and(|stage| Arc::ptr_eq(stage, replaced))
            {
                replaced.leave_to(stage.as_deref());
                self.retiring.spawn(retire(Arc::clone(replaced), Arc::clone(first)));
            }
        }
        before.replaced(&changes);
        warnings.iter().for_each(Problem::log);
        log(reason, status.generation, &changes, &restart);
        if let Some(audit) = audit {
            audit.publish(None, AuditEvent::ConfigLoaded { ok: true, errors: Vec::new() });
        }
        Reloaded {
            generation: status.generation,
            changed: changes.paths().to_vec(),
            restart_required: status.restart_required,
        }
    }

    /// Reports a failed reload, which has changed nothing.
    fn failed(&self, reason: ReloadReason, service: &Service, mut problems: Vec<Problem>) -> ReloadError {
        problems.iter().for_each(Problem::log);
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        tracing::error!(
            reason = reason.words(),
            errors,
            "the configuration was not reloaded; the one before stays"
        );
        problems.truncate(MAX_PROBLEMS);
        for problem in &mut problems {
            problem.message = clip(&problem.message, MAX_MESSAGE).into_owned();
        }
        self.reloads.status.lock().failed = Some((unix_millis(), problems.clone()));
        service.shared.monitors.metrics.config_failed();
        if let Some(audit) = &service.shared.monitors.audit {
            let errors = problems.iter().map(ToString::to_string).collect();
            audit.publish(None, AuditEvent::ConfigLoaded { ok: false, errors });
        }
        ReloadError::Invalid(problems)
    }
}

/// Reads the configuration and creates a service for it. Blocks on the disk. Returns `None` if `may_skip` is set and
/// none of the configuration's files has changed.
fn prepare(before: &Service, addresses: &[SocketAddr], may_skip: bool) -> Result<Option<Prepared>, Problems> {
    let running = &before.shared.config;
    let Loaded { config, warnings } = running.read_again()?;
    if may_skip && running.files() == config.files() {
        return Ok(None);
    }
    let (config, restart) = config.keeping_fixed(running);
    if let Some(address) = config.open_to_all(addresses) {
        let message = format!(
            "without api_keys, toolwire may listen only on loopback addresses, but it listens on {address} until it is restarted"
        );
        return Err(Problems(vec![Problem::error(message)]));
    }
    let changes = running.changes_to(&config);
    let service = before.renewed(Arc::new(config), &changes);
    let service = service.map_err(|error| Problems(vec![Problem::error(error.to_string())]))?;
    Ok(Some(Prepared { service, changes, restart, warnings }))
}

fn log(reason: ReloadReason, generation: u64, changes: &Changes, restart: &Changes) {
    let listed = |changes: &Changes| List(changes.paths().iter().take(MAX_LOGGED).cloned().collect());
    let (changed, needs_restart) = (listed(changes), listed(restart));
    let changed: &(dyn Error + 'static) = &changed;
    let needs_restart: &(dyn Error + 'static) = &needs_restart;
    let (count, is_complete) = (changes.paths().len(), restart.paths().is_empty());
    let reason = reason.words();
    tracing::info!(generation, reason, count, changed, "the configuration was reloaded");
    if !is_complete {
        tracing::warn!(settings = needs_restart, "these settings change with the next start");
    }
}

/// Keeps an account alive until no request uses it and its session is not being refreshed. Dropping it then never
/// blocks a thread.
async fn retire_account(account: ReplacedAccount) {
    while account.is_busy() {
        sleep(RETIRING).await;
    }
}

/// Keeps a stage alive until no request uses it. Then stops its programs, and closes the audit file if no stage is
/// left.
async fn retire(stage: Arc<Started>, current: Arc<CurrentService>) {
    while Started::is_used(&stage) {
        sleep(RETIRING).await;
    }
    let end = move || {
        drop(stage);
        let service = current.get();
        if let (None, Some(audit)) = (&service.shared.hosting.execution, &service.shared.monitors.audit) {
            audit.close_file();
        }
    };
    // An error means that the runtime is shutting down.
    let _ = spawn_blocking(end).await;
}
