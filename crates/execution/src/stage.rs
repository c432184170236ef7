//! [`Execution`]: the stage, shared by all requests.

use std::{
    collections::{HashMap, HashSet},
    io,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::RwLock;
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep},
};

use super::{
    Registrations,
    ask::Ask,
    asker::Asker,
    audit::Audit,
    cache::Cache,
    deferred_turns::DeferredTurns,
    engines,
    files::{self, ImageFiles, ImageGauges},
    http::HttpClient,
    inject::inject,
    permission::{Keeping, Permissions},
    provider::{Host, Provider, ProviderState},
    rates::Rates,
    registry::Registry,
    running::{self, RunningProvider},
    runtime::{Runtime, Tasks},
    settings::ExecutionSettings,
    turn::HostedTurn,
};
use toolwire_net::{
    redact::Redactor,
    store::{Owner, StoreError, Stores},
};
use toolwire_pipeline::conversation::Conversation;

/// The stage. All threads share it.
#[derive(Debug)]
pub struct Execution {
    settings: Arc<ExecutionSettings>,
    /// The providers, in the order of the configuration.
    running: Vec<Arc<RunningProvider>>,
    marks: HashMap<Arc<str>, u64>,
    /// Notified when a provider of this stage, or of an earlier one, offers different tools.
    changed: Arc<Notify>,
    /// Background work of this stage. Ends when another stage replaces it.
    upkeep: Tasks,
    registry: Arc<Registry>,
    permissions: Arc<Permissions>,
    audit: Arc<Audit>,
    deferred: Arc<DeferredTurns>,
    files: Option<Arc<ImageFiles>>,
    cache: Arc<Cache>,
    rates: Rates,
    places: Places,
    secrets: RwLock<Arc<Redactor>>,
    runtime: Arc<Runtime>,
}

/// The stage while a server uses it. Dropping it cancels its background work. If no other stage uses the thread, everything
/// on the thread is cancelled, and the drop blocks until that has ended.
#[derive(Debug)]
pub struct Started(Arc<Execution>);

impl Deref for Started {
    type Target = Arc<Execution>;

    fn deref(&self) -> &Arc<Execution> {
        &self.0
    }
}

impl Started {
    /// Cancels all work on the thread, including the work of other stages, and waits until it has ended.
    pub fn stop(&self) {
        self.0.runtime.stop();
    }

    /// Whether a request still uses the stage. Requests that begin now use its successor.
    pub fn is_used(this: &Arc<Self>) -> bool {
        Arc::strong_count(this) > 1 || Arc::strong_count(&this.0) > 1
    }

