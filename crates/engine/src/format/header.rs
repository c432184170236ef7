//! The less common formats in which a header with markers contains a call's name, and JSON follows the
//! header.

use super::{
    CallBody, Calls, Format, Grammar, Header, HeaderEnd, Place,
    reasoning::{SOLAR_FRAME, SOLAR_THINK},
    teach::{Form, taught},
};

/// `<function=NAME>{…}</function>`. Qwen's XML has the same opener, but no JSON.
pub const FUNCTION: Calls = Calls {
    sections: &[],
    open: &["<function="],
    naked: true,
    noise: &[],
    place: Place::Anywhere,
    body: CallBody::Header(Header {
        end: HeaderEnd::MarkersThenBrace(&[">"]),
        read: |header| Some(("", header)),
        legal: "",
        before: &[],
        after: &[],
        close: &["</function>"],
        common: false,
    }),
};

/// Functionary 3.1, and Llama 3.1 with custom tools.
pub static FUNCTIONARY_V31: Format = Format {
    name: "functionary_v31",
    summary: "<function=NAME>, the arguments as a JSON object, </function>",
    models: &["*functionary*v3.1*"],
    example: r#"<function=get_weather>{"city": "Paris"}</function>"#,
    grammars: &[Grammar::Calls(FUNCTION)],
    teach: taught(
        "<function=NAME> and the arguments as JSON",
        Form::json("<function={{name}}>{{arguments}}</function>").within("", "", "").after_text(""),
    ),
    ..Format::DEFAULT
};

/// PLaMo 3: the name and the arguments are in separate regions.
pub static PLAMO3: Format = Format {
    name: "plamo3",
    summary: "PLaMo's nested markers, with name and JSON in separate regions",
    models: &["*plamo-3*"],
    example: r#"<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>get_weather<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{"city": "Paris"}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>"#,
    grammars: &[Grammar::Calls(Calls {
        sections: &[("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>")],
        open: &["<|plamo:begin_tool_request:plamo|>"],
        naked: true,
        noise: &[],
        place: Place::Anywhere,
        body: CallBody::Header(Header {
            end: HeaderEnd::Markers(&["<|plamo:end_tool_name:plamo|>"]),
            read: |header| Some(("", header.strip_prefix("<|plamo:begin_tool_name:plamo|>")?.trim())),
            legal: "<|>",
            before: &["<|plamo:begin_tool_arguments:plamo|>", "<|plamo:constrain|>json", "<|plamo:msg|>"],
            after: &["<|plamo:end_tool_arguments:plamo|>"],
            close: &["<|plamo:end_tool_request:plamo|>"],
            common: false,
        }),
    })],
    teach: taught("the marks of a tool request, with name and arguments in marks of their own", Form::json("<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{{name}}<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{{arguments}}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>").within("<|plamo:begin_tool_requests:plamo|>", "", "<|plamo:end_tool_requests:plamo|>")),
    ..Format::DEFAULT
};

/// Solar Open. The call's id is part of the text.
pub static SOLAR_OPEN: Format = Format {
    name: "solar_open",
    summary: "Solar's markers: id, name and JSON, each after its own marker",
    models: &["*solar-open*"],
    example: r#"<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>get_weather<|tool_call:args|>{"city": "Paris"}<|tool_call:end|>"#,
    grammars: &[
        SOLAR_THINK,
        SOLAR_FRAME,
        Grammar::Calls(Calls {
            sections: &[("<|tool_calls|>", "<|calls|>")],
            open: &["<|tool_call:begin|>"],
            naked: true,
            noise: &[],
            place: Place::Anywhere,
            body: CallBody::Header(Header {
                end: HeaderEnd::Markers(&["<|tool_call:args|>"]),
                read: |header| header.split_once("<|tool_call:name|>").map(|(id, name)| (id.trim(), name.trim())),
                legal: "<|>",
                before: &[],
                after: &[],
                close: &["<|tool_call:end|>"],
                common: false,
            }),
        }),
    ],
    teach: taught("the marks of a tool call, with id, name and arguments", Form::json("<|tool_call:begin|>{{id}}<|tool_call:name|>{{name}}<|tool_call:args|>{{arguments}}<|tool_call:end|>").within("<|tool_calls|>", "", "")),
    ..Format::DEFAULT
};
