//! Reads an upstream's body in pieces and summarizes it on one line.

use toolwire::{
    dialect::{Reader, Skipped, chat, completions, gemini, interactions, messages, ollama, responses},
    event::{CallEnd, Event, Finish, Sink},
    failure::Failure,
};

/// What a client would have assembled.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Read {
    pub(crate) start: Option<String>,
    /// Text, reasoning and similar content, with adjacent pieces of one kind joined.
    runs: Vec<(&'static str, String)>,
    calls: Vec<Call>,
    end: Vec<String>,
    pub(crate) pings: Vec<String>,
    pub(crate) message: String,
    pub(crate) skipped: Skipped,
    /// The number of frames that were forwarded unchanged.
    pub(crate) verbatim: usize,
}

#[derive(Debug, PartialEq)]
struct Call {
    index: u32,
    id: String,
    name: String,
    arguments: String,
    end: &'static str,
    signature: Option<String>,
}

impl Read {
    /// Summarizes everything except pings, counters and the failure's message.
    pub(crate) fn summary(&self) -> String {
        let mut parts: Vec<String> = self.start.iter().map(|start| format!("start {start}")).collect();
        parts.extend(self.runs.iter().map(|(kind, text)| match *kind {
            "text" => text.clone(),
            "reasoning" => format!("({text})"),
            kind => format!("{kind} {text}"),
        }));
        let calls = self.calls.iter();
        parts.extend(calls.map(|call| {
            let signed = call.signature.as_ref().map_or(String::new(), |text| format!(" signed {text}"));
            format!("{} {} {}{}{signed}", call.id, call.name, call.arguments, call.end)
        }));
        parts.extend(self.end.iter().cloned());
        parts.join(" | ")
    }

    fn run(&mut self, kind: &'static str, text: &str) {
        match self
            .runs
            .last_mut()
            .filter(|run| run.0 == kind && matches!(kind, "text" | "reasoning" | "refused"))
        {
            Some((_, run)) => run.push_str(text),
            None => self.runs.push((kind, text.to_owned())),
        }
    }

    fn call(&mut self, index: u32) -> &mut Call {
        self.calls.iter_mut().find(|call| call.index == index).expect("a call that has begun")
    }

    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.end.push(format!("error {:?} {}", failure.kind(), failure.code().unwrap_or("-")));
        self.message = failure.message().to_owned();
    }
}

impl Sink for Read {
    fn event(&mut self, event: Event<'_>) {
        let has_finished = self.end.iter().any(|end| !end.starts_with("usage"));
        match event {
            Event::Usage(usage) => {
                let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
                let (input, output, total) = (count(usage.input), count(usage.output), count(usage.total));
                return self.end.push(format!("usage {input} {output} {total}"));
            }
            Event::Ping(text) => return self.pings.push(text.into_owned()),
            Event::Verbatim { means, .. } => {
                self.verbatim += 1;
                if let Some(event) = means {
                    assert!(!matches!(event, Event::Verbatim { .. }));
                    self.event(event.clone());
                }
                return;
            }
            _ => assert!(!has_finished, "{event:?} after the finish"),
        }
        match event {
            Event::Start(start) => {
                assert!(
                    self.start.is_none() && self.runs.is_empty() && self.calls.is_empty(),
                    "a late start"
                );
                if !start.id.is_empty() {
                    self.start = Some(format!("{} {} {}", start.id, start.model, start.created.unwrap_or(0)));
                }
            }
            Event::Text(text) => {
                assert!(!text.is_empty());
                self.run("text", &text);
            }
            Event::Reasoning(reasoning) => {
                if !reasoning.text.is_empty() {
                    self.run("reasoning", &reasoning.text);
                }
                if let Some(signature) = reasoning.signature {
                    self.run("signed", &signature.text);
                }
            }
            Event::Refusal(text) => self.run("refused", &text),
            Event::Warning(warning) => panic!("{warning:?} of a reader"),
            Event::Mcp(item) => panic!("{item:?} of a reader"),
            Event::CallStart(start) => self.calls.push(Call {
                index: start.index,
                id: start.id.into_owned(),
                name: start.name.into_owned(),
                arguments: String::new(),
                end: " open",
                signature: start.signature.map(|state| state.text.into_owned()),
            }),
            Event::CallArguments { index, piece } => self.call(index).arguments.push_str(&piece),
            Event::CallEnd { index, end } => {
                self.call(index).end = if end == CallEnd::Complete { "" } else { " cut" };
            }
            Event::CallResult(result) => {
                let words = if result.is_error { "failed" } else { "gave" };
                self.run(words, &format!("{} {} {}", result.index, result.id, result.content));
            }
            Event::ServerCall(call) => {
                let [arguments, content] = [call.arguments, call.content].map(Option::unwrap_or_default);
                self.run("ran", &format!("{} {} {arguments} {content}", call.id, call.name));
            }
            Event::Annotation(note) => {
                let (from, to) = note.span;
                self.run("cites", &format!("{} {} {from}-{to}", note.url, note.title));
            }
            Event::Media(media) => self.run("media", &format!("{} {}", media.mime, media.data)),
            Event::Finish(finish) => self.end.push(
                match finish {
                    Finish::Stop => "stop",
                    Finish::Calls => "calls",
                    Finish::Length => "length",
                    Finish::Filter => "filter",
                }
                .to_owned(),
            ),
            Event::Phase { .. } | Event::Usage(_) | Event::Ping(_) | Event::Verbatim { .. } => {}
        }
    }
}

