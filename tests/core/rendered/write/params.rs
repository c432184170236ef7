//! Writes one tag per argument (docs/protocols/text-formats.md#tagged-parameters). Values have no quotes, so only the
//! schema or an attribute distinguishes a number from a string that looks like one.

use super::{Renderer, Write};
use crate::rendered::{
    page::{How, Page},
    scene::{Call, Carries, Group, Keys, Values},
    value::{Json, Style},
};

/// Values of the types in the schema, and keys that fit into a tag.
pub(super) const TYPED: Carries = Carries { keys: Keys::Words, values: Values::Declared, ..Carries::ALL };

/// Excludes a string's own closer and the next parameter's opener from strings, since they would end the string.
const fn but(never: &'static [&'static str]) -> Carries {
    Carries { never, ..TYPED }
}

/// Writes a value as it appears in a tag.
pub(super) fn plain(value: &Json, style: Style) -> String {
    match value {
        Json::Text(text) => text.clone(),
        other => other.written(style),
    }
}

/// Writes each argument with `write`, which gets its key and value.
pub(super) fn params(call: &Call, between: &str, write: impl Fn(&str, &str) -> String) -> String {
    let write = |(key, value): &(String, Json)| write(key, &plain(value, call.style));
    call.arguments.iter().map(write).collect::<Vec<_>>().join(between)
}

fn qwen_function(call: &Call) -> String {
    let params = params(call, "", |key, value| format!("<parameter={key}>\n{value}\n</parameter>\n"));
    format!("<function={}>\n{params}</function>", call.name)
}

fn qwen(group: &Group, page: &mut Page) {
    page.each(group, "\n", How::VALUES, |call| {
        // Models sometimes omit the wrapper.
        let declared = call.name != "look_up2";
        match group.way % 4 {
            0 if declared => qwen_function(call),
            _ => format!("<tool_call>\n{}\n</tool_call>", qwen_function(call)),
        }
    });
}

/// Writes Qwen's tags with each value on the same line as its tags.
fn inline(group: &Group, page: &mut Page, open: &str, close: &str) {
    page.each(group, "\n", How::VALUES, |call| {
        let params = params(call, "", |key, value| format!("<parameter={key}>{value}</parameter>\n"));
        format!("{open}\n<function={}>\n{params}</function>\n{close}", call.name)
    });
}

fn glm(group: &Group, page: &mut Page, line: &str) {
    pairs(group, page, line, ("tool_call", "arg_"));
}

/// Writes a pair of tags for each argument. `call` is the tag of the call, and `argument` the prefix of the others.
fn pairs(group: &Group, page: &mut Page, line: &str, (tag, argument): (&str, &str)) {
    page.each(group, line, How::VALUES, |call| {
        let params = params(call, "", |key, value| {
            let key = format!("<{argument}key>{key}</{argument}key>{line}");
            format!("{key}<{argument}value>{value}</{argument}value>{line}")
        });
        format!("<{tag}>{}{line}{params}</{tag}>", call.name)
    });
}

fn solar2(group: &Group, page: &mut Page) {
    page.each(group, "\n", How::VALUES, |call| {
        let params = params(call, "", |key, value| {
            format!("<|tool_arg:start|>{key}<|tool_arg:value|>{value}<|tool_arg:end|>\n")
        });
        format!("<|tool_call:start|>{}\n{params}<|tool_call:end|>", call.name)
    });
}

fn minicpmv(group: &Group, page: &mut Page) {
    page.each(group, "\n", How::VALUES, |call| {
        format!("<|reserved_14|>\n{}\n<|reserved_15|>", qwen_function(call))
    });
}

fn hy(group: &Group, page: &mut Page) {
    let suffix = ["", ":opensource", ":6124c78e"][group.way % 3];
    let tag = |name: &str| format!("<{name}{suffix}>");
    let call = |call: &Call| {
        let params = params(call, "", |key, value| {
            let key = format!("{}{key}{}", tag("arg_key"), tag("/arg_key"));
            format!("{key}\n{}{value}{}\n", tag("arg_value"), tag("/arg_value"))
        });
        format!("{}{}{}\n{params}{}\n", tag("tool_call"), call.name, tag("tool_sep"), tag("/tool_call"))
    };
    let calls: String = group.calls.iter().map(call).collect();
    page.calls(format!("{}\n{calls}{}", tag("tool_calls"), tag("/tool_calls")), &group.calls, How::VALUES);
}

