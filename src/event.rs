//! [`Event`]: the one vocabulary between the stages of an answer.
//!
//! A dialect's reader says what the upstream sent as `Event`s, `detect` turns calls written as text into call
//! events, [`pipeline`](crate::pipeline) applies the request's rules to calls, and a dialect's writer says the
//! `Event`s to the client. Every stage pushes into the next through [`Sink`], so an event borrows from the bytes it
//! was read from and a plain token is neither collected nor copied on its way.
//!
//! A good answer is a sequence of events with exactly one [`Event::Finish`]. A failed one ends with a
//! [`Failure`](crate::failure::Failure) from the stage that met it, and no finish.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Takes events, one after the other. Every stage but the first is one.
pub trait Sink {
    /// Takes the next event of the answer.
    fn event(&mut self, event: Event<'_>);
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn event(&mut self, event: Event<'_>) {
        (**self).event(event);
    }
}

/// Collects events, owned: for tests and for stages that must wait.
impl Sink for Vec<Event<'static>> {
    fn event(&mut self, event: Event<'_>) {
        self.push(event.into_owned());
    }
}

/// One piece of an answer.
///
/// Text pieces are UTF-8 and never cut inside a character. They may be empty in principle; readers leave empty
/// pieces out, so that an upstream's padding gives no delta to the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// What the upstream said of the answer as a whole. At most one, before everything else.
    Start(Start<'a>),
    /// A piece of the answer's text.
    Text(Cow<'a, str>),
    /// A piece of the model's reasoning.
    Reasoning(Reasoning<'a>),
    /// A piece of a refusal, where the dialect keeps it apart from text.
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
    /// Nothing more of this call will come.
    CallEnd {
        /// The call, by [`CallStart::index`].
        index: u32,
        /// Whether its arguments are whole.
        end: CallEnd,
    },
    /// What running a call gave: only for calls that the upstream or toolwire ran.
    CallResult(CallResult<'a>),
    /// A call that the upstream ran, told beside the answer's own calls: it has none of the events of a call.
    ServerCall(ServerCall<'a>),
    /// A citation on the text so far.
    Annotation(Annotation<'a>),
    /// An image or file made by the upstream.
    Media(Media<'a>),
    /// Token counts. Later ones replace earlier ones.
    Usage(Usage),
    /// How the answer ended. Exactly one in a good answer; only usage may follow.
    Finish(Finish),
    /// The upstream is alive, without content: `:queued`, a keep-alive comment.
    Ping(Cow<'a, str>),
    /// A frame of the client's own dialect that may be forwarded as it is, as long as what it means is not changed.
    Verbatim {
        /// The frame's data: one JSON object on one line, as the upstream wrote it.
        frame: &'a str,
        /// What the frame says. Never a `Verbatim`. `None`: nothing that any stage knows of.
        means: Option<&'a Event<'a>>,
    },
}

/// The head of an answer, as far as the upstream told it. Empty and `None` mean: not said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start<'a> {
    /// The upstream's id of the answer.
    pub id: Cow<'a, str>,
    /// The model's name, as the upstream tells it.
    pub model: Cow<'a, str>,
    /// When the answer was begun, in seconds of Unix time.
    pub created: Option<u64>,
}

/// A piece of reasoning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasoning<'a> {
    /// Readable text; may be empty when only a signature comes.
    pub text: Cow<'a, str>,
    /// Opaque state that the client must send back with the next request.
    pub signature: Option<Cow<'a, str>>,
}

/// Who runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runner {
    /// The client: a tool that it declared, or a call that it has to answer.
    Client,
    /// The upstream has run it, or is about to: a server tool.
    Upstream,
    /// toolwire's execution stage: a hosted tool.
    Toolwire,
}

/// How a call came to us: as structure of the upstream's dialect, or as text in one of the formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// As structure of the upstream's own dialect.
    Native,
    /// As a custom tool's call of the upstream's own dialect: its arguments are plain text, the tool's input.
    NativeCustom,
    /// As text; the format's name (`hermes`, `fenced`, …).
    Format(&'static str),
}

/// The beginning of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStart<'a> {
    /// The call's number among the calls of its stage, from 0, ascending. Each stage that adds calls numbers anew.
    pub index: u32,
    /// The call's id; empty when the upstream gave none.
    pub id: Cow<'a, str>,
    /// The tool's name, whole.
    pub name: Cow<'a, str>,
    /// Who runs it.
    pub runner: Runner,
    /// How it was written.
    pub source: Source,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// The arguments are whole.
    Complete,
    /// The answer was cut off inside the arguments. What came before stays as it is.
    Cut,
    /// The arguments became something that no arguments can be, and the model went on behind them. What came before
    /// stays as it is.
    Broken,
}

/// A call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult<'a> {
    /// The call, by [`CallStart::index`].
    pub index: u32,
    /// The call's id; empty when the upstream gave none.
    pub id: Cow<'a, str>,
    /// The result as the tool gave it: JSON text or plain words.
    pub content: Cow<'a, str>,
    /// The tool failed.
    pub is_error: bool,
}

/// A call that the upstream ran by itself, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCall<'a> {
    /// The call's id; empty when the upstream gave none.
    pub id: Cow<'a, str>,
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// The arguments as the model wrote them; `None` if they were told before.
    pub arguments: Option<Cow<'a, str>>,
    /// The result; `None` if none has come.
    pub content: Option<Cow<'a, str>>,
    /// The tool failed.
    pub is_error: bool,
}

/// A web page that the text rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation<'a> {
    /// Address of the page.
    pub url: Cow<'a, str>,
    /// Its title; may be empty.
    pub title: Cow<'a, str>,
    /// Where in the answer's text it belongs: first and past-last character (Unicode scalar values) of the text.
    pub span: (u64, u64),
}

