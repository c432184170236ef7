//! [`Event`]: the type that the stages of a response exchange.
//!
//! A dialect's reader turns the upstream's bytes into `Event`s, `detect` turns calls written as text into
//! call events, `pipeline` applies the request's rules to calls, and a dialect's writer encodes the `Event`s
//! for the client. Every stage passes events to the next one through [`Sink`]. An event borrows from the
//! bytes that it was read from, so an ordinary token is neither collected nor copied on its way.
//!
//! A successful response is a sequence of events with exactly one [`Event::Finish`]. A failed response ends
//! with a [`Failure`](crate::failure::Failure) from the stage that detected the problem, and has no finish.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Receives events. Every stage except the first one is a sink.
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

/// A piece of a response.
///
/// Pieces of text are UTF-8, and never split inside a character. Readers omit empty pieces, so that padding
/// from an upstream does not become a delta for the client, but other stages must accept them.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// What the upstream says about the response as a whole. It occurs at most once, before all other events.
    Start(Start<'a>),
    /// A piece of the response's text.
    Text(Cow<'a, str>),
    /// A piece of the model's reasoning.
    Reasoning(Reasoning<'a>),
    /// A piece of a refusal, if the dialect distinguishes refusals from text.
    Refusal(Cow<'a, str>),
    /// The start of a call, whose name is known.
    CallStart(CallStart<'a>),
    /// The next piece of a call's arguments, which are JSON text as the model wrote it.
    CallArguments {
        /// The index of the call, see [`CallStart::index`].
        index: u32,
        /// A piece of JSON text.
        piece: Cow<'a, str>,
    },
    /// The end of a call. No more of its events follow.
    CallEnd {
        /// The index of the call, see [`CallStart::index`].
        index: u32,
        /// Whether its arguments are complete.
        end: CallEnd,
    },
    /// The result of a call that the upstream or toolwire ran.
    CallResult(CallResult<'a>),
    /// A call that the upstream ran, reported separately from the response's own calls. It has no other call
    /// events.
    ServerCall(Box<ServerCall<'a>>),
    /// What clients of Responses are told about an MCP server that they have named.
    Mcp(Box<McpItem>),
    /// A citation that applies to the text so far.
    Annotation(Annotation<'a>),
    /// An image or file from the upstream or from a hosted call.
    Media(Media<'a>),
    /// The phase of the turn that a message belongs to, for clients of Responses. The event concerns the
    /// message that starts with it, or else the message whose text came last.
    Phase {
        /// The upstream's word for the phase. Empty if there is none.
        phase: Cow<'a, str>,
        /// Whether the message starts with this event.
        begins: bool,
    },
    /// Token counts. Later counts replace earlier ones.
    Usage(Usage),
    /// A notice about the response, which precedes the finish.
    Warning(Warning<'a>),
    /// How the response ended. It occurs exactly once in a successful response. Only usage may follow.
    Finish(Finish),
    /// A sign that the upstream is alive, without content: `:queued`, or a keep-alive comment.
    Ping(Cow<'a, str>),
    /// A frame in the client's own dialect, which may be forwarded unchanged if no stage changes its meaning.
    Verbatim {
        /// The frame's data: a JSON object on one line, as the upstream wrote it.
        frame: &'a str,
        /// The event that the frame stands for, which is never a `Verbatim`. `None` if no stage handles it.
        means: Option<&'a Event<'a>>,
    },
}

/// The head of a response. Empty strings and `None` stand for values that the upstream did not send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start<'a> {
    /// The upstream's id for the response.
    pub id: Cow<'a, str>,
    /// The model's name, as the upstream sent it.
    pub model: Cow<'a, str>,
    /// When the response was created, as Unix time in seconds.
    pub created: Option<u64>,
}

/// A piece of reasoning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasoning<'a> {
    /// The readable text. May be empty if there is a signature.
    pub text: Cow<'a, str>,
    /// State that the upstream needs back in the next request. It belongs to all reasoning since the last
    /// signature, and ends it: any further text is separate reasoning.
    pub signature: Option<Opaque<'a>>,
    /// Whether there is no text because the upstream withholds it.
    pub redacted: bool,
}

impl<'a> Reasoning<'a> {
    /// Creates a piece without a signature.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), signature: None, redacted: false }
    }

    /// Creates the end of one author's reasoning, so that no signature covers the reasoning of two authors.
    /// `between` separates the two where the client receives all reasoning as one text.
    pub fn end(between: &'a str) -> Self {
        Self { signature: Some(Opaque::new("", "")), ..Self::text(between) }
    }

    /// Whether this is the end of one author's reasoning.
    pub fn is_end(&self) -> bool {
        self.signature.as_ref().is_some_and(|state| state.dialect.is_empty()) && !self.redacted
    }
}

/// State that only the upstream understands: a signature, or encrypted reasoning. It is sent back only to an
/// upstream of the dialect that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque<'a> {
    /// The name of the dialect that the state came from.
    pub dialect: &'static str,
    /// The state as the upstream wrote it.
    pub text: Cow<'a, str>,
}

impl<'a> Opaque<'a> {
    /// Creates state from an upstream of `dialect`.
    pub fn new(dialect: &'static str, text: impl Into<Cow<'a, str>>) -> Self {
        Self { dialect, text: text.into() }
    }

    /// The state, if it came from an upstream of `dialect`.
    pub fn from_dialect(&self, dialect: &str) -> Option<&str> {
        (self.dialect == dialect).then_some(&*self.text)
    }

    /// Converts the contents to owned ones.
    pub fn into_owned(self) -> Opaque<'static> {
        Opaque { dialect: self.dialect, text: Cow::Owned(self.text.into_owned()) }
    }
}

/// Who runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runner {
    /// The client, which declared the tool.
    Client,
    /// The upstream, which has run or will run the call: a server tool.
    Upstream,
    /// toolwire: a hosted tool.
    Toolwire,
}

/// How a call was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// As a native call of the upstream's dialect.
    Native,
    /// As a native call to a custom tool, whose arguments are plain text.
    NativeCustom,
    /// As a native call to a tool that the upstream's API defines and the client runs. The name is that of
    /// the function that stands for the tool.
    NativeBuiltIn,
    /// As text in this format (`hermes`, `fenced`, …).
    Format(&'static str),
}

/// The start of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStart<'a> {
    /// The index of the call among the calls of its stage, counted from 0. A stage that adds calls renumbers
    /// all of them.
    pub index: u32,
    /// The call's id. Empty if the upstream did not send one.
    pub id: Cow<'a, str>,
    /// The complete name of the tool.
    pub name: Cow<'a, str>,
    /// Who runs the call.
    pub runner: Runner,
    /// How the call was received.
    pub source: Source,
    /// State that the upstream needs back with the call.
    pub signature: Option<Opaque<'a>>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// The arguments are complete.
    Complete,
    /// The response was cut off inside the arguments. What has been sent stays as it is.
    Cut,
    /// The arguments became invalid, and the model continued after them. What has been sent stays as it is.
    Broken,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult<'a> {
    /// The index of the call, see [`CallStart::index`].
    pub index: u32,
    /// The call's id. Empty if the upstream did not send one.
    pub id: Cow<'a, str>,
    /// The result as the tool returned it, which is JSON or plain text.
    pub content: Cow<'a, str>,
    /// Whether the tool reported a failure.
    pub is_error: bool,
}

/// A call that the upstream or toolwire ran, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCall<'a> {
    /// The call's id. Empty if the upstream did not send one.
    pub id: Cow<'a, str>,
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// Who ran the call.
    pub runner: Runner,
    /// The name of the server that provides the tool. Empty if there is none.
    pub server: Cow<'a, str>,
    /// The arguments as the model wrote them. `None` if they were reported earlier.
    pub arguments: Option<Cow<'a, str>>,
    /// The result. `None` if it is not known yet.
    pub content: Option<Cow<'a, str>>,
    /// What user interfaces show in addition to the result, as JSON.
    pub details: Option<Cow<'a, str>>,
    /// Whether the tool reported a failure.
    pub is_error: bool,
    /// The id of the request for approval that the client has granted for this call. Empty if there was none.
    pub approval: Cow<'a, str>,
}

/// What clients of Responses are told about an MCP server that they have named, in addition to its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpItem {
    /// The server's tools.
    Tools {
        /// The client's name for the server.
        server: String,
        /// The tools as the API lists them, a JSON array.
        tools: String,
        /// Why the server cannot be used.
        error: Option<String>,
    },
    /// Asks the client to approve a call, which has not run.
    ApprovalRequest {
        /// The client's name for the server.
        server: String,
        /// The server's name for the tool.
        tool: String,
        /// The arguments as the model wrote them.
        arguments: String,
        /// Distinguishes the server from others of the same name. Consists of hexadecimal digits.
        mark: String,
    },
}

impl McpItem {
    /// Size of the texts in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Tools { server, tools, error } => {
                server.len() + tools.len() + error.as_ref().map_or(0, String::len)
            }
            Self::ApprovalRequest { server, tool, arguments, mark } => {
                server.len() + tool.len() + arguments.len() + mark.len()
            }
        }
    }
}

