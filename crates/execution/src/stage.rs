//! [`Execution`]: the execution stage.

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
    cancel::Cancels,
    deferred_turns::DeferredTurns,
    engines,
    files::{self, ImageFiles, ImageGauges},
    http::HttpClient,
    permission::{Keeping, Permissions},
    provider::{Host, Provider, ProviderState},
    question::AskPerson,
    rates::Rates,
    registry::Registry,
    running::{self, RunningProvider},
    runtime::{Runtime, Tasks},
    settings::ExecutionSettings,
    turn::HostedTurn,
};
use toolwire_net::{
    redact::Redactor,
    store::{HeldBytes, Owner, StoreError, Stores},
};
use toolwire_pipeline::conversation::Conversation;

/// The execution stage. Shared by all threads.
#[derive(Debug)]
pub struct Execution {
    settings: Arc<ExecutionSettings>,
    /// In the order of the configuration.
    running: Vec<Arc<RunningProvider>>,
    marks: HashMap<Arc<str>, u64>,
    /// Notified when the tools of a provider of this stage or of an earlier one have changed.
    changed: Arc<Notify>,
    /// Background work, which is cancelled when another stage replaces this one.
    upkeep: Tasks,
    registry: Arc<Registry>,
    permissions: Arc<Permissions>,
    audit: Arc<Audit>,
    deferred: Arc<DeferredTurns>,
    files: Option<Arc<ImageFiles>>,
    cache: Arc<Cache>,
    rates: Rates,
    places: Places,
    /// The running calls of this stage and of those before it.
    cancels: Arc<Cancels>,
    secrets: RwLock<Arc<Redactor>>,
    runtime: Arc<Runtime>,
}

/// A stage that a server is using. Dropping it cancels its background work. If no other stage uses the thread, the drop
/// also cancels everything on the thread, and blocks until that has ended.
#[derive(Debug)]
pub struct Started(Arc<Execution>);

impl Deref for Started {
    type Target = Arc<Execution>;

    fn deref(&self) -> &Arc<Execution> {
        &self.0
    }
}

impl Started {
    /// Cancels all work on the thread, including that of other stages, and waits for it to end.
    pub fn stop(&self) {
        self.0.runtime.stop();
    }

    /// Whether requests are still using the stage after its replacement.
    pub fn is_used(this: &Arc<Self>) -> bool {
        Arc::strong_count(this) > 1 || Arc::strong_count(&this.0) > 1
    }

    /// Hands over to the stage `next`, if there is one. Programs that have registered with a provider that `next` does
    /// not take over must register again. Running requests can finish.
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
        // Providers that `next` has taken over may have reported changes only to this stage.
        if let Some(next) = next {
            next.0.registry.refresh();
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.upkeep.end();
        // The runtime is shared with the stage that replaces this one, so only the last user stops it.
        if Arc::strong_count(&self.0.runtime) == 1 {
            self.stop();
        }
    }
}

/// What the server provides for the stage.
pub struct Surroundings {
    /// Masks the configured secrets.
    pub redactor: Arc<Redactor>,
    /// The state folder, if there is one.
    pub state_dir: Option<PathBuf>,
    /// Stores for persistent state, except for files that people edit.
    pub stores: Stores,
    pub audit: Arc<Audit>,
    pub images: ImageGauges,
    /// Sends questions to the configured models.
    pub models: Option<Arc<dyn Ask>>,
    /// Whether people can answer questions, over the admin API.
    pub has_people: bool,
    /// The stage that this one replaces. Its permissions, disabled tools, rate limits, deferred turns, cached results
    /// and images are taken over.
    pub before: Option<Arc<Execution>>,
    /// The providers to take over, because their settings have not changed.
    pub unchanged: HashSet<String>,
}

toolwire_pipeline::wire::debug_fields!(Surroundings { state_dir });

#[cfg(test)]
impl Surroundings {
    /// Surroundings without state and models. `redactor` masks the secrets.
    pub(super) fn covering(redactor: Redactor) -> Self {
        let redactor = Arc::new(redactor);
        Self {
            audit: Arc::new(Audit::new(Arc::clone(&redactor), None)),
            redactor,
            state_dir: None,
            stores: Stores::in_folder(None),
            models: None,
            has_people: false,
            images: ImageGauges::default(),
            before: None,
            unchanged: HashSet::new(),
        }
    }
}

