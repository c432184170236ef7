//! Writes JSON calls between markers (docs/protocols/text-formats.md#json-between-markers).

use super::{Renderer, Write};
use crate::rendered::{
    page::{How, Page},
    scene::{Call, Carries, Group},
    value::Json,
};

/// Line endings, for formats whose marker is only recognized at the start of a line.
pub(super) const LINES: &[&str] = &["\n", "\n\n"];

/// For formats without a closer, in which text after the calls could be read as part of a malformed call.
const OPEN: Carries = Carries { word_after: true, ..Carries::ALL };

/// Writes a JSON object in one of the layouts that models use. `name` and `arguments` are the keys.
pub(super) fn object(call: &Call, name: &str, arguments: &str) -> String {
    let (name, written) = (format!("\"{name}\": \"{}\"", call.name), call.json());
    match call.way % 8 {
        _ if call.is_packed() => {
            format!("{{{name}, \"{arguments}\": {}}}", Json::Text(written).written(call.style))
        }
        0 => format!("{{\"{arguments}\": {written}, {name}}}"),
        2 => format!("{{\"type\": \"function\", {name}, \"{arguments}\": {written}}}"),
        3 => format!("{{\n    {name},\n    \"{arguments}\": {written}\n}}"),
        _ => format!("{{{name}, \"{arguments}\": {written}}}"),
    }
}

pub(super) fn usual(call: &Call) -> String {
    object(call, "name", "arguments")
}

pub(super) fn array(group: &Group, write: impl Fn(&Call) -> String) -> String {
    let calls: Vec<String> = group.calls.iter().map(write).collect();
    match group.way % 3 {
        0 => format!("[\n  {}\n]", calls.join(",\n  ")),
        _ => format!("[{}]", calls.join(", ")),
    }
}

/// Puts each call between markers, or sometimes an array of all calls.
fn marked(group: &Group, page: &mut Page, open: &str, close: &str) {
    let line = if group.way.is_multiple_of(2) { "\n" } else { "" };
    if group.way % 4 == 3 {
        page.calls(format!("{open}{line}{}{line}{close}", array(group, usual)), &group.calls, How::JSON);
    } else {
        page.each(group, "\n", How::JSON, |call| format!("{open}{line}{}{line}{close}", usual(call)));
    }
}

fn listed(group: &Group, page: &mut Page, open: &str, close: &str) {
    let marked = !open.is_empty() && !open.starts_with('`');
    let how = if marked { How::JSON } else { How::UNMARKED_JSON };
    page.calls(format!("{open}{}{close}", array(group, usual)), &group.calls, how);
}

fn pangu(group: &Group, page: &mut Page) {
    match group.way % 2 {
        0 => listed(group, page, "[unused11]", "[unused12]"),
        _ => listed(group, page, "<|tool_call_start|>", "<|tool_call_end|>"),
    }
}

fn parameters(call: &Call) -> String {
    object(call, "name", "parameters")
}

const fn hermes(name: &'static str) -> Renderer {
    let write = |group: &Group, page: &mut Page| marked(group, page, "<tool_call>", "</tool_call>");
    Renderer { name, carries: Carries::ALL, write: Write::Group(write) }
}

const fn jamba(name: &'static str, reasoning: &'static [(&'static str, &'static str)]) -> Renderer {
    let write = |group: &Group, page: &mut Page| listed(group, page, "<tool_calls>", "</tool_calls>");
    Renderer { name, carries: Carries { reasoning, ..Carries::ALL }, write: Write::Group(write) }
}

fn llama(group: &Group, page: &mut Page) {
    let joint = ["; ", "\n", ";"][group.way / 3 % 3];
    let calls: Vec<String> = group.calls.iter().map(parameters).collect();
    match group.way % 3 {
        0 => page
            .each(group, "", How::JSON, |call| format!("<function={}>{}</function>", call.name, call.json())),
        1 => page.calls(format!("<|python_tag|>{}", calls.join(joint)), &group.calls, How::JSON),
        _ => page.calls(calls.join(joint), &group.calls, How::UNMARKED_JSON),
    }
}

