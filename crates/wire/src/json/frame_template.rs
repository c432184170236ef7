//! [`FrameTemplate`]: the fast path for streams whose events only differ in one string and a few other values.

use std::ops::Range;

use super::{Json, Kind, span, whole};

/// What the frames of a stream have in common, learned from one of them.
///
/// A model's response consists of hundreds of frames that are equal except for the token and often a counter, or
/// random letters that hide the token's length. To recognise such a frame, it is enough to check the values that
/// vary, and to compare the text around them with a frame that a full parse has found to be valid JSON. This costs
/// about as much as reading the bytes once. If the comparison fails, the frame is parsed in full, so a template
/// never decides what is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameTemplate {
    /// The frame up to its first varying part.
    head: Box<[u8]>,
    beside: Beside,
    /// The frame after its last varying part.
    tail: Box<[u8]>,
}

/// Where values other than the string vary, and the text in between.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Beside {
    None,
    Before(Varying, Box<[u8]>),
    Behind(Box<[u8]>, Varying),
    /// Several values after the string.
    AllBehind(Box<[(Box<[u8]>, Varying)]>),
}

/// How to skip a varying value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Varying {
    /// A number that consists only of digits.
    Digits,
    Text,
}

impl Varying {
    /// Returns the kind of `value`, and its range in `frame`.
    fn of(value: Json<'_>, frame: &str) -> Option<(Self, Range<usize>)> {
        match value.string_body() {
            Some(body) => Some((Self::Text, span(frame, body)?)),
            None if value.kind() == Kind::Number && value.raw().bytes().all(|byte| byte.is_ascii_digit()) => {
                Some((Self::Digits, span(frame, value.raw())?))
            }
            None => None,
        }
    }

    /// Returns the bytes after the value, or `None` if `bytes` does not begin with a value of this kind.
    fn skip(self, bytes: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Digits => digits(bytes),
            Self::Text => bytes.get(string_body(bytes)?.len()..),
        }
    }
}

impl FrameTemplate {
    /// Learns the template of `frame`, which must be valid. `body` is the [`Json::string_body`] of a value in it,
    /// and `beside` is another value in it that may vary. Returns `None` if one of them is not in `frame`, or if
    /// `beside` is neither a string nor a number that consists only of digits.
    pub fn learn(frame: &str, body: &str, beside: Option<Json<'_>>) -> Option<Self> {
        let body = span(frame, body)?;
        let boxed = |range: Range<usize>| frame.as_bytes().get(range).map(Box::from);
        let mut outer = body.clone();
        let beside = match beside {
            None => Beside::None,
            Some(value) => {
                let (kind, place) = Varying::of(value, frame)?;
                outer = body.start.min(place.start)..body.end.max(place.end);
                if place.start < body.start {
                    Beside::Before(kind, boxed(place.end..body.start)?)
                } else {
                    Beside::Behind(boxed(body.end..place.start)?, kind)
                }
            }
        };
        Some(Self { head: boxed(0..outer.start)?, beside, tail: boxed(outer.end..frame.len())? })
    }

    /// Like [`FrameTemplate::learn`], but with any number of varying values, which must follow `body` in order.
    pub fn learn_with(frame: &str, body: &str, behind: &[Json<'_>]) -> Option<Self> {
        if behind.is_empty() {
            return Self::learn(frame, body, None);
        }
        let body = span(frame, body)?;
        let boxed = |range: Range<usize>| frame.as_bytes().get(range).map(Box::from);
        let mut at = body.end;
        let mut values = Vec::with_capacity(behind.len());
        for value in behind {
            let (kind, place) = Varying::of(*value, frame)?;
            values.push((boxed(at..place.start)?, kind));
            at = place.end;
        }
        let beside = Beside::AllBehind(values.into());
        Some(Self { head: boxed(0..body.start)?, beside, tail: boxed(at..frame.len())? })
    }

    /// Returns the string body, with its escapes, if the frame matches. A matching frame is valid JSON. `None` only
    /// means that the frame must be parsed.
    pub fn body<'a>(&self, frame: &'a str) -> Option<&'a str> {
        let bytes = frame.as_bytes();
        let mut rest = bytes.strip_prefix(&*self.head)?;
        if let Beside::Before(value, between) = &self.beside {
            rest = value.skip(rest)?.strip_prefix(&**between)?;
        }
        let start = bytes.len() - rest.len();
        let body = string_body(rest)?;
        let mut rest = rest.get(body.len()..)?;
        match &self.beside {
            Beside::None | Beside::Before(..) => {}
            Beside::Behind(between, value) => rest = value.skip(rest.strip_prefix(&**between)?)?,
            Beside::AllBehind(values) => {
                for (between, value) in values {
                    rest = value.skip(rest.strip_prefix(&**between)?)?;
                }
            }
        }
        if *rest != *self.tail {
            return None;
        }
        frame.get(start..start + body.len())
    }
}

/// Returns the bytes after a number that consists only of digits, or `None` if there is none.
fn digits(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit())?;
    let (number, rest) = bytes.split_at_checked(end)?;
    let whole = matches!(number, [b'0'] | [b'1'..=b'9', ..]);
    whole.then_some(rest)
}

