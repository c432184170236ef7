//! Tests that `auto` is safe: text without calls passes unchanged even if tools are declared.

use toolwire::rules::Detect;

use crate::formats::found::find;

/// Markdown, HTML, LaTeX, JSON documents, chat logs about tool calling, and source code in more than ten languages.
/// Each sample is one response.
const SAMPLES: &str = include_str!("samples.txt");

/// Real files that were not written for this test.
const FOUND: &[&str] = &[
    include_str!("../../../LICENSE-APACHE"),
    include_str!("../../../CONTRIBUTING.md"),
    include_str!("../../../Cargo.toml"),
    include_str!("../../../crates/wire/src/json/scanner.rs"),
    include_str!("../../../crates/wire/src/sse.rs"),
    include_str!("../../../crates/http1/src/response.rs"),
    include_str!("../../../crates/dialects/src/fields.rs"),
    include_str!("../../../crates/pipeline/src/pipeline/calls/mod.rs"),
];

fn texts() -> Vec<&'static str> {
    SAMPLES.split("\n=====\n").chain(FOUND.iter().copied()).collect()
}

/// Splits `text` into pieces of a few bytes, with sizes that depend on `seed`.
fn pieces(text: &str, seed: usize) -> impl Iterator<Item = &str> {
    let (mut rest, mut step) = (text, seed);
    std::iter::from_fn(move || {
        step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut at = (1 + (step >> 33) % 23).min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (piece, behind) = rest.split_at(at);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

fn goes_through(text: &str, seed: usize) {
    let found = find(Detect::Auto, pieces(text, seed));
    assert_eq!(found.calls, [], "{text}");
    assert_eq!(found.reasoning, "", "{text}");
    if found.text != text {
        let at = found.text.bytes().zip(text.bytes()).take_while(|(one, other)| one == other).count();
        let from = (0..=at).rev().find(|&from| text.is_char_boundary(from)).unwrap_or_default();
        panic!("differs at byte {at}: {:?}", text[from..].chars().take(80).collect::<String>());
    }
}

#[test]
fn text_without_calls_passes_unchanged() {
    let texts = texts();
    assert!(texts.iter().map(|text| text.len()).sum::<usize>() > 60_000);
    for (seed, text) in texts.iter().enumerate() {
        goes_through(text, seed);
        // These lines would be calls if they were not inside a fence.
        let is_call = |line: &&str| {
            line.ends_with(r#""arguments": {"city": "Paris"}}"#) || line.starts_with("<invoke name=")
        };
        for (at, line) in text.lines().filter(|line| !is_call(line)).enumerate() {
            goes_through(line, at);
        }
    }
}

#[test]
fn megabyte_of_text_passes_unchanged() {
    let texts = texts();
    let mut long = String::new();
    let mut turn = 0;
    while long.len() < 1 << 20 {
        // Each round uses a different order.
        long.push_str(texts[(turn * 7 + turn / texts.len()) % texts.len()]);
        long.push_str("\n\n");
        turn += 1;
    }
    goes_through(&long, 1);
}
