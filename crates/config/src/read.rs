//! Reads a file's tables into a [`Config`]: the top-level keys, and checks that involve several tables.

use std::{
    collections::HashSet, net::SocketAddr, num::NonZero, path::PathBuf, sync::Arc, thread, time::Duration,
};

use secrecy::SecretString;
use toml::{
    Value,
    de::{DeTable, DeValue},
};

use super::{
    Config, Failover, Limits, Metrics, Origins, Passthrough, Sources, StoreKind, admin,
    alternatives::{self, Router},
    client_keys, execution, format,
    keys::{Reading, string},
    mask::masked,
    model, origins, passthrough,
    table::{Cell, Context, Table, entries},
    telemetry, tls,
    upstream::{self, Declared},
    value::{Origin, one_or_more, referred, text},
};
use toolwire_net::store::StoreAddress;
use toolwire_pipeline::{format::KnownFormats, rules, settings::Settings, wire::suggest::suggest};

/// The default of `listen`.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8787);

/// The default of `drain_timeout`.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The values of the top-level keys.
#[derive(Debug, Settings)]
pub(super) struct Root {
    /// an address with port, or an array of them; port 0 chooses a free one
    ///
    /// Unless clients need a key, toolwire may only listen on loopback addresses.
    #[setting(
        default = vec![LISTEN], or = "`\"127.0.0.1:8787\"`",
        read = |cell| addresses(cell, self.has_keys),
        show = |listen| Some(Value::Array(listen.iter().map(|address| string(&address.to_string())).collect()))
    )]
    pub(super) listen: Vec<SocketAddr>,
    /// [secrets](keys.md), one of which a client must send. With neither these nor [`[[keys]]`](#keys),
    /// toolwire listens only on loopback addresses
    pub(super) api_keys: Vec<SecretString>,
    /// origins of web pages that may call toolwire: `["https://ui.example"]`, without a path, or `["*"]`
    #[setting(default = Origins::None, read = origins::read, show = |origins| Some(origins.shown()))]
    pub(super) cors_origins: Origins,
    /// names, in addition to `localhost`, by which clients [without keys](keys.md) may reach toolwire:
    /// `["host.docker.internal"]`
    pub(super) hosts: Vec<String>,
    /// further paths whose requests go to the upstream [unread](#passing-other-requests-through):
    /// `["/v1/embeddings", "/v1/audio/*"]`
    #[setting(read = passthrough::read, show = |passthrough| Some(passthrough.shown()))]
    pub(super) passthrough: Passthrough,
    /// the folder for persistent state
    #[setting(or = "`$XDG_STATE_HOME/toolwire`, else `~/.local/state/toolwire`")]
    pub(super) state_dir: Option<String>,
    /// where state that outlives a request is kept: `embedded`, in `state_dir`; `off`; or the URL
    /// (`"env:NAME"`, `"file:PATH"`) of a Redis or Valkey server that several instances [share](scaling.md)
    #[setting(
        default = StoreKind::Embedded, file_only, read = store,
        show = |store| Some(string(&shown_store(store)))
    )]
    pub(super) store: StoreKind,
    /// how long toolwire keeps serving after a signal to stop, while `/readyz` reports it: usually 5 to 15
    /// seconds
    pub(super) drain_delay: Option<Duration>,
    /// how long open streams may continue after that
    #[setting(default = DRAIN_TIMEOUT)]
    pub(super) drain_timeout: Duration,
    /// worker threads; a stream stays on its thread
    #[setting(default = cores(), or = "one per core")]
    pub(super) threads: usize,
    /// Whether clients need a key.
    #[setting(skip, default = true)]
    pub(super) has_keys: bool,
}

fn store(cell: Cell<'_>) -> Option<StoreKind> {
    let (written, origin) = referred(cell.clone())?;
    match written.as_str() {
        "embedded" => return Some(StoreKind::Embedded),
        "off" => return Some(StoreKind::Off),
        _ if !toolwire_net::store::HAS_REDIS => {
            return cell.wrong("expected \"embedded\" or \"off\": this build cannot use a server");
        }
        _ => {}
    }
    match StoreAddress::parse(&written) {
        Ok(address) => {
            if address.password().is_some() && origin == Origin::Here {
                cell.warn("a secret in the file itself; `\"env:NAME\"` or `\"file:PATH\"` keeps it out");
            }
            Some(StoreKind::Redis(address))
        }
        Err(wrong) => cell.wrong(format!("{wrong}; or \"embedded\" or \"off\"")),
    }
}

