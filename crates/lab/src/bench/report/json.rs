//! The report as JSON, for `--json` and the HTML page. Its members are those of [`Report`], in the same order;
//! docs/bench.md lists them.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{
    Serializer,
    ser::{CompactFormatter, Formatter},
};

use super::Report;

/// Returns the report as JSON with one member per line, each list on a single line, and a final newline.
pub fn json(report: &Report) -> String {
    in_lines(report)
}

/// Like [`json`], but for any type of report.
pub(crate) fn in_lines(report: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Cannot fail: all keys are strings, and the output goes to memory.
    let written = report.serialize(&mut Serializer::with_formatter(&mut bytes, Layout::default()));
    bytes.push(b'\n');
    written.ok().and_then(|()| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// Writes each member on its own line, but a list on a single line: otherwise a curve of sixty points would take sixty
/// lines.
#[derive(Default)]
struct Layout {
    depth: usize,
    /// Whether the current object already has a member.
    filled: bool,
}

impl Layout {
    fn line(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        write!(out, "\n{:1$}", "", self.depth * 2)
    }
}

impl Formatter for Layout {
    // Rounds to six decimal places: any further digits are noise.
    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        CompactFormatter.write_f64(out, (value * 1e6).round() / 1e6)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        self.line(out)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.filled {
            self.line(out)?;
        }
        out.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use super::{super::example, *};

    #[test]
    fn json_round_trips() {
        let report = example::report();
        assert_eq!(serde_json::from_str::<Report>(&json(&report)).unwrap(), report);
    }

    #[test]
    fn numbers_are_rounded_to_measured_digits() {
        let mut report = example::report();
        report.seconds = 76.0 / 3.0;
        report.overhead.cpu_per_token = 1e15;
        let text = json(&report);
        assert!(text.contains("\"seconds\": 25.333333,"));
        let read = serde_json::from_str::<Report>(&text).unwrap();
        assert!((read.overhead.cpu_per_token / 1e15 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn measures_are_keyed_by_name() {
        let value = serde_json::from_str::<serde_json::Value>(&json(&example::report())).unwrap();
        let metrics = &value["targets"][1]["all"]["metrics"];
        let names = metrics.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(names, ["ttfb", "ttft", "first_call", "last_call", "itl", "tpot", "e2e", "added", "slip"]);
        assert!(metrics["added"]["p99"].is_number());
        assert!(value["targets"][1]["rounds"][0]["metrics"]["added"].get("curve").is_none());
    }

    #[test]
    fn json_has_one_line_per_member_or_curve() {
        let mut report = example::report();
        report.targets[0].complaints.clear();
        let text = json(&report);
        assert!(text.starts_with("{\n  \"version\": \"0.1.0\",\n  \"started\": "), "{text:.80}");
        assert!(text.ends_with("\n}\n"));
        assert!(text.contains("\"complaints\": {}\n"), "an empty object has no line");
        assert!(
            text.lines().any(|line| line.trim_start().starts_with("\"curve\": [[0") && line.ends_with(']'))
        );
    }
}
