//! Tools that the model sees as functions, but whose calls the client receives in another form.
//!
//! The input of custom tools in OpenAI's APIs is plain text. If an upstream does not support them, or tools are
//! described in the prompt, the model sees functions with one argument instead. Calls to these functions have
//! the arguments `{"input":"…"}`, and the client receives the text of that string as it arrives.
//!
//! Calls to built-in tools are items that are built from the arguments, so these are held until they are
//! complete.

use std::collections::HashMap;

use crate::{
    Answering,
    conversation::CUSTOM_INPUT,
    event::{CallEnd, CallStart, Event, Source},
    wire::json::{Encoder, Json, Kind, Raw, Unescaper},
};

/// The schema of the function that stands for a custom tool. `format` is the format of the tool's input. The
/// argument's description includes the grammar for the input, if there is one.
pub(super) fn input_schema(format: Option<Json<'_>>) -> Option<Raw> {
    let format = format.filter(|format| format.kind() == Kind::Object);
    let grammar = format.map(|format| format.get("grammar").unwrap_or(format));
    let text = |key: &str| grammar.and_then(|grammar| grammar.get(key)?.as_str());
    let description = match text("definition") {
        Some(definition) => {
            let syntax = text("syntax").unwrap_or_default();
            format!("The whole input as plain text. It must follow this grammar ({syntax}):\n{definition}")
        }
        None => "The whole input as plain text.".to_owned(),
    };
    let mut schema = Encoder::default();
    schema.object(|schema| {
        schema.key("type").string("object");
        schema.key("properties").object(|properties| {
            properties.key(CUSTOM_INPUT).object(|input| {
                input.key("type").string("string");
                input.key("description").string(&description);
            });
        });
        schema.key("required").array(|required| required.string(CUSTOM_INPUT));
        schema.key("additionalProperties").value(&false);
    });
    let schema = schema.finish_text();
    Json::parse(&schema).ok().map(Raw::from)
}

/// The arguments of a function call that stands for a call to a custom tool.
pub(super) fn input_arguments(input: &str) -> String {
    let mut json = Encoder::default();
    json.object(|json| json.key(CUSTOM_INPUT).string(input));
    json.finish_text()
}

/// The input's key must end within about this many bytes of arguments. Otherwise, the arguments are read only
/// when they are complete.
const LONGEST_OPENING: usize = 256;

/// What a call is that the model made to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapped {
    Custom,
    BuiltIn,
}

/// The calls in one response that are not calls to functions. Boxed because few responses have such calls.
#[derive(Debug)]
pub(super) struct Customs(Option<Box<CustomCalls>>);

#[derive(Debug, Default)]
struct CustomCalls {
    names: HashMap<String, Mapped>,
    calls: HashMap<u32, Input>,
}

impl Customs {
    pub(super) fn new(answering: &Answering) -> Self {
        let custom = answering.custom_tools.iter().map(|name| (name.clone(), Mapped::Custom));
        let built_in = answering.built_in.iter().map(|tool| (tool.name.clone(), Mapped::BuiltIn));
        let names: HashMap<_, _> = custom.chain(built_in).collect();
        Self((!names.is_empty()).then(|| Box::new(CustomCalls { names, calls: HashMap::new() })))
    }

    /// Notes the start of a call. Returns what it is, unless it is a call to a function.
    pub(super) fn begin(&mut self, start: &CallStart<'_>) -> Option<Mapped> {
        let (mapped, input) = match (start.source, self.mapped(start)) {
            (Source::NativeCustom, _) => (Mapped::Custom, Input::Plain),
            (_, Some(Mapped::Custom)) => {
                (Mapped::Custom, Input::Before { held: String::new(), tool: (*start.name).into() })
            }
            (_, Some(Mapped::BuiltIn)) => (Mapped::BuiltIn, Input::Whole { held: String::new() }),
            (_, None) => return None,
        };
        self.0.get_or_insert_default().calls.insert(start.index, input);
        Some(mapped)
    }

    /// The input of the call `index`, if it is not a call to a function.
    pub(super) fn get(&mut self, index: u32) -> Option<&mut Input> {
        self.0.as_mut()?.calls.get_mut(&index)
    }

    /// Whether `event` belongs to such a call that arrived as a function call and must be converted.
    pub(super) fn are_told_otherwise(&self, event: &Event<'_>) -> bool {
        let Some(custom) = &self.0 else { return false };
        match event {
            Event::CallStart(start) => start.source != Source::NativeCustom && self.mapped(start).is_some(),
            Event::CallArguments { index, .. } | Event::CallEnd { index, .. } => {
                custom.calls.get(index).is_some_and(|input| !matches!(input, Input::Plain))
            }
            _ => false,
        }
    }