    /// Replaces this stage by `next`, if there is one. Programs that have registered with a provider that `next` does not
    /// take over must register again. Requests that have begun here may finish.
    pub fn leave_to(&self, next: Option<&Self>) {
        self.0.upkeep.end();
        let goes_on = |own: &Arc<RunningProvider>| {
            next.is_some_and(|next| next.0.running.iter().any(|running| Arc::ptr_eq(own, running)))
        };
        for running in self.0.running.iter().filter(|own| !goes_on(own)) {
            if let Some(registrations) = Arc::clone(&running.provider).registrations() {
                registrations.end_all();
            }
        }
        // Changes of the providers that `next` takes over may have been reported only to this stage so far.
        if let Some(next) = next {
            next.0.registry.refresh();
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.upkeep.end();
        // The runtime is shared with a stage that replaces this one, so only its last user stops it.
        if Arc::strong_count(&self.0.runtime) == 1 {
            self.stop();
        }
    }
}

/// The services that the server gives the stage.
pub struct Surroundings {
    /// Knows the configured secrets.
    pub redactor: Arc<Redactor>,
    /// The folder for persistent state. `None` if there is none.
    pub state_dir: Option<PathBuf>,
    /// The stores of persistent state, except for files that people edit.
    pub stores: Stores,
    /// Gets the events.
    pub audit: Arc<Audit>,
    /// The gauges of the generated images.
    pub images: ImageGauges,
    /// Asks the configured models.
    pub models: Option<Arc<dyn Ask>>,
    /// The stage that this one replaces, if there is one. Its permissions, switches, rate limits, results for clients' next
    /// requests, cached results and images are taken over.
    pub before: Option<Arc<Execution>>,
    /// Names of the providers to take over: those whose settings have not changed.
    pub unchanged: HashSet<String>,
}

toolwire_pipeline::wire::debug_fields!(Surroundings { state_dir });

#[cfg(test)]
impl Surroundings {
    /// Surroundings without state and models. `redactor` knows the secrets.
    pub(super) fn covering(redactor: Redactor) -> Self {
        let redactor = Arc::new(redactor);
        Self {
            audit: Arc::new(Audit::new(Arc::clone(&redactor), None)),
            redactor,
            state_dir: None,
            stores: Stores::Embedded(None),
            models: None,
            images: ImageGauges::default(),
            before: None,
            unchanged: HashSet::new(),
        }
    }
}

impl Execution {
    /// Starts the stage, and all of its providers that are not running yet.
    ///
    /// # Errors
    /// If no thread can be started. The providers' settings were checked when they were read.
    pub fn start(settings: Arc<ExecutionSettings>, around: Surroundings) -> io::Result<Started> {
        let (given, models) = (Arc::clone(&settings), around.models.clone());
        let http = HttpClient::through(settings.proxies.clone());
        let build = |means: &Means<'_>| {
            let mut providers = Vec::new();
            for entry in &given.providers {
                if let Some(running) = means.kept.iter().find(|running| *running.name == *entry.name) {
                    providers.push(Arc::clone(running));
                    continue;
                }
                let tasks = Arc::new(means.runtime.tasks());
                let (audit, changed) = (Arc::clone(means.audit), Arc::clone(means.changed));
                let host =
                    Host::new(&entry.name, http.clone(), audit, changed).with_files(means.files.clone());
                let host = host.with_models(models.clone()).with_tasks(Arc::clone(&tasks));
                match entry.options.build(&host) {
                    Ok(provider) => {
                        let starting = Arc::clone(&provider);
                        let running = RunningProvider::new(Arc::clone(&host.name), provider, tasks);
                        running.tasks.spawn(async move { starting.start(&host) });
                        providers.push(Arc::new(running));
                    }
                    Err(fault) => {
                        let reason = fault.message;
                        tracing::error!(provider = entry.name, reason, "the provider cannot be used");
                    }
                }
            }
            providers
        };
        let runtime = match &around.before {
            Some(before) => Arc::clone(&before.runtime),
            None => Arc::new(Runtime::start()?),
        };
        Ok(Started(Arc::new(Self::assembled(settings, around, runtime, build))))
    }

