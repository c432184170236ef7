//! Builds a [`Service`]: at the start of the server, for a reloaded configuration, and for each thread.
//!
//! The first two share one procedure. Each part of the new service is built from its predecessor and the new
//! configuration. State that clients and operators rely on is retained ([`Before`]), and so are connections to
//! unchanged upstreams.

use std::{collections::HashSet, io, sync::Arc};

use super::{Clients, Extensions, Hosting, ListenersTls, Monitors, Service, ServiceState, StoredState};
use crate::{
    ServeError,
    asking::{ConfiguredModels, NewestModels, Witness},
    auth::Keys,
    budget::Budget,
    extension::{Extension, ServiceParts},
    failover::Failover,
    limits::{DistributedLimits, Ledger},
    missed_calls::MissedCalls,
    models::Models,
    observe::Metrics,
    permits::Queue,
    reloads::Reloads,
    servers::Servers,
    stamp::unix_time,
    stored_responses::Responses,
    tap::Tap,
    turn_states::TurnStates,
    upstream::{Client, ReplacedAccount},
    upstream_capabilities::{LearnedMeans, UpstreamCapabilities},
};
use toolwire_config::{Changes, Config, Limits, StoreKind};
use toolwire_execution::{Audit, Execution, Observer, Surroundings, ask::Ask};
use toolwire_net::{
    redact::Redactor,
    store::{Reach, Stores},
    telemetry::Tracer,
    tls::Certificates,
};

/// The tables that define the execution stage. If one of them changes, a new stage replaces the current one and takes
/// over unchanged providers.
const STAGE: [&str; 4] = ["execution", "providers", "tools", "permissions"];

/// State that outlives every configuration.
struct LastingState {
    metrics: Arc<Metrics>,
    tap: Option<Arc<dyn Tap>>,
    extension: Option<Arc<dyn Extension>>,
    reloads: Reloads,
}

/// The service to replace, and the settings that differ in the new one.
///
/// Everything with counts or memory is retained: metrics, stored responses, the state of turns, what was learned about
/// upstreams, their queues, the memory budget for requests, the event bus, and the sessions of the admin API.
#[derive(Debug, Clone, Copy)]
struct Before<'b> {
    service: &'b Service,
    changes: &'b Changes,
}

impl Service {
    /// Creates the service of a server's first thread.
    ///
    /// # Errors
    /// If no request can be built for an upstream, or if the thread for hosted tools cannot be created.
    pub(crate) fn new(
        config: Arc<Config>,
        tap: Option<Arc<dyn Tap>>,
        extension: Option<Arc<dyn Extension>>,
        reloads: Reloads,
    ) -> Result<Self, ServeError> {
        let metrics = Arc::new(Metrics::new(config.metrics.tool_names));
        let status = reloads.status();
        metrics.config_loaded(status.generation, status.loaded_at);
        Self::assembled(config, LastingState { metrics, tap, extension, reloads }, None)
    }

    /// Creates the service that replaces this one on the same thread. `changes` are the settings that differ in
    /// `config`.
    ///
    /// # Errors
    /// As for [`Service::new`]. Requests in progress are not affected.
    pub(crate) fn renewed(&self, config: Arc<Config>, changes: &Changes) -> Result<Self, ServeError> {
        let lasting = LastingState {
            metrics: Arc::clone(&self.shared.monitors.metrics),
            tap: self.shared.monitors.tap.clone(),
            extension: self.shared.extensions.own.clone(),
            reloads: self.shared.reloads.clone(),
        };
        Self::assembled(config, lasting, Some(Before { service: self, changes }))
    }

