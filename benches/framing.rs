//! Measures how fast event streams are split into events, compared with eventsource-stream, and whether the cost of a long
//! event is proportional to its length.
//!
//! The two sides of a comparison take turns, and results are printed as ratios.

extern crate toolwire_pipeline as toolwire;

mod turns;

use std::{convert::Infallible, hint::black_box, ops::ControlFlow};

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use eventsource_stream::EventStream;
use futures_util::{FutureExt, StreamExt, future, stream};
use toolwire::wire::{
    json::{FrameTemplate, Json},
    sse::{Frame, Frames},
};

use turns::{Bound, best, each, tell};

/// The size of a read, in bytes, when the upstream is fast.
const READ: usize = 16 << 10;
const EVENTS: usize = 2_000;

fn main() {
    if turns::wanted() {
        compare_reads();
        compare_long_events();
    }
    let mut criterion = Criterion::default().configure_from_args();
    measure(&mut criterion);
    criterion.final_summary();
}

fn event(token: usize) -> String {
    format!(
        r#"{{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1718000000,"model":"m","choices":[{{"index":0,"delta":{{"content":" token{token}"}},"finish_reason":null}}]}}"#
    )
}

/// Returns a stream of events as an OpenAI-compatible upstream sends them.
fn tokens() -> Vec<Bytes> {
    let stream: String = (0..EVENTS).map(|token| format!("data: {}\n\n", event(token))).collect();
    pieces(stream.into_bytes(), READ)
}

/// Returns one event of `size` bytes, in very small pieces.
fn long_event(size: usize) -> Vec<Bytes> {
    pieces(format!("data: {}\n\n", "x".repeat(size)).into_bytes(), 64)
}

fn pieces(stream: Vec<u8>, size: usize) -> Vec<Bytes> {
    stream.chunks(size).map(Bytes::copy_from_slice).collect()
}

/// Reads the stream with toolwire, and returns the total size of the events' data.
fn ours(pieces: &[Bytes]) -> usize {
    let (mut frames, mut total) = (Frames::new(8 << 20), 0);
    for piece in pieces {
        let read = frames.push(black_box(piece), |frame| {
            if let Frame::Event(message) = frame {
                total += message.data.len();
            }
            ControlFlow::Continue(())
        });
        assert_eq!(read, Ok(()));
    }
    total
}

/// Reads the stream with eventsource-stream, and returns the total size of the events' data.
fn theirs(pieces: &[Bytes]) -> usize {
    let pieces = pieces.iter().cloned().map(Ok::<_, Infallible>);
    let total = EventStream::new(stream::iter(pieces))
        .fold(0, |total, event| future::ready(total + event.map_or(0, |event| event.data.len())));
    total.now_or_never().unwrap_or_default()
}

fn compare_reads() {
    let tokens = tokens();
    assert_eq!(ours(&tokens), theirs(&tokens));
    let [ours, theirs] = best(20, [Box::new(|| ours(&tokens)), Box::new(|| theirs(&tokens))]);
    let (ours, theirs) = (each(ours, EVENTS), each(theirs, EVENTS));
    let figures = format!("{ours:.0} ns, eventsource-stream {theirs:.0} ns");
    tell("framing an event, 16 KB reads", &figures, theirs / ours, Bound::Least(10.0));
}

/// Checks that an event of twice the length takes twice the time.
fn compare_long_events() {
    let (one, two) = (long_event(1 << 20), long_event(2 << 20));
    let [once, twice] = best(20, [Box::new(|| ours(&one)), Box::new(|| ours(&two))]);
    let (once, twice) = (each(once, 1 << 20), each(twice, 2 << 20));
    let figures = format!("2 MB {twice:.2} ns a byte, 1 MB {once:.2} ns");
    tell("one event in 64-byte pieces", &figures, twice / once, Bound::One(0.2));
    let (one, two) = (long_event(32 << 10), long_event(64 << 10));
    let [once, twice] = best(3, [Box::new(|| theirs(&one)), Box::new(|| theirs(&two))]);
    let (once, twice) = (each(once, 32 << 10), each(twice, 64 << 10));
    let figures = format!("64 KB {twice:.0} ns a byte, 32 KB {once:.0} ns");
    tell("the same by eventsource-stream", &figures, twice / once, Bound::None);
}

fn measure(criterion: &mut Criterion) {
    let tokens = tokens();
    let mut group = criterion.benchmark_group("framing");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("16 KB reads", |bencher| bencher.iter(|| ours(&tokens)));
    group.bench_function("16 KB reads, eventsource-stream", |bencher| bencher.iter(|| theirs(&tokens)));
    group.throughput(Throughput::Bytes(1 << 20));
    let long = long_event(1 << 20);
    group.bench_function("1 MB event in 64-byte pieces", |bencher| bencher.iter(|| ours(&long)));
    group.finish();

    let frame = event(7);
    let mut group = criterion.benchmark_group("event");
    group.throughput(Throughput::Bytes(frame.len() as u64));
    group.bench_function("parse and find the token", |bencher| {
        bencher.iter(|| token(black_box(&frame)).map(str::len));
    });
    group.bench_function("parse", |bencher| bencher.iter(|| Json::parse(black_box(&frame)).is_ok()));
    let shape = token(&frame).and_then(|body| FrameTemplate::learn(&frame, body, None));
    group.bench_function("known shape", |bencher| {
        bencher.iter(|| shape.as_ref()?.body(black_box(&frame)).map(str::len));
    });
    group.bench_function("serde_json's check alone", |bencher| {
        bencher.iter(|| serde_json::from_str::<serde::de::IgnoredAny>(black_box(&frame)).is_ok());
    });
    group.finish();
}

/// Returns the token in an event, read by the slow path.
fn token(frame: &str) -> Option<&str> {
    let choice = Json::parse(frame).ok()?.get("choices")?.elements().next()?;
    choice.get("delta")?.get("content")?.string_body()
}
