//! [`UpstreamSide`]: the trait that each dialect implements for the upstreams that speak it.

use std::time::Duration;

use bytes::Bytes;

use super::{Dialect, File, Observed, Probe, Reader};
use crate::{
    conversation::{Conversation, IdForm, NameForm, Part, Prefill, Prompt, Turn, WantsBack},
    enforce::Means,
    failure::Failure,
    rules::Limits,
    settings::{Field, Key, Settings},
    tools::DeclaredTools,
};

/// The upstream's side of a dialect, with the settings of one upstream.
///
/// Methods with a default state facts about a dialect; the default holds for most dialects.
pub trait UpstreamSide {
    /// The dialect.
    fn dialect(&self) -> Dialect;

    /// The settings that only this dialect has: the table `[upstreams.NAME]`, where NAME is the dialect's
    /// name.
    fn settings(&mut self, keys: &mut dyn Settings);

    /// Sets the known defaults for the server at `host`.
    fn adapt_to_host(&mut self, _host: &str) {}

    /// The account with which requests may be sent, in dialects that have accounts.
    fn account(&self) -> Option<&super::AccountSettings> {
        None
    }

    /// The path of requests below the upstream's base URL, unless a request has its own; no leading slash.
    fn path(&self) -> &'static str;

    /// The header that carries the upstream's key.
    fn key_header(&self) -> KeyHeader {
        KeyHeader::Bearer
    }

    /// Headers of every request in addition to those that all dialects send: names in lower case, and values.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The path below the base URL under which other paths of OpenAI's API may be found, if there may be any.
    /// It is empty, or ends with a slash.
    fn openai_base(&self) -> Option<&'static str> {
        None
    }

    /// Whether requests name the beta features that a client of the same dialect named in its own request.
    fn takes_betas(&self) -> bool {
        false
    }

    /// The path of the model list, below the base URL. It may have a query.
    fn models_path(&self) -> Option<&'static str> {
        None
    }

    /// The path of the model list that identifies the dialect best and requires the key.
    fn check_path(&self) -> Option<&'static str> {
        self.models_path()
    }

    /// Encodes `conversation` as a request to an upstream that knows the model as `model`.
    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest;

    /// The part for a file or a recording, if requests can contain it.
    fn file_part(&self, _file: &File) -> Option<Part> {
        None
    }

    /// Whether requests can contain an image with this URL.
    fn takes_image(&self, _url: &str) -> bool {
        true
    }

    /// Whether instructions may contain images and files.
    fn instructions_take_media(&self) -> bool {
        false
    }

    /// Whether an assistant message may consist only of reasoning with state from the upstream.
    fn takes_reasoning_alone(&self) -> bool {
        false
    }

    /// Encrypts a request that [`UpstreamSide::encode`] returned, in dialects with encryption. `random` fills
    /// bytes with cryptographically secure randomness.
    ///
    /// # Errors
    /// The request cannot be encrypted.
    fn encrypt(
        &self,
        request: UpstreamRequest,
        _random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<UpstreamRequest, Failure> {
        Ok(request)
    }

    /// Completes the settings with the files that they name, at the time `now`, in seconds of Unix time.
    /// Returns a warning if something will stop working soon.
    ///
    /// # Errors
    /// A description of the faults in the settings.
    fn prepare(
        &mut self,
        _read: &dyn Fn(&std::path::Path) -> std::io::Result<String>,
        _now: u64,
    ) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Whether requests carry the conversation as one text, which the model's chat template writes.
    fn takes_prompt(&self) -> bool {
        false
    }

    /// The same request with the conversation written as `prompt`, for dialects that accept a prompt.
    fn encode_prompt(&self, _prompt: &Prompt, conversation: &Conversation, model: &str) -> UpstreamRequest {
        self.encode(conversation, model)
    }

    /// A reader for one response.
    fn reader(&self, rules: &ReaderRules) -> Reader;

    /// The failure that corresponds to a response with the error status `status`. `retry_after` is the value
    /// of the header with this name; `body` is the part of the body that was read.
    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure;

    /// Tools that the upstream runs itself, by name.
    fn server_tools(&self) -> &[String] {
        &[]
    }

    /// Enables the upstream's own web search for `conversation`, if it has one.
    fn enable_search(&mut self, _conversation: &mut Conversation) {}

    /// The prefix of the names of tools that are taught in the prompt, so that the model does not confuse
    /// these tools with its own.
    fn tool_prefix(&self) -> &'static str {
        ""
    }

    /// Whether instructions to the model work better in a user turn than in a system turn.
    fn instructs_in_user_turn(&self) -> bool {
        false
    }

    /// The requests whose responses reveal which software the server runs. Empty if it is known, or makes no
    /// difference.
    fn probes(&self) -> &'static [Probe] {
        &[]
    }

    /// Sets the software of the server if the response `body` to `probe` reveals it, and returns its name.
    /// `None` if the response does not reveal it.
    fn identify(&mut self, _probe: &Probe, _body: &[u8]) -> Option<&'static str> {
        None
    }

    /// Whether past reasoning is sent in the field in which the server sends reasoning.
    fn follows_reasoning(&self) -> bool {
        false
    }

    /// Whether the request for `turns` would have fewer messages for a server with [strict
    /// roles](Observed::strict_roles).
    fn may_join(&self, _turns: &[Turn]) -> bool {
        false
    }

    /// Sets what was observed about the server, where the settings leave it open.
    fn observe(&mut self, _observed: Observed) {}

    /// The constraints that the upstream's server can enforce while the model writes.
    fn means(&self) -> Means {
        Means::default()
    }

    /// The state of past turns that the upstream wants back when a client replays the turns' calls.
    fn wants_back(&self) -> WantsBack {
        WantsBack::Nothing
    }

    /// The form of tool names that the upstream accepts.
    fn name_form(&self) -> NameForm {
        NameForm::Word
    }

    /// The form of past call ids that the upstream accepts.
    fn id_form(&self) -> IdForm {
        IdForm::Any
    }

    /// Whether requests can declare the client's tools.
    fn declares_tools(&self) -> bool {
        true
    }

    /// Whether a request can ask for several choices.
    fn gives_choices(&self) -> bool {
        true
    }

    /// The time that a working upstream may take to send its response headers, if this is unusually long.
    fn slow_headers(&self) -> Option<Duration> {
        None
    }

    /// Whether each delta of the upstream's stream repeats all earlier text.
    fn is_cumulative(&self) -> bool {
        false
    }

    /// Sets whether each delta repeats all earlier text, in dialects whose servers may do this.
    fn set_cumulative(&mut self, _cumulative: bool) {}
}

