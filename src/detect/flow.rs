//! [`Flow`]: the inside of a string of arguments, past which a call need not be looked at.
//!
//! By far the most of a long call is the inside of one string, and most pieces of it have nothing that could end it,
//! would have to be written otherwise, or might have to be held. They go out as they are and change nothing, so the
//! walk over the call need not see them. Every other piece goes the long way; what comes out is the same.

/// What stops the flow of a string, besides what JSON writes as an escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// A string of JSON in double quotes.
    Json,
    /// A string in quotes of either kind.
    Quotes,
    /// Text between tags, which may have entities and CDATA.
    Tags,
}

impl Flow {
    /// Nothing in `text` stops it.
    pub(super) fn takes(self, text: &str) -> bool {
        let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
        match self {
            Self::Json => text.bytes().all(plain),
            Self::Quotes => text.bytes().all(|byte| plain(byte) && byte != b'\''),
            Self::Tags => text.bytes().all(|byte| plain(byte) && !matches!(byte, b'<' | b'&' | b']')),
        }
    }
}
