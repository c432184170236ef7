//! `toolwire mcp`: offers the hosted tools to one MCP client, over stdin and stdout, logs in to MCP servers, and shows
//! their prompts.

mod list;
mod login;
mod prompts;

use std::{collections::HashSet, env, path::PathBuf, process::ExitCode, sync::Arc};

use tokio::{
    io::{stdin, stdout},
    runtime::Builder,
};

use super::{
    LogFormat, UpstreamFlags,
    block_on::block_on,
    output::{self, Failed, refused},
    problems,
};
use toolwire_config as config;
use toolwire_config::{
    Config, KeyFile, Loaded, Overrides,
    client_keys::{NAME_EXPECTED, is_name},
};
use toolwire_execution::{Asker, audit::unix_time, mcp_server::McpServer, oauth::Account};
use toolwire_gateway::{Server, observe::untrusted_text::escaped};
use toolwire_pipeline::wire::suggest::suggest;

/// Options of `mcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Offer the hosted tools to the MCP client that starts this program
    Serve(Box<ServeArgs>),
    /// Log in to an MCP server that wants OAuth, in a browser
    Login(login::LoginArgs),
    /// End the login at an MCP server
    Logout(login::LogoutArgs),
    /// List the MCP servers, and whether they need a login
    List(list::ListArgs),
    /// List the prompts of MCP servers
    Prompts(prompts::PromptsArgs),
    /// Print a prompt of an MCP server with its arguments filled in
    Prompt(prompts::PromptArgs),
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// The configuration.
    #[command(flatten)]
    upstream: UpstreamFlags,
}

/// The configuration with the servers.
#[derive(Debug, clap::Args)]
struct ConfigArgs {
    /// The configuration file
    #[arg(long, short, value_name = "FILE", env = "TOOLWIRE_CONFIG")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// Reads the configuration, and reports its problems.
    ///
    /// # Errors
    /// The configuration is wrong. The error is the exit status.
    fn load(&self) -> Result<Config, ExitCode> {
        let overrides = Overrides { file: self.config.clone(), ..Overrides::default() };
        match config::load(&overrides, &|name| env::var(name).ok()) {
            Ok(Loaded { config, warnings }) => {
                problems::say(&warnings);
                Ok(config)
            }
            Err(problems) => Err(problems::refused(&problems)),
        }
    }

    /// Finds the account at the server `name` for a login, of the client key `key` if each has its own.
    ///
    /// # Errors
    /// There is none, or no such key. The error is the exit status.
    fn account_to_log_in(&self, name: &str, key: Option<&str>) -> Result<Arc<Account>, ExitCode> {
        let config = self.load()?;
        let account = Self::account(&config, name, key)?;
        let valid = valid_keys(&config, unix_time());
        if let Some(unknown) = key.filter(|key| !valid.contains(*key)) {
            let mut known: Vec<_> = valid.iter().map(String::as_str).collect();
            known.sort_unstable();
            let next = suggest(unknown, &known, Some("toolwire keys list"));
            return Err(refused(format_args!("there is no client key `{unknown}`"), Some(&next)));
        }
        Ok(account)
    }

    /// Finds the account at the server `name`, of the client key `key` if each has its own.
    ///
    /// # Errors
    /// There is none. The error is the exit status.
    fn account(config: &Config, name: &str, key: Option<&str>) -> Result<Arc<Account>, ExitCode> {
        let settings = config.execution.as_deref();
        let accounts = settings.map(|settings| settings.accounts(config.state_dir.as_deref()));
        let found =
            accounts.into_iter().flatten().find(|account| account.name() == name && account.wants_person());
        let account = found.ok_or_else(|| {
            let next = "`toolwire mcp list` lists them; one with a key or a secret needs no login";
            refused(
                format_args!("the configuration has no MCP server `{name}` that may need a login"),
                Some(next),
            )
        })?;
        match key {
            Some(key) if account.is_per_key() => match is_name(key) {
                true => Ok(account.of_key(key)),
                false => Err(refused(format_args!("`{}` is not {NAME_EXPECTED}", escaped(key)), None)),
            },
            None if account.is_per_key() => {
                let next = "`--key NAME` says whose login it is";
                Err(refused(format_args!("each client key has a login of its own at `{name}`"), Some(next)))
            }
            Some(_) => {
                let next = "`oauth_login_per = \"key\"` changes that";
                Err(refused(format_args!("all clients use one login at `{name}`"), Some(next)))
            }
            None => Ok(account),
        }
    }
}

/// The names of the client keys that are valid at `now`, a Unix time in seconds.
fn valid_keys(config: &Config, now: u64) -> HashSet<String> {
    let saved = config.state_dir.as_deref().map(|folder| KeyFile::in_folder(folder).read());
    let saved = saved.and_then(Result::ok).unwrap_or_default();
    let all = config.keys.iter().chain(&saved);
    let valid = all.filter(|key| !key.is_revoked() && key.expires.is_none_or(|expires| expires > now));
    // The client of the console's Playground has no key.
    valid.map(|key| key.name.clone()).chain(["console".to_owned()]).collect()
}

pub(super) fn run(args: &Args, log_format: LogFormat) -> ExitCode {
    match &args.action {
        Action::Serve(args) => offer(&args.upstream, log_format),
        Action::Login(args) => login::log_in(args),
        Action::Logout(args) => login::log_out(args),
        Action::List(args) => list::list(args),
        Action::Prompts(args) => prompts::list(args),
        Action::Prompt(args) => prompts::fill(args),
    }
}

fn offer(upstream: &UpstreamFlags, log_format: LogFormat) -> ExitCode {
    let mut config = match upstream.load_or_say(log_format) {
        Ok(config) => config,
        Err(status) => return status,
    };
    if config.execution.is_none() {
        let next = "`[execution]` and `[[providers]]` add them: docs/tools.md";
        return refused("the configuration has no hosted tools", Some(next));
    }
    // Nothing is served over HTTP.
    config.listen.clear();
    let served = block_on(Builder::new_current_thread(), serve(config));
    match served.map_err(Failed::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(error.as_ref(), None),
    }
}

async fn serve(config: Config) -> Result<(), Failed> {
    let server = Server::bind(Arc::new(config), None)?;
    let Some(execution) = server.execution() else { return Ok(()) };
    let asker = Asker {
        owner: Default::default(),
        client: None,
        payer: None,
        describer: None,
        model: "".into(),
        exchange: "mcp".into(),
    };
    let talked = McpServer::new(Arc::clone(&*execution), asker).talk(stdin(), stdout()).await;
    execution.stop();
    Ok(talked?)
}
