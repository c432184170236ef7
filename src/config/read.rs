//! The file's tables read to a [`Config`]: which keys there are, and what must hold between them.

use std::{collections::HashSet, net::SocketAddr, num::NonZero, sync::Arc, thread, time::Duration};

use toml::de::{DeTable, DeValue};

use super::{
    Config, Limits, Metrics, Origins, Upstream, format, model, origins,
    table::{Cell, Context, Table},
    upstream,
    value::{count, duration, list, one_or_more, secret, size, switch, text},
};
use crate::{format::Known, rules};

/// Where `serve` listens if nobody says otherwise.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8787);

/// How long open streams may go on after a signal to stop, if nobody says otherwise.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the root table. `None` only if something has been found that is wrong or missing.
pub(super) fn config<'a>(root: &'a DeTable<'a>, context: &'a Context<'a>) -> Option<Config> {
    Table::root(root, context, |table| {
        let listen = table.get_or("listen", vec![(LISTEN, None)], one_or_more(address));
        let has_keys = table.cell("api_keys").is_some_and(|cell| !cell.is_empty_array());
        let api_keys = table.get_or("api_keys", Vec::new(), list(secret));
        check_addresses(&listen, has_keys);
        let cors_origins = table.get_or("cors_origins", Origins::None, origins::read);
        let metrics =
            table.get_or("metrics", Metrics::default(), |cell| cell.table(|table| Some(metrics(table))));
        let limits =
            table.get_or("limits", Limits::default(), |cell| cell.table(|table| Some(limits(table))));
        let drain_timeout = table.get_or("drain_timeout", DRAIN_TIMEOUT, duration);
        let threads = table.get_or("threads", cores(), count(1));
        let upstreams = upstreams(table, context);
        let formats = formats(table);
        let models = models(table, context, &upstreams, &formats, limits.answer);
        warn_of_idle(&upstreams, models.as_deref().unwrap_or_default());
        Some(Config {
            listen: listen.into_iter().map(|(address, _)| address).collect(),
            api_keys,
            upstreams: upstreams.into_iter().map(|declared| declared.upstream).collect::<Option<_>>()?,
            models: models?,
            formats,
            cors_origins,
            metrics,
            limits,
            drain_timeout,
            threads,
        })
    })
}

/// Cores that this process may use.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn address(cell: Cell<'_>) -> Option<(SocketAddr, Option<Cell<'_>>)> {
    let written = text(cell.clone())?;
    match written.parse() {
        Ok(address) => Some((address, Some(cell))),
        Err(_) if written.starts_with("localhost:") => cell
            .wrong(format!("expected an IP address; write `{}`", written.replace("localhost", "127.0.0.1"))),
        Err(_) => {
            cell.wrong("expected an IP address and a port such as \"127.0.0.1:8787\" or \"[::1]:8787\"")
        }
    }
}

