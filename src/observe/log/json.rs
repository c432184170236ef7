//! A line of JSON, with the members and the order that tracing-subscriber gives it, but written at once, and with every
//! text escaped and clipped.

use std::{
    borrow::Cow,
    error::Error,
    fmt::{self, Write as _},
    io,
};

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, ser::Formatter};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer, time::FormatTime},
    registry::LookupSpan,
};

use super::{List, Now, USUAL};
use crate::observe::untrusted::{Cleaner, MAX_VALUE, clipped, is_unprintable};

/// See the module. The library's own formatter writes events inside of spans.
#[derive(Debug)]
pub(super) struct Objects<L>(pub(super) L);

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
        // Only libraries have spans, at levels that are seldom asked for.
        let line = if event.parent().is_some() || context.lookup_current().is_some() {
            let mut line = String::new();
            self.0.format_event(context, Writer::new(&mut line), event)?;
            cleaned(&line)
        } else {
            let mut time = String::with_capacity("2026-01-01T00:00:00.000000Z".len());
            Now.format_time(&mut Writer::new(&mut time))?;
            line(&time, event)
        };
        writer.write_str(std::str::from_utf8(&line.map_err(|_| fmt::Error)?).map_err(|_| fmt::Error)?)
    }
}

fn line(time: &str, event: &Event<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = Vec::with_capacity(USUAL);
    let mut serializer = serde_json::Serializer::with_formatter(&mut line, Printable);
    let mut object = serializer.serialize_map(None)?;
    object.serialize_entry("timestamp", time)?;
    object.serialize_entry("level", event.metadata().level().as_str())?;
    let mut fields = Members { object, result: Ok(()) };
    event.record(&mut fields);
    let Members { mut object, result } = fields;
    result?;
    object.serialize_entry("target", event.metadata().target())?;
    object.end()?;
    line.push(b'\n');
    Ok(line)
}

/// A line of the library's, with the same rules for its texts.
fn cleaned(line: &str) -> Result<Vec<u8>, serde_json::Error> {
    fn clip(value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clipped) = clipped(text, MAX_VALUE) {
                    *text = clipped;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(clip),
            Value::Object(members) => members.values_mut().for_each(clip),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(line)?;
    clip(&mut value);
    let mut line = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut line, Printable))?;
    line.push(b'\n');
    Ok(line)
}

/// Writes each field as a member of an object.
struct Members<M: SerializeMap> {
    object: M,
    result: Result<(), M::Error>,
}

impl<M: SerializeMap> Members<M> {
    fn put<T: Serialize + ?Sized>(&mut self, field: &Field, value: &T) {
        if self.result.is_ok() {
            self.result = self.object.serialize_entry(field.name(), value);
        }
    }
}

impl<M: SerializeMap> Visit for Members<M> {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, &*clipped(value, MAX_VALUE));
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        match error.downcast_ref() {
            Some(List(items)) => {
                let items: Vec<_> = items.iter().map(|item| clipped(item, MAX_VALUE)).collect();
                self.put(field, &items);
            }
            None => self.record_debug(field, &format_args!("{error}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        let mut cleaner = Cleaner::clipping(&mut text);
        if write!(cleaner, "{value:?}").and_then(|()| cleaner.finish()).is_ok() {
            self.put(field, &text);
        }
    }
}

/// Strings in which every unprintable character is escaped: JSON alone asks for that up to U+001F.
struct Printable;

impl Formatter for Printable {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((before, behind)) = rest.find(is_unprintable).and_then(|at| rest.split_at_checked(at))
        {
            writer.write_all(before.as_bytes())?;
            let mut behind = behind.chars();
            for unit in behind.next().into_iter().flat_map(|char| char.encode_utf16(&mut [0; 2]).to_vec()) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = behind.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}
