//! `kind = "command"`: a program that implements one tool, which has the provider's name.
//!
//! The program reads the arguments as JSON from stdin and writes the result, JSON or text, to stdout. Exit status 0
//! means success. Stderr is logged. The program is started without a shell, with only the environment variables that
//! the settings name. When the program or the call ends, all processes that it has started are killed.

mod output;
mod template;

use std::{
    process::ExitStatus,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use self::template::Template;
use crate::{
    ErrorCode, Host, Invocation, Output, Provider, Running, Status, ToolError, ToolSpec,
    process::{Process, Program},
    providers::Fault,
    stderr::StderrLog,
};
use toolwire_pipeline::{
    settings::{Field, Key, Settings, Visitor},
    wire::json::Raw,
};

/// How long stdout may stay open after the program and its process group have ended. Only a process that has left the
/// group can keep it open.
const GRACE: Duration = Duration::from_millis(500);

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct Options {
    #[setting(visit = Self::visit_program)]
    program: Program,
    /// what the tool does, for the model
    #[setting(or = " ")]
    description: String,
    /// JSON Schema of the arguments, as a table
    #[setting(or = "no arguments")]
    parameters: Option<Value>,
    /// how long a call may take
    #[setting(default = Duration::from_secs(60))]
    timeout: Duration,
    /// what the program may write to stdout; with more, the call fails
    #[setting(default = 1 << 20, size)]
    max_output: usize,
}

impl Options {
    fn visit_program(&mut self, keys: &mut dyn Visitor) {
        let about = "the program and its arguments, without a shell. `{NAME}` is replaced by that argument of the call, \
                     or left out";
        let command = Key::new("command", about).or(Key::REQUIRED).file_only();
        keys.key(command, Field::Texts(&mut self.program.command));
        self.program.settings(keys);
    }

    fn parameters(&self) -> Value {
        self.parameters.clone().unwrap_or_else(|| json!({"type": "object", "properties": {}}))
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        Template::new(&self.program.command, &self.parameters()).map(drop)
    }

    /// The names of the provider's tools.
    pub(super) fn offers(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, Fault> {
        let parameters = self.parameters();
        let template = Template::new(&self.program.command, &parameters)?;
        let spec = ToolSpec {
            name: host.name.to_string(),
            label: host.name.to_string(),
            description: self.description.clone(),
            parameters: Raw::from(parameters),
            timeout: self.timeout,
            ..ToolSpec::default()
        };
        Ok(Arc::new(CommandTool {
            program: self.program.clone(),
            template,
            max_output: self.max_output,
            spec: Arc::new(spec),
            name: Arc::clone(&host.name),
            stderr: OnceLock::new(),
        }))
    }
}

#[derive(Debug)]
struct CommandTool {
    program: Program,
    template: Template,
    max_output: usize,
    spec: Arc<ToolSpec>,
    name: Arc<str>,
    stderr: OnceLock<StderrLog>,
}

impl Provider for CommandTool {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        vec![Arc::clone(&self.spec)]
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(self.call(call))
    }

    fn status(&self) -> Status {
        let stderr = self.stderr.get().map(StderrLog::last).unwrap_or_default();
        Status { stderr, ..Status::default() }
    }
}

impl CommandTool {
    async fn call(&self, call: &Invocation) -> Result<Output, ToolError> {
        let arguments = self.template.fill(&call.arguments)?;
        let process = self.program.spawn(arguments.iter().map(String::as_str)).map_err(|error| {
            tracing::warn!(provider = %self.name, %error, "the program cannot be started");
            failed("The program could not be started.")
        })?;
        let stderr =
            self.stderr.get_or_init(|| StderrLog::new(Arc::clone(&self.name), self.program.secrets()));
        let input = Value::Object(call.arguments.clone()).to_string();
        let (status, output) = exchange(process, input, self.max_output, stderr).await?;
        let text =
            String::from_utf8(output).map_err(|_| failed("The program wrote text that is not UTF-8."))?;
        match status.success() {
            true => Ok(output::read(text.trim_end())),
            false if text.trim().is_empty() => Err(failed(&ending(status))),
            false => Ok(Output::failed(text.trim_end())),
        }
    }
}

fn failed(message: &str) -> ToolError {
    ToolError::new(ErrorCode::ProviderError, message)
}

fn ending(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("The program failed with exit status {code}."),
        None => "The program was killed by a signal.".to_owned(),
    }
}

/// Sends a program its input, and reads its output until it ends. Then kills all processes in its group, so that they
/// cannot keep its output open.
async fn exchange(
    process: Process,
    input: String,
    max_output: usize,
    stderr: &StderrLog,
) -> Result<(ExitStatus, Vec<u8>), ToolError> {
    let Process { mut group, mut child, mut stdin, stdout, stderr: messages } = process;
    let mut writing = Box::pin(async move {
        // An error means that the program does not read its input.
        let _ = stdin.write_all(input.as_bytes()).await;
    });
    let mut reading = Box::pin(read_limited(stdout, max_output));
    let mut logging = Box::pin(stderr.read(messages));
    let (mut is_written, mut is_logged, mut output) = (false, false, None);
    let status = loop {
        tokio::select! {
            () = &mut writing, if !is_written => is_written = true,
            () = &mut logging, if !is_logged => is_logged = true,
            read = &mut reading, if output.is_none() => output = Some(read?),
            status = child.wait() => break status,
        }
    };
    group.kill();
    if !is_logged {
        // Best effort: the log is not worth delaying the call.
        let _ = timeout(GRACE, logging).await;
    }
    let output = match output {
        Some(output) => output,
        None => timeout(GRACE, reading)
            .await
            .unwrap_or_else(|_| Err(failed("The program ended, but its output was not closed.")))?,
    };
    Ok((status.map_err(|_| failed("The program was lost."))?, output))
}

async fn read_limited(stdout: impl AsyncRead + Unpin, limit: usize) -> Result<Vec<u8>, ToolError> {
    let mut output = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = stdout.take(most).read_to_end(&mut output).await;
    read.map_err(|_| failed("The program's output could not be read."))?;
    match output.len() > limit {
        true => Err(ToolError::new(ErrorCode::TooLarge, "The program wrote more than it may.")),
        false => Ok(output),
    }
}

#[cfg(test)]
mod tests;