fn quoted(text: &str, way: usize) -> String {
    match way % 4 {
        0 => format!("'{text}'"),
        1 => text.to_owned(),
        _ => format!("\"{text}\""),
    }
}

/// Writes `<invoke name="…">` with `<parameter name="…">` elements. `space` is the prefix of the tag names.
fn invoke(call: &Call, space: &str, way: usize, line: &str) -> String {
    let params = params(call, "", |key, value| {
        let key = quoted(key, way);
        format!("<{space}parameter name={key}>{value}</{space}parameter>{line}")
    });
    format!("<{space}invoke name={}>{line}{params}</{space}invoke>{line}", quoted(call.name, way))
}

fn invokes(group: &Group, page: &mut Page, space: &str, (open, close): (&str, &str), way: usize) {
    let line = ["\n", ""][group.way / 4 % 2];
    let calls: String = group.calls.iter().map(|call| invoke(call, space, way, line)).collect();
    page.calls(format!("{open}{line}{calls}{close}"), &group.calls, How::VALUES);
}

fn dsml(group: &Group, page: &mut Page, sign: &str, block: &str) {
    let line = ["\n", ""][group.way % 2];
    let param = |call: &Call, (key, value): &(String, Json)| {
        let is_text = matches!(value, Json::Text(_));
        // Without the attribute, the schema determines the type.
        let kind = if call.way.is_multiple_of(4) { String::new() } else { format!(" string=\"{is_text}\"") };
        let value = plain(value, call.style);
        format!("<{sign}parameter name=\"{key}\"{kind}>{value}</{sign}parameter>{line}")
    };
    let call = |call: &Call| {
        let params: String = call.arguments.iter().map(|member| param(call, member)).collect();
        format!("<{sign}invoke name=\"{}\">{line}{params}</{sign}invoke>{line}", call.name)
    };
    let calls: String = group.calls.iter().map(call).collect();
    page.calls(format!("<{sign}{block}>{line}{calls}</{sign}{block}>"), &group.calls, How::VALUES);
}

fn step3(group: &Group, page: &mut Page) {
    let call = |call: &Call| {
        let call = invoke(call, "steptml:", 2, "");
        format!("<｜tool_call_begin｜>function<｜tool_sep｜>{call}<｜tool_call_end｜>")
    };
    let calls: Vec<String> = group.calls.iter().map(call).collect();
    let calls = calls.join(["", "\n"][group.way % 2]);
    page.calls(format!("<｜tool_calls_begin｜>{calls}<｜tool_calls_end｜>"), &group.calls, How::VALUES);
}

fn minicpm(group: &Group, page: &mut Page) {
    page.each(group, "\n", How::VALUES, |call| {
        let params = params(call, "", |key, value| {
            let data = call.way.is_multiple_of(2) && !value.contains("]]>");
            let value = if data { format!("<![CDATA[{value}]]>") } else { value.to_owned() };
            format!("<param name=\"{key}\">{value}</param>")
        });
        format!("<function name=\"{}\">{params}</function>", call.name)
    });
}

fn anthropic(group: &Group, page: &mut Page) {
    let space = ["", "antml:"][group.way % 2];
    let (open, close) = (format!("<{space}function_calls>"), format!("</{space}function_calls>"));
    invokes(group, page, space, (&open, &close), 2);
}

/// All variants of `<parameter>`, with any namespace, end a value or begin the next one.
const PARAMETER: Carries = but(&["</parameter", "<parameter"]);

const ARG: Carries = but(&["</arg_value", "<arg_key", "<arg_value"]);

const DSML: Carries =
    but(&["</｜DSML｜parameter", "<｜DSML｜parameter", "</｜DSML｜ parameter", "<｜DSML｜ parameter"]);

