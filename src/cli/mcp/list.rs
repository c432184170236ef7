//! `toolwire mcp list`: the MCP servers of the configuration, and whether they need a login.

use std::{collections::HashSet, process::ExitCode};

use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::{
    super::{
        block_on::block_on,
        output::{Failed, failed},
        results,
    },
    ConfigArgs, valid_keys,
};
use toolwire_config::calendar;
use toolwire_execution::{
    audit::unix_time,
    oauth::{Account, LoginState, VaultError},
};
use toolwire_gateway::observe::untrusted_text::escaped;

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// A server.
struct Listed {
    name: String,
    /// The client key whose login it is.
    key: Option<String>,
    url: Option<String>,
    state: &'static str,
    expires_at: Option<u64>,
    is_refreshable: bool,
}

pub(super) fn list(args: &ListArgs) -> ExitCode {
    let config = match args.config.load() {
        Ok(config) => config,
        Err(status) => return status,
    };
    let settings = config.execution.as_deref();
    let accounts =
        settings.map(|settings| settings.accounts(config.state_dir.as_deref())).unwrap_or_default();
    let valid = valid_keys(&config, unix_time());
    let listing = async {
        let mut listed = Vec::new();
        for entry in settings.into_iter().flat_map(|settings| &settings.providers) {
            if entry.options.kind() == "mcp" {
                let account = accounts.iter().find(|account| account.name() == entry.name);
                listed.push(Listed::of(&entry.name, account.map(AsRef::as_ref)).await);
                if let Some(account) = account.filter(|account| account.is_per_key()) {
                    listed.extend(account.keys()?.iter().map(|key| Listed::of_key(account, key, &valid)));
                }
            }
        }
        Ok::<_, VaultError>(listed)
    };
    let listed = match block_on(Builder::new_current_thread(), listing).map_err(Failed::from) {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => return failed(error, None),
        Err(error) => return failed(error, None),
    };
    let width = listed.iter().map(|own| own.shown_name().len()).max().unwrap_or(0);
    results(ExitCode::SUCCESS, |out| {
        if args.json {
            return writeln!(out, "{:#}", Value::from_iter(listed.iter().map(Listed::json)));
        }
        listed.iter().try_for_each(|own| {
            let url = own.url.as_deref().unwrap_or("a program, or a server with a key");
            writeln!(out, "{:width$}  {:11}  {url}{}", escaped(&own.shown_name()), own.state, own.expiry())
        })
    })
}

impl Listed {
    fn new(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, key: None, url: None, state: "ok", expires_at: None, is_refreshable: false }
    }

    /// The login of the client key `key`, which is not used if the key is not one of `valid`.
    fn of_key(account: &Account, key: &str, valid: &HashSet<String>) -> Self {
        let (expires_at, is_refreshable, state) = match account.of_key(key).state() {
            LoginState::LoggedIn { .. } if !valid.contains(key) => (None, false, "no such key"),
            LoginState::LoggedIn { expires_at, is_refreshable } => (expires_at, is_refreshable, "ok"),
            LoginState::LoggedOut { .. } => (None, false, "needs login"),
        };
        let (key, url) = (Some(key.to_owned()), Some(account.server().to_owned()));
        Self { key, url, state, expires_at, is_refreshable, ..Self::new(account.name()) }
    }

    /// The name as commands take it.
    fn shown_name(&self) -> String {
        let key = self.key.as_ref().map(|key| format!(" --key {key}")).unwrap_or_default();
        format!("{}{key}", self.name)
    }

    async fn of(name: &str, account: Option<&Account>) -> Self {
        let mut listed = Self::new(name);
        let Some(account) = account else { return listed };
        listed.url = Some(account.server().to_owned());
        if account.is_per_key() {
            listed.state = "per key";
            return listed;
        }
        match account.state() {
            LoginState::LoggedIn { expires_at, is_refreshable } => {
                (listed.expires_at, listed.is_refreshable) = (expires_at, is_refreshable);
            }
            LoginState::LoggedOut { .. } => {
                listed.state = match account.is_needed().await {
                    Some(true) => "needs login",
                    Some(false) => "ok",
                    None => "unreachable",
                };
            }
        }
        listed
    }

    fn expiry(&self) -> String {
        match (self.expires_at, self.is_refreshable) {
            (None, _) => String::new(),
            (Some(time), true) => format!(", token until {}, then refreshed", calendar::rfc3339(time)),
            (Some(time), false) => format!(", token until {}", calendar::rfc3339(time)),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "key": self.key,
            "url": self.url,
            "state": self.state,
            "expires": self.expires_at.map(calendar::rfc3339),
            "refreshable": self.is_refreshable,
        })
    }
}