impl Execution {
    /// Starts the stage, and its providers unless they are taken over.
    ///
    /// # Errors
    /// A thread cannot be started. The settings of providers were already checked.
    pub fn start(settings: Arc<ExecutionSettings>, around: Surroundings) -> io::Result<Started> {
        let (given, models, has_people) = (Arc::clone(&settings), around.models.clone(), around.has_people);
        let http = HttpClient::through(settings.proxies.clone());
        let vault = settings.vault(around.state_dir.as_deref());
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
                let people = has_people.then(|| Arc::clone(means.permissions) as Arc<dyn AskPerson>);
                let host = host.with_models(models.clone()).with_people(people);
                let host = host.with_tasks(Arc::clone(&tasks)).with_vault(vault.clone());
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

    /// Creates a stage on `runtime` with the providers that `build` creates.
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
        let means = Means {
            audit: &audit,
            changed: &changed,
            files: &files,
            permissions: &permissions,
            runtime: &runtime,
            kept: &kept,
        };
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
        let cancels = before.map(|before| Arc::clone(&before.cancels)).unwrap_or_default();
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
            cancels,
            secrets,
            runtime,
        }
    }

    /// The providers with these names, if their images are still stored in `files`.
    fn kept(&self, names: &HashSet<String>, files: &Option<Arc<ImageFiles>>) -> Vec<Arc<RunningProvider>> {
        let are_kept_there = match (&self.files, files) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        let kept = self.running.iter().filter(|running| are_kept_there && names.contains(&*running.name));
        kept.cloned().collect()
    }

    /// A number that distinguishes the results of the provider `name` from those of earlier providers with this name.
    pub(super) fn mark_of(&self, name: &str) -> u64 {
        self.marks.get(name).copied().unwrap_or_default()
    }

    pub fn settings(&self) -> &ExecutionSettings {
        &self.settings
    }

    /// The folder for generated images, if there is one.
    pub fn files(&self) -> Option<&Arc<ImageFiles>> {
        self.files.as_ref()
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn permissions(&self) -> &Arc<Permissions> {
        &self.permissions
    }

    pub fn cancels(&self) -> &Arc<Cancels> {
        &self.cancels
    }

    pub fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Adds to the history the turns and calls that the client has not seen. Returns whether there was anything to add.
    ///
    /// # Errors
    /// The shared store cannot be reached.
    pub async fn complete(&self, conversation: &mut Conversation, client: Owner) -> Result<bool, StoreError> {
        let deadline = Instant::now() + self.settings.deadline;
        self.deferred.restore(conversation, client, deadline).await
    }

    /// Whether [`Execution::complete`] would wait for running calls.
    pub fn is_awaited(&self, conversation: &Conversation, client: Owner) -> bool {
        self.deferred.is_awaited(conversation, client)
    }

    /// Waits until all calls of deferred turns have ended.
    pub async fn settled(&self) {
        self.deferred.settled().await;
    }

    pub(super) fn deferred(&self) -> &Arc<DeferredTurns> {
        &self.deferred
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        let mut providers = self.registry.providers().iter();
        providers.find(|(own, _)| **own == *name).map(|(_, provider)| Arc::clone(provider))
    }

    /// The registrations of all providers that accept them.
    pub fn registrations(&self) -> Vec<Arc<Registrations>> {
        let providers = self.registry.providers().iter();
        providers.filter_map(|(_, provider)| Arc::clone(provider).registrations()).collect()
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The size of all cached results in bytes.
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// The memory of the store of deferred turns.
    pub fn held_by_store(&self) -> HeldBytes {
        self.deferred.held()
    }

    pub(super) fn rates(&self) -> &Rates {
        &self.rates
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// The redactor for only the configured secrets.
    pub(super) fn secrets(&self) -> Arc<Redactor> {
        Arc::clone(&self.secrets.read())
    }

    /// Replaces the configured secrets that are redacted.
    pub fn know_secrets(&self, redactor: &Redactor) {
        let secrets = Arc::new(redactor.of_configured());
        *self.secrets.write() = secrets;
    }

    /// A turn in which a person or a command calls tools, without a model. All tools are available, and the same rules
    /// apply.
    pub fn by_hand(self: &Arc<Self>, asker: Asker) -> HostedTurn {
        let snapshot = self.registry.snapshot_of(asker.key());
        HostedTurn::new(Arc::clone(self), snapshot, None, asker)
    }
}

/// What is needed to create providers.
pub(super) struct Means<'m> {
    audit: &'m Arc<Audit>,
    changed: &'m Arc<Notify>,
    files: &'m Option<Arc<ImageFiles>>,
    permissions: &'m Arc<Permissions>,
    runtime: &'m Runtime,
    /// Providers of the previous stage.
    kept: &'m [Arc<RunningProvider>],
}

/// Permits for running calls, per provider and in total.
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

    pub(super) fn of_provider(&self, name: &str) -> Option<&Semaphore> {
        self.providers.get(name)
    }

    /// The permits for all providers together.
    pub(super) fn all(&self) -> &Semaphore {
        &self.all
    }
}

/// Stores changes to the remembered permissions until the runtime ends. Later changes are stored when the permissions
/// are dropped.
pub(super) async fn save(changed: Arc<Notify>, permissions: Weak<Permissions>) {
    /// Delay before a failed write is retried.
    const RETRY: Duration = Duration::from_secs(5);
    loop {
        changed.notified().await;
        let Some(permissions) = permissions.upgrade() else { return };
        // An error means that the runtime is ending, or that the rules could not be written, which has been logged.
        // Writing a file is then retried.
        let saved = permissions.save().await;
        let pause = permissions.pause();
        drop(permissions);
        sleep(if saved.is_ok() { pause } else { RETRY.max(pause) }).await;
    }
}

/// Follows other instances' changes to the remembered rules while there are open questions.
async fn follow(permissions: Weak<Permissions>) {
    const PAUSE: Duration = Duration::from_secs(1);
    loop {
        sleep(PAUSE).await;
        let Some(permissions) = permissions.upgrade() else { return };
        if permissions.has_to_follow() {
            // An error means that the store cannot be reached, which has been logged.
            let _ = permissions.follow().await;
        }
    }
}

/// Refreshes the registry when a provider reports a change.
async fn refresh(changed: Arc<Notify>, registry: Weak<Registry>) {
    /// Changes within this time are handled together, in case a provider changes its tools all the time.
    const PAUSE: Duration = Duration::from_millis(20);
    loop {
        changed.notified().await;
        let Some(registry) = registry.upgrade() else { return };
        registry.refresh();
        drop(registry);
        sleep(PAUSE).await;
    }
}

/// Warns about rules for tools that no provider offers, after giving providers time to start.
async fn warn_of_unknown(registry: Weak<Registry>) {
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
