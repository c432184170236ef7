//! [`AuditEvent`]: the events, and how they are written to the feed, the file and the log.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    ErrorCode,
    question::{Question, Settled},
};
use toolwire_net::untrusted_text::printable_json;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExchangeId {
    /// The id `ex_…` that toolwire assigned. It is unique, since clients cannot choose it.
    pub own: Arc<str>,
    /// The id of the client's request, as in logs and `x-request-id`.
    pub request: Arc<str>,
}

/// Uses the same string for both ids.
impl From<&str> for ExchangeId {
    fn from(id: &str) -> Self {
        let id: Arc<str> = id.into();
        Self { own: Arc::clone(&id), request: id }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    pub exchange: ExchangeId,
    /// Starts at 1.
    pub hop: usize,
}

impl Subject {
    /// The hop's id in log lines and spans.
    fn id(&self) -> String {
        format!("{}:hop{}", self.exchange.request, self.hop)
    }
}

/// An event with its time and number.
#[derive(Debug, Clone)]
pub struct Record {
    /// Starts at 1 when the process starts.
    pub sequence: u64,
    /// Unix time in milliseconds.
    pub t: u64,
    /// The exchange and hop that the event belongs to, if any.
    pub subject: Option<Subject>,
    pub event: AuditEvent,
}

/// A hosted call in an event.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub id: String,
    pub name: String,
    pub input_bytes: usize,
    /// The arguments, if contents are captured.
    pub(crate) input: Option<Value>,
}

impl CallRecord {
    /// `input` holds the arguments if contents are captured.
    pub fn new(id: &str, name: &str, arguments: &str, input: Option<Value>) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), input_bytes: arguments.len(), input }
    }

    fn json(&self) -> Value {
        let mut shown = json!({"id": self.id, "name": self.name});
        if let (Value::Object(shown), Some(input)) = (&mut shown, &self.input) {
            shown.insert("input".to_owned(), input.clone());
        }
        if let Value::Object(shown) = &mut shown {
            shown.insert("input_bytes".to_owned(), self.input_bytes.into());
        }
        shown
    }
}

