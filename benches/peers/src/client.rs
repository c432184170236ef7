//! What a client has received at the end of a stream.

use serde_json::Value;

/// Receives a contender's output, delta by delta.
pub trait Client {
    /// Called before the contender gets its next piece.
    fn piece(&mut self) {}
    fn text(&mut self, text: &str);
    fn call(&mut self, index: usize, name: &str);
    fn arguments(&mut self, index: usize, piece: &str);
}

/// Assembles the output like SDKs do: calls are matched by index, and strings are concatenated.
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

    /// Whether both responses are the same to a client that parses arguments as JSON and treats all white space as
    /// equal.
    pub fn same(&self, other: &Self) -> bool {
        let alike = |(a, b): (&Call, &Call)| {
            a.name == b.name && (a.arguments == b.arguments || value(&a.arguments) == value(&b.arguments))
        };
        words(&self.content) == words(&other.content)
            && self.calls.len() == other.calls.len()
            && self.calls().zip(other.calls()).all(alike)
    }
}

pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Parses arguments and normalizes their numbers. If the text is not JSON, returns a string that says so.
pub fn value(arguments: &str) -> Value {
    serde_json::from_str(arguments).map_or_else(|_| Value::String(format!("no JSON: {arguments}")), numbers)
}

/// Normalizes numbers, so that they compare equal regardless of how they are written.
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

/// Counts the output without storing it, so that contenders are not charged for the client's work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub bytes: usize,
    /// How many pieces of the response have yielded arguments.
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
