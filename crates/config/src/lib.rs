//! The configuration: reads a TOML file, flags and environment variables into a validated [`Config`].
//!
//! ```text
//! file ─▶ spanned TOML ─▶ table (typed keys, leftovers) ─▶ upstreams, models, limits ─▶ Config
//!                      ▲  ▲                                                        └─▶ problems, all of them
//!   admin API ─▶ Overlay  Overrides ◀─ flags, environment
//! ```
//!
//! Reading continues after a mistake, so a single run reports all of them, each with file, line and column. In a
//! [`Config`], every reference is resolved: from models to their upstreams, from format names to formats, and from
//! secrets to their values.

#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    reason = "a part of toolwire, which is not meant for other programs: its documentation is read in the source"
)]

mod admin;
mod alternatives;
pub mod calendar;
mod changes;
pub mod client_keys;
mod entries;
mod execution;
mod facts;
mod format;
mod key_file;
mod keys;
mod made_key;
mod mask;
mod model;
pub mod model_rules;
mod origins;
mod overlay;
mod overrides;
pub mod passthrough;
pub mod percent;
mod problem;
mod proxies;
mod read;
mod reference;
mod show;
mod source;
mod sources;
mod table;
mod telemetry;
mod tls;
mod upstream;
mod upstream_tls;
mod value;
mod watch;

pub use admin::AdminSettings;
pub use admin::Capture;
pub use alternatives::{Alternatives, Failover, Target, Targets};
pub use changes::Changes;
pub use client_keys::ClientKey;
pub use client_keys::{Grant, KeyDigest, KeyLimits};
pub use facts::Facts;
pub use format::unknown as unknown_format;
pub use key_file::KeyFile;
pub use keys::Row;
pub use keys::{Keys, TableError, read_table, table_of};
pub use made_key::MadeKey;
pub use made_key::is_mistyped;
pub use model::{Model, SystemPosition, ToolSearch, ToolStyle, WILDCARD};
pub use model::{settings_for, start_of};
pub use origins::Origins;
pub use overlay::{Overlay, Refused};
pub use overrides::Overrides;
pub use passthrough::Passthrough;
pub use problem::{Place, Problem, Problems, Severity};
pub use proxies::HttpProxy;
pub use reference::{Section, reference};
pub use sources::Sources;
pub use sources::{Setting, SettingValue};
pub use upstream::{QueueLimits, Timeouts, Upstream};
pub use watch::FileWatch;

pub use toolwire_execution::ExecutionSettings;
pub use toolwire_net::{
    telemetry::TelemetrySettings,
    tls::{TlsSettings, UpstreamTls},
};

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use self::{source::Source, sources::Origin, table::Context};
use toolwire_net::store::StoreAddress;
use toolwire_pipeline::{
    format::KnownFormats,
    rules,
    settings::{Settings, TableText},
    wire::digest::Digest,
};

/// Looks up an environment variable. It is passed as an argument so that tests do not have to change the environment of
/// the process.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<Problem>,
}

/// Reads the file that `overrides` names, if any, applies the overrides, and validates the result.
///
/// # Errors
/// All mistakes in the configuration.
pub fn load(overrides: &Overrides, environment: Environment<'_>) -> Result<Loaded, Problems> {
    of_source(&Source::read(overrides.file.as_deref())?, None, overrides, environment)
}

/// Validates a configuration that the program generated.
///
/// # Errors
/// All mistakes in the configuration.
pub fn of_text(text: String) -> Result<Config, Problems> {
    of_source(&Source::made(None, text), None, &Overrides::default(), &|_| None).map(|loaded| loaded.config)
}

