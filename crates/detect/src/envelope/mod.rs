//! [`Envelope`]: reads the JSON around a call's arguments, one byte at a time.
//!
//! It reads one value, which is either an object that is a call or an array of calls. Among an object's own keys,
//! the name key gives the name, the argument key passes its value to [`JsonBody`], a wrapper key (`function`,
//! `tool_calls`) descends one level, and all other values are skipped. docs/protocols/text-formats.md#call-objects
//! and docs/protocols/text-formats.md#arguments describe the shapes that models write.
//!
//! A call *starts* once it is certain, which is when its name is complete and its arguments have begun. Until then,
//! the arguments are held, and the call may be refused: because the arguments are a schema or, in formats without a
//! marker of their own, because the name is undeclared, a key is repeated, or the arguments are not an object.
//!
//! In a marked format, an object without an arguments key is a call if it has no other members, or if all other
//! members are parameters that the tool declares. These members are then the arguments.

mod arguments;
mod flat;
mod member;

use self::flat::Flat;
use super::{
    body::{Fed, JsonBody},
    broken::{Brackets, Rest, Resumes},
    escape::Escape,
    schema::SchemaGuard,
    string_fast_path::StringFastPath,
    text::{is_blank, tail},
    walk::{CallRules, Out, Piece, Step, Walk},
};

/// Stands in for the quote of a bare key. Such a key ends at white space or a colon.
const BARE: u8 = b':';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Name,
    Arguments,
    Id,
    Type,
    /// `function`: either the name itself, or an object with the name and the arguments.
    Function,
    /// `tool_calls` or `function_call`, which contain complete calls.
    Calls,
    Other,
}

const KEYS: &[(&str, Key)] = &[
    ("name", Key::Name),
    ("tool_name", Key::Name),
    ("tool", Key::Name),
    ("function_name", Key::Name),
    ("action", Key::Name),
    ("arguments", Key::Arguments),
    ("parameters", Key::Arguments),
    ("args", Key::Arguments),
    ("input", Key::Arguments),
    ("params", Key::Arguments),
    ("tool_input", Key::Arguments),
    ("action_input", Key::Arguments),
    ("id", Key::Id),
    ("tool_call_id", Key::Id),
    ("call_id", Key::Id),
    ("type", Key::Type),
    ("function", Key::Function),
    ("function_call", Key::Calls),
    ("tool_calls", Key::Calls),
];

const TYPES: [&str; 4] = ["function", "function_call", "tool_call", "tool_use"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    List,
    /// An object that is a call or wraps calls.
    Call,
    /// The object under `function`, which is part of the call around it.
    Inner,
}

#[derive(Debug, Clone)]
enum At {
    /// Before a call object, an array of calls, or `]` in an empty array.
    Item {
        or_end: bool,
    },
    ItemEnd,
    Key {
        or_end: bool,
    },
    KeyText {
        quote: u8,
        escaped: bool,
    },
    Colon,
    Value,
    /// In a string value that is being captured.
    Text {
        quote: u8,
        escaped: bool,
    },
    Skip(JsonBody),
    Arguments,
    /// In arguments within a JSON string. `literal` is set if the string does not contain an object, so that it is
    /// forwarded as a string. `brace` holds a possible opening brace and the white space after it.
    Packed {
        quote: u8,
        escape: Escape,
        literal: bool,
        brace: String,
    },
    MemberEnd,
    Done,
}

/// How far the arguments of a call have been read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Arguments {
    #[default]
    None,
    /// They are being read, but may turn out not to be arguments.
    Doubtful,
    Open,
    Done,
}

#[derive(Debug, Clone, Default)]
struct Call {
    name: Option<String>,
    id: String,
    started: bool,
    arguments: Arguments,
    /// Arguments that arrived before the call was certain.
    kept: String,
    /// The other members of the object, as long as they may be the arguments.
    flat: Flat,
    /// Whether the object has a description, like a declaration.
    is_described: bool,
    guard: SchemaGuard,
    /// Which [`KEYS`] the call itself has, as bits.
    seen: u32,
}

#[derive(Debug)]
pub(super) struct Envelope {
    /// Whether the object's only key is the name of the call, and its value the arguments.
    keyed: bool,
    marked: bool,
    /// Whether the calls are Python dictionaries.
    python: bool,
    at: At,
    levels: Vec<Level>,
    key: Key,
    captured: String,
    call: Call,
    body: JsonBody,
    found: bool,
    first_key: bool,
    /// Whether everything so far is certain, because a call or an object around calls has ended.
    settled: bool,
    /// Whether calls wait until their object has ended, since a response that was cut off before that has no call.
    waits: bool,
    /// Whether the arguments of the call have ended, but it waits for the end of its object.
    ended: bool,
}

