//! [`Event`]: the type passed between the stages of a response.
//!
//! A dialect's reader turns the upstream's bytes into `Event`s, `detect` turns calls written as text into call
//! events, `pipeline` applies the request's rules to calls, and a dialect's writer encodes the `Event`s for the
//! client. Every stage pushes events into the next through [`Sink`], so an event borrows from the bytes from
//! which it was read, and a plain token is neither collected nor copied on its way.
//!
//! A successful response is a sequence of events with exactly one [`Event::Finish`]. A failed response ends
//! with a [`Failure`](crate::failure::Failure) from the stage that detected it, and has no finish.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Receives events one after another. Every stage except the first is a sink.
pub trait Sink {
    /// Handles the next event of the response.
    fn event(&mut self, event: Event<'_>);
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn event(&mut self, event: Event<'_>) {
        (**self).event(event);
    }
}

/// Collects owned events, for tests and for stages that must wait.
impl Sink for Vec<Event<'static>> {
    fn event(&mut self, event: Event<'_>) {
        self.push(event.into_owned());
    }
}

/// One piece of a response.
///
/// Pieces of text are UTF-8 and never split inside a character. A piece may be empty, but readers omit empty
/// pieces, so that an upstream's padding does not become a delta for the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// What the upstream reports about the response as a whole. At most one, before all other events.
    Start(Start<'a>),
    /// A piece of the response's text.
    Text(Cow<'a, str>),
    /// A piece of the model's reasoning.
    Reasoning(Reasoning<'a>),
    /// A piece of a refusal, if the dialect separates it from text.
    Refusal(Cow<'a, str>),
    /// A call begins: its name is known.
    CallStart(CallStart<'a>),
    /// The next piece of a call's arguments, JSON text as the model wrote it.
    CallArguments {
        /// The call, by [`CallStart::index`].
        index: u32,
        /// A piece of JSON text.
        piece: Cow<'a, str>,
    },
    /// The call has ended; no more of its events follow.
    CallEnd {
        /// The call, by [`CallStart::index`].
        index: u32,
        /// Whether its arguments are complete.
        end: CallEnd,
    },
    /// The result of a call, only if the upstream or toolwire ran the call.
    CallResult(CallResult<'a>),
    /// A call that the upstream ran, reported separately from the response's own calls. It has no other call
    /// events.
    ServerCall(ServerCall<'a>),
    /// A citation for the text so far.
    Annotation(Annotation<'a>),
    /// An image or file made by the upstream or by a hosted call.
    Media(Media<'a>),
    /// The phase of the turn to which a message of the response belongs, for clients of Responses. The
    /// message either begins with this event, or is the one whose text came last.
    Phase {
        /// The upstream's word for the phase; empty if it has none.
        phase: Cow<'a, str>,
        /// The message begins.
        begins: bool,
    },
    /// Token counts. Later counts replace earlier ones.
    Usage(Usage),
    /// A notice about the response for the client, before the finish.
    Warning(Warning<'a>),
    /// How the response ended. Exactly one in a successful response; only usage may follow.
    Finish(Finish),
    /// The upstream is alive but sent no content: `:queued`, a keep-alive comment.
    Ping(Cow<'a, str>),
    /// A frame in the client's own dialect that may be forwarded unchanged, provided that no stage changes
    /// its meaning.
    Verbatim {
        /// The frame's data: one JSON object on one line, as the upstream wrote it.
        frame: &'a str,
        /// The frame's meaning, which is never a `Verbatim`. `None` if no stage handles it.
        means: Option<&'a Event<'a>>,
    },
}

/// The head of a response, as far as the upstream sent it. Empty strings and `None` stand for values that
/// were not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start<'a> {
    /// The upstream's id for the response.
    pub id: Cow<'a, str>,
    /// The model's name as sent by the upstream.
    pub model: Cow<'a, str>,
    /// The time when the response was created, in seconds of Unix time.
    pub created: Option<u64>,
}

/// A piece of reasoning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasoning<'a> {
    /// Readable text; may be empty if there is only a signature.
    pub text: Cow<'a, str>,
    /// State that the upstream wants back with the next request. It belongs to all reasoning since the last
    /// signature, and ends this reasoning: text that follows is separate reasoning.
    pub signature: Option<Opaque<'a>>,
    /// There is no text because the upstream does not show it.
    pub redacted: bool,
}

impl<'a> Reasoning<'a> {
    /// A piece of text without a signature.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), signature: None, redacted: false }
    }

    /// The end of a run of reasoning: the reasoning after it has a different author, so no signature covers
    /// both. `between` separates the two where the client receives all reasoning as one text.
    pub fn end(between: &'a str) -> Self {
        Self { signature: Some(Opaque::new("", "")), ..Self::text(between) }
    }

    /// Whether this is the end of a run of reasoning.
    pub fn is_end(&self) -> bool {
        self.signature.as_ref().is_some_and(|state| state.dialect.is_empty()) && !self.redacted
    }
}

/// State that only its author understands: a signature, or encrypted reasoning. It is only sent back to an
/// upstream of the dialect from which it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque<'a> {
    /// The name of the dialect in which the upstream sent it.
    pub dialect: &'static str,
    /// The state as the upstream wrote it.
    pub text: Cow<'a, str>,
}

impl<'a> Opaque<'a> {
    /// State from an upstream of `dialect`.
    pub fn new(dialect: &'static str, text: impl Into<Cow<'a, str>>) -> Self {
        Self { dialect, text: text.into() }
    }

    /// The state, if it came from an upstream of `dialect`.
    pub fn from_dialect(&self, dialect: &str) -> Option<&str> {
        (self.dialect == dialect).then_some(&*self.text)
    }

    /// The same with owned contents.
    pub fn into_owned(self) -> Opaque<'static> {
        Opaque { dialect: self.dialect, text: Cow::Owned(self.text.into_owned()) }
    }
}

/// Who runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runner {
    /// The client: a tool that it declared, or another call that it must run.
    Client,
    /// The upstream, which has run the call or is about to run it: a server tool.
    Upstream,
    /// toolwire's execution stage: a hosted tool.
    Toolwire,
}

/// How a call was received: as structure of the upstream's dialect, or as text in one of the formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// As structure of the upstream's own dialect.
    Native,
    /// As a custom tool's call in the upstream's own dialect: its arguments are plain text, the tool's input.
    NativeCustom,
    /// As text; the format's name (`hermes`, `fenced`, …).
    Format(&'static str),
}

/// The beginning of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStart<'a> {
    /// The call's number among the calls of its stage, ascending from 0. A stage that adds calls renumbers
    /// all calls.
    pub index: u32,
    /// The call's id; empty if the upstream gave none.
    pub id: Cow<'a, str>,
    /// The complete name of the tool.
    pub name: Cow<'a, str>,
    /// Who runs the call.
    pub runner: Runner,
    /// How the call was received.
    pub source: Source,
    /// State that the upstream wants back with the call.
    pub signature: Option<Opaque<'a>>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// The arguments are complete.
    Complete,
    /// The response was cut off inside the arguments. What was already sent stays unchanged.
    Cut,
    /// The arguments became invalid, and the model continued after them. What was already sent stays
    /// unchanged.
    Broken,
}

/// A call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult<'a> {
    /// The call, by [`CallStart::index`].
    pub index: u32,
    /// The call's id; empty if the upstream gave none.
    pub id: Cow<'a, str>,
    /// The result as the tool returned it: JSON or plain text.
    pub content: Cow<'a, str>,
    /// The tool reported a failure.
    pub is_error: bool,
}

/// A call that the upstream or toolwire ran, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCall<'a> {
    /// The call's id; empty if the upstream gave none.
    pub id: Cow<'a, str>,
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// Who ran the call.
    pub runner: Runner,
    /// The name of the server that has the tool; empty if there is none.
    pub server: Cow<'a, str>,
    /// The arguments as the model wrote them; `None` if they were reported earlier.
    pub arguments: Option<Cow<'a, str>>,
    /// The result; `None` if it is not known yet.
    pub content: Option<Cow<'a, str>>,
    /// The tool reported a failure.
    pub is_error: bool,
}

impl ServerCall<'_> {
    /// The same with owned contents.
    pub fn into_owned(self) -> ServerCall<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        ServerCall {
            id: own(self.id),
            name: own(self.name),
            runner: self.runner,
            server: own(self.server),
            arguments: self.arguments.map(own),
            content: self.content.map(own),
            is_error: self.is_error,
        }
    }

    /// The name of the server that has the tool, for clients that require one.
    pub fn server_name(&self) -> &str {
        match (&*self.server, self.runner) {
            ("", Runner::Toolwire) => "toolwire",
            ("", _) => "upstream",
            (server, _) => server,
        }
    }
}

