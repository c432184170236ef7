//! Measures the complete pipeline as a multiple of a minimum, which is the work that any proxy must do for each event, done
//! in the simplest way: find the event with memchr, parse it with serde_json into a type that borrows where possible, and
//! write one chunk with a prepared prefix.
//!
//! Also measures whether a byte of a call's arguments costs the same in a long call as in a short one.

#![allow(clippy::print_stdout, reason = "the ratios are the result")]

extern crate toolwire_pipeline as toolwire;

mod answers;
mod turns;

use std::{borrow::Cow, hint::black_box};

use answers::{READ, Upstream};
use bytes::{BufMut, Bytes, BytesMut};
use criterion::{Criterion, Throughput};
use memchr::memchr;
use serde::Deserialize;
use toolwire::{
    conversation::Conversation,
    detect::Detector,
    event::{Event, Finish, Sink},
    format::KnownFormats,
    tools::DeclaredTools,
    wire::json::escape_into,
};
use turns::{Bound, Laps, Work, best, each, tell};

const TOKENS: usize = 2_000;

fn main() {
    if turns::wanted() {
        println!("ns an event: the pipeline, the floor, their ratio");
        compare_with_floor();
        println!("\nns a byte of arguments: 200 KB in one call, 2 KB in each of 100, their ratio");
        compare_lengths();
        println!();
    }
    let mut criterion = Criterion::default().configure_from_args();
    measure(&mut criterion);
    criterion.final_summary();
}

struct Case {
    name: &'static str,
    upstream: Upstream,
    detect: bool,
    verbatim: bool,
    /// Whether the tokens are the arguments of a native call rather than text.
    native: bool,
    /// The maximum cost, as a multiple of the minimum.
    most: f64,
}

impl Case {
    fn all() -> Vec<Self> {
        use Upstream::{Chat, LumoV1, LumoV2, Padded};
        let text = |name, upstream, detect, verbatim, most| Self {
            name,
            upstream,
            detect,
            verbatim,
            native: false,
            most,
        };
        let call = |name, upstream, verbatim, most| Self {
            native: true,
            ..text(name, upstream, true, verbatim, most)
        };
        vec![
            text("lumo v1 → chat, detection", LumoV1, true, false, 2.0),
            text("lumo v2 → chat, detection", LumoV2, true, false, 2.0),
            text("chat → chat, detection, written anew", Chat, true, false, 2.0),
            text("chat → chat, verbatim, no detection", Chat, false, true, 0.5),
            text("chat → chat, verbatim, detection", Chat, true, true, 0.5),
            text("chat → chat, frames all different", Padded, true, true, 2.0),
            text("the same, written anew", Padded, true, false, 2.0),
            call("native call, lumo v2 → chat", LumoV2, false, 2.0),
            call("native call, chat → chat, written anew", Chat, false, 2.0),
            call("native call, chat → chat, verbatim", Chat, true, 2.0),
        ]
    }

    fn frames(&self) -> Vec<String> {
        if !self.native {
            return self.upstream.frames(&answers::prose(TOKENS));
        }
        let arguments = arguments(TOKENS * 5);
        answers::native_call(self.upstream, &answers::pieces(&arguments, 5))
    }

    fn run(&self, conversation: &Conversation, reads: &[Bytes], out: &mut BytesMut) -> usize {
        let pipeline = answers::pipeline(conversation, self.upstream, self.detect, self.verbatim);
        answers::run(pipeline, black_box(reads), out, || {})
    }
}

fn compare_with_floor() {
    let conversation = answers::conversation();
    for case in Case::all() {
        let frames = case.frames();
        let cuts = [("16 KB reads", answers::reads(&frames, READ)), ("one a read", answers::single(&frames))];
        for (cut, reads) in &cuts {
            let (mut out, mut floor_out) =
                (BytesMut::with_capacity(4 * READ), BytesMut::with_capacity(4 * READ));
            let whole: Work<'_> = Box::new(|| case.run(&conversation, reads, &mut out));
            let floor: Work<'_> =
                Box::new(|| Floor::default().run(case.upstream, black_box(reads), &mut floor_out));
            let [whole, floor] = best(turns::rounds(), [whole, floor]);
            let (whole, floor) = (each(whole, TOKENS), each(floor, TOKENS));
            let figures = format!("{whole:.0} ns, floor {floor:.0} ns");
            tell(&format!("{}, {cut}", case.name), &figures, whole / floor, Bound::Most(case.most));
        }
    }
}

