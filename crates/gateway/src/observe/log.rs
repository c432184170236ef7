//! Log lines: where they go, and what they look like. tracing-subscriber formats them, and this module ensures that no
//! value can break out of its place: text from outside is escaped and truncated
//! ([`untrusted_text`](super::untrusted_text)), both in text and in JSON.

mod queue;

use std::{
    error::Error,
    fmt::{self, Debug},
    io, mem,
};

use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    field::{RecordFields, VisitOutput},
    filter::{LevelFilter, ParseError},
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{DefaultVisitor, Writer},
        writer::EitherWriter,
    },
    registry::LookupSpan,
};

pub use self::queue::LogFlush;
use self::queue::Queue;
use super::{
    List,
    untrusted_text::{MAX_VALUE, cleaned, clip, write_printable},
};
use toolwire_pipeline::wire::suggest::suggest;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// For people: one line of text.
    #[default]
    Text,
    /// For programs: one JSON object per line.
    Json,
}

/// The levels of log lines, and `off`.
pub const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// A filter of log lines that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogFilterError {
    #[error("there is no level `{word}`; {}", suggest(.word, &LEVELS, None))]
    UnknownLevel { word: String },
    #[error(transparent)]
    Syntax(#[from] ParseError),
}

/// Checks the levels in a filter. The library takes an unknown word for the name of a target, which silences all
/// others.
fn check_levels(filter: &str) -> Result<(), LogFilterError> {
    let mut depth = 0_usize;
    let directives = filter.split(|char| {
        match char {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        char == ',' && depth == 0
    });
    for directive in directives.map(str::trim).filter(|directive| !directive.is_empty()) {
        // A span or a path is the name of a target, which needs no level.
        let (target, level) = match directive.rsplit_once('=') {
            Some((target, level)) if !level.contains([']', '}']) => (target, level.trim()),
            _ => ("", directive),
        };
        let is_target = target.is_empty() && level.contains(['[', ':']);
        let is_level = level.is_empty() || level.parse::<LevelFilter>().is_ok();
        if !is_target && !is_level {
            return Err(LogFilterError::UnknownLevel { word: clip(level, MAX_VALUE).into_owned() });
        }
    }
    Ok(())
}

/// Sends log lines to stderr. `filter` is the value of `TOOLWIRE_LOG` in the usual syntax (`info`,
/// `toolwire=debug,hyper=warn`); `None` means `info`. Text is coloured if `coloured` is set. Does nothing if logging is
/// already set up. Lines are written by another thread, of which the result waits when it is dropped.
///
/// # Errors
/// If `filter` is invalid.
pub fn init(style: Style, coloured: bool, filter: Option<&str>) -> Result<LogFlush, LogFilterError> {
    let chosen = filter.unwrap_or("info");
    check_levels(chosen)?;
    let mut filter = EnvFilter::try_new(chosen)?;
    if !chosen.contains("rmcp") {
        // rmcp logs everything that MCP servers send.
        filter = filter.add_directive("rmcp=off".parse()?);
    }
    // Lines that cannot be written are dropped: reporting the error would panic if stderr is a terminal that was
    // closed.
    let queue = Queue::start(io::stderr()).ok();
    let flush = LogFlush(queue.clone());
    // Without a thread, lines are written where they are logged.
    let out = move || match &queue {
        Some(queue) => EitherWriter::A(queue.clone()),
        None => EitherWriter::B(io::stderr()),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(out).log_internal_errors(false);
    // Fails if a test or an embedding program has already set up logging, which takes precedence.
    let _ = match style {
        Style::Text => lines.fmt_fields(CleanFields).with_ansi(coloured).try_init(),
        Style::Json => lines.json().flatten_event(true).map_event_format(CleanObjects).try_init(),
    };
    Ok(flush)
}

/// Formats the fields of a text line after cleaning each value.
#[derive(Debug)]
struct CleanFields;

impl<'w> FormatFields<'w> for CleanFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        if writer.has_ansi_escapes() {
            let mut visitor = Clean(DefaultVisitor::new(writer, true));
            fields.record(&mut visitor);
            visitor.0.finish()
        } else {
            let mut visitor = Clean(Plain { writer, is_empty: true, result: Ok(()) });
            fields.record(&mut visitor);
            visitor.0.result
        }
    }
}

/// Writes what [`DefaultVisitor`] writes without colours, with a third of its work: the log line of a request has twenty
/// fields.
struct Plain<'w> {
    writer: Writer<'w>,
    is_empty: bool,
    result: fmt::Result,
}