    fn assembled(
        config: Arc<Config>,
        lasting: LastingState,
        before: Option<Before<'_>>,
    ) -> Result<Self, ServeError> {
        let LastingState { metrics, tap, extension, reloads } = lasting;
        let earlier = before.map(|before| &*before.service.shared);
        let stores = match earlier {
            Some(earlier) => earlier.stored.stores.clone(),
            None => stores(&config, &metrics).map_err(ServeError::Thread)?,
        };
        let redactor = redactor(&config, earlier);
        let clients = clients(&config, &metrics, &redactor, before)?;
        let listed = before.map(|before| (&*before.service.shared.models, before.changes));
        let models = Arc::new(Models::new(Arc::clone(&config), listed)?);
        let capabilities = capabilities(&config, &metrics, before)?;
        let audit = bus(&config, &metrics, &redactor, extension.as_deref(), earlier);
        let witness = Witness { metrics: Arc::clone(&metrics), audit: audit.clone() };
        let hosting = hosting(&config, &clients, &capabilities, &stores, &redactor, &witness, before)?;
        let keys = match earlier {
            Some(earlier) => Arc::clone(&earlier.keys),
            None => keys(&config, &stores, &metrics).map_err(ServeError::Thread)?,
        };
        let tls = match earlier {
            // A certificate is replaced without a new configuration; all other TLS settings apply until the process
            // ends.
            Some(earlier) => earlier.tls.clone(),
            None => listeners_tls(&config, &metrics)?,
        };
        let parts = ServiceParts {
            config: &config,
            execution: hosting.execution.as_deref().map(|started| &**started),
            audit: audit.as_ref(),
            keys: &keys,
            metrics: &metrics,
            reloads: &reloads,
        };
        let extensions = Extensions::new(extension, parts, earlier).map_err(ServeError::Thread)?;
        let failover = match earlier {
            Some(earlier) => earlier.failover.with_settings(config.failover.clone()),
            None => Failover::new(config.failover.clone(), Arc::clone(&metrics)),
        };
        let budget = match earlier {
            Some(earlier) => earlier.budget.with_limit(config.limits.max_pending_bodies),
            None => Budget::new(config.limits.max_pending_bodies),
        };
        let tracer = match earlier {
            Some(earlier) => earlier.monitors.tracer.clone(),
            None => tracer(&config, &metrics).map_err(ServeError::Thread)?,
        };
        let asking = ConfiguredModels::new(&config, &capabilities, clients.clone(), witness);
        let shared = ServiceState {
            stored: stored(&config, stores, &metrics, earlier),
            keys,
            models,
            capabilities,
            missed_calls: Arc::new(MissedCalls::new(Arc::clone(&metrics), audit.clone())),
            failover: Arc::new(failover),
            hosting,
            monitors: Monitors { metrics, audit, tap, tracer, redactor },
            extensions,
            drain: earlier.map(|earlier| Arc::clone(&earlier.drain)).unwrap_or_default(),
            budget: Arc::new(budget),
            reloads,
            tls,
            config,
        };
        let shared = Arc::new(shared);
        let held = Arc::downgrade(&shared);
        let count = move || held.upgrade().map(|shared| shared.held()).unwrap_or_default();
        shared.monitors.metrics.memory().set(count);
        Ok(Self { clients, asking: Arc::new(asking), shared })
    }

    /// Returns the accounts of those upstreams whose client differs in `next`, this service's replacement on the same
    /// thread.
    pub(crate) fn accounts_replaced_by(&self, next: &Self) -> Vec<ReplacedAccount> {
        let stays = |name: &str, client: &Arc<Client>| {
            next.clients.get(name).is_some_and(|next| Arc::ptr_eq(next, client))
        };
        let replaced = self.clients.iter().filter(|(name, client)| !stays(name, client));
        replaced.filter_map(|(_, client)| client.replaced_account()).collect()
    }

    /// Creates the service for another thread, which has its own connections to upstreams and shares everything else.
    /// `before` is the service to replace on that thread, if there is one.
    pub(crate) fn sibling(&self, before: Option<&Self>) -> Self {
        let ServiceState { config, capabilities, monitors, .. } = &*self.shared;
        let clients = clients_of_thread(&self.clients, before.map(|before| &before.clients));
        let witness = Witness { metrics: Arc::clone(&monitors.metrics), audit: monitors.audit.clone() };
        let asking = ConfiguredModels::new(config, capabilities, clients.clone(), witness);
        Self { clients, asking: Arc::new(asking), shared: Arc::clone(&self.shared) }
    }
}

/// Creates the redactor. It also masks the previous secrets, which requests in progress still use.
fn redactor(config: &Config, earlier: Option<&ServiceState>) -> Arc<Redactor> {
    let old_secrets = earlier.into_iter().flat_map(|earlier| earlier.config.secrets());
    let secrets = config.secrets().chain(old_secrets);
    Arc::new(match earlier {
        Some(earlier) => earlier.monitors.redactor.with_configured(secrets),
        None => Redactor::new(secrets),
    })
}

/// Creates the state that outlives a request, with the limits of `config`.
fn stored(config: &Config, stores: Stores, metrics: &Metrics, earlier: Option<&ServiceState>) -> StoredState {
    let Limits { max_turn_state, turn_state_ttl, max_body, .. } = config.limits;
    let unsaved = Stores::in_folder(None);
    let lasting = if config.store == StoreKind::Off { &unsaved } else { &stores };
    let (turns, responses, hops) = match earlier.map(|earlier| &earlier.stored) {
        Some(stored) => (
            stored.turns.with_limits(max_turn_state, turn_state_ttl),
            stored.responses.with_max_body(max_body),
            Arc::clone(&stored.hops),
        ),
        None => (
            TurnStates::new(max_turn_state, turn_state_ttl, lasting),
            Responses::new(config, &stores, metrics),
            Arc::default(),
        ),
    };
    StoredState { stores, responses, turns: Arc::new(turns), hops }
}

