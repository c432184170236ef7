//! [`Shape`]: the fast path for a stream whose events differ in one string and one number only.

use std::ops::Range;

use super::{Json, Scanner, escape::plain_run};

/// What the frames of a stream have in common, learnt from one of them.
///
/// A model's answer is hundreds of frames that are equal but for the token in them, and often a counter. To know such a
/// frame it is enough to compare what is before, between and behind the two with what a full parse has once found to be
/// JSON, and to check the two themselves: about the cost of reading the bytes once. Where the comparison fails the
/// frame is parsed in full, so a shape never decides what is valid, it only says so sooner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The frame up to its first varying part.
    head: Box<[u8]>,
    number: Number,
    /// The frame from behind its last varying part.
    tail: Box<[u8]>,
}

/// Where a frame has its number, and what is between it and the string.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Number {
    None,
    Before(Box<[u8]>),
    Behind(Box<[u8]>),
}

impl Shape {
    /// The shape of `frame`, whose string body lies at `body` (its quotes not included) and whose number at `number`.
    /// `None` if `frame` is not JSON, `body` is not the whole body of a string value in it, or `number` not a whole
    /// value of digits only.
    pub fn learn(frame: &str, body: Range<usize>, number: Option<Range<usize>>) -> Option<Self> {
        Json::parse(frame).ok()?;
        let text = |range: Range<usize>| frame.as_bytes().get(range);
        let boxed = |range: Range<usize>| text(range).map(Box::from);
        let opens = frame.get(..body.start)?.strip_suffix('"').is_some_and(awaits_value);
        if !opens || body.start + string_body(text(body.start..frame.len())?)?.len() != body.end {
            return None;
        }
        let Some(number) = number else {
            let (head, tail) = (boxed(0..body.start)?, boxed(body.end..frame.len())?);
            return Some(Self { head, number: Number::None, tail });
        };
        let behind = digits(text(number.start..frame.len())?)?;
        let whole =
            behind.len() + number.end == frame.len() && !matches!(behind.first(), Some(b'.' | b'e' | b'E'));
        if !whole || !awaits_value(frame.get(..number.start)?) {
            return None;
        }
        let first = body.start.min(number.start);
        let last = body.end.max(number.end);
        let number = if number.start < body.start {
            Number::Before(boxed(number.end..body.start)?)
        } else {
            Number::Behind(boxed(body.end..number.start)?)
        };
        Some(Self { head: boxed(0..first)?, number, tail: boxed(last..frame.len())? })
    }

    /// The string body (escapes not decoded) of a frame of this shape, which is then certainly JSON. `None` says only
    /// that the frame has to be parsed.
    pub fn body<'a>(&self, frame: &'a [u8]) -> Option<&'a str> {
        let mut rest = frame.strip_prefix(&*self.head)?;
        if let Number::Before(between) = &self.number {
            rest = digits(rest)?.strip_prefix(&**between)?;
        }
        let body = string_body(rest)?;
        let mut rest = rest.get(body.len()..)?;
        if let Number::Behind(between) = &self.number {
            rest = digits(rest.strip_prefix(&**between)?)?;
        }
        if *rest != *self.tail {
            return None;
        }
        str::from_utf8(body).ok()
    }
}

/// `text` is the beginning of a JSON text behind which a value has to come.
fn awaits_value(text: &str) -> bool {
    let mut scanner = Scanner::new(super::MAX_DEPTH);
    scanner.push(text.as_bytes());
    scanner.awaits_value()
}

/// What comes behind a number of digits only.
fn digits(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit())?;
    let (number, rest) = bytes.split_at_checked(end)?;
    let whole = matches!(number, [b'0'] | [b'1'..=b'9', ..]);
    whole.then_some(rest)
}