impl Walk for Envelope {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let mut at = 0;
        while at < text.len() {
            let Some(taken) = self.token(tail(text, at), rules, out) else {
                // What cannot follow the arguments does not discard the call.
                return if std::mem::take(&mut self.ended) { Step::Whole(at) } else { Step::Stop(at) };
            };
            at += taken;
            if matches!(self.at, At::Done) {
                return Step::End(at);
            }
            if std::mem::take(&mut self.settled) {
                return Step::Whole(at);
            }
        }
        Step::Took(at)
    }

    /// Completes the call only if the model stopped, and nothing but the last bracket of the arguments and the call's own
    /// brackets are missing.
    fn close(&mut self, _held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        if self.starts_at_end() {
            self.call.arguments = Arguments::Open;
            self.start(out);
        }
        let open = self.call.arguments == Arguments::Open;
        self.call.arguments = Arguments::Done;
        let mut closes = |body: &mut JsonBody| body.close_last(&mut |text: &str| out(Piece::Arguments(text)));
        stopped && (self.ended || (open && closes(&mut self.body)))
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        let open = self.call.arguments == Arguments::Open && matches!(self.at, At::Arguments);
        let mended = open && self.body.close(&mut |text: &str| out(Piece::Arguments(text)));
        if mended {
            self.resume();
        }
        mended
    }

    fn breaks(&mut self) -> Rest {
        let rest = self.body.breaks();
        let brackets = match self.at {
            // The rest of a string ends with its quote.
            At::Packed { quote, .. } => Some(Brackets::new(Vec::new(), Some(char::from(quote)))),
            _ => rest.brackets,
        };
        let in_list = self.levels.contains(&Level::List);
        Rest { brackets: brackets.map(|brackets| brackets.in_call(in_list)), ..rest }
    }

    fn resume(&mut self) -> Resumes {
        self.call.arguments = Arguments::Done;
        self.at = At::MemberEnd;
        if self.levels.contains(&Level::List) { Resumes::BetweenCalls } else { Resumes::BeforeCloser }
    }

    fn string(&self) -> Option<StringFastPath> {
        if self.call.arguments != Arguments::Open {
            return None;
        }
        match &self.at {
            At::Arguments => self.body.flow(),
            At::Packed { escape, literal: false, .. } if escape.is_empty() => {
                self.body.flow().map(|_| StringFastPath::Quotes)
            }
            _ => None,
        }
    }

    fn kept(&self) -> usize {
        self.call.kept.len() + self.call.flat.kept()
    }

    fn is_unfinished(&self, _held: &str) -> bool {
        let in_list = self.levels.contains(&Level::List);
        self.found && in_list && !matches!(self.at, At::ItemEnd | At::MemberEnd | At::Done)
    }

    fn is_in_call(&self) -> bool {
        self.call.started
    }

    /// Whether a marked call has begun its arguments, which may still be a schema. If the text ended here, they
    /// would be arguments.
    fn starts_at_end(&self) -> bool {
        let doubted = self.call.arguments == Arguments::Doubtful && self.call.name.is_some();
        self.marked && !self.call.started && doubted && self.call.kept.starts_with('{')
    }
}

impl Envelope {
    /// Creates a reader for calls that are Python dictionaries, even without a marker.
    pub(super) fn of_dictionaries(rules: &CallRules<'_>) -> Self {
        Self { python: true, ..Self::new(rules, false) }
    }

    pub(super) fn new(rules: &CallRules<'_>, keyed: bool) -> Self {
        Self {
            keyed,
            marked: rules.marked,
            python: false,
            at: At::Item { or_end: false },
            levels: Vec::new(),
            key: Key::Other,
            captured: String::new(),
            call: Call::default(),
            body: JsonBody::new(rules.repair, rules.max_depth),
            found: false,
            first_key: true,
            settled: false,
            waits: rules.waits,
            ended: false,
        }
    }

