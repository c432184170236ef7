//! [`Head`]: the members of an interaction besides its steps.

use serde_json::{Map, Value};

use super::super::{DIALECT, PREVIOUS, decode::NO_THOUGHTS};
use crate::{
    Answering, Ids,
    event::{Finish, Start, Usage},
    wire::{calendar::rfc3339, json::Encoder},
};

#[derive(Debug)]
pub(super) struct Head {
    id: String,
    model: String,
    created: u64,
    previous: Option<Value>,
    pub(super) stored: bool,
    /// Whether the client receives no thoughts, only their signatures.
    pub(super) no_thoughts: bool,
}

/// Makes interactions' ids differ from other ids with the same seed.
const ID_SALT: u64 = 0x696e_7465;

impl Head {
    pub(super) fn new(answering: &Answering) -> Self {
        let repeated = answering.repeated.from_dialect(DIALECT);
        let said = |key: &str| repeated.and_then(|repeated| repeated.get(key)).cloned();
        Self {
            id: Ids::new(answering.stamp.seed, ID_SALT).next("v1_"),
            model: answering.model.clone(),
            created: answering.stamp.created,
            previous: said(PREVIOUS),
            stored: answering.stored,
            no_thoughts: said(NO_THOUGHTS).is_some(),
        }
    }

    pub(super) fn take(&mut self, start: &Start<'_>) {
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
    }

    /// Writes the members of the interaction with this status.
    pub(super) fn put(&self, interaction: &mut Encoder, status: &str) {
        interaction.key("id").string(&self.id);
        interaction.key("object").string("interaction");
        interaction.key("status").string(status);
        interaction.key("model").string(&self.model);
        let time = rfc3339(self.created);
        interaction.key("created").string(&time);
        interaction.key("updated").string(&time);
        if let Some(previous) = &self.previous {
            interaction.key(PREVIOUS).value(previous);
        }
    }
}

/// Why the response ended.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) finish: Option<Finish>,
    pub(super) is_refused: bool,
    /// Whether a call did not end properly.
    pub(super) has_broken_calls: bool,
}

impl Ending {
    pub(super) fn status(&self) -> &'static str {
        match self.finish {
            _ if self.error().is_some() => "incomplete",
            Some(Finish::Calls) => "requires_action",
            _ => "completed",
        }
    }

    /// What the status `incomplete` leaves open, as code and message.
    fn error(&self) -> Option<(&'static str, &'static str)> {
        match self.finish {
            Some(Finish::Length) => Some(("max_tokens", "the output reached its maximum length")),
            Some(Finish::Filter) => Some(("content_filter", "the content was filtered")),
            _ if self.has_broken_calls => {
                Some(("malformed_function_call", "a call was cut off or has no valid arguments"))
            }
            Some(Finish::Stop) if self.is_refused => Some(("content_filter", "the model refused")),
            _ => None,
        }
    }

    /// Writes the interaction's errors, if there are any.
    pub(super) fn put(&self, interaction: &mut Encoder) {
        if let Some((code, message)) = self.error() {
            interaction.key("errors").array(|errors| {
                errors.object(|error| {
                    error.key("code").string(code);
                    error.key("message").string(message);
                });
            });
        }
    }
}

/// Token counts. Those that are unknown are left out.
pub(super) fn usage(usage: &Usage) -> Map<String, Value> {
    let output = usage.output.map(|output| output.saturating_sub(usage.reasoning.unwrap_or(0)));
    let sum = || usage.input?.checked_add(usage.output?);
    let counts = [
        ("total_input_tokens", usage.input),
        ("total_cached_tokens", usage.cached),
        ("total_output_tokens", output),
        ("total_thought_tokens", usage.reasoning),
        ("total_tokens", usage.total.or_else(sum)),
    ];
    counts.into_iter().filter_map(|(key, count)| Some((key.to_owned(), count?.into()))).collect()
}