/// The kinds of events. Contents are `None` unless they are captured.
#[derive(Debug, Clone, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum AuditEvent {
    /// A client's request has started.
    MessageStart {
        model: String,
        /// A fingerprint of the client's key.
        key: Option<String>,
        /// The client's dialect.
        client: &'static str,
        upstream: String,
        /// The hosted tools that are offered to the model.
        tools: Vec<String>,
    },
    /// The response has grown.
    MessageUpdate {
        /// The text since the last update, and its offset in the message, in bytes.
        content: Option<(u64, String)>,
        /// Size of the text so far, in bytes.
        bytes: u64,
        /// Number of text deltas so far, which is roughly the number of tokens.
        tokens: u64,
        /// Number of bytes that are held back.
        held: u64,
    },
    /// A hosted call has started.
    ToolUse {
        call: CallRecord,
        provider: Arc<str>,
        /// A line that tells users what the tool is doing.
        progress: Option<String>,
    },
    /// A hosted call's provider has reported how far it is.
    ToolProgress {
        call: CallRecord,
        provider: Arc<str>,
        /// The line for display.
        line: Option<String>,
        done: f64,
        /// The value of `done` at the end, if it is known.
        total: Option<f64>,
    },
    /// A hosted call has ended.
    ToolResult {
        call: CallRecord,
        /// `None` if there is no such tool.
        provider: Option<Arc<str>>,
        /// The result for the model.
        result: Option<String>,
        /// What user interfaces show in addition to the result.
        details: Option<Value>,
        /// `None` if the call succeeded.
        code: Option<ErrorCode>,
        millis: u64,
        /// Whether the result was taken from an equal call.
        is_cached: bool,
    },
    MessageComplete {
        content: Option<String>,
        finish: String,
        /// Token counts, summed over all hops.
        usage: Value,
        millis: u64,
        /// Time until the first byte was sent, in milliseconds.
        first_byte_millis: Option<u64>,
    },
    /// A complete response has calls in a format that is not looked for.
    CallMissed { format: &'static str, calls: usize },
    /// A response failed.
    Error {
        code: String,
        /// The message for the client.
        message: String,
        is_retryable: bool,
    },
    /// A request to an upstream has started.
    HopStart {
        upstream: String,
        /// The model's name at the upstream.
        model: String,
        /// Why toolwire asks the model. `None` if the model answers the client.
        purpose: Option<&'static str>,
    },
    HopEnd {
        finish: String,
        /// Token counts of the hop.
        usage: Value,
        millis: u64,
        /// Why toolwire asked the model. `None` if the model answered the client.
        purpose: Option<&'static str>,
    },
    /// A person is asked whether a call may run.
    PermissionRequest(Question),
    /// A question to a person was settled.
    PermissionResult(Settled),
    /// A person is asked for what a tool needs to know.
    InputRequest(Question),
    /// A question for input was settled.
    InputResult(Settled),
    /// The result of an equal call is reused.
    CacheHit { call: CallRecord },
    /// A call will be retried.
    Retry {
        call: CallRecord,
        /// The number of the next attempt. For the first retry, this is 2.
        attempt: usize,
        /// Delay before the next attempt, in milliseconds.
        delay_millis: u64,
        /// Why the previous attempt failed.
        code: ErrorCode,
    },
    /// The set of hosted tools has changed.
    RegistryChanged {
        /// All hosted tools.
        tools: Vec<String>,
    },
    /// The configuration was reloaded.
    ConfigLoaded {
        /// Whether it was valid.
        ok: bool,
        errors: Vec<String>,
    },
    ProviderStatus {
        name: Arc<str>,
        /// `starting`, `ready`, `failed`, `restarting`, …
        state: &'static str,
        /// Unix time in milliseconds.
        since: u64,
        /// Number of tools that the provider offers.
        tools: usize,
    },
}

impl AuditEvent {
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Whether the event belongs in the audit file. Updates are only for live subscribers.
    pub(super) fn is_filed(&self) -> bool {
        !matches!(self, Self::MessageUpdate { .. } | Self::ToolProgress { .. })
    }

    /// The fields that are specific to this event.
    fn fields(&self) -> Value {
        match self {
            Self::MessageStart { model, key, client, upstream, tools } => {
                json!({"model": model, "key": key, "client": client, "upstream": upstream, "tools": tools})
            }
            Self::MessageUpdate { content, bytes, tokens, held } => {
                let mut fields = json!({"bytes": bytes, "tokens": tokens, "held": held});
                if let (Value::Object(fields), Some((at, content))) = (&mut fields, content) {
                    fields.insert("content".to_owned(), content.as_str().into());
                    fields.insert("at".to_owned(), (*at).into());
                }
                fields
            }
            Self::ToolUse { call, provider, progress } => with_content(
                json!({"toolCall": call.json(), "provider": **provider}),
                "progress",
                progress.as_deref(),
            ),
            Self::ToolProgress { call, provider, line, done, total } => with_content(
                json!({"toolCall": call.json(), "provider": **provider, "done": done, "total": total}),
                "progress",
                line.as_deref(),
            ),
            Self::ToolResult { call, provider, result, details, code, millis, is_cached } => {
                let mut fields =
                    json!({"toolCall": call.json(), "ok": code.is_none(), "ms": millis, "cached": is_cached});
                if let (Value::Object(fields), Some(code)) = (&mut fields, code) {
                    fields.insert("code".to_owned(), code.name().into());
                }
                if let (Value::Object(fields), Some(provider)) = (&mut fields, provider) {
                    fields.insert("provider".to_owned(), (**provider).into());
                }
                if let (Value::Object(fields), Some(details)) = (&mut fields, details) {
                    fields.insert("details".to_owned(), details.clone());
                }
                with_content(fields, "result", result.as_deref())
            }
            Self::MessageComplete { content, finish, usage, millis, first_byte_millis } => with_content(
                json!({"finish": finish, "usage": usage, "ms": millis, "ttft_ms": first_byte_millis}),
                "content",
                content.as_deref(),
            ),
            Self::CallMissed { format, calls } => json!({"format": format, "calls": calls}),
            Self::Error { code, message, is_retryable } => {
                json!({"error": {"code": code, "message": message, "retryable": is_retryable}})
            }
            Self::HopStart { upstream, model, purpose } => {
                with_content(json!({"upstream": upstream, "model": model}), "purpose", *purpose)
            }
            Self::HopEnd { finish, usage, millis, purpose } => {
                with_content(json!({"finish": finish, "usage": usage, "ms": millis}), "purpose", *purpose)
            }
            Self::PermissionRequest(question) | Self::InputRequest(question) => question.json(),
            Self::PermissionResult(settled) | Self::InputResult(settled) => settled.json(),
            Self::CacheHit { call } => json!({"toolCall": call.json()}),
            Self::Retry { call, attempt, delay_millis, code } => json!({
                "toolCall": call.json(), "attempt": attempt, "delay_ms": delay_millis, "code": code.name()
            }),
            Self::RegistryChanged { tools } => json!({"tools": tools}),
            Self::ConfigLoaded { ok, errors } => json!({"ok": ok, "errors": errors}),
            Self::ProviderStatus { name, state, since, tools } => {
                json!({"name": **name, "state": state, "since": since, "tools": tools})
            }
        }
    }
}