fn check_addresses(addresses: &[(SocketAddr, Option<Cell<'_>>)], has_keys: bool) {
    let mut seen = HashSet::new();
    for (address, cell) in addresses {
        let Some(cell) = cell else { continue };
        if !has_keys && !address.ip().is_loopback() {
            cell.wrong::<()>(format!(
                "{address} can be reached from other machines: without `api_keys` only loopback addresses are \
                 listened on"
            ));
        }
        if address.port() != 0 && !seen.insert(address) {
            cell.wrong::<()>(format!("{address} stands here twice"));
        }
    }
}

fn metrics(table: &mut Table<'_>) -> Metrics {
    let Metrics { tool_names } = Metrics::default();
    Metrics { tool_names: table.get_or("tool_names", tool_names, switch) }
}

fn limits(table: &mut Table<'_>) -> Limits {
    let defaults = Limits::default();
    let answer = defaults.answer;
    let max_body = table.get_or("max_body", defaults.max_body, size);
    Limits {
        max_body,
        max_pending_bodies: table.get_or(
            "max_pending_bodies",
            defaults.max_pending_bodies.max(max_body),
            at_least(max_body),
        ),
        body_timeout: table.get_or("body_timeout", defaults.body_timeout, duration),
        write_timeout: table.get_or("write_timeout", defaults.write_timeout, duration),
        keep_alive: table.get_or("keep_alive", defaults.keep_alive, duration),
        answer: rules::Limits {
            max_frame: table.get_or("max_frame", answer.max_frame, size),
            max_arguments: table.get_or("max_arguments", answer.max_arguments, size),
            max_calls: table.get_or("max_calls", answer.max_calls, count(1)),
            max_hold: table.get_or("max_hold", answer.max_hold, size),
            max_depth: table.get_or("max_depth", answer.max_depth, count(1)),
            max_name: table.get_or("max_name", answer.max_name, size),
            max_markup: table.get_or("max_markup", answer.max_markup, size),
            max_answer: table.get_or("max_answer", answer.max_answer, size),
        },
    }
}

/// A size that one body does not exceed.
fn at_least(max_body: usize) -> impl Fn(Cell<'_>) -> Option<usize> {
    move |cell| {
        let size = size(cell.clone())?;
        if size < max_body {
            return cell.wrong("smaller than `max_body`: the largest bodies could never be read");
        }
        Some(size)
    }
}

/// An upstream's entry, read as far as it could be.
pub(super) struct Declared<'a> {
    /// Its name, if it has one.
    pub(super) name: Option<String>,
    /// `None` if something in it is wrong.
    pub(super) upstream: Option<Arc<Upstream>>,
    cell: Cell<'a>,
}

fn upstreams<'a>(table: &mut Table<'a>, context: &Context<'_>) -> Vec<Declared<'a>> {
    let cells = entries(table, "upstreams");
    if cells.is_empty() {
        let help = match context.source.has_file() {
            true => "no `[[upstreams]]`: where should requests go?",
            false => "nothing to serve: give `--config FILE`, or `--upstream URL --dialect DIALECT`",
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

/// The formats that are known: the configuration's own as far as they could be read, and the built-in ones.
fn formats(table: &mut Table<'_>) -> Arc<Known> {
    let mut own = Vec::new();
    for cell in entries(table, "formats") {
        own.extend(cell.table(|table| format::read(table, &own)));
    }
    Arc::new(Known::new(own))
}

fn models<'a>(
    table: &mut Table<'a>,
    context: &Context<'_>,
    upstreams: &[Declared<'a>],
    formats: &Arc<Known>,
    limits: rules::Limits,
) -> Option<Vec<super::Model>> {
    let cells = entries(table, "models");
    if cells.is_empty() && context.source.has_file() {
        let help = "no `[[models]]`: what may clients ask for? `name = \"*\"` takes every name";
        context.findings.missing(None, help);
    }
    let mut names = HashSet::new();
    let models: Vec<_> = cells
        .into_iter()
        .map(|cell| {
            let (name, model) = cell.table(|table| Some(model::read(table, upstreams, formats, limits)))?;
            if let Some((name, cell)) = name
                && !names.insert(name.clone())
            {
                cell.wrong::<()>(format!("a second model `{name}`"));
            }
            model
        })
        .collect();
    models.into_iter().collect()
}

/// The tables of `[[key]]`; none if it is absent or no array.
fn entries<'a>(table: &mut Table<'a>, key: &'static str) -> Vec<Cell<'a>> {
    let Some(cell) = table.cell(key) else { return Vec::new() };
    match cell.value {
        DeValue::Array(entries) => entries.iter().map(|entry| Cell::new(entry, cell.context)).collect(),
        // One table in place of an array: read it, so that its own mistakes are told as well.
        DeValue::Table(_) => {
            cell.wrong::<()>(format!("expected `[[{key}]]` with two brackets: there may be several"));
            vec![cell]
        }
        _ => {
            cell.expected::<()>(&format!("tables `[[{key}]]`"));
            Vec::new()
        }
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
