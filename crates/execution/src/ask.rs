//! [`Ask`]: asks a configured model on behalf of a hosted tool.
//!
//! Some tools need a model: a search that a model's own upstream answers, the description of an image. The request goes
//! through the model's entry and its upstream's queue and connections like any other, but offers no hosted tools.

use std::{fmt, pin::Pin, sync::Arc};

use super::{
    audit::Subject,
    tool::{ErrorCode, ToolError},
};
use toolwire_pipeline::{
    conversation::{Conversation, Turn},
    failure::{Failure, Kind},
};

/// Asks configured models.
pub trait Ask: fmt::Debug + Send + Sync {
    /// Asks a question and returns its answer. Dropping the future cancels the request.
    fn ask(&self, question: Question) -> Asking<'_>;

    /// Whether a model of this name is configured.
    fn knows(&self, model: &str) -> bool;
}

/// A question that is being answered.
///
/// # Errors
/// The reason why the model gave no complete answer.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<ModelAnswer, Failure>> + Send + 'a>>;

/// A client whose tokens are limited.
pub trait Payer: fmt::Debug + Send + Sync {
    fn name(&self) -> &str;

    /// Deducts tokens used with `model` from the client's allowance: those of the question and those of the answer.
    /// Never fails, even if the limit is exceeded.
    fn pay(&self, model: &str, tokens: (u64, u64));
}

/// A question to a model.
#[derive(Debug, Clone)]
pub struct Question {
    /// The messages, and the model's name.
    pub conversation: Conversation,
    /// Purpose of the answer.
    pub purpose: Purpose,
    /// The exchange and hop that need the answer.
    pub subject: Subject,
    /// The client, if its tokens are counted.
    pub payer: Option<Arc<dyn Payer>>,
}

/// Purpose of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A web search, made by the upstream's own search tool.
    Search,
    /// The description of an image.
    Vision,
}

impl Purpose {
    /// The purpose's name in events and log lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Vision => "vision",
        }
    }
}

impl Question {
    /// Creates a question to a model, with these turns as its conversation.
    pub(crate) fn new(
        model: &str,
        purpose: Purpose,
        turns: Vec<Turn>,
        subject: Subject,
        payer: Option<Arc<dyn Payer>>,
    ) -> Self {
        let conversation =
            Conversation { model: model.to_owned(), turns, parallel_calls: true, ..Conversation::default() };
        Self { conversation, purpose, subject, payer }
    }
}

/// A model's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelAnswer {
    pub text: String,
    /// The pages that the text cites, then those that the upstream's searches found, each once.
    pub citations: Vec<Citation>,
}

/// A page that a text cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The page's address.
    pub url: String,
    /// The page's title; may be empty.
    pub title: String,
}

impl From<Failure> for ToolError {
    /// Describes the failure without naming the upstream.
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