fn shown_store(store: &StoreKind) -> String {
    match store {
        StoreKind::Embedded => "embedded".to_owned(),
        StoreKind::Off => "off".to_owned(),
        StoreKind::Redis(address) => address.covered(&masked(address.password().unwrap_or_default())),
    }
}

/// The default of `state_dir`: `None` if the user has no home.
pub(super) fn state_dir(environment: super::Environment<'_>) -> Option<PathBuf> {
    let folder = |name: &str| environment(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("toolwire"))
}

/// Reads the root table. Returns `None` only if a mistake has been reported. `has_saved_keys` is true if the key file
/// contains keys.
pub(super) fn config<'a>(
    table: &'a DeTable<'a>,
    context: &'a Context<'a>,
    has_saved_keys: bool,
) -> Option<Config> {
    Table::root(table, context, |table| {
        let mut has = |key| table.cell(key).is_some_and(|cell| !cell.is_empty_array());
        let has_keys = has("api_keys") | has("keys") || has_saved_keys;
        let mut top = Root { has_keys, ..Root::default() };
        top.settings(&mut Reading(table));
        let mut own_metrics = Metrics::default();
        in_table(table, "metrics", |table| own_metrics.settings(&mut Reading(table)));
        let mut own_limits = Limits::default();
        in_table(table, "limits", |table| {
            own_limits.settings(&mut Reading(table));
            let is_given = table.cell("max_pending_bodies").is_some();
            if is_given && own_limits.max_pending_bodies < own_limits.max_body {
                let message = "smaller than `max_body`: the largest bodies could never be read";
                table.report_fault("max_pending_bodies", message);
            }
        });
        own_limits.max_pending_bodies = own_limits.max_pending_bodies.max(own_limits.max_body);
        let upstreams = upstreams(table, context);
        let formats = formats(table);
        let models = models(table, context, &upstreams, &formats, own_limits.answer);
        let mut own_failover = Failover::default();
        in_table(table, "failover", |table| own_failover.settings(&mut Reading(table)));
        warn_of_idle(&upstreams, models.as_deref().unwrap_or_default());
        let keys = client_keys::read(table, false);
        let execution = execution::read(table, models.as_deref(), &keys);
        let admin = admin::read(table);
        let tls = tls::read(table);
        let telemetry = telemetry::read(table, context, has_keys);
        Some(Config {
            listen: top.listen,
            api_keys: top.api_keys,
            keys,
            upstreams: upstreams.into_iter().map(|declared| declared.upstream).collect::<Option<_>>()?,
            models: models?,
            failover: own_failover,
            formats,
            cors_origins: top.cors_origins,
            hosts: top.hosts,
            state_dir: top.state_dir.map(PathBuf::from).or_else(|| state_dir(context.environment)),
            store: top.store,
            passthrough: top.passthrough,
            metrics: own_metrics,
            limits: own_limits,
            drain_delay: top.drain_delay,
            drain_timeout: top.drain_timeout,
            threads: top.threads,
            execution,
            admin,
            tls,
            telemetry,
            sources: Sources::default(),
        })
    })
}

