//! Model output: scenarios that every format can express, the published cases, and long responses.

use serde_json::{Map, Value, json};

use crate::{
    client::{Assembled, numbers, value, words},
    render::{self, Wanted, Written},
    shapes::Shape,
};

/// What a client must have received at the end of the response.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    content: String,
    calls: Vec<(String, Arguments)>,
}

#[derive(Debug, Clone)]
enum Arguments {
    Whole(Value),
    /// The call is cut off here. The client may have received a little less, but nothing invented.
    Begin(String),
}

/// How many characters of a truncated response may still be held back, as an unfinished token.
const LAG: usize = 12;

impl Arguments {
    fn met(&self, arguments: &str) -> bool {
        match self {
            Self::Whole(whole) => value(arguments) == *whole,
            Self::Begin(begin) => {
                let dense = |text: &str| text.replace(": ", ":").replace(", ", ",");
                dense(begin).strip_prefix(&dense(arguments)).is_some_and(|missing| missing.len() <= LAG)
            }
        }
    }
}

impl Expected {
    pub fn met(&self, answer: &Assembled) -> bool {
        words(&self.content) == words(&answer.content)
            && self.calls.len() == answer.calls().len()
            && answer
                .calls()
                .zip(&self.calls)
                .all(|(call, (name, arguments))| call.name == *name && arguments.met(&call.arguments))
    }
}

#[derive(Debug, Clone)]
pub struct Sample {
    pub id: String,
    pub written: Written,
    pub expected: Expected,
    pub stopped: bool,
}

/// Converts a published case. Returns `None` if it is about reasoning, which parsers for calls do not handle.
pub fn case(case: &Value) -> Option<Sample> {
    let expect = &case["expect"];
    if expect["reasoning"].as_str().is_some_and(|reasoning| !reasoning.is_empty()) {
        return None;
    }
    let call = |call: &Value| {
        let arguments = match call["arguments_prefix"].as_str() {
            Some(begin) => Arguments::Begin(begin.to_owned()),
            None => Arguments::Whole(numbers(call["args"].clone())),
        };
        (call["name"].as_str().unwrap_or_default().to_owned(), arguments)
    };
    let calls = expect["calls"].as_array().into_iter().flatten().map(call).collect();
    Some(Sample {
        id: case["id"].as_str().unwrap_or_default().to_owned(),
        written: Written::text(case["text"].as_str().unwrap_or_default()),
        expected: Expected { content: expect["content"].as_str().unwrap_or_default().to_owned(), calls },
        stopped: case["upstream_finish"].as_str().unwrap_or("stop") == "stop",
    })
}

fn wanted(name: &'static str, arguments: Value) -> Wanted {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    Wanted { name, arguments }
}

/// Returns the basic scenarios that this format can express: text before the calls, calls, text after them.
pub fn scenarios(shape: &Shape) -> Vec<Sample> {
    let weather = || wanted("get_weather", json!({"city": "Paris"}));
    let search = || wanted("search", json!({"query": "café au lait", "limit": 3}));
    let file = wanted(
        "write_file",
        json!({"path": "src/ä.py", "content": "if a < b and \"c\" != 'd':\n    print(\"日本 \\\\ 😀\")  # {x: [1, 2]}"}),
    );
    let options = wanted(
        "set_opts",
        json!({"enabled": true, "ratio": 0.5, "tags": ["a", "b"], "cfg": {"depth": 2, "name": "x"}, "note": null}),
    );
    let all = [
        ("simple", "", vec![weather()], ""),
        ("text before", "I will look that up.\n\n", vec![weather()], ""),
        ("text behind", "", vec![weather()], "\n\nThat is all."),
        ("two", "", vec![weather(), search()], ""),
        ("no arguments", "", vec![wanted("now", json!({}))], ""),
        ("code", "", vec![file], ""),
        ("types", "", vec![options], ""),
        ("prose", "If a < b, use x[0] & y: it costs 5 €.\n\nDone.", vec![], ""),
    ];
    let can = |(_, before, calls, behind): &(&str, &str, Vec<Wanted>, &str)| {
        calls.is_empty()
            || ((before.is_empty() || shape.text.0)
                && (behind.is_empty() || shape.text.1)
                && (calls.len() < 2 || shape.several))
    };
    all.into_iter()
        .filter(can)
        .map(|(id, before, calls, behind)| scenario(shape, id, before, &calls, behind))
        .collect()
}

