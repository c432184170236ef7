//! [`AuditEvent`]: the kinds of events, and their form in the feed, the file and the log.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    ErrorCode,
    question::{Question, Settled},
};
use toolwire_net::untrusted_text::printable_json;

/// The ids of an exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExchangeId {
    /// The exchange's own id, `ex_…`. Clients cannot choose it, so it is unique.
    pub own: Arc<str>,
    /// Id of the client's request, as in logs and `x-request-id`.
    pub request: Arc<str>,
}

/// Uses one name for both ids.
impl From<&str> for ExchangeId {
    fn from(id: &str) -> Self {
        let id: Arc<str> = id.into();
        Self { own: Arc::clone(&id), request: id }
    }
}

/// The exchange and hop that an event belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    pub exchange: ExchangeId,
    /// The hop, counted from 1.
    pub hop: usize,
}

impl Subject {
    /// Id of the hop, as in log lines and spans.
    fn id(&self) -> String {
        format!("{}:hop{}", self.exchange.request, self.hop)
    }
}

/// An event with its time and its number on the bus.
#[derive(Debug, Clone)]
pub struct Record {
    /// Number of the event, counted from 1 since the process started.
    pub sequence: u64,
    /// Time of the event, in milliseconds of Unix time.
    pub t: u64,
    /// `None` if the event belongs to no exchange.
    pub subject: Option<Subject>,
    /// The event itself.
    pub event: AuditEvent,
}

/// A hosted call in an event.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Bytes of the arguments.
    pub input_bytes: usize,
    /// The arguments, while contents are captured.
    pub(crate) input: Option<Value>,
}

impl CallRecord {
    /// A call with these arguments; events show them as `input`.
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
    /// A client's request begins.
    MessageStart {
        /// The model that was requested.
        model: String,
        /// A short mark of the client's key.
        key: Option<String>,
        /// The client's dialect.
        client: &'static str,
        /// The upstream's name.
        upstream: String,
        /// The hosted tools that are offered to the model.
        tools: Vec<String>,
    },
    /// The response has grown.
    MessageUpdate {
        /// The text since the last update, and the offset at which it begins in the message, in
        /// bytes.
        content: Option<(u64, String)>,
        /// Bytes of text so far.
        bytes: u64,
        /// Number of text pieces so far, about one for each token.
        tokens: u64,
        /// Bytes that are held back.
        held: u64,
    },
    /// A hosted call begins.
    ToolUse {
        call: CallRecord,
        /// The name of its provider.
        provider: Arc<str>,
        /// One line that tells people what the tool is doing.
        progress: Option<String>,
    },
    /// A hosted call has a result.
    ToolResult {
        call: CallRecord,
        /// The name of its provider; `None` if there is no such tool.
        provider: Option<Arc<str>>,
        /// The result for the model.
        result: Option<String>,
        /// Content that user interfaces show next to the result.
        details: Option<Value>,
        /// Kind of the failure. `None` if the call succeeded.
        code: Option<ErrorCode>,
        /// Duration of the call, in milliseconds.
        millis: u64,
        /// Whether this is the result of an earlier equal call.
        is_cached: bool,
    },
    /// A response is complete.
    MessageComplete {
        /// The text.
        content: Option<String>,
        /// The finish reason.
        finish: String,
        /// Token counts of all hops.
        usage: Value,
        /// Duration of the response, in milliseconds.
        millis: u64,
        /// Time from the start to the first byte sent, in milliseconds.
        first_byte_millis: Option<u64>,
    },
    /// A response failed.
    Error {
        /// The failure's code.
        code: String,
        /// Its message for the client.
        message: String,
        /// Whether the request may be repeated.
        is_retryable: bool,
    },
    /// A request to an upstream begins.
    HopStart {
        /// The upstream's name.
        upstream: String,
        /// The model's name at the upstream.
        model: String,
        /// Why toolwire itself asks the model. `None` if the model answers the client.
        purpose: Option<&'static str>,
    },
    /// A hop has ended.
    HopEnd {
        /// The finish reason.
        finish: String,
        /// Token counts of the hop.
        usage: Value,
        /// Duration of the hop, in milliseconds.
        millis: u64,
        /// Why toolwire itself asked the model. `None` if the model answered the client.
        purpose: Option<&'static str>,
    },
    /// A person is asked whether a call may run.
    PermissionRequest(Question),
    /// The question is answered.
    PermissionResult(Settled),
    /// The result of an earlier equal call is used.
    CacheHit { call: CallRecord },
    /// A call is tried again.
    Retry {
        call: CallRecord,
        /// The number of the next attempt; the first retry is 2.
        attempt: usize,
        /// Delay before that attempt, in milliseconds.
        delay_millis: u64,
        /// Why the previous attempt failed.
        code: ErrorCode,
    },
    /// The set of hosted tools has changed.
    RegistryChanged {
        /// The names of all hosted tools.
        tools: Vec<String>,
    },
    /// The configuration was reloaded.
    ConfigLoaded {
        /// Whether it is valid.
        ok: bool,
        errors: Vec<String>,
    },
    /// A provider's state has changed.
    ProviderStatus {
        name: Arc<str>,
        /// `starting`, `ready`, `failed`, `restarting`, …
        state: &'static str,
        /// Time of the change, in milliseconds of Unix time.
        since: u64,
        /// Number of tools that it offers.
        tools: usize,
    },
}

impl AuditEvent {
    /// The event's name in the feed.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Whether the event is written to the audit file. Updates of a message are only for live subscribers.
    pub(super) fn is_filed(&self) -> bool {
        !matches!(self, Self::MessageUpdate { .. })
    }

    /// The fields of this kind of event.
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
            Self::Error { code, message, is_retryable } => {
                json!({"error": {"code": code, "message": message, "retryable": is_retryable}})
            }
            Self::HopStart { upstream, model, purpose } => {
                with_content(json!({"upstream": upstream, "model": model}), "purpose", *purpose)
            }
            Self::HopEnd { finish, usage, millis, purpose } => {
                with_content(json!({"finish": finish, "usage": usage, "ms": millis}), "purpose", *purpose)
            }
            Self::PermissionRequest(question) => question.json(),
            Self::PermissionResult(settled) => settled.json(),
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

/// `fields` with `content`, if it was captured.
fn with_content(mut fields: Value, key: &str, content: Option<&str>) -> Value {
    if let (Value::Object(fields), Some(content)) = (&mut fields, content) {
        fields.insert(key.to_owned(), content.into());
    }
    fields
}

impl Record {
    /// The event as the feed sends it: JSON on one line.
    pub fn json(&self) -> String {
        printable_json(&Value::Object(self.data()))
    }

    /// The event's fields, with the time and the exchange.
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

    /// One line of the audit file.
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

    /// Writes the log line of the event, if it has one.
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
            AuditEvent::PermissionResult(settled) => tracing::info!(
                request_id = request,
                tool = %settled.tool,
                granted = settled.granted,
                by = settled.by.name(),
                "permission"
            ),
            _ => {}
        }
    }
}
