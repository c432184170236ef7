//! `toolwire lumo`: manages the sessions of Lumo accounts.

use std::{env, path::PathBuf, process::ExitCode, time::Duration};

use serde_json::{Value, json};

use super::{
    output::{failed, refused, warn},
    problems, results,
};
use toolwire_config as config;
use toolwire_config::{Loaded, Overrides};
use toolwire_gateway::{Managed, SessionError, Status, observe::untrusted_text::escaped};

/// Options of `lumo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_name = "ACTION")]
    action: Action,
    /// The configuration file
    #[arg(long, short, value_name = "FILE", env = "TOOLWIRE_CONFIG")]
    config: Option<PathBuf>,
    /// The account of the upstream with this name, if several have one
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Write JSON: the status
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Show ids and expiry of sessions
    Status,
    /// Refresh a session now
    Refresh,
    /// End a session, and remove its file
    Logout,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let done = match args.action {
        Action::Status => args.all().map(|all| status(&all, args.json)),
        Action::Refresh => args.one().map(|account| refresh(&account, args.json)),
        Action::Logout => args.one().map(|account| log_out(&account)),
    };
    done.unwrap_or_else(|status| status)
}

impl Args {
    /// Returns all accounts in the configuration.
    fn all(&self) -> Result<Vec<Managed>, ExitCode> {
        let overrides = Overrides { file: self.config.clone(), ..Overrides::default() };
        let config = match config::load(&overrides, &|name| env::var(name).ok()) {
            Ok(Loaded { config, warnings }) => {
                problems::say(&warnings);
                config
            }
            Err(problems) => return Err(problems::refused(&problems)),
        };
        let is_meant = |upstream: &str| self.account.as_deref().is_none_or(|name| name == upstream);
        let meant = config.upstreams.iter().filter(|upstream| is_meant(&upstream.name));
        let accounts: Vec<_> = meant.filter_map(Managed::of).collect();
        if accounts.is_empty() {
            let which = self
                .account
                .as_ref()
                .map_or("no upstream".to_owned(), |name| format!("no upstream `{name}`"));
            let next = "`session` in `[upstreams.lumo]` names the file with the session of an account";
            return Err(refused(format_args!("the configuration has {which} with an account"), Some(next)));
        }
        Ok(accounts)
    }

    fn one(&self) -> Result<Managed, ExitCode> {
        let mut accounts = self.all()?;
        match (accounts.pop(), accounts.is_empty()) {
            (Some(only), true) => Ok(only),
            _ => Err(refused("several upstreams have an account", Some("`--account NAME` selects one"))),
        }
    }
}

fn status(accounts: &[Managed], as_json: bool) -> ExitCode {
    let found: Vec<_> = accounts.iter().map(|account| (account, account.status())).collect();
    let all_live = found.iter().all(|(_, status)| status.is_ok());
    let code = if all_live { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    results(code, |out| {
        if as_json {
            let told: Vec<_> = found.iter().map(|(account, status)| told(account, status)).collect();
            return writeln!(out, "{:#}", Value::Array(told));
        }
        for (account, status) in &found {
            let lines = match status {
                Ok(status) => described(status),
                Err(problem) => vec![format!("logged out: {problem}")],
            };
            writeln!(out, "{}", escaped(account.upstream()))?;
            for line in lines {
                writeln!(out, "  {}", escaped(&line))?;
            }
            if let Some(file) = account.file() {
                let note =
                    if account.is_exposed() { ", which other users can read: `chmod 600` it" } else { "" };
                writeln!(out, "  {}{note}", escaped(&format!("file {}", file.display())))?;
            }
        }
        Ok(())
    })
}

fn told(account: &Managed, status: &Result<Status, SessionError>) -> Value {
    let mut told = json!({ "upstream": account.upstream(), "file": account.file() });
    let (key, value) = match status {
        Ok(Status { uid, expires_in, refreshed_ago, is_refreshable }) => (
            "session",
            json!({
                "uid": uid,
                "expires_in": expires_in,
                "refreshed_ago": refreshed_ago,
                "refreshable": is_refreshable,
            }),
        ),
        Err(problem) => ("problem", json!(problem.to_string())),
    };
    if let Value::Object(told) = &mut told {
        told.insert(key.to_owned(), value);
    }
    told
}

fn described(Status { uid, expires_in, refreshed_ago, is_refreshable }: &Status) -> Vec<String> {
    let expiry = match expires_in {
        None => "access token: its expiry is not known".to_owned(),
        Some(1..) => format!("access token: expires in {}", length(*expires_in)),
        Some(_) => "access token: expired".to_owned(),
    };
    let refresh = match (is_refreshable, refreshed_ago) {
        (false, _) => "refresh token: none; log in again when the access token has expired".to_owned(),
        (true, None) => "refresh token: not used yet".to_owned(),
        (true, Some(_)) => format!("refresh token: last used {} ago", length(*refreshed_ago)),
    };
    vec![format!("session {uid}"), expiry, refresh]
}

fn length(seconds: Option<i64>) -> String {
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

fn refresh(account: &Managed, as_json: bool) -> ExitCode {
    match account.refresh() {
        Ok(()) => status(std::slice::from_ref(account), as_json),
        Err(problem) => failed(format_args!("upstream `{}`: {problem}", account.upstream()), None),
    }
}

fn log_out(account: &Managed) -> ExitCode {
    match account.log_out() {
        Ok(None) => results(ExitCode::SUCCESS, |out| {
            writeln!(out, "{}: the session has ended", escaped(account.upstream()))
        }),
        Ok(Some(refusal)) => {
            let next = "the session may still be valid at Proton: end it in the account's settings there";
            warn(format_args!("the file is removed, but the session was not ended: {refusal}"), Some(next));
            ExitCode::FAILURE
        }
        Err(problem) => failed(format_args!("upstream `{}`: {problem}", account.upstream()), None),
    }
}