    /// Assembles the stage from the providers that `build` makes, on `runtime`.
    pub(super) fn assembled(
        settings: Arc<ExecutionSettings>,
        around: Surroundings,
        runtime: Arc<Runtime>,
        build: impl FnOnce(&Means<'_>) -> Vec<Arc<RunningProvider>>,
    ) -> Self {
        let secrets = RwLock::new(Arc::new(around.redactor.of_configured()));
        let (audit, before) = (around.audit, around.before.as_deref());
        audit.write_to(settings.audit.as_deref());
        let deferred = before.map(|before| Arc::clone(&before.deferred));
        let deferred = deferred.unwrap_or_else(|| Arc::new(DeferredTurns::new(&around.stores)));
        let images = settings.images.clone().in_state_dir(around.state_dir.as_deref());
        let files = before.and_then(|before| before.files.clone()).filter(|files| files.is_by(&images));
        let files = files.or_else(|| ImageFiles::new(&images, around.images).map(Arc::new));
        let upkeep = runtime.tasks();
        if let Some(files) = files.clone() {
            upkeep.spawn(files::keep_clean(files));
        }
        let permissions = match before {
            Some(before) => {
                before.permissions.decide_by(settings.all_permissions());
                Arc::clone(&before.permissions)
            }
            None => {
                let file = around.state_dir.map(|folder| folder.join("permissions.json"));
                let shared = around.stores.text("permissions");
                let keeping = shared.map_or(Keeping::File(file), Keeping::Shared);
                Arc::new(Permissions::new(settings.all_permissions(), Arc::clone(&audit), keeping))
            }
        };
        upkeep.spawn(save(permissions.changed(), Arc::downgrade(&permissions)));
        upkeep.spawn(follow(Arc::downgrade(&permissions)));
        let changed = before.map(|before| Arc::clone(&before.changed)).unwrap_or_default();
        let kept = before.map(|before| before.kept(&around.unchanged, &files)).unwrap_or_default();
        let means = Means { audit: &audit, changed: &changed, files: &files, runtime: &runtime, kept: &kept };
        let running = build(&means);
        let named = running.iter().map(|running| (Arc::clone(&running.name), Arc::clone(&running.provider)));
        let providers = engines::joined(named.collect());
        let disabled = before.map(|before| before.registry.disabled()).unwrap_or_default();
        let registry = Registry::new(Arc::clone(&settings), providers, disabled, Arc::clone(&audit));
        let registry = Arc::new(registry);
        upkeep.spawn(refresh(Arc::clone(&changed), Arc::downgrade(&registry)));
        upkeep.spawn(warn_of_unknown(Arc::downgrade(&registry)));
        let cache = before.filter(|before| before.settings.cache_size == settings.cache_size);
        let cache = cache.map(|before| Arc::clone(&before.cache));
        let cache = cache.unwrap_or_else(|| Arc::new(Cache::new(settings.cache_size, &around.stores)));
        let rates = Rates::new(&settings, before.map(|it| &it.rates));
        let places = Places::new(&settings);
        let marks = running::marks(&running);
        Self {
            settings,
            running,
            marks,
            changed,
            upkeep,
            registry,
            permissions,
            audit,
            deferred,
            files,
            cache,
            rates,
            places,
            secrets,
            runtime,
        }
    }

    /// The providers with these names, provided that the folder of images that they were made with is still `files`.
    fn kept(&self, names: &HashSet<String>, files: &Option<Arc<ImageFiles>>) -> Vec<Arc<RunningProvider>> {
        let are_kept_there = match (&self.files, files) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        let kept = self.running.iter().filter(|running| are_kept_there && names.contains(&*running.name));
        kept.cloned().collect()
    }

    /// The number that distinguishes the results of the provider `name` from results of earlier providers with this name.
    pub(super) fn mark_of(&self, name: &str) -> u64 {
        self.marks.get(name).copied().unwrap_or_default()
    }

    pub fn settings(&self) -> &ExecutionSettings {
        &self.settings
    }

    /// The generated images, if there is a folder for them.
    pub fn files(&self) -> Option<&Arc<ImageFiles>> {
        self.files.as_ref()
    }

    /// The tools of all providers.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The permissions of calls.
    pub fn permissions(&self) -> &Arc<Permissions> {
        &self.permissions
    }

    /// The bus of events.
    pub fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Completes the turns of the history that the client knows only in part. Returns whether there were any.
    ///
    /// # Errors
    /// The store that instances share cannot be reached.
    pub async fn complete(&self, conversation: &mut Conversation, client: Owner) -> Result<bool, StoreError> {
        let deadline = Instant::now() + self.settings.deadline;
        self.deferred.restore(conversation, client, deadline).await
    }

    /// Whether [`Execution::complete`] would wait for calls that are still running.
    pub fn is_awaited(&self, conversation: &Conversation, client: Owner) -> bool {
        self.deferred.is_awaited(conversation, client)
    }

    /// Waits until all calls have ended whose results are for a client's next request.
    pub async fn settled(&self) {
        self.deferred.settled().await;
    }

    /// Results of hosted calls for the client's next request.
    pub(super) fn deferred(&self) -> &Arc<DeferredTurns> {
        &self.deferred
    }

    /// The runtime of hosted tools.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The provider `name`.
    pub fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        let mut providers = self.registry.providers().iter();
        providers.find(|(own, _)| **own == *name).map(|(_, provider)| Arc::clone(provider))
    }

    /// The registrations of all providers at which programs may register.
    pub fn registrations(&self) -> Vec<Arc<Registrations>> {
        let providers = self.registry.providers().iter();
        providers.filter_map(|(_, provider)| Arc::clone(provider).registrations()).collect()
    }

    /// Cached results.
    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Rate limits of tools.
    pub(super) fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Limits of running calls.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the redactor that knows only the configured secrets.
    pub(super) fn secrets(&self) -> Arc<Redactor> {
        Arc::clone(&self.secrets.read())
    }

    /// From now on, redacts the configured secrets that `redactor` knows.
    pub fn know_secrets(&self, redactor: &Redactor) {
        let secrets = Arc::new(redactor.of_configured());
        *self.secrets.write() = secrets;
    }

