//! Assembles what a client would get from a stream, for every way of splitting it.

use serde_json::Value;
use toolwire::{
    dialect::{
        Skip,
        lumo::{Reader, ReaderSettings},
    },
    event::{CallEnd, Event, Finish, Runner},
};

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Assembled {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<(Runner, String, String, String, Option<CallEnd>)>,
    pub(crate) results: Vec<(u32, String, bool)>,
    pub(crate) order: Vec<&'static str>,
    pub(crate) media: Vec<(String, String)>,
    pub(crate) usage: Option<Value>,
    pub(crate) model: Option<String>,
    pub(crate) finish: Option<Finish>,
    pub(crate) failure: Option<(String, u16)>,
    pub(crate) pings: usize,
    pub(crate) malformed: u64,
    pub(crate) orphans: u64,
    /// Counts of skipped content by reason, as text.
    pub(crate) skipped: String,
}

impl Assembled {
    fn take(&mut self, event: Event<'_>) {
        if self.finish.is_some() {
            assert!(matches!(event, Event::Usage(_) | Event::Ping(_)), "{event:?} behind the finish");
        }
        if self.model.is_none() {
            assert!(matches!(event, Event::Start(_) | Event::Ping(_)), "{event:?} before the start");
        }
        match event {
            Event::Start(start) => {
                assert_eq!(self.model.replace(start.model.into_owned()), None, "one start");
            }
            Event::Text(text) => {
                assert!(!text.is_empty());
                self.text.push_str(&text);
                self.note("text");
            }
            Event::Warning(warning) => panic!("{warning:?} of a reader"),
            Event::Mcp(item) => panic!("{item:?} of a reader"),
            Event::Reasoning(reasoning) => {
                assert!(!reasoning.text.is_empty());
                self.reasoning.push_str(&reasoning.text);
                self.note("reasoning");
            }
            Event::CallStart(start) => {
                assert_eq!(start.index as usize, self.calls.len());
                self.calls.push((
                    start.runner,
                    start.id.into_owned(),
                    start.name.into_owned(),
                    String::new(),
                    None,
                ));
                self.note("call");
            }
            Event::CallArguments { index, piece } => {
                let call = &mut self.calls[index as usize];
                assert_eq!(call.4, None);
                call.3.push_str(&piece);
            }
            Event::CallEnd { index, end } => assert_eq!(self.calls[index as usize].4.replace(end), None),
            Event::CallResult(result) => {
                assert_eq!(self.calls[result.index as usize].1, result.id);
                self.results.push((result.index, result.content.into_owned(), result.is_error));
                self.note("result");
            }
            Event::Media(media) => self.media.push((media.id.into_owned(), media.data.into_owned())),
            Event::Usage(usage) => {
                self.usage =
                    usage.raw.map(|raw| serde_json::from_str(raw.object.get()).expect("usage is JSON"));
            }
            Event::Finish(finish) => {
                assert!(self.calls.iter().all(|call| call.4.is_some()), "every call has ended");
                self.finish = Some(finish);
            }
            Event::Ping(_) => self.pings += 1,
            Event::Phase { .. } => panic!("a phase"),
            Event::Refusal(_) | Event::ServerCall(_) | Event::Annotation(_) | Event::Verbatim { .. } => {
                panic!("{event:?}")
            }
        }
    }

    fn note(&mut self, what: &'static str) {
        if self.order.last() != Some(&what) {
            self.order.push(what);
        }
    }

    /// The finish reason as later stages correct it: `tool_calls` only if the client has calls to run.
    pub(crate) fn finish_word(&self) -> Option<&'static str> {
        let calls = self.calls.iter().any(|call| call.0 == Runner::Client);
        Some(match self.finish? {
            Finish::Stop | Finish::Calls if calls => "tool_calls",
            Finish::Stop | Finish::Calls => "stop",
            Finish::Length => "length",
            Finish::Filter => "content_filter",
        })
    }
}

pub(crate) fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, settings: &ReaderSettings) -> Assembled {
    let mut reader = Reader::new(settings.clone());
    let mut events: Vec<Event<'static>> = Vec::new();
    let outcome = pieces.into_iter().try_for_each(|piece| reader.push(piece, &mut events));
    let outcome = outcome.and_then(|()| reader.finish(&mut events));
    assert!(reader.is_done());
    let mut assembled = Assembled::default();
    events.into_iter().for_each(|event| assembled.take(event));
    assert_eq!(assembled.finish.is_some(), outcome.is_ok(), "a finish or a failure");
    assembled.failure = outcome.err().map(|failure| {
        assert!(!failure.message().is_empty());
        (failure.code().unwrap_or_default().to_owned(), failure.status())
    });
    assembled.malformed = reader.skipped().malformed();
    assembled.orphans = reader.skipped().count(Skip::OrphanResult);
    assembled.skipped = reader.skipped().to_string();
    assembled
}

/// Reads `bytes` in one piece. Asserts that no split changes the result.
pub(crate) fn read_every_way(bytes: &[u8], settings: &ReaderSettings) -> Assembled {
    let whole = read([bytes], settings);
    for size in [1, 2, 3, 5, 7, 13] {
        assert_eq!(read(bytes.chunks(size), settings), whole, "in pieces of {size}");
    }
    for at in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(read([head, tail], settings), whole, "cut at {at}");
    }
    whole
}

pub(crate) fn read_text(stream: &str) -> Assembled {
    read_every_way(stream.as_bytes(), &ReaderSettings::default())
}
