//! Checks that splits do not change what upstream readers read.

use toolwire::{
    dialect::{Reader, chat, completions, gemini, interactions, lumo, messages, ollama, responses},
    event::Event,
    failure::Failure,
};

use super::input::{Input, cut};

/// The first two bytes are choices; the body follows.
pub(crate) fn reader(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let seed = input.byte();
    let bytes = input.bytes();
    let whole = read(flags, &[bytes]);
    for pieces in [bytes.chunks(1).collect(), cut(bytes, seed)] {
        assert_eq!(read(flags, &pieces), whole, "{pieces:?}");
    }
}

/// Returns the events in a body, with adjacent pieces joined, and the error if reading failed.
fn read(flags: u8, pieces: &[&[u8]]) -> (Vec<Event<'static>>, Option<String>) {
    let mut events = Vec::new();
    let mut reader = reader_of(flags);
    let mut pushed = pieces
        .iter()
        .try_for_each(|piece| if reader.is_done() { Ok(()) } else { reader.push(piece, &mut events) });
    if pushed.is_ok() && !reader.is_done() {
        pushed = reader.finish(&mut events);
    }
    let failure = pushed.err().map(|failure: Failure| format!("{failure:?}"));
    (events.into_iter().fold(Vec::new(), join), failure)
}

fn reader_of(flags: u8) -> Reader {
    let on = |bit: u8| flags >> bit & 1 == 1;
    let max_frame = if on(1) { 64 } else { 1 << 20 };
    if on(0) {
        let settings = lumo::ReaderSettings { max_frame, tolerate_truncation: on(2), ..Default::default() };
        return Reader::Lumo(lumo::Reader::new(settings));
    }
    if on(5) {
        let settings = completions::ReaderSettings { max_frame, tolerate_truncation: on(2), verbatim: on(4) };
        return Reader::Completions(completions::Reader::new(settings));
    }
    if on(6) && on(7) {
        let settings =
            gemini::ReaderSettings { max_frame, tolerate_truncation: on(2), verbatim: on(4), cites: on(3) };
        return Reader::Gemini(gemini::Reader::new(settings));
    }
    if on(6) && on(4) {
        let settings = interactions::ReaderSettings { max_frame, tolerate_truncation: on(2) };
        return Reader::Interactions(interactions::Reader::new(settings));
    }
    if on(6) {
        let settings = ollama::ReaderSettings { max_frame, tolerate_truncation: on(2) };
        return Reader::Ollama(ollama::Reader::new(settings));
    }
    if on(4) && on(7) {
        let settings = responses::ReaderSettings { max_frame, tolerate_truncation: on(2), verbatim: on(3) };
        return Reader::Responses(responses::Reader::new(settings));
    }
    if on(7) {
        let settings = messages::ReaderSettings { max_frame, tolerate_truncation: on(2), verbatim: on(3) };
        return Reader::Messages(messages::Reader::new(settings));
    }
    Reader::Chat(chat::Reader::new(chat::ReaderSettings {
        max_frame,
        tolerate_truncation: on(2),
        verbatim: on(3),
        cumulative: on(4),
    }))
}

/// Appends an event, joining it with the previous one if a split may have separated them.
fn join(mut events: Vec<Event<'static>>, event: Event<'static>) -> Vec<Event<'static>> {
    match (events.last_mut(), event) {
        (Some(Event::Text(before)), Event::Text(text)) => before.to_mut().push_str(&text),
        (Some(Event::CallArguments { index, piece }), Event::CallArguments { index: same, piece: more })
            if *index == same =>
        {
            piece.to_mut().push_str(&more);
        }
        (_, event) => events.push(event),
    }
    events
}
