//! [`Plan`]: the questions of a run, their order, and the keys of their answers.

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{case::Case, variant::Variant};
use toolwire_config::Config;
use toolwire_gateway::{Preview, preview};
use toolwire_pipeline::{dialect::ClientDialect, wire::digest::Digest};

/// Maximum number of requests in a run, which are all held in memory.
pub const MAX_QUESTIONS: usize = 1_000_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// `temperature`.
    pub temperature: f64,
    /// `max_tokens`.
    pub max_tokens: u64,
    /// `seed` of the first repetition, increased by one for each further repetition. If `None`, no seed is sent.
    pub seed: Option<u64>,
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The configuration of the server. Its models are the variants, named by their labels.
    pub config: Arc<Config>,
    /// The upstream's URL and the model's name there. They are part of the keys of answers.
    pub measured: String,
    pub variants: Vec<Variant>,
    pub cases: Vec<Case>,
    /// Number of times each prompt is sent.
    pub runs: u32,
    pub sampling: Sampling,
    /// Number of concurrent requests.
    pub concurrency: usize,
    /// Time limit for a response.
    pub timeout: Duration,
    /// The file with the answers of earlier runs.
    pub cache: PathBuf,
    /// Whether to hide the progress.
    pub quiet: bool,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// Index of the variant.
    pub(crate) variant: usize,
    /// Index of the prompt.
    pub(crate) case: usize,
    /// Number of the run, counted from 0.
    pub(crate) run: u32,
    /// The key of the answer in the cache.
    pub(crate) key: String,
    pub(crate) body: Bytes,
}

/// The text that a model is shown for a prompt in a variant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The text of all turns.
    pub(crate) text: String,
    /// Estimated number of tokens in the instructions.
    pub(crate) tool_tokens: usize,
}

impl Plan {
    /// Returns the number of requests.
    pub fn size(&self) -> usize {
        let runs = usize::try_from(self.runs).unwrap_or(usize::MAX);
        self.variants.len().saturating_mul(self.cases.len()).saturating_mul(runs)
    }

    /// Returns all requests, ordered by run, then by variant, then by prompt. Prompts of the same variant are consecutive,
    /// so that an upstream finds the instructions in its cache.
    pub(crate) fn questions(&self) -> Vec<Question> {
        let mut questions = Vec::new();
        for run in 0..self.runs {
            for (place, variant) in self.variants.iter().enumerate() {
                for (case_place, case) in self.cases.iter().enumerate() {
                    let body = self.request(variant, case, run);
                    let key = self.key(variant, case, (run, &body));
                    questions.push(Question { variant: place, case: case_place, run, key, body });
                }
            }
        }
        questions
    }

    /// Removes variants whose requests equal those of an earlier variant, and returns their labels. This happens if a
    /// wording is the same as the default, or if the upstream is not known to support the constraint of the variant.
    pub fn drop_repeated(&mut self) -> Vec<String> {
        let mut seen = HashSet::new();
        let asks = |variant: &Variant| {
            let bodies = self.cases.iter().map(|case| {
                let preview = self.preview(&self.request(variant, case, 0));
                preview.map_or_else(|| variant.label(), |preview| digest(&preview.body).to_string())
            });
            // `retry` does not affect the first request.
            (variant.enforce == "retry", bodies.collect::<Vec<_>>())
        };
        let repeated = self.variants.iter().filter(|variant| !seen.insert(asks(variant)));
        let repeated: Vec<_> = repeated.map(Variant::label).collect();
        self.variants.retain(|variant| !repeated.contains(&variant.label()));
        repeated
    }

    /// Returns the text that the model is shown for a prompt in a variant.
    pub(crate) fn shown(&self, variant: &Variant, case: &Case) -> Shown {
        let shown = self.preview(&self.request(variant, case, 0));
        shown.map_or_else(Shown::default, |Preview { text, tool_tokens, .. }| Shown { text, tool_tokens })
    }

    fn request(&self, variant: &Variant, case: &Case, run: u32) -> Bytes {
        let mut request = case.request();
        let Sampling { temperature, max_tokens, seed } = &self.sampling;
        let own = [
            ("model", json!(variant.label())),
            ("stream", json!(true)),
            ("stream_options", json!({ "include_usage": true })),
            ("temperature", json!(temperature)),
            ("max_tokens", json!(max_tokens)),
        ];
        request.extend(own.map(|(key, value)| (key.to_owned(), value)));
        request.extend(seed.map(|seed| ("seed".to_owned(), json!(seed.wrapping_add(run.into())))));
        Value::Object(request).to_string().into()
    }

    /// Returns the request to the upstream, or `None` if it cannot be made. In that case, asking the question fails too.
    fn preview(&self, body: &Bytes) -> Option<Preview> {
        preview(&self.config, ClientDialect::Chat, body).ok()
    }

    /// Returns the digest of everything that an answer depends on: the upstream, the exact request to it, the settings for
    /// reading the response, the run, and toolwire's version. `enforce` is included as far as it can have an effect.
    fn key(&self, variant: &Variant, case: &Case, (run, body): (u32, &Bytes)) -> String {
        let request = self.preview(body).map_or_else(|| body.clone(), |preview| preview.body);
        let model = self.config.models.iter().find(|model| model.name == variant.label());
        let settings = model.map(|model| {
            let mut settings = model.settings.clone();
            settings.enforce = case.enforced(settings.enforce);
            (settings, model.starts_in_reasoning)
        });
        let version = env!("CARGO_PKG_VERSION");
        let all = format!("{version}\n{}\n{run}\n{settings:?}\n{}", self.measured, text(&request));
        Digest::of(&all).to_string()
    }
}

fn text(body: &[u8]) -> String {
    body.utf8_chunks().map(|chunk| chunk.valid()).collect()
}

fn digest(body: &[u8]) -> Digest {
    Digest::of(&text(body))
}
