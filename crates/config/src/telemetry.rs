//! `[telemetry]`: traces and metrics for a collector. OpenTelemetry's environment variables replace missing settings.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Uri};
use secrecy::ExposeSecret;
use toml::{Value, de::DeValue};

use super::{
    Environment,
    keys::{Reading, duration_value, some, string, table_of},
    percent::percent_decoded,
    table::{Cell, Context, Table},
    value::duration_or_off,
};
use toolwire_net::telemetry::TelemetrySettings;
use toolwire_pipeline::settings::{Settings, TableText};

const SERVICE: &str = "toolwire";

/// The values of the table. `None` if a key is not set.
#[derive(Debug, Clone, Settings)]
pub(super) struct Draft {
    /// the base URL of the collector (OTLP over HTTP), to which `/v1/traces` and `/v1/metrics` are appended
    #[setting(or = "`$OTEL_EXPORTER_OTLP_ENDPOINT`, else none")]
    endpoint: Option<Uri>,
    /// headers for the collector, such as its key: `"env:NAME"` or `"file:PATH"`
    #[setting(or = "`$OTEL_EXPORTER_OTLP_HEADERS`", file_only)]
    headers: BTreeMap<String, TableText>,
    /// the `service.name` in traces
    #[setting(or = "`$OTEL_SERVICE_NAME`, else `\"toolwire\"`")]
    service_name: Option<String>,
    /// the share of traces begun here that are recorded; if a client's trace is continued, the client decides
    #[setting(
        or = "`$OTEL_TRACES_SAMPLER` and `$OTEL_TRACES_SAMPLER_ARG`, else 1",
        read = some(share), show = |share| share.map(Value::Float)
    )]
    sample: Option<f64>,
    /// whether a client's trace (`traceparent`) is continued, or each request begins one that is linked to it
    #[setting(or = "`true` if clients need no key, else `false`")]
    trust_trace_context: Option<bool>,
    /// the time between exports of metrics, or `"off"`
    #[setting(
        or = "`$OTEL_METRIC_EXPORT_INTERVAL`, else `\"1m\"`", read = some(duration_or_off),
        show = |interval| interval.map(|own| own.map_or_else(|| string("off"), duration_value))
    )]
    metrics_interval: Option<Option<Duration>>,
}

fn share(cell: Cell<'_>) -> Option<f64> {
    let number = match cell.value {
        DeValue::Float(float) => float.as_str().parse().ok(),
        DeValue::Integer(whole) => whole.as_str().parse().ok(),
        _ => None,
    };
    match number.filter(|number| is_share(*number)) {
        Some(number) => Some(number),
        None => cell.wrong("expected a number from 0 to 1"),
    }
}

fn is_share(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}

/// Returns `None` if nothing is exported, or if there are mistakes. `has_keys` is true if clients need a key.
pub(super) fn read(
    table: &mut Table<'_>,
    context: &Context<'_>,
    has_keys: bool,
) -> Option<Arc<TelemetrySettings>> {
    let mut draft = Draft::default();
    if let Some(cell) = table.cell("telemetry") {
        cell.table(|table| {
            draft.settings(&mut Reading(table));
            if draft.endpoint.is_some() && !cfg!(feature = "otel") {
                table.report_fault("endpoint", "this program was built without the feature `otel`");
            }
            check_headers(table, &draft.headers);
            Some(())
        });
    }
    if !cfg!(feature = "otel") {
        return None;
    }
    let mut variables = Variables { environment: context.environment, wrong: Vec::new() };
    let settings = variables.complete(draft, has_keys);
    for (name, expected) in variables.wrong {
        // The variable's value may be secret, so it is not quoted.
        context.findings.remark(format!("`{name}` is ignored: expected {expected}"));
    }
    settings.map(Arc::new)
}

fn check_headers(table: &mut Table<'_>, headers: &BTreeMap<String, TableText>) {
    for (name, value) in headers {
        let is_name = HeaderName::try_from(name).is_ok();
        if !is_name || HeaderValue::try_from(value.expose_secret()).is_err() {
            table.report_fault("headers", "a name or a value holds characters that no HTTP header can carry");
        }
    }
}

/// The table with all values, and with secrets masked.
pub(super) fn shown(settings: &TelemetrySettings) -> toml::Table {
    let mut draft = Draft {
        endpoint: Some(settings.endpoint.clone()),
        headers: settings.headers.clone(),
        service_name: Some(settings.service_name.clone()),
        sample: Some(settings.sample),
        trust_trace_context: Some(settings.trusts_context),
        metrics_interval: Some(settings.metrics_interval),
    };
    table_of(|keys| draft.settings(keys))
}

/// Reads OpenTelemetry's environment variables. Invalid values count as not set.
struct Variables<'e> {
    environment: Environment<'e>,
    /// The names of the invalid variables, each with a description of valid values.
    wrong: Vec<(&'static str, &'static str)>,
}

