//! [`ManifestBuilder`]: collects the manifest of an exchange in progress.

use http::{HeaderMap, StatusCode};

use super::{Hop, HostedResult, HostedTools, Manifest, RuleOverrides, Shown, Upstream};
use toolwire_config as config;
use toolwire_pipeline::{
    conversation::{Conversation, Prefill, Turn},
    dialect::ClientDialect,
    event::Event,
    failure::Failure,
    rules::{HostedRules, Rules},
};

/// Recorded headers of the upstream's response. Other headers may contain private data.
const KEPT_HEADERS: [&str; 2] = ["content-type", "retry-after"];

/// What is known when an exchange begins.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeFacts<'a> {
    pub(crate) dialect: ClientDialect,
    pub(crate) conversation: &'a Conversation,
    /// The configured model that answers.
    pub(crate) model: &'a config::Model,
    pub(crate) upstream: &'a config::Upstream,
    /// The start of the response that the upstream's request contains.
    pub(crate) prefill: Option<&'a Prefill>,
    /// The rules by which the response is read.
    pub(crate) rules: &'a Rules,
    /// The rules for calls to hosted tools, if the model has any.
    pub(crate) hosted: Option<&'a HostedRules>,
}

/// The manifest of an exchange in progress. It contains secrets, which must be masked when it is written.
#[derive(Debug)]
pub struct ManifestBuilder {
    manifest: Manifest,
    /// Events that the client received since the last hop.
    shown: Vec<Shown>,
    is_answered: bool,
}

impl ManifestBuilder {
    pub fn begin(about: ExchangeFacts<'_>) -> Self {
        let ExchangeFacts { dialect, conversation, model, upstream, prefill, rules, hosted } = about;
        let cumulative = upstream.options.side().is_cumulative();
        let manifest = Manifest {
            upstream: Upstream { cumulative, ..Upstream::default() },
            title: format!("Recorded from {}: {}", upstream.name, conversation.model),
            from: upstream.dialect().name().to_owned(),
            to: dialect.dialect().name().to_owned(),
            hosted: HostedTools::of(conversation, hosted),
            settings: RuleOverrides::of(rules),
            formats: Manifest::formats_of(rules, model.formats.own()),
            ..Manifest::default()
        };
        let mut builder = Self { manifest, shown: Vec::new(), is_answered: false };
        builder.prefilled(prefill);
        builder
    }

    /// Records an event that the client receives between two hops.
    pub fn shown(&mut self, event: &Event<'_>) {
        self.shown.extend(Shown::of(event));
    }

    /// Records another hop, whose request appends `turns` to the previous one. Returns the hop's number.
    pub fn asked_again(&mut self, prefill: Option<&Prefill>, turns: &[Turn]) -> usize {
        let results = HostedResult::all_of(turns);
        let asks = match results.last() {
            Some(result) => result.content.clone(),
            None => turns.last().map(Turn::joined_text).unwrap_or_default(),
        };
        let shown = std::mem::take(&mut self.shown);
        self.manifest.hops.push(Hop { asks, results, shown, ..Hop::default() });
        self.prefilled(prefill);
        self.manifest.hops.len() + 1
    }

    /// Records the start of the response that this hop's request contains.
    pub fn prefilled(&mut self, prefill: Option<&Prefill>) {
        let (text, is_repeated) = match self.manifest.hops.last_mut() {
            Some(hop) => (&mut hop.prefill, &mut hop.repeats_prefill),
            None => (&mut self.manifest.upstream.prefill, &mut self.manifest.upstream.repeats_prefill),
        };
        *text = prefill.map(|prefill| prefill.text.clone()).unwrap_or_default();
        *is_repeated = prefill.is_some_and(|prefill| prefill.is_repeated);
    }

    /// Records the head of the upstream's response.
    pub fn answered(&mut self, status: StatusCode, headers: &HeaderMap) {
        let kept = KEPT_HEADERS.iter().filter_map(|name| {
            let value = headers.get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        let (known_status, headers) = match self.manifest.hops.last_mut() {
            Some(hop) => (&mut hop.status, &mut hop.headers),
            None => (&mut self.manifest.upstream.status, &mut self.manifest.upstream.headers),
        };
        *known_status = status.as_u16();
        *headers = kept.collect();
        self.is_answered = true;
    }

    /// Whether an upstream has responded. If not, there is nothing to play.
    pub fn is_answered(&self) -> bool {
        self.is_answered
    }

    pub fn failed(&mut self, failure: &Failure) {
        self.manifest.about = format!("The response failed: {failure}.");
    }

    /// Records that the client disconnected before the end.
    pub fn cancelled(&mut self) {
        "The client went away before the end.".clone_into(&mut self.manifest.about);
    }

    /// Serializes the manifest as TOML.
    ///
    /// # Errors
    /// If the manifest cannot be serialized.
    pub fn text(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(&self.manifest)
    }
}
