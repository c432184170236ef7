//! Where log lines go, and how they look: as tracing-subscriber writes them. Each request has one, so they are written
//! in a shorter way than its own, which takes every piece of a line through several formatters.

use std::{
    error::Error,
    fmt::{self, Write},
    io::{self, IsTerminal},
    time::SystemTime,
};

use serde::{Serializer, ser::SerializeMap};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_serde::SerdeMapVisitor;
use tracing_subscriber::{
    EnvFilter,
    field::{RecordFields, VisitOutput},
    filter::ParseError,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{DefaultFields, DefaultVisitor, Writer},
        time::FormatTime,
    },
    registry::LookupSpan,
};

/// How a log line is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// For people: one line of text, coloured if stderr is a terminal.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// Sends log lines to stderr. `filter` is what `TOOLWIRE_LOG` holds, in the usual form (`info`,
/// `toolwire=debug,hyper=warn`); `None` means `info`. Does nothing if logging was set up before.
///
/// # Errors
/// If `filter` is not one.
pub fn init(style: Style, filter: Option<&str>) -> Result<(), ParseError> {
    let filter = EnvFilter::try_new(filter.unwrap_or("info"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_timer(Now).with_writer(io::stderr);
    // Set up twice means that a test or an embedding program was first: its choice stands.
    let _ = match style {
        Style::Text => lines.fmt_fields(Fields).with_ansi(io::stderr().is_terminal()).try_init(),
        Style::Json => lines.json().flatten_event(true).map_event_format(Objects).try_init(),
    };
    Ok(())
}

/// The time in UTC, to the microsecond.
#[derive(Debug)]
struct Now;

impl FormatTime for Now {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        // Of a time before that it would make a panic.
        let now = SystemTime::now().max(SystemTime::UNIX_EPOCH);
        write!(writer, "{}", humantime::format_rfc3339_micros(now))
    }
}

/// The fields of a line of text, as [`DefaultFields`] writes them: coloured by it, plain without its way over styles.
#[derive(Debug)]
struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        if writer.has_ansi_escapes() {
            return DefaultFields::new().format_fields(writer, fields);
        }
        let mut plain = Plain { text: String::with_capacity(USUAL), first: true, result: Ok(()) };
        fields.record(&mut plain);
        plain.result.and_then(|()| writer.write_str(&plain.text))
    }
}

/// Bytes that a request's fields take at most, usually.
const USUAL: usize = 512;

/// Gathers `name=value` of each field, with spaces between.
struct Plain {
    text: String,
    first: bool,
    result: fmt::Result,
}

impl Plain {
    /// Begins a field, and gives what its value is put behind.
    fn begin(&mut self, field: &Field) -> &mut String {
        if !std::mem::take(&mut self.first) {
            self.text.push(' ');
        }
        let name = field.name();
        self.text.push_str(name.strip_prefix("r#").unwrap_or(name));
        self.text.push('=');
        &mut self.text
    }

