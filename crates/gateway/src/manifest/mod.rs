//! [`Manifest`]: the file `fixture.toml`, which describes a fixture and the rules for playing it. Also defines the
//! names of a fixture's other files.

pub mod hosted_tools;
mod manifest_builder;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::hosted_tools::{HostedResult, HostedTools, Shown};
pub(crate) use self::manifest_builder::ExchangeFacts;
pub use self::manifest_builder::ManifestBuilder;
use toolwire_config::{Keys, TableError, model_rules, read_table, table_of};
use toolwire_pipeline::{
    format::{CustomFormat, Definition, DefinitionError, KnownFormats},
    rules::{Detect, Rules},
    settings::{Field, Key, Settings},
};

/// A folder with this file is a fixture.
pub const MANIFEST: &str = "fixture.toml";
pub const REQUEST: &str = "request.json";
pub(crate) const UPSTREAM: &str = "upstream.sse";
/// Arrival times of the pieces of the upstream's body.
pub const TIMES: &str = "upstream.times";

/// Returns the name of the file with the upstream's body for a hop, counted from 1.
pub fn upstream_file(hop: usize) -> String {
    numbered(UPSTREAM, hop)
}

/// Returns the name of the file with the arrival times for a hop.
pub fn times_file(hop: usize) -> String {
    numbered(TIMES, hop)
}

fn numbered(name: &str, hop: usize) -> String {
    match name.split_once('.') {
        Some((stem, extension)) if hop > 1 => format!("{stem}-{hop}.{extension}"),
        _ => name.to_owned(),
    }
}

/// The contents of `fixture.toml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What the fixture is about, in one line.
    pub title: String,
    /// Explains the result to readers if it is not obvious.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) about: String,
    /// What the expected result is based on: ids of conformance cases, and headings such as
    /// `docs/protocols/lumo.md#v1-stream`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rests_on: Vec<String>,
    /// The upstream's dialect.
    pub from: String,
    /// The client's dialect.
    #[serde(default = "chat", skip_serializing_if = "is_chat")]
    pub to: String,
    /// Status and headers of the upstream's response.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upstream: Upstream,
    /// Further requests to the upstream for the same response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// The tools that toolwire runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosted: Option<HostedTools>,
    /// Rules that differ from the defaults.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: RuleOverrides,
    /// Custom text formats that the rules name, defined as in a configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) formats: Vec<Definition>,
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The definition of this format is invalid.
    #[error("the format `{0}`: {wrong}", wrong = listed(.1))]
    Format(String, Vec<DefinitionError>),
    /// Rules are invalid.
    #[error(transparent)]
    Rules(#[from] TableError),
    /// The schema of this hosted tool is not JSON.
    #[error("`parameters` of `{0}` are not JSON")]
    Schema(String),
}

fn listed(wrong: &[DefinitionError]) -> String {
    let wrong: Vec<_> = wrong.iter().map(|wrong| format!("`{}`: {}", wrong.key, wrong.message)).collect();
    wrong.join("; ")
}

impl Manifest {
    /// The built-in formats and those that the manifest defines.
    ///
    /// # Errors
    /// If a definition is invalid.
    pub fn known_formats(&self) -> Result<KnownFormats, ManifestError> {
        let mut own: Vec<CustomFormat> = Vec::new();
        for definition in &self.formats {
            let built = definition.clone().build(&own);
            own.push(built.map_err(|wrong| ManifestError::Format(definition.name.clone(), wrong))?);
        }
        Ok(KnownFormats::new(own))
    }

    /// Returns the definitions of those formats in `own` that `settings` names, for a recording.
    pub(crate) fn formats_of(settings: &Rules, own: &[CustomFormat]) -> Vec<Definition> {
        let named = match &settings.detect {
            Detect::Auto | Detect::Off => &[][..],
            Detect::AutoAnd(names) | Detect::Formats(names) => names,
        };
        let named = own.iter().filter(|own| named.contains(&own.format.name));
        named.map(|own| own.definition.clone()).collect()
    }
}

fn chat() -> String {
    "chat".to_owned()
}

fn is_chat(name: &str) -> bool {
    name == "chat"
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `[upstream]`: the head of the upstream's response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Upstream {
    pub status: u16,
    /// Headers. The default `content-type` is `text/event-stream`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether each delta repeats all of the text before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cumulative: bool,
    /// The start of the response, if the request contained it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefill: String,
    /// Whether the response repeats `prefill` at its start.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeats_prefill: bool,
}

impl Default for Upstream {
    fn default() -> Self {
        let (cumulative, prefill, repeats_prefill) = (false, String::new(), false);
        Self { status: 200, headers: BTreeMap::new(), cumulative, prefill, repeats_prefill }
    }
}

/// `[[hops]]`: a further request to the upstream, and the head of its response. The body of the first such response is
/// in `upstream-2.sse`, and so on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hop {
    /// Text in a string of this request that the previous request does not contain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub asks: String,
    pub status: u16,
    /// See [`Upstream::headers`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// See [`Upstream::prefill`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefill: String,
    /// See [`Upstream::repeats_prefill`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeats_prefill: bool,
    /// Results of hosted calls that the request contains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<HostedResult>,
    /// Events that the client receives before the response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Shown>,
}

impl Default for Hop {
    fn default() -> Self {
        Self {
            asks: String::new(),
            status: 200,
            headers: BTreeMap::new(),
            prefill: String::new(),
            repeats_prefill: false,
            results: Vec::new(),
            shown: Vec::new(),
        }
    }
}

