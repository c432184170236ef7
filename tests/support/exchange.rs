//! Runs an exchange through the pipeline: a client's request, the model's rules, and an upstream's response, split
//! in any way.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Prefill},
    dialect::{
        Answering, ClientDialect, Reader, Stamp, chat, completions, gemini,
        interactions as interactions_dialect, lumo, ollama,
    },
    format::KnownFormats,
    pipeline::{Pipeline, State, Tally},
    rules::Rules,
};

use super::{
    client::Answer,
    completions as completions_client,
    cuts::{SIZES, places},
    gemini as gemini_client, interactions, messages, ollama as ollama_client, responses,
    upstream::Speech,
};

/// A request and the settings with which it is processed.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) conversation: Conversation,
    pub(crate) settings: Rules,
    pub(crate) speech: Speech,
    /// The upstream's responses to further requests.
    pub(crate) later: Vec<Vec<u8>>,
    /// Whether frames that need no change are sent to a client of the upstream's dialect exactly as they arrived.
    pub(crate) verbatim: bool,
    pub(crate) client: ClientDialect,
    /// Text that starts the model's response, sent with each request.
    pub(crate) prefill: Option<Prefill>,
    /// The key that encrypts the responses.
    pub(crate) key: Option<lumo::RequestKey>,
}

/// Builds a streaming request with one question, extended with `fields`.
pub(crate) fn request(fields: &Value) -> Conversation {
    let mut body = json!({
        "model": "m",
        "messages": [{"role": "user", "content": "?"}],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    if body["stream"] == false {
        body.as_object_mut().unwrap().remove("stream_options");
    }
    chat::request::decode(body.to_string().as_bytes()).expect("a request")
}

/// Declares tools with the given names and the same `parameters` schema.
pub(crate) fn tools<'n>(names: impl IntoIterator<Item = &'n str>, parameters: &Value) -> Value {
    let tool = |name| {
        let mut function = json!({"name": name});
        if !parameters.is_null() {
            function["parameters"] = parameters.clone();
        }
        json!({"type": "function", "function": function})
    };
    names.into_iter().map(tool).collect()
}

impl Exchange {
    pub(crate) fn new(conversation: Conversation, settings: Rules, speech: Speech) -> Self {
        Self {
            conversation,
            settings,
            speech,
            later: Vec::new(),
            verbatim: true,
            client: ClientDialect::Chat,
            prefill: None,
            key: None,
        }
    }

    pub(crate) fn pipeline(&self) -> Pipeline {
        let answering = Answering::new(&self.conversation, Stamp { seed: 11, created: 1_700_000_000 });
        let answering = Answering { reasoning: self.settings.reasoning, ..answering };
        let mut pipeline = Pipeline::new(
            &self.conversation,
            &self.settings,
            KnownFormats::built_in(),
            self.reader(),
            self.client.side().writer(&answering),
            &answering,
        );
        pipeline.expect_prefill(self.prefill.clone());
        pipeline.expect_key(self.key.clone());
        pipeline
    }

    pub(crate) fn reader(&self) -> Reader {
        let limits = self.settings.limits;
        let tolerate_truncation = self.settings.tolerate_truncation;
        match self.speech {
            Speech::Chat => Reader::Chat(chat::Reader::new(chat::ReaderSettings {
                max_frame: limits.max_frame,
                verbatim: self.verbatim && self.client == ClientDialect::Chat,
                cumulative: false,
                tolerate_truncation,
            })),
            Speech::Messages => Reader::Messages(toolwire::dialect::messages::Reader::new(
                toolwire::dialect::messages::ReaderSettings {
                    max_frame: limits.max_frame,
                    verbatim: self.verbatim && self.client == ClientDialect::Messages,
                    tolerate_truncation,
                },
            )),
            Speech::Completions | Speech::Ollama => {
                let max_frame = limits.max_frame;
                let verbatim = self.verbatim && self.client == ClientDialect::Completions;
                let settings = completions::ReaderSettings { max_frame, tolerate_truncation, verbatim };
                Reader::Completions(completions::Reader::new(settings))
            }
            Speech::Responses => Reader::Responses(toolwire::dialect::responses::Reader::new(
                toolwire::dialect::responses::ReaderSettings {
                    max_frame: limits.max_frame,
                    tolerate_truncation,
                    verbatim: self.verbatim && self.client == ClientDialect::Responses,
                },
            )),
            Speech::Gemini => Reader::Gemini(gemini::Reader::new(gemini::ReaderSettings {
                max_frame: limits.max_frame,
                tolerate_truncation,
                verbatim: self.verbatim && self.client == ClientDialect::Gemini,
                ..gemini::ReaderSettings::default()
            })),
            Speech::Interactions => {
                let max_frame = limits.max_frame;
                let settings = interactions_dialect::ReaderSettings { max_frame, tolerate_truncation };
                Reader::Interactions(interactions_dialect::Reader::new(settings))
            }
            Speech::OllamaChat => {
                let max_frame = limits.max_frame;
                Reader::Ollama(ollama::Reader::new(ollama::ReaderSettings { max_frame, tolerate_truncation }))
            }
            Speech::LumoV1 | Speech::LumoV2 => Reader::Lumo(lumo::Reader::new(lumo::ReaderSettings {
                max_frame: limits.max_frame,
                tolerate_truncation,
                ..lumo::ReaderSettings::default()
            })),
        }
    }

    /// Feeds the upstream's bytes to the pipeline in these pieces. Returns the client's answer and the counters.
    pub(crate) fn run<'p>(&self, pieces: impl IntoIterator<Item = &'p [u8]>) -> (Answer, Tally) {
        let mut pipeline = self.pipeline();
        let mut out = BytesMut::new();
        for piece in pieces {
            pipeline.push(piece, &mut out);
        }
        pipeline.finish(&mut out);
        for response in &self.later {
            if let Some(follow_up) = pipeline.follow_up() {
                assert!(!follow_up.turns.is_empty(), "the model is told why it is asked again");
                pipeline.resume(self.reader(), &mut out);
                pipeline.expect_prefill(self.prefill.clone());
                pipeline.expect_key(self.key.clone());
                pipeline.push(response, &mut out);
                pipeline.finish(&mut out);
            }
        }
        pipeline.end(&mut out);
        let answer = self.ended(&mut pipeline, out);
        (answer, pipeline.tally())
    }

    /// Ends a response like the proxy does: a failure is reported within the stream if content has been streamed,
    /// and otherwise gets its own status.
    pub(crate) fn ended(&self, pipeline: &mut Pipeline, mut out: BytesMut) -> Answer {
        match (pipeline.failure(), pipeline.state()) {
            (Some(failure), State::Failed) => {
                if !pipeline.has_content() || !self.conversation.stream {
                    let body = self.client.side().error_body(failure);
                    return self.read_body(&body, failure.status());
                }
                pipeline.write_failure(&mut out);
            }
            (None, State::Done) => assert_eq!(pipeline.tally().held, 0, "nothing is held after the end"),
            (failure, state) => panic!("{state:?} with {failure:?}"),
        }
        match self.conversation.stream {
            false => self.read_body(&out, 200),
            true => read_by(self.client).0(&out),
        }
    }

    fn read_body(&self, body: &[u8], status: u16) -> Answer {
        read_by(self.client).1(body, status)
    }

    /// Returns the client's answer. Asserts that no two-way split of `bytes` changes it.
    pub(crate) fn at_every_cut(&self, what: &str, bytes: &[u8]) -> (Answer, Tally) {
        let whole = self.in_pieces(what, bytes);
        for at in places(bytes.len()) {
            let (left, right) = bytes.split_at(at);
            assert_eq!(self.run([left, right]).0, whole.0, "{what}: cut at {at}");
        }
        whole
    }

    /// Returns the client's answer. Asserts that it does not change if `bytes` arrives in equal pieces.
    pub(crate) fn in_pieces(&self, what: &str, bytes: &[u8]) -> (Answer, Tally) {
        let whole = self.run([bytes]);
        for size in SIZES {
            assert_eq!(self.run(bytes.chunks(size)).0, whole.0, "{what}: pieces of {size}");
        }
        whole
    }

    /// Returns the client's answer to a stream of `text`. Asserts that none of the splits in `cuts` changes it.
    pub(crate) fn text(&self, what: &str, text: &str, finish: &str, cuts: Cuts) -> (Answer, Tally) {
        let stream = self.speech.says(&[text], finish);
        let whole = if cuts == Cuts::Bytes {
            self.at_every_cut(what, &stream)
        } else {
            self.in_pieces(what, &stream)
        };
        let pieces: Vec<_> = match cuts {
            Cuts::Sizes => super::cuts::in_sizes(text).collect(),
            Cuts::Text | Cuts::Bytes => super::cuts::of_text(text).collect(),
        };
        for pieces in pieces {
            let stream = self.speech.says(&pieces, finish);
            assert_eq!(self.run([stream.as_slice()]).0, whole.0, "{what}: {pieces:?}");
        }
        whole
    }
}

type OfStream = fn(&[u8]) -> Answer;
type OfBody = fn(&[u8], u16) -> Answer;

/// Returns how clients of a dialect read streams, and bodies with their status.
fn read_by(client: ClientDialect) -> (OfStream, OfBody) {
    match client {
        ClientDialect::Chat => (Answer::of_stream, Answer::of_body),
        ClientDialect::Messages => (messages::of_stream, messages::of_body),
        ClientDialect::Gemini => (gemini_client::of_stream, gemini_client::of_body),
        ClientDialect::Interactions => (interactions::of_stream, interactions::of_body),
        ClientDialect::Responses => (responses::of_stream, responses::of_body),
        ClientDialect::Ollama => (ollama_client::of_stream, ollama_client::of_body),
        ClientDialect::Completions => (completions_client::of_stream, completions_client::of_body),
    }
}

/// The splits of a text that a test tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cuts {
    /// Equal pieces of the text and of the stream's bytes.
    Sizes,
    /// Also two-way splits of the text, at every character.
    Text,
    /// Also two-way splits of the stream's bytes, at every byte.
    Bytes,
}