/// A web page that the text cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation<'a> {
    /// Address of the page.
    pub url: Cow<'a, str>,
    /// Title of the page; may be empty.
    pub title: Cow<'a, str>,
    /// The cited range of the response's text, in Unicode scalar values: the index of the first character,
    /// and the index after the last one.
    pub span: (u64, u64),
}

/// An image or another file in the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media<'a> {
    /// The upstream's id for the file, or the id of the hosted call that made it.
    pub id: Cow<'a, str>,
    /// MIME type; empty if not given.
    pub mime: Cow<'a, str>,
    /// The bytes in standard base64; empty if only the id is known.
    pub data: Cow<'a, str>,
}

/// A difference from what the client requested, although the response is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning<'a> {
    /// The kind of warning, for programs.
    pub code: &'static str,
    /// A sentence for people.
    pub message: Cow<'a, str>,
}

/// Token counts. `None`: not reported.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Tokens of the request.
    pub input: Option<u64>,
    /// Tokens of the response, including reasoning.
    pub output: Option<u64>,
    /// Tokens of the reasoning.
    pub reasoning: Option<u64>,
    /// The sum of input and output.
    pub total: Option<u64>,
    /// Tokens of the request that were read from the upstream's cache; they are part of `input`.
    pub cached: Option<u64>,
    /// Tokens of the request that were written to the upstream's cache; they are part of `input`.
    pub cache_written: Option<u64>,
    /// The upstream's complete usage object, including unknown fields.
    pub raw: Option<RawUsage>,
}

