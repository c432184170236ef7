//! The response that a client has received at the end of a stream.

use serde_json::Value;

/// Receives a contender's output, delta by delta.
pub trait Client {
    /// The contender is about to get its next piece.
    fn piece(&mut self) {}
    /// A piece of visible text.
    fn text(&mut self, text: &str);
    /// A call's name.
    fn call(&mut self, index: usize, name: &str);
    /// A piece of a call's arguments.
    fn arguments(&mut self, index: usize, piece: &str);
}

/// Assembles the output as the SDKs do: calls by index, strings concatenated.
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

    /// Whether both responses look the same to a client that parses arguments as JSON and ignores the amount
    /// of white space.
    pub fn same(&self, other: &Self) -> bool {
        let alike = |(a, b): (&Call, &Call)| {
            a.name == b.name && (a.arguments == b.arguments || value(&a.arguments) == value(&b.arguments))
        };
        words(&self.content) == words(&other.content)
            && self.calls.len() == other.calls.len()
            && self.calls().zip(other.calls()).all(alike)
    }
}

/// Returns the words of a text, whatever white space is between them.
pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Returns arguments as a value with numbers normalised. Text that is not JSON becomes a string that says so.
pub fn value(arguments: &str) -> Value {
    serde_json::from_str(arguments).map_or_else(|_| Value::String(format!("no JSON: {arguments}")), numbers)
}

/// Normalises numbers, so that they are compared by value and not by their notation.
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

/// Counts pieces and keeps nothing, so that the cost of a client is not attributed to a contender.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub bytes: usize,
    /// Pieces of the response that yielded a piece of arguments.
    pub streamed: usize,
    /// Whether the current piece has not yielded arguments yet.
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
