//! [`CallDeltas`]: native function calls, put together from OpenAI's `tool_calls` deltas and from what resembles them.
//!
//! A delta is a list of pieces; each says, more or less well, which call it belongs to (`index`, `id`, or neither)
//! and brings a bit of it: an id, a name or a part of one, a part of the arguments. The way through is always the
//! same: find the call that a piece addresses ([`CallDeltas::address`]), decide whether it is that call or the next
//! one ([`Call::is_over_by`]), then let the call take the piece. A call is announced when its name is certain, that
//! is with the first byte of its arguments, with the beginning of another call, or at the end; from then on its
//! arguments stream.
//!
//! The deviations that are allowed for are those of Lumo 1.8 and of the survey of dialects, B.1.

use std::borrow::Cow;

use crate::{
    event::{CallEnd, CallStart, Event, Runner, Sink, Source},
    wire::json::{Json, Progress, Scanner, Unescaper},
};

/// Bytes of ids, names and unannounced arguments that one answer's calls may occupy. A well-formed answer needs a
/// few hundred; what comes beyond the limit is left out and counted in [`CallDeltas::dropped`].
const MAX_HELD: usize = 1 << 20;

/// What a call costs of [`MAX_HELD`] beside its texts.
const CALL_COST: usize = 64;

/// The native calls of one answer.
#[derive(Debug)]
pub(crate) struct CallDeltas {
    calls: Vec<Call>,
    /// The number of the next call, see [`CallStart::index`].
    next: u32,
    /// The number of the delta that is being read: tells pieces of one delta from those of the next.
    delta: u64,
    max_depth: usize,
    held: usize,
    dropped: u64,
    scratch: String,
}

impl CallDeltas {
    /// For one answer; arguments nested deeper than `max_depth` end as [`CallEnd::Cut`].
    pub(crate) fn new(max_depth: usize) -> Self {
        Self { calls: Vec::new(), next: 0, delta: 0, max_depth, held: 0, dropped: 0, scratch: String::new() }
    }

    /// Takes the `tool_calls` of one delta; whatever is no list has nothing to say.
    pub(crate) fn delta(&mut self, tool_calls: Json<'_>, out: &mut impl Sink) {
        self.delta += 1;
        let several = tool_calls.elements().nth(1).is_some();
        for (position, element) in tool_calls.elements().enumerate() {
            let index = element.get("index").and_then(|index| index.as_u64());
            let piece = Piece::read(element.get("function").unwrap_or(element), element.get("id"));
            self.take(Address { index, position, several }, &piece, out);
        }
    }

    /// Takes the `function_call` of one delta, OpenAI's form of before 2023-11: one call an answer.
    pub(crate) fn legacy(&mut self, function_call: Json<'_>, out: &mut impl Sink) {
        self.delta += 1;
        let address = Address { index: None, position: 0, several: false };
        self.take(address, &Piece::read(function_call, None), out);
    }

    /// Nothing more will come. A call that is no whole object by now is cut; one that never got arguments has `{}`,
    /// unless the answer itself was `cut` short.
    pub(crate) fn finish(&mut self, cut: bool, out: &mut impl Sink) {
        self.announce(out);
        for mut call in self.calls.drain(..) {
            match call.state {
                State::Unnamed => self.dropped += 1,
                State::Open(index) => call.end(index, cut, out),
                State::Ended => {}
            }
        }
    }

    /// The number for a call that the dialect carries in another way: one row of numbers for all calls of a reader.
    pub(crate) fn next_index(&mut self) -> u32 {
        let index = self.next;
        self.next += 1;
        index
    }

    /// Calls that never got a name, and pieces beyond what may be held.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn take(&mut self, address: Address, piece: &Piece<'_>, out: &mut impl Sink) {
        if piece.is_empty() {
            return;
        }
        let found = self.address(address, piece);
        let known = found.filter(|&at| {
            self.calls.get(at).is_some_and(|call| !call.is_over_by(piece, call.delta == self.delta))
        });
        let at = match known {
            Some(at) => at,
            None => self.open(address.key(), out),
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        call.delta = self.delta;
        let cost = call.note(piece, MAX_HELD.saturating_sub(self.held));
        let Some(cost) = cost else {
            self.dropped += 1;
            return;
        };
        self.held += cost;
        self.arguments(at, piece, out);
    }

