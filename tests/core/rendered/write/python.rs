//! Writes calls in Python's notation and in Gemma's (docs/protocols/text-formats.md#python-and-other-notations).

use std::fmt::Write as _;

use super::{Renderer, Write, json, json::LINES};
use crate::rendered::{
    page::{How, Page},
    scene::{Call, Carries, Group, Keys},
    value::{Json, Members, Style},
};

const WORDS: Carries = Carries { keys: Keys::Words, dashes: false, ..Carries::ALL };

/// Writes a Python string in one of several notations.
fn string(text: &str, way: usize) -> String {
    let quote = if way.is_multiple_of(2) { '\'' } else { '"' };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' => write!(out, "\\x{:02x}", u32::from(c)).unwrap(),
            c if way % 3 == 2 && u32::from(c) > 0xffff => write!(out, "\\U{:08x}", u32::from(c)).unwrap(),
            c if way % 3 == 2 && !c.is_ascii() => write!(out, "\\u{:04x}", u32::from(c)).unwrap(),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

fn literal(value: &Json, way: usize) -> String {
    // Models sometimes use JSON's names for constants.
    let json = way % 5 == 4;
    match value {
        Json::Null => (if json { "null" } else { "None" }).to_owned(),
        Json::Flag(true) => (if json { "true" } else { "True" }).to_owned(),
        Json::Flag(false) => (if json { "false" } else { "False" }).to_owned(),
        Json::Number(number) => (*number).to_owned(),
        Json::Text(text) => string(text, way),
        Json::List(items) => {
            let items: Vec<String> = items.iter().map(|item| literal(item, way)).collect();
            match items.len() {
                2.. if way % 4 == 3 => format!("({})", items.join(", ")),
                _ => format!("[{}]", items.join(", ")),
            }
        }
        Json::Object(members) => dict(members, way),
    }
}

fn dict(members: &Members, way: usize) -> String {
    let member = |(key, value): &(String, Json)| format!("{}: {}", string(key, way), literal(value, way));
    let members: Vec<String> = members.iter().map(member).collect();
    format!("{{{}}}", members.join(", "))
}

fn call(call: &Call) -> String {
    let argument = |(key, value): &(String, Json)| format!("{key}={}", literal(value, call.way));
    let arguments: Vec<String> = call.arguments.iter().map(argument).collect();
    format!("{}({})", call.name, arguments.join([", ", ","][call.way % 2]))
}

fn list(group: &Group) -> String {
    json::array(group, call)
}

fn pythonic(group: &Group, page: &mut Page) {
    if group.way.is_multiple_of(2) {
        page.calls(list(group), &group.calls, How::UNMARKED_VALUES);
    } else {
        let source = format!("<|python_start|>{}<|python_end|>", list(group));
        page.calls(source, &group.calls, How::VALUES);
    }
}

fn lfm2(group: &Group, page: &mut Page) {
    let (list, how) = match group.way % 4 {
        0 => (json::array(group, json::usual), How::JSON),
        _ => (list(group), How::VALUES),
    };
    page.calls(format!("<|tool_call_start|>{list}<|tool_call_end|>"), &group.calls, how);
}

fn olmo3(group: &Group, page: &mut Page) {
    let lines: Vec<String> = group.calls.iter().map(call).collect();
    let source = format!("<function_calls>\n{}\n</function_calls>", lines.join("\n"));
    page.calls(source, &group.calls, How::VALUES);
}

fn tool_code(group: &Group, page: &mut Page) {
    page.each(group, "\n", How::UNMARKED_VALUES, |one| {
        let call = call(one);
        let call = if group.way.is_multiple_of(2) { format!("print({call})") } else { call };
        format!("```tool_code\n{call}\n```")
    });
}

fn sarashina(group: &Group, page: &mut Page) {
    let list = json::array(group, |call| {
        // In double quotes, an escape that only Python has would be repaired as invalid JSON.
        let arguments = dict(&call.arguments, 2 * call.way);
        format!("{{'name': '{}', 'arguments': {arguments}}}", call.name)
    });
    page.calls(format!("<|tool_calls|>{list}"), &group.calls, How::VALUES);
}

/// Writes a value in Gemma's notation, with `quote` around strings.
fn gemma_value(value: &Json, quote: &str) -> String {
    match value {
        Json::Text(text) => format!("{quote}{text}{quote}"),
        Json::List(items) => {
            let items: Vec<String> = items.iter().map(|item| gemma_value(item, quote)).collect();
            format!("[{}]", items.join(","))
        }
        Json::Object(members) => gemma_members(members, quote),
        other => other.written(Style::COMPACT),
    }
}

fn gemma_members(members: &Members, quote: &str) -> String {
    let member = |(key, value): &(String, Json)| format!("{key}:{}", gemma_value(value, quote));
    let members: Vec<String> = members.iter().map(member).collect();
    format!("{{{}}}", members.join(","))
}

fn gemma(group: &Group, page: &mut Page, (open, close): (&str, &str), quote: &str) {
    page.each(group, "", How::VALUES, |call| {
        format!("{open}call:{}{}{close}", call.name, gemma_members(&call.arguments, quote))
    });
}

/// Functions that are tools. Those of the tool that operates a computer are tested with the regressions.
fn ui_tars(group: &Group, page: &mut Page) {
    page.each(group, "\n", How::VALUES, |one| format!("Action: {}", call(one)));
}

pub(super) const FORMATS: &[Renderer] = &[
    // Thoughts have no closer of their own.
    Renderer {
        name: "ui_tars",
        carries: Carries { unknown: false, gaps: LINES, reasons: false, ..WORDS },
        write: Write::Group(ui_tars),
    },
    // Some calls have no marker, so names must be declared.
    Renderer {
        name: "pythonic",
        carries: Carries { unknown: false, gaps: LINES, ..WORDS },
        write: Write::Group(pythonic),
    },
    Renderer { name: "lfm2", carries: WORDS, write: Write::Group(lfm2) },
    Renderer { name: "olmo3", carries: WORDS, write: Write::Group(olmo3) },
    // A fence has lines of its own. Names must be declared, since ordinary code may contain any call.
    Renderer {
        name: "gemma3_toolcode",
        carries: Carries { unknown: false, gaps: LINES, ..WORDS },
        write: Write::Group(tool_code),
    },
    Renderer {
        name: "functiongemma",
        carries: Carries { keys: Keys::Words, never: &["<escape>"], ..Carries::ALL },
        write: Write::Group(|group, page| {
            gemma(group, page, ("<start_function_call>", "<end_function_call>"), "<escape>")
        }),
    },
    Renderer {
        name: "gemma4",
        carries: Carries {
            keys: Keys::Words,
            never: &["<|\"|>"],
            reasoning: &[("<|channel>thought\n", "<channel|>")],
            ..Carries::ALL
        },
        write: Write::Group(|group, page| gemma(group, page, ("<|tool_call>", "<tool_call|>"), "<|\"|>")),
    },
    // The format has no closer.
    Renderer {
        name: "sarashina",
        carries: Carries { word_after: true, ..Carries::ALL },
        write: Write::Group(sarashina),
    },
];
