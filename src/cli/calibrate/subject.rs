//! [`Subject`]: the model to calibrate, and its configuration.

use std::{
    env,
    fmt::Display,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use secrecy::ExposeSecret;
use toml::{Table, Value};

use super::{
    super::{
        output::{Failed, failed, refused},
        problems::{self, say},
        upstream_flags::{is_typed, load_asking},
    },
    DESCRIBED,
    flags::UpstreamArgs,
};
use toolwire_config::{Config, Loaded, Model, Overrides, Problems, Upstream};
use toolwire_gateway::doctor::{Fault, examine};
use toolwire_lab::calibrate::{
    run,
    variant::{NATIVE, VARIED, Variant},
};
use toolwire_pipeline::{format::KnownFormats, wire::suggest::suggest};

/// The formats that `--format auto` tries besides those implied by the model's name: one per family.
const FAMILIES: [&str; 9] =
    ["hermes", "bare", "fenced", "pre", "llama3_json", "mistral", "qwen3_coder", "pythonic", "react"];

#[derive(Debug)]
pub(super) struct Subject {
    /// The user's configuration, changed to listen on loopback only.
    config: Config,
    /// The `[[models]]` entry to calibrate.
    model: Model,
    /// The model's name at the upstream.
    pub(super) upstream_name: String,
    /// The file that contains the entry, if it comes from a file.
    file: Option<PathBuf>,
    /// The `[[upstreams]]` entry, if the upstream was given by options.
    upstream_entry: Option<Table>,
}

impl Subject {
    /// Reads the configuration and determines the model. If the upstream must be asked for its models, it may take up to
    /// `timeout` to respond.
    ///
    /// # Errors
    /// There is no model to calibrate. The reason has been reported, and the error is the exit status.
    pub(super) async fn find(args: &UpstreamArgs, timeout: Duration) -> Result<Self, ExitCode> {
        let mut config = load(args).await?;
        config.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        config.tls = None;
        config.threads = 1;
        let model = entry(&config, args.model.as_deref())?.clone();
        if args.upstream.is_some() {
            let patient = |upstream: &Arc<Upstream>| Arc::new(waiting_for(upstream, timeout));
            config.upstreams = config.upstreams.iter().map(patient).collect();
        }
        let upstream_name = match (&model.upstream_name, &args.model) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) => name.clone(),
            (None, None) if !model.is_wildcard() => model.name.clone(),
            (None, None) => only_model(&config, &model, timeout).await?,
        };
        let file = args.config.clone().filter(|_| args.upstream.is_none());
        let upstream_entry = args.upstream.as_ref().map(|_| upstream_entry(args, &model.upstream));
        Ok(Self { config, model, upstream_name, file, upstream_entry })
    }

    pub(super) fn url(&self) -> String {
        self.model.upstream.base_url.to_string()
    }

    /// Expands `all` and `auto` in a list of formats, and removes duplicates.
    pub(super) fn formats(&self, names: &[String]) -> Result<Vec<String>, Failed> {
        let known: &KnownFormats = &self.config.formats;
        let taught: Vec<_> =
            known.all().filter(|format| format.teach.is_some()).map(|format| format.name).collect();
        let mut formats: Vec<String> = Vec::new();
        for name in names {
            let named: Vec<&str> = match name.as_str() {
                "all" => [NATIVE].into_iter().chain(taught.iter().copied()).collect(),
                "auto" => {
                    let implied = known.of_model(&self.upstream_name).into_iter().map(|format| format.name);
                    let implied = implied.filter(|name| taught.contains(name));
                    [NATIVE].into_iter().chain(implied).chain(FAMILIES).collect()
                }
                NATIVE => vec![NATIVE],
                name if taught.contains(&name) => vec![name],
                name => {
                    let words: Vec<_> = taught.iter().copied().chain([NATIVE, "all", "auto"]).collect();
                    let nearest = suggest(name, &words, Some("toolwire formats"));
                    return Err(format!("--format: no format `{name}` can be taught; {nearest}").into());
                }
            };
            for name in named {
                if !formats.iter().any(|known| known == name) {
                    formats.push(name.to_owned());
                }
            }
        }
        Ok(formats)
    }

    /// The configuration with one model per variant. Each model is named after its variant's label.
    pub(super) fn with_variants(&self, variants: &[Variant]) -> Result<Config, Problems> {
        let mut base = self.base()?;
        base.insert("upstream_name".to_owned(), Value::String(self.upstream_name.clone()));
        let entries = variants.iter().map(|variant| variant.entry(&variant.label(), &base)).collect();
        self.config.with_models(entries, self.file.as_deref(), &|name| env::var(name).ok())
    }

    /// Formats a variant as TOML for the user to copy: the model's entry, preceded by the upstream's entry if the upstream
    /// was given by options.
    pub(super) fn entry(&self, variant: &Variant) -> String {
        let name = if self.model.is_wildcard() { &self.upstream_name } else { &self.model.name };
        let mut base = self.base().unwrap_or_default();
        if *name != self.upstream_name {
            base.insert("upstream_name".to_owned(), Value::String(self.upstream_name.clone()));
        }
        let mut root = Table::new();
        if let Some(upstream) = &self.upstream_entry {
            root.insert("upstreams".to_owned(), Value::Array(vec![Value::Table(upstream.clone())]));
        }
        root.insert("models".to_owned(), Value::Array(vec![Value::Table(variant.entry(name, &base))]));
        toml::to_string(&root).unwrap_or_default()
    }

    /// The keys of the model's entry that are the same in all variants.
    fn base(&self) -> Result<Table, Problems> {
        let own = self.config.own_keys(&self.model, self.file.as_deref())?;
        let upstream = ("upstream".to_owned(), Value::String(self.model.upstream.name.clone()));
        let is_kept =
            |key: &str| !VARIED.contains(&key) && !["name", "upstream", "upstream_name"].contains(&key);
        let own = own.into_iter().filter(|(key, _)| is_kept(key));
        Ok([upstream].into_iter().chain(own).collect())
    }
}