    /// The call that a piece seems to belong to: by index; else by an id seen before; else by its place in a list of
    /// several; else the last one.
    fn address(&self, address: Address, piece: &Piece<'_>) -> Option<usize> {
        let last = |wanted: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(wanted);
        if address.index.is_some() {
            return last(&|call| call.key == address.key());
        }
        let by_id = if piece.id.is_empty() { None } else { last(&|call| call.id == piece.id) };
        let by_place = || if address.several { last(&|call| call.key == address.key()) } else { None };
        let latest = || if address.several && piece.is_named() { None } else { last(&|_| true) };
        by_id.or_else(by_place).or_else(latest)
    }

    /// Begins a call. With it the names of those before are certain, and those whose arguments are whole are over.
    fn open(&mut self, key: Key, out: &mut impl Sink) -> usize {
        self.announce(out);
        for call in &mut self.calls {
            if let (State::Open(index), true) = (call.state, call.extent.is_whole()) {
                call.end(index, false, out);
            }
        }
        self.held += CALL_COST;
        self.calls.push(Call::new(key, self.max_depth));
        self.calls.len() - 1
    }

    /// Announces every call that has a name and is not announced yet.
    fn announce(&mut self, out: &mut impl Sink) {
        for at in 0..self.calls.len() {
            self.start(at, out);
        }
    }

    /// Announces one call, if it has a name.
    fn start(&mut self, at: usize, out: &mut impl Sink) {
        let Some((before, rest)) = self.calls.split_at_mut_checked(at) else { return };
        let Some((call, after)) = rest.split_first_mut() else { return };
        if !matches!(call.state, State::Unnamed) || call.name.is_empty() {
            return;
        }
        // Some servers give all calls one id: whoever comes second gets none, and with it an id of our own later.
        let taken = |other: &Call| !matches!(other.state, State::Unnamed) && other.id == call.id;
        let id = if before.iter().chain(after.iter()).any(taken) { "" } else { call.id.as_str() };
        let index = self.next;
        self.next += 1;
        call.state = State::Open(index);
        out.event(Event::CallStart(CallStart {
            index,
            id: Cow::Borrowed(id),
            name: Cow::Borrowed(&call.name),
            runner: Runner::Client,
            source: Source::Native,
        }));
        if !call.early.is_empty() {
            out.event(Event::CallArguments { index, piece: Cow::Owned(std::mem::take(&mut call.early)) });
        }
    }

    /// Gives a piece's arguments to the call at `at`.
    fn arguments(&mut self, at: usize, piece: &Piece<'_>, out: &mut impl Sink) {
        let Some(call) = self.calls.get_mut(at) else { return };
        let text = match piece.arguments {
            Arguments::None => "",
            Arguments::Text(body) => call.unescaper.decode(body, &mut self.scratch),
            Arguments::Raw(json) => json,
        };
        call.extent.push(text);
        match call.state {
            State::Ended => {}
            State::Open(index) => {
                if !text.is_empty() {
                    out.event(Event::CallArguments { index, piece: Cow::Borrowed(text) });
                }
            }
            State::Unnamed => {
                // Text that waits for a name is paid for in `Call::note`.
                call.early.push_str(text);
                if call.extent.is_begun() {
                    self.start(at, out);
                }
            }
        }
    }
}

/// Where a piece says that it belongs.
#[derive(Debug, Clone, Copy)]
struct Address {
    index: Option<u64>,
    position: usize,
    several: bool,
}

impl Address {
    fn key(self) -> Key {
        self.index.map_or(Key::Position(self.position), Key::Index)
    }
}

/// The upstream's way of telling calls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Index(u64),
    Position(usize),
}

/// One element of a `tool_calls` delta. Empty: not said.
#[derive(Debug)]
struct Piece<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    arguments: Arguments<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Arguments<'a> {
    None,
    /// The inside of a JSON string: a piece of the arguments' text, escaped.
    Text(&'a str),
    /// JSON where a string belongs: it is the arguments.
    Raw(&'a str),
}

impl<'a> Piece<'a> {
    fn read(function: Json<'a>, id: Option<Json<'a>>) -> Self {
        let text = |json: Option<Json<'a>>| json.and_then(|json| json.as_str()).unwrap_or_default();
        let arguments = match function.get("arguments") {
            None => Arguments::None,
            Some(json) => match json.string_body() {
                Some("") => Arguments::None,
                Some(body) => Arguments::Text(body),
                None if json.is_null() => Arguments::None,
                None => Arguments::Raw(json.raw()),
            },
        };
        Self { id: text(id), name: text(function.get("name")), arguments }
    }

    fn is_named(&self) -> bool {
        !self.name.is_empty()
    }

    fn has_arguments(&self) -> bool {
        !matches!(self.arguments, Arguments::None)
    }

    fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && !self.has_arguments()
    }
}

