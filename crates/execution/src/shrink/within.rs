//! Leaves out the ends of arrays and objects, so that JSON fits into a limit.
//!
//! The room for a value is divided among its members: each gets what it needs, but the largest ones get less. In an array,
//! the first elements are kept whole, as many as fit. Each value is measured once and written once.

use serde_json::{Map, Value};

use super::strings::{MARK, fitting, written_length};

/// Length to which long strings are cut before elements are left out, in bytes of JSON.
const MAX_STRING: usize = 256;

/// Leaves out as much of `value` as is necessary. Returns `None` if nothing of it fits.
pub(super) fn within(value: &Value, limit: usize) -> Option<String> {
    let size = Size::of(value);
    let mut out = String::new();
    (size.min <= limit).then(|| write(value, &size, limit, &mut out))?;
    (out.len() <= limit).then_some(out)
}

/// The size of a value as it is written here, in bytes.
#[derive(Debug, Default)]
struct Size {
    /// Its key, with quotes and colon, if it is a member.
    key: usize,
    /// With all of its elements and members.
    full: usize,
    /// With as little as possible.
    min: usize,
    /// The sizes of the elements or members.
    inner: Vec<Size>,
}

impl Size {
    fn of(value: &Value) -> Self {
        let (inner, note): (Vec<Self>, _) = match value {
            Value::Array(elements) => {
                let note = elements_missing(elements.len(), elements.len());
                (elements.iter().map(Self::of).collect(), note)
            }
            Value::Object(members) => {
                let note = members_missing(members.len(), members.len());
                let of_member =
                    |(key, value): (&String, &Value)| Self { key: written_key(key).len(), ..Self::of(value) };
                (members.iter().map(of_member).collect(), note)
            }
            other => {
                let length = written_scalar(other).len();
                return Self { full: length, min: length, ..Self::default() };
            }
        };
        let around = 2 + inner.len().saturating_sub(1);
        let full = inner.iter().map(|size| size.key + size.full).sum::<usize>() + around;
        Self { key: 0, full, min: full.min(note.len() + 2), inner }
    }

    /// The least that it takes, with its key and a comma.
    fn least(&self) -> usize {
        self.key + self.min + 1
    }
}

/// Writes as much of `value` as fits into `room` bytes, which must be at least its minimum.
fn write(value: &Value, size: &Size, room: usize, out: &mut String) {
    match value {
        Value::Array(elements) => {
            out.push('[');
            write_elements(elements, size, room, out);
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            write_members(members, size, room, out);
            out.push('}');
        }
        other => out.push_str(&written_scalar(other)),
    }
}

/// Writes the first elements of an array, as many as fit.
fn write_elements(elements: &[Value], size: &Size, room: usize, out: &mut String) {
    let count = elements.len();
    let (mut left, mut written) = match size.full <= room {
        true => (usize::MAX, 0),
        false => (room.saturating_sub(elements_missing(count, count).len() + 2), 0),
    };
    for (element, size) in elements.iter().zip(&size.inner) {
        // The first element is shortened if it does not fit, so that the model sees what elements look like.
        let own = if written == 0 { size.full.min(left.saturating_sub(1)) } else { size.full };
        let Some(rest) = left.checked_sub(own + 1).filter(|_| own >= size.min) else { break };
        put_comma(written, out);
        write(element, size, own, out);
        left = rest;
        written += 1;
    }
    if written < count {
        put_comma(written, out);
        out.push_str(&elements_missing(count - written, count));
    }
}

/// Writes the members of an object, and leaves out the last ones if not all of them fit.
fn write_members(members: &Map<String, Value>, size: &Size, room: usize, out: &mut String) {
    let count = members.len();
    // There is a comma less than members.
    let mut room = room.saturating_sub(1);
    let mut kept = count;
    if size.inner.iter().map(Size::least).sum::<usize>() > room {
        room = room.saturating_sub(members_missing(count, count).len() + 1);
        let mut left = room;
        let fits = |size: &&Size| {
            let rest = left.checked_sub(size.least());
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        kept = size.inner.iter().take_while(fits).count();
    }
    let sizes = size.inner.get(..kept).unwrap_or_default();
    let most = fair(sizes, room);
    for (place, ((key, value), size)) in members.iter().zip(sizes).enumerate() {
        put_comma(place, out);
        out.push_str(&written_key(key));
        write(value, size, size.full.min(most.max(size.min)), out);
    }
    if kept < count {
        put_comma(kept, out);
        out.push_str(&members_missing(count - kept, count));
    }
}

/// The most that the value of a member may take, so that all of them together fit into `room`.
fn fair(sizes: &[Size], room: usize) -> usize {
    let taken = |most: usize| {
        let of_one = |size: &Size| size.key + size.full.min(most.max(size.min)) + 1;
        sizes.iter().map(of_one).sum::<usize>()
    };
    if taken(usize::MAX) <= room {
        return usize::MAX;
    }
    let (mut low, mut high) = (0, room);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match taken(middle) <= room {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    low
}

fn put_comma(place: usize, out: &mut String) {
    if place > 0 {
        out.push(',');
    }
}

/// A key with the colon.
fn written_key(key: &str) -> String {
    format!("{}:", Value::from(key))
}

fn written_scalar(value: &Value) -> String {
    match value {
        Value::String(text) if written_length(text) > MAX_STRING => {
            let kept = text.get(..fitting(text, MAX_STRING - MARK.len())).unwrap_or_default();
            Value::from(format!("{kept}{MARK}")).to_string()
        }
        other => other.to_string(),
    }
}

fn elements_missing(missing: usize, count: usize) -> String {
    format!("\"[shortened: the last {missing} of {count} elements are missing]\"")
}

fn members_missing(missing: usize, count: usize) -> String {
    format!("\"shortened\":\"the last {missing} of {count} members are missing\"")
}