/// Boxed, since these calls are rare and would make every event larger.
impl<'a> From<ServerCall<'a>> for Event<'a> {
    fn from(call: ServerCall<'a>) -> Self {
        Self::ServerCall(Box::new(call))
    }
}

impl ServerCall<'_> {
    /// Converts the contents to owned ones.
    pub fn into_owned(self) -> ServerCall<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        ServerCall {
            id: own(self.id),
            name: own(self.name),
            runner: self.runner,
            server: own(self.server),
            arguments: self.arguments.map(own),
            content: self.content.map(own),
            details: self.details.map(own),
            is_error: self.is_error,
            approval: own(self.approval),
        }
    }

    /// The name of the server that provides the tool, for clients that require one.
    pub fn server_name(&self) -> &str {
        match (&*self.server, self.runner) {
            ("", Runner::Toolwire) => "toolwire",
            ("", _) => "upstream",
            (server, _) => server,
        }
    }
}

/// A web page cited by the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation<'a> {
    /// The page's URL.
    pub url: Cow<'a, str>,
    /// The page's title. May be empty.
    pub title: Cow<'a, str>,
    /// The cited range of the response's text, in Unicode scalar values. The end is exclusive.
    pub span: (u64, u64),
}

/// An image or another file in the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media<'a> {
    /// The upstream's id for the file, or the id of the hosted call that produced it.
    pub id: Cow<'a, str>,
    /// The MIME type. Empty if it is not known.
    pub mime: Cow<'a, str>,
    /// The contents in standard base64. Empty if only the id is known.
    pub data: Cow<'a, str>,
}

