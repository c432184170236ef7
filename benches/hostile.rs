//! Runs inputs that were written to be expensive: texts in which calls are detected, and requests that are translated.
//! `.ci/linear` counts the work, which must not grow faster than the input.
//!
//!     hostile                          every sampled case once, one unit long (`cargo bench`, `cargo test --benches`)
//!     hostile count CASES PART/PARTS   every PARTS-th case, in two lengths; one line of output for each run
//!
//! CASES is one of
//!
//!     sampled    every marker of every format, some prefixes of every example, and mixtures of both
//!     all        the same with every prefix of every example, in the full length
//!     few        one short mixture per format, for slow counters
//!     requests   requests with very many small parts, for each upstream
//!     few-requests   the same with fewer parts, for slow counters

#![allow(clippy::print_stdout, reason = "the lines name what is counted")]

extern crate toolwire_pipeline as toolwire;

mod answers;
#[path = "hostile/requests.rs"]
mod requests;

use std::{collections::BTreeSet, env, fs, hint::black_box, process};

use answers::conversation;
use toolwire::{
    detect::Detector,
    event::{Event, Finish, Sink},
    format::{self, Format, Grammar, KnownFormats},
    rules::{ArgumentDelivery, Detect, Rules},
    tools::DeclaredTools,
};

/// The length, in bytes, of the shorter text for a repeated marker.
const MARKERS: usize = 50_000;

/// The same if every case is counted in its full length.
const FULL: usize = 100_000;

/// The length, in bytes, of the shorter text for a sampled prefix of an example. Work that is quadratic up to a
/// limit on held text is visible as growth in short texts and as a high cost per byte in long texts.
const BEGINNINGS: usize = 10_000;

/// The length, in bytes, of the shorter text for slow counters.
const FEW: usize = 5_000;

/// How many times as long the longer text is.
const LONGER: usize = 4;

/// How many prefixes of each example are sampled.
const CUTS: usize = 8;

/// Fragments that no table of a format contains but that may start or continue a construct.
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

/// A format, a prefix, and the text that is repeated after the prefix.
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

fn main() {
    let mut arguments = env::args().skip_while(|argument| argument != "count").skip(1);
    let Some(selection) = arguments.next() else {
        requests::Case::all().iter().for_each(|case| counted_request(case, &case.text(1)));
        let cases = Selection::Sampled.cases();
        for case in &cases {
            for mode in MODES {
                run(case, &case.unit, mode);
            }
        }
        println!("{} cases", cases.len());
        return;
    };
    let parts = arguments.next().unwrap_or_else(|| "0/1".to_owned());
    let parts =
        parts.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    let number = match selection.as_str() {
        "requests" => Some(requests::MANY),
        "few-requests" => Some(requests::FEW),
        _ => None,
    };
    if let Some((number, parts)) = number.zip(parts) {
        return count_requests(number, parts);
    }
    let (Some(selection), Some((part, parts))) = (Selection::named(&selection), parts) else {
        println!("usage: hostile count sampled|all|few|requests|few-requests PART/PARTS");
        process::exit(2);
    };
    for case in selection.cases().iter().skip(part).step_by(parts) {
        for mode in MODES {
            for times in [1, LONGER] {
                let text = case.text(times);
                let steps = run(case, &text, mode);
                let unit: String = case.unit.escape_debug().take(120).collect();
                let Mode { arguments, piece } = mode;
                println!("{}\t{arguments:?}, {piece} at a time: {unit}\t{}\t{steps}", case.name, text.len());
            }
        }
    }
}

/// Counts the work for requests with `number` repetitions and for longer ones.
fn count_requests(number: usize, (part, parts): (usize, usize)) {
    for case in requests::Case::all().iter().skip(part).step_by(parts) {
        for times in [1, LONGER] {
            let text = case.text(number * times);
            let before = steps();
            counted_request(case, &text);
            println!("{}\t{}\t{}\t{}", case.name(), case.shape, text.len(), steps() - before);
        }
    }
}

#[derive(Clone, Copy)]
struct Mode {
    arguments: ArgumentDelivery,
    /// The size of a piece in bytes.
    piece: usize,
}

const MODES: [Mode; 2] = [
    Mode { arguments: ArgumentDelivery::Stream, piece: 4096 },
    Mode { arguments: ArgumentDelivery::Whole, piece: 1 },
];

/// A text, and the formats to detect in it.
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

#[derive(Clone, Copy, PartialEq)]
enum Selection {
    Sampled,
    All,
    Few,
}

impl Selection {
    fn named(name: &str) -> Option<Self> {
        match name {
            "sampled" => Some(Self::Sampled),
            "all" => Some(Self::All),
            "few" => Some(Self::Few),
            _ => None,
        }
    }

