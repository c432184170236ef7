//! [`Ask`]: sends a question to a configured model on behalf of a hosted tool.
//!
//! Some tools need a model: a search that a model's upstream performs, or the description of an image. The request uses
//! the model's entry and its upstream's queue and connections like any other request, but offers no hosted tools.

use std::{fmt, pin::Pin, sync::Arc};

use super::{
    audit::Subject,
    tool::{ErrorCode, ToolError},
};
use toolwire_pipeline::{
    conversation::{Conversation, Turn},
    failure::{Failure, Kind},
};

pub trait Ask: fmt::Debug + Send + Sync {
    /// Asks a question and returns the answer. Dropping the future cancels the request.
    fn ask(&self, question: Question) -> Asking<'_>;

    /// Whether a model of this name is configured.
    fn knows(&self, model: &str) -> bool;
}

/// A pending answer.
///
/// # Errors
/// Why there is no complete answer.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<ModelAnswer, Failure>> + Send + 'a>>;

/// A client with a limited number of tokens.
pub trait Payer: fmt::Debug + Send + Sync {
    fn name(&self) -> &str;

    /// Deducts the tokens of a question and its answer from the client's allowance, even if that exceeds the allowance.
    /// `model` is the model that answered.
    fn pay(&self, model: &str, tokens: (u64, u64));
}

#[derive(Debug, Clone)]
pub struct Question {
    /// The messages, and the model's name.
    pub conversation: Conversation,
    pub purpose: Purpose,
    /// The exchange and hop that need the answer.
    pub subject: Subject,
    /// The client that pays for the tokens, if they are counted.
    pub payer: Option<Arc<dyn Payer>>,
}

/// What an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A web search with the upstream's own search tool.
    Search,
    Vision,
}

impl Purpose {
    /// The name in events and log lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Vision => "vision",
        }
    }
}

impl Question {
    /// Creates a question with these turns as its conversation.
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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelAnswer {
    pub text: String,
    /// The pages that the text cites, followed by others that the upstream's searches found. No page occurs twice.
    pub citations: Vec<Citation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    pub url: String,
    /// May be empty.
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
