//! The HTTP APIs, one folder each, with `request`, `reader` and `writer` as far as an API has them.
//!
//! A reader makes [`Event`]s of an upstream's bytes; a writer makes a client's bytes of `Event`s; `request` decodes a
//! client's request into a [`Conversation`] or encodes one for an upstream. [`Reader`] and [`Writer`] choose among
//! them; the rest of the crate does not ask which.

pub mod chat;
pub(crate) mod finish;
pub mod lumo;
mod skipped;
pub(crate) mod tool_calls;

use std::{fmt, str::FromStr};

use bytes::{Bytes, BytesMut};

pub use self::skipped::{Skip, Skipped};

use crate::{
    conversation::Conversation,
    event::{Event, Sink},
    failure::Failure,
    rules::Limits,
    suggest::suggest,
    tools::DeclaredTools,
};

/// An HTTP API, by the name that configuration and command line use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Proton Lumo.
    Lumo,
    /// OpenAI Chat Completions.
    Chat,
}

impl Dialect {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 2] = [Self::Lumo, Self::Chat];

    /// The name, as in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lumo => "lumo",
            Self::Chat => "chat",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|dialect| dialect.name()).collect();
            format!("there is no dialect `{name}`; {}", suggest(name, &known, None))
        })
    }
}

/// What tells one answer from another: handed in, so that the core has neither clock nor randomness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Makes ids: equal seeds, equal ids.
    pub seed: u64,
    /// Seconds of Unix time.
    pub created: u64,
}

/// Ids of a fixed shape from a seed: letters and digits only, safe in every client.
#[derive(Debug, Clone)]
pub struct Ids {
    state: u64,
}

impl Ids {
    /// A sequence of ids; `salt` keeps several sequences of one seed apart.
    pub fn new(seed: u64, salt: u64) -> Self {
        Self { state: seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    /// The next id: `prefix` and 24 letters or digits.
    pub fn next(&mut self, prefix: &str) -> String {
        const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut id = String::with_capacity(prefix.len() + 24);
        id.push_str(prefix);
        for _ in 0..24 {
            let place = usize::try_from(self.word() % 62).unwrap_or(0);
            id.push(char::from(ALPHABET.get(place).copied().unwrap_or(b'0')));
        }
        id
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): well mixed from any seed, eight bytes of state.
    fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

/// What a reader has to know of the client's request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The declared tools: a call's name is complete as soon as it is declared and no longer one can follow.
    pub tools: DeclaredTools,
    /// The limits of one answer.
    pub limits: Limits,
    /// The client is answered with a stream.
    pub stream: bool,
}

/// Reads one upstream answer.
#[derive(Debug)]
pub enum Reader {
    /// Lumo, both versions.
    Lumo(lumo::Reader),
    /// OpenAI Chat Completions and what resembles it.
    Chat(chat::Reader),
}

impl Reader {
    /// Tells the reader what was asked. Lumo's does without the tools, since it is decided later whose call a call is.
    pub fn expect(&mut self, asked: Asked) {
        match self {
            Self::Lumo(reader) => reader.expect(asked.limits),
            Self::Chat(reader) => reader.expect(asked),
        }
    }

    /// The upstream may run tools by itself, and tell of that in the answer.
    pub fn runs_tools(&self) -> bool {
        matches!(self, Self::Lumo(_))
    }

    /// Reads the next bytes of the body, cut anywhere.
    ///
    /// # Errors
    /// What the upstream reported, or what its bytes broke. What was certain before it has gone to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        match self {
            Self::Lumo(reader) => reader.push(bytes, out),
            Self::Chat(reader) => reader.push(bytes, out),
        }
    }

    /// The body has ended.
    ///
    /// # Errors
    /// [`Kind::Truncated`](crate::failure::Kind::Truncated) if the answer had not ended.
    pub fn finish(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        match self {
            Self::Lumo(reader) => reader.finish(out),
            Self::Chat(reader) => reader.finish(out),
        }
    }

    /// What was received and left out, by reason.
    pub fn skipped(&self) -> Skipped {
        match self {
            Self::Lumo(reader) => reader.skipped(),
            Self::Chat(reader) => reader.skipped(),
        }
    }

    /// The end mark came without a finish reason, so only an end of the body in good order makes the answer complete.
    pub fn awaits_end(&self) -> bool {
        match self {
            Self::Lumo(_) => false,
            Self::Chat(reader) => reader.awaits_end(),
        }
    }

    /// The end mark has been read; whatever follows is ignored, so the body need not be read on.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Lumo(reader) => reader.is_done(),
            Self::Chat(reader) => reader.is_done(),
        }
    }
}

/// Writes one answer to a client, as a stream or whole.
#[derive(Debug)]
pub enum Writer {
    /// OpenAI Chat Completions.
    Chat(chat::Writer),
}

impl Writer {
    /// Writes what `event` is in the client's dialect; nothing, if the dialect has no word for it.
    pub fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match self {
            Self::Chat(writer) => writer.event(event, out),
        }
    }

    /// Ends a good answer: the end mark of a stream, or the whole answer.
    pub fn finish(&mut self, out: &mut BytesMut) {
        match self {
            Self::Chat(writer) => writer.finish(out),
        }
    }

    /// Ends a stream that has begun with the dialect's in-stream error.
    pub fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        match self {
            Self::Chat(writer) => writer.fail(failure, out),
        }
    }

    /// Bytes of a whole answer that are kept until its end; nothing of a stream is.
    pub fn kept(&self) -> usize {
        match self {
            Self::Chat(writer) => writer.kept(),
        }
    }

    /// A sign of life for a silent stream; nothing for a whole answer.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        match self {
            Self::Chat(writer) => writer.keep_alive(out),
        }
    }
}

/// A request as an upstream wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRequest {
    /// The JSON body.
    pub body: Bytes,
    /// What the dialect could not say and left out, for the log and a counter: names of fields.
    pub dropped: Vec<String>,
    /// The answer is asked for as a stream: its head comes before it is written.
    pub stream: bool,
}

/// How a client is answered, beside its dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answering {
    /// As a stream, or whole.
    pub stream: bool,
    /// Token counts at the end of a stream.
    pub include_usage: bool,
    /// In the `function_call` form of before 2023-11.
    pub legacy_functions: bool,
    /// Names of the tools whose calls are told as custom tools' calls.
    pub custom_tools: Vec<String>,
    /// The model's name for an answer whose upstream does not tell one.
    pub model: String,
    /// Time and ids.
    pub stamp: Stamp,
}

impl Answering {
    /// As `conversation` asks.
    pub fn new(conversation: &Conversation, stamp: Stamp) -> Self {
        Self {
            stream: conversation.stream,
            include_usage: conversation.include_usage,
            legacy_functions: conversation.legacy_functions,
            custom_tools: conversation.custom_tools.clone(),
            model: conversation.model.clone(),
            stamp,
        }
    }
}
