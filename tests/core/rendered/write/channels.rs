//! Writes responses that consist of messages with headers (docs/protocols/text-formats.md#channels). Text,
//! reasoning and calls are all messages.

use super::{
    Renderer, Write,
    params::{TYPED, params, plain},
};
use crate::rendered::{
    page::{How, Page},
    scene::{Call, Carries, Scene},
    value::Json,
};

/// White space between messages is not part of their text, so these scenes have no gaps.
const MESSAGES: Carries = Carries { gaps: &[""], ..Carries::ALL };

enum Message<'s> {
    Thought(&'s str),
    Text(&'s str),
    Call(&'s Call),
}

fn messages(scene: &Scene) -> Vec<Message<'_>> {
    let mut messages: Vec<Message<'_>> = scene.reasoning.iter().map(|text| Message::Thought(text)).collect();
    for group in &scene.groups {
        messages.push(Message::Text(&group.before));
        messages.extend(group.calls.iter().map(Message::Call));
    }
    messages.push(Message::Text(&scene.last));
    messages.retain(|message| !matches!(message, Message::Text("")));
    messages
}

fn way(scene: &Scene) -> usize {
    scene.groups.first().map_or(0, |group| group.way)
}

/// Writes text or reasoning between two markers.
fn said(page: &mut Page, open: &str, message: &Message<'_>, close: &str) {
    page.markup(open);
    match message {
        Message::Thought(text) => page.thought(text),
        Message::Text(text) => page.text(text),
        Message::Call(_) => {}
    }
    page.markup(close);
}

const START: &str = "<|start|>assistant";

/// Returns the start of a header. For the first message, it may be in the prompt instead.
fn start(at: usize, way: usize) -> &'static str {
    if at == 0 && way.is_multiple_of(2) { "" } else { START }
}

fn harmony(scene: &Scene, page: &mut Page) {
    let way = way(scene);
    let all = messages(scene);
    for (at, message) in all.iter().enumerate() {
        let start = start(at, way);
        match message {
            Message::Thought(_) => {
                said(page, &format!("{start}<|channel|>analysis<|message|>"), message, "<|end|>")
            }
            Message::Text(_) => {
                let (channel, end) =
                    [("final", "<|return|>"), ("commentary", "<|end|>"), ("final", "<|end|>")][way % 3];
                said(page, &format!("{start}<|channel|>{channel}<|message|>"), message, end);
            }
            Message::Call(call) => {
                let name = call.name;
                let header = match call.way % 3 {
                    0 => format!("<|channel|>commentary to=functions.{name}<|message|>"),
                    1 if !start.is_empty() => {
                        format!(" to=functions.{name}<|channel|>commentary json<|message|>")
                    }
                    _ => format!("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"),
                };
                // Servers omit the last token if it is a stop token.
                let last = at + 1 == all.len() && way % 3 == 1;
                let end = if last { "" } else { "<|call|>" };
                page.calls(format!("{start}{header}{}{end}", call.json()), [*call], How::JSON);
            }
        }
    }
}

fn beam(scene: &Scene, page: &mut Page) {
    let way = way(scene);
    for (at, message) in messages(scene).iter().enumerate() {
        let start = start(at, way);
        match message {
            Message::Thought(_) => {
                said(page, &format!("{start}<|channel|>analysis<|message|>"), message, "<|end|>")
            }
            Message::Text(_) => {
                said(page, &format!("{start}<|channel|>final<|message|>"), message, "<|end|>")
            }
            Message::Call(call) => {
                let params = params(call, "\n", |key, value| {
                    format!("<rfl:parameter name=\"{key}\">\n{value}\n</rfl:parameter>")
                });
                let name = call.name;
                let header = format!("{start} to={name}<|channel|>analysis <|constrain|>xml<|message|>");
                let end = ["<|call|>", "<|end|>"][call.way % 2];
                page.calls(format!("{header}{params}{end}"), [*call], How::VALUES);
            }
        }
    }
}

fn muse(scene: &Scene, page: &mut Page) {
    let way = way(scene);
    for (at, message) in messages(scene).iter().enumerate() {
        let start = start(at, way);
        match message {
            Message::Thought(_) => said(page, &format!("{start} to=self<|message|>"), message, "<|eom|>"),
            Message::Text(_) => {
                let (to, end) = [("user", "<|eot|>"), ("commentary", "<|eom|>")][way % 2];
                said(page, &format!("{start} to={to}<|message|>"), message, end);
            }
            Message::Call(call) => {
                let params = params(call, "", |key, value| {
                    format!("<atem:parameter name=\"{key}\">{value}</atem:parameter>\n")
                });
                let name = call.name;
                let call_text = format!("<atem:invoke name=\"{name}\">\n{params}</atem:invoke>");
                let block = format!("<atem:function_calls>\n{call_text}\n</atem:function_calls>");
                page.calls(format!("{start} to={name}<|message|>{block}<|eom|>"), [*call], How::VALUES);
            }
        }
    }
}

/// Returns the type that an argument's tag names.
fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Flag(_) => "boolean",
        Json::Number(_) => "number",
        Json::Text(_) => "string",
        Json::List(_) => "array",
        Json::Object(_) => "object",
    }
}