/// The places where state is stored.
fn stores(config: &Config, metrics: &Metrics) -> io::Result<Stores> {
    match &config.store {
        StoreKind::Redis(address) => {
            let away = metrics.store_away();
            let on_change = move |reach| _ = away.set((reach == Reach::Away).into());
            Stores::on_server(address.clone(), Box::new(on_change))
        }
        StoreKind::Embedded | StoreKind::Off => {
            Ok(Stores::Embedded(config.state_dir.clone(), metrics.store_files()))
        }
    }
}

impl Extensions {
    /// Creates the extension for the configuration of `parts`.
    fn new(
        own: Option<Arc<dyn Extension>>,
        parts: ServiceParts<'_>,
        earlier: Option<&ServiceState>,
    ) -> io::Result<Self> {
        let configured = match (earlier.and_then(|earlier| earlier.extensions.configured.as_ref()), &own) {
            (Some(earlier), _) => earlier.renewed(parts)?,
            (None, Some(own)) => own.configured(parts)?,
            (None, None) => None,
        };
        Ok(Self { own, configured })
    }
}

fn keys(config: &Arc<Config>, stores: &Stores, metrics: &Metrics) -> io::Result<Arc<Keys>> {
    Keys::new(config, ledger(config, stores, metrics), unix_time()).map(Arc::new)
}

/// The ledger of clients' usage.
fn ledger(config: &Config, stores: &Stores, metrics: &Metrics) -> Ledger {
    match stores.limits() {
        Some(limits) => {
            let Limits { instances, unchecked_budgets, .. } = config.limits;
            Ledger::shared(DistributedLimits {
                limits,
                instances,
                unchecked_budgets,
                unchecked: metrics.unchecked_requests(),
            })
        }
        None if config.store == StoreKind::Off => Ledger::new(&Stores::in_folder(None)),
        None => Ledger::new(stores),
    }
}

/// Creates the tracer with its exporter, if there is a collector.
fn tracer(config: &Config, metrics: &Arc<Metrics>) -> io::Result<Option<Arc<Tracer>>> {
    config.telemetry.as_ref().map(|settings| crate::observe::start_export(settings, metrics)).transpose()
}

fn listeners_tls(config: &Config, metrics: &Metrics) -> Result<Option<ListenersTls>, ServeError> {
    let Some(settings) = &config.tls else { return Ok(None) };
    let certificates = Certificates::new(settings, metrics.certificates());
    let config = settings.accepting(certificates.clone()).map_err(ServeError::Tls)?;
    Ok(Some(ListenersTls { certificates, config }))
}

/// Returns the clients of all upstreams. Reuses clients that have not changed, and queues whose limits have not
/// changed.
fn clients(
    config: &Config,
    metrics: &Metrics,
    redactor: &Arc<Redactor>,
    before: Option<Before<'_>>,
) -> Result<Clients, ServeError> {
    let clients = config.upstreams.iter().map(|upstream| {
        let name = upstream.name.clone();
        let known = before.and_then(|before| Some((before.service.clients.get(&name)?, before.changes)));
        if let Some((client, changes)) = known
            && !changes.touch_entry("upstreams", &name)
        {
            return Ok((name, Arc::clone(client)));
        }
        let queue = known.filter(|(client, _)| client.upstream().queue == upstream.queue);
        let queue = match queue {
            Some((client, _)) => Arc::clone(client.queue()),
            None => Arc::new(Queue::new(upstream.queue.clone(), metrics.waiting(&name))),
        };
        let client = Client::new(Arc::clone(upstream), queue, metrics, redactor)
            .map_err(|error| ServeError::Upstream { name: name.clone(), error })?;
        Ok((name, Arc::new(client)))
    });
    clients.collect()
}

/// Returns clients of the same upstreams for another thread. Reuses that thread's `own` clients if they match; all
/// other clients are new and have no connections yet.
fn clients_of_thread(clients: &Clients, own: Option<&Clients>) -> Clients {
    let of_thread = |(name, client): (&String, &Arc<Client>)| {
        let own = own.and_then(|own| own.get(name)).filter(|own| own.is_sibling(client));
        (name.clone(), own.map_or_else(|| Arc::new(client.sibling()), Arc::clone))
    };
    clients.iter().map(of_thread).collect()
}

