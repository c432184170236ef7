//! [`ChatTemplate`]: a model's own chat template, which renders a conversation as a single prompt.
//!
//! ```text
//! tokenizer_config.json or *.jinja ─parse─▶ ChatTemplate ─render(Conversation, time)─▶ Prompt
//! ```
//!
//! Templates are written in Jinja and rendered like transformers does: with trimmed blocks, loop controls and a few
//! functions (docs/protocols/completions.md#chat-templates). minijinja runs them, and `environment` adjusts what it
//! does differently from Python.
//!
//! Templates come with models and are not trusted. Their work is limited by a budget that grows with the
//! conversation, so an endless loop or a string that keeps doubling can neither block a thread nor exhaust memory.
//! There is one gap: minijinja does not charge for comparing lists, or for converting them to text within an
//! expression. Both take exponential time for a list that contains the same list twice on each of many levels.
//!
//! Text from clients is data and never becomes part of the template.

mod environment;
mod file;
mod generation;
mod instructions;
mod messages;
mod methods;
mod python;
mod strftime;

use std::{fmt, io};

use minijinja::{Environment, ErrorKind, Value};

use self::file::SpecialToken;
pub use self::strftime::strftime;
use toolwire_dialects as dialect;
use toolwire_engine::{
    conversation::{self, Conversation, Prompt},
    failure::{self, Failure, Kind},
};
use toolwire_wire as wire;

/// A compiled chat template and the model's special tokens.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// The name of the file, for error messages.
    origin: String,
    /// Whether there is a separate template for requests with tools.
    has_tool_template: bool,
    /// The values of variables such as `bos_token`.
    tokens: Vec<SpecialToken>,
    /// The text of the file, by which templates are compared.
    source: String,
    digest: wire::digest::Digest,
}

/// The name of the main template in the environment. It does not affect escaping, which is disabled.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// The variable for the token that begins a text.
const BOS: &str = "bos_token";

/// The fixed part of the budget. A unit of work is one instruction or 64 bytes.
const BASE_FUEL: usize = 200_000;

/// How many bytes of the conversation add one unit of work. This budget is enough to copy each byte about fifteen
/// times. For a message of a few words, it is also enough to run about forty instructions.
const BYTES_PER_FUEL: usize = 4;

/// The fixed part of the stack size in bytes, which is for macro and block calls and for values from clients.
const BASE_STACK: usize = 8 << 20;

/// How many bytes of stack each unit of work adds. The memory is used only if a template nests values.
const STACK_PER_FUEL: usize = 512;

/// The fixed part of a prompt's maximum size, in bytes.
const BASE_OUTPUT: usize = 4 << 20;

/// How many bytes each byte of the conversation adds to the prompt's maximum size. JSON may be written with escapes
/// and indentation.
const OUTPUT_PER_BYTE: usize = 8;

/// The maximum size of a template's source in bytes. Real templates are smaller than 30 KB.
const MAX_SOURCE: usize = 1 << 20;

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The line in the template, counted from 1, if known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl TemplateError {
    fn new(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into() }
    }

    fn of(error: &minijinja::Error) -> Self {
        let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        Self { line: error.line(), message }
    }
}

impl ChatTemplate {
    /// Compiles the text of a `tokenizer_config.json` or of a Jinja file. `origin` is the name of the file, for
    /// error messages.
    ///
    /// # Errors
    /// The file does not contain a template, or the template has a syntax error.
    pub fn parse(text: &str, origin: impl Into<String>) -> Result<Self, TemplateError> {
        let file = file::read(text)?;
        let mut environment = environment::environment();
        for (name, source) in [(DEFAULT, Some(&file.default)), (TOOL_USE, file.tool_use.as_ref())] {
            let Some(source) = source else { continue };
            if source.len() > MAX_SOURCE {
                let message = format!("the chat template is longer than {MAX_SOURCE} bytes");
                return Err(TemplateError::new(message));
            }
            let source = generation::without_generation_tags(source);
            environment.add_template_owned(name, source).map_err(|error| TemplateError::of(&error))?;
        }
        Ok(Self {
            environment,
            origin: origin.into(),
            has_tool_template: file.tool_use.is_some(),
            tokens: file.tokens,
            source: text.to_owned(),
            digest: wire::digest::Digest::of(text),
        })
    }

