//! `toolwire mcp list`: the MCP servers of the configuration, and whether they need a login.

use std::process::ExitCode;

use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::{
    super::{block_on::block_on, output::failed, results},
    ConfigArgs,
};
use toolwire_config::calendar;
use toolwire_execution::oauth::{Account, LoginState};
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
    let listing = async {
        let mut listed = Vec::new();
        for entry in settings.into_iter().flat_map(|settings| &settings.providers) {
            if entry.options.kind() == "mcp" {
                let account = accounts.iter().find(|account| account.name() == entry.name);
                listed.push(Listed::of(&entry.name, account.map(AsRef::as_ref)).await);
            }
        }
        listed
    };
    let listed = match block_on(Builder::new_current_thread(), listing) {
        Ok(listed) => listed,
        Err(error) => return failed(error, None),
    };
    let width = listed.iter().map(|own| own.name.len()).max().unwrap_or(0);
    results(ExitCode::SUCCESS, |out| {
        if args.json {
            return writeln!(out, "{:#}", Value::from_iter(listed.iter().map(Listed::json)));
        }
        listed.iter().try_for_each(|own| {
            let url = own.url.as_deref().unwrap_or("a program, or a server with a key");
            writeln!(out, "{:width$}  {:11}  {url}{}", escaped(&own.name), own.state, own.expiry())
        })
    })
}

impl Listed {
    async fn of(name: &str, account: Option<&Account>) -> Self {
        let mut listed =
            Self { name: name.to_owned(), url: None, state: "ok", expires_at: None, is_refreshable: false };
        let Some(account) = account else { return listed };
        listed.url = Some(account.server().to_owned());
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
            "url": self.url,
            "state": self.state,
            "expires": self.expires_at.map(calendar::rfc3339),
            "refreshable": self.is_refreshable,
        })
    }
}
