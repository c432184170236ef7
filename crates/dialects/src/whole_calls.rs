//! [`WholeCalls`]: native calls that an upstream sends in one piece, each with a name and an object of
//! arguments.

use std::borrow::Cow;

use super::{Asked, tool_calls::mended};
use crate::{
    event::{CallEnd, CallStart, Event, Opaque, Runner, Sink, Source},
    failure::Failure,
    rules::Limits,
    tools::DeclaredTools,
    wire::json::{Json, Kind, continues, is_same},
};

/// The native calls of one response.
#[derive(Debug, Default)]
pub(super) struct WholeCalls {
    tools: DeclaredTools,
    limits: Limits,
    /// Whether arguments that are not JSON are repaired.
    repairs: bool,
    /// The number of the next call, see [`CallStart::index`].
    next: u32,
    /// The last call, if it has an id, because some servers send it again with more arguments.
    held: Option<Held>,
}

/// A call whose beginning has been sent, and whose rest waits for the next event.
#[derive(Debug)]
struct Held {
    index: u32,
    id: String,
    name: String,
    arguments: String,
    end: CallEnd,
}

/// A call as the upstream sent it.
#[derive(Debug, Default)]
pub(super) struct WholeCall<'a> {
    /// The call's id; empty if the upstream gave none.
    pub(super) id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    /// The call's arguments: an object, or whatever was sent instead of one.
    pub(super) arguments: Option<Json<'a>>,
    pub(super) signature: Option<Opaque<'a>>,
    /// The response ended inside the call.
    pub(super) is_cut: bool,
}

impl WholeCalls {
    /// Sets what was requested.
    pub(super) fn expect(&mut self, asked: &Asked) {
        self.tools = asked.tools.clone();
        self.limits = asked.limits;
        self.repairs = asked.repair;
    }

    /// Whether there was a call.
    pub(super) fn any(&self) -> bool {
        self.next > 0
    }

    /// Emits a call. If the arguments are an object, they are passed on as they were written, and so is a
    /// string that contains an object, because some servers send the arguments as text. Missing arguments
    /// become `{}`. Any other arguments make the call broken.
    ///
    /// # Errors
    /// [`Kind::Limit`](crate::failure::Kind::Limit): the call is larger than allowed, or there are too many.
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

    /// Ends the last call, because something else follows it.
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
