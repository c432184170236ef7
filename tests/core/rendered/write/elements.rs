//! Writes arguments whose tags are their keys (docs/protocols/text-formats.md#element-trees).

use super::{
    Renderer, Write,
    json::LINES,
    params::{TYPED, params, plain},
};
use crate::rendered::{
    page::{How, Page},
    scene::{Call, Carries, Group, Keys},
    tools::declares,
    value::Json,
};

const SIGN: &str = "]<]minimax[>[";

/// Writes `value` as an element. Members and items become nested elements.
fn nested(key: &str, value: &Json) -> String {
    let inner = match value {
        Json::Text(text) => text.clone(),
        Json::List(items) => items.iter().map(|item| nested("item", item)).collect(),
        Json::Object(members) => members.iter().map(|(key, value)| nested(key, value)).collect(),
        Json::Null | Json::Flag(_) | Json::Number(_) => value.written(crate::rendered::value::Style::COMPACT),
    };
    format!("{SIGN}<{key}>{inner}{SIGN}</{key}>")
}

fn minimax_m3(group: &Group, page: &mut Page) {
    let line = ["\n", ""][group.way % 2];
    let call = |call: &Call| {
        let arguments: String = call.arguments.iter().map(|(key, value)| nested(key, value)).collect();
        format!("{SIGN}<invoke name=\"{}\">{arguments}{SIGN}</invoke>{line}", call.name)
    };
    let calls: String = group.calls.iter().map(call).collect();
    page.calls(format!("{SIGN}<tool_call>{line}{calls}{SIGN}</tool_call>"), &group.calls, How::VALUES);
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn toolify_call(call: &Call, way: usize) -> String {
    let arguments = match way % 3 {
        // These tags are recognized only if the arguments are declared.
        0 => {
            let args = params(call, "", |key, value| format!("<{key}>{}</{key}>", escaped(value)));
            format!("<args>{args}</args>")
        }
        1 => format!("<args_json>{}</args_json>", call.json()),
        _ => format!("<args_json><![CDATA[{}]]></args_json>", call.json()),
    };
    format!("<function_call>\n<tool>{}</tool>\n{arguments}\n</function_call>\n", call.name)
}

fn toolify(group: &Group, page: &mut Page) {
    let declared = group.calls.iter().all(|call| declares(call.name, &call.arguments));
    let way = if declared { group.way } else { 1 + group.way % 2 };
    let calls: String = group.calls.iter().map(|call| toolify_call(call, way)).collect();
    let how = if way.is_multiple_of(3) { How::VALUES } else { How::JSON };
    let source = format!("<Function_Ab1C_Start/>\n<function_calls>\n{calls}</function_calls>");
    page.calls(source, &group.calls, how);
}

/// Writes a value between its tags, on lines of its own if its notation or its line endings require it.
fn element(key: &str, value: &str, way: usize) -> String {
    let lines = way.is_multiple_of(2) || value.starts_with(['\n', '\r']) || value.ends_with(['\n', '\r']);
    let line = if lines { "\n" } else { "" };
    format!("<{key}>{line}{value}{line}</{key}>")
}

fn tags(call: &Call) -> String {
    let arguments = params(call, "", |key, value| format!("{}\n", element(key, value, call.way)));
    format!("<{0}>\n{arguments}</{0}>", call.name)
}

/// Like [`tags`], but writes each item of a list of strings as a separate element. The list stays JSON if its first
/// item is empty, which would be read as an empty list, or if it begins with a bracket, which would be read as JSON
/// or child elements.
fn morph(call: &Call) -> String {
    let tag = |key: &str, value: &str| format!("{}\n", element(key, value, call.way));
    let argument = |(key, value): &(String, Json)| match value {
        Json::List(items)
            if items.len() > 1
                && items.iter().all(|item| matches!(item, Json::Text(_)))
                && matches!(items.first(), Some(Json::Text(text)) if !text.trim().is_empty() && !text.trim_start().starts_with(['[', '<'])) =>
        {
            items.iter().map(|item| tag(key, &plain(item, call.style))).collect()
        }
        value => tag(key, &plain(value, call.style)),
    };
    let arguments: String = call.arguments.iter().map(argument).collect();
    format!("<{0}>\n{arguments}</{0}>", call.name)
}

fn toolbridge(group: &Group, page: &mut Page) {
    let wrapper = ["toolbridge_calls", "tool_call", "wrapper"][group.way % 3];
    let calls: Vec<String> = group.calls.iter().map(tags).collect();
    let source = format!("<{wrapper}>\n{}\n</{wrapper}>", calls.join("\n"));
    page.calls(source, &group.calls, How::VALUES);
}

/// Tags of arguments. A value may not contain them, since the value would end there.
const TAGS: &[&str] = &[
    "</city>",
    "</unit>",
    "</days>",
    "</path>",
    "</content>",
    "</x>",
    "</y>",
    "</enabled>",
    "</ratio>",
    "</tags>",
    "</cfg>",
    "</note>",
    "</query>",
    "</limit>",
    "</other>",
    "</extra>",
    "</k_2>",
    "</name2>",
    "<path>",
    "</args>",
    "<x>",
];

pub(super) const FORMATS: &[Renderer] = &[
    // An empty element may be an empty string or an empty list.
    Renderer {
        name: "minimax_m3",
        carries: Carries {
            never: &[SIGN],
            no_text: &["]<]mini"],
            empties: false,
            reasoning: &[("<mm:think>", "</mm:think>")],
            ..TYPED
        },
        write: Write::Group(minimax_m3),
    },
    Renderer { name: "toolify", carries: TYPED, write: Write::Group(toolify) },
    Renderer {
        name: "toolbridge",
        carries: Carries { never: TAGS, unknown: false, keys: Keys::Declared, ..TYPED },
        write: Write::Group(toolbridge),
    },
    // The only marker is the name of a tool at the start of a line.
    Renderer {
        name: "cline",
        carries: Carries {
            never: TAGS,
            unknown: false,
            keys: Keys::Declared,
            gaps: LINES,
            reasoning: &[("<thinking>", "</thinking>")],
            ..TYPED
        },
        write: Write::Group(|group, page| page.each(group, "\n", How::VALUES, tags)),
    },
    Renderer {
        name: "morph_xml",
        carries: Carries { never: TAGS, unknown: false, keys: Keys::Declared, gaps: LINES, ..TYPED },
        write: Write::Group(|group, page| page.each(group, "\n", How::VALUES, morph)),
    },
];
