//! The table of dialects. A row makes a dialect known to all code that chooses among dialects.

/// Declares the dialects: `Variant "name" "title": client module, upstream module;`, with one or both of the
/// sides.
///
/// The name is used in configurations and on the command line, and the title in messages to people. A client
/// module contains `Client`, which implements [`ClientSide`](super::ClientSide), and `Writer`. An upstream
/// module contains `Options`, which implements [`UpstreamSide`](super::UpstreamSide) and holds the settings
/// of one upstream, and `Reader`.
///
/// Readers and writers are enums, not trait objects: they are called for every token, and a reader's sink is
/// a type parameter.
macro_rules! dialects {
    ($($variant:ident $name:literal $title:literal: $(client $client:ident)? $(,)? $(upstream $upstream:ident)?;)*) => {
        /// An HTTP API. It is identified by the name used in configurations and on the command line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Dialect {
            $(#[doc = concat!($title, ".")] $variant,)*
        }

        impl Dialect {
            /// All dialects, in the order in which messages list them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name used in configurations and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The name of the API in prose.
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)*
                }
            }
        }

        /// A dialect that a client speaks. The route of a request determines it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ClientDialect {
            $($(#[doc = concat!($title, ", see [`", stringify!($client), "`].")] $variant,)?)*
        }

        impl ClientDialect {
            const SIDES: &[(Self, &dyn ClientSide)] = &[$($((Self::$variant, &$client::Client),)?)*];

            /// The client side of the dialect.
            pub fn side(self) -> &'static dyn ClientSide {
                match self {
                    $($(Self::$variant => &$client::Client,)?)*
                }
            }
        }

        /// The dialect of an upstream, with the settings that only this dialect has. The configuration
        /// determines it.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum UpstreamDialect {
            $($(#[doc = concat!($title, ".")] $variant($upstream::Options),)?)*
        }

        impl UpstreamDialect {
            /// All dialects that upstreams can speak, with default settings.
            pub fn all() -> Vec<Self> {
                vec![$($(Self::$variant($upstream::Options::default()),)?)*]
            }

            /// The upstream side of the dialect.
            pub fn side(&self) -> &dyn UpstreamSide {
                match self {
                    $($(Self::$variant(options) => { let options: &$upstream::Options = options; options },)?)*
                }
            }
        }

        impl UpstreamDialect {
            /// A copy of this dialect that enables the upstream's own web search for `conversation`.
            pub fn searching(&self, conversation: &mut crate::conversation::Conversation) -> Self {
                let mut searching = self.clone();
                searching.side_mut().enable_search(conversation);
                searching
            }

            fn side_mut(&mut self) -> &mut dyn UpstreamSide {
                match self {
                    $($(Self::$variant(options) => { let options: &mut $upstream::Options = options; options },)?)*
                }
            }
        }

        /// Reads one response from an upstream.
        #[derive(Debug)]
        pub enum Reader {
            $($(#[doc = concat!($title, ".")] $variant($upstream::Reader),)?)*
        }

        impl Reader {
            /// Sets what the request asked for. Must be called once, before the first bytes.
            pub fn expect(&mut self, asked: Asked) {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::expect(reader, asked),)?)*
                }
            }

            /// Whether the upstream may run tools itself and report that in its response.
            pub fn runs_tools(&self) -> bool {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::runs_tools(reader),)?)*
                }
            }

            /// Reads the next bytes of the body. They may be split anywhere.
            ///
            /// # Errors
            /// The upstream's error, or a description of how its bytes violate the dialect. Everything that
            /// was certain before the error has been passed to `out`.
            pub fn push(&mut self, bytes: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::push(reader, bytes, out),)?)*
                }
            }

            /// Handles the end of the body.
            ///
            /// # Errors
            /// [`Kind::Truncated`](crate::failure::Kind::Truncated) if the response was incomplete.
            pub fn finish(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::finish(reader, out),)?)*
                }
            }

            /// The parts of the response that were left out, by reason.
            pub fn skipped(&self) -> Skipped {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::skipped(reader),)?)*
                }
            }

            /// Whether only one of the finish reason and the end marker has arrived. If the body then ends
            /// properly, the response is complete.
            pub fn awaits_end(&self) -> bool {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::awaits_end(reader),)?)*
                }
            }

            /// Whether the finish reason has arrived without the end marker. The response is then complete
            /// even if the body does not end.
            pub fn lacks_only_mark(&self) -> bool {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::lacks_only_mark(reader),)?)*
                }
            }

            /// Whether the response has content, such as text, a call or an image. Reasoning alone does not
            /// count.
            pub fn has_content(&self) -> bool {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::has_content(reader),)?)*
                }
            }

            /// Whether the end marker has been read or the response has failed, so that further input is
            /// ignored.
            pub fn is_done(&self) -> bool {
                match self {
                    $($(Self::$variant(reader) => $upstream::Reader::is_done(reader),)?)*
                }
            }
        }

        /// Writes one response to a client, as a stream or as a single object.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "there is one for each response, and a box would be one allocation more")]
        pub enum Writer {
            $($(#[doc = concat!($title, ".")] $variant($client::Writer),)?)*
        }

        impl Writer {
            /// The client's dialect.
            pub fn dialect(&self) -> ClientDialect {
                match self {
                    $($(Self::$variant(writer) => { let _: &$client::Writer = writer; ClientDialect::$variant })?)*
                }
            }

            /// The content type of a successful response.
            pub fn content_type(&self) -> &'static str {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::content_type(writer),)?)*
                }
            }

            /// Writes `event` in the client's dialect, or nothing if the dialect cannot express it.
            pub fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::event(writer, event, out),)?)*
                }
            }

            /// Ends a successful response: writes the end marker of a stream, or the complete object.
            pub fn finish(&mut self, out: &mut BytesMut) {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::finish(writer, out),)?)*
                }
            }

            /// Writes the dialect's in-stream error. It ends a stream that has already started.
            pub fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::fail(writer, failure, out),)?)*
                }
            }

            /// After the end of the response: the complete response, if it should be stored.
            pub fn take_response(&mut self) -> Option<String> {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::take_response(writer),)?)*
                }
            }

            /// After the finish: why the response is not what the client asked for, if so.
            pub fn defect(&self) -> Option<Failure> {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::defect(writer),)?)*
                }
            }

            /// Makes large events wait until `pour` is called.
            pub fn write_in_pieces(&mut self) {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::write_in_pieces(writer),)?)*
                }
            }

            /// Whether there is output left for `pour`.
            pub fn has_more(&self) -> bool {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::has_more(writer),)?)*
                }
            }

            /// Writes pending output until `out` is `upto` bytes long.
            pub fn pour(&mut self, out: &mut BytesMut, upto: usize) {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::pour(writer, out, upto),)?)*
                }
            }

            /// Size of what is held in memory until the response has ended, in bytes.
            pub fn kept(&self) -> usize {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::kept(writer),)?)*
                }
            }

            /// Writes a keep-alive to a silent stream. Does nothing if the response is not streamed.
            pub fn keep_alive(&mut self, out: &mut BytesMut) {
                match self {
                    $($(Self::$variant(writer) => $client::Writer::keep_alive(writer, out),)?)*
                }
            }
        }
    };
}