/// `[settings]`: the rules that differ from the defaults, with their keys in configuration files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuleOverrides(toml::Table);

/// Defines the keys of `[settings]`: those of a model and of its upstream, and the limits that affect how a response is
/// read.
fn keys(keys: &mut impl Keys, rules: &mut Rules, known: &KnownFormats) {
    model_rules::rules(keys, rules, known);
    let mut starts_in_reasoning = Some(rules.starts_in_reasoning);
    model_rules::starts_in_reasoning(keys, &mut starts_in_reasoning);
    rules.starts_in_reasoning = starts_in_reasoning.unwrap_or_default();
    keys.key(
        Key::new("is_start_assumed", "whether the response may show that `starts_in_reasoning` is wrong"),
        Field::Switch(&mut rules.is_start_assumed),
    );
    keys.key(
        Key::new("tolerate_truncation", "accept a stream that closes without its end mark as complete"),
        Field::Switch(&mut rules.tolerate_truncation),
    );
    rules.limits.settings(keys);
    keys.key(
        Key::new("server_tools", "the upstream's own tools, by name"),
        Field::Texts(&mut rules.server_tools),
    );
}

impl RuleOverrides {
    /// Sets the rule `key`, or leaves the default if there is no value.
    #[must_use]
    pub fn with(mut self, key: &str, value: Option<impl Into<toml::Value>>) -> Self {
        if let Some(value) = value {
            self.0.insert(key.to_owned(), value.into());
        }
        self
    }

    /// Returns the defaults with these overrides. `known` are the formats that may be named.
    ///
    /// # Errors
    /// If a key or a value is invalid.
    pub fn settings(&self, known: &KnownFormats) -> Result<Rules, ManifestError> {
        let mut rules = Rules::default();
        read_table(&self.0, |table| keys(table, &mut rules, known))?;
        Ok(rules)
    }

    /// Returns the overrides that turn the defaults into `settings`.
    pub fn of(settings: &Rules) -> Self {
        let shown =
            |rules: &Rules| table_of(|table| keys(table, &mut rules.clone(), KnownFormats::built_in()));
        let defaults = shown(&Rules::default());
        Self(shown(settings).into_iter().filter(|(key, value)| defaults.get(key) != Some(value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_pipeline::rules::{
        ArgumentDelivery, Enforce, InvalidArguments, Limits, Misroute, QuotedCalls, Reasoning, ServerCalls,
        Showing, UnknownCalls,
    };

    #[test]
    fn rules_and_settings_round_trip() {
        let settings = Rules {
            detect: Detect::Off,
            reasoning: Reasoning::Off,
            server_calls: ServerCalls::Hide,
            misroute: Misroute::Bounce,
            arguments: ArgumentDelivery::Whole,
            unknown_calls: UnknownCalls::Text,
            enforce: Enforce::Retry,
            invalid_arguments: InvalidArguments::Retry,
            quoted_calls: QuotedCalls::Strict,
            starts_in_reasoning: true,
            is_start_assumed: true,
            repair: false,
            tool_prefix: "user:".to_owned(),
            server_tools: vec!["web_search".to_owned()],
            tolerate_truncation: true,
            showing: Showing::default(),
            limits: Limits { max_calls: 3, ..Limits::default() },
        };
        let rules = RuleOverrides::of(&settings);
        let text = toml::to_string(&rules).unwrap();
        assert_eq!(
            toml::from_str::<RuleOverrides>(&text).unwrap().settings(KnownFormats::built_in()).unwrap(),
            settings
        );
        assert_eq!(RuleOverrides::of(&Rules::default()), RuleOverrides::default());
    }

    #[test]
    fn custom_formats_are_recorded_as_definitions() {
        let definition = Definition {
            name: "acme".to_owned(),
            open: "<<".to_owned(),
            close: ">>".to_owned(),
            ..Definition::default()
        };
        let own = definition.clone().build(&[]).unwrap();
        let settings = Rules { detect: Detect::AutoAnd(vec![own.format.name]), ..Rules::default() };
        let manifest = Manifest {
            settings: RuleOverrides::of(&settings),
            formats: Manifest::formats_of(&settings, &[own]),
            ..Manifest::default()
        };
        let read: Manifest = toml::from_str(&toml::to_string(&manifest).unwrap()).unwrap();
        assert_eq!(read.formats, [definition]);
        assert_eq!(read.settings.settings(&read.known_formats().unwrap()).unwrap(), settings);
        let unnamed = Manifest { formats: Vec::new(), ..read };
        let error = unnamed.settings.settings(&unnamed.known_formats().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("`detect`: unknown value `acme`; nearest: "), "{error}");
        assert!(error.contains("; `toolwire formats` lists all"), "{error}");
    }

    #[test]
    fn every_wrong_key_and_value_is_reported() {
        let rules = RuleOverrides::default()
            .with("max_calls", Some(0))
            .with("maxdepth", Some(3))
            .with("repair", Some("yes"));
        let error = rules.settings(KnownFormats::built_in()).unwrap_err().to_string();
        for part in [
            "`max_calls`: expected a whole number of at least 1",
            "unknown key `maxdepth`; did you mean `max_depth`?",
            "`repair`: expected `true` or `false`, found a string",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn invalid_word_error_lists_the_valid_ones() {
        let rules = RuleOverrides::default().with("server_calls", Some("keep"));
        let error = rules.settings(KnownFormats::built_in()).unwrap_err().to_string();
        assert!(
            error.starts_with("`server_calls`: unknown value `keep`; ") && error.contains("`forward`"),
            "{error}"
        );
    }
}