/// Returns what was learned about upstreams, except those whose settings have changed.
fn capabilities(
    config: &Config,
    metrics: &Arc<Metrics>,
    before: Option<Before<'_>>,
) -> Result<Arc<UpstreamCapabilities>, ServeError> {
    let known = before.map(|before| (&before.service.shared.capabilities.servers, before.changes));
    let servers =
        Servers::new(config, known).map_err(|(name, error)| ServeError::Upstream { name, error })?;
    let (means, forms, refusals, templates) = match before {
        Some(Before { service, changes }) => {
            let names = service.clients.keys().filter(|name| changes.touch_entry("upstreams", name));
            names.for_each(|name| {
                service.shared.capabilities.means.forget(name);
                service.shared.capabilities.forms.forget(name);
                service.shared.capabilities.refusals.forget(name);
                service.shared.capabilities.templates.forget(name);
            });
            let UpstreamCapabilities { means, forms, refusals, templates, .. } =
                &*service.shared.capabilities;
            (Arc::clone(means), Arc::clone(forms), Arc::clone(refusals), Arc::clone(templates))
        }
        None => {
            let means = Arc::new(LearnedMeans::new(Arc::clone(metrics)));
            (means, Arc::default(), Arc::default(), Arc::default())
        }
    };
    Ok(Arc::new(UpstreamCapabilities { means, forms, refusals, templates, servers }))
}

/// Returns the event bus, if there may be subscribers.
fn bus(
    config: &Config,
    metrics: &Arc<Metrics>,
    redactor: &Arc<Redactor>,
    extension: Option<&dyn Extension>,
    earlier: Option<&ServiceState>,
) -> Option<Arc<Audit>> {
    if let Some(audit) = earlier.and_then(|earlier| earlier.monitors.audit.as_ref()) {
        audit.know_secrets(redactor);
        return Some(Arc::clone(audit));
    }
    if config.execution.is_none() && config.admin.is_none() {
        return None;
    }
    let (counted, observe) = (Arc::clone(metrics), extension.map(Extension::bus_observer));
    let observer: Observer = Box::new(move |record| {
        counted.hosted(record);
        if let Some(observe) = &observe {
            observe(record);
        }
    });
    Some(Arc::new(Audit::new(Arc::clone(redactor), Some(observer))))
}

/// The execution stage, if it is configured, and the models that it asks. The previous stage is kept if its tables are
/// the same.
fn hosting(
    config: &Arc<Config>,
    clients: &Clients,
    capabilities: &Arc<UpstreamCapabilities>,
    stores: &Stores,
    redactor: &Arc<Redactor>,
    witness: &Witness,
    before: Option<Before<'_>>,
) -> Result<Hosting, ServeError> {
    let earlier = before.map(|before| &before.service.shared.hosting);
    let vision = earlier.map(|earlier| Arc::clone(&earlier.vision)).unwrap_or_default();
    let (Some(settings), Some(audit)) = (&config.execution, &witness.audit) else {
        return Ok(Hosting { execution: None, models: None, vision });
    };
    let known = before.and_then(|before| Some((earlier?.execution.as_ref()?, before)));
    let asked = known.and_then(|_| earlier?.models.clone());
    // The tools run on their own thread, which needs its own clients.
    let own = clients_of_thread(clients, asked.as_ref().map(|models| models.clients()).as_ref());
    let newest = ConfiguredModels::new(config, capabilities, own, witness.clone());
    let models = match asked {
        Some(models) => {
            models.replace(newest);
            models
        }
        None => Arc::new(NewestModels::new(newest)),
    };
    let mut unchanged = HashSet::new();
    if let Some((stage, Before { changes, .. })) = known {
        if !STAGE.iter().any(|table| changes.touch(table)) {
            stage.know_secrets(redactor);
            return Ok(Hosting { execution: Some(Arc::clone(stage)), models: Some(models), vision });
        }
        let names = settings.providers.iter().map(|entry| &entry.name);
        let names = names.filter(|name| !changes.touch_entry("providers", name)).cloned();
        unchanged.extend(names.filter(|_| !changes.touch("execution.proxy")));
    }
    let asked: Arc<dyn Ask> = Arc::clone(&models) as _;
    let around = Surroundings {
        redactor: Arc::clone(redactor),
        state_dir: config.state_dir.clone(),
        stores: stores.clone(),
        audit: Arc::clone(audit),
        images: witness.metrics.images(),
        models: Some(asked),
        has_people: config.admin.is_some(),
        before: known.map(|(stage, _)| Arc::clone(&***stage)),
        unchanged,
    };
    let started = Execution::start(Arc::clone(settings), around).map_err(ServeError::Thread)?;
    Ok(Hosting { execution: Some(Arc::new(started)), models: Some(models), vision })
}