/// Reads a configuration. `overlay` holds settings that were saved through the admin API; if it is `None`, they are
/// read from the state folder.
fn of_source(
    source: &Source,
    overlay: Option<Overlay>,
    overrides: &Overrides,
    environment: Environment<'_>,
) -> Result<Loaded, Problems> {
    let mut values = Vec::new();
    let (mut root, syntax) = DeTable::parse_recoverable(source.text());
    let folder = overlay::folder(root.get_ref(), environment);
    let state = state_folder(root.get_ref(), environment);
    let has_saved_keys = match &state {
        Some(folder) => !KeyFile::in_folder(folder).read()?.is_empty(),
        None => false,
    };
    let overlay = match (overlay, &folder) {
        (Some(overlay), Some(_)) => overlay,
        (None, Some(folder)) => Overlay::read(folder)?,
        (_, None) => Overlay::default(),
    };
    let file = folder.as_deref().map(Overlay::file).unwrap_or_default();
    let mut origin =
        Origin { source: source.clone(), overrides: overrides.clone(), overlay, files: BTreeMap::new() };
    let source = &source.with_overlay(file, origin.overlay.paths().map(str::to_owned).collect());
    let in_file = Sources::of(root.get_ref(), source);
    values.extend(origin.overlay.to_toml());
    let laid = origin.overlay.lay_over(root.get_mut(), &values, source);
    overrides.lay_over(root.get_mut(), source);
    let context = Context { source, files: Default::default(), findings: Default::default(), environment };
    overrides.check(&context.findings, source);
    for refused in &laid.refused {
        let number = origin.overlay.paths().position(|path| path == refused.path).unwrap_or_default();
        let message = format!("this saved setting is ignored: {}", refused.message);
        context.findings.warning(source.overlaid(number), message);
    }
    for error in syntax {
        context.findings.syntax(error.span(), error.message());
    }
    let config = read::config(root.get_ref(), &context, has_saved_keys);
    let sources = Sources::of(root.get_ref(), source);
    origin.files = context.files.into_read();
    let (problems, failed) = context.findings.into_problems(source);
    let sources = sources.over(in_file, laid, origin);
    match config {
        Some(config) if !failed => Ok(Loaded { config: Config { sources, ..config }, warnings: problems }),
        _ => Err(Problems(problems)),
    }
}

/// The state folder. `None` if none is configured and the user has no folder for state.
fn state_folder(root: &DeTable<'_>, environment: Environment<'_>) -> Option<PathBuf> {
    match root.get("state_dir").map(Spanned::get_ref) {
        Some(DeValue::String(written)) => Some(PathBuf::from(written.as_ref())),
        _ => read::state_dir(environment),
    }
}

/// Returns the state folder that the file `path` configures. Reads nothing else in the file.
///
/// # Errors
/// The file cannot be read.
pub fn state_folder_of(
    path: Option<&std::path::Path>,
    environment: Environment<'_>,
) -> Result<Option<PathBuf>, Problems> {
    let source = Source::read(path)?;
    let (root, _) = DeTable::parse_recoverable(source.text());
    Ok(state_folder(root.get_ref(), environment))
}

#[derive(Debug, Clone)]
pub struct Config {
    /// At least one address. All are loopback addresses if no key is required.
    pub listen: Vec<SocketAddr>,
    /// Keys without a name. If there are no named keys either, clients need no key.
    pub api_keys: Vec<SecretString>,
    /// Keys of named clients, except those in the file that `toolwire keys` writes.
    pub keys: Vec<ClientKey>,
    /// At least one upstream.
    pub upstreams: Vec<Arc<Upstream>>,
    /// At least one model.
    pub models: Vec<Model>,
    /// How to continue when an upstream fails, for models with alternatives.
    pub failover: Failover,
    /// The formats that models can use: the built-in ones and those in `[[formats]]`.
    pub formats: Arc<KnownFormats>,
    /// Origins whose web pages may read responses.
    pub cors_origins: Origins,
    /// Host names by which clients that need no key may reach the server, in addition to this machine's own names.
    pub hosts: Vec<String>,
    /// The state folder. `None` if none is configured and the user has no folder for state.
    pub state_dir: Option<PathBuf>,
    /// Where state that outlives a request is stored, such as usage and responses that clients may continue.
    pub store: StoreKind,
    /// Paths whose requests are passed to the upstream without being parsed.
    pub passthrough: Passthrough,
    /// What `/metrics` shows in addition to the standard metrics.
    pub metrics: Metrics,
    pub limits: Limits,
    /// How long open streams may continue after a shutdown signal.
    pub drain_timeout: Duration,
    /// How long the server still accepts requests after a shutdown signal, while it reports that it is not ready.
    pub drain_delay: Option<Duration>,
    /// Number of worker threads, each with its own sockets. At least one.
    pub threads: usize,
    /// Settings of hosted tools; `None` without `[execution]`.
    pub execution: Option<Arc<ExecutionSettings>>,
    /// `None` without `[admin]`.
    pub admin: Option<Arc<AdminSettings>>,
    /// TLS on the listeners; `None` without `[tls]`.
    pub tls: Option<Arc<TlsSettings>>,
    /// Where traces and metrics are sent; `None` if they are not sent.
    pub telemetry: Option<Arc<TelemetrySettings>>,
    pub sources: Sources,
}

