//! Framing an event stream, against eventsource-stream; and whether one long event costs in proportion to its length.
//!
//! The comparisons are measured in alternating rounds of one run, the best of each taken, and printed as ratios: on a
//! shared machine the two sides of a ratio have to meet the same weather.

#![allow(clippy::print_stdout, reason = "the ratios are the result")]

use std::{
    convert::Infallible,
    hint::black_box,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use eventsource_stream::EventStream;
use futures_util::{FutureExt, StreamExt, future, stream};
use toolwire::wire::{
    json::{Json, Shape, span},
    sse::{Frame, Frames},
};

/// What a socket gives at a time when the upstream is fast.
const READ: usize = 16 << 10;
const EVENTS: usize = 2_000;

fn main() {
    if std::env::args().any(|argument| argument == "--bench") {
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

/// A stream of events as an OpenAI-compatible upstream sends them, in pieces of one read.
fn tokens() -> Vec<Bytes> {
    let stream: String = (0..EVENTS).map(|token| format!("data: {}\n\n", event(token))).collect();
    pieces(stream.into_bytes(), READ)
}

/// One event of so many bytes, in pieces as small as a terminal's lines.
fn long_event(size: usize) -> Vec<Bytes> {
    pieces(format!("data: {}\n\n", "x".repeat(size)).into_bytes(), 64)
}

fn pieces(stream: Vec<u8>, size: usize) -> Vec<Bytes> {
    stream.chunks(size).map(Bytes::copy_from_slice).collect()
}

/// Bytes of all events' data, by our own reader.
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

/// The same by eventsource-stream.
fn theirs(pieces: &[Bytes]) -> usize {
    let pieces = pieces.iter().cloned().map(Ok::<_, Infallible>);
    let total = EventStream::new(stream::iter(pieces))
        .fold(0, |total, event| future::ready(total + event.map_or(0, |event| event.data.len())));
    total.now_or_never().unwrap_or_default()
}

/// The best time of each of two works, measured in turns.
fn best(rounds: usize, mut one: impl FnMut() -> usize, mut two: impl FnMut() -> usize) -> [Duration; 2] {
    let mut best = [Duration::MAX; 2];
    for _ in 0..rounds {
        let works: [&mut dyn FnMut() -> usize; 2] = [&mut one, &mut two];
        for (best, work) in best.iter_mut().zip(works) {
            let start = Instant::now();
            black_box(work());
            *best = start.elapsed().min(*best);
        }
    }
    best
}

fn compare_reads() {
    let tokens = tokens();
    assert_eq!(ours(&tokens), theirs(&tokens));
    let [ours, theirs] = best(20, || ours(&tokens), || theirs(&tokens));
    let each = |time: Duration| time.as_nanos() as f64 / EVENTS as f64;
    println!(
        "framing at 16 KB reads: {:.0} ns an event, eventsource-stream {:.0} ns: {:.1} times as fast",
        each(ours),
        each(theirs),
        each(theirs) / each(ours)
    );
}

fn compare_long_events() {
    let (one, two) = (long_event(1 << 20), long_event(2 << 20));
    let [once, twice] = best(20, || ours(&one), || ours(&two));
    println!(
        "one event in 64-byte pieces: 1 MB {:.2} ms, 2 MB {:.2} ms: {:.2} times (2 is linear)",
        once.as_secs_f64() * 1e3,
        twice.as_secs_f64() * 1e3,
        twice.as_secs_f64() / once.as_secs_f64()
    );
    let (one, two) = (long_event(32 << 10), long_event(64 << 10));
    let [once, twice] = best(3, || theirs(&one), || theirs(&two));
    println!(
        "the same by eventsource-stream: 32 KB {:.2} ms, 64 KB {:.2} ms: {:.2} times (4 is the square)",
        once.as_secs_f64() * 1e3,
        twice.as_secs_f64() * 1e3,
        twice.as_secs_f64() / once.as_secs_f64()
    );
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
    let shape = token(&frame).and_then(|body| Shape::learn(&frame, span(&frame, body)?, None));
    group.bench_function("known shape", |bencher| {
        bencher.iter(|| shape.as_ref()?.body(black_box(frame.as_bytes())).map(str::len));
    });
    group.bench_function("serde_json's check alone", |bencher| {
        bencher.iter(|| serde_json::from_str::<serde::de::IgnoredAny>(black_box(&frame)).is_ok());
    });
    group.finish();
}

/// The token of an event, by the slow path.
fn token(frame: &str) -> Option<&str> {
    let choice = Json::parse(frame).ok()?.get("choices")?.elements().next()?;
    choice.get("delta")?.get("content")?.string_body()
}
