//! Compares the event stream decoder with an independent one, with a naive implementation of the standard, and with
//! itself for every way of splitting the input.

use std::{convert::Infallible, ops::ControlFlow};

use bytes::Bytes;
use eventsource_stream::EventStream;
use futures_util::{FutureExt, StreamExt, stream};
use proptest::prelude::*;
use toolwire::wire::sse::{Frame, Frames, Line, Lines, Message, Oversized, parse_line};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Event { event: String, data: String, id: Option<String> },
    Comment(String),
    Retry(u64),
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn seen(frame: Frame<'_>) -> Seen {
    match frame {
        Frame::Event(Message { event, data, id }) => {
            Seen::Event { event: text(event), data: text(data), id: id.map(text) }
        }
        Frame::Comment(comment) => Seen::Comment(text(comment)),
        Frame::Retry(wait) => Seen::Retry(wait),
    }
}

fn frames<'a>(
    limit: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Seen>, Result<(), Oversized>) {
    let mut all = Vec::new();
    let mut frames = Frames::new(limit);
    for piece in pieces {
        let result = frames.push(piece, |frame| {
            all.push(seen(frame));
            ControlFlow::Continue(())
        });
        if result.is_err() {
            return (all, result);
        }
    }
    (all, Ok(()))
}

fn lines<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let mut all = Vec::new();
    let mut lines = Lines::new(limit);
    for piece in pieces {
        let result = lines.push(piece, |line| {
            all.push(line.to_vec());
            ControlFlow::Continue(())
        });
        if result.is_err() {
            return (all, false);
        }
    }
    lines.finish(|line| {
        all.push(line.to_vec());
        ControlFlow::Continue(())
    });
    (all, true)
}

/// Splits `bytes` into pieces of these sizes, starting over after the last size.
fn cut<'a>(bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        let (piece, tail) = rest.split_at(rest.len().min(*size));
        pieces.push(piece);
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    pieces
}

fn oracle(pieces: &[&[u8]]) -> Vec<Seen> {
    let pieces: Vec<_> =
        pieces.iter().map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
    let events = EventStream::new(stream::iter(pieces)).collect::<Vec<_>>().now_or_never().unwrap();
    let events = events.into_iter().map(Result::unwrap);
    events.map(|event| Seen::Event { event: event.event, data: event.data, id: Some(event.id) }).collect()
}

/// Drops the details that eventsource-stream does not report.
fn in_its_words(frames: Vec<Seen>) -> Vec<Seen> {
    let words = |frame| match frame {
        Seen::Event { event, data, id } => {
            let event = if event.is_empty() { "message".to_owned() } else { event };
            Some(Seen::Event { event, data, id: Some(id.unwrap_or_default()) })
        }
        Seen::Comment(_) | Seen::Retry(_) => None,
    };
    frames.into_iter().filter_map(words).collect()
}

/// A literal implementation of the standard for a complete stream.
fn standard(stream: &str) -> Vec<Seen> {
    let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream).replace("\r\n", "\n").replace('\r', "\n");
    let (mut all, mut event, mut data, mut id) = (Vec::new(), String::new(), String::new(), None);
    let Some((whole, _)) = stream.rsplit_once('\n') else { return all };
    for line in whole.split('\n') {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => {
                let data = std::mem::take(&mut data);
                let event = std::mem::take(&mut event);
                if let Some(data) = data.strip_suffix('\n') {
                    all.push(Seen::Event { event, data: data.to_owned(), id: id.clone() });
                }
            }
            "" => all.push(Seen::Comment(value.to_owned())),
            "data" => data = data + value + "\n",
            "event" => value.clone_into(&mut event),
            "id" if !value.contains('\0') => id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.chars().all(|char| char.is_ascii_digit()) => {
                all.extend(value.parse().ok().map(Seen::Retry));
            }
            _ => {}
        }
    }
    all
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(String::new()),
        3 => "data:? ?[a-c:\u{0}é😀 ]{0,9}",
        1 => "id:? ?[0-9\u{0}]{0,2}",
        1 => "event:? ?[xyz]{0,2}",
        1 => "retry:? ?[0-9]{0,21}[a]?",
        1 => ":[ a:é]{0,4}",
        1 => "[ a-edt:\u{0}é😀]{0,8}",
    ]
}

fn stream_text() -> impl Strategy<Value = String> {
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
    (prop::collection::vec((line(), end), 0..24), line())
        .prop_map(|(lines, last)| lines.into_iter().map(|(line, end)| line + end).collect::<String>() + &last)
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..20_usize, 1..12)
}

proptest! {
    /// The final comment makes eventsource-stream process a CR at the end. Without the comment, it would wait for an
    /// LF. eventsource-stream never gets a byte order mark, because that would make it panic.
    #[test]
    fn events_match_eventsource_stream(stream in stream_text(), sizes in sizes(), marked: bool) {
        let plain = stream + ":\n";
        let marked = if marked { format!("\u{feff}{plain}") } else { plain.clone() };
        let (frames, result) = frames(1 << 20, cut(marked.as_bytes(), &sizes));
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(in_its_words(frames), oracle(&cut(plain.as_bytes(), &sizes)));
    }

    #[test]
    fn frames_match_the_standard(stream in stream_text(), sizes in sizes(), marked: bool) {
        let stream = if marked { format!("\u{feff}{stream}") } else { stream };
        let (frames, result) = frames(1 << 20, cut(stream.as_bytes(), &sizes));
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(frames, standard(&stream));
    }

    #[test]
    fn limit_is_reached_at_the_same_place_in_any_split(
        stream in stream_text(),
        sizes in sizes(),
        limit in 0..40_usize,
    ) {
        let whole = frames(limit, [stream.as_bytes()]);
        prop_assert_eq!(&frames(limit, cut(stream.as_bytes(), &sizes)), &whole);
        let whole = lines(limit, [stream.as_bytes()]);
        prop_assert_eq!(lines(limit, cut(stream.as_bytes(), &sizes)), whole);
    }

    #[test]
    fn lines_of_any_bytes_are_the_same_in_any_split(
        bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(0xef), Just(0xbb), Just(0xbf), any::<u8>()], 0..60),
        sizes in sizes(),
    ) {
        let whole = lines(1 << 20, [&*bytes]);
        prop_assert_eq!(lines(1 << 20, cut(&bytes, &sizes)), whole);
    }
}

