//! [`Partial`]: the arguments of a server call that is announced in several pieces.

use crate::wire::json::{Json, Kind, MAX_DEPTH, Progress, Scanner};

/// How much of a JSON object a string contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// A complete JSON object.
    Whole,
    /// The start of a JSON object.
    Open,
    /// Something else.
    Foreign,
}

impl Extent {
    /// Classifies `text`, ignoring surrounding white space.
    pub(super) fn of(text: &str) -> Self {
        match Json::parse(text) {
            Ok(json) if json.kind() == Kind::Object => Self::Whole,
            Ok(_) => Self::Foreign,
            Err(_) => Progressing::default().push(text),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Partial {
    text: String,
    progress: Progressing,
}

impl Partial {
    /// Adds the next piece, which is the content of a JSON string. `quoted` is the string itself, to be used
    /// if the content is not part of an object.
    ///
    /// A piece that repeats all earlier text and continues it replaces that text, because some servers send
    /// the complete text each time.
    pub(super) fn push(&mut self, piece: &str, quoted: &str) {
        if !self.is_blank() && Extent::of(piece) == Extent::Whole {
            let mut joined = self.progress.clone();
            if piece.starts_with(&self.text) || joined.push(piece) == Extent::Foreign {
                return self.replace(piece);
            }
        }
        if self.progress.push(piece) == Extent::Foreign && self.is_blank() {
            return self.replace(quoted);
        }
        self.text.push_str(piece);
    }

    pub(super) fn replace(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.progress = Progressing::default();
        self.progress.push(text);
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether nothing can follow, because the text is an object or cannot become one.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_blank() && self.progress.extent != Extent::Open
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The text received so far, or `{}` if there is none.
    pub(super) fn text(&self) -> &str {
        if self.is_blank() { "{}" } else { &self.text }
    }
}

/// Scans an object as it arrives, looking at each byte only once.
#[derive(Debug, Clone)]
struct Progressing {
    scanner: Scanner,
    begun: bool,
    extent: Extent,
}

impl Default for Progressing {
    fn default() -> Self {
        Self { scanner: Scanner::new(MAX_DEPTH), begun: false, extent: Extent::Open }
    }
}

impl Progressing {
    fn push(&mut self, text: &str) -> Extent {
        let text = if self.begun { text } else { text.trim_ascii_start() };
        self.extent = match self.extent {
            Extent::Open if text.is_empty() => Extent::Open,
            Extent::Open if !self.begun && !text.starts_with('{') => Extent::Foreign,
            Extent::Open => self.scan(text),
            Extent::Whole if text.trim_ascii().is_empty() => Extent::Whole,
            Extent::Whole | Extent::Foreign => Extent::Foreign,
        };
        self.extent
    }

    fn scan(&mut self, text: &str) -> Extent {
        self.begun = true;
        let (taken, progress) = self.scanner.push(text.as_bytes());
        match progress {
            Progress::More => Extent::Open,
            Progress::End if text.get(taken..).unwrap_or_default().trim_ascii().is_empty() => Extent::Whole,
            _ => Extent::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> (String, bool) {
        let mut partial = Partial::default();
        pieces.iter().for_each(|piece| partial.push(piece, &format!("{piece:?}")));
        (partial.text().to_owned(), partial.is_complete())
    }

    #[test]
    fn pieces_are_joined_until_the_object_ends() {
        assert_eq!(joined(&[]), ("{}".to_owned(), false));
        assert_eq!(joined(&[r#"{"x":"#]), (r#"{"x":"#.to_owned(), false));
        assert_eq!(joined(&[r#"{"x":"#, "1", "}"]), (r#"{"x":1}"#.to_owned(), true));
        assert_eq!(joined(&[r#"{"x":"#, r#"{"y":1}"#]), (r#"{"x":{"y":1}"#.to_owned(), false));
        assert_eq!(joined(&[r#"{"x":"#, "]"]), (r#"{"x":]"#.to_owned(), true));
        assert_eq!(joined(&["words"]), (r#""words""#.to_owned(), true));
    }

    #[test]
    fn complete_copy_replaces_its_beginning() {
        assert_eq!(joined(&[r#"{"x":"#, r#"{"x":1}"#]), (r#"{"x":1}"#.to_owned(), true));
        assert_eq!(joined(&["{", r#"{"x":1}"#]), (r#"{"x":1}"#.to_owned(), true));
    }
}
