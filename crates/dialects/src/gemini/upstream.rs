//! [`Options`]: the settings for an upstream of this dialect.

use super::{ReaderSettings, request};
use crate::{
    Dialect, File, KeyHeader, Reader, ReaderRules, Source, UpstreamRequest, UpstreamSide,
    conversation::{Conversation, NameForm, Part, WantsBack},
    enforce::{Means, Subset},
    failure::Failure,
    google_refusal::refusal,
    media::is_local,
    settings::Settings,
};

/// How to write requests to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Options {
    /// Gemini's own enabled tools: `"googleSearch"`, `"urlContext"`, `"codeExecution"`. Not all models accept
    /// them with a client's tools
    pub native_tools: Vec<String>,
    /// send schemas as they are (`parametersJsonSchema`, `responseJsonSchema`); `"openapi"` reduces them to
    /// `parameters` and `responseSchema`, for older servers
    #[setting(word)]
    pub schemas: Schemas,
    /// how `reasoning_effort` is sent: as a `"level"`, a `"budget"`, or `"off"`. `"auto"`: a budget to models
    /// up to Gemini 2.5
    #[setting(word)]
    pub thinking: Thinking,
    /// request summaries of the reasoning if the client sets `reasoning_effort`
    #[setting(default = true)]
    pub include_thoughts: bool,
}

/// How to send the schemas of tools and responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Schemas {
    /// Unchanged, as JSON Schema.
    #[default]
    JsonSchema,
    /// Converted to the API's own `Schema`, for servers without the newer fields.
    #[strum(serialize = "openapi")]
    OpenApi,
}

/// How to send `reasoning_effort`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Thinking {
    /// As a budget for models up to Gemini 2.5, and as a level for newer ones.
    #[default]
    Auto,
    /// `thinkingLevel`.
    Level,
    /// `thinkingBudget`.
    Budget,
    /// Not at all.
    Off,
}

impl Thinking {
    pub(super) fn for_model(self, model: &str) -> Self {
        let has_budget = ["gemini-1", "gemini-2", "gemma"].iter().any(|name| model.contains(name));
        match self {
            Self::Auto if has_budget => Self::Budget,
            Self::Auto => Self::Level,
            chosen => chosen,
        }
    }
}

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Gemini
    }

    /// Each request has its own path, which continues this one with the model's name.
    fn path(&self) -> &'static str {
        request::MODELS
    }

    /// The API has a single type of part for all files, including images.
    fn file_part(&self, file: &File) -> Option<Part> {
        let url = match &file.source {
            Source::Data(_) => file.data_url()?,
            Source::Url(url) if !is_local(url) => url.clone(),
            _ => return None,
        };
        Some(Part::Image { url, detail: None })
    }

    fn names_files(&self) -> bool {
        false
    }

    fn takes_image(&self, url: &str) -> bool {
        !is_local(url)
    }

    fn takes_reasoning_alone(&self) -> bool {
        true
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Named("x-goog-api-key")
    }

    /// The page size is large enough for all models to fit on one page, see docs/protocols/gemini.md#models.
    fn models_path(&self) -> Option<&'static str> {
        Some("models?pageSize=1000")
    }

    fn wants_back(&self) -> WantsBack {
        WantsBack::Signatures
    }

    fn name_form(&self) -> NameForm {
        NameForm::Identifier
    }

    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        request::encode(conversation, model, self)
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Gemini(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            tolerate_truncation: rules.tolerate_truncation,
            verbatim: rules.client == Dialect::Gemini,
            cites: !self.native_tools.is_empty(),
        }))
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn enable_search(&mut self, _conversation: &mut Conversation) {
        const SEARCH: [&str; 2] = ["googleSearch", "google_search"];
        if !self.native_tools.iter().any(|tool| SEARCH.contains(&tool.as_str())) {
            self.native_tools.push("googleSearch".to_owned());
        }
    }

    fn means(&self) -> Means {
        Means { schema: Some(Subset::PORTABLE), ..Means::default() }
    }

    fn gives_choices(&self) -> bool {
        false
    }
}
