//! Decides which frames of native calls are forwarded unchanged along with the events that
//! [`CallDeltas`](crate::tool_calls::CallDeltas) makes from them.
//!
//! A call is announced once its name is certain, which may take more than one frame. The first frame of a
//! call is therefore held until then, and sent with the start of the call. Every later frame is sent with its
//! piece of the arguments.
//!
//! Calls to custom tools have plain text as input, which becomes the arguments of the call. Forwarded frames
//! are not converted.

use std::borrow::Cow;

use crate::{
    channel::{Channel, emit},
    event::{CallEnd, CallStart, Event, Runner, Sink, Source},
    wire::json::{Json, Kind},
};

#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) any: bool,
    pub(super) cut: bool,
    head: Option<Head>,
    /// The frame of a held piece of arguments, and the index of its call.
    held: Option<(String, u64)>,
    customs: Vec<Custom>,
}

#[derive(Debug)]
struct Custom {
    /// The upstream's index of the call, followed by toolwire's.
    key: u64,
    index: u32,
    input: Channel,
}

/// The first frame of a call that has not been announced yet.
#[derive(Debug)]
struct Head {
    frame: String,
    index: u64,
    id: String,
    name: String,
}

impl Head {
    fn says(&self, start: &CallStart<'_>) -> bool {
        (self.index, self.id.as_str(), self.name.as_str()) == (u64::from(start.index), &start.id, &start.name)
    }
}

impl Calls {
    /// Returns a sink for the events of one delta. `piece` is the delta's frame and the index of a call, if
    /// the frame contains only a piece of that call's arguments.
    pub(super) fn listen<'a, S: Sink>(
        &'a mut self,
        piece: Option<(&'a str, u64)>,
        out: &'a mut S,
    ) -> Listening<'a, S> {
        Listening { calls: self, head: None, piece, out }
    }

    /// Like `listen`, but for a delta that may start a call. `frame` is the delta's frame, if the frame
    /// contains nothing else.
    pub(super) fn listen_for_head<'a, S: Sink>(
        &'a mut self,
        frame: Option<&'a str>,
        tool_calls: Json<'_>,
        piece: Option<(&'a str, u64)>,
        out: &'a mut S,
    ) -> Listening<'a, S> {
        let head = frame.and_then(|frame| head(frame, tool_calls));
        Listening { calls: self, head, piece, out }
    }

    /// Handles more arguments for the calls for which `index` returns true. Held arguments of such a call no
    /// longer match their frame.
    pub(super) fn goes_on(&mut self, index: impl Fn(u64) -> bool) {
        self.held.take_if(|(_, held)| index(*held));
    }

    /// Handles an element of a delta that belongs to a call to a custom tool. `position` is its position in
    /// the list.
    pub(super) fn custom(
        &mut self,
        (position, element): (u64, Json<'_>),
        custom: Json<'_>,
        frame: Option<&str>,
        next_index: impl FnOnce() -> u32,
        out: &mut impl Sink,
    ) {
        let key = element.get("index").and_then(|index| index.as_u64()).unwrap_or(position);
        let text =
            |json: Option<Json<'_>>| json.and_then(|json| json.as_str()).unwrap_or_default().into_owned();
        let input = custom.get("input").and_then(|input| input.string_body()).unwrap_or_default();
        let mut frame = frame;
        if !self.customs.iter().any(|call| call.key == key) {
            let index = next_index();
            self.any = true;
            self.customs.push(Custom { key, index, input: Channel::default() });
            let alone = frame.filter(|_| input.is_empty() && u64::from(index) == key);
            let (id, name) = (text(element.get("id")).into(), text(custom.get("name")).into());
            let (runner, source) = (Runner::Client, Source::NativeCustom);
            let start = CallStart { index, id, name, runner, source, signature: None };
            emit(out, alone, Event::CallStart(start));
            frame = None;
        }
        let Some(call) = self.customs.iter_mut().find(|call| call.key == key) else { return };
        let frame = frame.filter(|_| {
            u64::from(call.index) == key && call.input.may_forward(input) && element.get("id").is_none()
        });
        let piece = call.input.piece(input);
        if !piece.is_empty() {
            emit(out, frame, Event::CallArguments { index: call.index, piece: piece.into() });
        }
    }

    pub(super) fn finish_customs(&mut self, cut: bool, out: &mut impl Sink) {
        let end = if cut { CallEnd::Cut } else { CallEnd::Complete };
        for call in self.customs.drain(..) {
            out.event(Event::CallEnd { index: call.index, end });
        }
    }
}

/// Records the events of calls and attaches frames to events that have one.
pub(super) struct Listening<'a, S> {
    calls: &'a mut Calls,
    /// The frame that may be the first of a call.
    head: Option<Head>,
    /// A frame that contains only a piece of the arguments of the call with this index.
    piece: Option<(&'a str, u64)>,
    out: &'a mut S,
}

impl<S> Listening<'_, S> {
    /// Ends the delta. Retains the frame if it starts a call that has not been announced yet, or if its
    /// arguments are held.
    pub(super) fn keep(self, is_holding: bool) {
        if self.head.is_some() {
            self.calls.head = self.head;
        }
        if let Some((frame, index)) = self.piece.filter(|_| is_holding) {
            self.calls.held = Some((frame.to_owned(), index));
        }
    }
}

impl<S: Sink> Sink for Listening<'_, S> {
    fn event(&mut self, event: Event<'_>) {
        match &event {
            Event::CallStart(start) => {
                self.calls.any = true;
                let own = self.head.take_if(|head| head.says(start));
                let head = own.or_else(|| self.calls.head.take().filter(|head| head.says(start)));
                if let Some(head) = head {
                    return self.out.event(Event::Verbatim { frame: &head.frame, means: Some(&event) });
                }
            }
            // If the piece is not borrowed, it differs from what is in the frame.
            Event::CallArguments { index, piece: Cow::Borrowed(_) } => {
                let wanted = u64::from(*index);
                if let Some((frame, _)) = self.piece.take_if(|(_, index)| *index == wanted) {
                    return self.out.event(Event::Verbatim { frame, means: Some(&event) });
                }
                if let Some((frame, _)) = self.calls.held.take_if(|(_, index)| *index == wanted) {
                    return self.out.event(Event::Verbatim { frame: &frame, means: Some(&event) });
                }
            }
            Event::CallEnd { end, .. } => self.calls.cut |= *end == CallEnd::Cut,
            _ => {}
        }
        self.out.event(event);
    }
}

fn only(tool_calls: Json<'_>) -> Option<Json<'_>> {
    let mut elements = tool_calls.elements();
    elements.next().filter(|_| elements.next().is_none())
}

/// Returns the first frame of a call if it is in the canonical form: it has the complete head, and no
/// arguments yet.
fn head(frame: &str, tool_calls: Json<'_>) -> Option<Head> {
    let element = only(tool_calls)?;
    let function = element.get("function").filter(|function| function.kind() == Kind::Object)?;
    let is = |json: Option<Json<'_>>, body: &str| json.and_then(|json| json.string_body()) == Some(body);
    if !is(element.get("type"), "function") || !is(function.get("arguments"), "") {
        return None;
    }
    let text = |json: Json<'_>| json.as_str().filter(|text| !text.is_empty()).map(|text| text.into_owned());
    Some(Head {
        frame: frame.to_owned(),
        index: element.get("index")?.as_u64()?,
        id: text(element.get("id")?)?,
        name: text(function.get("name")?)?,
    })
}
