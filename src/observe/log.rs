//! Where log lines go, and how they look: as tracing-subscriber writes them, with two differences. What comes from
//! outside cannot leave its place: values are escaped and clipped ([`untrusted`](super::untrusted)), in text and in JSON.
//! And each request has a line, so they are written in a shorter way than its own, which takes every piece of a line
//! through several formatters.

mod json;
mod text;

use std::{error::Error, fmt, io, time::SystemTime};

use tracing_subscriber::{
    EnvFilter,
    filter::ParseError,
    fmt::{format::Writer, time::FormatTime},
};

use self::{json::Objects, text::Fields};

/// How a log line is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// For people: one line of text.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// Sends log lines to stderr. `filter` is what `TOOLWIRE_LOG` holds, in the usual form (`info`,
/// `toolwire=debug,hyper=warn`); `None` means `info`. Text is coloured if `coloured`. Does nothing if logging was set up
/// before.
///
/// # Errors
/// If `filter` is not one.
pub(crate) fn init(style: Style, coloured: bool, filter: Option<&str>) -> Result<(), ParseError> {
    let filter = EnvFilter::try_new(filter.unwrap_or("info"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_timer(Now).with_writer(io::stderr);
    // Set up twice means that a test or an embedding program was first: its choice stands.
    let _ = match style {
        Style::Text => lines.fmt_fields(Fields).with_ansi(coloured).try_init(),
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

/// Bytes that a request's fields take at most, usually.
const USUAL: usize = 512;

/// The field that is what an event says.
const MESSAGE: &str = "message";

/// A list, which is a list in JSON too. tracing has no such value; recorded as an error (`value as &dyn Error`), it is
/// one that the formatters recognize.
#[derive(Debug)]
pub(crate) struct List(pub Vec<String>);

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(", "))
    }
}

impl Error for List {}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::Subscriber;
    use tracing_subscriber::fmt::{FormatFields, format::DefaultFields};

    use super::*;
    use crate::observe::untrusted::is_unprintable;

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

    /// What the log that is made of these lines writes of what `events` says.
    fn logged<L: Subscriber + Send + Sync + 'static>(
        log: impl FnOnce(Lines) -> L,
        events: impl FnOnce(),
    ) -> String {
        let lines = Lines::default();
        tracing::subscriber::with_default(log(lines.clone()), events);
        let lines = lines.0.lock().unwrap().clone();
        String::from_utf8(lines).unwrap()
    }

    /// The same of all kinds of values.
    fn written<L: Subscriber + Send + Sync + 'static>(log: impl FnOnce(Lines) -> L) -> String {
        logged(log, || {
            let missing: Option<&str> = None;
            let error = io::Error::other(fmt::Error);
            let error: &(dyn Error + 'static) = &error;
            tracing::info!(target: "a", text = "plain, and 'so'", some = Some("x"), missing, empty = "");
            tracing::info!(target: "a", quote = "\"", escape = "\\", control = "\u{1b}[1m\n", letter = "\u{e9}");
            tracing::info!(target: "a", word = %"as it is\"", shown = ?"as it is\"", r#type = 1, yes = true, no = false);
            tracing::info!(target: "a", whole = u64::MAX, less = -1, part = 1.25, round = 2.0, tiny = 1e-9, big = 1e300);
            tracing::info!(target: "a", not = f64::NAN, wide = u128::MAX);
            tracing::warn!(error, behind = 1);
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
        let json = tracing_subscriber::fmt().json().flatten_event(true).with_timer(Now);
        json.map_event_format(Objects).with_writer(move || lines.clone()).finish()
    }

    #[test]
    fn fields_look_as_the_library_writes_them() {
        let plain = written(text(Fields, false));
        assert_eq!(plain, written(text(DefaultFields::new(), false)));
        assert!(plain.starts_with(" INFO a: text=\"plain, and 'so'\" some=\"x\" empty=\"\"\n"), "{plain}");
        assert_eq!(written(text(Fields, true)), written(text(DefaultFields::new(), true)));
    }

    #[test]
    fn objects_look_as_the_library_writes_them() {
        let ours = written(objects);
        let library = written(|lines| {
            let json = tracing_subscriber::fmt().json().flatten_event(true).with_timer(Now);
            json.with_writer(move || lines.clone()).finish()
        });
        let begin = "{\"timestamp\":\"2026-01-01T00:00:00.000000Z".len();
        let but_times =
            |lines: &str| lines.lines().map(|line| line.split_at(begin).1.to_owned()).collect::<Vec<_>>();
        assert_eq!(but_times(&ours), but_times(&library));
        assert_eq!(ours.find("\",\"level\":\"INFO\",\"text\":\"plain, and 'so'\","), Some(begin), "{ours}");
    }

    /// Logs `hostile` in every way in which a value can get into a line; gives the number of lines that this makes.
    fn log_everywhere(hostile: &str) -> usize {
        #[derive(Debug)]
        struct Wrapped<'h>(#[expect(dead_code, reason = "shown by Debug")] &'h str);
        let error = io::Error::other(hostile.to_owned());
        let error: &(dyn Error + 'static) = &error;
        let list = List(vec![hostile.to_owned(), "b".to_owned()]);
        let list: &(dyn Error + 'static) = &list;
        tracing::info!(text = hostile, display = %hostile, debug = ?Wrapped(hostile), error, list);
        tracing::info!("{hostile}");
        tracing::info_span!("s", text = hostile, display = %hostile).in_scope(|| tracing::info!(hostile));
        3
    }

    #[test]
    fn values_from_outside_stay_in_their_line() {
        let hostile = "x\r\nFAKE line\u{1b}[31m\u{9b}2J\u{2028}\u{202e}\u{7f}";
        for log in [text(Fields, false), text(Fields, true)] {
            let told = logged(log, || _ = log_everywhere(hostile)).replace(['\u{1b}'], "");
            assert_eq!(told.lines().count(), 3, "{told}");
            assert!(told.lines().all(|line| !line.contains(is_unprintable)), "{told:?}");
            assert_eq!(told.matches("FAKE").count(), told.matches(r"x\r\nFAKE").count(), "{told}");
        }
        let coloured = logged(text(Fields, true), || _ = log_everywhere(hostile));
        assert!(!coloured.contains("\u{1b}[31m"), "{coloured:?}");
        let told = logged(objects, || _ = log_everywhere(hostile));
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
            logged(text(Fields, false), || _ = log_everywhere(&long)),
            logged(text(Fields, true), || _ = log_everywhere(&long)),
            logged(objects, || _ = log_everywhere(&long)),
        ] {
            assert!(told.lines().all(|line| line.len() < 8_000), "{}", told.len());
            assert!(told.contains(" bytes more]"), "{told}");
        }
        let quoted = logged(text(Fields, false), || tracing::info!(text = "a".repeat(300)));
        assert!(quoted.ends_with("a… [44 bytes more]\"\n"), "{quoted}");
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
