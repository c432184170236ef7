//! [`of_calls`] and [`of_text`]: write a GBNF grammar for calls in a format's notation, alone or in text.
//!
//! ```text
//! root ::= before call (between call)* after        call ::= "<tool_call>…" arguments "…</tool_call>" | …
//! root ::= text0       text0 ::= [^<]* ("<" text1)?       text1 ::= ("t" text2 | "<" text1 | [^t<] text0)?       …
//! ```
//!
//! White space is spelled out. If a grammar allows any amount of it, small models write nothing else
//! (docs/protocols/enforcement.md#grammars).

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{
    notation::Notation,
    schema::{Fitted, MAX_BOUND, required_of},
};

/// Maximum number of calls in a response. Without it, a small model may never stop making calls.
const MAX_CALLS: usize = 4;
/// Maximum number of rules in a grammar.
const MAX_RULES: usize = 4096;

/// The repetition of additional properties in an open object. Without a limit, small models never stop
/// inventing them.
const MORE: &str = "{0,15}";

/// Rules that every grammar contains: JSON of any type, with at most one space after `:` and `,`.
const COMMON: &str = r#"any ::= any-object | any-array | string | number | boolean | null
any-object ::= "{" (any-member (comma any-member){0,15})? "}"
any-member ::= string colon any
any-array ::= "[" (any (comma any){0,63})? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
boolean ::= "true" | "false"
null ::= "null"
comma ::= "," " "?
colon ::= ":" " "?
"#;

/// A tool's call: the strings around its arguments, and the schema of these.
pub(super) type CallParts = ((String, String), Fitted);

/// The grammar of a response that consists only of these calls. `None` if the grammar would be too large.
pub(super) fn of_calls(notation: &Notation, calls: &[CallParts], only_one: bool) -> Option<String> {
    let mut rules = Rules::default();
    let written = rules.calls(calls);
    let call =
        rules.named("call", written.iter().map(|parts| sequence(parts)).collect::<Vec<_>>().join(" | "));
    let (before, between, after) = notation.around();
    let next = sequence(&[literal(between), call.clone()]);
    let more = if only_one { String::new() } else { format!("({next}){{0,{}}}", MAX_CALLS - 1) };
    let root = sequence(&[literal(before), call, more, literal(after)]);
    rules.finish(&root)
}

/// The grammar of a response of any text, in which `opener` must be followed by the rest of one of these calls.
/// With `only_one`, the response ends after a call. `None` if a call does not start with `opener`, or if the
/// grammar would be too large.
///
/// It applies from the first token on. llama.cpp can also start a grammar where text matches a pattern, but fails
/// if the token that completes the opener goes on differently (docs/protocols/enforcement.md#grammars).
pub(super) fn of_text(
    notation: &Notation,
    opener: &str,
    calls: &[CallParts],
    only_one: bool,
) -> Option<String> {
    let mut rules = Rules::default();
    let (before, between, after) = notation.around();
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for (((begin, _), _), [written, arguments, end]) in calls.iter().zip(rules.calls(calls)) {
        let opened = format!("{before}{begin}");
        let rest = literal(opened.strip_prefix(opener)?);
        first.push(sequence(&[rest, arguments.clone(), end.clone()]));
        later.push(sequence(&[written, arguments, end]));
    }
    let first = rules.named("first", first.join(" | "));
    // Calls without anything around them are separated by text.
    let more = match only_one || (before.is_empty() && after.is_empty()) {
        true => String::new(),
        false => {
            let call = rules.named("call", later.join(" | "));
            format!("({})*", sequence(&[literal(between), call]))
        }
    };
    let again = if only_one { "" } else { "text0" };
    let rest = rules.named("rest", sequence(&[first, more, literal(after), again.to_owned()]));
    rules.text(opener, &rest);
    rules.finish("text0")
}

#[derive(Debug, Default)]
pub(super) struct Rules {
    text: String,
    count: usize,
}

impl Rules {
    /// The strings around each call's arguments as literals, with the rule for the arguments between them.
    fn calls(&mut self, calls: &[CallParts]) -> Vec<[String; 3]> {
        let written = calls
            .iter()
            .map(|((begin, end), schema)| [literal(begin), self.of(schema.as_value()), literal(end)]);
        written.collect()
    }

