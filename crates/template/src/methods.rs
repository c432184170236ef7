//! Python's methods of strings and lists, and the filter `join`, within a template's budget.
//!
//! The engine charges for a result only once it exists. Results may be larger than all of memory, so their size is
//! estimated beforehand.

use std::fmt::{self, Write};

use minijinja::{
    Error, ErrorKind, State, Value, filters,
    value::{Kwargs, StringInput, ValueKind, from_args},
};
use minijinja_contrib::pycompat;

/// How many written bytes cost one unit of work.
const BYTES_PER_FUEL: usize = 64;

/// How many bytes of input cost one unit of work. Reading is much cheaper than writing.
const READ_PER_FUEL: usize = 1024;

/// The maximum width and precision of a field in `str.format`.
const MAX_WIDTH: usize = 4096;

/// The maximum size in bytes of a formatted number that has neither width nor precision.
const NUMBER: usize = 512;

/// How much memory each piece of a split string takes in addition to its text, in bytes.
const PIECE: usize = 64;

/// Calls a method that values have in Python but not in Jinja.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        read(state, text.len())?;
        if let ("join", [values]) = (method, args) {
            return joined(state, text, values);
        }
        afford(state, size_of_result(text, method, args, budget(state))?)?;
    } else if method == "count" {
        read(state, value.len().unwrap_or(0).saturating_mul(PIECE))?;
    }
    pycompat::unknown_method_callback(state, value, method, args)
}

/// The filter `join`. If the separator is empty, the engine does not count the size of the joined items.
pub(super) fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let budget = budget(state);
        let (mut size, mut items) = (0_usize, Vec::new());
        for item in value.try_iter()?.checked() {
            let item = item?;
            size = size.saturating_add(length(&item, budget)).saturating_add(1);
            afford(state, size.saturating_add(items.len().saturating_mul(size_of::<Value>())))?;
            items.push(item);
        }
        // An iterator may yield its items only once, so `value` cannot be used again.
        return filters::join(state, &Value::from(items), joiner, attribute, options);
    }
    filters::join(state, value, joiner, attribute, options)
}

/// Returns how many bytes the template may still write.
fn budget(state: &State<'_, '_>) -> usize {
    let fuel = state.fuel_levels().map_or(u64::MAX, |(_, remaining)| remaining);
    usize::try_from(fuel).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_FUEL)
}

fn afford(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    if bytes > budget(state) { Err(too_much()) } else { Ok(()) }
}

fn read(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    state.consume_fuel(u64::try_from(bytes / READ_PER_FUEL).unwrap_or(u64::MAX))
}

fn too_much() -> Error {
    ErrorKind::OutOfFuel.into()
}

/// Returns the maximum size of a method's result, in bytes. The size is 0 for calls that the method itself will
/// reject.
fn size_of_result(text: &str, method: &str, args: &[Value], budget: usize) -> Result<usize, Error> {
    let size = match method {
        "format" => size_of_format(text, args, budget)?,
        "replace" => match from_args::<(&str, &str, Option<i32>)>(args) {
            Ok((old, new, count)) => {
                let most = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
                let times = if old.is_empty() { text.len() + 1 } else { text.matches(old).count() };
                text.len().saturating_add(times.min(most).saturating_mul(new.len()))
            }
            Err(_) => 0,
        },
        "split" => {
            let separator = args.first().and_then(Value::as_str).filter(|separator| !separator.is_empty());
            let pieces = match separator {
                Some(separator) => text.matches(separator).count() + 1,
                None => text.len() / 2 + 1,
            };
            // For splitting at white space, this is an upper bound. Few texts have that many pieces.
            text.len().saturating_add(pieces.min(text.len()).saturating_mul(PIECE) / 4)
        }
        "splitlines" => {
            text.len() + memchr::memchr_iter(b'\n', text.as_bytes()).count().saturating_mul(PIECE)
        }
        // Changing the case turns a character into at most three.
        "upper" | "lower" | "title" | "capitalize" => text.len().saturating_mul(3),
        _ => 0,
    };
    Ok(size)
}

/// Python's `str.join`. An iterator may yield its values only once, so they cannot be measured beforehand. Instead,
/// the size is checked while the text is written.
fn joined(state: &State<'_, '_>, separator: &str, values: &Value) -> Result<Value, Error> {
    let mut joined = Limited { text: String::new(), most: budget(state) };
    for (number, value) in values.try_iter()?.checked().enumerate() {
        let value = value?;
        let separator = if number > 0 { separator } else { "" };
        joined.write_str(separator).and_then(|()| write!(joined, "{value}")).map_err(|_| too_much())?;
    }
    Ok(joined.text.into())
}

/// Estimates the size of `str.format`'s result, assuming that every field shows the longest argument.
fn size_of_format(text: &str, args: &[Value], budget: usize) -> Result<usize, Error> {
    let (mut fields, mut widest) = (0_usize, 0_usize);
    let mut rest = text;
    while let Some((_, field)) = rest.split_once('{') {
        if let Some(escaped) = field.strip_prefix('{') {
            rest = escaped;
            continue;
        }
        fields += 1;
        let (spec, behind) = spec_of(field);
        for number in spec.split(|char: char| !char.is_ascii_digit()).filter(|number| !number.is_empty()) {
            widest = widest.max(number.parse().unwrap_or(usize::MAX));
        }
        rest = behind;
    }
    if widest > MAX_WIDTH {
        return Err(too_much());
    }
    let longest = args.iter().map(|arg| length(arg, budget)).max().unwrap_or(0);
    let field = longest.max(NUMBER).saturating_add(2 * widest);
    let is_cheap = fields <= 1000 && longest < NUMBER;
    Ok(if is_cheap { 0 } else { text.len().saturating_add(fields.saturating_mul(field)) })
}

/// Returns the format specification of the field at the start of `field`, without the fill character, and the text
/// after it.
fn spec_of(field: &str) -> (&str, &str) {
    let mut name = field;
    loop {
        let Some(at) = name.find(['[', ':', '}']) else { return ("", "") };
        let (mark, behind) = name.split_at_checked(at).map_or(("", ""), |(_, rest)| rest.split_at(1));
        match mark {
            "[" => name = behind.split_once(']').map_or("", |(_, behind)| behind),
            ":" => {
                let mut chars = behind.chars();
                chars.next();
                let spec = if chars.as_str().starts_with(['<', '>', '^']) { chars.as_str() } else { behind };
                return spec.split_once('}').unwrap_or((spec, ""));
            }
            _ => return ("", behind),
        }
    }
}

/// Returns the length of a value as text, in bytes. If that exceeds `most`, the result is some number above `most`.
fn length(value: &Value, most: usize) -> usize {
    if let Some(text) = value.as_str() {
        return text.len();
    }
    let mut counter = Counter { bytes: 0, most };
    // Only fails if the text is longer than `most`.
    let _ = write!(counter, "{value}");
    counter.bytes
}

struct Counter {
    bytes: usize,
    most: usize,
}

impl Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > self.most { Err(fmt::Error) } else { Ok(()) }
    }
}

/// A string of at most `most` bytes.
struct Limited {
    text: String,
    most: usize,
}

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len().saturating_add(text.len()) > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}
