//! [`WholeCalls`]: native calls that an upstream sends in one piece, with their names and argument objects.

use std::borrow::Cow;

use super::{Asked, tool_calls::mended};
use crate::{
    event::{CallEnd, CallStart, Event, Opaque, Runner, Sink, Source},
    failure::Failure,
    rules::Limits,
    tools::DeclaredTools,
    wire::json::{Json, Kind, continues, is_same},
};

#[derive(Debug, Default)]
pub(super) struct WholeCalls {
    tools: DeclaredTools,
    limits: Limits,
    /// Whether arguments that are not JSON are repaired.
    repairs: bool,
    next: u32,
    /// The latest call if it has an id, because some servers send it again with more arguments.
    held: Option<Held>,
}

/// A call whose start has been sent. Its arguments and its end are held until the next event.
#[derive(Debug)]
struct Held {
    index: u32,
    id: String,
    name: String,
    arguments: String,
    end: CallEnd,
}

#[derive(Debug, Default)]
pub(super) struct WholeCall<'a> {
    /// The call's id. Empty if the upstream did not send one.
    pub(super) id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    /// The arguments: an object, or whatever was sent in its place.
    pub(super) arguments: Option<Json<'a>>,
    pub(super) signature: Option<Opaque<'a>>,
    pub(super) is_cut: bool,
}

impl WholeCalls {
    pub(super) fn expect(&mut self, asked: &Asked) {
        self.tools = asked.tools.clone();
        self.limits = asked.limits;
        self.repairs = asked.repair;
    }

    pub(super) fn any(&self) -> bool {
        self.next > 0
    }

    /// Emits a call. Arguments that are an object are passed on unchanged, and so is a string that contains
    /// an object, because some servers send the arguments as text. Missing arguments become `{}`. With any
    /// other arguments, the call counts as broken ([`CallEnd::Broken`]), unless they can be repaired.
    ///
    /// # Errors
    /// [`Kind::Limit`](crate::failure::Kind::Limit): the call is too large, or there are too many calls.
    pub(super) fn call(&mut self, call: WholeCall<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let arguments = match call.arguments {
            None => Cow::Borrowed(""),
            Some(json) if json.is_null() => Cow::Borrowed(""),
            Some(json) => json.as_str().unwrap_or(Cow::Borrowed(json.raw())),
        };
        let arguments = if arguments.trim_ascii().is_empty() { Cow::Borrowed("{}") } else { arguments };
        let mut arguments = arguments;
        let mut is_object = Json::parse(&arguments).is_ok_and(|json| json.kind() == Kind::Object);
        if !is_object
            && !call.is_cut
            && self.repairs
            && let Some(mended) = mended(&arguments, &self.limits)
        {
            (arguments, is_object) = (Cow::Owned(mended), true);
        }
        let end = match (call.is_cut, is_object) {
            (true, _) => CallEnd::Cut,
            (false, true) => CallEnd::Complete,
            (false, false) => CallEnd::Broken,
        };
        let is_same_call = |held: &&mut Held| {
            held.id == call.id
                && held.name == call.name
                && (continues(&held.arguments, &arguments) || is_same(&held.arguments, &arguments))
        };
        if let Some(held) = self.held.as_mut().filter(is_same_call) {
            if arguments.len() > self.limits.max_arguments {
                return Err(self.limits.arguments_too_long());
            }
            (held.arguments, held.end) = (arguments.into_owned(), end);
            return Ok(());
        }
        self.release(out);
        self.check(&call, &arguments)?;
        let index = self.next;
        self.next += 1;
        let held =
            (!call.id.is_empty()).then(|| (call.id.clone().into_owned(), call.name.clone().into_owned()));
        out.event(Event::CallStart(CallStart {
            index,
            id: call.id,
            name: call.name,
            runner: Runner::Client,
            source: Source::Native,
            signature: call.signature,
        }));
        match held {
            Some((id, name)) => {
                self.held = Some(Held { index, id, name, arguments: arguments.into_owned(), end });
            }
            None => {
                out.event(Event::CallArguments { index, piece: arguments });
                out.event(Event::CallEnd { index, end });
            }
        }
        Ok(())
    }

    /// Ends the latest call, because something else follows.
    pub(super) fn release(&mut self, out: &mut impl Sink) {
        if let Some(Held { index, arguments, end, .. }) = self.held.take() {
            out.event(Event::CallArguments { index, piece: Cow::Owned(arguments) });
            out.event(Event::CallEnd { index, end });
        }
    }

    fn check(&self, call: &WholeCall<'_>, arguments: &str) -> Result<(), Failure> {
        let limits = &self.limits;
        if usize::try_from(self.next).is_ok_and(|count| count >= limits.max_calls) {
            return Err(limits.too_many_calls());
        }
        if call.name.len() > limits.max_name && self.tools.resolve(&call.name).is_none() {
            return Err(limits.name_too_long());
        }
        if call.id.len() > limits.max_arguments {
            return Err(limits.id_too_long());
        }
        if arguments.len() > limits.max_arguments {
            return Err(limits.arguments_too_long());
        }
        Ok(())
    }
}
