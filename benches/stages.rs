//! Measures each stage of the pipeline separately.

extern crate toolwire_pipeline as toolwire;

mod answers;

use std::{borrow::Cow, hint::black_box, ops::ControlFlow};

use answers::{READ, Upstream};
use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use toolwire::{
    conversation::Tool,
    detect::Detector,
    dialect::{Answering, Stamp, chat},
    event::{Event, Finish, Sink},
    format::KnownFormats,
    tools::{DeclaredTools, ToolIndex},
    wire::{
        json::Json,
        sse::{Frame, Frames},
    },
};

const TOKENS: usize = 2_000;

criterion_group!(benches, framing, readers, detection, calls, writing, tool_search);
criterion_main!(benches);

/// Consumes events, looking at each of them.
#[derive(Default)]
struct Seen(usize);

impl Sink for Seen {
    fn event(&mut self, event: Event<'_>) {
        self.0 += 1;
        black_box(&event);
    }
}

fn framing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("framing, an event");
    group.throughput(Throughput::Elements(TOKENS as u64));
    let frames = Upstream::Chat.frames(&answers::prose(TOKENS));
    for (cut, reads) in
        [("16 KB reads", answers::reads(&frames, READ)), ("one a read", answers::single(&frames))]
    {
        group.bench_function(cut, |bencher| bencher.iter(|| framed(&reads)));
    }
    group.finish();
}

fn framed(reads: &[Bytes]) -> usize {
    let (mut frames, mut total) = (Frames::new(8 << 20), 0);
    for read in reads {
        let read = frames.push(read, |frame| {
            if let Frame::Event(message) = frame {
                total += message.data.len();
            }
            ControlFlow::Continue(())
        });
        assert_eq!(read, Ok(()));
    }
    total
}

/// Measures the readers with a frame of a known shape, a frame that must be parsed, and a piece of a native call.
fn readers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reader, an event");
    group.throughput(Throughput::Elements(TOKENS as u64));
    let prose = answers::prose(TOKENS);
    let pieces = vec!["abcd"; TOKENS];
    let cases = [
        ("lumo v1", Upstream::LumoV1, false, Upstream::LumoV1.frames(&prose)),
        ("lumo v2", Upstream::LumoV2, false, Upstream::LumoV2.frames(&prose)),
        ("chat, the short way", Upstream::Chat, false, Upstream::Chat.frames(&prose)),
        ("chat, the short way, verbatim", Upstream::Chat, true, Upstream::Chat.frames(&prose)),
        ("chat, the long way", Upstream::Padded, false, Upstream::Padded.frames(&prose)),
        ("chat, the long way, verbatim", Upstream::Padded, true, Upstream::Padded.frames(&prose)),
        ("lumo v2, native call", Upstream::LumoV2, false, answers::native_call(Upstream::LumoV2, &pieces)),
        ("chat, native call", Upstream::Chat, true, answers::native_call(Upstream::Chat, &pieces)),
    ];
    for (name, upstream, verbatim, frames) in cases {
        let reads = answers::reads(&frames, READ);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (mut reader, mut seen) = (upstream.reader(verbatim), Seen::default());
                reads.iter().for_each(|read| assert!(reader.push(read, &mut seen).is_ok()));
                seen.0
            });
        });
    }
    group.finish();
}

fn detector() -> impl Fn() -> Option<Detector> {
    let (tools, settings) = (DeclaredTools::new(&answers::conversation(), ""), answers::settings(true));
    move || Detector::new(tools.clone(), &settings, KnownFormats::built_in())
}

fn detected(detector: Option<Detector>, pieces: &[&str]) -> usize {
    let (Some(mut detector), mut seen) = (detector, Seen::default()) else { return 0 };
    pieces.iter().for_each(|piece| detector.event(Event::Text(Cow::Borrowed(piece)), &mut seen));
    detector.finish(Some(Finish::Stop), &mut seen);
    seen.0
}

fn bytes(pieces: &[&str]) -> Throughput {
    Throughput::Bytes(pieces.iter().map(|piece| piece.len() as u64).sum())
}