pub(crate) trait MakesReader: Copy {
    fn reader(self) -> Reader;
}

impl MakesReader for chat::ReaderSettings {
    fn reader(self) -> Reader {
        Reader::Chat(chat::Reader::new(self))
    }
}

impl MakesReader for completions::ReaderSettings {
    fn reader(self) -> Reader {
        Reader::Completions(completions::Reader::new(self))
    }
}

impl MakesReader for responses::ReaderSettings {
    fn reader(self) -> Reader {
        Reader::Responses(responses::Reader::new(self))
    }
}

impl MakesReader for gemini::ReaderSettings {
    fn reader(self) -> Reader {
        Reader::Gemini(gemini::Reader::new(self))
    }
}

impl MakesReader for interactions::ReaderSettings {
    fn reader(self) -> Reader {
        Reader::Interactions(interactions::Reader::new(self))
    }
}

impl MakesReader for messages::ReaderSettings {
    fn reader(self) -> Reader {
        Reader::Messages(messages::Reader::new(self))
    }
}

#[cfg(feature = "bedrock")]
impl MakesReader for toolwire::dialect::bedrock::ReaderSettings {
    fn reader(self) -> Reader {
        Reader::Bedrock(toolwire::dialect::bedrock::Reader::new(self))
    }
}

impl MakesReader for ollama::ReaderSettings {
    fn reader(self) -> Reader {
        Reader::Ollama(ollama::Reader::new(self))
    }
}

/// Reads a body that arrives in `pieces`. If `ends` is false, the body stays open after them.
pub(crate) fn read_in<'a>(
    settings: impl MakesReader,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    ends: bool,
) -> Read {
    let mut reader = settings.reader();
    let mut read = Read::default();
    let mut result = Ok(());
    for piece in pieces {
        result = result.and_then(|()| reader.push(piece, &mut read));
    }
    if ends {
        result = result.and_then(|()| reader.finish(&mut read));
    }
    if let Err(failure) = result {
        assert!(reader.is_done());
        read.fail(&failure);
    }
    read.skipped = reader.skipped();
    read
}

/// Reads a body in one piece and in every relevant split. Asserts that all results are the same.
#[track_caller]
pub(crate) fn read_splits(settings: impl MakesReader, body: &[u8]) -> Read {
    let whole = read_in(settings, [body], true);
    for at in 0..=body.len() {
        let (left, right) = body.split_at(at);
        assert_eq!(read_in(settings, [left, right], true), whole, "cut at {at}");
    }
    for size in [1, 2, 3, 5, 7, 13] {
        assert_eq!(read_in(settings, body.chunks(size), true), whole, "pieces of {size}");
    }
    whole
}