/// A usage object as the upstream sent it.
#[derive(Debug, Clone)]
pub struct RawUsage {
    /// The name of the dialect that defines its fields.
    pub dialect: &'static str,
    /// The object.
    pub object: Box<RawValue>,
}

impl PartialEq for Usage {
    fn eq(&self, other: &Self) -> bool {
        let raw = |usage: &Self| usage.raw.as_ref().map(|raw| (raw.dialect, raw.object.get().to_owned()));
        let counts = |usage: &Self| {
            let cache = (usage.cached, usage.cache_written);
            (usage.input, usage.output, usage.reasoning, usage.total, cache)
        };
        counts(self) == counts(other) && raw(self) == raw(other)
    }
}

/// Why a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model finished.
    Stop,
    /// The model is waiting for the results of its calls.
    Calls,
    /// A token limit, or a call that was cut off.
    Length,
    /// A content filter.
    Filter,
}

impl Finish {
    /// Returns the finish reason for a response with or without calls for the client, whichever of the two
    /// reasons the upstream gave.
    #[must_use]
    pub fn of_calls(self, has_calls: bool) -> Self {
        match self {
            Self::Stop | Self::Calls if has_calls => Self::Calls,
            Self::Stop | Self::Calls => Self::Stop,
            Self::Length | Self::Filter => self,
        }
    }
}

impl Event<'_> {
    /// The same event with owned contents. A frame to be forwarded unchanged is replaced by its meaning;
    /// without a meaning, by an empty ping.
    pub fn into_owned(self) -> Event<'static> {
        fn own(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        match self {
            Event::Start(Start { id, model, created }) => {
                Event::Start(Start { id: own(id), model: own(model), created })
            }
            Event::Text(text) => Event::Text(own(text)),
            Event::Reasoning(Reasoning { text, signature, redacted }) => {
                let signature = signature.map(Opaque::into_owned);
                Event::Reasoning(Reasoning { text: own(text), signature, redacted })
            }
            Event::Refusal(text) => Event::Refusal(own(text)),
            Event::CallStart(CallStart { index, id, name, runner, source, signature }) => {
                let (id, name, signature) = (own(id), own(name), signature.map(Opaque::into_owned));
                Event::CallStart(CallStart { index, id, name, runner, source, signature })
            }
            Event::CallArguments { index, piece } => Event::CallArguments { index, piece: own(piece) },
            Event::CallEnd { index, end } => Event::CallEnd { index, end },
            Event::CallResult(CallResult { index, id, content, is_error }) => {
                Event::CallResult(CallResult { index, id: own(id), content: own(content), is_error })
            }
            Event::ServerCall(call) => Event::ServerCall(call.into_owned()),
            Event::Annotation(Annotation { url, title, span }) => {
                Event::Annotation(Annotation { url: own(url), title: own(title), span })
            }
            Event::Media(Media { id, mime, data }) => {
                Event::Media(Media { id: own(id), mime: own(mime), data: own(data) })
            }
            Event::Phase { phase, begins } => Event::Phase { phase: own(phase), begins },
            Event::Usage(usage) => Event::Usage(usage),
            Event::Warning(Warning { code, message }) => {
                Event::Warning(Warning { code, message: own(message) })
            }
            Event::Finish(finish) => Event::Finish(finish),
            Event::Ping(text) => Event::Ping(own(text)),
            Event::Verbatim { means: Some(event), .. } => event.clone().into_owned(),
            Event::Verbatim { means: None, .. } => Event::Ping(Cow::Borrowed("")),
        }
    }
}
