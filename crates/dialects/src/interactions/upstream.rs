//! [`Options`]: the settings for an upstream of this dialect.

use serde_json::json;

use super::{DIALECT, ReaderSettings, request};
use crate::{
    Dialect, File, KeyHeader, Reader, ReaderRules, Source, UpstreamRequest, UpstreamSide,
    conversation::{Conversation, NameForm, Part, Received, WantsBack},
    enforce::{Means, Subset},
    failure::Failure,
    google_refusal::refusal,
    media::is_local,
    settings::Settings,
};

/// How to write requests to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Options {
    /// Google's own enabled tools: `"google_search"`, `"url_context"`, `"code_execution"`. Not all models accept them
    /// with a client's tools
    pub native_tools: Vec<String>,
    /// request summaries of the reasoning if the client sets `reasoning_effort`
    #[setting(default = true)]
    pub include_thoughts: bool,
}

/// The tool with which the API searches the web.
const SEARCH: &str = "google_search";

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Interactions
    }

    fn path(&self) -> &'static str {
        "interactions"
    }

    /// Without the version, servers send the steps of the version that they consider current.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("api-revision", "2026-05-20")]
    }

    fn file_part(&self, file: &File) -> Option<Part> {
        let uri = match &file.source {
            // The type of a content follows from that of its data.
            Source::Data(_) => return Some(Part::Image { url: file.data_url()?, detail: None }),
            Source::Url(url) if !is_local(url) => url,
            Source::Id { id, owner: Dialect::Gemini } => id,
            _ => return None,
        };
        let content = json!({"type": request::kind_of_media(&file.mime), "uri": uri, "mime_type": file.mime});
        Some(Part::Other(Received::new(DIALECT, content)))
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
        Reader::Interactions(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            tolerate_truncation: rules.tolerate_truncation,
        }))
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn enable_search(&mut self, _conversation: &mut Conversation) {
        if !self.native_tools.iter().any(|tool| tool == SEARCH) {
            self.native_tools.push(SEARCH.to_owned());
        }
    }

    fn means(&self) -> Means {
        Means { schema: Some(Subset::PORTABLE), ..Means::default() }
    }

    fn gives_choices(&self) -> bool {
        false
    }
}
