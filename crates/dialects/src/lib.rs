//! The HTTP APIs, each in its own folder.
//!
//! A dialect has a client side, an upstream side, or both. The client side ([`ClientSide`]) decodes requests
//! into a [`Conversation`](toolwire_engine::conversation::Conversation), and writes [`Event`]s as a response.
//! The upstream side ([`UpstreamSide`]) encodes requests, and reads responses as `Event`s. The rest of the
//! program never asks which dialect it deals with: it uses a [`ClientDialect`], which the route of a request
//! determines, and an [`UpstreamDialect`], which the configuration determines. No dialect imports another;
//! shared code is outside their folders.
//!
//! To add a dialect, add a folder here and a row to the table below. The client side says which paths it
//! serves, and the gateway finds them there.

pub mod bedrock;
mod beside;
mod block_order;
mod body;
mod cache_hints;
mod channel;
pub mod chat;
mod citations;
mod client;
pub mod completions;
mod custom_tools;
mod endpoint;
mod field_case;
mod fields;
pub(crate) mod finish;
mod fit;
mod foreign;
mod frame_cache;
pub mod gemini;
mod google_error;
mod google_refusal;
mod google_signatures;
mod google_widths;
pub mod interactions;
mod joined;
mod json_array;
pub mod lumo;
mod media;
pub mod messages;
mod model_facts;
mod notes;
mod observed_properties;
pub mod ollama;
mod opaque;
mod openai_chunk;
mod openai_error;
mod openai_fields;
mod openai_usage;
mod percent;
mod probe;
mod progress;
mod records;
pub(crate) mod refusal;
mod response_state;
mod response_writer;
pub mod responses;
mod sampling;
mod schemas;
pub mod search_results;
pub(crate) mod server;
mod signatures;
mod signing;
mod skipped_parts;
mod socket;
mod stamp;
pub(crate) mod status;
mod summary;
mod system_messages;
#[macro_use]
mod table;
mod thinking;
pub(crate) mod tool_calls;
mod tool_searches;
mod upstream;
mod usage;
mod whole_calls;

use std::{fmt, str::FromStr};

use bytes::BytesMut;

pub use self::lumo::{AccountSettings, Credentials, KeyError, RefreshError, Session, UID_HEADER, brought};
pub(crate) use self::response_writer::{StreamForm, WholeForm};
use self::{
    body::{BodyReader, JsonBody, not_json},
    progress::Progress,
    response_state::{Found, ResponseState},
};
pub use self::{
    client::{Answering, ClientSide, Made, ModelAbout, RateStyle, Record, References},
    endpoint::{Endpoint, Operation, StoredOperation, StoredPath, Target, parameter},
    fit::{File, Source, Unfit, fitted},
    model_facts::{Adjusted, ESSENTIAL, MemberSettings, ModelFacts, facts_table, refused_member},
    observed_properties::{Observed, ReasoningField},
    percent::percent_decoded,
    probe::{Probe, Root, TemplateSource},
    response_writer::ResponseWriter,
    signing::Signing,
    skipped_parts::{Skip, Skipped},
    socket::{HttpError, SocketCreate, SocketFailure, SocketMessage, SocketSide},
    stamp::{Clock, Stamp},
    system_messages::SystemMessages,
    tool_searches::{SearchTool, found_tools, loaded_tools, undefer},
    upstream::{KeyHeader, ReaderRules, Surroundings, UpstreamRequest, UpstreamSide},
};
pub use self::{
    field_case::is_like,
    fields::check_choice,
    lumo::RequestKey,
    observed_properties::{MediaRefusal, refuses_media, refuses_roles},
    stamp::Ids,
    upstream::Asked,
};

use toolwire_detect as detect;
use toolwire_engine::{
    conversation, enforce,
    event::{self, Event, Sink},
    failure::{self, Failure},
    rules,
    settings::{self, Visitor},
    tools,
};
use toolwire_wire::{self as wire, Invalid, digest, suggest::suggest};

dialects! {
    Lumo "lumo" "Lumo": upstream lumo;
    Chat "chat" "OpenAI Chat Completions": client chat, upstream chat;
    Responses "responses" "OpenAI Responses": client responses, upstream responses;
    Messages "messages" "Anthropic Messages": client messages, upstream messages;
    Gemini "gemini" "Google Gemini": client gemini, upstream gemini;
    Interactions "interactions" "Google Interactions": client interactions, upstream interactions;
    Ollama "ollama" "Ollama": client ollama, upstream ollama;
    Bedrock "bedrock" "Amazon Bedrock": upstream bedrock;
    Completions "completions" "text completions": client completions, upstream completions;
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        Self::ALL.iter().copied().find(|dialect| dialect.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|dialect| dialect.name()).collect();
            format!("there is no dialect `{name}`; {}", suggest(name, &known, None)).into()
        })
    }
}