fn kimi_k3(scene: &Scene, page: &mut Page) {
    let argument = |call: &Call, (key, value): &(String, Json)| {
        let (kind, value) = (kind(value), plain(value, call.style));
        format!("<|open|>argument key=\"{key}\" type=\"{kind}\"<|sep|>{value}<|close|>argument<|sep|>")
    };
    let call = |(at, call): (usize, &Call)| {
        let arguments: String = call.arguments.iter().map(|member| argument(call, member)).collect();
        let open = format!("<|open|>call tool=\"{}\" index=\"{}\"<|sep|>", call.name, at + 1);
        format!("{open}{arguments}<|close|>call<|sep|>")
    };
    let response = |page: &mut Page, text: &str| {
        if !text.is_empty() {
            said(page, "<|open|>response<|sep|>", &Message::Text(text), "<|close|>response<|sep|>");
        }
    };
    if let Some(thought) = &scene.reasoning {
        said(page, "<|open|>think<|sep|>", &Message::Thought(thought), "<|close|>think<|sep|>");
    }
    for group in &scene.groups {
        response(page, &group.before);
        let calls: String = group.calls.iter().enumerate().map(call).collect();
        let source = format!("<|open|>tools<|sep|>{calls}<|close|>tools<|sep|>");
        page.calls(source, &group.calls, How::VALUES);
    }
    response(page, &scene.last);
}

fn inkling(scene: &Scene, page: &mut Page) {
    for message in messages(scene) {
        match &message {
            Message::Thought(_) => {
                said(page, "<|message_model|><|content_thinking|>", &message, "<|end_message|>")
            }
            Message::Text(_) => said(page, "<|message_model|><|content_text|>", &message, "<|end_message|>"),
            Message::Call(call) => {
                let (name, arguments) = (call.name, call.json());
                let header = format!("<|message_model|>{name}<|content_invoke_tool_json|>");
                let body = format!("{{\"name\":\"{name}\",\"args\":{arguments}}}");
                page.calls(format!("{header}{body}<|end_message|>"), [*call], How::JSON);
            }
        }
    }
}

/// The prompt contains the first `>>>`.
fn functionary(scene: &Scene, page: &mut Page) {
    for (at, message) in messages(scene).iter().enumerate() {
        let mark = if at == 0 { "" } else { ">>>" };
        match message {
            Message::Thought(_) => {}
            Message::Text(_) => said(page, &format!("{mark}all\n"), message, ""),
            Message::Call(call) => {
                page.calls(format!("{mark}{}\n{}", call.name, call.json()), [*call], How::JSON);
            }
        }
    }
}

/// The prompt contains the first header's opener.
fn functionary_v2(scene: &Scene, page: &mut Page) {
    for (at, message) in messages(scene).iter().enumerate() {
        let open = if at == 0 { "" } else { "\n<|from|>assistant\n<|recipient|>" };
        match message {
            Message::Thought(_) => {}
            Message::Text(_) => said(page, &format!("{open}all\n<|content|>"), message, ""),
            Message::Call(call) => {
                let source = format!("{open}{}\n<|content|>{}", call.name, call.json());
                page.calls(source, [*call], How::JSON);
            }
        }
    }
}

/// The message consists of a single call.
fn glm4_9b(scene: &Scene, page: &mut Page) {
    for call in scene.groups.iter().flat_map(|group| &group.calls).take(1) {
        page.calls(format!("{}\n{}", call.name, call.json()), [call], How::JSON);
    }
}

pub(super) const FORMATS: &[Renderer] = &[
    Renderer { name: "harmony", carries: MESSAGES, write: Write::Scene(harmony) },
    Renderer {
        name: "beam",
        carries: Carries { gaps: &[""], never: &["</rfl:parameter", "<rfl:parameter"], ..TYPED },
        write: Write::Scene(beam),
    },
    Renderer {
        name: "muse_atem",
        carries: Carries { gaps: &[""], never: &["</atem:parameter", "<atem:parameter"], ..TYPED },
        write: Write::Scene(muse),
    },
    Renderer {
        name: "kimi_k3",
        carries: Carries { gaps: &[""], never: &["<|close|>", "<|open|>"], ..TYPED },
        write: Write::Scene(kimi_k3),
    },
    Renderer { name: "inkling", carries: MESSAGES, write: Write::Scene(inkling) },
    // The format has no reasoning.
    Renderer {
        name: "functionary_v2",
        carries: Carries { reasons: false, ..MESSAGES },
        write: Write::Scene(functionary_v2),
    },
    // The format has no reasoning. Names must be declared, since `>>>` may occur in ordinary text.
    Renderer {
        name: "functionary_v32",
        carries: Carries { unknown: false, reasons: false, ..MESSAGES },
        write: Write::Scene(functionary),
    },
    Renderer {
        name: "glm4_9b",
        carries: Carries { unknown: false, reasons: false, groups: 1, most: 1, after: false, ..MESSAGES },
        write: Write::Scene(glm4_9b),
    },
];
