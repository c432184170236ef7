//! [`Ask`]: asks a configured model from inside, without a client.
//!
//! For tools that need a model: a search that a model's own upstream answers, the description of an image. The request takes the way of
//! all others (the model's entry, its upstream's queue and connections), but offers no hosted tools.

use std::{fmt, pin::Pin, sync::Arc};

use super::{
    audit::Subject,
    tool::{ErrorCode, ToolError},
};
use crate::{
    conversation::{Conversation, Turn},
    failure::{Failure, Kind},
};

/// Asks configured models.
pub(crate) trait Ask: fmt::Debug + Send + Sync {
    /// The answer to a question. Dropping the future cancels the request.
    fn ask(&self, question: Question) -> Asking<'_>;

    /// Whether there is a model of this name.
    fn knows(&self, model: &str) -> bool;
}

/// A question that is being answered.
///
/// # Errors
/// Why the model gave no complete answer.
pub(crate) type Asking<'a> = Pin<Box<dyn Future<Output = Result<ModelAnswer, Failure>> + Send + 'a>>;

/// A client whose tokens are limited.
pub(crate) trait Payer: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Takes tokens of `model` from what it may use: those of a question, and those of the answer. A limit is never too low for that.
    fn pay(&self, model: &str, tokens: (u64, u64));
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// The messages, and the model's name.
    pub(crate) conversation: Conversation,
    /// What the answer is for.
    pub(crate) purpose: Purpose,
    /// The client's request that needs it.
    pub(crate) subject: Subject,
    /// The client, if its tokens are counted.
    pub(crate) payer: Option<Arc<dyn Payer>>,
}

/// What a question is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A search, which the upstream's own makes.
    Search,
    /// The description of an image.
    Vision,
}

impl Purpose {
    /// Its name in events and log lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Vision => "vision",
        }
    }
}

impl Question {
    /// A question in these turns.
    pub(crate) fn new(
        (model, purpose): (&str, Purpose),
        turns: Vec<Turn>,
        (subject, payer): (Subject, Option<Arc<dyn Payer>>),
    ) -> Self {
        let conversation =
            Conversation { model: model.to_owned(), turns, parallel_calls: true, ..Conversation::default() };
        Self { conversation, purpose, subject, payer }
    }
}

/// What a model answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelAnswer {
    /// The text.
    pub(crate) text: String,
    /// The pages that the text cites, then those that the upstream's searches found, each once.
    pub(crate) citations: Vec<Citation>,
}

/// A page that a text cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Citation {
    /// Its address.
    pub(crate) url: String,
    /// Its title; may be empty.
    pub(crate) title: String,
}

impl From<Failure> for ToolError {
    /// The failure in words that do not name the upstream.
    fn from(failure: Failure) -> Self {
        let (code, message) = match failure.kind() {
            Kind::Unauthorized | Kind::Forbidden => {
                (ErrorCode::AuthFailed, "The model's upstream refused the key.")
            }
            Kind::RateLimit | Kind::Overloaded => {
                (ErrorCode::RateLimited, "The model's upstream allows no more requests now.")
            }
            Kind::Timeout => (ErrorCode::Timeout, "The model did not answer in time."),
            Kind::NotFound => (ErrorCode::ProviderError, "There is no such model."),
            _ => (ErrorCode::ProviderError, "The model gave no answer."),
        };
        Self::new(code, message)
    }
}
