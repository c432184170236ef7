//! [`Channel`]: decodes one kind of text in an upstream's stream (the response itself, or its reasoning), and
//! tracks whether its frames can be forwarded unchanged.

use crate::{
    event::{Event, Sink},
    wire::json::Unescaper,
};

/// Emits an event. If its frame contains nothing else, the frame goes with it.
pub(super) fn emit(out: &mut impl Sink, frame: Option<&str>, event: Event<'_>) {
    match frame {
        Some(frame) => out.event(Event::Verbatim { frame, means: Some(&event) }),
        None => out.event(event),
    }
}

/// Decodes the JSON string bodies of one channel, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Channel {
    unescaper: Unescaper,
    scratch: String,
    /// Number of bytes of text received so far, if each frame repeats all earlier text.
    seen: usize,
    /// Whether the last piece started or ended inside a surrogate pair.
    cut: bool,
}

impl Channel {
    pub(super) fn piece<'a>(&'a mut self, body: &'a str) -> &'a str {
        if !body.is_empty() {
            self.cut = cuts_pair(body);
        }
        self.unescaper.decode(body, &mut self.scratch)
    }

    /// Whether the frame of a piece may be forwarded, which is not the case if the piece starts or ends
    /// inside a surrogate pair.
    pub(super) fn may_forward(&self, body: &str) -> bool {
        !self.cut && !cuts_pair(body)
    }

    /// Decodes a string that repeats all earlier text and returns the part of it that is new.
    pub(super) fn news<'a>(&'a mut self, body: &'a str) -> &'a str {
        self.unescaper.finish();
        let text = self.unescaper.decode(body, &mut self.scratch);
        let news = text.get(self.seen..).unwrap_or_default();
        self.seen = self.seen.max(text.len());
        news
    }

    /// Ends the channel. If half of a surrogate pair is left over, returns the replacement character for it.
    pub(super) fn finish(&mut self) -> Option<char> {
        self.unescaper.finish()
    }
}

/// Whether a string body starts or ends inside a surrogate pair that the server has split. Such a frame
/// cannot be forwarded, because most clients decode each frame on its own.
pub(super) fn cuts_pair(body: &str) -> bool {
    let body = body.as_bytes();
    let is_half = |escape: &[u8], halves: &[u8]| match escape {
        [b'\\', b'u', b'd' | b'D', half, _, _] => halves.contains(half),
        _ => false,
    };
    let Some(escape) = body.last_chunk::<6>() else { return false };
    let begins = body.first_chunk::<6>().is_some_and(|escape| is_half(escape, b"cdefCDEF"));
    begins || is_half(escape, b"89abAB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogate_pair_is_cut_only_at_the_end_of_a_piece() {
        for cut in [r"\ud83d", r"a\uDBFF", r"\ude00b", r"\uDC00", r"\ud83d\ude00\ud83d"] {
            assert!(cuts_pair(cut), "{cut}");
        }
        for whole in ["", "a", r"\ud83d\ude00", r"a\ud83d\ude00b", r"\u00e9", r"\n", "😀"] {
            assert!(!cuts_pair(whole), "{whole}");
        }
    }

    #[test]
    fn surrogate_half_is_kept_across_empty_pieces() {
        let mut channel = Channel::default();
        assert_eq!(channel.piece(r"\ud83d"), "");
        assert_eq!(channel.piece(""), "");
        assert!(!channel.may_forward("b"));
        assert_eq!(channel.piece(r"\ude00"), "😀");
        assert!(!channel.may_forward("b"), "the piece before began inside a pair");
        assert_eq!(channel.piece("b"), "b");
        assert!(channel.may_forward("c"));
        assert_eq!(channel.finish(), None);
    }

    #[test]
    fn repeated_text_yields_only_the_new_part() {
        let mut channel = Channel::default();
        let news = ["a", "aé", "aé", "a", "aéb"].map(|text| channel.news(text).to_owned());
        assert_eq!(news, ["a", "é", "", "", "b"]);
    }
}
