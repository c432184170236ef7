//! [`Variant`]: how a response is sent.

use std::fmt;

use bytes::Bytes;

use super::upstream::Frames;
use crate::upstream::Api;

/// How a response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Frame by frame.
    Frames,
    /// The complete body in one piece.
    Whole,
    /// In two pieces, the first of this many bytes.
    Cut(usize),
    /// In pieces of this many bytes.
    Bytes(usize),
    /// This many frames, then the end of the body.
    End(usize),
    /// This many frames, then the connection is closed within the body.
    Drop(usize),
    /// This many frames, then the dialect's error event, then the end of the body.
    Error(usize),
    /// An error response with this status.
    Status(u16),
    /// Lines end with CR LF.
    CrLf,
    /// Lines end with CR.
    Cr,
    /// `data:` is not followed by a space.
    NoSpace,
    /// A comment precedes every event.
    Comments,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames => Ok(()),
            Self::Whole => f.write_str("@whole"),
            Self::Cut(place) => write!(f, "@cut={place}"),
            Self::Bytes(size) => write!(f, "@bytes={size}"),
            Self::End(frames) => write!(f, "@end={frames}"),
            Self::Drop(frames) => write!(f, "@drop={frames}"),
            Self::Error(frames) => write!(f, "@error={frames}"),
            Self::Status(status) => write!(f, "@status={status}"),
            Self::CrLf => f.write_str("@crlf"),
            Self::Cr => f.write_str("@cr"),
            Self::NoSpace => f.write_str("@no-space"),
            Self::Comments => f.write_str("@comments"),
        }
    }
}

/// The body of a response, ready to be sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    /// The pieces, each sent as a separate chunk.
    pub(crate) pieces: Vec<Bytes>,
    /// Whether the connection is closed after the last piece, without ending the body.
    pub(crate) is_dropped: bool,
    /// Whether to pause after each piece, so that the gateway reads pieces separately.
    pub(crate) rests: bool,
}

impl Variant {
    /// Returns the body for `frames`.
    pub(crate) fn body(self, api: Api, frames: &Frames) -> Sent {
        let head = |count: usize| frames.all.iter().take(count).cloned().map(Bytes::from).collect::<Vec<_>>();
        let rewritten = |from: &str, to: &str| {
            let change = |frame: &Vec<u8>| {
                let text: String = frame.utf8_chunks().map(|chunk| chunk.valid()).collect();
                Bytes::from(text.replace(from, to))
            };
            Sent { pieces: frames.all.iter().map(change).collect(), ..Sent::default() }
        };
        match self {
            Self::Frames | Self::Status(_) => Sent { pieces: head(usize::MAX), ..Sent::default() },
            Self::Whole | Self::Cut(_) | Self::Bytes(_) => self.body_of(&frames.all.concat()),
            Self::End(count) => Sent { pieces: head(count), ..Sent::default() },
            Self::Drop(count) => Sent { pieces: head(count), is_dropped: true, rests: true },
            Self::Error(count) => {
                let mut pieces = head(count);
                pieces.push(api.error_frame(count.min(frames.all.len())).into());
                Sent { pieces, ..Sent::default() }
            }
            Self::CrLf => rewritten("\n", "\r\n"),
            Self::Cr => rewritten("\n", "\r"),
            Self::NoSpace => rewritten("data: ", "data:"),
            Self::Comments => {
                let comment = Bytes::from_static(b": keep-alive\n\n");
                let pieces = head(usize::MAX).into_iter().flat_map(|piece| [comment.clone(), piece]);
                Sent { pieces: pieces.collect(), ..Sent::default() }
            }
        }
    }

    /// Like [`Variant::body`], but for a body whose frames are unknown. Works only for variants that cut the body.
    pub(crate) fn body_of(self, body: &[u8]) -> Sent {
        let body = Bytes::copy_from_slice(body);
        match self {
            Self::Cut(place) => {
                let place = place.min(body.len());
                Sent {
                    pieces: vec![body.slice(..place), body.slice(place..)],
                    rests: true,
                    is_dropped: false,
                }
            }
            Self::Bytes(size) => {
                let pieces = body.chunks(size.max(1)).map(Bytes::copy_from_slice).collect();
                Sent { pieces, ..Sent::default() }
            }
            _ => Sent { pieces: vec![body], ..Sent::default() },
        }
    }
}