/// Does the minimum work on a stream.
#[derive(Default)]
struct Floor {
    /// The start of an incomplete line.
    partial: Vec<u8>,
}

const PREFIX: &[u8] = br#"data: {"id":"chatcmpl-BxYz0123456789abcdef","object":"chat.completion.chunk","created":1718000000,"model":"3b6be88a","choices":[{"index":0,"delta":{"content":""#;
const END: &[u8] = b"\"},\"finish_reason\":null}]}\n\n";

impl Floor {
    fn run(mut self, upstream: Upstream, reads: &[Bytes], out: &mut BytesMut) -> usize {
        let mut total = 0;
        for read in reads {
            let mut rest: &[u8] = read;
            while let Some(end) = memchr(b'\n', rest) {
                let (line, tail) = rest.split_at_checked(end).unwrap_or_default();
                rest = tail.get(1..).unwrap_or_default();
                if self.partial.is_empty() {
                    event(upstream, line, out);
                } else {
                    self.partial.extend_from_slice(line);
                    event(upstream, &self.partial, out);
                    self.partial.clear();
                }
            }
            self.partial.extend_from_slice(rest);
            total += out.len();
            out.clear();
        }
        total
    }
}

fn event(upstream: Upstream, line: &[u8], out: &mut BytesMut) {
    let Some(data) = line.strip_prefix(b"data: ") else { return };
    let chunk = || serde_json::from_slice::<Chunk<'_>>(data).ok().and_then(Chunk::content);
    let content = match upstream {
        Upstream::LumoV1 => serde_json::from_slice::<TokenData<'_>>(data).ok().and_then(TokenData::content),
        Upstream::LumoV2 | Upstream::Chat | Upstream::Padded => chunk(),
    };
    if let Some(content) = content {
        out.put_slice(PREFIX);
        escape_into(out, &content);
        out.put_slice(END);
    }
}

#[derive(Deserialize)]
struct TokenData<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow, default)]
    target: Cow<'a, str>,
    #[serde(default)]
    count: Option<u64>,
    #[serde(borrow, default)]
    content: Cow<'a, str>,
}

impl<'a> TokenData<'a> {
    fn content(self) -> Option<Cow<'a, str>> {
        black_box(self.count);
        (self.kind == "token_data" && self.target == "message").then_some(self.content)
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    object: Cow<'a, str>,
    created: u64,
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: u32,
    #[serde(borrow)]
    delta: Delta<'a>,
    finish_reason: Option<&'a str>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default)]
    role: Option<&'a str>,
    #[serde(borrow, default)]
    content: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_calls: Vec<ToolCall<'a>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    index: u32,
    #[serde(default)]
    id: Option<&'a str>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(default)]
    name: Option<&'a str>,
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
}

impl<'a> Chunk<'a> {
    /// Returns the text of the chunk, or the piece of a call's arguments in it.
    fn content(self) -> Option<Cow<'a, str>> {
        black_box((&self.id, &self.object, self.created, &self.model));
        let choice = self.choices.into_iter().next().filter(|choice| choice.index == 0)?;
        let Delta { role, content, tool_calls } = choice.delta;
        black_box((role, choice.finish_reason));
        let Some(call) = tool_calls.into_iter().next() else { return Some(content) };
        black_box((call.index, call.id, call.function.name));
        Some(call.function.arguments)
    }
}

const SHORT: usize = 2 << 10;
const CALLS: usize = 100;