impl Variables<'_> {
    /// Fills in missing settings from the variables. Returns `None` if there is no collector.
    fn complete(&mut self, draft: Draft, has_keys: bool) -> Option<TelemetrySettings> {
        let is_disabled = (self.environment)("OTEL_SDK_DISABLED");
        if is_disabled.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let endpoint = draft.endpoint.or_else(|| {
            self.of("OTEL_EXPORTER_OTLP_ENDPOINT", "a URL such as `http://127.0.0.1:4318`", collector)
        })?;
        // Read only to report an invalid value, since no other protocol is supported.
        let _ = self.of("OTEL_EXPORTER_OTLP_PROTOCOL", "`http/protobuf`", |text| {
            (text == "http/protobuf").then_some(())
        });
        let headers = match draft.headers.is_empty() {
            true => self.of("OTEL_EXPORTER_OTLP_HEADERS", "`name=value`, separated by commas", headers),
            false => Some(draft.headers),
        };
        let resource = self.of("OTEL_RESOURCE_ATTRIBUTES", "`name=value`, separated by commas", pairs);
        let mut resource = resource.unwrap_or_default();
        let named = resource.iter().position(|(name, _)| name == "service.name");
        let named = named.map(|place| resource.remove(place).1);
        let own_name = |name: &str| Some(name.to_owned());
        let service_name = draft.service_name.or_else(|| self.of("OTEL_SERVICE_NAME", "a name", own_name));
        let sample = draft.sample.or_else(|| self.sample());
        let interval = draft.metrics_interval.unwrap_or_else(|| self.metrics_interval());
        let delay = self.of("OTEL_BSP_SCHEDULE_DELAY", "milliseconds", millis);
        let timeout = self.of("OTEL_EXPORTER_OTLP_TIMEOUT", "milliseconds", millis);
        Some(TelemetrySettings {
            endpoint,
            headers: headers.unwrap_or_default(),
            service_name: service_name.or(named).unwrap_or_else(|| SERVICE.to_owned()),
            resource,
            sample: sample.unwrap_or(1.0),
            trusts_context: draft.trust_trace_context.unwrap_or(!has_keys),
            metrics_interval: interval,
            batch_delay: delay.unwrap_or(Duration::from_secs(5)),
            timeout: timeout.unwrap_or(Duration::from_secs(10)),
        })
    }

    /// The fraction of traces to record.
    fn sample(&mut self) -> Option<f64> {
        // A separate setting decides whether a client's trace is continued, so the prefix `parentbased_` makes no
        // difference.
        let fixed = |name: &str| match name.strip_prefix("parentbased_").unwrap_or(name) {
            "always_on" => Some(Some(1.0)),
            "always_off" => Some(Some(0.0)),
            "traceidratio" => Some(None),
            _ => None,
        };
        let expected = "`traceidratio`, `always_on` or `always_off`, also with `parentbased_`";
        let share = |text: &str| text.parse().ok().filter(|share| is_share(*share));
        self.of("OTEL_TRACES_SAMPLER", expected, fixed)
            .flatten()
            .or_else(|| self.of("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1", share))
    }

    /// The interval between exports of metrics. `None` if metrics are not exported.
    fn metrics_interval(&mut self) -> Option<Duration> {
        if (self.environment)("OTEL_METRICS_EXPORTER").is_some_and(|exporter| exporter == "none") {
            return None;
        }
        let interval = self.of("OTEL_METRIC_EXPORT_INTERVAL", "milliseconds", millis);
        Some(interval.unwrap_or(Duration::from_secs(60)))
    }

    /// The value of a variable. An empty variable counts as not set.
    fn of<T>(
        &mut self,
        name: &'static str,
        expected: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = (self.environment)(name).filter(|text| !text.is_empty())?;
        let value = read(text.trim());
        if value.is_none() {
            self.wrong.push((name, expected));
        }
        value
    }
}

fn collector(text: &str) -> Option<Uri> {
    let url: Uri = text.trim_end_matches('/').parse().ok()?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    let is_plain = url.query().is_none() && !url.authority()?.as_str().contains('@');
    (is_http && is_plain).then_some(url)
}

fn millis(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis)
}

/// Parses `name=value,name=value` with percent-encoded values.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let decoded = percent_decoded(value.trim())?;
        Some((name.trim().to_owned(), decoded)).filter(|(name, _)| !name.is_empty())
    });
    pairs.collect()
}

fn headers(text: &str) -> Option<BTreeMap<String, TableText>> {
    let named = pairs(text)?.into_iter().map(|(name, value)| {
        let name = HeaderName::try_from(name).ok()?;
        HeaderValue::try_from(&value).ok()?;
        Some((name.as_str().to_owned(), TableText::secret(value)))
    });
    named.collect()
}

#[cfg(all(test, feature = "otel"))]
mod tests {
    use super::*;
    use crate::{Config, Overrides, load};

    fn complete(draft: Draft, variables: &[(&str, &str)]) -> (Option<TelemetrySettings>, Vec<&'static str>) {
        let of = |name: &str| Some(variables.iter().find(|(own, _)| *own == name)?.1.to_owned());
        let mut variables = Variables { environment: &of, wrong: Vec::new() };
        let settings = variables.complete(draft, true);
        (settings, variables.wrong.into_iter().map(|(name, _)| name).collect())
    }