/// Measures detection in text without calls, with four declared tools.
fn detection(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("detector, text");
    let detector = detector();
    let (prose, markdown) = (answers::prose(TOKENS), answers::markdown(TOKENS));
    let (long_prose, long_markdown) = (prose.concat(), markdown.concat());
    let cases = [
        ("prose, a token a piece", prose),
        ("Markdown and code, four bytes a piece", markdown),
        ("prose, one piece", vec![long_prose.as_str()]),
        ("Markdown and code, one piece", vec![long_markdown.as_str()]),
    ];
    for (name, pieces) in cases {
        group.throughput(bytes(&pieces));
        group.bench_function(name, |bencher| bencher.iter(|| detected(detector(), black_box(&pieces))));
    }
    group.finish();
}

/// Measures calls of 8 KB, with arguments that are forwarded unchanged and with arguments that must be repaired.
fn calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("detector, a call");
    let detector = detector();
    let sound = "let x = a[0];\\n".repeat(500);
    let broken = "let x = a[0];\n".repeat(500);
    let call = |open: &str, body: &str, close: &str| {
        format!("{open}{{\"name\":\"write_file\",\"arguments\":{{\"content\":\"{body}\"}}}}{close}")
    };
    let cases = [
        ("pre", call("<pre>", &sound, "</pre>")),
        ("fenced", call("```json\n", &sound, "\n```")),
        ("bare", call("", &sound, "")),
        ("hermes", call("<tool_call>", &sound, "</tool_call>")),
        ("hermes, mended", call("<tool_call>", &broken, "</tool_call>")),
    ];
    for (name, text) in &cases {
        for (cut, pieces) in [("4 bytes", answers::pieces(text, 4)), ("one piece", vec![text.as_str()])] {
            group.throughput(bytes(&pieces));
            group.bench_function(format!("{name}, {cut}"), |bencher| {
                bencher.iter(|| detected(detector(), black_box(&pieces)));
            });
        }
    }
    group.finish();
}

fn writing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("writer, a token");
    group.throughput(Throughput::Elements(TOKENS as u64));
    let answering = Answering::new(&answers::conversation(), Stamp { seed: 7, created: 1_718_000_000 });
    for (name, tokens) in
        [("prose", answers::prose(TOKENS)), ("Markdown and code", answers::markdown(TOKENS))]
    {
        let mut out = BytesMut::with_capacity(4 * READ);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut writer = chat::Writer::new(&answering);
                for token in black_box(&tokens) {
                    out.clear();
                    writer.event(&Event::Text(Cow::Borrowed(token)), &mut out);
                }
                out.len()
            });
        });
    }
    group.finish();
}

/// As many tools as BFCL has, with as many words: their hash, by which their index is found, the ranking for a question,
/// and the index, which is built once for a conversation.
fn tool_search(criterion: &mut Criterion) {
    const TOOLS: usize = 1_437;
    let word = |number: usize| -> String {
        let digits = (number % 1_999).to_string();
        digits.bytes().map(|digit| char::from(digit - b'0' + b'a')).collect::<String>() + "o"
    };
    let text = |seed: usize, words: usize| -> String {
        (0..words).map(|at| word(seed * 31 + at * at) + " ").collect()
    };
    let tool = |number: usize| {
        let property = |at: usize| {
            let about = text(number * 7 + at, 10);
            format!(r#""{}":{{"type":"string","description":"{about}"}}"#, word(number + at * 13))
        };
        let properties: Vec<_> = (0..4).map(property).collect();
        let schema = format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","));
        Tool {
            description: text(number, 14),
            parameters: Json::parse(&schema).ok().map(Into::into),
            ..Tool::named(format!("{}.{}_{number}", word(number), word(number * 3)))
        }
    };
    let tools: Vec<_> = (0..TOOLS).map(tool).collect();
    let (index, hasher) = (ToolIndex::new(&tools), foldhash::quality::RandomState::default());
    let question = text(77, 25);
    let mut group = criterion.benchmark_group("tool search, 1,437 tools");
    group.bench_function("hash", |bencher| {
        bencher.iter(|| ToolIndex::hash_of(black_box(&tools), &hasher));
    });
    group.bench_function("ranking", |bencher| {
        bencher.iter(|| index.best(black_box(&question), 32, |_| true));
    });
    group.bench_function("index", |bencher| bencher.iter(|| ToolIndex::new(black_box(&tools))));
    group.finish();
}