    /// The complete grammar. `None` if it is too large.
    pub(super) fn finish(self, root: &str) -> Option<String> {
        (self.count <= MAX_RULES).then(|| format!("root ::= {root}\n{}{COMMON}", self.text))
    }

    /// Rules for text that continues with `rest` once it contains `opener`: `text0`, `text1` and so on, each for
    /// the number of the opener's characters that the text so far ends with.
    pub(super) fn text(&mut self, opener: &str, rest: &str) {
        let opener: Vec<char> = opener.chars().collect();
        let shorter = borders(&opener);
        let after = |matched: usize| match matched == opener.len() {
            true => rest.to_owned(),
            false => format!("text{matched}"),
        };
        for matched in 0..opener.len() {
            // If another character follows, the text may still end with a shorter part of the opener.
            let mut ways: Vec<(char, usize)> = Vec::new();
            let mut part = Some(matched);
            while let Some((length, next)) = part.and_then(|length| Some((length, *opener.get(length)?))) {
                if !ways.iter().any(|(known, _)| *known == next) {
                    ways.push((next, length + 1));
                }
                part = shorter.get(length).copied().flatten();
            }
            let other: String = ways.iter().map(|(next, _)| in_class(*next)).collect();
            let ways = ways
                .iter()
                .map(|(next, length)| sequence(&[literal(next.encode_utf8(&mut [0; 4])), after(*length)]));
            let ways = ways.collect::<Vec<_>>().join(" | ");
            let body = match matched {
                0 => format!("[^{other}]* ({ways})?"),
                _ => format!("({ways} | [^{other}] text0)?"),
            };
            self.named(&format!("text{matched}"), body);
        }
    }

    fn named(&mut self, name: &str, body: String) -> String {
        self.count += 1;
        // A rule must not be empty. Writing to a string cannot fail.
        let body = if body.is_empty() { "\"\"".to_owned() } else { body };
        let _ = writeln!(self.text, "{name} ::= {body}");
        name.to_owned()
    }

    fn add(&mut self, body: String) -> String {
        let name = format!("r{}", self.count);
        self.named(&name, body)
    }

    /// The rule for JSON that matches `schema`: a name, a literal or a group.
    fn of(&mut self, schema: &Value) -> String {
        let Some(members) = schema.as_object() else { return "any".to_owned() };
        if self.count > MAX_RULES {
            return "any".to_owned();
        }
        if let Some(value) = members.get("const") {
            return literal(&value.to_string());
        }
        if let Some(values) = members.get("enum").and_then(Value::as_array) {
            let values: Vec<String> = values.iter().map(|value| literal(&value.to_string())).collect();
            return self.add(values.join(" | "));
        }
        if let Some(branches) = members.get("anyOf").and_then(Value::as_array) {
            let branches: Vec<String> = branches.iter().map(|branch| self.of(branch)).collect();
            return self.add(branches.join(" | "));
        }
        match members.get("type").and_then(Value::as_str) {
            Some("object") => self.object(members),
            Some("array") => self.array(members),
            Some("string") => match repeated(members, ["minLength", "maxLength"]) {
                None => "string".to_owned(),
                Some(times) => format!("(\"\\\"\" char{times} \"\\\"\")"),
            },
            Some(plain @ ("number" | "integer" | "boolean" | "null")) => plain.to_owned(),
            _ => "any".to_owned(),
        }
    }

    /// The rule for the properties of an object, in the order of their declaration, with required ones first.
    fn object(&mut self, members: &Map<String, Value>) -> String {
        let none = Map::new();
        let properties = members.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let additional = match members.get("additionalProperties") {
            Some(Value::Bool(false)) | None => None,
            Some(schema) => Some(self.of(schema)),
        };
        let listed = required_of(members);
        let mut required = Vec::new();
        let mut optional = Vec::new();
        for (key, schema) in properties {
            let name = literal(&Value::from(key.as_str()).to_string());
            let member = sequence(&[name, "colon".to_owned(), self.of(schema)]);
            if listed.contains(key.as_str()) { required.push(member) } else { optional.push(member) }
        }
        optional.extend(additional.map(|value| format!("string colon {value}")));
        let may_repeat = members.get("additionalProperties").is_some_and(|additional| additional != false);
        let members = match required.is_empty() {
            false => {
                let tail = self.tails(&optional, may_repeat).into_iter().next();
                sequence(&[required.join(" comma "), tail.unwrap_or_default()])
            }
            true => self.any_of_these(&optional, may_repeat),
        };
        self.add(sequence(&["\"{\"".to_owned(), members, "\"}\"".to_owned()]))
    }

