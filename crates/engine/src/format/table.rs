//! Formats whose calls have their own markers.

use super::{
    CallBody, Calls, Format, Grammar, Header, HeaderEnd, Place, ReasoningHabits, Tag, TagKind,
    teach::{Form, taught},
};

/// Reads a header that consists only of the name.
fn name_only(header: &str) -> Option<(&str, &str)> {
    Some(("", header))
}

/// `[TOOL_CALLS]name[ARGS]{…}`, possibly with `[CALL_ID]id` in between or without `[ARGS]`.
pub static MISTRAL: Format = Format {
    name: "mistral",
    summary: "[TOOL_CALLS], then a name and [ARGS]",
    models: &["*magistral*", "*devstral*", "mistral-small-3.2*", "ministral-3*"],
    example: r#"[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}"#,
    grammars: &[
        Grammar::Tagged(&[Tag { open: "[TOOL_CALLS]", close: "", kind: TagKind::Marked }]),
        Grammar::Calls(Calls {
            sections: &[],
            open: &["[TOOL_CALLS]"],
            naked: true,
            noise: &[],
            place: Place::Anywhere,
            body: CallBody::Header(Header {
                end: HeaderEnd::MarkersOrBrace(&["[ARGS]"]),
                read: |header| match header.split_once("[CALL_ID]") {
                    Some((name, id)) => Some((id.trim(), name.trim())),
                    None => name_only(header),
                },
                legal: "[]",
                before: &[],
                after: &[],
                close: &[],
                common: false,
            }),
        }),
    ],
    teach: taught(
        "[TOOL_CALLS], the tool's name, [ARGS] and the arguments as JSON",
        Form::json("[TOOL_CALLS]{{name}}[ARGS]{{arguments}}").within("", "", "").after_text(""),
    ),
    ..Format::DEFAULT
};

// DeepSeek's markers contain a full-width bar, and a block character instead of a blank. Models sometimes
// write the ASCII look-alikes.
const DEEPSEEK_SECTIONS: &[(&str, &str)] = &[
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ("<|tool▁calls▁begin|>", "<|tool▁calls▁end|>"),
    ("<|tool_calls_begin|>", "<|tool_calls_end|>"),
];
const DEEPSEEK_OPEN: &[&str] = &["<｜tool▁call▁begin｜>", "<|tool▁call▁begin|>", "<|tool_call_begin|>"];
const DEEPSEEK_SEP: &[&str] = &["<｜tool▁sep｜>", "<|tool▁sep|>", "<|tool_sep|>"];
const DEEPSEEK_CLOSE: &[&str] = &["<｜tool▁call▁end｜>", "<|tool▁call▁end|>", "<|tool_call_end|>"];

/// DeepSeek V3.1 and V3.2-Exp.
pub static DEEPSEEK_V31: Format = Format {
    name: "deepseek_v31",
    summary: "DeepSeek's markers, name and JSON without a fence",
    models: &["deepseek-v3.1*", "deepseek-v3.2-exp*"],
    example: r#"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"#,
    grammars: &[Grammar::Calls(Calls {
        sections: DEEPSEEK_SECTIONS,
        open: DEEPSEEK_OPEN,
        naked: true,
        noise: &[],
        place: Place::Anywhere,
        body: CallBody::Header(Header {
            end: HeaderEnd::Markers(DEEPSEEK_SEP),
            // In the older version, the word `function` is in this place.
            read: |header| (header != "function").then_some(("", header)),
            legal: "",
            before: &[],
            after: &[],
            close: DEEPSEEK_CLOSE,
            common: false,
        }),
    })],
    teach: taught(
        "the marks of a tool call, the tool's name and the arguments as JSON",
        Form::json("<｜tool▁call▁begin｜>{{name}}<｜tool▁sep｜>{{arguments}}<｜tool▁call▁end｜>")
            .within("<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>")
            .after_text(""),
    ),
    ..Format::DEFAULT
};

/// DeepSeek V3 and R1.
pub static DEEPSEEK_V3: Format = Format {
    name: "deepseek_v3",
    summary: "DeepSeek's markers, a type word, the name, JSON in a fence",
    models: &["deepseek-v3*", "deepseek-r1*"],
    example: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    grammars: &[Grammar::Calls(Calls {
        sections: DEEPSEEK_SECTIONS,
        open: DEEPSEEK_OPEN,
        naked: true,
        noise: &[],
        place: Place::Anywhere,
        body: CallBody::Header(Header {
            end: HeaderEnd::MarkersOrBrace(&["\n"]),
            read: |header| {
                let header = header.strip_prefix("function")?;
                name_only(DEEPSEEK_SEP.iter().find_map(|sep| header.strip_prefix(sep))?.trim())
            },
            legal: "<>｜▁|",
            before: &["```json"],
            after: &["```"],
            close: DEEPSEEK_CLOSE,
            common: false,
        }),
    })],
    teach: taught("the marks of a tool call, the tool's name and the arguments in a json code block", Form::json("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{name}}\n```json\n{{arguments}}\n```<｜tool▁call▁end｜>").within("<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>").after_text("")),
    ..Format::DEFAULT
};

/// Kimi K2. The id is part of the text and contains the name.
pub static KIMI_K2: Format = Format {
    name: "kimi_k2",
    summary: "Kimi's section markers; the id contains the name",
    models: &["kimi-k2*", "*kimi*"],
    reasoning: ReasoningHabits { ended_by_calls: true },
    example: r#"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>"#,
    grammars: &[Grammar::Calls(Calls {
        sections: &[
            ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
            ("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),
        ],
        open: &["<|tool_call_begin|>"],
        naked: true,
        noise: &[],
        place: Place::Anywhere,
        body: CallBody::Header(Header {
            end: HeaderEnd::Markers(&["<|tool_call_argument_begin|>"]),
            read: |header| {
                let name = header.split_once("functions.").map_or(header, |(_, name)| name);
                let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let name = name.rsplit_once(':').filter(|(_, n)| number(n)).map_or(name, |(name, _)| name);
                Some((header, name))
            },
            legal: "",
            before: &[],
            after: &[],
            close: &["<|tool_call_end|>"],
            common: false,
        }),
    })],
    teach: taught("the marks of a tool call, functions.NAME:NUMBER and the arguments as JSON", Form::json("<|tool_call_begin|>functions.{{name}}:{{index}}<|tool_call_argument_begin|>{{arguments}}<|tool_call_end|>").within("<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>").after_text("")),
    ..Format::DEFAULT
};
