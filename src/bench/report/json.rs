//! The report as JSON: what `--json` writes and the page carries. Its members and their order are those of [`Report`];
//! docs/bench.md lists them.

use super::Report;

/// The report, indented, with a line end behind it.
pub fn json(report: &Report) -> String {
    // Strings and numbers under string keys: nothing in it can fail to be written.
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::{super::example, *};

    #[test]
    fn a_round_trip_changes_nothing() {
        let report = example::report();
        assert_eq!(serde_json::from_str::<Report>(&json(&report)).unwrap(), report);
    }

    #[test]
    fn measures_stand_under_their_names() {
        let value = serde_json::from_str::<serde_json::Value>(&json(&example::report())).unwrap();
        let metrics = &value["targets"][1]["all"]["metrics"];
        let names = metrics.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(names, ["ttfb", "ttft", "first_call", "last_call", "itl", "tpot", "e2e", "added", "slip"]);
        assert!(metrics["added"]["p99"].is_number());
        assert!(value["targets"][1]["rounds"][0]["metrics"]["added"].get("curve").is_none());
    }
}
