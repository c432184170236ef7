//! [`Calls`]: the calls of a response, held until they have ended.

use serde_json::{Value, json};

use crate::{
    conversation::Arguments,
    event::{CallEnd, CallStart, Runner},
    wire::json::{Encoder, Json},
};

/// The calls that have not ended.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<Call>,
    /// Size of their contents in bytes.
    kept: usize,
}

#[derive(Debug)]
pub(super) struct Call {
    index: u32,
    id: String,
    name: String,
    arguments: String,
    runner: Runner,
}

/// What an ended call is to the client.
pub(super) enum Ended {
    /// A call for the client.
    Whole(Call),
    /// Any other call, with the list of the last line that has it.
    Told(&'static str, Value),
}

impl Calls {
    pub(super) fn start(&mut self, start: &CallStart<'_>) {
        self.kept += start.id.len() + start.name.len();
        self.open.push(Call {
            index: start.index,
            id: start.id.to_string(),
            name: start.name.to_string(),
            arguments: String::new(),
            runner: start.runner,
        });
    }

    pub(super) fn arguments(&mut self, index: u32, piece: &str) {
        if let Some(call) = self.open.iter_mut().rfind(|call| call.index == index) {
            self.kept += piece.len();
            call.arguments.push_str(piece);
        }
    }

    pub(super) fn end(&mut self, index: u32, end: CallEnd) -> Option<Ended> {
        let place = self.open.iter().rposition(|call| call.index == index)?;
        let call = self.open.remove(place);
        self.kept -= call.id.len() + call.name.len() + call.arguments.len();
        let is_whole =
            end == CallEnd::Complete && !matches!(Arguments::of(&call.arguments), Arguments::Text(_));
        let is_for_client = is_whole && call.runner == Runner::Client;
        Some(if is_for_client { Ended::Whole(call) } else { call.told() })
    }

    /// The calls that the response does not end.
    pub(super) fn rest(&mut self) -> impl Iterator<Item = Ended> + '_ {
        self.kept = 0;
        self.open.drain(..).map(Call::told)
    }

    pub(super) fn kept(&self) -> usize {
        self.kept
    }
}

impl Call {
    fn told(self) -> Ended {
        let Self { index, id, name, arguments, runner } = self;
        let list = if runner == Runner::Client { "broken_calls" } else { "server_calls" };
        Ended::Told(list, json!({"index": index, "id": id, "name": name, "arguments": arguments}))
    }

    pub(super) fn size(&self) -> usize {
        self.id.len() + self.name.len() + self.arguments.len()
    }

    /// Writes an element of `tool_calls`. The arguments are on one line, otherwise as the model wrote them.
    pub(super) fn put(&self, calls: &mut Encoder) {
        calls.object(|call| {
            call.key("id").string(&self.id);
            call.key("function").object(|function| {
                function.key("index").value(&self.index);
                function.key("name").string(&self.name);
                match Json::parse(&self.arguments) {
                    Ok(arguments) if !arguments.is_null() => match self.arguments.contains(['\n', '\r']) {
                        true => function.key("arguments").compact(arguments),
                        false => function.key("arguments").raw(arguments),
                    },
                    _ => function.key("arguments").object(|_| {}),
                }
            });
        });
    }
}
