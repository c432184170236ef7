//! [`Report`]: the results of a run of `toolwire calibrate`, as `--json` writes them. The table and the HTML page are made
//! from it.

mod page;
mod table;
mod tally;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{interval::Share, judge::Verdict};
use crate::bench::report::json::in_lines;

pub use self::{page::page, table::table, tally::report};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub version: String,
    /// The upstream's base URL.
    pub upstream: String,
    /// The model's name at the upstream.
    pub model: String,
    /// Number of prompts.
    pub prompts: usize,
    /// Number of times each prompt was sent.
    pub runs: u32,
    /// `temperature` of the requests.
    pub temperature: f64,
    /// `max_tokens` of the requests.
    pub max_tokens: u64,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// Number of requests in a complete run.
    pub questions: usize,
    /// Number of answers in the report.
    pub answers: usize,
    /// Number of answers that were already in the cache.
    pub cached: usize,
    /// Why the run ended early, if it did.
    pub stopped: Option<String>,
    /// The variants, best first.
    pub variants: Vec<VariantReport>,
    /// The configuration of the best variant, or `None` if no variant had a proper call.
    pub entry: Option<String>,
}

impl Report {
    /// Returns the report as JSON, one member per line.
    pub fn json(&self) -> String {
        in_lines(self)
    }

    /// Returns the best variant, if it has a proper call.
    pub fn best(&self) -> Option<&VariantReport> {
        self.variants.first().filter(|variant| variant.proper.count > 0)
    }
}

/// The results of one variant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VariantReport {
    /// The variant's name: `hermes`, `hermes turns`, `hermes enforce=auto`.
    pub name: String,
    /// The format, or `native`.
    pub format: String,
    pub wording: String,
    /// `enforce`.
    pub enforce: String,
    /// Number of answers, including failures.
    pub answers: u64,
    /// The lower end of the 95 % interval for the share of proper calls minus the share of false calls. The variants are
    /// sorted by this score.
    pub score: f64,
    /// Proper calls, as a share of the prompts that expect a call.
    pub proper: Share,
    /// Proper calls, as a share of the prompts that expect a call and contain no earlier calls.
    pub proper_without_history: Share,
    /// Proper calls, as a share of the prompts that expect a call and contain earlier calls.
    pub proper_with_history: Share,
    /// Proper calls, as a share of the prompts that require a call with `tool_choice`.
    pub proper_required: Share,
    /// Calls, as a share of the prompts that expect no call.
    pub false_calls: Share,
    /// Answers whose text contains the markup of a call, as a share of all answers.
    pub leaks: Share,
    /// Answers that copy text that the model was shown, as a share of all answers.
    pub imitations: Share,
    /// Number of answers by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Share of right answers, by group of prompts.
    pub groups: BTreeMap<String, Share>,
    /// Average number of tokens in the instructions or declarations, estimated.
    pub tool_tokens: f64,
    /// The median time from a request to the first delta of its call, in milliseconds.
    pub call_ms: Option<f64>,
    /// The median time from a request to the end of its response, in milliseconds.
    pub total_ms: Option<f64>,
    /// Why the variant was given up, if it was.
    pub given_up: Option<String>,
    /// A few examples of each kind of failure.
    pub examples: Vec<Example>,
}

/// An answer that was not right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// The answer's category.
    pub verdict: Verdict,
    /// The prompt's name.
    pub prompt: String,
    /// The user's last text, truncated.
    pub user: String,
    pub why: String,
    /// The text of the answer, truncated.
    pub text: String,
    /// The calls in the answer as `name(arguments)`, truncated.
    pub calls: Vec<String>,
}

#[cfg(test)]
mod example;
