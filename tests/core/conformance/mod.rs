//! Runs the conformance cases through the complete pipeline. Each case feeds in an upstream's bytes, and an
//! independent client reads the output. fixtures/conformance/README.md#rules and
//! fixtures/conformance/README.md#notation describe the cases.

mod encryption;
mod formats;
mod latency;
mod lumo;
mod requests;

use serde_json::Value;

/// Published Lumo cases that do not run here, each with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("U02", "`encryption`"),
    ("U03", "`encryption`"),
    ("U06", "`encryption`"),
    ("U07", "`encryption`"),
    ("U09", "`encryption`"),
    ("O04", "needs a server: the proxy's tests"),
    ("O06", "needs a server: the proxy's tests of accounts"),
    ("O07", "needs a server"),
    ("O12", "needs a server"),
    ("O14", "needs a server"),
    ("O18", "needs a server"),
    ("C10", "the Responses dialect is not built"),
    ("C11", "the proxy's tests"),
    ("L05", "not a table: the laws' tests"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Text sent by every kind of upstream.
    Text,
    /// Events sent by one kind of upstream.
    Events,
    /// A client's request and the upstream request that must result.
    Request,
    /// Pieces of text, and how much must have been released after each.
    Latency,
    /// Text in one format.
    Format,
    Elsewhere,
}

impl Kind {
    fn of(case: &Value) -> Self {
        let has = |key: &str| !case[key].is_null();
        match () {
            () if ELSEWHERE.iter().any(|(name, _)| *name == id(case)) => Self::Elsewhere,
            () if has("format") => Self::Format,
            () if has("in") => Self::Text,
            () if has("ev") || has("raw") => Self::Events,
            () if has("pieces") => Self::Latency,
            () if has("messages") || has("same_as") => Self::Request,
            () => panic!("no kind of case: {case}"),
        }
    }
}

fn id(case: &Value) -> &str {
    case["id"].as_str().expect("an id")
}

fn parse(file: &'static str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let cases: Vec<Value> = file.lines().map(parse).collect();
    for (n, case) in cases.iter().enumerate() {
        assert!(cases[..n].iter().all(|other| id(other) != id(case)), "{} twice", id(case));
    }
    cases
}

fn published() -> Vec<Value> {
    parse(include_str!("../../../fixtures/conformance/lumo.jsonl"))
}

fn own() -> Vec<Value> {
    parse(include_str!("../../../fixtures/conformance/own.jsonl"))
}

/// Runs all published cases of `kind`, and returns how many there are.
fn run(kind: Kind, test: fn(&Value)) -> usize {
    run_all(of_kind(published(), kind), test)
}

/// Runs all unpublished cases of `kind`, and returns how many there are.
fn run_own(kind: Kind, test: fn(&Value)) -> usize {
    run_all(of_kind(own(), kind), test)
}

fn of_kind(cases: Vec<Value>, kind: Kind) -> Vec<Value> {
    cases.into_iter().filter(|case| Kind::of(case) == kind).collect()
}

/// Runs the remaining cases even if one fails.
fn run_all(cases: Vec<Value>, test: fn(&Value)) -> usize {
    let fails = |case: &&Value| std::panic::catch_unwind(|| test(case)).is_err();
    let failed: Vec<&str> = cases.iter().filter(fails).map(id).collect();
    assert!(failed.is_empty(), "{} of {} cases fail: {failed:?}", failed.len(), cases.len());
    cases.len()
}

#[test]
fn every_published_case_is_accounted_for() {
    let counts = [Kind::Text, Kind::Events, Kind::Request, Kind::Latency, Kind::Elsewhere];
    let counts = counts.map(|kind| run(kind, |_| {}));
    assert_eq!((counts, counts.iter().sum()), ([47, 48, 7, 2, 14], 118));
}
