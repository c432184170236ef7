//! The arguments of a call, and its end.

use std::borrow::Cow;

use super::{Calls, Fate, send};
use crate::{
    event::{CallEnd, CallStart, Event, Runner, Sink},
    wire::text::{append, boundary_upto, head},
};

impl Calls {
    pub(super) fn arguments(
        &mut self,
        source: u32,
        piece: Cow<'_, str>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) {
        let limit = self.settings.limits.max_arguments;
        if let Some(hosted) = &mut self.hosted {
            hosted.piece(source, &piece);
            self.failure = hosted.failure(&self.settings.limits);
        }
        let Some(entry) = self.entry(source) else { return };
        let room = limit.saturating_sub(entry.bytes);
        let fits = piece.len() <= room;
        entry.bytes += piece.len();
        match &mut entry.fate {
            Fate::Sent { index, .. } => {
                let index = *index;
                // Send the part within the limit, so that the output does not depend on how the arguments
                // were split.
                let piece =
                    if fits { piece } else { head(&piece, boundary_upto(&piece, room)).to_owned().into() };
                send(Event::CallArguments { index, piece }, frame.filter(|_| index == source && fits), out);
            }
            Fate::Waits { arguments, .. } if fits => match piece {
                // An earlier stage already held the complete arguments, so they are moved rather than copied.
                Cow::Owned(all) if arguments.is_empty() => *arguments = all,
                piece => append(arguments, &piece),
            },
            Fate::Annotated { arguments: Some(arguments), .. } if fits => {
                append(arguments, &piece);
                self.kept += piece.len();
            }
            _ => {}
        }
        if !fits {
            self.failure = Some(self.settings.limits.arguments_too_long());
        }
    }

    pub(super) fn end(&mut self, source: u32, end: CallEnd, frame: Option<&str>, out: &mut impl Sink) {
        let is_too_much = self.kept > self.settings.limits.max_hold;
        let Some(entry) = self.entry(source) else { return };
        match &mut entry.fate {
            Fate::Sent { index, runner } => {
                let (index, runner) = (*index, *runner);
                if runner == Runner::Client {
                    self.cut |= end == CallEnd::Cut;
                    if end == CallEnd::Broken {
                        self.note_broken(index);
                    }
                    if end == CallEnd::Complete {
                        self.note_complete(index);
                        self.supersede(index);
                        self.note_end(source);
                    }
                }
                send(Event::CallEnd { index, end }, frame.filter(|_| index == source), out);
            }
            Fate::Hosted { rescue } => {
                let rescue = *rescue;
                self.settle(source, Fate::Hidden);
                self.end_hosted(source, end, rescue);
            }
            fate @ Fate::Waits { .. } => {
                let Fate::Waits { start, arguments, rescue } = std::mem::replace(fate, Fate::Hidden) else {
                    return;
                };
                self.end_waiting(source, start, arguments, rescue, end, out);
            }
            Fate::Annotated { .. } if is_too_much => {
                // The arguments are too long to be retained until a result arrives, so the call is reported
                // without a result.
                self.annotate(source, None, out);
            }
            _ => {}
        }
    }

    fn end_waiting(
        &mut self,
        source: u32,
        start: CallStart<'static>,
        arguments: String,
        rescue: bool,
        end: CallEnd,
        out: &mut impl Sink,
    ) {
        if end == CallEnd::Cut {
            self.cut = true;
            self.cut_calls.push((start, arguments));
            return;
        }
        if self.tools.resolve(&start.name).is_some() {
            self.corrections.ends(&start.name, &arguments, end);
        }
        if rescue {
            self.settle(source, Fate::Rescued);
        }
        if self.hosted.as_ref().is_some_and(|hosted| hosted.holds_client_calls()) {
            return self.hold(start, (arguments, end), rescue);
        }
        let index = match rescue && end == CallEnd::Complete {
            true => self.rescue(start, &arguments, out),
            false => self.send_start(start, None, out),
        };
        let Some(index) = index else { return };
        self.note_sent(source);
        if end == CallEnd::Complete {
            self.note_end(source);
            self.supersede(index);
        }
        self.send_whole(index, arguments, end, out);
    }

    /// Sends the arguments and the end of a call whose start has been sent.
    pub(super) fn send_whole(&mut self, index: u32, arguments: String, end: CallEnd, out: &mut impl Sink) {
        if end == CallEnd::Broken {
            self.note_broken(index);
        }
        out.event(Event::CallArguments { index, piece: Cow::Owned(arguments) });
        out.event(Event::CallEnd { index, end });
    }

    /// Records that the arguments of the call sent as `index` are not JSON.
    fn note_broken(&mut self, index: u32) {
        let name = self.sent_name(index).unwrap_or_default().to_owned();
        self.broken.push(name);
    }

    /// Records that the call sent as `index` is complete. Its arguments are not checked.
    fn note_complete(&mut self, index: u32) {
        let call = usize::try_from(index).ok().and_then(|index| self.tally.calls.get(index));
        if let Some(name) = call.and_then(|call| call.name.as_deref()) {
            self.corrections.is_valid(name);
        }
    }

    /// The declared name of the call sent as `index`.
    fn sent_name(&self, index: u32) -> Option<&str> {
        let call = usize::try_from(index).ok().and_then(|index| self.tally.calls.get(index));
        call.and_then(|call| call.name.as_deref())
    }

    pub(super) fn note_sent(&mut self, source: u32) {
        if let (Some(hosted), Some(id)) = (&mut self.hosted, self.sent_ids.last()) {
            hosted.sent(source, id);
        }
    }

    pub(super) fn note_end(&mut self, source: u32) {
        if let Some(hosted) = &mut self.hosted {
            hosted.ends(source);
        }
    }
}