fn in_table<'a>(table: &mut Table<'a>, key: &'static str, read: impl FnOnce(&mut Table<'a>)) {
    if let Some(cell) = table.cell(key) {
        cell.table(|table| {
            read(table);
            Some(())
        });
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Reads `listen`: one address, or an array.
fn addresses(cell: Cell<'_>, has_keys: bool) -> Option<Vec<SocketAddr>> {
    let addresses = one_or_more(|cell: Cell<'_>| Some((address(cell.clone())?, cell)))(cell)?;
    let mut seen = HashSet::new();
    for (address, cell) in &addresses {
        if !has_keys && !address.ip().is_loopback() {
            cell.wrong::<()>(format!(
                "{address} can be reached from other machines: without `api_keys` or `[[keys]]`, toolwire listens \
                 only on loopback addresses"
            ));
        }
        if address.port() != 0 && !seen.insert(address) {
            cell.wrong::<()>(format!("{address} is listed twice"));
        }
    }
    Some(addresses.iter().map(|(address, _)| *address).collect())
}

fn address(cell: Cell<'_>) -> Option<SocketAddr> {
    let written = text(cell.clone())?;
    match written.parse() {
        Ok(address) => Some(address),
        Err(_) if written.starts_with("localhost:") => cell
            .wrong(format!("expected an IP address; write `{}`", written.replace("localhost", "127.0.0.1"))),
        Err(_) => {
            cell.wrong("expected an IP address and a port such as \"127.0.0.1:8787\" or \"[::1]:8787\"")
        }
    }
}

fn upstreams<'a>(table: &mut Table<'a>, context: &Context<'_>) -> Vec<Declared<'a>> {
    let cells = entries(table, "upstreams");
    if cells.is_empty() {
        let help = match context.source.has_file() {
            true => "no `[[upstreams]]`: where should requests go?",
            false => {
                "nothing to serve: give `--config FILE`, or the URL of an upstream: `toolwire serve URL`"
            }
        };
        context.findings.missing(None, help);
    }
    let mut names = HashSet::new();
    let declared = cells.into_iter().map(|cell| {
        let read = cell.clone().table(|table| Some(upstream::read(table)));
        let (name, upstream) = read.unwrap_or_default();
        if let Some((name, cell)) = &name
            && !names.insert(name.clone())
        {
            cell.wrong::<()>(format!("a second upstream `{name}`"));
        }
        Declared { name: name.map(|(name, _)| name), upstream: upstream.map(Arc::new), cell }
    });
    declared.collect()
}

/// The built-in formats, and the valid formats in `[[formats]]`.
fn formats(table: &mut Table<'_>) -> Arc<KnownFormats> {
    let mut own = Vec::new();
    for cell in entries(table, "formats") {
        own.extend(cell.table(|table| format::read(table, &own)));
    }
    Arc::new(KnownFormats::new(own))
}

/// Returns `None` only if a mistake has been reported.
pub(super) fn models<'a>(
    table: &mut Table<'a>,
    context: &Context<'_>,
    upstreams: &[Declared<'a>],
    formats: &Arc<KnownFormats>,
    limits: rules::Limits,
) -> Option<Vec<super::Model>> {
    let cells = entries(table, "models");
    if cells.is_empty() && context.source.has_file() {
        let help = "no `[[models]]`: what may clients ask for? `name = \"*\"` takes every name";
        context.findings.missing(None, help);
    }
    let (mut names, mut routers) = (HashSet::new(), HashSet::new());
    let (mut describers, mut others) = (Vec::new(), Vec::new());
    // Entries with targets refer to other entries, so they are resolved last.
    let mut models: Vec<Option<super::Model>> = Vec::new();
    let mut unresolved = Vec::new();
    for cell in cells {
        let read = cell.table(|table| {
            describers.extend(table.cell("vision"));
            let keys = [alternatives::TARGETS, alternatives::FALLBACK];
            others.extend(keys.into_iter().filter_map(|key| Some((key, table.cell(key)?))));
            Some(match Router::read(table) {
                Some(router) => (router.name(), None, Some(router)),
                None => {
                    let (name, model) = model::read(table, upstreams, formats, limits);
                    (name, model, None)
                }
            })
        });
        let Some((name, model, router)) = read else {
            models.push(None);
            continue;
        };
        if let Some((name, cell)) = name {
            if router.is_some() {
                routers.insert(name.clone());
            }
            if !names.insert(name.clone()) {
                cell.wrong::<()>(format!("a second model `{name}`"));
            }
        }
        unresolved.extend(router.map(|router| (models.len(), router)));
        models.push(model);
    }
    describers.into_iter().for_each(|cell| check_describer(cell, &names));
    others.into_iter().for_each(|(key, cell)| alternatives::check(key, &cell, &names, &routers));
    let known: Vec<_> = models.iter().flatten().cloned().collect();
    for (at, router) in unresolved {
        if let Some(place) = models.get_mut(at) {
            *place = router.resolve(&known);
        }
    }
    models.into_iter().collect()
}

/// Checks that the model that describes images is one of `names`.
fn check_describer(cell: Cell<'_>, names: &HashSet<String>) {
    let DeValue::String(name) = cell.value else { return };
    if !names.contains(name.as_ref()) && !names.contains(model::WILDCARD) {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        cell.wrong::<()>(format!("no model `{name}`; {}", suggest(name, &names, None)));
    }
}

fn warn_of_idle(upstreams: &[Declared<'_>], models: &[super::Model]) {
    for Declared { upstream, cell, .. } in upstreams {
        let Some(upstream) = upstream else { continue };
        if !models.is_empty() && !models.iter().any(|model| Arc::ptr_eq(&model.upstream, upstream)) {
            cell.warn(format!("no model uses the upstream `{}`", upstream.name));
        }
    }
}
