//! [`ReadObjects`]: reads data that should be one JSON object, and accepts other forms that some servers
//! send.

use super::{Progress, Skip, Skipped, not_json};
use crate::{
    event::Sink,
    failure::Failure,
    wire::json::{Json, Kind},
};

#[derive(Debug)]
pub(super) enum Found<'t> {
    /// An object, which has been handled.
    Object,
    Other(Json<'t>),
    NotJson,
}

/// Handles the objects that make up a dialect's responses.
pub(super) trait ReadObjects {
    /// Handles `text` if it is an object, possibly surrounded by white space.
    ///
    /// # Errors
    /// The upstream's error, or a description of how the object violates the dialect.
    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure>;

    /// Handles `[DONE]`. It ends the response if a finish reason came before it; otherwise, the body must
    /// also end properly.
    ///
    /// # Errors
    /// The response is incomplete.
    fn mark_end(&mut self, out: &mut impl Sink) -> Result<(), Failure>;

    fn notes(&mut self) -> (&Progress, &mut Skipped);

    /// Handles data. Some servers send several objects, one per line or in an array, or `[DONE]` although the
    /// API has no end marker. `is_value` says that the data is a complete body that should be a single value,
    /// so it is not split into lines. `is_last` says that the end of the body may have truncated the data.
    ///
    /// # Errors
    /// The same as for [`ReadObjects::object`]. Within a response, also data that is not JSON.
    fn read(
        &mut self,
        text: &str,
        is_value: bool,
        is_last: bool,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        // A server that concatenates files may send a byte order mark before any frame.
        let text = text.trim_start_matches('\u{feff}');
        let trimmed = text.trim();
        let (progress, _) = self.notes();
        if trimmed.is_empty() || progress.is_marked || progress.is_done {
            return Ok(());
        }
        if trimmed.starts_with("[DONE]") {
            return self.mark_end(out);
        }
        match self.object(text, out)? {
            Found::Object => {}
            Found::Other(json) if json.kind() == Kind::Array => {
                json.elements().try_for_each(|element| self.element(element, out))?;
            }
            Found::Other(json) => self.other(json),
            // The server left out the blank line between events.
            Found::NotJson if !is_value && trimmed.contains(['\n', '\r']) => {
                trimmed.split(['\n', '\r']).try_for_each(|line| self.read(line, false, is_last, out))?;
            }
            Found::NotJson => {
                let (progress, skipped) = self.notes();
                let is_loss = progress.is_inside() && !is_last;
                not_json(trimmed, is_loss, skipped)?;
            }
        }
        Ok(())
    }

    /// Handles an element of an array. Nested arrays are not read, because every level would have to be
    /// parsed again.
    ///
    /// # Errors
    /// The same as for [`ReadObjects::object`].
    fn element(&mut self, element: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let (progress, _) = self.notes();
        if progress.is_marked || progress.is_done {
            return Ok(());
        }
        if let Found::Other(json) = self.object(element.raw(), out)? {
            self.other(json);
        }
        Ok(())
    }

    /// Records a value that is not part of a response.
    fn other(&mut self, json: Json<'_>) {
        if json.kind() != Kind::Null {
            self.notes().1.add(Skip::NotAChunk);
        }
    }
}
