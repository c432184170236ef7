//! Less common formats whose calls are JSON between markers.

use super::{
    CallBody, Calls, Format, Grammar, Header, HeaderEnd, Place, ReasoningHabits, Special, Tag, TagKind,
    json::{LFM2_TAG, TOOL_CALL, TOOL_CALLS},
    params::{INVOKE, calls},
    reasoning::{HYPERCLOVA_FRAME, HYPERCLOVA_THINK, PANGU_THINK},
    teach::{Form, OBJECT, taught},
};

/// Trinity: Hermes' calls, which the model also writes in reasoning that it closes after them.
pub static TRINITY: Format = Format {
    name: "trinity",
    summary: "as hermes; a call in reasoning counts",
    models: &["*trinity*"],
    example: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
    grammars: &[Grammar::Tagged(&[TOOL_CALL, TOOL_CALLS])],
    // Another format already detects these calls.
    auto: false,
    reasoning: ReasoningHabits { ended_by_calls: true },
    teach: taught(
        "a JSON object between <tool_call> tags",
        Form::json("<tool_call>\n{\"name\": {{json_name}}, \"arguments\": {{arguments}}}\n</tool_call>"),
    ),
};

/// Pangu. The older models write unnamed tokens.
pub static PANGU: Format = Format {
    name: "pangu",
    summary: "a JSON array between [unused11] and [unused12], or <|tool_call_start|> and <|tool_call_end|>; reasoning between [unused16] and [unused17]",
    models: &["*pangu*"],
    example: r#"[unused11][{"name": "get_weather", "arguments": {"city": "Paris"}}][unused12]"#,
    grammars: &[
        Grammar::Tagged(&[Tag { open: "[unused11]", close: "[unused12]", kind: TagKind::Marked }, LFM2_TAG]),
        PANGU_THINK,
    ],
    teach: taught(
        "a JSON array of objects between [unused11] and [unused12]",
        Form::json(OBJECT).within("[unused11][", ", ", "][unused12]"),
    ),
    ..Format::DEFAULT
};

/// HyperCLOVA X SEED Think 14B: a call is a message in another role.
pub static HYPERCLOVA: Format = Format {
    name: "hyperclova",
    summary: "a JSON array after `-> tool/function_call`; reasoning ends with <|im_end|>",
    models: &["*hyperclova*think-14b*", "*hyperclova*think*14b*"],
    // The markup between messages is only dropped for this model.
    auto: false,
    example: " -> tool/function_call\n[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]<|im_end|>",
    grammars: &[
        Grammar::Tagged(&[Tag { open: "-> tool/function_call", close: "<|im_end|>", kind: TagKind::Marked }]),
        HYPERCLOVA_THINK,
        HYPERCLOVA_FRAME,
    ],
    teach: taught(
        "` -> tool/function_call` and a JSON array of objects on the next line",
        Form::json(OBJECT).within(" -> tool/function_call\n[", ", ", "]<|im_end|>"),
    ),
    ..Format::DEFAULT
};

/// RWKV.
pub static RWKV: Format = Format {
    name: "rwkv",
    summary: "**Tool Call:** and a JSON object in a code fence, or <invoke> in <tool_call>",
    models: &["*rwkv*"],
    example: "**Tool Call:**\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n```",
    grammars: &[
        Grammar::Tagged(&[Tag {
            open: "**Tool Call:**",
            close: "```",
            kind: TagKind::Special(Special { common: true, ..Special::NONE }),
        }]),
        calls(&[("<tool_call>", "</tool_call>")], &["<invoke "], INVOKE),
    ],
    teach: taught(
        "`**Tool Call:**` and a JSON object in a json code block",
        Form::json("**Tool Call:**\n```json\n{\"name\": {{json_name}}, \"arguments\": {{arguments}}}\n```"),
    ),
    ..Format::DEFAULT
};

/// Calls as some clients show them in a flattened history, which models then imitate.
pub static CALLING_TOOL: Format = Format {
    name: "calling_tool",
    summary: "[Calling tool: NAME({…})] or [Calling tool=\"NAME\" key=\"value\"], as flattened histories show calls",
    example: r#"[Calling tool: get_weather({"city": "Paris"})]"#,
    grammars: &[
        Grammar::Calls(Calls {
            sections: &[],
            open: &["[Calling tool: "],
            naked: true,
            noise: &[],
            place: Place::Anywhere,
            body: CallBody::Header(Header {
                end: HeaderEnd::MarkersThenBrace(&["("]),
                read: |header| Some(("", header)),
                legal: "",
                before: &[],
                after: &[")"],
                close: &["]", ")]"],
                common: true,
            }),
        }),
        Grammar::Calls(Calls {
            sections: &[],
            open: &["[Calling tool="],
            naked: true,
            noise: &[],
            place: Place::Anywhere,
            body: CallBody::Attributes { end: &["]"] },
        }),
    ],
    teach: None,
    ..Format::DEFAULT
};

/// CWM: code or a command for a tool.
pub static CWM: Format = Format {
    name: "cwm",
    summary: "a tool's only argument as text, or all of them as JSON, in <tool: NAME>",
    models: &["*cwm*"],
    example: "<tool: get_weather>\n{\"city\": \"Paris\"}\n</tool>",
    grammars: &[Grammar::Calls(Calls {
        sections: &[],
        open: &["<tool: "],
        naked: true,
        noise: &[],
        place: Place::Anywhere,
        body: CallBody::Raw(">", "</tool>"),
    })],
    teach: None,
    ..Format::DEFAULT
};