impl Config {
    /// Returns the entry called `name`, or else the wildcard entry.
    pub fn model(&self, name: &str) -> Option<&Model> {
        let named = self.models.iter().find(|model| model.name == name && !model.is_wildcard());
        // Names with `.` or `..` segments are refused: an upstream that decodes a path before resolving it would treat
        // such a name as a path to another resource.
        let mut segments = name.as_bytes().split(|byte| matches!(byte, b'/' | b'\\'));
        let mut is_relative = || segments.any(|segment| matches!(segment, b"." | b".."));
        named.or_else(|| self.models.iter().find(|model| model.is_wildcard() && !is_relative()))
    }

    /// Whether clients need a key, which is the case if there are keys in the configuration or in the file that
    /// `toolwire keys` writes. Reads that file.
    pub fn needs_key(&self) -> bool {
        let has_saved =
            |folder: &PathBuf| KeyFile::in_folder(folder).read().is_ok_and(|keys| !keys.is_empty());
        !self.api_keys.is_empty() || !self.keys.is_empty() || self.state_dir.as_ref().is_some_and(has_saved)
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Whether any upstream lets clients send the sessions of their own accounts.
    pub fn takes_sessions(&self) -> bool {
        self.upstreams.iter().any(|upstream| upstream.takes_sessions())
    }

    /// All configured secrets: the keys of clients, upstreams, providers and the admin API; account tokens; header
    /// values for upstreams and the collector, unless the header is known to be public; and proxy passwords.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let keys = self.api_keys.iter().chain(self.upstreams.iter().filter_map(|up| up.api_key.as_ref()));
        let keys = keys.chain(self.keys.iter().filter_map(ClientKey::secret));
        let keys = keys.chain(self.admin.iter().flat_map(|admin| &admin.api_keys));
        let keys =
            keys.chain(self.upstreams.iter().filter_map(|up| up.account()).flat_map(|own| own.secrets()));
        let headers = self.upstreams.iter().flat_map(|up| upstream::secret_headers(&up.headers));
        let proxies = self.upstreams.iter().filter_map(|up| up.proxy.as_ref()?.secret());
        let collector = self.telemetry.iter().flat_map(|telemetry| telemetry.headers.values());
        let providers = self.execution.iter().flat_map(|execution| &execution.secrets);
        let store = match &self.store {
            StoreKind::Redis(address) => address.password(),
            StoreKind::Embedded | StoreKind::Off => None,
        };
        keys.chain(providers)
            .chain(collector.filter_map(TableText::as_secret))
            .map(|key| key.expose_secret())
            .chain(headers)
            .chain(proxies)
            .chain(store)
    }
}

impl Config {
    /// The saved settings that were in effect when this configuration was read.
    pub fn overlay(&self) -> Overlay {
        self.sources.origin().map(|origin| origin.overlay.clone()).unwrap_or_default()
    }

    /// The paths of the saved settings in effect, each with the file that holds it.
    pub fn saved_settings(&self) -> Vec<(String, PathBuf)> {
        let Some(folder) = &self.state_dir else { return Vec::new() };
        let overlay = self.overlay();
        let is_ignored = |path: &str| self.sources.refused().iter().any(|refused| refused.path == path);
        let paths = overlay.paths().filter(|path| !is_ignored(path));
        paths.map(|path| (path.to_owned(), Overlay::file(folder))).collect()
    }

    /// Reads the configuration again from the same sources: the file, the saved settings, the flags, and the referenced
    /// secrets.
    ///
    /// # Errors
    /// All mistakes in the configuration.
    pub fn read_again(&self) -> Result<Loaded, Problems> {
        let failed = |message| Err(Problems(vec![Problem::error(message)]));
        let Some(origin) = self.sources.origin() else {
            return failed("the configuration was not read from a file".to_owned());
        };
        // Opening a pipe would block until there is a writer, and delay all later reloads.
        let is_no_file = |file: &&PathBuf| std::fs::metadata(file).is_ok_and(|metadata| !metadata.is_file());
        if let Some(file) = origin.overrides.file.iter().chain(origin.files.keys()).find(is_no_file) {
            return failed(format!("cannot read {} again: it is not a regular file", file.display()));
        }
        // A changed `state_dir` takes effect at the next start.
        let folder = self.state_dir.as_deref().filter(|_| self.admin.is_some());
        let saved = folder.map(Overlay::read).transpose()?;
        let source = Source::read(origin.overrides.file.as_deref())?;
        of_source(&source, saved, &origin.overrides, &|name| std::env::var(name).ok())
    }