/// An image or another file in the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media<'a> {
    /// The upstream's id of it.
    pub id: Cow<'a, str>,
    /// MIME type; empty if not said.
    pub mime: Cow<'a, str>,
    /// The bytes in standard base64; empty when only the id is known.
    pub data: Cow<'a, str>,
}

/// Token counts. `None`: not said.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Tokens of the request.
    pub input: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub output: Option<u64>,
    /// Both.
    pub total: Option<u64>,
    /// The upstream's whole usage object, unknown fields kept.
    pub raw: Option<Box<RawValue>>,
}

impl PartialEq for Usage {
    fn eq(&self, other: &Self) -> bool {
        let raw = |usage: &Self| usage.raw.as_ref().map(|raw| raw.get().to_owned());
        (self.input, self.output, self.total, raw(self))
            == (other.input, other.output, other.total, raw(other))
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model was done.
    Stop,
    /// The model waits for the results of its calls.
    Calls,
    /// A token limit, or a call that was cut off.
    Length,
    /// A content filter.
    Filter,
}

impl Event<'_> {
    /// The same event, borrowing from nothing. A frame that was to be forwarded as it is becomes what it means; one
    /// without a meaning becomes an empty ping.
    pub fn into_owned(self) -> Event<'static> {
        fn own(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        match self {
            Event::Start(Start { id, model, created }) => {
                Event::Start(Start { id: own(id), model: own(model), created })
            }
            Event::Text(text) => Event::Text(own(text)),
            Event::Reasoning(Reasoning { text, signature }) => {
                Event::Reasoning(Reasoning { text: own(text), signature: signature.map(own) })
            }
            Event::Refusal(text) => Event::Refusal(own(text)),
            Event::CallStart(CallStart { index, id, name, runner, source }) => {
                Event::CallStart(CallStart { index, id: own(id), name: own(name), runner, source })
            }
            Event::CallArguments { index, piece } => Event::CallArguments { index, piece: own(piece) },
            Event::CallEnd { index, end } => Event::CallEnd { index, end },
            Event::CallResult(CallResult { index, id, content, is_error }) => {
                Event::CallResult(CallResult { index, id: own(id), content: own(content), is_error })
            }
            Event::ServerCall(ServerCall { id, name, arguments, content, is_error }) => {
                let (arguments, content) = (arguments.map(own), content.map(own));
                Event::ServerCall(ServerCall { id: own(id), name: own(name), arguments, content, is_error })
            }
            Event::Annotation(Annotation { url, title, span }) => {
                Event::Annotation(Annotation { url: own(url), title: own(title), span })
            }
            Event::Media(Media { id, mime, data }) => {
                Event::Media(Media { id: own(id), mime: own(mime), data: own(data) })
            }
            Event::Usage(usage) => Event::Usage(usage),
            Event::Finish(finish) => Event::Finish(finish),
            Event::Ping(text) => Event::Ping(own(text)),
            Event::Verbatim { means: Some(event), .. } => event.clone().into_owned(),
            Event::Verbatim { means: None, .. } => Event::Ping(Cow::Borrowed("")),
        }
    }
}