    fn mapped(&self, start: &CallStart<'_>) -> Option<Mapped> {
        let names = &self.0.as_ref()?.names;
        let is_built_in =
            start.source == Source::NativeBuiltIn && names.values().any(|mapped| *mapped == Mapped::BuiltIn);
        if is_built_in { Some(Mapped::BuiltIn) } else { names.get(&*start.name).copied() }
    }
}

/// The input of one call, extracted from its arguments as they arrive.
#[derive(Debug)]
pub(super) enum Input {
    /// The arguments are the input, because the upstream knows custom tools.
    Plain,
    /// The arguments of a call to a built-in tool, so far.
    Whole { held: String },
    /// The text of the input has not started. `held` contains the arguments so far.
    Before { held: String, tool: Box<str> },
    /// The arguments do not match the declared function or have another member first, so they are read when
    /// they are complete.
    Held { held: String, tool: Box<str> },
    /// Inside the text. `escaped` is set if the last character was a backslash.
    Inside { text: Unescaper, escaped: bool },
    /// After the text: only the end of the object follows.
    Behind,
}

impl Input {
    /// Handles a piece of the arguments and returns the next piece of the input.
    pub(super) fn piece(&mut self, piece: &str) -> String {
        match self {
            Self::Plain => piece.to_owned(),
            Self::Behind => String::new(),
            Self::Held { held, .. } | Self::Whole { held } => {
                held.push_str(piece);
                String::new()
            }
            Self::Inside { .. } => self.inside(piece),
            Self::Before { held, tool } => {
                held.push_str(piece);
                let (held, tool) = (std::mem::take(held), std::mem::take(tool));
                match opening(&held) {
                    Opening::Text(text) => {
                        *self = Self::Inside { text: Unescaper::new(), escaped: false };
                        self.inside(text)
                    }
                    Opening::Short if held.len() <= LONGEST_OPENING => {
                        *self = Self::Before { held, tool };
                        String::new()
                    }
                    Opening::Short | Opening::Other => {
                        *self = Self::Held { held, tool };
                        String::new()
                    }
                }
            }
        }
    }

    /// Ends the call and returns the rest of the input. Arguments without an input are returned as they are.
    pub(super) fn end(&mut self, end: CallEnd) -> String {
        match std::mem::replace(self, Self::Behind) {
            Self::Held { held, tool } => whole(&held, &tool),
            Self::Whole { held } => held,
            Self::Before { held, tool } if end == CallEnd::Complete => whole(&held, &tool),
            // The call was cut off before its input started.
            Self::Before { .. } | Self::Plain | Self::Inside { .. } | Self::Behind => String::new(),
        }
    }

    /// Reads a piece of the string's body, possibly including its end.
    fn inside(&mut self, piece: &str) -> String {
        let Self::Inside { text, escaped } = self else { return String::new() };
        let is_end = |byte: u8| match (std::mem::take(escaped), byte) {
            (true, _) => false,
            (false, b'\\') => {
                *escaped = true;
                false
            }
            (false, byte) => byte == b'"',
        };
        let end = piece.bytes().position(is_end);
        let body = end.and_then(|end| piece.get(..end)).unwrap_or(piece);
        let mut scratch = String::new();
        let mut decoded = text.decode(body, &mut scratch).to_owned();
        if end.is_some() {
            decoded.extend(text.finish());
            *self = Self::Behind;
        }
        decoded
    }
}

enum Opening<'a> {
    /// `{"input":"`, followed by this string.
    Text(&'a str),
    /// A prefix of `{"input":"`. The remainder may follow.
    Short,
    /// Anything else.
    Other,
}

fn opening(arguments: &str) -> Opening<'_> {
    /// The tokens before the text. White space may follow all but the last.
    const TOKENS: [&str; 4] = ["{", "\"input\"", ":", "\""];
    let mut rest = arguments;
    for token in TOKENS {
        rest = rest.trim_start();
        match rest.strip_prefix(token) {
            Some(behind) => rest = behind,
            None if token.starts_with(rest) => return Opening::Short,
            None => return Opening::Other,
        }
    }
    Opening::Text(rest)
}

/// The input in the complete arguments of a call to `tool`.
fn whole(arguments: &str, tool: &str) -> String {
    let Ok(json) = Json::parse(arguments) else { return arguments.to_owned() };
    let text = |json: Json<'_>| only_text(json, tool).unwrap_or_else(|| json.raw().to_owned());
    match (json.get(CUSTOM_INPUT), json.kind()) {
        (Some(input), _) => text(input),
        (None, Kind::Object) if json.members().next().is_none() => String::new(),
        (None, _) => only_text(json, tool).unwrap_or_else(|| arguments.to_owned()),
    }
}