impl ClientDialect {
    /// The dialects that clients can speak.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::SIDES.iter().map(|(dialect, _)| *dialect)
    }

    /// The dialect.
    pub fn dialect(self) -> Dialect {
        self.side().dialect()
    }
}

impl TryFrom<Dialect> for ClientDialect {
    type Error = Invalid;

    /// The client side of `dialect`.
    ///
    /// # Errors
    /// Clients cannot speak this dialect. The error is a sentence that lists the dialects that they can
    /// speak.
    fn try_from(dialect: Dialect) -> Result<Self, Invalid> {
        let side = Self::SIDES.iter().find(|(_, side)| side.dialect() == dialect);
        side.map(|(client, _)| *client).ok_or_else(|| {
            let known: Vec<_> = Self::SIDES.iter().map(|(_, side)| side.dialect().name()).collect();
            format!("no client speaks `{dialect}`; `to` can be {}", known.join(", ")).into()
        })
    }
}

impl UpstreamDialect {
    /// The dialect.
    pub fn dialect(&self) -> Dialect {
        self.side().dialect()
    }

    /// Shows `keys` the settings that only this dialect has: the table `[upstreams.NAME]`, where NAME is the dialect's
    /// name.
    pub fn settings(&mut self, keys: &mut dyn Visitor) {
        self.side_mut().settings(keys);
    }

    /// Completes the settings, see [`UpstreamSide::prepare`].
    ///
    /// # Errors
    /// The same as for [`UpstreamSide::prepare`].
    pub fn prepare(&mut self, surroundings: &Surroundings<'_>) -> Result<Option<String>, KeyError> {
        self.side_mut().prepare(surroundings)
    }

    /// Why nothing can be sent, see [`UpstreamSide::absence`].
    pub fn absence(&self) -> Option<&'static str> {
        self.side().absence()
    }

    /// Applies the known defaults for the server at `host`, see [`UpstreamSide::adapt_to_host`].
    pub fn adapt_to_host(&mut self, host: &str) {
        self.side_mut().adapt_to_host(host);
    }

    /// The provider of the server at `host`, by its word in the setting `profile`. The setting takes precedence.
    pub fn provider(&self, host: &str) -> &'static str {
        let set = match self {
            Self::Chat(options) => options.profile,
            _ => chat::Profile::None,
        };
        chat::Profile::known(set, host).into()
    }

    /// Adapts a copy of this side to the server that `body`, the response to `probe`, identifies. Returns the
    /// copy and the server's name, or `None` if the response does not identify a server.
    pub fn identified(&self, probe: &Probe, body: &[u8]) -> Option<(Self, &'static str)> {
        let mut identified = self.clone();
        let name = identified.side_mut().identify(probe, body)?;
        Some((identified, name))
    }

    /// Adapts this side to what was observed about the server.
    #[must_use]
    pub fn observing(mut self, observed: Observed) -> Self {
        self.side_mut().observe(observed);
        self
    }

    /// Sets whether the server's deltas repeat all earlier text.
    #[must_use]
    pub fn with_cumulative(mut self, cumulative: bool) -> Self {
        self.side_mut().set_cumulative(cumulative);
        self
    }
}

impl Reader {
    /// The field in which reasoning arrived, in the one dialect that has several such fields.
    pub fn reasoning_field(&self) -> Option<ReasoningField> {
        match self {
            Self::Chat(reader) => reader.reasoning_field(),
            _ => None,
        }
    }

    /// Sets the key that decrypts the response. Must be called before the first bytes.
    pub fn decrypt(&mut self, key: Option<RequestKey>) {
        if let Self::Lumo(reader) = self {
            reader.decrypt(key);
        }
    }
}

impl TryFrom<Dialect> for UpstreamDialect {
    type Error = Invalid;

    /// The upstream side of `dialect`, with default settings.
    ///
    /// # Errors
    /// Upstreams cannot speak this dialect, or it is not part of this build. The error is a sentence that lists
    /// the dialects that they can speak.
    fn try_from(dialect: Dialect) -> Result<Self, Invalid> {
        let all = Self::all();
        let found = all.iter().find(|upstream| upstream.dialect() == dialect).cloned().ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|upstream| upstream.dialect().name()).collect();
            format!("no upstream speaks `{dialect}`; `from` can be {}", known.join(", "))
        })?;
        found.absence().map_or(Ok(()), Err)?;
        Ok(found)
    }
}
