//! The report as CSV in long form, one figure per line, for spreadsheets and data frames:
//!
//! ```text
//! target,round,measure,statistic,value,unit
//! nginx,all,added,p99,412.5,us
//! nginx,3,good,count,200,streams
//! nginx,all,added_p99,ratio_median,1.31,ratio
//! ```
//!
//! `round` is `all` or a number from 1. The rows of target `(tool)` are the tool's own costs, those of `(baseline)` the
//! results of the baseline.

use super::{Distribution, Overhead, Process, Ramp, Ratio, Report, Summary, Target};

const HEAD: [&str; 6] = ["target", "round", "measure", "statistic", "value", "unit"];

/// Writes the report's figures as CSV. Only the JSON contains curves, timelines and complaints.
///
/// # Errors
///
/// Never in practice: the CSV is written to memory.
pub fn csv(report: &Report) -> Result<Vec<u8>, csv::Error> {
    let mut lines = Lines(csv::Writer::from_writer(Vec::new()));
    lines.0.write_record(HEAD)?;
    lines.overhead(&report.overhead)?;
    if let Some(baseline) = &report.baseline {
        lines.target("(baseline)", baseline)?;
    }
    for target in &report.targets {
        lines.target(&target.name, target)?;
    }
    for ratio in &report.ratios {
        lines.ratio(ratio)?;
    }
    for ramp in &report.ramps {
        lines.ramp(ramp)?;
    }
    lines.0.into_inner().map_err(|error| error.into_error().into())
}

struct Lines(csv::Writer<Vec<u8>>);

impl Lines {
    fn line(
        &mut self,
        at: (&str, &str),
        measure: &str,
        statistic: &str,
        value: f64,
        unit: &str,
    ) -> csv::Result<()> {
        self.0.write_record([at.0, at.1, measure, statistic, &value.to_string(), unit])
    }

    fn count(&mut self, at: (&str, &str), measure: &str, value: u64, unit: &str) -> csv::Result<()> {
        self.0.write_record([at.0, at.1, measure, "count", &value.to_string(), unit])
    }

    fn target(&mut self, name: &str, target: &Target) -> csv::Result<()> {
        self.summary((name, "all"), &target.all)?;
        for (index, round) in target.rounds.iter().enumerate() {
            self.summary((name, &(index + 1).to_string()), round)?;
        }
        Ok(())
    }

    fn summary(&mut self, at: (&str, &str), summary: &Summary) -> csv::Result<()> {
        for (measure, value, unit) in [
            ("streams", summary.streams, "streams"),
            ("good", summary.good, "streams"),
            ("refused", summary.refused, "streams"),
            ("failed", summary.failed, "streams"),
            ("broken", summary.broken, "streams"),
            ("malformed", summary.malformed, "streams"),
            ("unsent", summary.unsent, "streams"),
            ("tokens", summary.tokens, "tokens"),
            ("bytes", summary.bytes, "bytes"),
            ("gaps", summary.gaps, "gaps"),
        ] {
            self.count(at, measure, value, unit)?;
        }
        self.line(at, "duration", "value", summary.seconds, "s")?;
        self.line(at, "tokens_per_second", "value", summary.tokens_per_second, "tokens/s")?;
        self.line(at, "streams_per_second", "value", summary.streams_per_second, "streams/s")?;
        for (metric, distribution) in &summary.metrics {
            self.distribution(at, metric.name(), distribution)?;
        }
        summary.process.as_ref().map_or(Ok(()), |process| self.process(at, process))
    }

    fn distribution(
        &mut self,
        at: (&str, &str),
        measure: &str,
        distribution: &Distribution,
    ) -> csv::Result<()> {
        self.count(at, measure, distribution.count, "values")?;
        distribution
            .statistics()
            .into_iter()
            .try_for_each(|(statistic, value)| self.line(at, measure, statistic, value, "us"))
    }