    /// For each member, a rule for that member and all later ones, all of which are optional.
    fn tails(&mut self, members: &[String], last_repeats: bool) -> Vec<String> {
        let mut tails: Vec<String> = Vec::new();
        for (at, member) in members.iter().enumerate().rev() {
            let times = if last_repeats && at + 1 == members.len() { MORE } else { "?" };
            let next = tails.last().cloned().unwrap_or_default();
            let tail = self.add(sequence(&[format!("(comma {member}){times}"), next]));
            tails.push(tail);
        }
        tails.reverse();
        tails
    }

    /// The rule for any subset of these members, in order and separated by commas.
    fn any_of_these(&mut self, members: &[String], last_repeats: bool) -> String {
        if members.is_empty() {
            return String::new();
        }
        let later = members.get(1..).unwrap_or_default();
        let mut tails: Vec<_> = self.tails(later, last_repeats).into_iter().map(Some).collect();
        let last = members.last().filter(|_| last_repeats).map(|last| format!("(comma {last}){MORE}"));
        tails.push(last);
        let starts = members.iter().zip(tails);
        let starts: Vec<String> =
            starts.map(|(member, tail)| sequence(&[member.clone(), tail.unwrap_or_default()])).collect();
        format!("({})?", starts.join(" | "))
    }

    fn array(&mut self, members: &Map<String, Value>) -> String {
        let item = members.get("items").map_or_else(|| "any".to_owned(), |items| self.of(items));
        let bound = |key: &str| members.get(key).and_then(Value::as_u64).filter(|bound| *bound <= MAX_BOUND);
        let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems"));
        if most == Some(0) {
            return "\"[]\"".to_owned();
        }
        let more = match (least.saturating_sub(1), most) {
            (0, None) => format!("(comma {item})*"),
            (least, None) => format!("(comma {item}){{{least},}}"),
            (least, Some(most)) => format!("(comma {item}){{{least},{}}}", most.saturating_sub(1).max(least)),
        };
        let items = if least == 0 { format!("({item} {more})?") } else { format!("{item} {more}") };
        self.add(format!("\"[\" {items} \"]\""))
    }
}

/// For each number of characters, the length of the longest proper prefix of `text` with which that many of its
/// characters end. `None` for no characters, and 0 for those that end with no prefix.
fn borders(text: &[char]) -> Vec<Option<usize>> {
    let mut borders: Vec<Option<usize>> = vec![None];
    for (at, next) in text.iter().enumerate() {
        let mut part = borders.get(at).copied().flatten();
        while let Some(length) = part
            && text.get(length) != Some(next)
        {
            part = borders.get(length).copied().flatten();
        }
        borders.push(Some(part.map_or(0, |length| length + 1)));
    }
    borders
}

/// A character between the brackets of a class.
fn in_class(character: char) -> String {
    match character {
        plain if plain.is_ascii_alphanumeric() => plain.to_string(),
        other if u32::from(other) > 0xFFFF => format!("\\U{:08X}", u32::from(other)),
        other => format!("\\u{:04X}", u32::from(other)),
    }
}

/// The repetition operator for these bounds. `None` if any number is allowed.
fn repeated(members: &Map<String, Value>, [least, most]: [&str; 2]) -> Option<String> {
    let bound = |key: &str| members.get(key).and_then(Value::as_u64).filter(|bound| *bound <= MAX_BOUND);
    match (bound(least), bound(most)) {
        (None | Some(0), None) => None,
        (least, None) => Some(format!("{{{},}}", least.unwrap_or(0))),
        (least, Some(most)) => Some(format!("{{{},{most}}}", least.unwrap_or(0).min(most))),
    }
}

/// Quotes `text` as a literal. Empty if the text is empty.
fn literal(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut literal = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            // Writing to a string cannot fail.
            control if control.is_control() => drop(write!(literal, "\\u{:04X}", u32::from(control))),
            other => literal.push(other),
        }
    }
    literal.push('"');
    literal
}

fn sequence(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}