fn phi(group: &Group, page: &mut Page) {
    match group.way % 3 {
        0 => listed(group, page, "<|tool_call|>", "<|/tool_call|>"),
        1 => {
            page.text(" ");
            listed(group, page, "functools", "");
        }
        _ => listed(group, page, "functools", ""),
    }
}

fn internlm(group: &Group, page: &mut Page) {
    let open =
        ["<|action_start|><|plugin|>\n", "<|action_start|> <|plugin|>\n", "<|action_start|><|plugin|>"];
    let open = open[group.way % 3];
    page.each(group, "\n", How::JSON, |call| format!("{open}{}<|action_end|>", parameters(call)));
}

fn xlam(group: &Group, page: &mut Page) {
    match group.way % 4 {
        0 => listed(group, page, "```json\n", "\n```"),
        1 => listed(group, page, "[TOOL_CALLS]", ""),
        2 => listed(group, page, "<tool_call>", "</tool_call>"),
        _ => listed(group, page, "", ""),
    }
}

fn apertus(group: &Group, page: &mut Page) {
    let calls = array(group, |call| format!("{{\"{}\": {}}}", call.name, call.json()));
    page.calls(format!("<|tools_prefix|>{calls}<|tools_suffix|>"), &group.calls, How::JSON);
}

fn command_r7b(group: &Group, page: &mut Page) {
    let from = page.calls.len();
    let id = |call: &Call| group.calls.iter().position(|other| std::ptr::eq(other, call)).unwrap() + from;
    let calls = array(group, |call| {
        let (name, id) = (call.name, id(call));
        format!("{{\"tool_call_id\": \"{id}\", \"tool_name\": \"{name}\", \"parameters\": {}}}", call.json())
    });
    page.calls(format!("<|START_ACTION|>{calls}<|END_ACTION|>"), &group.calls, How::JSON);
    page.name_ids(from, |_, at| at.to_string());
}

fn k2_horizon(group: &Group, page: &mut Page) {
    let call = |call: &Call| format!("<ifm|tool_call>{}</ifm|tool_call>", usual(call));
    if group.way.is_multiple_of(2) {
        let calls: Vec<String> = group.calls.iter().map(call).collect();
        let calls = format!("<ifm|tool_calls>\n{}\n</ifm|tool_calls>", calls.join("\n"));
        page.calls(calls, &group.calls, How::JSON);
    } else {
        page.each(group, "\n", How::JSON, call);
    }
}

