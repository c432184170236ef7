//! Tests `toolwire conform` against a toolwire that it starts itself, and against gateways that break the rules.

use std::{net::TcpListener, path::Path};

use serde_json::Value;

use crate::support::{Server, run, toolwire};

fn conform(arguments: &[&str]) -> (i32, Value) {
    let all: Vec<_> = ["conform", "--quiet", "--json"].iter().chain(arguments).copied().collect();
    let (status, json, errors) = run(&mut toolwire(&all));
    let report = serde_json::from_str(&json);
    assert!(report.is_ok(), "{report:?}: {json}{errors}");
    (status, report.unwrap_or_default())
}

#[track_caller]
fn assert_all_hold(arguments: &[&str]) -> Value {
    let (status, report) = conform(arguments);
    assert_eq!(status, 0, "{:#}", report["rules"]);
    assert_eq!(report["failures"], serde_json::json!([]));
    report
}

fn categories(report: &Value) -> Vec<&str> {
    let mut names: Vec<_> =
        report["rows"].as_array().unwrap().iter().map(|row| row["category"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn responses_of_every_upstream_dialect_arrive_in_every_client_dialect() {
    let report = assert_all_hold(&["--strict", "--format", "none", "--cuts", "3"]);
    let expected = [
        "cancellation",
        "errors",
        "framing",
        "images",
        "native",
        "reasoning",
        "splits",
        "text",
        "truncation",
        "usage",
        "whole",
    ];
    assert_eq!(categories(&report), expected);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/conformance.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let generated = with_table_of_pairs(&page, &table_of_pairs(&report));
    if std::env::var_os("TOOLWIRE_WRITE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    } else {
        let hint = "write it: TOOLWIRE_WRITE=1 cargo test --test commands of_every_upstream";
        assert!(generated == page, "docs/conformance.md does not have the figures of this run; {hint}");
    }
}

/// The golden files have what other clients get for each fixture.
#[test]
fn recorded_responses_arrive() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let only = ["--only", "*/recorded/*", "--client", "chat", "--fixtures", fixtures.to_str().unwrap()];
    let report = assert_all_hold(&[&["--strict", "--format", "none"], &only[..]].concat());
    assert_eq!(categories(&report), ["recorded"]);
}

fn with_table_of_pairs(page: &str, table: &str) -> String {
    let (before, rest) = page.split_once("\n## Pairs\n").unwrap();
    let (text, rest) = rest.split_once("\n\n|").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    format!("{before}\n## Pairs\n{text}\n\n{table}\n{after}")
}

/// Returns the cases that hold for each pair of dialects: `held`, or `held of all`.
fn table_of_pairs(report: &Value) -> String {
    let list = |value: &Value| value.as_array().unwrap().clone();
    let clients = list(&report["clients"]);
    let names: Vec<_> = clients.iter().map(|client| client.as_str().unwrap()).collect();
    let mut table = format!("| upstream | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let mut rows: Vec<(String, Vec<(u64, u64)>)> = Vec::new();
    for row in list(&report["rows"]) {
        let upstream = row["upstream"].as_str().unwrap();
        if rows.last().is_none_or(|(name, _)| name != upstream) {
            rows.push((upstream.to_owned(), vec![(0, 0); names.len()]));
        }
        let (_, sums) = rows.last_mut().unwrap();
        for ((held, cases), count) in sums.iter_mut().zip(list(&row["counts"])) {
            *held += count["held"].as_u64().unwrap();
            *cases += count["cases"].as_u64().unwrap();
        }
    }
    for (upstream, sums) in rows {
        let cell = |(held, cases): &(u64, u64)| match held == cases {
            true => held.to_string(),
            false => format!("{held} of {cases}"),
        };
        let cells: Vec<_> = sums.iter().map(cell).collect();
        table.push_str(&format!("| {upstream} | {} |\n", cells.join(" | ")));
    }
    table
}

#[test]
fn calls_written_as_text_arrive_in_every_format() {
    let cases = ["--upstream-dialect", "chat", "--client", "chat", "--only", "chat/text-calls/*"];
    let report = assert_all_hold(&[&cases[..], &["--strict", "--cuts", "1"]].concat());
    assert!(report["rows"][0]["counts"][0]["cases"].as_u64().unwrap() > 200, "{:#}", report["rows"]);
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs the command against a gateway that forwards everything unchanged: the mock itself plays that gateway.
fn through_a_relay(dialect: &str, more: &[&str]) -> (i32, Value) {
    let mock = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{mock}/v1");
    let relay =
        ["--target", &url, "--mock-listen", &mock, "--client", dialect, "--upstream-dialect", dialect];
    conform(&[&relay[..], more].concat())
}

#[test]
fn relay_fails_where_only_a_gateway_can_report_an_error() {
    for dialect in ["chat", "messages", "responses"] {
        let (status, report) = through_a_relay(dialect, &["--cuts", "3"]);
        assert_eq!(status, 1);
        let failures = report["failures"].as_array().unwrap();
        assert!(!failures.is_empty());
        for failure in failures {
            let case = failure["case"].as_str().unwrap();
            let is_cut =
                ["truncation/", "whole/cut"].map(|kind| case.starts_with(&format!("{dialect}/{kind}")));
            assert!(is_cut.contains(&true), "{failure:#}");
        }
        let rules: Vec<_> = report["rules"].as_array().unwrap().iter().map(|rule| &rule["rule"]).collect();
        assert_eq!(rules.len(), 2, "{rules:?}");
    }
}

#[test]
fn command_of_a_failure_repeats_it() {
    let (_, report) = through_a_relay("chat", &["--only", "chat/truncation/calls@end=2"]);
    let command = report["failures"][0]["command"].as_str().unwrap();
    let words: Vec<_> = command.split(' ').map(|word| word.trim_matches('\'')).collect();
    let (status, again) = conform(&words[2..]);
    assert_eq!(status, 1);
    assert_eq!(again["failures"], report["failures"], "{command}");
}

#[test]
fn gateway_that_cannot_be_reached_is_reported() {
    let url = format!("http://127.0.0.1:{}/v1", free_port());
    let (status, stdout, stderr) =
        run(&mut toolwire(&["conform", "--target", &url, "--mock-listen", "127.0.0.1:0"]));
    assert_eq!((status, stdout.as_str()), (1, ""));
    assert!(stderr.starts_with(&format!("error: --target {url}: Connection refused")), "{stderr}");
}

#[test]
fn gateway_that_does_not_call_the_mock_is_reported() {
    let gateway = Server::start(&mut toolwire(&["mock", "--generate", "--listen", "127.0.0.1:0"]));
    let target = format!("http://{}/v1", gateway.address);
    let (_, stdout, stderr) = run(&mut toolwire(&[
        "conform",
        "--quiet",
        "--target",
        &target,
        "--mock-listen",
        "127.0.0.1:0",
        "--only",
        "chat/*/short*",
        "--timeout",
        "10s",
    ]));
    // After the first cases and at the end, or only at the end of fewer cases.
    let hints = stderr.matches("got no request: is it the gateway's upstream?").count();
    assert!((1..=2).contains(&hints), "{stderr}");
    assert!(!stdout.contains("Some(") && !stdout.contains("None"), "{stdout}");
}

#[test]
fn cases_are_listed_in_the_same_order_for_the_same_seed() {
    let list = |seed: &str| run(&mut toolwire(&["conform", "--list", "--format", "pre", "--seed", seed]));
    let (status, first, _) = list("1");
    assert_eq!(status, 0);
    assert!(first.lines().any(|name| name.starts_with("chat/splits/calls@cut=")), "{first}");
    assert_eq!(first, list("1").1);
    assert_ne!(first, list("2").1);
}

#[test]
fn page_contains_the_report() {
    let page = tempfile::NamedTempFile::new().unwrap();
    let path = page.path().to_str().unwrap();
    let (status, _) = conform(&["--only", "chat/text/short", "--html", path]);
    assert_eq!(status, 0);
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.contains("toolwire conform") && page.contains(r#"id="report""#));
}

#[test]
fn invalid_selections_are_refused() {
    for arguments in [
        &["--only", "no-such-case"][..],
        &["--format", "hermse"],
        &["--target", "ftp://host"],
        &["--upstream-dialect", "chatt"],
        &["--fixtures", "/nowhere"],
        &["--cuts", "few"],
    ] {
        let all: Vec<_> = ["conform"].iter().chain(arguments).copied().collect();
        let (status, _, errors) = run(&mut toolwire(&all));
        assert_eq!((status, errors.contains("error: ")), (2, true), "{arguments:?}: {errors}");
    }
}
