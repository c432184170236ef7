//! What a client has at the end of a stream.

use serde_json::Value;

/// Takes what a contender says, delta by delta.
pub trait Client {
    /// The contender is given its next piece.
    fn piece(&mut self) {}
    /// A piece of visible text.
    fn text(&mut self, text: &str);
    /// A call's name.
    fn call(&mut self, index: usize, name: &str);
    /// A piece of a call's arguments.
    fn arguments(&mut self, index: usize, piece: &str);
}

/// Puts everything together, as the SDKs do: calls by their index, strings end to end.
#[derive(Debug, Clone, Default)]
pub struct Assembled {
    pub content: String,
    calls: Vec<(usize, Call)>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Call {
    pub name: String,
    pub arguments: String,
}

impl Assembled {
    fn at(&mut self, index: usize) -> &mut Call {
        let place = self.calls.iter().position(|(at, _)| *at == index).unwrap_or_else(|| {
            self.calls.push((index, Call::default()));
            self.calls.len() - 1
        });
        &mut self.calls[place].1
    }

    pub fn calls(&self) -> impl ExactSizeIterator<Item = &Call> {
        self.calls.iter().map(|(_, call)| call)
    }

    /// The same to a client that reads arguments as JSON and does not mind how much white space there is.
    pub fn same(&self, other: &Self) -> bool {
        let alike = |(a, b): (&Call, &Call)| {
            a.name == b.name && (a.arguments == b.arguments || value(&a.arguments) == value(&b.arguments))
        };
        words(&self.content) == words(&other.content)
            && self.calls.len() == other.calls.len()
            && self.calls().zip(other.calls()).all(alike)
    }
}

/// Text without regard to how much white space it has between words.
pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Arguments as a value, numbers as numbers; what is no JSON is told apart by its text.
pub fn value(arguments: &str) -> Value {
    serde_json::from_str(arguments).map_or_else(|_| Value::String(format!("no JSON: {arguments}")), numbers)
}

/// Numbers compared as numbers, not as they are written.
pub fn numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::String(format!("number {:?}", number.as_f64())),
        Value::Array(items) => items.into_iter().map(numbers).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, numbers(value))).collect(),
        other => other,
    }
}

impl Client for Assembled {
    fn text(&mut self, text: &str) {
        self.content.push_str(text);
    }

    fn call(&mut self, index: usize, name: &str) {
        self.at(index).name.push_str(name);
    }

    fn arguments(&mut self, index: usize, piece: &str) {
        self.at(index).arguments.push_str(piece);
    }
}

/// Counts, and keeps nothing: what a client does with a delta is no contender's cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub bytes: usize,
    /// Pieces of the answer that gave a piece of arguments.
    pub streamed: usize,
    /// This one has not yet.
    waits: bool,
}

impl Client for Counted {
    fn piece(&mut self) {
        self.waits = true;
    }

    fn text(&mut self, text: &str) {
        self.bytes += text.len();
    }

    fn call(&mut self, _: usize, name: &str) {
        self.bytes += name.len();
    }

    fn arguments(&mut self, _: usize, piece: &str) {
        self.bytes += piece.len();
        if self.waits && !piece.is_empty() {
            self.streamed += 1;
            self.waits = false;
        }
    }
}