#[test]
fn cr_ends_its_line_at_once_and_a_following_lf_is_skipped() {
    let mut got = Vec::new();
    let mut lines = Lines::new(9);
    for piece in ["a\r", "", "\nb", "\r", "\r", "\n\n"] {
        lines
            .push(piece.as_bytes(), |line| {
                got.push(text(line));
                ControlFlow::Continue(())
            })
            .unwrap();
        got.push("|".to_owned());
    }
    assert_eq!(got, ["a", "|", "|", "|", "b", "|", "", "|", "", "|"]);
}

#[test]
fn only_a_complete_byte_order_mark_at_the_start_is_dropped() {
    for (stream, expected) in [
        (&b"\xef\xbb\xbfa\n"[..], &b"a"[..]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\n", b"\xef\xbb\xbfa"),
        (b"\xef\xbba\n", b"\xef\xbba"),
        (b"\xef\xef\xbb\xbf\n", b"\xef\xef\xbb\xbf"),
        (b"\xef\xbb", b"\xef\xbb"),
        (b"a\xef\xbb\xbf\n", b"a\xef\xbb\xbf"),
    ] {
        assert_eq!(lines(9, [stream]).0, [expected], "{}", stream.escape_ascii());
        assert_eq!(lines(9, stream.chunks(1)).0, [expected], "{}", stream.escape_ascii());
    }
}

#[test]
fn contiguous_line_is_borrowed() {
    let input = b"x\ndata: one\n\ndata: t";
    let inside = |part: &[u8]| input.as_ptr_range().contains(&part.as_ptr());
    let mut borrowed = Vec::new();
    let mut frames = Frames::new(99);
    let mut note = |frame: Frame<'_>| {
        if let Frame::Event(message) = frame {
            borrowed.push((text(message.data), inside(message.data)));
        }
        ControlFlow::Continue(())
    };
    frames.push(input, &mut note).unwrap();
    frames.push(b"wo\n\n", &mut note).unwrap();
    assert_eq!(borrowed, [("one".to_owned(), true), ("two".to_owned(), false)]);
}

#[test]
fn input_after_a_break_is_ignored() {
    let mut got = Vec::new();
    let mut frames = Frames::new(99);
    let mut stop_at_done = |frame: Frame<'_>| match frame {
        Frame::Event(Message { data: b"[DONE]", .. }) => ControlFlow::Break(()),
        frame => {
            got.push(seen(frame));
            ControlFlow::Continue(())
        }
    };
    frames.push(b":a\n\ndata: [DONE]\n\n:b\ndata: c\n\nda", &mut stop_at_done).unwrap();
    frames.push(b"ta: d\n\n", &mut stop_at_done).unwrap();
    frames.finish(&mut stop_at_done);
    assert_eq!(got, [Seen::Comment("a".to_owned())]);
}

#[test]
fn event_without_its_blank_line_is_available_on_request() {
    for (stream, expected) in [
        ("data: a\ndata: b", Some("a\nb")),
        ("data: a\n", Some("a")),
        ("data: a\n\n", None),
        ("event: x\n", None),
        ("", None),
    ] {
        let mut got = Vec::new();
        let mut frames = Frames::new(99);
        frames.push(stream.as_bytes(), |_| ControlFlow::Continue(())).unwrap();
        frames.finish(|frame| {
            got.push(seen(frame));
            ControlFlow::Continue(())
        });
        let event = |data: &str| Seen::Event { event: String::new(), data: data.to_owned(), id: None };
        assert_eq!(got, expected.map(event).into_iter().collect::<Vec<_>>(), "{stream:?}");
    }
}

#[test]
fn limit_counts_the_bytes_kept_of_one_event() {
    let event = "data: 34567890\ndata: 34567890\n\n";
    assert_eq!(frames(28, [event.repeat(3).as_bytes()]).1, Ok(()));
    assert_eq!(frames(27, [event.as_bytes()]).1, Err(Oversized { limit: 27 }));
    let (endless, result) = frames(64, std::iter::repeat_n(&b"data: 0123456789"[..], 5));
    assert_eq!((endless.len(), result), (0, Err(Oversized { limit: 64 })));
    assert_eq!(Oversized { limit: 64 }.to_string(), "a frame of the stream is larger than 64 bytes");
}

#[test]
fn lines_are_parsed_as_the_standard_says() {
    let field = |name: &'static str, value: &'static str| Line::Field {
        name: name.as_bytes(),
        value: value.as_bytes(),
    };
    assert_eq!(parse_line(b""), Line::Blank);
    assert_eq!(parse_line(b":queued"), Line::Comment(b"queued"));
    assert_eq!(parse_line(b":  x"), Line::Comment(b" x"));
    assert_eq!(parse_line(b"data:  {:"), field("data", " {:"));
    assert_eq!(parse_line(b"data"), field("data", ""));
    assert_eq!(parse_line(b" data:x"), field(" data", "x"));
}