/// A call as far as it has come.
#[derive(Debug)]
struct Call {
    key: Key,
    id: String,
    name: String,
    state: State,
    /// Arguments that came before the name.
    early: String,
    extent: Extent,
    unescaper: Unescaper,
    /// The last delta that brought a piece of it.
    delta: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Its name has not come, or may still grow.
    Unnamed,
    /// Announced under this number.
    Open(u32),
    Ended,
}

impl Call {
    fn new(key: Key, max_depth: usize) -> Self {
        Self {
            key,
            id: String::new(),
            name: String::new(),
            state: State::Unnamed,
            early: String::new(),
            extent: Extent::new(max_depth),
            unescaper: Unescaper::default(),
            delta: 0,
        }
    }

    /// Whether `piece`, though addressed to this call, begins the next one: indices may all be 0 and ids all the
    /// same. `same_delta`: this call has got a piece of the same delta before.
    fn is_over_by(&self, piece: &Piece<'_>, same_delta: bool) -> bool {
        let other_id = !piece.id.is_empty() && !self.id.is_empty() && piece.id != self.id;
        if !piece.is_named() {
            // Some servers invent an id for every delta: only with nothing to add, or nothing left to add to, does a
            // new id without a name begin a call.
            return other_id && (self.extent.is_whole() || !piece.has_arguments());
        }
        let same_name = piece.name == self.name;
        let repeats_head = same_name && !piece.id.is_empty() && piece.id == self.id;
        other_id
            || (same_delta && self.is_headed() && !repeats_head)
            || (self.extent.is_begun() && !same_name && self.is_headed())
            || (self.extent.is_whole() && piece.has_arguments())
    }

    fn is_headed(&self) -> bool {
        !self.name.is_empty()
    }

    /// Notes id and name of a piece; says how many bytes it keeps, or `None` if those are more than `budget`.
    fn note(&mut self, piece: &Piece<'_>, budget: usize) -> Option<usize> {
        let unnamed = matches!(self.state, State::Unnamed);
        let id = if unnamed && self.id.is_empty() { piece.id.as_ref() } else { "" };
        // Joined until the first byte of arguments; servers that repeat the name send it whole each time.
        let name = if unnamed && piece.name != self.name { piece.name.as_ref() } else { "" };
        let mut cost = id.len() + name.len();
        if let (true, Arguments::Text(text) | Arguments::Raw(text)) = (unnamed, piece.arguments) {
            cost += text.len();
        }
        if cost > budget {
            return None;
        }
        self.id.push_str(id);
        self.name.push_str(name);
        Some(cost)
    }

    fn end(&mut self, index: u32, cut: bool, out: &mut impl Sink) {
        if let Some(half) = self.unescaper.finish() {
            let mut text = [0; 4];
            let text: &str = half.encode_utf8(&mut text);
            self.extent.push(text);
            out.event(Event::CallArguments { index, piece: Cow::Borrowed(text) });
        }
        if self.extent.is_blank() && !cut {
            self.extent.push("{}");
            out.event(Event::CallArguments { index, piece: Cow::Borrowed("{}") });
        }
        let end = if self.extent.is_whole() { CallEnd::Complete } else { CallEnd::Cut };
        out.event(Event::CallEnd { index, end });
        self.state = State::Ended;
    }
}

/// How far some arguments are one JSON object.
#[derive(Debug)]
struct Extent {
    scanner: Scanner,
    stage: Stage,
    begun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing but white space so far.
    Blank,
    Inside,
    Whole,
    /// Something else than one object.
    Broken,
}

impl Extent {
    fn new(max_depth: usize) -> Self {
        Self { scanner: Scanner::new(max_depth), stage: Stage::Blank, begun: false }
    }

    fn push(&mut self, piece: &str) {
        self.begun |= !piece.is_empty();
        let piece = match self.stage {
            Stage::Blank | Stage::Whole => piece.trim_start_matches([' ', '\t', '\n', '\r']),
            Stage::Inside | Stage::Broken => piece,
        };
        self.stage = match self.stage {
            stage if piece.is_empty() => stage,
            Stage::Blank if !piece.starts_with('{') => Stage::Broken,
            Stage::Whole | Stage::Broken => Stage::Broken,
            Stage::Blank | Stage::Inside => return self.scan(piece),
        };
    }

