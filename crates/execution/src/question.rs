//! [`Question`]: asks a person whether a call may run, or for what its tool needs.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::Instant};

use super::{
    audit::{AuditEvent, Subject, unix_millis},
    input::Input,
    rules::Asked,
};

/// Asks a person whether a call may run, or for input.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Random, so that an outdated page cannot answer a question of a new process.
    pub(crate) id: String,
    pub(crate) tool: Arc<str>,
    /// The tool's name for display.
    pub(crate) label: String,
    /// With secrets redacted.
    pub(crate) params: Value,
    /// The tool's [definition](crate::ToolSpec::definition) when the question was asked.
    pub(crate) definition: String,
    /// What the tool needs to know. `None` if the question is whether the call may run.
    pub(crate) input: Option<Input>,
    pub(crate) context: QuestionContext,
    /// Unix time in milliseconds.
    pub(crate) asked_at: u64,
    /// When the question expires and the call is denied, as Unix time in milliseconds.
    pub(crate) expires_at: u64,
}

/// Where a call comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct QuestionContext {
    pub(crate) subject: Option<Subject>,
    /// A fingerprint of the client's key.
    pub(crate) key: Option<String>,
    /// The model that the client requested.
    pub(crate) model: String,
    /// The domain in the call's URL, if it has one.
    pub(crate) domain: Option<String>,
}

/// The parts of a call that a person sees.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'s> {
    /// The tool's name as shown to people.
    pub(crate) label: &'s str,
    /// The arguments.
    pub(crate) params: &'s str,
    /// Returns the tool's [definition](crate::ToolSpec::definition), which is needed only if people are asked.
    pub(crate) definition: &'s (dyn Fn() -> String + Sync),
}

impl Question {
    pub(super) fn new(
        asked: &Asked<'_>,
        Shown { label, params, definition }: Shown<'_>,
        subject: Option<&Subject>,
        expires: Instant,
    ) -> Self {
        let context = QuestionContext {
            subject: subject.cloned(),
            key: asked.client.map(str::to_owned),
            model: asked.model.to_owned(),
            domain: asked.domain.map(str::to_owned),
        };
        let params = serde_json::from_str(params).unwrap_or_else(|_| Value::String(params.to_owned()));
        let definition = definition();
        Self { params, definition, context, ..Self::blank("perm", asked.tool, label, expires) }
    }

    /// A question for `input`, which the tool or the server `tool` needs.
    pub(super) fn for_input(tool: &str, input: Input, subject: Option<&Subject>, expires: Instant) -> Self {
        let context = QuestionContext { subject: subject.cloned(), ..QuestionContext::default() };
        Self { input: Some(input), context, ..Self::blank("input", tool, tool, expires) }
    }

    fn blank(kind: &str, tool: &str, label: &str, expires: Instant) -> Self {
        let asked_at = unix_millis();
        let left = expires.saturating_duration_since(Instant::now());
        Self {
            id: format!("{kind}_{:032x}", fastrand::u128(..)),
            tool: Arc::from(tool),
            label: label.to_owned(),
            params: Value::Null,
            definition: String::new(),
            input: None,
            context: QuestionContext::default(),
            asked_at,
            expires_at: asked_at.saturating_add(millis(left)),
        }
    }

    /// What rules are matched against.
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            // Remembered rules do not depend on the key.
            key: None,
            client: None,
            model: &self.context.model,
            tool: &self.tool,
            aliases: &[],
            domain: self.context.domain.as_deref(),
        }
    }

    /// The fields of the event.
    pub fn json(&self) -> Value {
        let QuestionContext { subject, key, model, domain } = &self.context;
        let exchange = subject.as_ref().map(|subject| &*subject.exchange.own);
        json!({
            "request_id": self.id, "tool": *self.tool, "label": self.label, "params": self.params,
            "input": self.input.as_ref().map(Input::json),
            "context": {"exchange": exchange, "key": key, "model": model, "domain": domain},
            "asked_at": self.asked_at, "expires_at": self.expires_at,
        })
    }

    pub(super) fn event(self) -> AuditEvent {
        match self.input {
            None => AuditEvent::PermissionRequest(self),
            Some(_) => AuditEvent::InputRequest(self),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether the call may run.
    pub granted: bool,
    /// Whether to give similar calls the same answer from now on.
    pub remember: bool,
    /// Which calls are similar.
    pub scope: Scope,
}

/// What a person replies. A permission is accepted without values.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// The values of the form.
    Accepted(Map<String, Value>),
    Declined,
    /// The person closed the question without an answer.
    Dismissed,
}

