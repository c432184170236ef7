//! [`Overrides`]: values from flags and environment variables.
//!
//! They replace values in the file's TOML tree before it is read, so the same code validates both.

use std::{borrow::Cow, net::SocketAddr, ops::Range, path::PathBuf};

use secrecy::{ExposeSecret, SecretString};
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{
    WILDCARD,
    problem::Findings,
    source::{Flag, Source},
};

/// Values from flags and environment variables. If a value is empty or `None`, the file's value or the default applies.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub file: Option<PathBuf>,
    /// Replaces `listen`.
    pub listen: Vec<String>,
    /// Replaces `api_keys`: `env:NAME`, `file:PATH` or the key itself.
    pub client_keys: Vec<SecretString>,
    /// Whether one of these keys was typed on the command line, where other users of the machine can see it.
    pub typed_client_keys: bool,
    /// The URL of an upstream that replaces all upstreams and models, and serves every model name.
    pub upstream: Option<String>,
    /// The dialect of `upstream`.
    pub dialect: Option<String>,
    /// The key of `upstream`: `env:NAME`, `file:PATH` or the key itself.
    pub api_key: Option<SecretString>,
    pub typed_api_key: bool,
    /// Replaces `tools` of every model.
    pub tools: Option<String>,
    /// Replaces `chat_template` of every model with the path of a file.
    pub chat_template: Option<String>,
    /// Replaces `detect` of every model. Names are separated by commas.
    pub detect: Option<String>,
    /// Replaces `server_calls` of every model.
    pub server_calls: Option<String>,
}

/// The name of the upstream that flags describe.
const UPSTREAM: &str = "upstream";

impl Overrides {
    /// Inserts the values into `root`.
    pub(super) fn lay_over(&self, root: &mut DeTable<'_>, source: &Source) {
        let at = |flag| source.flag(flag);
        if !self.listen.is_empty() {
            put(root, "listen", strings(self.listen.iter().map(String::as_str), at(Flag::Listen)));
        }
        if !self.client_keys.is_empty() {
            let keys = self.client_keys.iter().map(ExposeSecret::expose_secret);
            put(root, "api_keys", strings(keys, at(Flag::ClientKey)));
        }
        if let Some(url) = &self.upstream {
            self.lay_upstream_over(url, root, source);
            // Whoever begins without a file finds the console. Without keys it answers local requests only.
            if self.file.is_none() && self.listens_locally() {
                let at = at(Flag::Upstream);
                put(root, "admin", Spanned::new(at, DeValue::Table(DeTable::new())));
            }
        }
        let Some(DeValue::Array(models)) = root.get_mut("models").map(Spanned::get_mut) else { return };
        for model in models.iter_mut() {
            let DeValue::Table(model) = model.get_mut() else { continue };
            if let Some(tools) = &self.tools {
                put(model, "tools", string(tools, at(Flag::Tools)));
            }
            if let Some(path) = &self.chat_template {
                put(model, "chat_template", string(&format!("file:{path}"), at(Flag::ChatTemplate)));
            }
            if let Some(detect) = &self.detect {
                let value = match detect.as_str() {
                    word @ ("auto" | "off") => string(word, at(Flag::Detect)),
                    names => strings(names.split(',').map(str::trim), at(Flag::Detect)),
                };
                put(model, "detect", value);
            }
            if let Some(word) = &self.server_calls {
                put(model, "server_calls", string(word, at(Flag::ServerCalls)));
            }
        }
    }

    /// Whether only addresses of this machine are listened on.
    fn listens_locally(&self) -> bool {
        let is_local = |address: &String| {
            address.parse::<SocketAddr>().is_ok_and(|address| address.ip().to_canonical().is_loopback())
        };
        self.listen.iter().all(is_local)
    }

    /// Warns about keys that were typed on the command line, and refuses what concerns an upstream that is not given.
    pub(super) fn check(&self, findings: &Findings, source: &Source) {
        let orphans = [(self.dialect.is_some(), Flag::Dialect), (self.api_key.is_some(), Flag::ApiKey)];
        for (_, flag) in orphans.into_iter().filter(|(is_given, _)| *is_given && self.upstream.is_none()) {
            findings.wrong(source.flag(flag), "it needs the URL of an upstream: `toolwire serve URL`");
        }
        let typed = [(self.typed_client_keys, Flag::ClientKey), (self.typed_api_key, Flag::ApiKey)];
        for (_, flag) in typed.into_iter().filter(|(is_typed, _)| *is_typed) {
            let message = "a key in the command line shows in the list of processes (`ps`); `env:NAME` or `file:PATH` \
                 keeps it out";
            findings.warning(source.flag(flag), message);
        }
    }

    fn lay_upstream_over(&self, url: &str, root: &mut DeTable<'_>, source: &Source) {
        let at = source.flag(Flag::Upstream);
        let mut upstream = DeTable::new();
        put(&mut upstream, "name", string(UPSTREAM, at.clone()));
        put(&mut upstream, "base_url", string(url, at.clone()));
        if let Some(dialect) = &self.dialect {
            put(&mut upstream, "dialect", string(dialect, source.flag(Flag::Dialect)));
        }
        if let Some(key) = &self.api_key {
            put(&mut upstream, "api_key", string(key.expose_secret(), source.flag(Flag::ApiKey)));
        }
        let mut model = DeTable::new();
        put(&mut model, "name", string(WILDCARD, at.clone()));
        put(&mut model, "upstream", string(UPSTREAM, at.clone()));
        for (key, table) in [("upstreams", upstream), ("models", model)] {
            let mut tables = DeArray::new();
            tables.push(Spanned::new(at.clone(), DeValue::Table(table)));
            put(root, key, Spanned::new(at.clone(), DeValue::Array(tables)));
        }
    }
}

fn put<'i>(table: &mut DeTable<'i>, key: &'static str, value: Spanned<DeValue<'i>>) {
    table.insert(Spanned::new(value.span(), Cow::Borrowed(key)), value);
}

fn string(text: &str, span: Range<usize>) -> Spanned<DeValue<'static>> {
    Spanned::new(span, DeValue::String(Cow::Owned(text.to_owned())))
}

fn strings<'t>(texts: impl Iterator<Item = &'t str>, span: Range<usize>) -> Spanned<DeValue<'static>> {
    let mut array = DeArray::new();
    for text in texts {
        array.push(string(text, span.clone()));
    }
    Spanned::new(span, DeValue::Array(array))
}