impl Plain<'_> {
    /// Writes what precedes a value.
    fn begin(&mut self, field: &Field) -> fmt::Result {
        if !mem::take(&mut self.is_empty) {
            self.writer.write_char(' ')?;
        }
        let name = field.name();
        if name != "message" {
            self.writer.write_str(name.strip_prefix("r#").unwrap_or(name))?;
            self.writer.write_char('=')?;
        }
        Ok(())
    }

    fn write(&mut self, field: &Field, value: &dyn Debug) -> fmt::Result {
        self.begin(field)?;
        write!(self.writer, "{value:?}")
    }

    /// Writes text that is the same between quotes, as most is.
    fn write_quoted(&mut self, field: &Field, text: &str) -> fmt::Result {
        self.begin(field)?;
        self.writer.write_char('"')?;
        self.writer.write_str(text)?;
        self.writer.write_char('"')
    }
}

impl Visit for Plain<'_> {
    fn record_str(&mut self, field: &Field, text: &str) {
        let is_the_same = |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        match text.bytes().all(is_the_same) {
            true => self.result = self.result.and_then(|()| self.write_quoted(field, text)),
            false => self.record_debug(field, &text),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.result = self.result.and_then(|()| self.write(field, value));
    }
}

/// Passes cleaned values on to a visitor. `record_debug` also receives values that are not strings.
struct Clean<V>(V);

impl<V: Visit> Visit for Clean<V> {
    fn record_str(&mut self, field: &Field, text: &str) {
        if field.name() == "message" {
            return self.record_debug(field, &format_args!("{text}"));
        }
        // The library quotes the string and escapes unprintable characters. Truncating first preserves both quotes.
        self.0.record_str(field, &clip(text, MAX_VALUE));
    }

    // Numbers and truth values need no cleaning.
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.record_u64(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.record_i64(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.record_f64(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.record_bool(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.record_debug(field, &format_args!("{}", cleaned(value)));
    }
}

/// Formats JSON lines as the library does, but truncates strings, escapes unprintable characters, and writes each
/// [`List`] as an array.
#[derive(Debug)]
struct CleanObjects<L>(L);

impl<S, N, L> FormatEvent<S, N> for CleanObjects<L>
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
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let mut object: Map<String, Value> = serde_json::from_str(&line).map_err(|_| fmt::Error)?;
        event.record(&mut Lists(&mut object));
        object.values_mut().for_each(clip_all);
        write_printable(&mut writer, &serde_json::to_string(&object).map_err(|_| fmt::Error)?)?;
        writer.write_char('\n')
    }
}

/// Replaces the strings that the library wrote for lists with arrays.
struct Lists<'o>(&'o mut Map<String, Value>);