/// Returns `size` bytes of arguments with the characters that are typical of source code.
fn arguments(size: usize) -> String {
    let line = "    let total = items.iter().map(|item| item.price * item.count).sum();\\n    log(\\\"total\\\");\\n";
    let mut arguments = String::from(r#"{"path":"src/main.rs","content":""#);
    while arguments.len() + line.len() + 2 < size {
        arguments.push_str(line);
    }
    while arguments.len() + 2 < size {
        arguments.push('x');
    }
    arguments.push_str("\"}");
    arguments
}

const FORMATS: [(&str, &str, &str); 4] = [
    ("pre", "<pre>", "</pre>"),
    ("fenced", "```json\n", "\n```"),
    ("bare", "", ""),
    ("hermes", "<tool_call>\n", "\n</tool_call>"),
];

fn written(open: &str, close: &str, size: usize) -> String {
    format!("{open}{{\"name\":\"write_file\",\"arguments\":{}}}{close}", arguments(size))
}

/// Compares one long response with many short ones of the same total size, with one lap per read. The cost of
/// starting a response or a call is not included.
fn compare_lengths() {
    let tools = DeclaredTools::new(&answers::conversation(), "");
    for (format, open, close) in FORMATS {
        let (long, short) = (written(open, close, SHORT * CALLS), written(open, close, SHORT));
        let (long, short) = (answers::pieces(&long, 4), answers::pieces(&short, 4));
        compare(
            &format!("{format}, detector alone"),
            |laps| detect(&tools, black_box(&long), laps),
            |laps| detect(&tools, black_box(&short), laps),
        );
        for (name, upstream) in [("lumo v1", Upstream::LumoV1), ("chat", Upstream::Chat)] {
            let name = format!("{format}, {name} → chat");
            compare_answers(&name, upstream, &upstream.frames(&long), &upstream.frames(&short));
        }
    }
    let (long, short) = (arguments(SHORT * CALLS), arguments(SHORT));
    let (long, short) = (answers::pieces(&long, 4), answers::pieces(&short, 4));
    for (name, upstream) in [("lumo v2", Upstream::LumoV2), ("chat", Upstream::Chat)] {
        let frames = |pieces| answers::native_call(upstream, pieces);
        compare_answers(&format!("native, {name} → chat"), upstream, &frames(&long), &frames(&short));
    }
}

fn compare_answers(name: &str, upstream: Upstream, long: &[String], short: &[String]) {
    let long = answers::reads(long, READ);
    // Each short response is stored separately, like the parts of the long one.
    let short: Vec<_> = (0..CALLS).map(|_| answers::reads(short, READ)).collect();
    let mut shorts = short.iter().cycle();
    let (mut out, mut short_out) = (BytesMut::with_capacity(4 * READ), BytesMut::with_capacity(4 * READ));
    let conversation = answers::conversation();
    let pipeline = || answers::pipeline(&conversation, upstream, true, true);
    compare(
        name,
        |laps| {
            let pipeline = pipeline();
            laps.ready();
            answers::run(pipeline, black_box(&long), &mut out, || laps.lap());
        },
        |laps| {
            let short = shorts.next().map(Vec::as_slice).unwrap_or_default();
            let pipeline = pipeline();
            laps.ready();
            answers::run(pipeline, black_box(short), &mut short_out, || laps.lap());
        },
    );
}

fn compare(name: &str, mut long: impl FnMut(&mut Laps), mut short: impl FnMut(&mut Laps)) {
    let (mut long_laps, mut short_laps) = (Laps::new(), Laps::new());
    for _ in 0..turns::rounds() / 2 {
        long_laps.start();
        long(&mut long_laps);
        short_laps.start();
        (0..CALLS).for_each(|_| short(&mut short_laps));
    }
    let each = |laps: &Laps| each(laps.sum(), SHORT * CALLS);
    let (long, short) = (each(&long_laps), each(&short_laps));
    tell(name, &format!("{long:.1} ns, {short:.1} ns"), long / short, Bound::One(0.2));
}

/// Sums up the sizes of what events carry.
#[derive(Default)]
struct Count(usize);

impl Sink for Count {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.0 += text.len(),
            Event::CallArguments { piece, .. } => self.0 += piece.len(),
            Event::CallEnd { .. } => self.0 += 1 << 32,
            _ => {}
        }
    }
}

/// Pushes a text into a new detector, with one lap per 2 KB.
fn detect(tools: &DeclaredTools, pieces: &[&str], laps: &mut Laps) {
    let Some(mut detector) = Detector::new(tools.clone(), &answers::settings(true), KnownFormats::built_in())
    else {
        return;
    };
    let mut count = Count::default();
    laps.ready();
    for part in pieces.chunks(SHORT / 4) {
        for piece in part {
            detector.event(Event::Text(Cow::Borrowed(piece)), &mut count);
        }
        laps.lap();
    }
    detector.finish(Some(Finish::Stop), &mut count);
    assert_eq!(count.0 >> 32, 1, "one call is found");
}

fn measure(criterion: &mut Criterion) {
    let conversation = answers::conversation();
    let mut group = criterion.benchmark_group("pipeline");
    group.throughput(Throughput::Elements(TOKENS as u64));
    for case in Case::all() {
        let reads = answers::reads(&case.frames(), READ);
        let mut out = BytesMut::with_capacity(4 * READ);
        group.bench_function(case.name, |bencher| {
            bencher.iter(|| case.run(&conversation, &reads, &mut out));
        });
    }
    group.finish();
}