/// Returns the string body up to the first unescaped quote, or `None` if it is invalid.
fn string_body(bytes: &[u8]) -> Option<&[u8]> {
    let behind = whole::string(bytes, &mut ()).ok()?;
    bytes.get(..bytes.len() - behind.len() - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::{Kind, span};

    fn values<'a>(json: Json<'a>, way: &str, all: &mut Vec<(String, Json<'a>)>) {
        all.push((way.to_owned(), json));
        for (place, (_, value)) in json.members().enumerate() {
            values(value, &format!("{way}.{place}"), all);
        }
        for (place, value) in json.elements().enumerate() {
            values(value, &format!("{way}[{place}"), all);
        }
    }

    /// The slow path: parses `frame`, and returns the string body at the path `way`.
    fn parsed<'a>(frame: &'a str, way: &str) -> Option<&'a str> {
        let mut all = Vec::new();
        values(Json::parse(frame).ok()?, "", &mut all);
        all.iter().find(|(place, _)| place == way)?.1.string_body()
    }

    /// Returns the path of the string whose body is at the range `body`.
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

    fn part() -> impl Strategy<Value = String> {
        prop_oneof![
            3 => r#"([a é😀]|\\["\\/bfnrt]|\\u[0-9a-f]{4}){0,6}"#,
            2 => r#"["\\,:{}a\n\u{1}u0-9é]{0,6}"#,
            2 => "-?[0-9]{1,3}[.e]?[0-9]{0,2}",
            1 => r"\PC{0,4}",
        ]
    }

    fn with(frame: &str, first: Range<usize>, one: &str, last: Range<usize>, two: &str) -> String {
        let mut frame = frame.to_owned();
        frame.replace_range(last, two);
        frame.replace_range(first, one);
        frame
    }

    proptest! {
        /// Whatever the template finds, a full parse finds too, and the template recognises the frame from which it
        /// was learned.
        #[test]
        fn frames_of_the_shape_take_the_fast_path_and_only_valid_ones(
            frame in prop::sample::select(&FRAMES[..]),
            body in part(),
            other in part(),
            junk: prop::sample::Index,
            byte in prop_oneof!["[\"\\\\,:{}\u{0}u0-9 -]", "\\PC"],
        ) {
            for (string, beside) in holes(frame) {
                let Some(shape) = FrameTemplate::learn(frame, string.string_body().unwrap(), beside) else { continue };
                let string = span(frame, string.string_body().unwrap()).unwrap();
                let way = way(frame, &string).unwrap();
                let gap = beside.map_or(string.end..string.end, |json| {
                    span(frame, json.string_body().unwrap_or(json.raw())).unwrap()
                });
                let (other, fits) = match beside.map(|json| json.kind()) {
                    None => ("", true),
                    Some(Kind::String) => (&*other, Json::parse(&format!("\"{other}\"")).is_ok()),
                    _ => (&*other, Json::parse(&other).is_ok() && other.bytes().all(|byte| byte.is_ascii_digit())),
                };
                let changed = if gap.start < string.start {
                    with(frame, gap, other, string, &body)
                } else {
                    with(frame, string, &body, gap, other)
                };
                let slow = parsed(&changed, &way).filter(|slow| *slow == body);
                prop_assert_eq!(shape.body(&changed), slow.filter(|_| fits), "{}", changed);
                // Any other change makes the frame different or invalid.
                let mut broken = changed.clone();
                let at = (0..=junk.index(changed.len())).rev().find(|at| changed.is_char_boundary(*at)).unwrap();
                broken.remove(at);
                broken.insert_str(at, &byte);
                if let Some(told) = shape.body(&broken) {
                    prop_assert_eq!(Some(told), parsed(&broken, &way));
                }
            }
        }
    }

    /// Returns every string of `frame`, by itself and with each other string or number as the second varying value.
    fn holes(frame: &str) -> Vec<(Json<'_>, Option<Json<'_>>)> {
        let mut all = Vec::new();
        values(Json::parse(frame).unwrap(), "", &mut all);
        let all: Vec<_> = all.into_iter().map(|(_, json)| json).collect();
        let strings = all.iter().filter(|json| json.kind() == Kind::String);
        let beside = |string: &Json<'_>| {
            let string = string.raw().as_ptr();
            let varying = all.iter().filter(|json| matches!(json.kind(), Kind::String | Kind::Number));
            varying.filter(|json| json.raw().as_ptr() != string).copied().map(Some).collect::<Vec<_>>()
        };
        strings
            .flat_map(|string| std::iter::once(None).chain(beside(string)).map(|beside| (*string, beside)))
            .collect()
    }

    #[test]
    fn strings_and_plain_numbers_of_the_frame_are_learnt() {
        for frame in FRAMES {
            for (string, beside) in holes(frame) {
                let plain = beside.is_none_or(|json| {
                    json.kind() == Kind::String || json.raw().bytes().all(|byte| byte.is_ascii_digit())
                });
                let body = string.string_body().unwrap();
                let shape = FrameTemplate::learn(frame, body, beside);
                assert_eq!(shape.is_some(), plain, "{frame} {string:?} {beside:?}");
                assert!(shape.is_none_or(|shape| shape.body(frame) == Some(body)));
            }
        }
        assert_eq!(FrameTemplate::learn(FRAMES[0], "elsewhere", None), None);
        let object = Json::parse(FRAMES[0]).unwrap();
        let content = object.get("content").unwrap().string_body().unwrap();
        assert_eq!(FrameTemplate::learn(FRAMES[0], content, Json::parse("1").ok()), None);
        assert_eq!(FrameTemplate::learn(FRAMES[0], content, Some(object)), None);
    }

    #[test]
    fn a_number_that_json_does_not_allow_is_rejected() {
        let at = |count: &str| format!("{{\"n\":{count},\"t\":\"x\"}}");
        let frame = at("5");
        let json = Json::parse(&frame).unwrap();
        let shape =
            FrameTemplate::learn(&frame, json.get("t").unwrap().string_body().unwrap(), json.get("n"))
                .unwrap();
        for (count, body) in [
            ("0", Some("x")),
            ("60", Some("x")),
            ("06", None),
            ("", None),
            ("-6", None),
            ("6.", None),
            (" 6", None),
        ] {
            assert_eq!(shape.body(&at(count)), body, "{count:?}");
        }
    }
}
