//! `toolwire keys`: creates, lists and revokes clients' keys.

use std::{
    env,
    error::Error,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, header};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{runtime::Builder, time::timeout};

use super::{admin_server::AdminServer, block_on::block_on, output, results};
use toolwire_config as config;
use toolwire_config::{
    ClientKey, Grant, KeyFile, KeyLimits, MadeKey, calendar,
    client_keys::{Made, NAME_EXPECTED, is_name},
};
use toolwire_execution::http::HttpClient;
use toolwire_gateway::{Counts, CountsByModel, observe::untrusted_text::escaped, unix_time};

/// Time limit for fetching usage from a server.
const TIMEOUT: Duration = Duration::from_secs(20);

const MAX_RESPONSE: usize = 16 << 20;

/// Options of `keys`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a key for a client, and print it: it is shown only once
    Add(Box<AddArgs>),
    /// List the keys that were made
    List(ListArgs),
    /// Show what clients have used in this month, as a running server counts it
    Usage(UsageArgs),
    /// Revoke a key by its id, or all keys of a client by its name
    Revoke(RevokeArgs),
}

/// The location of the keys.
#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The configuration file, for its state_dir
    #[arg(long, short, value_name = "FILE", env = "TOOLWIRE_CONFIG")]
    config: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// The client's name; keys with the same name share everything
    name: String,
    /// Model that the client may request, with * for any characters; may be repeated [default: all]
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    models: Vec<String>,
    /// Requests in a minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests_per_minute: Option<u64>,
    /// Tokens in a minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens_per_minute: Option<u64>,
    /// Responses in progress
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    streams: Option<u64>,
    /// Tokens in a calendar month (UTC)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens_per_month: Option<u64>,
    /// When the key expires, as 2027-01-31 or 2027-01-31T18:00:00+01:00 [default: never]
    #[arg(long, value_name = "TIME", value_parser = future)]
    expires: Option<u64>,
    #[command(flatten)]
    file: FileArgs,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// The client's name or the key's id
    #[arg(value_name = "NAME|ID")]
    key: String,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Debug, clap::Args)]
