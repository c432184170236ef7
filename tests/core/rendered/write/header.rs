//! Writes a header with the name, followed by JSON (docs/protocols/text-formats.md#header-then-json).

use super::{Renderer, Write, json};
use crate::rendered::{
    page::{How, Page},
    scene::{Call, Carries, Group},
};

fn deepseek(group: &Group, page: &mut Page, call: impl Fn(&Call) -> String) {
    let calls: Vec<String> = group.calls.iter().map(call).collect();
    let joint = ["\n", ""][group.way % 2];
    let calls = calls.join(joint);
    page.calls(format!("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>"), &group.calls, How::JSON);
}

fn deepseek_v31(call: &Call) -> String {
    format!("<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>", call.name, call.json())
}

fn deepseek_v3(call: &Call) -> String {
    let (name, arguments) = (call.name, call.json());
    let fence = format!("```json\n{arguments}\n```");
    format!("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n{fence}<｜tool▁call▁end｜>")
}

fn kimi(group: &Group, page: &mut Page) {
    let from = page.calls.len();
    let line = if group.way.is_multiple_of(3) { "\n" } else { "" };
    let id = |call: &Call, at: usize| format!("functions.{}:{at}", call.name);
    let call = |(at, call): (usize, &Call)| {
        let (id, arguments) = (id(call, from + at), call.json());
        format!(
            "<|tool_call_begin|>{line}{id}{line}<|tool_call_argument_begin|>{line}{arguments}{line}<|tool_call_end|>{line}"
        )
    };
    let calls: String = group.calls.iter().enumerate().map(call).collect();
    // Models sometimes write the singular.
    let section = ["calls", "calls", "call"][group.way / 3 % 3];
    let written = format!("<|tool_{section}_section_begin|>{line}{calls}<|tool_{section}_section_end|>");
    page.calls(written, &group.calls, How::JSON);
    page.name_ids(from, id);
}

/// Writes Mistral's calls. Before v7, they are a JSON array with IDs. Since v7, each is a name and an object;
/// `[ARGS]` is sometimes missing, and an ID is sometimes present.
fn mistral(group: &Group, page: &mut Page) {
    let from = page.calls.len();
    let id = |at: usize| format!("abcdef{:03}", at + from);
    match group.way % 4 {
        0 => {
            let call = |call: &Call| {
                let at = group.calls.iter().position(|other| std::ptr::eq(other, call)).unwrap();
                format!(
                    "{{\"id\": \"{}\", \"name\": \"{}\", \"arguments\": {}}}",
                    id(at),
                    call.name,
                    call.json()
                )
            };
            let space = ["", " "][group.way / 4 % 2];
            page.calls(format!("[TOOL_CALLS]{space}{}", json::array(group, call)), &group.calls, How::JSON);
            page.name_ids(from, |_, at| format!("abcdef{at:03}"));
        }
        1 => {
            let call = |(at, call): (usize, &Call)| {
                format!("[TOOL_CALLS]{}[CALL_ID]{}[ARGS]{}", call.name, id(at), call.json())
            };
            let calls: String = group.calls.iter().enumerate().map(call).collect();
            page.calls(calls, &group.calls, How::JSON);
            page.name_ids(from, |_, at| format!("abcdef{at:03}"));
        }
        2 => page.each(group, "", How::JSON, |call| format!("[TOOL_CALLS]{}{}", call.name, call.json())),
        _ => {
            page.each(group, "", How::JSON, |call| format!("[TOOL_CALLS]{}[ARGS]{}", call.name, call.json()))
        }
    }
}

fn plamo(group: &Group, page: &mut Page) {
    let mark = |name: &str| format!("<|plamo:{name}:plamo|>");
    let region = |name: &str, inner: &str| {
        format!("{}{inner}{}", mark(&format!("begin_{name}")), mark(&format!("end_{name}")))
    };
    let call = |call: &Call| {
        let json = format!("<|plamo:constrain|>json<|plamo:msg|>{}", call.json());
        let (name, arguments) = (region("tool_name", call.name), region("tool_arguments", &json));
        region("tool_request", &format!("{name}{arguments}"))
    };
    let calls: String = group.calls.iter().map(call).collect();
    page.calls(region("tool_requests", &calls), &group.calls, How::JSON);
}

fn solar(group: &Group, page: &mut Page) {
    let from = page.calls.len();
    let call = |(at, call): (usize, &Call)| {
        let (name, arguments) = (call.name, call.json());
        let id = format!("<|tool_call:begin|>c{}", from + at);
        format!("{id}<|tool_call:name|>{name}<|tool_call:args|>{arguments}<|tool_call:end|>")
    };
    let calls: String = group.calls.iter().enumerate().map(call).collect();
    page.calls(format!("<|tool_calls|>{calls}"), &group.calls, How::JSON);
    page.name_ids(from, |_, at| format!("c{at}"));
}

pub(super) const FORMATS: &[Renderer] = &[
    Renderer {
        name: "deepseek_v31",
        carries: Carries::ALL,
        write: Write::Group(|group, page| deepseek(group, page, deepseek_v31)),
    },
    Renderer {
        name: "deepseek_v3",
        carries: Carries::ALL,
        write: Write::Group(|group, page| deepseek(group, page, deepseek_v3)),
    },
    Renderer { name: "kimi_k2", carries: Carries::ALL, write: Write::Group(kimi) },
    Renderer {
        name: "functionary_v31",
        carries: Carries::ALL,
        write: Write::Group(|group, page| {
            page.each(group, "", How::JSON, |call| {
                format!("<function={}>{}</function>", call.name, call.json())
            });
        }),
    },
    Renderer {
        name: "plamo3",
        carries: Carries {
            reasoning: &[("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>")],
            ..Carries::ALL
        },
        write: Write::Group(plamo),
    },
    Renderer { name: "solar_open", carries: Carries::ALL, write: Write::Group(solar) },
    // Without a closer, brackets after the calls would be read as part of a malformed call.
    Renderer {
        name: "mistral",
        carries: Carries {
            word_after: true,
            reasoning: &[("[THINK]", "[/THINK]"), ("<think>", "</think>")],
            ..Carries::ALL
        },
        write: Write::Group(mistral),
    },
];
