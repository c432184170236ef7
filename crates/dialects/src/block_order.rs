//! [`BlockOrder`]: passes blocks on one at a time, for client APIs in which two blocks are never open at
//! once.
//!
//! Some upstreams interleave the pieces of two calls, or write text between the pieces of a call. Servers of
//! Messages and Responses never do that, and their clients add each piece to the block that started last.
//! Events of other blocks are therefore held until the open call has ended, and then follow in the order in
//! which their blocks started. Calls that arrive one after another are never held.
//!
//! Held events count toward `limits.max_answer`, see [`ResponseWriter::kept`](super::ResponseWriter).

use std::collections::{HashMap, VecDeque};

use crate::event::{CallEnd, CallStart, Event, Reasoning};

#[derive(Debug, Default)]
pub(super) struct BlockOrder {
    open: Option<u32>,
    /// Whether the open call was cut off. Its block then stays open until another block starts or the
    /// response ends.
    is_cut: bool,
    /// The events held until the open call ends. Empty if no call is open.
    held: VecDeque<Held>,
    /// Number of elements removed from the front of `held`.
    left: usize,
    /// The calls in `held`, with their positions counted from the first element that was ever added to it.
    calls: HashMap<u32, usize>,
    /// Approximate size of `held` in bytes.
    bytes: usize,
}

