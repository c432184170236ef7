//! The upstream side of this dialect: [`Options`] implements [`UpstreamSide`].

use std::time::Duration;

use super::{Options, ReaderSettings, Version, encode, refusal};
use crate::{
    Dialect, KeyError, Reader, ReaderRules, Surroundings, UpstreamRequest, UpstreamSide,
    conversation::Conversation, failure::Failure, media::data_url,
};

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Lumo
    }

    fn adapt_to_host(&mut self, host: &str) {
        self.account.adapt_to_host(host);
    }

    fn known_model(&self) -> Option<&'static str> {
        Some("lumo")
    }

    fn account(&self) -> Option<&super::AccountSettings> {
        Some(&*self.account)
    }

    fn takes_image(&self, url: &str) -> bool {
        self.version == Version::V2 || data_url(url).is_some()
    }

    fn path(&self) -> &'static str {
        self.version.path()
    }

    /// The path in the API for which keys are issued (docs/protocols/lumo.md#endpoints). No such path is
    /// known for sessions, so clients that use sessions get no list.
    fn check_path(&self) -> Option<&'static str> {
        Some("ai/v1/models")
    }

    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        encode(conversation, model, self)
    }

    fn encrypt(
        &self,
        request: UpstreamRequest,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<UpstreamRequest, Failure> {
        self.encryption.encrypt(request, random)
    }

    fn prepare(&mut self, surroundings: &Surroundings<'_>) -> Result<Option<String>, KeyError> {
        self.encryption.prepare(surroundings.read, surroundings.now)
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Lumo(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            target: self.target.clone(),
            tolerate_truncation: rules.tolerate_truncation,
        }))
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn server_tools(&self) -> &[String] {
        &self.native_tools
    }

    fn enable_search(&mut self, _conversation: &mut Conversation) {
        if !self.native_tools.iter().any(|tool| tool == "web_search") {
            self.native_tools.push("web_search".to_owned());
        }
    }

    /// Without a prefix, the model confuses tools in the prompt with its own, and calls them on a channel on
    /// which results never arrive (docs/protocols/lumo.md#tool-names).
    fn tool_prefix(&self) -> &'static str {
        "user:"
    }

    fn instructs_in_user_turn(&self) -> bool {
        true
    }

    /// The requests of v1 have no field for client tools.
    fn declares_tools(&self) -> bool {
        self.version != Version::V1
    }

    fn gives_choices(&self) -> bool {
        false
    }

    /// Lumo's scheduler sends the headers only when it has found a free model. Proton's own client waits 60 s
    /// (docs/protocols/lumo.md#errors-before-the-stream).
    fn slow_headers(&self) -> Option<Duration> {
        Some(Duration::from_secs(60))
    }
}