    fn process(&mut self, at: (&str, &str), process: &Process) -> csv::Result<()> {
        self.count(at, "open_streams", process.open_streams, "streams")?;
        self.line(at, "cpu", "value", process.cpu_seconds, "s")?;
        self.line(at, "cpu_per_token", "value", process.cpu_per_token, "us")?;
        self.line(at, "memory_idle", "value", process.idle_kib, "KiB")?;
        self.line(at, "memory_peak", "value", process.peak_kib, "KiB")?;
        self.line(at, "kib_per_stream", "value", process.kib_per_stream, "KiB")
    }

    fn overhead(&mut self, overhead: &Overhead) -> csv::Result<()> {
        let at = ("(tool)", "all");
        self.line(at, "cpu_per_token", "value", overhead.cpu_per_token, "us")?;
        self.line(at, "clock", "value", overhead.clock_ns, "ns")?;
        self.line(at, "parse", "value", overhead.parse_ns, "ns")?;
        overhead.start_lag.as_ref().map_or(Ok(()), |lag| self.distribution(at, "start_lag", lag))
    }

    fn ratio(&mut self, ratio: &Ratio) -> csv::Result<()> {
        let at = (ratio.target.as_str(), "all");
        self.line(at, &ratio.measure, "ratio_median", ratio.median, "ratio")?;
        self.line(at, &ratio.measure, "ratio_min", ratio.min, "ratio")?;
        self.line(at, &ratio.measure, "ratio_max", ratio.max, "ratio")
    }

    fn ramp(&mut self, ramp: &Ramp) -> csv::Result<()> {
        let at = (ramp.target.as_str(), "all");
        for step in &ramp.steps {
            let measure = format!("ramp_{}", step.streams);
            self.line(at, &measure, "held", if step.held { 1.0 } else { 0.0 }, "bool")?;
        }
        ramp.streams.map_or(Ok(()), |streams| self.count(at, "ramp", streams, "streams"))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::example, *};

    type Line = (String, String, String, String, f64, String);

    fn read(bytes: &[u8]) -> Vec<Line> {
        csv::Reader::from_reader(bytes).deserialize().collect::<Result<_, _>>().unwrap()
    }

    fn find<'a>(lines: &'a [Line], key: [&str; 4]) -> Vec<&'a Line> {
        lines.iter().filter(|line| [&line.0, &line.1, &line.2, &line.3] == key.map(|part| part)).collect()
    }

    #[test]
    fn every_figure_is_in_the_csv() {
        let report = example::report();
        let lines = read(&csv(&report).unwrap());
        for target in &report.targets {
            let summaries = [("all".to_owned(), &target.all)].into_iter();
            let rounds =
                target.rounds.iter().enumerate().map(|(index, round)| ((index + 1).to_string(), round));
            for (round, summary) in summaries.chain(rounds) {
                let good = find(&lines, [&target.name, &round, "good", "count"]);
                assert_eq!(good.len(), 1);
                assert!((good[0].4 - summary.good as f64).abs() < f64::EPSILON);
                for (metric, distribution) in &summary.metrics {
                    let p99 = find(&lines, [&target.name, &round, metric.name(), "p99"]);
                    assert_eq!(p99.len(), 1);
                    assert_eq!((p99[0].4, p99[0].5.as_str()), (distribution.p99, "us"));
                }
            }
        }
        for ratio in &report.ratios {
            let found = find(&lines, [&ratio.target, "all", &ratio.measure, "ratio_median"]);
            assert_eq!(found.iter().map(|line| line.4).collect::<Vec<_>>(), [ratio.median]);
        }
        assert_eq!(find(&lines, ["(tool)", "all", "start_lag", "p99"]).len(), 1);
        assert_eq!(find(&lines, ["(baseline)", "all", "ttfb", "p50"]).len(), 1);
    }

    #[test]
    fn names_with_commas_quotes_and_line_ends_stay_one_field() {
        let mut report = example::report();
        report.targets[0].name = "a,\"b\"\nc".to_owned();
        let lines = read(&csv(&report).unwrap());
        assert_eq!(find(&lines, ["a,\"b\"\nc", "all", "good", "count"]).len(), 1);
    }
}