#[derive(Debug)]
enum Held {
    Call(HeldCall),
    Event(Event<'static>),
    /// A frame, with its event if there is one.
    Frame(String, Option<Event<'static>>),
}

#[derive(Debug)]
struct HeldCall {
    start: CallStart<'static>,
    arguments: String,
    end: Option<CallEnd>,
}

enum Subject {
    Call(u32),
    Block,
    Response,
}

impl BlockOrder {
    pub(super) fn held(&self) -> usize {
        self.bytes
    }

    /// Passes an event to `write`, or holds it until the open call has ended.
    pub(super) fn event(&mut self, event: &Event<'_>, write: &mut impl FnMut(&Event<'_>)) {
        let meaning = match event {
            Event::Verbatim { means: Some(meaning), .. } => meaning,
            event => event,
        };
        let Some(open) = self.open else {
            if let Event::CallStart(start) = meaning {
                self.open = Some(start.index);
            }
            return write(event);
        };
        match (meaning, subject(meaning)) {
            (Event::CallEnd { end: CallEnd::Cut, .. }, Subject::Call(index)) if index == open => {
                write(event);
                self.is_cut = true;
            }
            (Event::CallEnd { .. }, Subject::Call(index)) if index == open => {
                write(event);
                self.release(write);
            }
            (_, Subject::Call(index)) if index == open => write(event),
            (Event::Finish(_), _) => {
                self.end(write);
                write(event);
            }
            (_, Subject::Response) => write(event),
            (meaning, Subject::Call(index)) if self.has(index) => self.add(index, meaning),
            // The model has continued after a call that was cut off.
            (Event::CallStart(_), _) | (_, Subject::Block) if self.is_cut => {
                self.release(write);
                self.event(event, write);
            }
            (Event::CallStart(start), _) => self.begin(start),
            (_, Subject::Call(_)) => write(event),
            (_, Subject::Block) => self.hold(event),
        }
    }

    /// Ends the response: passes on everything that is held. An unfinished call is cut off where the next
    /// block starts.
    fn end(&mut self, write: &mut impl FnMut(&Event<'_>)) {
        while !self.held.is_empty() {
            if let Some(index) = self.open.filter(|_| !self.is_cut) {
                write(&Event::CallEnd { index, end: CallEnd::Cut });
            }
            self.release(write);
        }
    }

    /// Fails the response: passes on everything that is held. An unfinished call gets no more pieces, but
    /// stays open, so that no client takes it for complete.
    pub(super) fn fail(&mut self, write: &mut impl FnMut(&Event<'_>)) {
        while !self.held.is_empty() {
            self.release(write);
        }
    }

    fn has(&self, index: u32) -> bool {
        self.calls.contains_key(&index)
    }

    fn begin(&mut self, start: &CallStart<'_>) {
        if let Event::CallStart(start) = Event::CallStart(start.clone()).into_owned() {
            self.calls.insert(start.index, self.left + self.held.len());
            self.bytes += ELEMENT + start.id.len() + start.name.len();
            self.held.push_back(Held::Call(HeldCall { start, arguments: String::new(), end: None }));
        }
    }

    fn add(&mut self, index: u32, event: &Event<'_>) {
        let place = self.calls.get(&index).and_then(|place| place.checked_sub(self.left));
        let Some(Held::Call(call)) = place.and_then(|place| self.held.get_mut(place)) else { return };
        match event {
            Event::CallArguments { piece, .. } => {
                self.bytes += piece.len();
                call.arguments.push_str(piece);
            }
            Event::CallEnd { end, .. } => call.end = Some(*end),
            _ => {}
        }
    }

    /// Holds an event of another block. Consecutive pieces of text are joined.
    fn hold(&mut self, event: &Event<'_>) {
        let (frame, meaning) = match event {
            Event::Verbatim { frame, means } => (Some(*frame), *means),
            event => (None, Some(event)),
        };
        match (self.held.back_mut(), meaning) {
            (Some(Held::Event(Event::Text(text))), Some(Event::Text(piece))) => {
                self.bytes += piece.len();
                text.to_mut().push_str(piece);
            }
            (
                Some(Held::Event(Event::Reasoning(Reasoning { text, signature: None, redacted: false }))),
                Some(Event::Reasoning(Reasoning { text: piece, signature: None, redacted: false })),
            ) => {
                self.bytes += piece.len();
                text.to_mut().push_str(piece);
            }
            (_, meaning) => {
                let is_text = matches!(meaning, Some(Event::Text(_) | Event::Reasoning(_)));
                let held = match (frame, meaning) {
                    (Some(frame), meaning) if !is_text => {
                        Held::Frame(frame.to_owned(), meaning.map(|meaning| meaning.clone().into_owned()))
                    }
                    (_, meaning) => Held::Event(meaning.unwrap_or(event).clone().into_owned()),
                };
                self.bytes += held.size();
                self.held.push_back(held);
            }
        }
    }

    /// Handles the end of the open call: passes on the held events, up to the end of the first unfinished
    /// call.
    fn release(&mut self, write: &mut impl FnMut(&Event<'_>)) {
        (self.open, self.is_cut) = (None, false);
        while self.open.is_none()
            && let Some(held) = self.held.pop_front()
        {
            self.left += 1;
            self.bytes = self.bytes.saturating_sub(held.size());
            match held {
                Held::Event(event) => write(&event),
                Held::Frame(frame, means) => write(&Event::Verbatim { frame: &frame, means: means.as_ref() }),
                Held::Call(HeldCall { start, arguments, end }) => {
                    let index = start.index;
                    self.calls.remove(&index);
                    write(&Event::CallStart(start));
                    if !arguments.is_empty() {
                        write(&Event::CallArguments { index, piece: arguments.into() });
                    }
                    match end {
                        Some(end) => write(&Event::CallEnd { index, end }),
                        None => self.open = Some(index),
                    }
                }
            }
        }
    }
}

impl Held {
    fn size(&self) -> usize {
        let texts = match self {
            Self::Call(call) => call.start.id.len() + call.start.name.len() + call.arguments.len(),
            Self::Frame(frame, _) => frame.len(),
            Self::Event(Event::Text(text) | Event::Refusal(text)) => text.len(),
            Self::Event(Event::Reasoning(reasoning)) => {
                reasoning.text.len() + reasoning.signature.as_ref().map_or(0, |state| state.text.len())
            }
            Self::Event(Event::CallResult(result)) => result.id.len() + result.content.len(),
            Self::Event(Event::ServerCall(call)) => {
                let texts = [&call.arguments, &call.content].into_iter().flatten();
                call.id.len() + call.name.len() + texts.map(|text| text.len()).sum::<usize>()
            }
            Self::Event(Event::Mcp(item)) => item.size(),
            Self::Event(Event::Annotation(annotation)) => annotation.url.len() + annotation.title.len(),
            Self::Event(Event::Media(media)) => media.id.len() + media.data.len(),
            Self::Event(_) => 0,
        };
        ELEMENT + texts
    }
}

/// The size that is assumed for an element in addition to its text, in bytes.
const ELEMENT: usize = 128;

fn subject(event: &Event<'_>) -> Subject {
    match event {
        Event::CallStart(start) => Subject::Call(start.index),
        Event::CallArguments { index, .. } | Event::CallEnd { index, .. } => Subject::Call(*index),
        Event::Start(_) | Event::Ping(_) | Event::Usage(_) | Event::Warning(_) | Event::Finish(_) => {
            Subject::Response
        }
        _ => Subject::Block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Runner, Source};

    fn start(index: u32) -> Event<'static> {
        Event::CallStart(CallStart {
            index,
            id: "".into(),
            name: "f".into(),
            runner: Runner::Client,
            source: Source::Native,
            signature: None,
        })
    }

    fn piece(index: u32, piece: &'static str) -> Event<'static> {
        Event::CallArguments { index, piece: piece.into() }
    }

    fn end(index: u32, end: CallEnd) -> Event<'static> {
        Event::CallEnd { index, end }
    }

    /// The output for these events, with calls shown by number and text by its characters. Ends with the
    /// number of bytes that are still held.
    fn ordered(events: &[Event<'static>]) -> (String, usize) {
        let (mut order, mut written) = (BlockOrder::default(), Vec::new());
        for event in events {
            order.event(event, &mut |event| {
                written.push(match event {
                    Event::CallStart(start) => format!("{}(", start.index),
                    Event::CallArguments { index, piece } => format!("{index}{piece}"),
                    Event::CallEnd { index, end: CallEnd::Cut } => format!("{index}~"),
                    Event::CallEnd { index, .. } => format!("){index}"),
                    Event::Text(text) => text.to_string(),
                    Event::Verbatim { frame, .. } => (*frame).to_owned(),
                    event => format!("{event:?}"),
                });
            });
        }
        (written.join(" "), order.held())
    }

    #[test]
    fn sequential_calls_and_texts_never_wait() {
        let events = [
            Event::Text("a".into()),
            start(0),
            piece(0, "x"),
            end(0, CallEnd::Complete),
            Event::Text("b".into()),
            start(1),
            piece(1, "y"),
        ];
        for count in 0..=events.len() {
            assert_eq!(ordered(events.get(..count).unwrap()).1, 0, "{count}");
        }
        assert_eq!(ordered(&events).0, "a 0( 0x )0 b 1( 1y");
    }

    #[test]
    fn what_belongs_to_another_block_waits_for_the_end_of_the_open_call() {
        let text = |text: &'static str| Event::Text(text.into());
        let events = [
            start(0),
            piece(0, "a"),
            start(1),
            piece(1, "p"),
            text("t"),
            Event::Usage(crate::event::Usage::default()),
            text("u"),
            piece(0, "b"),
            start(2),
            piece(1, "q"),
            end(2, CallEnd::Complete),
            end(0, CallEnd::Complete),
            piece(1, "r"),
            end(1, CallEnd::Broken),
            text("v"),
        ];
        let (written, held) = ordered(&events);
        let usage = format!("{:?}", Event::Usage(crate::event::Usage::default()));
        assert_eq!(written.replace(&usage, "usage"), "0( 0a usage 0b )0 1( 1pq 1r )1 tu 2( )2 v");
        assert_eq!(held, 0);
    }

    #[test]
    fn what_waits_is_counted() {
        let (_, held) = ordered(&[start(0), start(1), piece(1, "0123456789"), Event::Text("abc".into())]);
        assert_eq!(held, 2 * ELEMENT + "f".len() + 10 + 3);
    }

    #[test]
    fn call_that_is_cut_off_makes_nothing_wait_for_the_end_of_the_response() {
        let text = Event::Text("t".into());
        assert_eq!(ordered(&[start(0), end(0, CallEnd::Cut), text, start(1)]).0, "0( 0~ t 1(");
        let cut = [start(0), start(1), end(0, CallEnd::Cut), end(1, CallEnd::Cut)];
        assert_eq!(ordered(&cut).0, "0( 0~", "the first call stays open until something follows");
        let finished = [cut.as_slice(), &[Event::Finish(crate::event::Finish::Length)]].concat();
        assert_eq!(ordered(&finished).0, "0( 0~ 1( 1~ Finish(Length)");
    }
}
