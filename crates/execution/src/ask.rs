//! [`Ask`]: asks a configured model from inside, without a client.
//!
//! For tools that need a model: a search that a model's own upstream answers, the description of an image. The request takes the way of
//! all others (the model's entry, its upstream's queue and connections), but offers no hosted tools.

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
    /// The answer to a question. Dropping the future cancels the request.
    fn ask(&self, question: Question) -> Asking<'_>;

    /// Whether there is a model of this name.
    fn knows(&self, model: &str) -> bool;
}

/// A question that is being answered.
///
/// # Errors
/// Why the model gave no complete answer.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<ModelAnswer, Failure>> + Send + 'a>>;

/// A client whose tokens are limited.
pub trait Payer: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Takes tokens of `model` from what it may use: those of a question, and those of the answer. A limit is never too low for that.
    fn pay(&self, model: &str, tokens: (u64, u64));
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// The messages, and the model's name.
    pub conversation: Conversation,
    /// What the answer is for.
    pub purpose: Purpose,
    /// The client's request that needs it.
    pub subject: Subject,
    /// The client, if its tokens are counted.
    pub payer: Option<Arc<dyn Payer>>,
}

/// What a question is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A search, which the upstream's own makes.
    Search,
    /// The description of an image.
    Vision,
}

impl Purpose {
    /// Its name in events and log lines.
    pub fn name(self) -> &'static str {
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
pub struct ModelAnswer {
    /// The text.
    pub text: String,
    /// The pages that the text cites, then those that the upstream's searches found, each once.
    pub citations: Vec<Citation>,
}

/// A page that a text cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// Its address.
    pub url: String,
    /// Its title; may be empty.
    pub title: String,
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
