//! Checks that all queries of the dashboard and the alerts use existing metrics and labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use regex::Regex;
use serde_json::Value;

use super::*;
use toolwire_config::{Overrides, load};
use toolwire_execution::audit::CallRecord;
use toolwire_pipeline::pipeline::{CallTally, Reason};

/// Creates metrics with one sample each, so that their labels appear.
fn filled() -> Metrics {
    let metrics = Metrics::new(true);
    let (model, upstream) = ("m".to_owned(), "up".to_owned());
    metrics.request("chat", Some("m"), 200);
    metrics.key_request("key", Some("m"), 200, (1, 1));
    metrics.first_byte("m", Duration::from_secs(1));
    metrics.upstream_error("up", Kind::Timeout);
    let calls = vec![CallTally { format: "native", name: None }];
    let tally = Tally {
        calls,
        follow_ups: vec![Reason::Hosted],
        input_tokens: Some(1),
        output_tokens: Some(1),
        ..Tally::default()
    };
    metrics.tally(&tally);
    metrics.tokens("m", "up", &tally);
    metrics.series.skipped.get_or_create(&skipped::Labels { upstream, reason: "malformed" }).inc();
    metrics.waiting("up");
    metrics.attempt("m", None);
    let files = metrics.store_files();
    files.unwritten.get_or_create(&[("file", "store.redb")]).set(1);
    files.damaged.get_or_create(&[("file", "store.redb")]).inc();
    metrics.config_loaded(2, 1);
    metrics.series.tls_certificate_expiry_seconds.get_or_create(&[]).set(1);
    let call = CallRecord::new("c", "search", "{}", None);
    let provider = Some("p".into());
    let event = AuditEvent::ToolResult {
        call,
        provider,
        result: None,
        details: None,
        code: None,
        millis: 1,
        is_cached: false,
    };
    metrics.hosted(&Record { sequence: 1, t: 1, subject: None, event });
    metrics.series.telemetry_failed_exports.get_or_create(&vec![("signal", "traces")]).inc();
    let config = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://h/v1\"\n[[models]]\nname = \"m\"\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), config).unwrap();
    let overrides = Overrides { file: Some(file.path().to_owned()), ..Overrides::default() };
    let config = load(&overrides, &|_| None).unwrap().config;
    metrics.model_request(&Measured {
        model: &model,
        upstream: &config.upstreams[0],
        duration: 1.0,
        first_chunk: Some(1.0),
        per_chunk: Some(1.0),
        error: Some("timeout"),
        tokens: (Some(1), Some(1)),
    });
    metrics
}

/// Returns all series with their labels, including the labels that Prometheus adds to each target.
fn series() -> BTreeMap<String, BTreeSet<String>> {
    let mut series = BTreeMap::<_, BTreeSet<String>>::new();
    let (name, label) = (Regex::new("^[a-z_]+").unwrap(), Regex::new("([a-z_]+)=\"").unwrap());
    for line in filled().text().lines().filter(|line| !line.starts_with('#')) {
        let labels = series.entry(name.find(line).unwrap().as_str().to_owned()).or_default();
        labels.extend(label.captures_iter(line).map(|label| label[1].to_owned()));
        labels.extend(["job", "instance"].map(str::to_owned));
    }
    series
}

/// Returns what is wrong with a query, if anything.
fn wrong(query: &str, series: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let metric = Regex::new("([a-zA-Z_:][a-zA-Z0-9_:]*)\\{([^}]*)\\}").unwrap();
    let label = Regex::new("([a-zA-Z_]+)(=~|!~|!=|=)\"").unwrap();
    let by = Regex::new("(?:by|without|on|ignoring) ?\\(([^)]*)\\)").unwrap();
    let own = Regex::new("\\b(?:toolwire|gen_ai_client)_[a-z_]+").unwrap();
    let mut known = BTreeSet::new();
    let mut selected = 0;
    for found in metric.captures_iter(query) {
        let Some(labels) = series.get(&found[1]) else { return Some(format!("no metric {}", &found[1])) };
        selected += 1;
        known.extend(labels.iter().map(String::as_str));
        for matcher in label.captures_iter(&found[2]) {
            if !labels.contains(&matcher[1]) {
                return Some(format!("{} has no label {}", &found[1], &matcher[1]));
            }
        }
    }
    let named = own.find_iter(query).filter(|name| !known.contains(name.as_str())).count();
    if named != selected || selected == 0 {
        return Some("a metric without a selector, or none".to_owned());
    }
    let groups = by.captures_iter(query).map(|group| group[1].to_owned()).collect::<Vec<_>>();
    let mut grouped = groups.iter().flat_map(|group| group.split(',').map(str::trim));
    grouped.find(|label| !known.contains(label)).map(|label| format!("no label {label}"))
}

fn file(name: &str) -> String {
    fs::read_to_string(crate::repository::root().join("deploy/grafana").join(name)).unwrap()
}

#[test]
fn queries_of_the_dashboard_name_metrics_and_labels_that_exist() {
    let (series, dashboard) = (series(), file("toolwire.json"));
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let legend = Regex::new("\\{\\{([a-z_]+)\\}\\}").unwrap();
    let mut queries = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = &panel["title"];
        if panel["type"] == "row" {
            continue;
        }
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{title}");
        assert!(!panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap().is_empty(), "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            assert_eq!(wrong(query, &series), None, "{title}: {query}");
            for shown in legend.captures_iter(target["legendFormat"].as_str().unwrap()) {
                assert!(query.contains(&shown[1]), "{title}: {}", &shown[1]);
            }
            queries += 1;
        }
    }
    assert!(queries > 30);
    let arguments = Regex::new("^label_values\\((.*), ([a-z_]+)\\)$").unwrap();
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["query"]["query"].as_str() else { continue };
        let found = arguments.captures(query).unwrap();
        let name = found[1].split('{').next().unwrap();
        assert!(series[name].contains(&found[2]), "{query}");
    }
    for note in dashboard["annotations"]["list"].as_array().unwrap() {
        assert_eq!(wrong(note["expr"].as_str().unwrap(), &series), None);
    }
}

#[test]
fn alerts_name_metrics_and_labels_that_exist() {
    let (series, rules) = (series(), file("alerts.yaml"));
    let queries: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert!(queries.len() > 5);
    for query in queries {
        assert_eq!(wrong(query, &series), None, "{query}");
    }
}

#[test]
fn queries_that_name_nothing_are_found() {
    let series = series();
    for query in [
        "sum(rate(toolwire_request_total{job=\"a\"}[5m]))",
        "sum(rate(toolwire_requests_total{upstream=\"a\"}[5m]))",
        "sum by (upstream) (rate(toolwire_requests_total{model=\"a\"}[5m]))",
        "sum(toolwire_requests_total)",
        "sum(rate(other_metric{job=\"a\"}[5m]))",
        "1",
    ] {
        assert!(wrong(query, &series).is_some(), "{query}");
    }
}