fn wrong(error: impl Display) -> ExitCode {
    refused(error, Some(DESCRIBED))
}

async fn load(args: &UpstreamArgs) -> Result<Config, ExitCode> {
    let overrides = Overrides {
        file: args.config.clone(),
        upstream: args.upstream.clone(),
        dialect: args.dialect.clone(),
        api_key: args.api_key.clone(),
        typed_api_key: args.api_key.iter().any(|key| is_typed(key, "TOOLWIRE_UPSTREAM_KEY")),
        ..Overrides::default()
    };
    if overrides.file.is_none() && overrides.upstream.is_none() {
        return Err(wrong("nothing to ask: give --upstream URL, or --config FILE"));
    }
    match load_asking(&overrides).await {
        Ok(Loaded { config, warnings }) => {
            say(&warnings);
            Ok(config)
        }
        Err(problems) => Err(problems::refused(&problems)),
    }
}

/// Finds the `[[models]]` entry for the model `name`. Without a name, returns the entry if there is only one.
fn entry<'c>(config: &'c Config, name: Option<&str>) -> Result<&'c Model, ExitCode> {
    let names: Vec<_> = config.models.iter().map(|model| model.name.as_str()).collect();
    match (name, config.models.as_slice()) {
        (Some(name), _) => config.model(name).ok_or_else(|| {
            wrong(format_args!("--model: there is no model `{name}`; {}", suggest(name, &names, None)))
        }),
        (None, [only]) => Ok(only),
        (None, _) => Err(wrong(format_args!(
            "the configuration has several models: choose one with --model; known are {}",
            names.join(", ")
        ))),
    }
}

/// Raises the upstream's timeouts to at least `timeout`: on a small machine, a model may take long to process the
/// instructions.
fn waiting_for(upstream: &Upstream, timeout: Duration) -> Upstream {
    let mut patient = upstream.clone();
    let timeouts = &mut patient.timeouts;
    timeouts.header = timeouts.header.max(timeout);
    timeouts.idle = timeouts.idle.max(timeout);
    patient
}

/// Asks the upstream for its models, and returns the name if there is only one.
async fn only_model(config: &Config, model: &Model, timeout: Duration) -> Result<String, ExitCode> {
    let listing = Config { models: vec![model.clone()], ..config.clone() };
    let names = match run::models(&listing, timeout).await {
        Ok(names) if !names.is_empty() => names,
        nothing => {
            let fault = examine(&listing).await.into_iter().find_map(|found| found.verdict.err());
            return Err(match (fault, nothing) {
                (Some(Fault { part, message }), _) => {
                    failed(format_args!("the upstream lists no models: {part}: {message}"), None)
                }
                (None, Err(error)) => failed(error, Some("--model names the model")),
                (None, Ok(_)) => wrong("the upstream lists no models: name one with --model"),
            });
        }
    };
    match names.as_slice() {
        [only] => Ok(only.clone()),
        names => {
            const LISTED: usize = 20;
            let shown: Vec<_> = names.iter().take(LISTED).map(String::as_str).collect();
            let more = if names.len() > LISTED { ", …" } else { "" };
            Err(wrong(format_args!(
                "the upstream has several models: choose one with --model; known are {}{more}",
                shown.join(", ")
            )))
        }
    }
}

/// Builds the `[[upstreams]]` entry for an upstream given by options. It refers to the key, but never contains it.
fn upstream_entry(args: &UpstreamArgs, upstream: &Upstream) -> Table {
    let mut entry = Table::new();
    let mut put = |key: &str, value: String| entry.insert(key.to_owned(), Value::String(value));
    put("name", upstream.name.clone());
    put("dialect", upstream.dialect().name().to_owned());
    put("base_url", upstream.base_url.to_string());
    if let Some(key) = &args.api_key {
        let key = key.expose_secret();
        let is_reference = key.starts_with("env:") || key.starts_with("file:");
        put("api_key", if is_reference { key.to_owned() } else { "env:TOOLWIRE_UPSTREAM_KEY".to_owned() });
    }
    entry
}
