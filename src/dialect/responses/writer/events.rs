//! [`Events`]: the events of a stream, numbered.

use bytes::{BufMut, BytesMut};

/// Where the events of a response go.
#[derive(Debug)]
pub(super) enum Events<'o> {
    /// To the client.
    Written {
        /// The stream.
        out: &'o mut BytesMut,
        /// The number of the next event.
        sequence: &'o mut u64,
    },
    /// Nowhere: the response is not streamed.
    Unwritten,
}

impl<'o> Events<'o> {
    /// To the client, from number `sequence` on.
    pub(super) fn written(out: &'o mut BytesMut, sequence: &'o mut u64) -> Self {
        Self::Written { out, sequence }
    }

    /// Writes an event of this type; `members` are its other members as JSON text.
    pub(super) fn put(&mut self, kind: &str, members: &[&str]) {
        let Self::Written { out, .. } = self else { return };
        for part in ["event: ", kind, "\ndata: {\"type\":\"", kind, "\","] {
            out.put_slice(part.as_bytes());
        }
        members.iter().for_each(|part| out.put_slice(part.as_bytes()));
        self.end(b"");
    }

    /// Writes a delta: `prefix`, as made by [`delta_prefix`], and the escaped text.
    pub(super) fn delta(&mut self, prefix: &[u8], text: &[u8]) {
        let Self::Written { out, .. } = self else { return };
        out.put_slice(prefix);
        out.put_slice(text);
        self.end(b"\"");
    }

    /// `behind`, the event's number, and its end.
    fn end(&mut self, behind: &[u8]) {
        let Self::Written { out, sequence } = self else { return };
        out.put_slice(behind);
        out.put_slice(b",\"sequence_number\":");
        put_digits(**sequence, out);
        out.put_slice(b"}\n\n");
        **sequence += 1;
    }
}

/// Writes a number. The machinery of formatting would cost more than the rest of a delta.
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

/// The beginning of a delta up to its text. All deltas of a part begin in the same way, so this is built once; after that a
/// piece of text allocates nothing.
pub(super) fn delta_prefix(kind: &str, place: &str, more: &str) -> Vec<u8> {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{place}{more},\"delta\":\"").into_bytes()
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