pub(super) const FORMATS: &[Renderer] = &[
    Renderer { name: "qwen3_coder", carries: PARAMETER, write: Write::Group(qwen) },
    Renderer {
        name: "mimo",
        carries: PARAMETER,
        write: Write::Group(|group, page| inline(group, page, "<tool_call>", "</tool_call>")),
    },
    Renderer {
        name: "seed_oss",
        carries: Carries { reasoning: &[("<seed:think>", "</seed:think>")], ..PARAMETER },
        write: Write::Group(|group, page| inline(group, page, "<seed:tool_call>", "</seed:tool_call>")),
    },
    Renderer { name: "glm45", carries: ARG, write: Write::Group(|group, page| glm(group, page, "\n")) },
    Renderer { name: "glm47", carries: ARG, write: Write::Group(|group, page| glm(group, page, "")) },
    Renderer {
        name: "laguna",
        carries: ARG,
        write: Write::Group(|group, page| {
            pairs(group, page, "\n", (["tool_call", "user"][group.way % 2], "arg_"));
        }),
    },
    Renderer {
        name: "iquest",
        carries: ARG,
        write: Write::Group(|group, page| {
            let tag = ["iquest_tool_call", "iquestcoder_tool_call"][group.way % 2];
            pairs(group, page, ["\n", ""][group.way / 2 % 2], (tag, "arg_"));
        }),
    },
    Renderer {
        name: "telechat4",
        carries: but(&["</param_value", "<param_key", "<param_value"]),
        write: Write::Group(|group, page| {
            pairs(group, page, ["\n", ""][group.way % 2], ("tool_call", "param_"));
        }),
    },
    Renderer { name: "solar_open2", carries: but(&["<|tool_arg:"]), write: Write::Group(solar2) },
    Renderer {
        name: "minicpmv",
        carries: Carries { reasoning: &[("<reserved_12>", "<reserved_13>")], ..PARAMETER },
        write: Write::Group(minicpmv),
    },
    Renderer {
        name: "gigachat35",
        carries: but(&["</｜GCML｜parameter", "<｜GCML｜parameter"]),
        write: Write::Group(|group, page| dsml(group, page, "｜GCML｜", "tool_calls")),
    },
    Renderer {
        name: "hy_v3",
        carries: Carries {
            reasoning: &[("<think:opensource>", "</think:opensource>"), ("<think>", "</think>")],
            ..ARG
        },
        write: Write::Group(hy),
    },
    Renderer {
        name: "minimax_m2",
        carries: PARAMETER,
        write: Write::Group(|group, page| {
            invokes(group, page, "", ("<minimax:tool_call>", "</minimax:tool_call>"), group.way);
        }),
    },
    Renderer {
        name: "deepseek_v32",
        carries: DSML,
        write: Write::Group(|group, page| dsml(group, page, "｜DSML｜", "function_calls")),
    },
    Renderer {
        name: "deepseek_v4",
        carries: DSML,
        write: Write::Group(|group, page| {
            dsml(group, page, "｜DSML｜", ["tool_calls", "toolcalls", "tool"][group.way / 2 % 3]);
        }),
    },
    Renderer {
        name: "deepseek_v41",
        carries: DSML,
        write: Write::Group(|group, page| dsml(group, page, "｜DSML｜ ", "calls")),
    },
    Renderer {
        name: "step3",
        carries: but(&["</steptml:parameter", "<steptml:parameter"]),
        write: Write::Group(step3),
    },
    Renderer {
        name: "dots",
        carries: PARAMETER,
        write: Write::Group(|group, page| {
            invokes(group, page, "", ("<dots_function_call>", "</dots_function_call>"), 1 + group.way % 2);
        }),
    },
    // Without a wrapper, `<function name=…>` may be ordinary text. CDATA is markup.
    Renderer {
        name: "minicpm5",
        carries: Carries { unknown: false, ..but(&["</param", "<param", "<![CDATA["]) },
        write: Write::Group(minicpm),
    },
    Renderer { name: "anthropic_legacy", carries: PARAMETER, write: Write::Group(anthropic) },
];
