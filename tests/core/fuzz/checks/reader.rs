//! Checks that splits do not change what upstream readers read.

use toolwire::{
    dialect::{
        Dialect, Reader, ReaderRules, UpstreamDialect, chat, completions, gemini, interactions, lumo,
        messages, ollama, responses,
    },
    event::Event,
    failure::Failure,
};

use super::input::{Input, cut};

/// The first two bytes are choices; the body follows.
pub(crate) fn reader(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let seed = input.byte();
    let framed = if is_bedrock(flags) { frames(input.bytes()) } else { None };
    let bytes = framed.as_deref().unwrap_or(input.bytes());
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

fn is_bedrock(flags: u8) -> bool {
    flags & 0b1100_0001 == 0b1100_0001
}

/// Puts `written` into frames, since no input has right checksums by accident: for each line an event, with its type
/// before the first space. Without a space in the first line, returns `None`.
fn frames(written: &[u8]) -> Option<Vec<u8>> {
    let first = written.split(|byte| *byte == b'\n').next()?;
    first.contains(&b' ').then_some(())?;
    let mut framed = Vec::new();
    for line in written.split(|byte| *byte == b'\n') {
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (kind, payload) = line.split_at(space);
        framed.extend(frame(&[(":message-type", b"event"), (":event-type", kind)], payload));
    }
    Some(framed)
}

fn frame(headers: &[(&str, &[u8])], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(u8::try_from(name.len()).expect("a short name"));
        encoded.extend_from_slice(name.as_bytes());
        // The type of strings.
        encoded.push(7);
        encoded.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        encoded.extend_from_slice(&value[..value.len().min(usize::from(u16::MAX))]);
    }
    let length =
        |bytes: &[u8], more: usize| u32::try_from(bytes.len() + more).expect("a short frame").to_be_bytes();
    let mut frame = [length(payload, encoded.len() + 16), length(&encoded, 0)].concat();
    frame.extend_from_slice(&checksum(&frame));
    frame.extend_from_slice(&encoded);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&checksum(&frame));
    frame
}

/// The CRC-32 of zlib.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let shift = |sum: u32| sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
    let sum = bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| shift(sum)));
    (!sum).to_be_bytes()
}

fn reader_of(flags: u8) -> Reader {
    let on = |bit: u8| flags >> bit & 1 == 1;
    let max_frame = if on(1) { 64 } else { 1 << 20 };
    if is_bedrock(flags) {
        let upstream = UpstreamDialect::try_from(Dialect::Bedrock).expect("a dialect of this build");
        let client = Dialect::Chat;
        return upstream.side().reader(&ReaderRules { max_frame, tolerate_truncation: on(2), client });
    }
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