/// The text in `json`, which is a string, or an object with a single member. The text may also be the only
/// element of an array, or its second element if the first one is the name `tool`, as in a command line.
/// `null` means an empty text.
fn only_text(json: Json<'_>, tool: &str) -> Option<String> {
    match json.kind() {
        Kind::String => json.as_str().map(Into::into),
        Kind::Null => Some(String::new()),
        Kind::Object => {
            let mut members = json.members();
            let ((_, only), None) = (members.next()?, members.next()) else { return None };
            match only.kind() {
                Kind::String => only.as_str().map(Into::into),
                Kind::Array => only_text(only, tool),
                _ => None,
            }
        }
        Kind::Array => {
            let mut words = json.elements().map(|word| word.as_str());
            match (words.next(), words.next(), words.next()) {
                (Some(Some(command)), Some(Some(text)), None) if command == tool => Some(text.into()),
                (Some(Some(text)), None, None) => Some(text.into()),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'p>(pieces: impl IntoIterator<Item = &'p str>, end: CallEnd) -> String {
        let mut input = Input::Before { held: String::new(), tool: "apply_patch".into() };
        let mut text: String = pieces.into_iter().map(|piece| input.piece(piece)).collect();
        text.push_str(&input.end(end));
        text
    }

    #[test]
    fn custom_input_does_not_depend_on_cuts() {
        assert_eq!(CUSTOM_INPUT, "input");
        let spaces = format!("{{{}\"input\": \"x\"}}", " ".repeat(LONGEST_OPENING));
        for (arguments, input) in [
            (r#"{"input":"SELECT 1"}"#, "SELECT 1"),
            (" { \"input\" : \"a\\n\\\"b\\\\\\ud83d\\ude00é\" } ", "a\n\"b\\😀é"),
            (r#"{"input":""}"#, ""),
            (r#"{"input":"x","why":"y"}"#, "x"),
            (r#"{"why":"y","input":"x"}"#, "x"),
            (r#"{"input":{"a":1}}"#, r#"{"a":1}"#),
            (r#"{"code":"x"}"#, "x"),
            (r#"{"patch": "*** Begin\n\"a\""}"#, "*** Begin\n\"a\""),
            (r#"{"command":["apply_patch","*** Begin"]}"#, "*** Begin"),
            (r#"{"input":{"patch":"x"}}"#, "x"),
            (r#"{"input":["x"]}"#, "x"),
            (r#"{"input":["apply_patch","x"]}"#, "x"),
            (r#"["x"]"#, "x"),
            (r#"{"input":["x","y"]}"#, r#"["x","y"]"#),
            (r#"{"command":["ls","-la"]}"#, r#"{"command":["ls","-la"]}"#),
            (r#"{"a":"x","b":"y"}"#, r#"{"a":"x","b":"y"}"#),
            (r#"{"input":null}"#, ""),
            (r#"{"input":7}"#, "7"),
            (r#"{"n":7}"#, r#"{"n":7}"#),
            ("null", ""),
            (r#""x""#, "x"),
            ("{}", ""),
            ("", ""),
            ("SELECT 1", "SELECT 1"),
            (spaces.as_str(), "x"),
        ] {
            for (at, _) in arguments.char_indices() {
                let (head, tail) = arguments.split_at(at);
                assert_eq!(read([head, tail], CallEnd::Complete), input, "{arguments} cut at {at}");
            }
            let mut characters: Vec<_> = arguments.split("").collect();
            assert_eq!(read(characters.drain(..), CallEnd::Complete), input, "{arguments} by characters");
        }
    }

    #[test]
    fn custom_input_is_streamed() {
        let mut input = Input::Before { held: String::new(), tool: "sql".into() };
        let pieces = ["{\"in", "put\": \"SEL", "ECT\\", "n1\"", "}"];
        assert_eq!(pieces.map(|piece| input.piece(piece)), ["", "SEL", "ECT", "\n1", ""]);
    }

    #[test]
    fn custom_input_of_a_truncated_call_ends_at_the_cut() {
        assert_eq!(read([r#"{"input":"SEL"#], CallEnd::Cut), "SEL");
        assert_eq!(read([r#"{"inp"#], CallEnd::Cut), "");
        assert_eq!(read([r#"{"code":"SEL"#], CallEnd::Cut), r#"{"code":"SEL"#);
    }
}