    /// The files that this configuration was read from, with digests of their content: the configuration file, and the
    /// files with secrets, text and certificates that it refers to. Pipes are left out.
    pub fn files(&self) -> BTreeMap<PathBuf, Digest> {
        let Some(origin) = self.sources.origin() else { return BTreeMap::new() };
        let own = origin.source.file().map(|(path, content)| (path.to_owned(), content));
        origin.files.clone().into_iter().chain(own).collect()
    }

    /// Reads the configuration again with `overlay` as the saved settings.
    ///
    /// # Errors
    /// All mistakes in the configuration.
    pub fn with_overlay(&self, overlay: Overlay) -> Result<Loaded, Problems> {
        let Some(origin) = self.sources.origin() else {
            let message = "the configuration was not read from a file";
            return Err(Problems(vec![Problem::error(message)]));
        };
        let environment = |name: &str| std::env::var(name).ok();
        of_source(&origin.source, Some(overlay), &origin.overrides, &environment)
    }
}

/// Where state that outlives a request is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// In files on this machine.
    #[default]
    Embedded,
    /// State is not stored.
    Off,
    /// On a Redis or Valkey server, which several instances share.
    Redis(StoreAddress),
}

/// Whether monthly budgets may be used while the store that instances share cannot be reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum UncheckedBudgets {
    /// Budgets may be used up to their limits, counting only the usage that this instance knows of.
    #[default]
    Allow,
    /// Requests from clients with a monthly budget are refused.
    Refuse,
}

/// The optional content of `/metrics`, which requires no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
pub struct Metrics {
    /// label `toolwire_calls_total` with the names of called tools (256, then `other`). They come from
    /// clients, and `/metrics` requires no key
    pub tool_names: bool,
}

/// Limits of requests and responses.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Limits {
    /// a client's request body; larger ones get 413
    #[setting(default = 10 << 20, size)]
    pub max_body: usize,
    /// memory for request bodies that no upstream has answered yet; further ones get 503 with `Retry-After`
    ///
    /// At least `max_body`.
    #[setting(default = 256 << 20, size)]
    pub max_pending_bodies: usize,
    /// to receive a request body; then 408
    #[setting(default = Duration::from_secs(60))]
    pub body_timeout: Duration,
    /// how long a client may accept no bytes; then its connection (or HTTP/2 stream) is closed
    #[setting(default = Duration::from_secs(60))]
    pub write_timeout: Duration,
    /// `n`, `best_of`, `top_logprobs` and `prompt_logprobs` of a request; more gets 400
    #[setting(default = 128)]
    pub max_n: usize,
    /// Limits of one response; every [`Model::settings`] contains the same.
    #[setting(nested)]
    pub answer: rules::Limits,
    /// silence in a stream after which a keep-alive comment is sent
    #[setting(default = Duration::from_secs(15))]
    pub keep_alive: Duration,
    /// all stored responses; beyond, the oldest are removed
    #[setting(default = 256 << 20, size)]
    pub max_store: usize,
    /// how long a response is stored
    #[setting(default = Duration::from_secs(30 * 24 * 60 * 60))]
    pub store_ttl: Duration,
    /// instances that [share](scaling.md) a `store` on a server; while it is away, each admits its share of
    /// the limits
    #[setting(default = 1)]
    pub instances: usize,
    /// budgets of a month while the store is away: `allow` admits requests by what this instance knows,
    /// `refuse` answers 503
    #[setting(default = UncheckedBudgets::Allow, word)]
    pub unchecked_budgets: UncheckedBudgets,
    /// state that upstreams [want back](dialects.md), and turns as models wrote them, in memory; beyond it,
    /// the client that has the most loses its oldest
    #[setting(default = 64 << 20, size)]
    pub max_turn_state: usize,
    /// how long that is kept, or `"off"`
    #[setting(default = Some(Duration::from_secs(24 * 60 * 60)))]
    pub turn_state_ttl: Option<Duration>,
}