    /// Reads one or more bytes. Returns how many, or `None` if the first byte cannot be part of a call.
    fn token(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<usize> {
        let byte = text.bytes().next().unwrap_or_default();
        match &mut self.at {
            At::KeyText { .. } | At::Text { .. } => return self.capture(text, byte, rules, out),
            At::Skip(_) => return self.skip(text),
            At::Arguments => return self.arguments(text, rules, out),
            At::Packed { .. } => return self.packed(text, byte, rules, out),
            _ if is_blank(byte) => return Some(1),
            At::Item { or_end } => {
                let or_end = *or_end;
                self.item(byte, or_end)?;
            }
            At::ItemEnd => match byte {
                b',' => self.at = At::Item { or_end: rules.marked },
                b']' => self.level_ended(rules, out)?,
                _ => return None,
            },
            At::Key { or_end } => match byte {
                b'"' => self.begin_capture(byte, true),
                b'\'' if rules.repair && (rules.marked || self.python) => self.begin_capture(byte, true),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' if rules.marked && rules.repair => {
                    self.begin_capture(BARE, true);
                    return Some(0);
                }
                b'}' if *or_end => self.level_ended(rules, out)?,
                _ => return None,
            },
            At::Colon => {
                if byte != b':' {
                    return None;
                }
                self.at = At::Value;
            }
            At::Value => return self.value(byte, rules, out),
            At::MemberEnd => match byte {
                b',' => self.at = At::Key { or_end: self.lenient(rules) },
                b'}' => self.level_ended(rules, out)?,
                _ => return None,
            },
            At::Done => return None,
        }
        Some(1)
    }

    fn skip(&mut self, text: &str) -> Option<usize> {
        let At::Skip(body) = &mut self.at else { return None };
        let flat = &mut self.call.flat;
        match body.feed(text, &mut |text: &str| flat.value(text)) {
            Fed::More => Some(text.len()),
            Fed::Done(len) => {
                self.at = At::MemberEnd;
                Some(len)
            }
            // The valid part before the fault is read first, so that the result does not depend on splits. The next
            // byte is the fault.
            Fed::Fault(len) => (len > 0).then_some(len),
        }
    }

    /// Whether strings may be in single quotes.
    fn reads_python(&self, rules: &CallRules<'_>) -> bool {
        rules.repair && (rules.marked || self.python)
    }

    /// Whether trailing commas are tolerated: always in marked formats, and otherwise once a call has started.
    fn lenient(&self, rules: &CallRules<'_>) -> bool {
        rules.repair && (rules.marked || self.call.started)
    }

    /// Reads the first byte of a call object or an array of calls.
    fn item(&mut self, byte: u8, or_end: bool) -> Option<()> {
        match byte {
            b'{' => {
                self.levels.push(Level::Call);
                self.call = Call::default();
                self.first_key = true;
                self.at = At::Key { or_end: false };
            }
            b'[' if self.levels.is_empty() => {
                self.levels.push(Level::List);
                self.at = At::Item { or_end: false };
            }
            b']' if or_end => {
                self.levels.pop();
                self.at = if self.levels.is_empty() { At::Done } else { At::MemberEnd };
            }
            _ => return None,
        }
        Some(())
    }

    /// Handles the end of one of the envelope's own objects or arrays.
    fn level_ended(&mut self, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<()> {
        let level = self.levels.pop()?;
        if level == Level::Call {
            self.call_object_ended(rules, out)?;
            self.settled |= self.call.started;
            self.ended = false;
        }
        self.at = match self.levels.last() {
            None => At::Done,
            Some(Level::List) => At::ItemEnd,
            Some(Level::Call | Level::Inner) => At::MemberEnd,
        };
        Some(())
    }

    /// Called at the end of a call's object. Decides whether the object is a call.
    fn call_object_ended(&mut self, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<()> {
        if let (Arguments::None, Some(name), true) = (&self.call.arguments, &self.call.name, rules.marked) {
            self.call.kept = self.call.flat.arguments(|key| rules.tools.declares(name, key))?;
            self.call.arguments = Arguments::Done;
        }
        self.start(out);
        (self.call.started || (self.found && self.call.name.is_none())).then_some(())
    }

    fn start(&mut self, out: &mut Out<'_>) {
        let call = &mut self.call;
        let certain = matches!(call.arguments, Arguments::Open | Arguments::Done);
        let Some(name) = call.name.as_deref().filter(|_| certain && !call.started) else { return };
        call.started = true;
        self.found = true;
        out(Piece::Start { name, id: &call.id });
        if !call.kept.is_empty() {
            out(Piece::Arguments(&call.kept));
            call.kept.clear();
        }
        let whole = call.arguments == Arguments::Done;
        self.arguments_settled(whole);
    }

    /// Records that the arguments of a call that has started are complete, if `whole` is set.
    pub(super) fn arguments_settled(&mut self, whole: bool) {
        self.settled |= whole && !self.waits;
        self.ended |= whole && self.waits;
    }
}