    fn scan(&mut self, piece: &str) {
        let (taken, progress) = self.scanner.push(piece.as_bytes());
        self.stage = match progress {
            Progress::More => Stage::Inside,
            Progress::End => Stage::Whole,
            _ => Stage::Broken,
        };
        if self.stage == Stage::Whole {
            self.push(piece.get(taken..).unwrap_or_default());
        }
    }

    fn is_begun(&self) -> bool {
        self.begun
    }

    fn is_blank(&self) -> bool {
        self.stage == Stage::Blank
    }

    fn is_whole(&self) -> bool {
        self.stage == Stage::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// id, name, arguments and end of every call, in the order in which they began; checks the order of events.
    fn calls_of(events: &[Event<'_>]) -> Vec<(String, String, String, CallEnd)> {
        let mut calls: Vec<(String, String, String, Option<CallEnd>)> = Vec::new();
        for event in events {
            match event {
                Event::CallStart(start) => {
                    assert_eq!(start.index as usize, calls.len(), "numbers ascend");
                    assert!(!start.name.is_empty());
                    calls.push((start.id.to_string(), start.name.to_string(), String::new(), None));
                }
                Event::CallArguments { index, piece } => {
                    let call = &mut calls[*index as usize];
                    assert!(call.3.is_none() && !piece.is_empty());
                    call.2.push_str(piece);
                }
                Event::CallEnd { index, end } => {
                    let old = calls[*index as usize].3.replace(*end);
                    assert_eq!(old, None, "a call ends once");
                }
                other => panic!("no event of a call: {other:?}"),
            }
        }
        calls.into_iter().map(|(id, name, text, end)| (id, name, text, end.expect("an end"))).collect()
    }

    fn read(deltas: &[&str], cut: bool) -> Vec<(String, String, String, CallEnd)> {
        let mut events = Vec::new();
        let mut calls = CallDeltas::new(128);
        for delta in deltas {
            calls.delta(Json::parse(delta).unwrap(), &mut events);
        }
        calls.finish(cut, &mut events);
        calls_of(&events)
    }

    /// Reads deltas whose calls all are to be whole; gives `id name arguments` of each.
    fn whole(deltas: &[&str]) -> Vec<String> {
        let calls = read(deltas, false);
        assert!(calls.iter().all(|call| call.3 == CallEnd::Complete), "{calls:?}");
        calls.into_iter().map(|(id, name, arguments, _)| format!("{id} {name} {arguments}")).collect()
    }

    #[test]
    fn fragments_are_joined_as_they_were_written() {
        let calls = whole(&[
            r#"[{"index":0,"id":"p","type":"function","function":{"name":"a","arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"{\"x\": "}}]"#,
            r#"[{"index":0,"function":{"arguments":"2.50}"}}]"#,
        ]);
        assert_eq!(calls, [r#"p a {"x": 2.50}"#]);
    }

    #[test]
    fn calls_may_be_interleaved() {
        let calls = whole(&[
            r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{\"x\""}},
                {"index":1,"id":"q","function":{"name":"b","arguments":"{"}}]"#,
            r#"[{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":":1}"}}]"#,
        ]);
        assert_eq!(calls, [r#"p a {"x":1}"#, "q b {}"]);
    }

    #[test]
    fn a_name_is_joined_until_the_arguments_begin() {
        let calls = whole(&[
            r#"[{"index":0,"id":"p","function":{"name":"get_"}}]"#,
            r#"[{"index":0,"function":{"name":"weather","arguments":"{}"}}]"#,
        ]);
        assert_eq!(calls, ["p get_weather {}"]);
    }

    #[test]
    fn a_repeated_name_is_one_name() {
        let calls = whole(&[
            r#"[{"index":0,"id":"p","function":{"name":"a","arguments":""}}]"#,
            r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{"}}]"#,
            r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"}"}}]"#,
        ]);
        assert_eq!(calls, ["p a {}"]);
    }

    #[test]
    fn without_an_index_two_in_one_delta_are_two() {
        let whole_calls =
            r#"[{"function":{"name":"a","arguments":"{}"}},{"function":{"name":"a","arguments":"{}"}}]"#;
        assert_eq!(whole(&[whole_calls]), [" a {}", " a {}"]);
        let in_parts = [
            r#"[{"function":{"name":"a"}},{"function":{"name":"b"}}]"#,
            r#"[{"function":{"arguments":"{"}},{"function":{"arguments":"{}"}}]"#,
            r#"[{"function":{"arguments":"\"x\":1}"}},{"function":{}}]"#,
        ];
        assert_eq!(whole(&in_parts), [r#" a {"x":1}"#, " b {}"]);
    }

    #[test]
    fn without_an_index_a_new_name_or_id_is_a_new_call() {
        let by_name = [
            r#"[{"function":{"name":"a","arguments":"{}"}}]"#,
            r#"[{"function":{"name":"b","arguments":"{"}}]"#,
            r#"[{"function":{"arguments":"}"}}]"#,
        ];
        assert_eq!(whole(&by_name), [" a {}", " b {}"]);
        let by_id = [
            r#"[{"id":"p","function":{"name":"a"}}]"#,
            r#"[{"id":"q","function":{"name":"a"}}]"#,
            r#"[{"id":"p","function":{"arguments":"{\"x\":1}"}}]"#,
        ];
        assert_eq!(whole(&by_id), [r#"p a {"x":1}"#, "q a {}"]);
        let the_same_again = [r#"[{"function":{"name":"a","arguments":"{}"}}]"#; 2];
        assert_eq!(whole(&the_same_again), [" a {}", " a {}"]);
    }

    #[test]
    fn index_0_for_every_call_is_seen_through() {
        let one_delta = r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}},{"index":0,"id":"q","function":{"name":"b","arguments":"{}"}}]"#;
        assert_eq!(whole(&[one_delta]), ["p a {}", "q b {}"]);
        let two_deltas = [
            r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{"}}]"#,
            r#"[{"index":0,"function":{"arguments":"}"}}]"#,
            r#"[{"index":0,"id":"q","function":{"name":"a","arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"{\"x\":1}"}}]"#,
        ];
        assert_eq!(whole(&two_deltas), ["p a {}", r#"q a {"x":1}"#]);
        let without_ids = [
            r#"[{"index":0,"function":{"name":"a","arguments":"{}"}}]"#,
            r#"[{"index":0,"function":{"name":"b","arguments":"{}"}}]"#,
        ];
        assert_eq!(whole(&without_ids), [" a {}", " b {}"]);
    }

    #[test]
    fn an_id_that_all_calls_share_is_kept_by_the_first() {
        let calls = whole(&[
            r#"[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"x","function":{"name":"b","arguments":"{}"}}]"#,
        ]);
        assert_eq!(calls, ["x a {}", " b {}"]);
        let no_index = [
            r#"[{"id":"x","function":{"name":"a","arguments":"{}"}}]"#,
            r#"[{"id":"x","function":{"name":"b","arguments":"{}"}}]"#,
        ];
        assert_eq!(whole(&no_index), ["x a {}", " b {}"]);
    }

    #[test]
    fn an_id_invented_for_every_delta_is_no_new_call() {
        let calls = whole(&[
            r#"[{"index":0,"id":"r1","function":{"name":"a"}}]"#,
            r#"[{"index":0,"id":"r2","function":{"arguments":"{"}}]"#,
            r#"[{"index":0,"id":"r3","function":{"arguments":"}"}}]"#,
        ]);
        assert_eq!(calls, ["r1 a {}"]);
    }

    #[test]
    fn arguments_that_are_no_string() {
        let calls = whole(&[
            r#"[{"index":0,"function":{"name":"a","arguments":{"x": 1.0}}}]"#,
            r#"[{"index":1,"function":{"name":"b","arguments":null}}]"#,
            r#"[{"index":2,"function":{"name":"c"}}]"#,
            r#"[{"index":3,"name":"d","arguments":{}}]"#,
        ]);
        assert_eq!(calls, [r#" a {"x": 1.0}"#, " b {}", " c {}", " d {}"]);
    }

    #[test]
    fn empty_and_null_lists_say_nothing() {
        let deltas = [
            "[]",
            "null",
            "[null]",
            "[{}]",
            r#"[{"index":0,"id":"","function":{"name":"","arguments":""}}]"#,
            r#"[{"index":0,"id":null,"function":{"name":null,"arguments":null}}]"#,
        ];
        assert_eq!(read(&deltas, false), []);
    }

    #[test]
    fn ids_are_kept_verbatim() {
        let delta = r#"[{"index":0,"id":"functions.get_weather:0","function":{"name":"get_weather","arguments":"{}"}}]"#;
        assert_eq!(whole(&[delta]), ["functions.get_weather:0 get_weather {}"]);
    }

    #[test]
    fn arguments_may_come_before_the_name() {
        let calls = whole(&[
            r#"[{"index":0,"function":{"arguments":"{\"x\":"}}]"#,
            r#"[{"index":0,"id":"p","function":{"name":"a"}}]"#,
            r#"[{"index":0,"function":{"arguments":"1}"}}]"#,
        ]);
        assert_eq!(calls, [r#"p a {"x":1}"#]);
    }

    #[test]
    fn a_surrogate_pair_may_be_cut() {
        let calls = whole(&[
            r#"[{"index":0,"function":{"name":"a","arguments":"{\"x\":\"\ud83d"}}]"#,
            r#"[{"index":0,"function":{"arguments":"\ude00\"}"}}]"#,
        ]);
        assert_eq!(calls, [" a {\"x\":\"😀\"}"]);
    }

    #[test]
    fn a_call_is_announced_no_later_than_its_first_argument() {
        let mut events = Vec::new();
        let mut calls = CallDeltas::new(128);
        let mut count = |delta: &str| {
            calls.delta(Json::parse(delta).unwrap(), &mut events);
            events.len()
        };
        assert_eq!(count(r#"[{"index":0,"id":"p","function":{"name":"a","arguments":""}}]"#), 0);
        assert_eq!(count(r#"[{"index":0,"function":{"arguments":"{"}}]"#), 2);
        assert_eq!(count(r#"[{"index":0,"function":{"arguments":"}"}}]"#), 3);
        assert_eq!(count(r#"[{"index":1,"id":"q","function":{"name":"b"}}]"#), 4, "the first one is over");
        assert_eq!(
            count(r#"[{"index":2,"id":"r","function":{"name":"c"}}]"#),
            5,
            "the second one's name is certain"
        );
    }

    #[test]
    fn what_is_no_whole_object_is_cut() {
        for arguments in [r#"{\"x\":"#, "[1]", "5", "{} {}", "{}x", "{,}"] {
            let delta = format!(r#"[{{"index":0,"function":{{"name":"a","arguments":"{arguments}"}}}}]"#);
            assert_eq!(read(&[&delta], false)[0].3, CallEnd::Cut, "{arguments}");
        }
        let named = r#"[{"index":0,"function":{"name":"a"}}]"#;
        assert_eq!(read(&[named], true), [(String::new(), "a".into(), String::new(), CallEnd::Cut)]);
        let complete = r#"[{"index":0,"function":{"name":"a","arguments":" {} "}}]"#;
        assert_eq!(read(&[complete], true)[0].3, CallEnd::Complete);
    }

    #[test]
    fn a_call_without_a_name_is_counted() {
        let mut events = Vec::new();
        let mut calls = CallDeltas::new(128);
        calls.delta(Json::parse(r#"[{"index":0,"function":{"arguments":"{}"}}]"#).unwrap(), &mut events);
        calls.finish(false, &mut events);
        assert_eq!((events.len(), calls.dropped()), (0, 1));
    }

    #[test]
    fn what_waits_for_a_name_is_bounded() {
        let mut events = Vec::new();
        let mut calls = CallDeltas::new(128);
        let delta = format!(r#"[{{"index":0,"function":{{"arguments":"{}"}}}}]"#, "x".repeat(1000));
        for _ in 0..2000 {
            calls.delta(Json::parse(&delta).unwrap(), &mut events);
        }
        assert!(calls.calls[0].early.len() <= MAX_HELD);
        assert!(calls.dropped() > 0);
    }

    #[test]
    fn the_legacy_form_is_one_call() {
        let mut events = Vec::new();
        let mut calls = CallDeltas::new(128);
        for delta in [r#"{"name":"a","arguments":"{\"x\":"}"#, r#"{"arguments":"1}"}"#] {
            calls.legacy(Json::parse(delta).unwrap(), &mut events);
        }
        calls.finish(false, &mut events);
        assert_eq!(calls_of(&events), [(String::new(), "a".into(), r#"{"x":1}"#.into(), CallEnd::Complete)]);
    }
}
