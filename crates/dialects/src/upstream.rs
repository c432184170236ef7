//! [`UpstreamSide`]: the trait by which a dialect calls the upstreams that speak it.

use std::{io, path::Path, time::Duration};

use bytes::Bytes;

use super::{Dialect, File, KeyError, Observed, Probe, Reader, Signing, TemplateSource};
use crate::{
    conversation::{Conversation, IdForm, NameForm, Part, Prefill, Prompt, Turn, WantsBack},
    enforce::Means,
    failure::Failure,
    rules::Limits,
    settings::Settings,
    tools::DeclaredTools,
};

/// How a dialect calls its upstreams, with the settings of one upstream.
///
/// Default implementations suit most dialects.
pub trait UpstreamSide: Settings {
    /// The dialect.
    fn dialect(&self) -> Dialect;

    /// Why nothing can be sent, if the dialect is not part of this build.
    fn absence(&self) -> Option<&'static str> {
        None
    }

    /// Applies the known defaults for the server at `host`.
    fn adapt_to_host(&mut self, _host: &str) {}

    /// The account whose session may be used for requests, in dialects that have accounts.
    fn account(&self) -> Option<&super::AccountSettings> {
        None
    }

    /// The path of requests, without a leading slash and relative to the upstream's base URL. A request may
    /// override it.
    fn path(&self) -> &'static str;

    /// The header that contains the upstream's API key.
    fn key_header(&self) -> KeyHeader {
        KeyHeader::Bearer
    }

    /// Headers to send with every request, in addition to those that all dialects send. Names are in lower
    /// case.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The path, relative to the base URL, under which other paths of OpenAI's API may exist. It is empty, or
    /// ends with a slash. `None` if there are no such paths.
    fn openai_base(&self) -> Option<&'static str> {
        None
    }

    /// Whether requests name the beta features that a client of the same dialect named in its own request.
    fn takes_betas(&self) -> bool {
        false
    }

    /// The path of the list of models, relative to the base URL. It may include a query.
    fn models_path(&self) -> Option<&'static str> {
        None
    }

    /// A model that servers without a list of models have.
    fn known_model(&self) -> Option<&'static str> {
        None
    }

    /// The path of the list of models that identifies the dialect best and requires the API key.
    fn check_path(&self) -> Option<&'static str> {
        self.models_path()
    }

    /// Encodes `conversation` as a request to an upstream that knows the model as `model`.
    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest;

    /// Converts a file or an audio recording to a part, if requests can contain it.
    fn file_part(&self, _file: &File) -> Option<Part> {
        None
    }

    /// Whether a part with a file has the file's name.
    fn names_files(&self) -> bool {
        true
    }

    /// Whether requests can contain an image with this URL.
    fn takes_image(&self, _url: &str) -> bool {
        true
    }

    /// Whether instructions may contain images and files.
    fn instructions_take_media(&self) -> bool {
        false
    }

    /// Whether an assistant message may consist of nothing but reasoning that has state from the upstream.
    fn takes_reasoning_alone(&self) -> bool {
        false
    }

    /// Encrypts a request from [`UpstreamSide::encode`], in dialects with encryption. `random` fills bytes
    /// with cryptographically secure randomness.
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

    /// Completes the settings by reading the files and the variables that they refer to. Returns a warning if
    /// something will soon expire.
    ///
    /// # Errors
    /// What is wrong with the settings.
    fn prepare(&mut self, _surroundings: &Surroundings<'_>) -> Result<Option<String>, KeyError> {
        Ok(None)
    }

    /// How requests are signed, instead of sending a key.
    fn signing(&self) -> Option<&Signing> {
        None
    }

    /// Whether requests contain the conversation as a single text, written by the model's chat template.
    fn takes_prompt(&self) -> bool {
        false
    }

    /// Encodes a request with the conversation written as `prompt`, in dialects that accept a prompt.
    fn encode_prompt(&self, _prompt: &Prompt, conversation: &Conversation, model: &str) -> UpstreamRequest {
        self.encode(conversation, model)
    }

    /// Whether requests can contain all that a client of text completions can write: several prompts, tokens, a suffix
    /// and the number of choices.
    fn takes_client_prompts(&self) -> bool {
        false
    }

    /// Creates a reader for one response.
    fn reader(&self, rules: &ReaderRules) -> Reader;

    /// The failure for a response with the error status `status`. `retry_after` is the value of that header,
    /// and `body` is as much of the body as was read.
    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure;

    /// The names of the tools that the upstream runs itself.
    fn server_tools(&self) -> &[String] {
        &[]
    }

    /// Enables the upstream's own web search for `conversation`, if it has one.
    fn enable_search(&mut self, _conversation: &mut Conversation) {}

    /// The prefix for the names of tools that are described in the prompt, so that the model does not confuse
    /// them with its own.
    fn tool_prefix(&self) -> &'static str {
        ""
    }

    /// Whether models follow instructions better in a user turn than in a system turn.
    fn instructs_in_user_turn(&self) -> bool {
        false
    }

    /// The requests whose responses reveal the server's software. Empty if it is known or does not matter.
    fn probes(&self) -> &'static [Probe] {
        &[]
    }

    /// Sets the server's software if `body`, the response to `probe`, reveals it, and returns its name.
    fn identify(&mut self, _probe: &Probe, _body: &[u8]) -> Option<&'static str> {
        None
    }

    /// Whether the server runs searches for tools that clients declare in its dialect. `None` if that depends on its
    /// software, which is unknown.
    fn searches_tools(&self) -> Option<bool> {
        Some(false)
    }

    /// Where the server shows its models' chat templates, and whether to look there before a response shows that the
    /// template matters.
    fn template_source(&self) -> Option<(TemplateSource, bool)> {
        None
    }

    /// Whether the server is known to send reasoning in a field of its own, so that text never starts inside it.
    fn separates_reasoning(&self) -> bool {
        false
    }

    /// Whether past reasoning is sent in the same field in which the server sends reasoning.
    fn follows_reasoning(&self) -> bool {
        false
    }

    /// Whether a request with `turns` would have fewer messages for a server with [strict
    /// roles](Observed::strict_roles).
    fn may_join(&self, _turns: &[Turn]) -> bool {
        false
    }

    /// Sets what was observed about the server, unless the settings say otherwise.
    fn observe(&mut self, _observed: Observed) {}

    /// The constraints that the upstream's server can enforce while the model generates text.
    fn means(&self) -> Means {
        Means::default()
    }

    /// The state of past turns that the upstream needs back when a client replays the calls in them.
    fn wants_back(&self) -> WantsBack {
        WantsBack::Nothing
    }

    /// Which tool names the upstream accepts.
    fn name_form(&self) -> NameForm {
        NameForm::Word
    }

    /// Which ids of past calls the upstream accepts.
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

    /// How long a working upstream may take to send its response headers, if that is unusually long.
    fn slow_headers(&self) -> Option<Duration> {
        None
    }

    /// Whether each delta of the upstream's stream repeats all earlier text.
    fn is_cumulative(&self) -> bool {
        false
    }

    /// Sets whether each delta repeats all earlier text, in dialects in which servers may do this.
    fn set_cumulative(&mut self, _cumulative: bool) {}
}