    fn loaded(table: &str) -> Result<Config, String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let rest = "[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"http://h/v1\"\n[[models]]\nname = \"m\"\n";
        std::fs::write(file.path(), format!("[telemetry]\n{table}\n{rest}"))
            .map_err(|error| error.to_string())?;
        let overrides = Overrides { file: Some(file.path().to_owned()), ..Overrides::default() };
        let loaded = load(&overrides, &|name| (name == "SECRET").then(|| "very-secret".to_owned()));
        loaded.map(|loaded| loaded.config).map_err(|problems| problems.to_string())
    }

    #[test]
    fn faults_are_reported_without_secrets() {
        for (table, said) in [
            ("sample = 1.5", "expected a number from 0 to 1"),
            ("sample = -1", "expected a number from 0 to 1"),
            ("sample = nan", "expected a number from 0 to 1"),
            ("sample = \"1\"", "expected a number from 0 to 1"),
            ("metrics_interval = \"0s\"", "greater than zero"),
            ("endpoint = \"localhost:4318\"", "http"),
            ("endpoint = \"http://u:very-secret@h\"", "no user or password"),
            ("headers = { \"a b\" = \"very-secret\" }", "no HTTP header"),
            ("headers = { a = \"very-secret\\r\\nb: c\" }", "no HTTP header"),
        ] {
            let problems = loaded(table).unwrap_err();
            assert!(problems.contains(said), "{table}: {problems}");
            assert!(!problems.contains("very-secret"), "{table}: {problems}");
        }
    }

    #[test]
    fn headers_are_secret() {
        let config = loaded("endpoint = \"http://c\"\nheaders = { a = \"env:SECRET\" }\nsample = 1").unwrap();
        assert!(config.secrets().any(|secret| secret == "very-secret"));
        let shown = config.to_toml().to_string();
        assert!(shown.contains("sample = 1.0") && !shown.contains("very-secret"), "{shown}");
        assert!(config.telemetry.unwrap().trusts_context);
        assert!(loaded("").unwrap().telemetry.is_none());
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");

    #[test]
    fn nothing_is_sent_without_an_endpoint() {
        assert!(complete(Draft::default(), &[("OTEL_SERVICE_NAME", "x")]).0.is_none());
        assert!(complete(Draft::default(), &[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")]).0.is_none());
        assert!(complete(Draft::default(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).0.is_none());
    }

    #[test]
    fn variables_say_what_the_table_leaves_open() {
        let variables = [
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b%3D, x = +"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=from-resource,deployment.environment.name=test"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1500"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ];
        let (settings, wrong) = complete(Draft::default(), &variables);
        let settings = settings.unwrap();
        assert!(wrong.is_empty());
        assert_eq!(settings.endpoint.to_string(), "http://127.0.0.1:4318/");
        let headers: Vec<_> =
            settings.headers.iter().map(|(name, text)| (name.as_str(), text.expose_secret())).collect();
        assert_eq!(headers, [("api-key", "a b="), ("x", "+")]);
        assert_eq!(settings.service_name, "from-resource");
        assert_eq!(settings.resource, [("deployment.environment.name".to_owned(), "test".to_owned())]);
        assert_eq!(settings.metrics_interval, Some(Duration::from_millis(1500)));
        assert!((settings.sample - 0.25).abs() < f64::EPSILON && !settings.trusts_context);
        let without = complete(Draft::default(), &[ENDPOINT, ("OTEL_METRICS_EXPORTER", "none")]).0.unwrap();
        assert_eq!(without.metrics_interval, None);
        let own = Draft { sample: Some(0.5), service_name: Some("own".to_owned()), ..Draft::default() };
        let settings = complete(own, &variables).0.unwrap();
        assert!((settings.sample - 0.5).abs() < f64::EPSILON);
        assert_eq!(settings.service_name, "own");
    }

    #[test]
    fn sampler_of_the_environment_takes_precedence_over_its_argument() {
        for (sampler, expected) in [
            ("always_off", 0.0),
            ("parentbased_always_off", 0.0),
            ("always_on", 1.0),
            ("parentbased_traceidratio", 0.25),
        ] {
            let variables = [ENDPOINT, ("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", "0.25")];
            let (settings, wrong) = complete(Draft::default(), &variables);
            assert!((settings.unwrap().sample - expected).abs() < f64::EPSILON, "{sampler}");
            assert!(wrong.is_empty(), "{sampler}");
        }
    }

    #[test]
    fn invalid_variables_count_as_not_set() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@host"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%0d%0aHost: x"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a"),
            ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
            ("OTEL_TRACES_SAMPLER_ARG", "NaN"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1"),
        ] {
            let endpoint = if name == ENDPOINT.0 { ("OTHER", "") } else { ENDPOINT };
            let (settings, wrong) = complete(Draft::default(), &[(name, value), endpoint]);
            assert_eq!(wrong, [name], "{value}");
            assert!(settings.is_none_or(|settings| settings.headers.is_empty() && settings.sample == 1.0));
        }
    }
}
