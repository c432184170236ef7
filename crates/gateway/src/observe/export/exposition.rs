//! Reads metrics from the text that `/metrics` shows.
//!
//! The text is the only form in which the registry exposes its values. Exporting it also ensures that the collector and
//! `/metrics` show the same numbers, and that nothing has to be counted twice.

use std::time::SystemTime;

use super::otlp::{Data, HistogramPoint, KeyValue, Metric, NumberPoint, nanos};
use crate::observe::gen_ai;

/// Parses the metrics in `text`, which were counted from `began` until `now`. Unknown lines are ignored.
pub(super) fn metrics(text: &str, began: SystemTime, now: SystemTime) -> Vec<Metric> {
    let mut reading = Reading { times: (nanos(began), nanos(now)), name: "", metrics: Vec::new() };
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(comment) => reading.comment(comment),
            None => _ = reading.sample(line),
        }
    }
    let mut metrics = reading.metrics;
    metrics.retain(|metric| match &metric.data {
        Some(Data::Gauge(gauge)) => !gauge.points.is_empty(),
        Some(Data::Sum(sum)) => !sum.points.is_empty(),
        Some(Data::Histogram(histogram)) => !histogram.points.is_empty(),
        None => false,
    });
    metrics
}

struct Reading<'t> {
    times: (u64, u64),
    /// The name of the metric that is being read.
    name: &'t str,
    metrics: Vec<Metric>,
}

impl<'t> Reading<'t> {
    /// Parses `HELP name text`, which starts a metric, and `TYPE name kind`, which sets its type.
    fn comment(&mut self, comment: &'t str) {
        let mut words = comment.splitn(3, ' ');
        let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else { return };
        match (word, self.metrics.last_mut()) {
            ("HELP", _) => {
                self.name = name;
                let (name, unit) = own_name(name);
                let description = rest.trim_end_matches('.').to_owned();
                self.metrics.push(Metric { name, description, unit: unit.to_owned(), data: None });
            }
            ("TYPE", Some(metric)) => metric.data = Data::of(rest),
            _ => {}
        }
    }

    /// Parses `name{label="value",…} number`.
    fn sample(&mut self, line: &str) -> Option<()> {
        let rest = line.strip_prefix(self.name)?;
        let open = rest.find(['{', ' '])?;
        let (suffix, rest) = rest.split_at_checked(open)?;
        let (labels, rest) = labels(rest)?;
        let number: f64 = rest.trim_start().split(' ').next()?.parse().ok()?;
        let (start, time) = self.times;
        let (bound, attributes) = attributes(labels);
        match self.metrics.last_mut()?.data.as_mut()? {
            Data::Gauge(gauge) => gauge.points.push(NumberPoint {
                start_time_unix_nano: 0,
                time_unix_nano: time,
                value: Some(number),
                attributes,
            }),
            Data::Sum(sum) => sum.points.push(NumberPoint {
                start_time_unix_nano: start,
                time_unix_nano: time,
                value: Some(number),
                attributes,
            }),
            Data::Histogram(histogram) => {
                let last = histogram.points.last().filter(|point| point.attributes == attributes);
                if last.is_none() {
                    histogram.points.push(HistogramPoint {
                        start_time_unix_nano: start,
                        time_unix_nano: time,
                        attributes,
                        ..HistogramPoint::default()
                    });
                }
                put(histogram.points.last_mut()?, suffix, bound, number);
            }
        }
        Some(())
    }
}

/// Adds a line of a histogram to its point. In the text, the count of a bucket includes all smaller buckets.
fn put(point: &mut HistogramPoint, suffix: &str, bound: Option<f64>, number: f64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count, which was a whole number"
    )]
    let count = number as u64;
    match suffix {
        "_sum" => point.sum = Some(number),
        "_count" => point.count = count,
        "_bucket" => {
            let below: u64 = point.bucket_counts.iter().sum();
            point.bucket_counts.push(count.saturating_sub(below));
            point.bounds.extend(bound.filter(|bound| bound.is_finite()));
        }
        _ => {}
    }
}

/// Splits `rest` into the labels at its start and the text after them.
fn labels(rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    let Some(mut rest) = rest.strip_prefix('{') else { return Some((labels, rest)) };
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, behind) = rest.split_once("=\"")?;
        let (value, behind) = quoted(behind)?;
        labels.push((name, value));
        rest = behind.strip_prefix(',').unwrap_or(behind);
    }
}

/// Splits `text` at the closing quote, and unescapes the text before it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(match chars.next()? {
                'n' => '\n',
                other => other,
            }),
            char => value.push(char),
        }
    }
}

/// Separates the bound of a bucket from the other labels.
fn attributes(labels: Vec<(&str, String)>) -> (Option<f64>, Vec<KeyValue>) {
    let mut bound = None;
    let attributes = labels.into_iter().filter_map(|(name, value)| {
        if name == "le" {
            bound = value.parse().ok();
            return None;
        }
        let known = ATTRIBUTES.iter().find(|(own, _)| *own == name);
        Some(KeyValue::text(known.map_or(name, |(_, attribute)| attribute), value))
    });
    let attributes = attributes.collect();
    (bound, attributes)
}

