//! Writes calls without dedicated markers, as JSON or as lines of text (docs/protocols/text-formats.md#free-text).

use super::{
    Renderer, Write,
    json::{LINES, array, object, usual},
};
use crate::rendered::{
    page::{How, Page},
    scene::{Call, Carries, Group},
    value::Json,
};

/// For formats in which only a declared name identifies a call.
const DECLARED: Carries = Carries { unknown: false, ..Carries::ALL };

/// Like [`DECLARED`], with calls on lines of their own.
const LINED: Carries = Carries { gaps: LINES, ..DECLARED };

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn pre(group: &Group, page: &mut Page) {
    let (open, close) =
        [("<pre>", "</pre>"), ("<PRE>\n", "\n</PRE>"), ("<pre class=\"x\"><code>", "</code></pre>")]
            [group.way % 3];
    match group.way / 3 % 4 {
        0 => page.calls(format!("{open}{}{close}", array(group, usual)), &group.calls, How::UNMARKED_JSON),
        1 => page
            .each(group, "\n", How::UNMARKED_JSON, |call| format!("{open}{}{close}", escaped(&usual(call)))),
        _ => page.each(group, "\n", How::UNMARKED_JSON, |call| format!("{open}{}{close}", usual(call))),
    }
}

fn fenced(group: &Group, page: &mut Page) {
    let (open, close) =
        [("```json", "```"), ("```", "```"), ("~~~~tool_call", "~~~~"), ("````JSON", "````")][group.way % 4];
    match group.way / 4 % 3 {
        0 => {
            let source = format!("{open}\n{}\n{close}", array(group, usual));
            page.calls(source, &group.calls, How::UNMARKED_JSON);
        }
        _ => page.each(group, "\n", How::UNMARKED_JSON, |call| format!("{open}\n{}\n{close}", usual(call))),
    }
}

fn bare(group: &Group, page: &mut Page) {
    if group.way.is_multiple_of(3) {
        page.calls(array(group, usual), &group.calls, How::UNMARKED_JSON);
    } else {
        let keys = [("tool", "args"), ("tool_name", "parameters"), ("name", "arguments")][group.way / 3 % 3];
        page.each(group, "\n", How::UNMARKED_JSON, |call| object(call, keys.0, keys.1));
    }
}

/// The markers of reasoning (docs/protocols/text-formats.md#reasoning).
const THOUGHTS: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("<think>\n", "\n</think>\n"),
    ("<think:6124c78e>", "</think:6124c78e>"),
    ("<mm:think>", "</mm:think>"),
    ("<seed:think>", "</seed:think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<analysis>", "</analysis>"),
    ("<scratch_pad>", "</scratch_pad>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    ("<ifm|think>", "</ifm|think>"),
    ("<ifm|think_fast>", "</ifm|think_fast>"),
    ("<ifm|think_faster>", "</ifm|think_faster>"),
];

const PACKED: How = How { packed: true, ..How::UNMARKED_JSON };

fn echo(group: &Group, page: &mut Page) {
    let function = |call: &Call| {
        let arguments = Json::Text(call.json()).written(call.style);
        format!("{{\"name\": \"{}\", \"arguments\": {arguments}}}", call.name)
    };
    if let [call] = group.calls.as_slice()
        && group.way.is_multiple_of(2)
    {
        let source = format!("{{\"function_call\": {}}}", function(call));
        page.calls(source, [call], PACKED);
        return;
    }
    let from = page.calls.len();
    let call = |call: &Call| {
        let at = group.calls.iter().position(|other| std::ptr::eq(other, call)).unwrap() + from;
        format!("{{\"id\": \"call_{at}\", \"type\": \"function\", \"function\": {}}}", function(call))
    };
    let source = format!("{{\"tool_calls\": {}}}", array(group, call));
    page.calls(source, &group.calls, PACKED);
    page.name_ids(from, |_, at| format!("call_{at}"));
}

fn react(group: &Group, page: &mut Page) {
    let end = ["", "\nObservation:", "\nObservation: 12 degrees\nThought: done"][group.way % 3];
    page.each(group, "", How::UNMARKED_JSON, |call| {
        format!("Action: {}\nAction Input: {}{end}", call.name, call.json())
    });
}

pub(super) const FORMATS: &[Renderer] = &[
    Renderer { name: "pre", carries: DECLARED, write: Write::Group(pre) },
    Renderer { name: "fenced", carries: LINED, write: Write::Group(fenced) },
    // Without a closer, mistakes after the JSON are read as framing.
    Renderer { name: "bare", carries: Carries { word_after: true, ..LINED }, write: Write::Group(bare) },
    Renderer {
        name: "openai_function_call",
        carries: Carries { word_after: true, ..LINED },
        write: Write::Group(echo),
    },
    // After the call, the model stops or invents the result.
    Renderer {
        name: "react",
        carries: Carries { groups: 1, most: 1, after: false, ..LINED },
        write: Write::Group(react),
    },
    // The response consists of reasoning only.
    Renderer {
        name: "think",
        carries: Carries { groups: 0, most: 1, reasoning: THOUGHTS, ..Carries::ALL },
        write: Write::Group(|_, _| {}),
    },
];