    /// A turn in which a person or a command calls tools by their own names, without a model. The same rules apply.
    pub fn by_hand(self: &Arc<Self>, asker: Asker) -> HostedTurn {
        HostedTurn::new(Arc::clone(self), self.registry.snapshot(), None, asker)
    }

    /// Declares the hosted tools that the model gets in this request, in addition to the client's, whose names take
    /// precedence. `unserved` are the types of the server tools that the upstream does not have. `None` if the model gets no
    /// hosted tools.
    pub fn offer(
        self: &Arc<Self>,
        conversation: &mut Conversation,
        unserved: &[String],
        asker: Asker,
    ) -> Option<HostedTurn> {
        let snapshot = self.registry.snapshot();
        let clash = self.settings.clash;
        let offered = inject(conversation, &snapshot, unserved, clash, &self.permissions, &asker);
        let is_offered = !offered.is_empty();
        is_offered.then(|| HostedTurn::new(Arc::clone(self), snapshot, Some(offered), asker))
    }
}

/// The services that providers are made with.
pub(super) struct Means<'m> {
    audit: &'m Arc<Audit>,
    changed: &'m Arc<Notify>,
    files: &'m Option<Arc<ImageFiles>>,
    runtime: &'m Runtime,
    /// Providers of the previous stage.
    kept: &'m [Arc<RunningProvider>],
}

/// Permits for running calls, at each provider and in total.
#[derive(Debug)]
pub(super) struct Places {
    providers: HashMap<String, Semaphore>,
    all: Semaphore,
}

impl Places {
    fn new(settings: &ExecutionSettings) -> Self {
        let places = |most: usize| Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        let providers = settings.providers.iter();
        Self {
            providers: providers.map(|entry| (entry.name.clone(), places(entry.max_running))).collect(),
            all: places(settings.max_running),
        }
    }

    /// The permits of a provider.
    pub(super) fn of_provider(&self, name: &str) -> Option<&Semaphore> {
        self.providers.get(name)
    }

    /// The permits of all providers together.
    pub(super) fn all(&self) -> &Semaphore {
        &self.all
    }
}

/// Writes changes of remembered permissions until the runtime ends. Changes that are still unwritten then are written when
/// the permissions are dropped.
pub(super) async fn save(changed: Arc<Notify>, permissions: Weak<Permissions>) {
    /// Delay before a file that could not be written is tried again.
    const RETRY: Duration = Duration::from_secs(5);
    loop {
        changed.notified().await;
        let Some(permissions) = permissions.upgrade() else { return };
        // Fails if the runtime ends, or if the rules cannot be written, which has been logged. A file is tried again.
        let saved = permissions.save().await;
        let pause = permissions.pause();
        drop(permissions);
        sleep(if saved.is_ok() { pause } else { RETRY.max(pause) }).await;
    }
}

/// Follows other instances' changes to the remembered rules while questions here wait.
async fn follow(permissions: Weak<Permissions>) {
    const PAUSE: Duration = Duration::from_secs(1);
    loop {
        sleep(PAUSE).await;
        let Some(permissions) = permissions.upgrade() else { return };
        if permissions.has_to_follow() {
            // Fails while the store cannot be reached, which has been logged.
            let _ = permissions.follow().await;
        }
    }
}

/// Asks the providers for their tools again when one of them reports a change.
async fn refresh(changed: Arc<Notify>, registry: Weak<Registry>) {
    /// Changes within this time are handled together: a provider may change its tools all the time.
    const PAUSE: Duration = Duration::from_millis(20);
    loop {
        changed.notified().await;
        let Some(registry) = registry.upgrade() else { return };
        registry.refresh();
        drop(registry);
        sleep(PAUSE).await;
    }
}

/// Warns of rules for tools that no provider offers, once all providers have had time to start.
async fn warn_of_unknown(registry: Weak<Registry>) {
    /// Time for a provider to start.
    const PATIENCE: Duration = Duration::from_secs(10);
    let is_starting = |registry: Arc<Registry>| {
        registry.providers().iter().any(|(_, provider)| provider.status().state == ProviderState::Starting)
    };
    if registry.upgrade().is_some_and(is_starting) {
        sleep(PATIENCE).await;
    }
    if let Some(registry) = registry.upgrade() {
        registry.warn_of_unknown();
    }
}