/// Labels that the conventions define, and their names there.
const ATTRIBUTES: [(&str, &str); 6] = [
    ("gen_ai_operation_name", gen_ai::OPERATION),
    ("gen_ai_provider_name", gen_ai::PROVIDER),
    ("gen_ai_request_model", gen_ai::REQUEST_MODEL),
    ("gen_ai_token_type", gen_ai::TOKEN_TYPE),
    ("server_address", gen_ai::SERVER_ADDRESS),
    ("error_type", "error.type"),
];

/// Metrics that the conventions define, with their names and units there.
const METRICS: [(&str, &str, &str); 4] = [
    ("gen_ai_client_operation_duration_seconds", "gen_ai.client.operation.duration", "s"),
    (
        "gen_ai_client_operation_time_to_first_chunk_seconds",
        "gen_ai.client.operation.time_to_first_chunk",
        "s",
    ),
    (
        "gen_ai_client_operation_time_per_output_chunk_seconds",
        "gen_ai.client.operation.time_per_output_chunk",
        "s",
    ),
    ("gen_ai_client_token_usage", "gen_ai.client.token.usage", "{token}"),
];

/// Returns a metric's name and unit in OpenTelemetry's style: `toolwire_first_byte_seconds` becomes
/// `toolwire.first_byte` in seconds.
fn own_name(name: &str) -> (String, &'static str) {
    if let Some((_, own, unit)) = METRICS.iter().find(|(known, _, _)| *known == name) {
        return ((*own).to_owned(), unit);
    }
    let (name, unit) = match (name.strip_suffix("_seconds"), name.strip_suffix("_bytes")) {
        (Some(name), _) => (name, "s"),
        (_, Some(name)) => (name, "By"),
        (None, None) => (name, ""),
    };
    (name.replacen('_', ".", 1), unit)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn read(text: &str) -> Vec<Metric> {
        metrics(text, UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(1))
    }

    #[test]
    fn counters_gauges_and_histograms_are_read() {
        let read = read(
            "# HELP toolwire_requests Finished requests.\n# TYPE toolwire_requests counter\n\
             toolwire_requests_total{route=\"a\\\"b\\\\n\\n,}\",status=\"200\"} 3\n\
             # HELP toolwire_streams_in_flight Responses.\n# TYPE toolwire_streams_in_flight gauge\n\
             toolwire_streams_in_flight -1\n\
             # HELP toolwire_first_byte_seconds Time.\n# TYPE toolwire_first_byte_seconds histogram\n\
             toolwire_first_byte_seconds_sum{model=\"m\"} 1.5\n\
             toolwire_first_byte_seconds_count{model=\"m\"} 3\n\
             toolwire_first_byte_seconds_bucket{le=\"0.5\",model=\"m\"} 2\n\
             toolwire_first_byte_seconds_bucket{le=\"+Inf\",model=\"m\"} 3\n\
             # HELP toolwire_calls None.\n# TYPE toolwire_calls counter\n# EOF\n",
        );
        let names: Vec<_> = read.iter().map(|metric| (metric.name.as_str(), metric.unit.as_str())).collect();
        assert_eq!(
            names,
            [("toolwire.requests", ""), ("toolwire.streams_in_flight", ""), ("toolwire.first_byte", "s")]
        );
        let Some(Data::Sum(sum)) = &read[0].data else { panic!("{read:?}") };
        assert_eq!(sum.points[0].value, Some(3.0));
        assert_eq!(
            sum.points[0].attributes,
            [KeyValue::text("route", "a\"b\\n\n,}"), KeyValue::text("status", "200")]
        );
        let Some(Data::Gauge(gauge)) = &read[1].data else { panic!("{read:?}") };
        assert_eq!(gauge.points[0].value, Some(-1.0));
        let Some(Data::Histogram(histogram)) = &read[2].data else { panic!("{read:?}") };
        let [point] = histogram.points.as_slice() else { panic!("{histogram:?}") };
        assert_eq!((point.count, point.sum), (3, Some(1.5)));
        assert_eq!((point.bucket_counts.as_slice(), point.bounds.as_slice()), (&[2, 1][..], &[0.5][..]));
    }

    #[test]
    fn lines_that_are_not_understood_are_left_out() {
        for line in ["", "x", "x{", "x{a", "x{a=\"b", "x{a=\"b\"}", "x{a=\"b\"} y", "y 1", "x{a=\"\\"] {
            let text = format!("# HELP x Text.\n# TYPE x counter\n{line}\n# TYPE\n# HELP x\nx_total 1\n");
            let read = read(&text);
            assert_eq!(read.len(), 1, "{line}");
        }
    }
}
