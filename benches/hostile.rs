//! Detection of what was written to be dear: `.ci/linear` counts its instructions, and fails where they grow faster than
//! the text, or are too many for a byte.
//!
//!     hostile          every case once, and how many there are (`cargo bench`, `cargo test --benches`)
//!     hostile count    every case in both of its sizes, each inside one call of `counted`; a line for each call

#![allow(clippy::print_stdout, reason = "the lines name what is counted")]

mod answers;

use std::{collections::BTreeSet, env, hint::black_box};

use answers::conversation;
use toolwire::{
    detect::Detector,
    event::{Event, Finish, Sink},
    format::{self, Format, Grammar, Known},
    rules::{ArgumentDelivery, Detect, Rules},
    tools::DeclaredTools,
};

/// Bytes of a marker that is repeated: the shorter text; the longer one has four times as many.
const MARKERS: usize = 25_000;

/// Bytes of a beginning of an example that is repeated.
const BEGINNINGS: usize = 4_000;

/// Beginnings of each example.
const CUTS: usize = 8;

/// What no format's table has, but that begins or prolongs something.
const OTHERS: &[&str] = &[
    "{",
    "[",
    "<",
    "`",
    "\n~~~",
    "\n```json\n",
    "{\"a\":",
    "[{",
    "`{",
    "`[get_weather(",
    "[get_weather(",
    "{\"arguments\":{\"x\":[",
    "{\"tool_calls\":[",
    "{\"tool_calls\":",
    "{\"name\":\"search\",\"arguments\":{\"type\":",
    "<pre>{",
];

/// A beginning, and what is repeated behind it, in one format.
const BEHIND: &[(&str, &str, &str)] = &[
    ("qwen3_coder", "<think>", "<tool_call><function=a/*"),
    ("kimi_k2", "<think>", "<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{/*"),
    ("minimax_m1", "<think>", "<tool_calls>{\"a\":/*"),
    ("minimax_m1", "<think>", "<tool_calls>{\"name\":\"search\",\"arguments\":{/*"),
    ("glm45", "<think>", "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>"),
    ("react", "Action: search\nAction Input: x", "\n "),
    ("react", "Action: search\nAction Input: x\n", " "),
    ("react", "Action: search\nAction Input: {}", " "),
    ("react", "Action: search\nAction Input: ", "x"),
    ("react", "Action: search", " "),
    ("kimi_k2", "<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{}", " "),
    ("pythonic", "[search(query=(\"", "a"),
    ("pythonic", "[search(query=[", "(1,2),"),
    ("think", "<think>", "<think>"),
    ("think", "<think>a", "\n"),
    ("harmony", "<|channel|>analysis<|message|>", "<|channel|>"),
    ("qwen3_coder", "<tool_call><function=search>\n<parameter=limit>", "\n"),
    ("qwen3_coder", "<tool_call><function=search>\n<parameter=query>", "</parameter>"),
    ("qwen3_coder", "<tool_call><function=search>\n<parameter=query>", "<parameter="),
    ("qwen3_coder", "<tool_call><function=search>\n<parameter=query>", "</function>"),
    ("hermes", "<tool_call>{\"name\":\"search\",\"arguments\":{\"query\":[1,", " "),
    ("hermes", "<tool_call>{\"name\":\"search\",\"arguments\":{", "/**/"),
    ("hermes", "<tool_call>{\"id\":\"", "\\"),
    ("bare", "{\"name\":\"search\",\"arguments\":{\"type\":\"", "a"),
];

struct Case {
    name: String,
    begins: &'static str,
    unit: String,
    size: usize,
    detect: Detect,
}

impl Case {
    fn new(name: &str, unit: String, size: usize, detect: Detect) -> Self {
        Self { name: name.to_owned(), begins: "", unit, size, detect }
    }

    fn text(&self, times: usize) -> String {
        self.begins.to_owned() + &self.unit.repeat(times * self.size / self.unit.len() + 1)
    }
}

fn main() {
    let counts = env::args().any(|argument| argument == "count");
    let cases = cases();
    for case in &cases {
        for (arguments, step) in [(ArgumentDelivery::Stream, 4096), (ArgumentDelivery::Whole, 1)] {
            for times in [1, if counts { 4 } else { 1 }] {
                let text = if counts { case.text(times) } else { case.unit.clone() };
                let events = run(case, &text, arguments, step);
                if counts {
                    let unit = case.unit.escape_debug();
                    println!(
                        "{}\t{arguments:?}, {step} at a time: {unit}\t{}\t{events}",
                        case.name,
                        text.len()
                    );
                }
            }
        }
    }
    println!("{} cases", cases.len());
}

/// Every marker of every format alone and all together, and beginnings of every example.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut all = BTreeSet::new();
    for &format in format::ALL {
        let own = || Detect::Formats(vec![format.name]);
        let markers = openers(format);
        for marker in &markers {
            cases.push(Case::new(format.name, (*marker).to_owned(), MARKERS, own()));
        }
        if markers.len() > 1 {
            cases.push(Case::new(format.name, markers.iter().copied().collect(), MARKERS, own()));
        }
        all.extend(markers);
        let ends: Vec<usize> = format.example.char_indices().map(|(at, _)| at).skip(1).collect();
        for end in ends.iter().step_by(ends.len().div_ceil(CUTS).max(1)) {
            let unit = format.example.get(..*end).unwrap_or(format.example).to_owned();
            cases.push(Case::new(format.name, unit, BEGINNINGS, own()));
        }
    }
    let auto = |unit: &str| Case::new("auto", unit.to_owned(), MARKERS, Detect::Auto);
    cases.extend(all.iter().copied().chain(OTHERS.iter().copied()).map(auto));
    cases.push(auto(&all.iter().copied().collect::<String>()));
    for (name, begins, unit) in BEHIND {
        let detect = Detect::Formats(format::by_name(name).into_iter().map(|format| format.name).collect());
        cases.push(Case { begins, ..Case::new(name, (*unit).to_owned(), MARKERS, detect) });
    }
    cases
}

/// All markers that the format looks for in prose.
fn openers(format: &'static Format) -> BTreeSet<&'static str> {
    let others = format.grammars.iter().flat_map(|grammar| match grammar {
        Grammar::Reasoning(thoughts) => thoughts.iter().map(|thought| thought.open).collect(),
        Grammar::Channels(channels) => channels.open.iter().map(|(open, _)| *open).collect(),
        Grammar::Frame(marks) => marks.to_vec(),
        _ => Vec::new(),
    });
    format.openers().into_iter().chain(others).filter(|marker| !marker.is_empty()).collect()
}

fn run(case: &Case, text: &str, arguments: ArgumentDelivery, step: usize) -> usize {
    let settings = Rules { detect: case.detect.clone(), arguments, ..Rules::default() };
    let Some(detector) = Detector::new(DeclaredTools::new(&conversation(), ""), &settings, Known::built_in())
    else {
        return 0;
    };
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.ceil_char_boundary(step.min(rest.len())));
        pieces.push(piece);
        rest = tail;
    }
    counted(detector, &pieces)
}

/// What callgrind counts, by this name; gives how many events came out.
#[inline(never)]
fn counted(mut detector: Detector, pieces: &[&str]) -> usize {
    let mut out = Events(0);
    for piece in black_box(pieces) {
        detector.event(Event::Text((*piece).into()), &mut out);
    }
    detector.event(Event::Finish(Finish::Stop), &mut out);
    out.0
}

struct Events(usize);

impl Sink for Events {
    fn event(&mut self, event: Event<'_>) {
        black_box(&event);
        self.0 += 1;
    }
}