/// The valid string body up to the first quote that is not escaped.
fn string_body(bytes: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    loop {
        end += plain_run(bytes.get(end..)?);
        match bytes.get(end..)? {
            [b'"', ..] => return bytes.get(..end),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => end += 2,
            [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => {
                end += 6;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::json::{Kind, span};

    /// All values of a text with the way to them, keys and element numbers.
    fn values<'a>(json: Json<'a>, way: &str, all: &mut Vec<(String, Json<'a>)>) {
        all.push((way.to_owned(), json));
        for (place, (_, value)) in json.members().enumerate() {
            values(value, &format!("{way}.{place}"), all);
        }
        for (place, value) in json.elements().enumerate() {
            values(value, &format!("{way}[{place}"), all);
        }
    }

    /// The slow path: the string body at `way`, if `frame` is JSON and has a string there.
    fn parsed<'a>(frame: &'a [u8], way: &str) -> Option<&'a str> {
        let mut all = Vec::new();
        values(Json::parse_bytes(frame).ok()?, "", &mut all);
        all.iter().find(|(place, _)| place == way)?.1.string_body()
    }

    /// The way to the string whose body lies at `body`.
    fn way(frame: &str, body: &Range<usize>) -> Option<String> {
        let mut all = Vec::new();
        values(Json::parse(frame).ok()?, "", &mut all);
        let here =
            |json: &Json<'_>| json.string_body().and_then(|text| span(frame, text)).as_ref() == Some(body);
        all.into_iter().find(|(_, json)| here(json)).map(|(way, _)| way)
    }

    const FRAMES: [&str; 6] = [
        r#"{"type":"token_data","target":"message","count":7,"content":"Hi"}"#,
        r#"{"content":"","x":["a",true],"count":10}"#,
        r#"{"id":"c","n":0,"choices":[{"index":0,"delta":{"content":" \u00e9\n"},"end":null}]}"#,
        r#"{"a":"\"b\":\"c\"","n":12e3,"m":-5,"d":"e"}"#,
        r#"["one","two",3,["four",5.5]]"#,
        r#""a""#,
    ];

    fn part() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            3 => r#"([a é😀]|\\["\\/bfnrt]|\\u[0-9a-f]{4}){0,6}"#.prop_map(String::into_bytes),
            2 => r#"["\\,:{}a\n\u{1}u0-9é]{0,6}"#.prop_map(String::into_bytes),
            2 => "-?[0-9]{1,3}[.e]?[0-9]{0,2}".prop_map(String::into_bytes),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ]
    }

    /// A frame with other bytes at two places.
    fn with(frame: &str, first: Range<usize>, one: &[u8], last: Range<usize>, two: &[u8]) -> Vec<u8> {
        let bytes = frame.as_bytes();
        [&bytes[..first.start], one, &bytes[first.end..last.start], two, &bytes[last.end..]].concat()
    }

    proptest! {
        /// Whatever comes, where the shape tells a body it is the one that a parse finds; and it tells those it is for.
        #[test]
        fn frames_of_the_shape_take_the_fast_path_and_only_valid_ones(
            frame in prop::sample::select(&FRAMES[..]),
            body in part(),
            count in part(),
            junk: prop::sample::Index,
            byte: u8,
        ) {
            for (string, number) in holes(frame) {
                let Some(shape) = Shape::learn(frame, string.clone(), number.clone()) else { continue };
                let way = way(frame, &string).unwrap();
                let gap = number.unwrap_or(string.end..string.end);
                let other = if string.start < gap.start || gap.is_empty() {
                    with(frame, string.clone(), &body, gap.clone(), if gap.is_empty() { b"" } else { &count })
                } else {
                    with(frame, gap.clone(), &count, string.clone(), &body)
                };
                let digits = gap.is_empty() || count.iter().all(u8::is_ascii_digit);
                let slow = parsed(&other, &way);
                let same = slow.is_some_and(|slow| slow.as_bytes() == body);
                prop_assert_eq!(shape.body(&other), slow.filter(|_| digits && same), "{}", other.escape_ascii());
                // Any other change makes another shape of it, or is no JSON.
                let mut broken = other.clone();
                broken[junk.index(other.len())] = byte;
                if let Some(told) = shape.body(&broken) {
                    prop_assert_eq!(Some(told), parsed(&broken, &way));
                }
            }
        }
    }

    /// Every string of `frame`, with no number and with each.
    fn holes(frame: &str) -> Vec<(Range<usize>, Option<Range<usize>>)> {
        let mut all = Vec::new();
        values(Json::parse(frame).unwrap(), "", &mut all);
        let strings = all.iter().filter_map(|(_, json)| span(frame, json.string_body()?));
        let numbers = || {
            let numbers = all.iter().filter(|(_, json)| json.kind() == Kind::Number);
            numbers.filter_map(|(_, json)| span(frame, json.raw()))
        };
        strings
            .flat_map(|string| {
                std::iter::once(None).chain(numbers().map(Some)).map(move |number| (string.clone(), number))
            })
            .collect()
    }

    /// All ranges of a frame.
    fn ranges(frame: &str) -> impl Iterator<Item = Range<usize>> {
        let end = frame.len();
        (0..=end).flat_map(move |first| (first..=end).map(move |last| first..last))
    }

    #[test]
    fn only_whole_strings_and_whole_plain_numbers_are_learnt() {
        for frame in FRAMES {
            let holes: Vec<_> = holes(frame).into_iter().filter(|(_, number)| plain(frame, number)).collect();
            let mut learnt = Vec::new();
            for body in ranges(frame).filter(|body| Shape::learn(frame, body.clone(), None).is_some()) {
                learnt.push((body.clone(), None));
                let fits =
                    |number: &Range<usize>| Shape::learn(frame, body.clone(), Some(number.clone())).is_some();
                learnt.extend(ranges(frame).filter(fits).map(|number| (body.clone(), Some(number))));
            }
            assert_eq!(learnt, holes, "{frame}");
        }
        assert_eq!(Shape::learn("[\"a\"", 2..3, None), None, "not JSON");
    }

    #[test]
    fn a_number_that_json_does_not_allow_is_no_number() {
        let at = |count: &str| format!("{{\"n\":{count},\"t\":\"x\"}}");
        let shape = Shape::learn(&at("5"), 12..13, Some(5..6)).unwrap();
        for (count, body) in [
            ("0", Some("x")),
            ("60", Some("x")),
            ("06", None),
            ("", None),
            ("-6", None),
            ("6.", None),
            (" 6", None),
        ] {
            assert_eq!(shape.body(at(count).as_bytes()), body, "{count:?}");
        }
    }

    /// No number, or one of digits alone.
    fn plain(frame: &str, number: &Option<Range<usize>>) -> bool {
        number.clone().is_none_or(|number| frame.as_bytes()[number].iter().all(u8::is_ascii_digit))
    }
}