    /// What is not plain: a message, which stands without its name, and errors with their causes.
    fn put_by_default(&mut self, record: impl FnOnce(&mut DefaultVisitor<'_>)) {
        let first = std::mem::take(&mut self.first);
        let mut default = DefaultVisitor::new(Writer::new(&mut self.text), first);
        record(&mut default);
        self.result = self.result.and(default.finish());
    }
}

impl Visit for Plain {
    fn record_str(&mut self, field: &Field, text: &str) {
        let plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        if field.name() == MESSAGE || !text.bytes().all(plain) {
            return self.put_by_default(|default| default.record_str(field, text));
        }
        let line = self.begin(field);
        line.push('"');
        line.push_str(text);
        line.push('"');
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.begin(field).push_str(if value { "true" } else { "false" });
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        self.put_by_default(|default| default.record_error(field, error));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == MESSAGE {
            return self.put_by_default(|default| default.record_debug(field, value));
        }
        let written = write!(self.begin(field), "{value:?}");
        self.result = self.result.and(written);
    }
}

/// The field that is what an event says.
const MESSAGE: &str = "message";

/// A line of JSON, as the library writes it, but all at once.
#[derive(Debug)]
struct Objects<L>(L);

impl<L> Objects<L> {
    fn line(time: &str, event: &Event<'_>) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = Vec::with_capacity(USUAL);
        let mut serializer = serde_json::Serializer::new(&mut line);
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("timestamp", time)?;
        object.serialize_entry("level", event.metadata().level().as_str())?;
        let mut fields = SerdeMapVisitor::new(object);
        event.record(&mut fields);
        let mut object = fields.take_serializer()?;
        object.serialize_entry("target", event.metadata().target())?;
        object.end()?;
        line.push(b'\n');
        Ok(line)
    }
}

impl<S, N, L> FormatEvent<S, N> for Objects<L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    L: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // Libraries have spans, at levels that are seldom asked for.
        if event.parent().is_some() || context.lookup_current().is_some() {
            return self.0.format_event(context, writer, event);
        }
        let mut time = String::with_capacity("2026-01-01T00:00:00.000000Z".len());
        Now.format_time(&mut Writer::new(&mut time))?;
        let line = Self::line(&time, event).map_err(|_| fmt::Error)?;
        writer.write_str(std::str::from_utf8(&line).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What the log that is made of these lines writes of all kinds of values.
    fn written<L: Subscriber + Send + Sync + 'static>(log: impl FnOnce(Lines) -> L) -> String {
        let lines = Lines::default();
        tracing::subscriber::with_default(log(lines.clone()), || {
            let missing: Option<&str> = None;
            let error = io::Error::other(fmt::Error);
            let error: &(dyn Error + 'static) = &error;
            tracing::info!(target: "a", text = "plain, and 'so'", some = Some("x"), missing, empty = "");
            tracing::info!(target: "a", quote = "\"", escape = "\\", control = "\u{1b}[1m\n", letter = "\u{e9}");
            tracing::info!(target: "a", word = %"as it is\"", shown = ?"as it is\"", r#type = 1, yes = true, no = false);
            tracing::info!(target: "a", whole = u64::MAX, less = -1, part = 1.25, round = 2.0, tiny = 1e-9, big = 1e300);
            tracing::info!(target: "a", not = f64::NAN, wide = u128::MAX);
            tracing::warn!(error, behind = 1);
            tracing::error!("said \u{1b}[1m{}", 1);
            tracing::error!(before = 1, "said");
            tracing::info_span!("span", name = "x", number = 1).in_scope(|| tracing::info!(within = true));
            tracing::info!("");
        });
        let lines = lines.0.lock().unwrap().clone();
        String::from_utf8(lines).unwrap()
    }

    fn text<F: for<'w> FormatFields<'w> + Send + Sync + 'static>(fields: F, coloured: bool) -> String {
        written(|lines| {
            let log = tracing_subscriber::fmt().fmt_fields(fields).with_ansi(coloured).without_time();
            log.with_writer(move || lines.clone()).finish()
        })
    }

    #[test]
    fn fields_look_as_the_library_writes_them() {
        let plain = text(Fields, false);
        assert_eq!(plain, text(DefaultFields::new(), false));
        assert!(plain.starts_with(" INFO a: text=\"plain, and 'so'\" some=\"x\" empty=\"\"\n"), "{plain}");
        assert_eq!(text(Fields, true), text(DefaultFields::new(), true));
    }

    #[test]
    fn objects_look_as_the_library_writes_them() {
        let json = || tracing_subscriber::fmt().json().flatten_event(true).with_timer(Now);
        let ours =
            written(|lines| json().map_event_format(Objects).with_writer(move || lines.clone()).finish());
        let library = written(|lines| json().with_writer(move || lines.clone()).finish());
        let begin = "{\"timestamp\":\"2026-01-01T00:00:00.000000Z".len();
        let but_times =
            |lines: &str| lines.lines().map(|line| line.split_at(begin).1.to_owned()).collect::<Vec<_>>();
        assert_eq!(but_times(&ours), but_times(&library));
        assert_eq!(ours.find("\",\"level\":\"INFO\",\"text\":\"plain, and 'so'\","), Some(begin), "{ours}");
    }

    #[test]
    fn the_time_is_utc_to_the_microsecond() {
        let mut time = String::new();
        let before = SystemTime::now();
        Now.format_time(&mut Writer::new(&mut time)).unwrap();
        assert_eq!((time.len(), time.ends_with('Z')), ("2026-01-01T00:00:00.000000Z".len(), true), "{time}");
        let read = humantime::parse_rfc3339(&time).unwrap();
        assert!(read <= SystemTime::now() && read + std::time::Duration::from_micros(1) > before, "{time}");
        let mut library = String::new();
        tracing_subscriber::fmt::time::SystemTime.format_time(&mut Writer::new(&mut library)).unwrap();
        let form = |time: &str| time.replace(|letter: char| letter.is_ascii_digit(), "0");
        assert_eq!(form(&time), form(&library));
    }
}