/// What settings may refer to.
pub struct Surroundings<'a> {
    /// Reads a file.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
    /// The value of an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The current Unix time in seconds.
    pub now: u64,
}

/// How the upstream's API key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// In `Authorization: Bearer …`.
    Bearer,
    /// In the header with this name, which is in lower case.
    Named(&'static str),
}

/// What a reader needs to know in addition to the upstream's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderRules {
    /// Maximum size of an upstream's frame in bytes. Exceeding it fails the response.
    pub max_frame: usize,
    /// Whether a body without an end marker counts as complete.
    pub tolerate_truncation: bool,
    /// The client's dialect. If the upstream speaks it as well, frames that need no change are forwarded.
    pub client: Dialect,
}

/// What a reader needs to know about the client's request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The declared tools. A name is known to be complete if it is declared and is not a prefix of another
    /// declared name.
    pub tools: DeclaredTools,
    /// The limits of the response.
    pub limits: Limits,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// Whether the client asked for several choices. If not, all choices together form one response.
    pub several: bool,
    /// Whether invalid JSON in the arguments of native calls is repaired.
    pub repair: bool,
}

/// A request in an upstream's dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRequest {
    /// The JSON body.
    pub body: Bytes,
    /// The path relative to the upstream's base URL, with the query, if it is not [`UpstreamSide::path`].
    pub path: Option<String>,
    /// The names of the fields that were left out because the dialect cannot express them, for the log and a
    /// counter.
    pub dropped: Vec<String>,
    /// Whether a streamed response is requested, so that its headers arrive before its content is complete.
    pub stream: bool,
    /// The text with which the request starts the response.
    pub prefill: Option<Prefill>,
    /// The key that encrypts the request and therefore also the response.
    pub key: Option<super::RequestKey>,
}