    /// Returns some or all prefixes of a format's example.
    fn beginnings(self, example: &'static str) -> Vec<&'static str> {
        let ends: Vec<usize> = example.char_indices().map(|(at, _)| at).skip(1).collect();
        let step = if self == Self::All { 1 } else { ends.len().div_ceil(CUTS).max(1) };
        ends.iter().step_by(step).filter_map(|end| example.get(..*end)).collect()
    }

    /// The length, in bytes, of the shorter text for a repeated marker.
    fn marker_size(self) -> usize {
        match self {
            Self::Few => FEW,
            Self::Sampled => MARKERS,
            Self::All => FULL,
        }
    }

    fn cases(self) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut all = BTreeSet::new();
        let mut everything = String::new();
        for &format in format::ALL {
            let own = || Detect::Formats(vec![format.name]);
            let (markers, beginnings) = (openers(format), self.beginnings(format.example));
            let mixture = mixture(&markers, &beginnings);
            if self == Self::Few {
                cases.push(Case::new(format.name, mixture, FEW, own()));
                continue;
            }
            for marker in &markers {
                cases.push(Case::new(format.name, (*marker).to_owned(), self.marker_size(), own()));
            }
            if markers.len() > 1 {
                cases.push(Case::new(
                    format.name,
                    markers.iter().copied().collect(),
                    self.marker_size(),
                    own(),
                ));
            }
            let size = if self == Self::All { FULL } else { BEGINNINGS };
            for unit in &beginnings {
                cases.push(Case::new(format.name, (*unit).to_owned(), size, own()));
            }
            cases.push(Case::new(format.name, mixture.clone(), size, own()));
            cases.push(Case::new("auto", mixture.clone(), size, Detect::Auto));
            all.extend(markers);
            everything.push_str(&mixture);
        }
        let size = self.marker_size();
        let auto = |unit: &str| Case::new("auto", unit.to_owned(), size, Detect::Auto);
        cases.extend(all.iter().copied().chain(OTHERS.iter().copied()).map(auto));
        if self != Self::Few {
            cases.push(auto(&all.iter().copied().collect::<String>()));
            cases.push(auto(&everything));
        }
        for (name, begins, unit) in BEHIND {
            let detect =
                Detect::Formats(format::by_name(name).into_iter().map(|format| format.name).collect());
            cases.push(Case { begins, ..Case::new(name, (*unit).to_owned(), size, detect) });
        }
        cases
    }
}

/// Joins all markers and prefixes of examples.
fn mixture(markers: &BTreeSet<&'static str>, beginnings: &[&'static str]) -> String {
    let mut mixed = String::new();
    let mut turns = markers.iter().copied().cycle();
    for beginning in beginnings {
        mixed.push_str(beginning);
        mixed.push_str(turns.next().unwrap_or_default());
    }
    mixed
}

fn openers(format: &'static Format) -> BTreeSet<&'static str> {
    let others = format.grammars.iter().flat_map(|grammar| match grammar {
        Grammar::Reasoning(thoughts) => thoughts.iter().map(|thought| thought.open).collect(),
        Grammar::Channels(channels) => channels.open.iter().map(|(open, _)| *open).collect(),
        Grammar::Frame(marks) => marks.to_vec(),
        _ => Vec::new(),
    });
    format.openers().into_iter().chain(others).filter(|marker| !marker.is_empty()).collect()
}

/// Reads a text. Returns the number of counted steps, or 0 if they are not counted.
fn run(case: &Case, text: &str, mode: Mode) -> u64 {
    let rules = Rules { detect: case.detect.clone(), arguments: mode.arguments, ..Rules::default() };
    let Some(detector) =
        Detector::new(DeclaredTools::new(&conversation(), ""), &rules, KnownFormats::built_in())
    else {
        return 0;
    };
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.ceil_char_boundary(mode.piece.min(rest.len())));
        pieces.push(piece);
        rest = tail;
    }
    let before = steps();
    counted(detector, &pieces);
    steps() - before
}

/// Returns how many steps `benches/hostile/steps.c` has counted so far, if the program was built with it.
fn steps() -> u64 {
    let Some(file) = env::var_os("TOOLWIRE_STEPS") else { return 0 };
    fs::read(file).ok().and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?))).unwrap_or_default()
}

/// callgrind counts instructions only inside this function, which it finds by name.
#[inline(never)]
fn counted(mut detector: Detector, pieces: &[&str]) {
    for piece in black_box(pieces) {
        detector.event(Event::Text((*piece).into()), &mut Nowhere);
    }
    detector.event(Event::Finish(Finish::Stop), &mut Nowhere);
}

/// callgrind counts instructions only inside this function, which it finds by name.
#[inline(never)]
fn counted_request(case: &requests::Case, text: &str) {
    case.translate(black_box(text));
}

struct Nowhere;

impl Sink for Nowhere {
    fn event(&mut self, event: Event<'_>) {
        black_box(&event);
    }
}
