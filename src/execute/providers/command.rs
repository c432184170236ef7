//! `kind = "command"`: a program that runs one tool, which has the provider's name.
//!
//! The program gets the arguments as JSON on stdin and writes the result, JSON or text, to stdout. It is started without a shell, in
//! an environment that has only the variables that the settings name. Exit status 0 means success. What it writes to stderr goes
//! to the log.

use std::{process::Stdio, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};

use crate::{
    execute::{ErrorCode, Host, Invocation, Output, Provider, Running, ToolError, ToolSpec},
    settings::{Field, Key, Settings},
    wire::json::Raw,
};

/// The settings.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    command: Vec<String>,
    description: String,
    parameters: Option<Value>,
    environment: Vec<String>,
    timeout: Duration,
    max_output: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            description: String::new(),
            parameters: None,
            environment: vec!["PATH".to_owned(), "HOME".to_owned(), "LANG".to_owned()],
            timeout: Duration::from_secs(60),
            max_output: 1 << 20,
        }
    }
}

impl Options {
    /// The keys.
    pub(super) fn settings(&mut self, keys: &mut dyn Settings) {
        keys.key(
            Key::new("command", "the program and its arguments; no shell reads them").or(Key::REQUIRED),
            Field::Texts(&mut self.command),
        );
        keys.key(
            Key::new("description", "what the tool does, for the model").or(" "),
            Field::Text(&mut self.description),
        );
        keys.key(
            Key::new("parameters", "JSON Schema of the arguments, as a table").or("no arguments"),
            Field::Json(&mut self.parameters),
        );
        keys.key(
            Key::new("environment", "names of variables that the program gets from toolwire's environment"),
            Field::Texts(&mut self.environment),
        );
        keys.key(Key::new("timeout", "how long a call may take"), Field::Duration(&mut self.timeout));
        keys.key(
            Key::new("max_output", "what the program may write to stdout; a call that writes more fails"),
            Field::Size(&mut self.max_output),
        );
    }

    /// The provider.
    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, String> {
        if self.command.is_empty() {
            return Err("`command` is missing: the program and its arguments".to_owned());
        }
        let parameters = self.parameters.clone().unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        let spec = ToolSpec {
            name: host.name.to_string(),
            label: host.name.to_string(),
            description: self.description.clone(),
            parameters: Raw::from(parameters),
            timeout: self.timeout,
            ..ToolSpec::default()
        };
        Ok(Arc::new(Program { options: self.clone(), spec: Arc::new(spec) }))
    }
}

#[derive(Debug)]
struct Program {
    options: Options,
    spec: Arc<ToolSpec>,
}

impl Provider for Program {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        vec![Arc::clone(&self.spec)]
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(self.call(call))
    }
}

impl Program {
    async fn call(&self, call: &Invocation) -> Result<Output, ToolError> {
        let failed = |message: &str| ToolError::new(ErrorCode::ProviderError, message);
        let (program, arguments) = self.options.command.split_first().ok_or_else(|| failed("There is no program."))?;
        let variables = std::env::vars_os()
            .filter(|(name, _)| name.to_str().is_some_and(|name| self.options.environment.iter().any(|own| own == name)));
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|_| failed("The program could not be started."))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("The program could not be started."));
        };
        let input = Value::Object(call.arguments.clone()).to_string();
        let writing = async move {
            // A program that does not read its input closes the pipe.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let limit = u64::try_from(self.options.max_output).unwrap_or(u64::MAX);
        let mut output = Vec::new();
        let mut limited = stdout.take(limit.saturating_add(1));
        let (_, read) = tokio::join!(writing, limited.read_to_end(&mut output));
        read.map_err(|_| failed("The program's output could not be read."))?;
        if output.len() > self.options.max_output {
            return Err(ToolError::new(ErrorCode::TooLarge, "The program wrote more than it may."));
        }
        let status = child.wait().await.map_err(|_| failed("The program was lost."))?;
        if !status.success() {
            return Err(failed("The program failed."));
        }
        let text = String::from_utf8(output).map_err(|_| failed("The program wrote text that is not UTF-8."))?;
        Ok(Output::text(text.trim_end()))
    }
}
