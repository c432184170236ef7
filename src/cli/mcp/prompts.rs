//! `toolwire mcp prompts` and `toolwire mcp prompt`.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::{runtime::Builder, time::sleep};

use super::ConfigArgs;
use crate::cli::{
    block_on::block_on,
    output::{self, Failed},
};
use toolwire_config::Config;
use toolwire_execution::{ExecutionSettings, Prompt, Provider, ProviderState, Started};
use toolwire_gateway::{Server, observe::untrusted_text::escaped};

/// Interval between looks at servers that are starting.
const PAUSE: Duration = Duration::from_millis(20);

/// Options of `mcp prompts`.
#[derive(Debug, clap::Args)]
pub(super) struct PromptsArgs {
    /// Only those of this server
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Options of `mcp prompt`.
#[derive(Debug, clap::Args)]
pub(super) struct PromptArgs {
    /// The server's name in the configuration
    #[arg(value_name = "NAME")]
    name: String,
    /// The prompt
    #[arg(value_name = "PROMPT")]
    prompt: String,
    /// Its arguments
    #[arg(value_name = "KEY=VALUE")]
    values: Vec<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Prints the prompts of all MCP servers, or of one.
pub(super) fn list(args: &PromptsArgs) -> ExitCode {
    with(&args.config, async |config| {
        let execution = started(config, args.name.as_deref())?;
        let mut lines = String::new();
        for (name, provider) in execution.registry().providers() {
            match ready(&**provider).await {
                Ok(()) => lines.extend(provider.prompts().iter().map(|prompt| line(name, prompt))),
                Err(reason) => eprintln!("warning: the server {name} is not available: {}", escaped(&reason)),
            }
        }
        execution.stop();
        Ok(print(&lines)?)
    })
}

/// Prints a prompt with its arguments.
pub(super) fn fill(args: &PromptArgs) -> ExitCode {
    let PromptArgs { name, prompt, values, config } = args;
    with(config, async |config| {
        let mut arguments = Map::new();
        for value in values {
            let (key, value) = value.split_once('=').ok_or_else(|| format!("`{value}` is not KEY=VALUE"))?;
            arguments.insert(key.to_owned(), Value::from(value));
        }
        let execution = started(config, Some(name))?;
        let provider = execution.provider(name).ok_or("the provider cannot be started")?;
        ready(&*provider).await.map_err(|reason| format!("the server {name} is not available: {reason}"))?;
        let (running, prompt) = (Arc::clone(&provider), prompt.to_owned());
        let filled = execution.runtime().run(async move { running.fill(&prompt, arguments).await });
        let filled = filled.await.ok_or("the server was stopped")??;
        execution.stop();
        let lines: Vec<_> = filled.text().lines().map(|line| escaped(line).into_owned()).collect();
        Ok(print(&(lines.join("\n") + "\n"))?)
    })
}

/// Does this with the configuration.
fn with(config: &ConfigArgs, work: impl AsyncFnOnce(Config) -> Result<(), Failed>) -> ExitCode {
    let config = match config.load() {
        Ok(config) => config,
        Err(status) => return status,
    };
    match block_on(Builder::new_current_thread(), work(config)).map_err(Failed::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(error.as_ref(), None),
    }
}

/// Starts the MCP servers of the configuration, or only the provider `name`, and nothing else.
fn started(mut config: Config, name: Option<&str>) -> Result<Arc<Started>, Failed> {
    let mut settings = config.execution.as_deref().cloned().unwrap_or_else(ExecutionSettings::default);
    settings.providers.retain(|entry| entry.options.kind() == "mcp");
    if let Some(name) = name {
        let names: Vec<_> = settings.providers.iter().map(|entry| entry.name.clone()).collect();
        settings.providers.retain(|entry| entry.name == name);
        if settings.providers.is_empty() {
            return Err(format!("there is no MCP server `{name}`, but: {}", names.join(", ")).into());
        }
    }
    settings.audit = None;
    settings.login_dir = config.state_dir.take();
    config.execution = Some(Arc::new(settings));
    // The rest of the state may be in use by a server that is running, and nothing is served over HTTP.
    config.listen.clear();
    let server = Server::bind(Arc::new(config), None)?;
    Ok(server.execution().ok_or("there are no hosted tools")?)
}

/// Waits until a server is ready.
///
/// # Errors
/// Why it is not.
async fn ready(provider: &dyn Provider) -> Result<(), String> {
    loop {
        let status = provider.status();
        match status.state {
            ProviderState::Ready => return Ok(()),
            ProviderState::Starting => sleep(PAUSE).await,
            ProviderState::Restarting | ProviderState::Failed | ProviderState::NeedsLogin => {
                return Err(status.reason.unwrap_or_default());
            }
        }
    }
}

/// `PROVIDER PROMPT KEY [KEY]  description`, where the keys in brackets are optional.
fn line(provider: &str, prompt: &Prompt) -> String {
    let mut line = format!("{provider} {}", prompt.name);
    for argument in &prompt.arguments {
        let name = &argument.name;
        line += &if argument.is_required { format!(" {name}") } else { format!(" [{name}]") };
    }
    let about = if prompt.description.is_empty() { &prompt.title } else { &prompt.description };
    if !about.is_empty() {
        line += &format!("  {about}");
    }
    format!("{}\n", escaped(&line))
}

fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
