//! [`ResponseState`]: interprets the data of one response in its dialect.
//!
//! A dialect reads single objects. All of them share how data is split into objects, the forms in which
//! servers send it, and when a response ends.

use std::fmt::Debug;

#[cfg(feature = "bedrock")]
use toolwire_wire::amazon_frames;

use super::{Asked, JsonBody, Progress, ReasoningField, Skip, Skipped, not_json, progress::truncated};
use crate::{
    event::Sink,
    failure::{Failure, Kind as FailureKind},
    wire::json::{Invalid, Json, Kind},
};

#[derive(Debug)]
pub enum Found<'t> {
    /// An object, which has been handled.
    Object,
    Other(Json<'t>),
    /// Text that is not JSON.
    NotJson,
}

/// Interprets the data of one response in its dialect.
pub trait ResponseState: Debug {
    /// How to read a body that starts like JSON.
    const JSON: JsonBody;

    /// Whether streams consist of Amazon's frames.
    #[cfg(feature = "bedrock")]
    const IS_BINARY: bool = false;

    /// Whether servers of the dialect may run tools themselves and report that in their responses.
    const RUNS_TOOLS: bool = false;

    /// The end of the error message for a body in which nothing belongs to a response, such as
    /// `frames is a completion chunk`. `None` if such a body counts as truncated.
    const NONE_OF: Option<&'static str> = None;

    /// Sets what the request asked for. Called once, before any data.
    fn expect(&mut self, asked: Asked);

    /// The fast path: reads data that matches a template. Returns whether it did.
    ///
    /// # Errors
    /// The same as for [`ResponseState::object`].
    fn known(&mut self, data: &str, out: &mut impl Sink) -> Result<bool, Failure>;

    /// Handles `text` if it is an object, possibly surrounded by white space.
    ///
    /// # Errors
    /// The upstream's error, or a description of how the object violates the dialect.
    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure>;

    /// Prepares for a body that is one JSON value.
    fn begin_value(&mut self, _value: &str, _out: &mut impl Sink) {}

    /// Whether a response that has begun counts as complete if its body ends properly, even though neither a
    /// finish reason nor an end marker has arrived.
    ///
    /// This is the case if the settings tolerate truncation. It may also be the case if `is_value` is set:
    /// the body was a single JSON value. In some dialects, this shows that the response arrived in one piece.
    fn may_end(&self, is_value: bool) -> bool;

    /// Ends the response. If no finish reason arrived, it is derived from the content.
    ///
    /// # Errors
    /// The response is not complete.
    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure>;

    /// Passes on usage that has been kept for the end of the response.
    fn tell_usage(&mut self, _out: &mut impl Sink) {}

    /// How far the response has progressed.
    fn progress(&self) -> &Progress;

    fn notes(&mut self) -> (&mut Progress, &mut Skipped);

    /// The parts of the response that were left out, by reason.
    fn skipped(&self) -> Skipped;

    /// The field in which reasoning arrived, in dialects that have several such fields.
    fn reasoning_field(&self) -> Option<ReasoningField> {
        None
    }

    /// Handles the data of a server-sent event, a line of JSON Lines, or an element of an array. `is_last` is
    /// set if the end of the body may have truncated the data.
    ///
    /// # Errors
    /// The upstream's error, or a description of how the data violates the dialect.
    fn data(&mut self, data: &str, is_last: bool, out: &mut impl Sink) -> Result<(), Failure> {
        if self.known(data, out)? { Ok(()) } else { self.read(data, false, is_last, out) }
    }

    /// Handles one of Amazon's frames, in dialects whose streams consist of them.
    ///
    /// # Errors
    /// The same as for [`ResponseState::data`].
    #[cfg(feature = "bedrock")]
    fn frame(&mut self, _frame: amazon_frames::Frame<'_>, _out: &mut impl Sink) -> Result<(), Failure> {
        Ok(())
    }

    /// Handles a body that is, or should have been, a single JSON value.
    ///
    /// # Errors
    /// The same as for [`ResponseState::data`].
    fn value(&mut self, value: &str, out: &mut impl Sink) -> Result<(), Failure> {
        self.begin_value(value, out);
        // In dialects with `Lines` or `Elements`, the body reader has already separated the values, so any
        // lines here belong to a single value.
        let is_value = Self::JSON != JsonBody::Value;
        self.read(value, is_value, is_value, out)
    }

    /// Handles `[DONE]`. After a finish reason it ends the response; if there is no finish reason, the body
    /// must also end properly. Gateways also send it in APIs that have no such marker.
    ///
    /// # Errors
    /// The response is not complete.
    fn mark_end(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if self.notes().0.mark_end() { self.close(out) } else { Ok(()) }
    }

    /// Ends the body. `is_value` is set if the body was one JSON value.
    ///
    /// # Errors
    /// [`Kind::Truncated`](FailureKind::Truncated) if the response is not complete.
    fn end(&mut self, is_value: bool, out: &mut impl Sink) -> Result<(), Failure> {
        if self.progress().is_done {
            return Ok(());
        }
        if self.progress().ends_with_body(self.may_end(is_value)) {
            return self.close(out);
        }
        self.tell_usage(out);
        let (progress, skipped) = self.notes();
        match (Self::NONE_OF, skipped.malformed()) {
            (Some(none_of), malformed @ 1..) if !progress.has_choice => {
                let message = format!("none of the upstream's {malformed} {none_of}");
                Err(Failure::new(FailureKind::Protocol, message))
            }
            _ => Err(truncated()),
        }
    }

    /// Reads data. Some servers send several objects, one on each line or in an array, or `[DONE]` although
    /// the API has no end marker. If `is_value` is set, the data is a complete body that should be one value,
    /// so its lines are not read one by one. If `is_last` is set, the data may have been truncated by the end
    /// of the body.
    ///
    /// # Errors
    /// The same as for [`ResponseState::object`]; inside a response, also data that is not JSON.
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

    /// Reads an element of an array. Arrays inside it are not read, because each level would have to be
    /// parsed again.
    ///
    /// # Errors
    /// The same as for [`ResponseState::object`].
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

impl<'t> Found<'t> {
    /// Reads a parsed value with `read` if it is an object.
    ///
    /// # Errors
    /// The failure of `read`.
    pub(super) fn read<V>(
        parsed: Result<(Json<'t>, V), Invalid>,
        read: impl FnOnce(&V, Json<'t>) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        match parsed {
            Ok((json, view)) if json.kind() == Kind::Object => read(&view, json).map(|()| Self::Object),
            Ok((json, _)) => Ok(Self::Other(json)),
            Err(_) => Ok(Self::NotJson),
        }
    }
}
