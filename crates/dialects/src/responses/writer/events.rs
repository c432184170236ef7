//! [`Events`]: writes the numbered events of a stream.

use bytes::{BufMut, BytesMut};

use super::rope::{Pending, Rope};

#[derive(Debug)]
pub(super) enum Events<'o> {
    Written {
        out: &'o mut BytesMut,
        sequence: &'o mut u64,
        /// Pending output. `None` if everything is written at once.
        pending: Option<&'o mut Pending>,
    },
    /// Nowhere, because the response is not streamed.
    Unwritten,
}

impl<'o> Events<'o> {
    /// Creates events for the client, numbered from `sequence` on.
    pub(super) fn written(
        out: &'o mut BytesMut,
        sequence: &'o mut u64,
        pending: Option<&'o mut Pending>,
    ) -> Self {
        Self::Written { out, sequence, pending }
    }

    /// Writes an event of the type `kind`. `members` are its other members, as JSON.
    pub(super) fn put(&mut self, kind: &str, members: &[&str]) {
        self.begin(kind);
        self.text(members);
        self.end("");
    }

    /// Like [`Events::put`], with a possibly large text between `before` and `behind`.
    pub(super) fn put_rope(&mut self, kind: &str, before: &[&str], rope: &Rope, behind: &str) {
        self.begin(kind);
        self.text(before);
        match self {
            Self::Written { pending: Some(pending), .. } if rope.is_large() || !pending.is_empty() => {
                pending.append(rope);
            }
            Self::Written { out, .. } => rope.pieces().for_each(|piece| out.put_slice(piece.as_bytes())),
            Self::Unwritten => {}
        }
        self.end(behind);
    }

    /// Writes a delta that consists of `prefix`, created by [`delta_prefix`], and the escaped `text`.
    pub(super) fn delta(&mut self, prefix: &str, text: &str) {
        self.text(&[prefix, text]);
        self.end("\"");
    }

    fn begin(&mut self, kind: &str) {
        self.text(&["event: ", kind, "\ndata: {\"type\":\"", kind, "\","]);
    }

    /// Writes these strings, after any pending output.
    fn text(&mut self, parts: &[&str]) {
        match self {
            Self::Written { pending: Some(pending), .. } if !pending.is_empty() => {
                parts.iter().for_each(|part| pending.push(part));
            }
            Self::Written { out, .. } => parts.iter().for_each(|part| out.put_slice(part.as_bytes())),
            Self::Unwritten => {}
        }
    }

    /// Writes `behind`, the number of the event, and the end of the event.
    fn end(&mut self, behind: &str) {
        match self {
            Self::Written { pending: Some(pending), sequence, .. } if !pending.is_empty() => {
                let number = sequence.to_string();
                for part in [behind, ",\"sequence_number\":", &number, "}\n\n"] {
                    pending.push(part);
                }
                **sequence += 1;
            }
            Self::Written { out, sequence, .. } => {
                out.put_slice(behind.as_bytes());
                out.put_slice(b",\"sequence_number\":");
                put_digits(**sequence, out);
                out.put_slice(b"}\n\n");
                **sequence += 1;
            }
            Self::Unwritten => {}
        }
    }
}

/// Writes a number. The standard formatting code would cost more than everything else in a delta.
fn put_digits(mut number: u64, out: &mut BytesMut) {
    let mut room = [b'0'; 20];
    let mut start = room.len();
    for (place, digit) in room.iter_mut().enumerate().rev() {
        *digit += u8::try_from(number % 10).unwrap_or_default();
        start = place;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put_slice(room.get(start..).unwrap_or_default());
}

/// The start of a delta, up to its text. It is the same for all deltas of a part, so it is built only once,
/// and writing a piece of text needs no allocation.
pub(super) fn delta_prefix(kind: &str, place: &str, more: &str) -> String {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{place}{more},\"delta\":\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 9, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            let mut out = BytesMut::new();
            put_digits(number, &mut out);
            assert_eq!(out, number.to_string());
        }
    }
}
