//! [`UpstreamSide`]: what a dialect's folder provides so that upstreams can speak it.

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
/// The methods with a default state facts about a dialect; the default is what holds for most.
pub trait UpstreamSide {
    /// The dialect.
    fn dialect(&self) -> Dialect;

    /// The settings that only this dialect has: the table `[upstreams.NAME]`, where NAME is the dialect's.
    fn settings(&mut self, keys: &mut dyn Settings);

    /// Sets the defaults that are known of the server at `host`.
    fn adapt_to_host(&mut self, _host: &str) {}

    /// The account that requests may be sent with, in dialects that have such.
    fn account(&self) -> Option<&super::AccountSettings> {
        None
    }

    /// The path of requests, unless a request has its own, below the upstream's base URL; no leading slash.
    fn path(&self) -> &'static str;

    /// The header with the upstream's key.
    fn key_header(&self) -> KeyHeader {
        KeyHeader::Bearer
    }

    /// Headers of every request beside those that all dialects have: names in lower case, and values.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Where below the base URL other paths of OpenAI's API may be found, if they may: empty, or with a slash at the end.
    fn openai_base(&self) -> Option<&'static str> {
        None
    }

    /// Whether requests name the beta features that a client of the same dialect names in its own.
    fn takes_betas(&self) -> bool {
        false
    }

    /// The path of the list of models, below the base URL. It may have a query.
    fn models_path(&self) -> Option<&'static str> {
        None
    }

    /// The path of the list of models that says most of whether a server is of this dialect, and takes the key.
    fn check_path(&self) -> Option<&'static str> {
        self.models_path()
    }

    /// The request for `conversation`, to an upstream that knows the model as `model`.
    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest;

    /// The part that carries a file or a recording, if requests can have it.
    fn file_part(&self, _file: &File) -> Option<Part> {
        None
    }

    /// Whether requests can have an image of this URL.
    fn takes_image(&self, _url: &str) -> bool {
        true
    }

    /// Whether instructions may have images and files.
    fn instructions_take_media(&self) -> bool {
        false
    }

    /// Whether a message of the assistant may be reasoning alone, with state that the upstream gave.
    fn takes_reasoning_alone(&self) -> bool {
        false
    }

    /// Encrypts a request that [`UpstreamSide::encode`] gave, in dialects with encryption. `random` fills bytes with randomness that
    /// nobody can guess.
    ///
    /// # Errors
    /// It cannot be encrypted.
    fn encrypt(
        &self,
        request: UpstreamRequest,
        _random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<UpstreamRequest, Failure> {
        Ok(request)
    }

    /// Completes the settings with the files that they name, at the time `now`, in seconds of Unix time. Gives a warning if
    /// something will not work for long.
    ///
    /// # Errors
    /// What is wrong with the settings.
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

    /// The same request with the conversation written as `prompt`, for dialects that take one.
    fn encode_prompt(&self, _prompt: &Prompt, conversation: &Conversation, model: &str) -> UpstreamRequest {
        self.encode(conversation, model)
    }

    /// A reader for one response.
    fn reader(&self, rules: &ReaderRules) -> Reader;

    /// The failure that a response with the error `status` means. `retry_after` is the value of that header;
    /// `body` is as much of the body as was read.
    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure;

    /// Tools that the upstream runs itself, by name.
    fn server_tools(&self) -> &[String] {
        &[]
    }

    /// Enables the upstream's own web search for `conversation`, if it has one.
    fn enable_search(&mut self, _conversation: &mut Conversation) {}

    /// Put before the names of tools that are taught in the prompt, so that the model does not confuse them
    /// with its own.
    fn tool_prefix(&self) -> &'static str {
        ""
    }

    /// Whether instructions to the model work better in a user turn than in a system turn.
    fn instructs_in_user_turn(&self) -> bool {
        false
    }

    /// The requests whose answers show which software the server is. Empty: it is known, or makes no difference.
    fn probes(&self) -> &'static [Probe] {
        &[]
    }

    /// Sets which software the server is, as the answer `body` to `probe` shows, and returns its name. `None`: it does not
    /// show.
    fn identify(&mut self, _probe: &Probe, _body: &[u8]) -> Option<&'static str> {
        None
    }

    /// Whether the field for past reasoning is that in which the server sends reasoning.
    fn follows_reasoning(&self) -> bool {
        false
    }

    /// Whether the request for `turns` would have fewer messages for a server with [strict roles](Observed::strict_roles).
    fn may_join(&self, _turns: &[Turn]) -> bool {
        false
    }

    /// Sets what was seen of the server, where the settings leave it open.
    fn observe(&mut self, _observed: Observed) {}

    /// What its server can enforce while the model writes.
    fn means(&self) -> Means {
        Means::default()
    }

    /// What it wants back of its turns when a client replays their calls.
    fn wants_back(&self) -> WantsBack {
        WantsBack::Nothing
    }

    /// The names of tools that it accepts.
    fn name_form(&self) -> NameForm {
        NameForm::Word
    }

    /// The ids of past calls that it accepts.
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

    /// How long a working upstream may take to send its response headers, where that is unusually long.
    fn slow_headers(&self) -> Option<Duration> {
        None
    }

    /// Whether each delta of its stream repeats all of the text before it.
    fn is_cumulative(&self) -> bool {
        false
    }

    /// Sets whether each delta repeats all of the text before it, in dialects whose servers may do so.
    fn set_cumulative(&mut self, _cumulative: bool) {}
}

/// How a request carries the upstream's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// As `Authorization: Bearer …`.
    Bearer,
    /// In a header of this name, in lower case.
    Named(&'static str),
}

/// The setting of dialects whose requests may ask for token counts at the end of a stream.
pub(super) fn include_usage(keys: &mut dyn Settings, include: &mut bool) {
    let about = "request token counts of streams; `false` for servers that reject `stream_options`";
    keys.key(Key::new("include_usage", about), Field::Switch(include));
}

/// What reading a response depends on beside the upstream's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderRules {
    /// Bytes of one upstream frame. Beyond: the response fails.
    pub max_frame: usize,
    /// A body that ends without an end mark has ended well.
    pub tolerate_truncation: bool,
    /// The client's dialect. If the upstream speaks it too, frames that need no change are forwarded as they
    /// are.
    pub client: Dialect,
}

/// What a reader has to know of the client's request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The declared tools: a call's name is complete as soon as it is declared and no longer one can follow.
    pub tools: DeclaredTools,
    /// The limits of one response.
    pub limits: Limits,
    /// The client is answered with a stream.
    pub stream: bool,
    /// The client asked for several choices. If it did not, whatever choices there are make up one response.
    pub several: bool,
    /// Arguments of native calls that are not quite JSON are repaired.
    pub repair: bool,
}

/// A request in an upstream's dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRequest {
    /// The JSON body.
    pub body: Bytes,
    /// The path below the upstream's base URL, with the query, if it is not always [`UpstreamSide::path`].
    pub path: Option<String>,
    /// Names of the fields that the dialect cannot express and that were left out, for the log and a counter.
    pub dropped: Vec<String>,
    /// The response is requested as a stream: its headers come before its content is complete.
    pub stream: bool,
    /// The text with which the request begins the response.
    pub prefill: Option<Prefill>,
    /// The key with which it is encrypted, and with it the response.
    pub key: Option<super::RequestKey>,
}