struct UsageArgs {
    #[command(flatten)]
    server: AdminServer,
    /// Write JSON: what GET /admin/keys responds
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> ExitCode {
    match args.action {
        Action::Add(args) => with_file(&args.file, |file| add(&args, file)),
        Action::List(args) => with_file(&args.file, |file| list(&args, file)),
        Action::Usage(args) => usage(&args).unwrap_or_else(|error| {
            output::failed(
                format_args!("{}: {error}", args.server.server),
                Some("is this a toolwire with [admin] in its configuration?"),
            )
        }),
        Action::Revoke(args) => with_file(&args.file, |file| revoke(&args.key, file)),
    }
}

fn with_file(args: &FileArgs, act: impl FnOnce(&KeyFile) -> Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    let folder = config::state_folder_of(args.config.as_deref(), &|name| env::var(name).ok());
    let file = match folder {
        Ok(Some(folder)) => KeyFile::in_folder(&folder),
        Ok(None) => {
            let next = "`--config FILE` names a configuration with `state_dir`";
            return output::refused("there is no folder for keys: the user has no home", Some(next));
        }
        Err(problems) => return output::refused(problems, None),
    };
    act(&file)
        .unwrap_or_else(|error| output::failed(format_args!("{}: {error}", file.path().display()), None))
}

fn add(args: &AddArgs, file: &KeyFile) -> Result<ExitCode, Box<dyn Error>> {
    let name = args.name.as_str();
    if !is_name(name) {
        return Ok(output::refused(format_args!("NAME: expected {NAME_EXPECTED}"), None));
    }
    let AddArgs {
        models, requests_per_minute, tokens_per_minute, streams, tokens_per_month, expires, ..
    } = args;
    let limits = KeyLimits {
        requests_per_minute: *requests_per_minute,
        tokens_per_minute: *tokens_per_minute,
        streams: *streams,
        tokens_per_month: *tokens_per_month,
    };
    let grant = Grant { models: models.clone(), limits };
    let made = MadeKey::new().map_err(|_| "the system has no randomness")?;
    let others = file.edit(|keys| {
        let facts = Made { id: made.id.clone(), created: Some(unix_time()), revoked: None };
        keys.push(ClientKey::new(name, made.key.expose_secret(), grant.clone(), *expires, facts));
        let mut others = 0;
        // Permissions belong to the client, so its other keys get them too.
        for other in keys.iter_mut().filter(|key| key.name == name && grant != Grant::default()) {
            others += usize::from(other.grant != grant);
            other.grant = grant.clone();
        }
        Ok(others)
    })?;
    if others > 0 {
        eprintln!("the models and limits hold for all keys of `{name}` from now on");
    }
    if !args.json {
        eprintln!("the key of `{name}`, id {}; it is not shown again:", made.id);
    }
    let key = made.key.expose_secret();
    Ok(results(ExitCode::SUCCESS, |out| match args.json {
        true => writeln!(out, "{:#}", json!({"name": name, "id": made.id, "key": key})),
        false => writeln!(out, "{key}"),
    }))
}

fn list(args: &ListArgs, file: &KeyFile) -> Result<ExitCode, Box<dyn Error>> {
    let (keys, now) = (file.read()?, unix_time());
    if args.json {
        let keys: Vec<_> = keys.iter().map(|key| shown(key, now)).collect();
        return Ok(results(ExitCode::SUCCESS, |out| writeln!(out, "{:#}", Value::from(keys))));
    }
    if keys.is_empty() {
        eprintln!("there are no keys in {}; `toolwire keys add NAME` makes one", file.path().display());
    }
    let width = keys.iter().map(|key| key.name.len()).max().unwrap_or(0);
    Ok(results(ExitCode::SUCCESS, |out| {
        for key in &keys {
            let id = key.made.as_ref().map_or("", |made| &made.id);
            let (name, state) = (&key.name, state(key, now));
            writeln!(out, "{name:width$}  {id:8}  {state:7}  {}", facts(key).join(", "))?;
        }
        Ok(())
    }))
}

fn revoke(wanted: &str, file: &KeyFile) -> Result<ExitCode, Box<dyn Error>> {
    let now = unix_time();
    let revoked = file.edit(|keys| {
        let mut revoked = Vec::new();
        for key in keys.iter_mut() {
            let is_wanted = key.name == wanted;
            let Some(made) = &mut key.made else { continue };
            if (is_wanted || made.id == wanted) && made.revoked.is_none() {
                made.revoked = Some(now);
                revoked.push(format!("revoked {} of `{}`", made.id, key.name));
            }
        }
        if revoked.is_empty() { Err("no valid key has this name or id".into()) } else { Ok(revoked) }
    })?;
    Ok(results(ExitCode::SUCCESS, |out| revoked.iter().try_for_each(|line| writeln!(out, "{line}"))))
}

fn usage(args: &UsageArgs) -> Result<ExitCode, Box<dyn Error>> {
    let mut request = Request::get(args.server.url("/admin/keys")).body(Bytes::new())?;
    if let Some(authorization) = args.server.authorization()? {
        request.headers_mut().insert(header::AUTHORIZATION, authorization);
    }
    let asked = async { timeout(TIMEOUT, HttpClient::direct().send(request, MAX_RESPONSE)).await };
    let response = block_on(Builder::new_current_thread(), asked)?.map_err(|_| "no response")??;
    let said: Value = serde_json::from_slice(response.body())
        .map_err(|_| format!("status {} without JSON", response.status()))?;
    if !response.status().is_success() {
        let message = said.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
        return Err(format!("status {}: {message}", response.status().as_u16()).into());
    }
    let Report { keys } = Report::deserialize(&said)?;
    let width = keys.iter().map(|key| key.name.len()).max().unwrap_or(0);
    Ok(results(ExitCode::SUCCESS, |out| {
        if args.json {
            return writeln!(out, "{said:#}");
        }
        keys.iter().try_for_each(|key| write_used(out, key, width))
    }))
}

/// Writes a client's usage, in total and per model.
fn write_used(out: &mut dyn Write, key: &Used, width: usize) -> io::Result<()> {
    let Used { name, used, used_by_model, limits } = key;
    let budget = limits.tokens_per_month.map_or_else(String::new, |budget| format!(" of {budget}"));
    let facts = |used: &Counts, budget: &str| {
        let Counts { requests, input_tokens: input, output_tokens: output } = used;
        format!("{requests} requests, {}{budget} tokens ({input} in, {output} out)", used.tokens())
    };
    writeln!(out, "{:width$}  {}", escaped(name), facts(used, &budget))?;
    used_by_model
        .iter()
        .try_for_each(|(model, used)| writeln!(out, "    {}  {}", escaped(model), facts(used, "")))
}

/// The part of the `/admin/keys` response that is shown.
#[derive(Deserialize)]
struct Report {
    keys: Vec<Used>,
}

#[derive(Deserialize)]
struct Used {
    name: String,
    used: Counts,
    used_by_model: CountsByModel,
    limits: Budget,
}

#[derive(Deserialize)]
struct Budget {
    tokens_per_month: Option<u64>,
}

fn state(key: &ClientKey, now: u64) -> &'static str {
    match key.expires {
        _ if key.is_revoked() => "revoked",
        Some(expires) if expires <= now => "expired",
        _ => "valid",
    }
}

/// Describes a key, except for its name and state.
fn facts(key: &ClientKey) -> Vec<String> {
    let Grant { models, limits } = &key.grant;
    let models = (!models.is_empty()).then(|| format!("models {}", models.join(" ")));
    let limit = |limit: Option<u64>, what: &str| limit.map(|limit| format!("{limit} {what}"));
    let expires = key.expires.map(|time| format!("expires {}", calendar::rfc3339(time)));
    let facts = [
        models,
        limit(limits.requests_per_minute, "requests/min"),
        limit(limits.tokens_per_minute, "tokens/min"),
        limit(limits.streams, "streams"),
        limit(limits.tokens_per_month, "tokens/month"),
        expires,
    ];
    facts.into_iter().flatten().collect()
}

fn shown(key: &ClientKey, now: u64) -> Value {
    let Grant { models, limits } = &key.grant;
    let made = key.made.clone().unwrap_or_default();
    let time = |time: Option<u64>| time.map(calendar::rfc3339);
    json!({
        "name": key.name,
        "id": made.id,
        "state": state(key, now),
        "models": models,
        "requests_per_minute": limits.requests_per_minute,
        "tokens_per_minute": limits.tokens_per_minute,
        "streams": limits.streams,
        "tokens_per_month": limits.tokens_per_month,
        "created": time(made.created),
        "expires": time(key.expires),
        "revoked": time(made.revoked),
    })
}

/// Parses a time, which must be in the future.
fn future(written: &str) -> Result<u64, output::Failed> {
    let time = calendar::parse(written).ok_or(
        "expected a date such as 2027-01-31, or a time with its offset such as 2027-01-31T18:00:00Z",
    )?;
    if time > unix_time() { Ok(time) } else { Err("this time has passed".into()) }
}