fn scenario(shape: &Shape, id: &str, before: &str, calls: &[Wanted], behind: &str) -> Sample {
    let mut written = Written::text(before);
    if !calls.is_empty() {
        render::calls(shape, calls, &mut written);
    }
    written.push(behind);
    let call = |call: &Wanted| {
        (call.name.to_owned(), Arguments::Whole(numbers(Value::Object(call.arguments.clone()))))
    };
    let expected = Expected { content: format!("{before}{behind}"), calls: calls.iter().map(call).collect() };
    Sample { id: format!("{}, {id}", shape.label), written, expected, stopped: true }
}

/// Code with every character that must be escaped. 2 % of it is not ASCII.
const CODE: &str = "fn greet(name: &str) -> String {\n    // Grüße aus München – naïve, wie immer\n    let path = \
    \"C:\\\\temp\";\n    if name.len() < 3 && path != \"\" {\n        return format!(\"{name}: {path}\\t\");\n    }\n    let \
    list: Vec<u32> = vec![1, 2, 3];\n    println!(\"{}\", list.iter().sum::<u32>());\n    name.to_owned()\n}\n\n";

/// A call whose argument is a file of `bytes` bytes.
pub fn long_call(shape: &Shape, bytes: usize) -> Sample {
    let mut content: String = CODE.chars().cycle().take(bytes * CODE.chars().count() / CODE.len()).collect();
    content.push_str("// end");
    let mut arguments = Map::new();
    arguments.insert("path".to_owned(), "src/greet.rs".into());
    arguments.insert("content".to_owned(), content.into());
    scenario(shape, "a long call", "", &[Wanted { name: "write_file", arguments }], "")
}

const PROSE: &str = "The weather in Paris stays mild through the week, with light winds from the west and a few clouds in \
    the afternoon. Expect around eighteen degrees on most days; evenings are cooler, so a jacket is a good idea if you \
    plan to sit outside.\n\n- **Museums** near the river open at nine (see [the list](https://example.org/list)).\n- The \
    covered passages cost 5 € less, if a < b holds and `x[0]` is {set}.\n\nShould it rain on Thursday, the café at the corner \
    is a pleasant place to wait – it's dry, and it's warm.\n\n";

/// Prose of `bytes` bytes, with punctuation that is typical of assistants.
pub fn prose(bytes: usize) -> Sample {
    let content: String = PROSE.chars().cycle().take(bytes * PROSE.chars().count() / PROSE.len()).collect();
    let written = Written::text(&content);
    Sample {
        id: "prose".to_owned(),
        written,
        expected: Expected { content, calls: Vec::new() },
        stopped: true,
    }
}

/// Splits text at character boundaries into pieces of at most `size` bytes. If `whole` is set, markers are not
/// split.
pub fn pieces(written: &Written, size: usize, whole: bool) -> Vec<&str> {
    let text = written.text.as_str();
    let mut pieces = Vec::new();
    let mut at = 0;
    for marker in written.markers.iter().filter(|_| whole) {
        cut(&text[at..marker.start], size, &mut pieces);
        pieces.push(&text[marker.clone()]);
        at = marker.end;
    }
    cut(&text[at..], size, &mut pieces);
    pieces
}

fn cut<'t>(mut text: &'t str, size: usize, pieces: &mut Vec<&'t str>) {
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(size.min(text.len())));
        pieces.push(piece);
        text = rest;
    }
}