/// How a request carries the upstream's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// As `Authorization: Bearer …`.
    Bearer,
    /// In a header with this name, which is in lower case.
    Named(&'static str),
}

/// Declares the setting of dialects whose requests may ask for token counts at the end of a stream.
pub(super) fn include_usage(keys: &mut dyn Settings, include: &mut bool) {
    let about = "request token counts of streams; `false` for servers that reject `stream_options`";
    keys.key(Key::new("include_usage", about), Field::Switch(include));
}

/// What reading a response depends on, in addition to the upstream's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderRules {
    /// Maximum bytes of one upstream frame. If it is exceeded, the response fails.
    pub max_frame: usize,
    /// Whether a body that ends without an end mark counts as complete.
    pub tolerate_truncation: bool,
    /// The client's dialect. If the upstream also speaks it, frames that need no change are forwarded
    /// unchanged.
    pub client: Dialect,
}

/// What a reader needs to know about the client's request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The declared tools: a call's name is complete once it is a declared name that cannot become a longer
    /// declared name.
    pub tools: DeclaredTools,
    /// The limits of one response.
    pub limits: Limits,
    /// The client is answered with a stream.
    pub stream: bool,
    /// Whether the client asked for several choices. If not, all choices together make up one response.
    pub several: bool,
    /// Whether arguments of native calls that are not valid JSON are repaired.
    pub repair: bool,
}

/// A request in an upstream's dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRequest {
    /// The JSON body.
    pub body: Bytes,
    /// The path below the upstream's base URL, with the query, if it is not [`UpstreamSide::path`].
    pub path: Option<String>,
    /// Names of the fields that the dialect cannot express and that were left out, for the log and a counter.
    pub dropped: Vec<String>,
    /// Whether the response is requested as a stream: its headers arrive before its content is complete.
    pub stream: bool,
    /// The text with which the request begins the response.
    pub prefill: Option<Prefill>,
    /// The key with which the request, and therefore also the response, is encrypted.
    pub key: Option<super::RequestKey>,
}
