//! Checks that splits do not change what the line decoder and the event stream decoder return.

use std::ops::ControlFlow;

use toolwire::wire::sse::{Frame, Frames, Lines, Message, Oversized};

use super::input::{Input, cut};

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Event { event: Vec<u8>, data: Vec<u8>, id: Option<Vec<u8>> },
    Comment(Vec<u8>),
    Retry(u64),
    Line(Vec<u8>),
}

impl From<Frame<'_>> for Seen {
    fn from(frame: Frame<'_>) -> Self {
        match frame {
            Frame::Event(Message { event, data, id }) => {
                Self::Event { event: event.to_vec(), data: data.to_vec(), id: id.map(<[u8]>::to_vec) }
            }
            Frame::Comment(comment) => Self::Comment(comment.to_vec()),
            Frame::Retry(wait) => Self::Retry(wait),
        }
    }
}

/// The first two bytes are choices; the stream follows.
pub(crate) fn sse(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let seed = input.byte();
    let bytes = input.bytes();
    let limit = if flags & 1 == 1 { usize::from(flags >> 2) } else { 1 << 20 };
    let read = if flags & 2 == 2 { lines } else { frames };
    let (whole, result) = read(limit, &[bytes]);
    for pieces in [bytes.chunks(1).collect(), cut(bytes, seed)] {
        let cut = read(limit, &pieces);
        assert_eq!((&cut.0, cut.1), (&whole, result), "{pieces:?}");
    }
}

fn frames(limit: usize, pieces: &[&[u8]]) -> (Vec<Seen>, Result<(), Oversized>) {
    let mut seen = Vec::new();
    let mut frames = Frames::new(limit);
    let mut see = |frame: Frame<'_>| {
        seen.push(Seen::from(frame));
        ControlFlow::Continue(())
    };
    let result = pieces.iter().try_for_each(|piece| frames.push(piece, &mut see));
    frames.finish(&mut see);
    (seen, result)
}

fn lines(limit: usize, pieces: &[&[u8]]) -> (Vec<Seen>, Result<(), Oversized>) {
    let mut seen = Vec::new();
    let mut lines = Lines::new(limit);
    let mut see = |line: &[u8]| {
        seen.push(Seen::Line(line.to_vec()));
        ControlFlow::Continue(())
    };
    let result = pieces.iter().try_for_each(|piece| lines.push(piece, &mut see));
    lines.finish(&mut see);
    (seen, result)
}