    /// The name of the template's file.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// A digest of the template's file.
    pub fn digest(&self) -> wire::digest::Digest {
        self.digest
    }

    /// Whether the template's file contains `text`.
    pub fn contains(&self, text: &str) -> bool {
        self.source.contains(text)
    }

    /// Renders the prompt for the model's next message. `now` is the time for `strftime_now`, as Unix time in
    /// seconds. It is formatted in UTC.
    ///
    /// # Errors
    /// [`Kind::Request`] if the template rejects the conversation; [`Kind::Internal`] if it fails or exceeds a limit.
    pub fn render(&self, conversation: &Conversation, now: u64) -> Result<Prompt, Failure> {
        let (variables, size) = messages::variables(conversation, &self.tokens);
        let has_tools = conversation.callable_tools().next().is_some();
        let text = self.render_variables(variables, size, has_tools, now)?;
        let bos = self.tokens.iter().find(|token| token.name == BOS).map_or("", |token| &token.text);
        let bos = if text.starts_with(bos) { bos.len() } else { 0 };
        Ok(Prompt { text, bos })
    }

    /// Renders on a new thread whose stack is large enough for the allowed work. A template can nest lists in a
    /// loop, and dropping them takes one stack frame per level.
    fn render_variables(
        &self,
        mut variables: Vec<(String, Value)>,
        size: usize,
        has_tools: bool,
        now: u64,
    ) -> Result<String, Failure> {
        let fuel = BASE_FUEL.saturating_add(size / BYTES_PER_FUEL);
        let limit = BASE_OUTPUT.saturating_add(size.saturating_mul(OUTPUT_PER_BYTE));
        variables.push((
            "strftime_now".to_owned(),
            Value::from_function(move |format: &str| strftime(format, now)),
        ));
        let name = if has_tools && self.has_tool_template { TOOL_USE } else { DEFAULT };
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(u64::try_from(fuel).unwrap_or(u64::MAX)));
        let render = move || {
            let mut output = Output { text: Vec::new(), limit, is_full: false };
            let template = environment.get_template(name).map_err(|error| self.failure(&error, false))?;
            let context = Value::from_pairs(variables);
            match template.render_captured_to(context, &mut output) {
                Ok(_) => Ok(output.text),
                Err(error) => Err(self.failure(&error, output.is_full)),
            }
        };
        let broken = |what: &str| {
            Failure::new(Kind::Internal, format!("the model's chat template cannot be rendered: {what}"))
        };
        let stack = BASE_STACK.saturating_add(fuel.saturating_mul(STACK_PER_FUEL));
        let text = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("chat-template".to_owned()).stack_size(stack);
            let rendering = thread.spawn_scoped(scope, render).map_err(|error| broken(&error.to_string()))?;
            rendering.join().map_err(|_| broken("it panicked"))?
        })?;
        String::from_utf8(text).map_err(|_| broken("it is not UTF-8"))
    }

    fn failure(&self, error: &minijinja::Error, is_full: bool) -> Failure {
        if let Some(refusal) = environment::refusal_of(error) {
            return Failure::new(Kind::Request, refusal).with_param("messages");
        }
        let origin = &self.origin;
        let at = error.line().map_or_else(String::new, |line| format!(", line {line}"));
        let message = if is_full {
            format!("the model's chat template ({origin}{at}) writes a prompt that is too long")
        } else if error.kind() == ErrorKind::OutOfFuel {
            format!("the model's chat template ({origin}{at}) takes too much work")
        } else {
            let what = TemplateError::of(error).message;
            format!("the model's chat template ({origin}{at}) fails: {what}")
        };
        Failure::new(Kind::Internal, message).with_code("chat_template")
    }
}

wire::debug_fields!(ChatTemplate { origin });

impl PartialEq for ChatTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.origin == other.origin
    }
}

struct Output {
    text: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl io::Write for &mut Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit.saturating_sub(self.text.len()) {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