pub(super) const FORMATS: &[Renderer] = &[
    hermes("hermes"),
    hermes("qwen25"),
    hermes("granite4"),
    hermes("ernie45"),
    Renderer {
        name: "longcat",
        carries: Carries::ALL,
        write: Write::Group(|group, page| marked(group, page, "<longcat_tool_call>", "</longcat_tool_call>")),
    },
    hermes("trinity"),
    Renderer { name: "pangu", carries: Carries::ALL, write: Write::Group(pangu) },
    Renderer {
        name: "hyperclova",
        carries: Carries { reasoning: &[("/think\n", "<|im_end|>\n<|im_start|>assistant")], ..Carries::ALL },
        write: Write::Group(|group, page| listed(group, page, "-> tool/function_call\n", "<|im_end|>")),
    },
    // The marker is ordinary text, and fences are on lines of their own.
    Renderer {
        name: "rwkv",
        carries: Carries { gaps: LINES, unknown: false, ..Carries::ALL },
        write: Write::Group(|group, page| {
            page.each(group, "\n", How::JSON, |call| {
                format!("**Tool Call:**\n```json\n{}\n```", usual(call))
            });
        }),
    },
    // The names must be declared. A tool with one argument takes it as text, which the regressions test.
    Renderer {
        name: "cwm",
        carries: Carries { unknown: false, ..Carries::ALL },
        write: Write::Group(|group, page| {
            page.each(group, "\n", How::JSON, |call| {
                format!("<tool: {}>\n{}\n</tool>", call.name, call.json())
            });
        }),
    },
    Renderer {
        name: "calling_tool",
        carries: Carries { unknown: false, ..Carries::ALL },
        write: Write::Group(|group, page| {
            page.each(group, "", How::JSON, |call| format!("[Calling tool: {}({})]", call.name, call.json()))
        }),
    },
    Renderer {
        name: "granite3",
        carries: Carries {
            reasoning: &[
                ("Here is my thought process:", "Here is my response:"),
                ("Here's my thought process:\n", "\nHere's my response:"),
                ("<think>", "</think>"),
            ],
            ..OPEN
        },
        write: Write::Group(|group, page| {
            listed(group, page, ["<|tool_call|>", "<tool_call>"][group.way % 2], "")
        }),
    },
    Renderer {
        name: "granite20b_fc",
        carries: OPEN,
        write: Write::Group(|group, page| {
            page.each(group, " ", How::JSON, |call| format!("<function_call> {}", usual(call)))
        }),
    },
    jamba("jamba", Carries::ALL.reasoning),
    jamba("hunyuan_a13b", &[("<think>\n", "\n</think>\n<answer>")]),
    jamba("apriel", &[("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]")]),
    Renderer {
        name: "minimax_m1",
        carries: Carries::ALL,
        write: Write::Group(|group, page| {
            let lines: Vec<String> = group.calls.iter().map(usual).collect();
            page.calls(format!("<tool_calls>\n{}\n</tool_calls>", lines.join("\n")), &group.calls, How::JSON);
        }),
    },
    Renderer {
        name: "nemotron_toolcall",
        carries: Carries::ALL,
        write: Write::Group(|group, page| listed(group, page, "<TOOLCALL>", "</TOOLCALL>")),
    },
    // Some calls have no marker. They use declared names and are on lines of their own. There is only one group, so
    // that a message does not mix both notations.
    Renderer {
        name: "llama3_json",
        carries: Carries { gaps: LINES, unknown: false, groups: 1, ..OPEN },
        write: Write::Group(llama),
    },
    // `functools` is an ordinary word, so it is a marker only at the start of a line.
    Renderer {
        name: "phi4_mini",
        carries: Carries { gaps: LINES, unknown: false, ..OPEN },
        write: Write::Group(phi),
    },
    Renderer { name: "internlm2", carries: Carries::ALL, write: Write::Group(internlm) },
    // Like Llama's calls, but a fence has lines of its own, and one array contains all calls.
    Renderer {
        name: "xlam",
        carries: Carries { gaps: LINES, unknown: false, groups: 1, ..OPEN },
        write: Write::Group(xlam),
    },
    Renderer { name: "apertus", carries: Carries::ALL, write: Write::Group(apertus) },
    // The format allows one call and no text after it.
    Renderer {
        name: "gigachat3",
        carries: Carries { groups: 1, most: 1, after: false, ..OPEN },
        write: Write::Group(|group, page| {
            page.each(group, "", How::JSON, |call| {
                format!("<|message_sep|>\n\nfunction call<|role_sep|>\n{}", usual(call))
            });
        }),
    },
    Renderer {
        name: "gigachat31",
        carries: Carries { groups: 1, most: 1, after: false, ..OPEN },
        write: Write::Group(|group, page| {
            page.each(group, "", How::JSON, |call| format!("<|function_call|>{}", usual(call)))
        }),
    },
    // `Action:` may occur in ordinary text, and fences are on lines of their own.
    Renderer {
        name: "command_r_plus",
        carries: Carries { gaps: LINES, unknown: false, ..Carries::ALL },
        write: Write::Group(|group, page| {
            let calls = array(group, |call| object(call, "tool_name", "parameters"));
            page.calls(format!("Action:\n```json\n{calls}\n```"), &group.calls, How::JSON);
        }),
    },
    Renderer {
        name: "command_r7b",
        carries: Carries { reasoning: &[("<|START_THINKING|>", "<|END_THINKING|>")], ..Carries::ALL },
        write: Write::Group(command_r7b),
    },
    Renderer {
        name: "k2_horizon",
        carries: Carries {
            reasoning: &[("<ifm|think>", "</ifm|think>"), ("<ifm|think_fast>", "</ifm|think_fast>")],
            ..Carries::ALL
        },
        write: Write::Group(k2_horizon),
    },
];