impl Visit for Lists<'_> {
    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        if let Some(List(items)) = error.downcast_ref() {
            self.0.insert(field.name().to_owned(), items.as_slice().into());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

fn clip_all(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_VALUE => *text = clip(text, MAX_VALUE).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(clip_all),
        Value::Object(members) => members.values_mut().for_each(clip_all),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::Arc;

    use tracing_subscriber::fmt::format::DefaultFields;

    use super::*;
    use toolwire_net::untrusted_text::is_unprintable;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the output of `log` while `events` runs.
    fn logged<L: Subscriber + Send + Sync + 'static>(
        log: impl FnOnce(Lines) -> L,
        events: impl FnOnce(),
    ) -> String {
        let lines = Lines::default();
        tracing::subscriber::with_default(log(lines.clone()), events);
        let lines = lines.0.lock().clone();
        String::from_utf8(lines).unwrap()
    }

    /// Returns the output of `log` for all kinds of values.
    fn written<L: Subscriber + Send + Sync + 'static>(log: impl FnOnce(Lines) -> L) -> String {
        logged(log, || {
            let missing: Option<&str> = None;
            tracing::info!(target: "a", text = "plain, and 'so'", some = Some("x"), missing, empty = "");
            tracing::info!(target: "a", quote = "\"", escape = "\\", control = "\u{1b}[1m\n", letter = "\u{e9}");
            tracing::info!(target: "a", word = %"as it is\"", shown = ?"as it is\"", r#type = 1, yes = true, no = false);
            tracing::info!(target: "a", whole = u64::MAX, less = -1, part = 1.25, round = 2.0, tiny = 1e-9, big = 1e300);
            tracing::info!(target: "a", not = f64::NAN, wide = u128::MAX);
            tracing::warn!(error = %fmt::Error, behind = 1);
            tracing::error!("said {}", 1);
            tracing::error!(before = 1, "said");
            tracing::info_span!("span", kind = "x", number = 1).in_scope(|| tracing::info!(within = true));
            tracing::info!("");
        })
    }

    fn text<F: for<'w> FormatFields<'w> + Send + Sync + 'static>(
        fields: F,
        coloured: bool,
    ) -> impl FnOnce(Lines) -> Box<dyn Subscriber + Send + Sync> {
        move |lines| {
            let log = tracing_subscriber::fmt().fmt_fields(fields).with_ansi(coloured).without_time();
            Box::new(log.with_writer(move || lines.clone()).finish())
        }
    }

    fn objects(lines: Lines) -> impl Subscriber + Send + Sync {
        let json = tracing_subscriber::fmt().json().flatten_event(true).without_time();
        json.map_event_format(CleanObjects).with_writer(move || lines.clone()).finish()
    }

    #[test]
    fn harmless_fields_are_unchanged() {
        let plain = written(text(CleanFields, false));
        assert_eq!(plain, written(text(DefaultFields::new(), false)));
        assert!(plain.starts_with(" INFO a: text=\"plain, and 'so'\" some=\"x\" empty=\"\"\n"), "{plain}");
        assert_eq!(written(text(CleanFields, true)), written(text(DefaultFields::new(), true)));
    }

    #[test]
    fn harmless_objects_are_unchanged() {
        let library = written(|lines| {
            let json = tracing_subscriber::fmt().json().flatten_event(true).without_time();
            json.with_writer(move || lines.clone()).finish()
        });
        assert_eq!(written(objects), library);
        assert!(library.starts_with("{\"level\":\"INFO\",\"text\":\"plain, and 'so'\","), "{library}");
    }

    /// Logs `hostile` in three lines, one for each way in which a value can get into a line.
    fn log_everywhere(hostile: &str) {
        let error = io::Error::other(hostile.to_owned());
        let error: &(dyn Error + 'static) = &error;
        let list = List(vec![hostile.to_owned(), "b".to_owned()]);
        let list: &(dyn Error + 'static) = &list;
        tracing::info!(text = hostile, display = %hostile, debug = ?Some(hostile), error, list);
        tracing::info!("{hostile}");
        tracing::info_span!("s", text = hostile, display = %hostile).in_scope(|| tracing::info!(hostile));
    }

    #[test]
    fn hostile_values_are_escaped() {
        let hostile = "x\r\nFAKE line\u{1b}[31m\u{9b}2J\u{2028}\u{202e}\u{7f}";
        for log in [text(CleanFields, false), text(CleanFields, true)] {
            let told = logged(log, || log_everywhere(hostile)).replace(['\u{1b}'], "");
            assert_eq!(told.lines().count(), 3, "{told}");
            assert!(told.lines().all(|line| !line.contains(is_unprintable)), "{told:?}");
            assert_eq!(told.matches("FAKE").count(), told.matches(r"x\r\nFAKE").count(), "{told}");
        }
        let coloured = logged(text(CleanFields, true), || log_everywhere(hostile));
        assert!(!coloured.contains("\u{1b}[31m"), "{coloured:?}");
        let told = logged(objects, || log_everywhere(hostile));
        assert_eq!(told.lines().count(), 3, "{told}");
        assert!(told.lines().all(|line| !line.contains(is_unprintable)), "{told:?}");
        let first: serde_json::Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
        assert_eq!((&first["text"], &first["display"]), (&hostile.into(), &hostile.into()));
        assert_eq!(first["list"], serde_json::json!([hostile, "b"]));
    }

    #[test]
    fn long_values_are_clipped() {
        let long = "\u{1b}é\"".repeat(20_000);
        for told in [
            logged(text(CleanFields, false), || log_everywhere(&long)),
            logged(text(CleanFields, true), || log_everywhere(&long)),
            logged(objects, || log_everywhere(&long)),
        ] {
            assert!(told.lines().all(|line| line.len() < 8_000), "{}", told.len());
            assert!(told.contains(" bytes more]"), "{told}");
        }
        let quoted = logged(text(CleanFields, false), || tracing::info!(text = "a".repeat(300)));
        assert!(quoted.ends_with("a… [44 bytes more]\"\n"), "{quoted}");
    }
}