impl Given {
    pub(crate) fn verdict(granted: bool) -> Self {
        if granted { Self::Accepted(Map::new()) } else { Self::Declined }
    }

    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted(_))
    }
}

/// Why a question got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("nobody can be asked")]
    Unattended,
    #[error("too many questions are open")]
    TooMany,
    #[error("nobody answered in time")]
    Late,
}

/// Puts a provider's questions for input to a person.
pub(crate) trait AskPerson: fmt::Debug + Send + Sync {
    /// Asks for input that the tool or the server `tool` needs. Dropping the future withdraws the question.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only MCP servers ask for input"))]
    fn input<'a>(
        &'a self,
        tool: &'a str,
        input: &'a Input,
        subject: Option<&'a Subject>,
        deadline: Instant,
    ) -> AskingPerson<'a>;
}

/// A question to a person.
///
/// # Errors
/// Why there is no answer.
pub(crate) type AskingPerson<'a> = Pin<Box<dyn Future<Output = Result<Given, Unanswered>> + Send + 'a>>;

/// The calls that a remembered answer applies to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// All calls to the tool.
    #[default]
    Global,
    /// Calls to the tool for the same domain.
    Domain,
}

impl Scope {
    /// The name in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Domain => "domain",
        }
    }
}

/// Why an answer was rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerError {
    /// The question never existed, or was settled long ago.
    Unknown,
    /// The question is already settled.
    Late(Settled),
    /// The answer should be remembered for a domain, but the call has none.
    NoDomain,
    /// The question is of the other kind.
    Mismatched,
    /// The values do not match the form.
    Invalid(String),
}

/// The cause that settled a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum By {
    Person {
        /// Whether the answer was remembered.
        remember: bool,
        scope: Scope,
    },
    /// A rule that was remembered while the question was open.
    Rule,
    /// The question expired.
    Timeout,
    /// The call was cancelled.
    Cancelled,
}

impl By {
    /// The name in events.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

/// The outcome of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    pub(crate) request_id: String,
    pub(crate) tool: Arc<str>,
    /// Whether the call may run, or the input was given.
    pub(crate) granted: bool,
    pub(crate) by: By,
    pub(crate) subject: Option<Subject>,
    /// Whether the question was for input.
    pub(crate) is_input: bool,
}

impl Settled {
    pub(super) fn event(self) -> AuditEvent {
        if self.is_input { AuditEvent::InputResult(self) } else { AuditEvent::PermissionResult(self) }
    }

    /// The fields of the event.
    pub fn json(&self) -> Value {
        let (remember, scope) = match self.by {
            By::Person { remember, scope } => (remember, scope),
            _ => (false, Scope::Global),
        };
        let reason = match self.granted {
            true => "granted",
            false if matches!(self.by, By::Person { .. } | By::Rule) => "denied",
            false => self.by.name(),
        };
        json!({
            "request_id": self.request_id, "tool": *self.tool, "granted": self.granted, "by": self.by.name(),
            "remember": remember, "scope": scope.name(), "reason": reason,
        })
    }
}

/// A question without an answer.
pub(super) struct Open {
    pub(super) question: Question,
    pub(super) expires: Instant,
    /// When the turn must end.
    pub(super) deadline: Instant,
    /// `None` until the question is settled.
    pub(super) reply: watch::Sender<Option<Given>>,
}

impl Open {
    /// Postpones the expiry: the question now expires after `by`, or at the end of the turn if that is earlier.
    pub(super) fn extend(&mut self, by: Duration) {
        let now = Instant::now();
        self.expires = self.deadline.min(now + by);
        self.question.expires_at =
            unix_millis().saturating_add(millis(self.expires.saturating_duration_since(now)));
        self.reply.send_replace(None);
    }

    pub(super) fn settled(self, given: Given, by: By) -> Settled {
        let granted = given.is_accepted();
        // Fails if the call no longer exists.
        let _ = self.reply.send(Some(given));
        let Question { id: request_id, tool, context, input, .. } = self.question;
        Settled { request_id, tool, granted, by, subject: context.subject, is_input: input.is_some() }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