/// A notice that a complete response differs from what the client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning<'a> {
    /// The kind of warning, to be read by programs.
    pub code: &'static str,
    /// A sentence to be read by people.
    pub message: Cow<'a, str>,
}

/// Token counts. `None` means not reported.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Tokens in the request.
    pub input: Option<u64>,
    /// Tokens in the response, including reasoning.
    pub output: Option<u64>,
    /// Tokens in the reasoning.
    pub reasoning: Option<u64>,
    /// The sum of input and output.
    pub total: Option<u64>,
    /// Tokens in the request that were read from the upstream's cache. Included in `input`.
    pub cached: Option<u64>,
    /// Tokens in the request that were written to the upstream's cache. Included in `input`.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Finish {
    /// The model finished.
    Stop,
    /// The model is waiting for the results of its calls.
    Calls,
    /// A token limit was reached, or a call was cut off.
    Length,
    /// A content filter intervened.
    Filter,
}

impl Finish {
    /// Corrects a plain stop or [`Finish::Calls`]: returns [`Finish::Calls`] if the response has calls for
    /// the client, and a plain stop if not. Other reasons are unchanged.
    #[must_use]
    pub fn of_calls(self, has_calls: bool) -> Self {
        match self {
            Self::Stop | Self::Calls if has_calls => Self::Calls,
            Self::Stop | Self::Calls => Self::Stop,
            Self::Length | Self::Filter => self,
        }
    }
}

impl<'a> Event<'a> {
    /// Returns the event that a frame stands for. Other events, and frames that no stage handles, are returned
    /// unchanged.
    pub fn meaning(&self) -> &Event<'a> {
        match self {
            Event::Verbatim { means: Some(means), .. } => means,
            event => event,
        }
    }
}

impl Event<'_> {
    /// Appends the text of `next` if it is another piece of the same kind, or of the same call. Returns whether it
    /// did.
    pub fn continues(&mut self, next: &Event<'_>) -> bool {
        match (self, next) {
            (Event::Text(text), Event::Text(more)) | (Event::Refusal(text), Event::Refusal(more)) => {
                text.to_mut().push_str(more);
            }
            (Event::Reasoning(reasoning), Event::Reasoning(more))
                if reasoning.signature.is_none() && more.signature.is_none() =>
            {
                reasoning.text.to_mut().push_str(&more.text);
            }
            (Event::CallArguments { index, piece }, Event::CallArguments { index: same, piece: more })
                if index == same =>
            {
                piece.to_mut().push_str(more);
            }
            _ => return false,
        }
        true
    }

    /// Converts the contents to owned ones. A frame to be forwarded unchanged is replaced by the event that
    /// it stands for, or else by an empty ping.
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
            Event::ServerCall(call) => Event::from(call.into_owned()),
            Event::Mcp(item) => Event::Mcp(item),
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