/// Adds `content` to `fields`, if it was captured.
fn with_content(mut fields: Value, key: &str, content: Option<&str>) -> Value {
    if let (Value::Object(fields), Some(content)) = (&mut fields, content) {
        fields.insert(key.to_owned(), content.into());
    }
    fields
}

impl Record {
    /// The event as one line of JSON, for the feed.
    pub fn json(&self) -> String {
        printable_json(&Value::Object(self.data()))
    }

    /// All fields of the event, including its time and exchange.
    pub fn data(&self) -> Map<String, Value> {
        let mut data = Map::from_iter([("t".to_owned(), self.t.into())]);
        if let Some(subject) = &self.subject {
            data.insert("exchange".to_owned(), (*subject.exchange.own).into());
            data.insert("request".to_owned(), (*subject.exchange.request).into());
            data.insert("hop".to_owned(), subject.hop.into());
            if matches!(self.event, AuditEvent::HopStart { .. } | AuditEvent::HopEnd { .. }) {
                data.insert("id".to_owned(), subject.id().into());
            }
        }
        if let Value::Object(fields) = self.event.fields() {
            data.extend(fields);
        }
        data
    }

    pub(super) fn line(&self) -> String {
        let mut line = Map::from_iter([
            ("event".to_owned(), self.event.name().into()),
            ("sequence".to_owned(), self.sequence.into()),
        ]);
        line.extend(self.data());
        let mut line = printable_json(&Value::Object(line));
        line.push('\n');
        line
    }

    /// Writes a log line, if there is one for this event.
    pub(super) fn log(&self) {
        let request = self.subject.as_ref().map_or("", |subject| &subject.exchange.request);
        match &self.event {
            AuditEvent::ToolResult { call, provider, code, millis, is_cached, .. } => tracing::info!(
                request_id = request,
                tool = provider.as_ref().map_or("unknown", |_| &call.name),
                provider = provider.as_deref().unwrap_or_default(),
                code = code.map_or("ok", ErrorCode::name),
                ms = millis,
                cached = is_cached,
                "hosted call"
            ),
            AuditEvent::PermissionResult(settled) | AuditEvent::InputResult(settled) => tracing::info!(
                request_id = request,
                tool = %settled.tool,
                granted = settled.granted,
                by = settled.by.name(),
                "{}",
                if settled.is_input { "input" } else { "permission" }
            ),
            _ => {}
        }
    }
}
