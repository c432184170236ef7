//! DeepSeek's DSML in three generations, and GigaChat's GCML: a tag for each argument, with the model's marker in
//! each tag.

use super::{
    Format, Grammar, Key, Params,
    params::{INVOKE, calls},
    teach::{Form, Values, taught},
};

const WORDS: &str = "a tag for the tool and one for every argument, each with the mark";

/// A call in V3.2 and V4, which differ only in the name of the section.
const FORM: Form = Form::each(
    "<｜DSML｜invoke name=\"{{name}}\">\n{{arguments}}</｜DSML｜invoke>",
    "<｜DSML｜parameter name=\"{{key}}\" string=\"{{is_string}}\">{{value}}</｜DSML｜parameter>\n",
    "",
    Values::Text,
)
.after_text("\n\n");

/// DeepSeek's markup with these markers: sections, opener of a call, opener and closer of a parameter, and
/// closer of a call.
const fn dsml(
    sections: &'static [(&'static str, &'static str)],
    open: &'static [&'static str],
    parameter: &'static str,
    close: &'static str,
    end: &'static [&'static str],
) -> Grammar {
    let key = Key::Attribute { open: parameter, end: ">", key: "name", kind: "string" };
    calls(sections, open, Params { key, close, end, common: false, ..INVOKE })
}

/// V3.2 and V4, including the ASCII and doubled bars that models also write.
const DSML: &[Grammar] = &[
    dsml(
        &[
            ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
            ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
            ("<｜DSML｜toolcalls>", "</｜DSML｜toolcalls>"),
            ("<｜DSML｜tool>", "</｜DSML｜tool>"),
        ],
        &["<｜DSML｜invoke "],
        "<｜DSML｜parameter ",
        "</｜DSML｜parameter~>",
        &["</｜DSML｜invoke>"],
    ),
    dsml(
        &[
            ("<|DSML|function_calls>", "</|DSML|function_calls>"),
            ("<|DSML|tool_calls>", "</|DSML|tool_calls>"),
        ],
        &["<|DSML|invoke "],
        "<|DSML|parameter ",
        "</|DSML|parameter~>",
        &["</|DSML|invoke>"],
    ),
    dsml(
        &[
            ("<｜｜DSML｜｜function_calls>", "</｜｜DSML｜｜function_calls>"),
            ("<｜｜DSML｜｜tool_calls>", "</｜｜DSML｜｜tool_calls>"),
        ],
        &["<｜｜DSML｜｜invoke "],
        "<｜｜DSML｜｜parameter ",
        "</｜｜DSML｜｜parameter~>",
        &["</｜｜DSML｜｜invoke>"],
    ),
    dsml(
        &[
            ("<||DSML||function_calls>", "</||DSML||function_calls>"),
            ("<||DSML||tool_calls>", "</||DSML||tool_calls>"),
        ],
        &["<||DSML||invoke "],
        "<||DSML||parameter ",
        "</||DSML||parameter~>",
        &["</||DSML||invoke>"],
    ),
];

/// DeepSeek V3.2.
pub static DEEPSEEK_V32: Format = Format {
    name: "deepseek_v32",
    summary: "DSML tags in <｜DSML｜function_calls>",
    models: &["deepseek-v3.2*"],
    example: "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    grammars: DSML,
    teach: taught(WORDS, FORM.within("<｜DSML｜function_calls>\n", "\n", "\n</｜DSML｜function_calls>")),
    ..Format::DEFAULT
};

/// DeepSeek V4.
pub static DEEPSEEK_V4: Format = Format {
    name: "deepseek_v4",
    summary: "DSML tags in <｜DSML｜tool_calls>",
    models: &["deepseek-v4*"],
    example: "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    grammars: DSML,
    // Another format already detects these calls.
    auto: false,
    teach: taught(WORDS, FORM.within("<｜DSML｜tool_calls>\n", "\n", "\n</｜DSML｜tool_calls>")),
    ..Format::DEFAULT
};

/// DeepSeek V4.1.
pub static DEEPSEEK_V41: Format = Format {
    name: "deepseek_v41",
    summary: "DSML tags with a space in each tag, in <｜DSML｜ calls>",
    models: &["deepseek-v4.1*"],
    example: "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_weather\">\n<｜DSML｜ parameter name=\"city\" string=\"true\">Paris</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
    grammars: &[dsml(
        &[("<｜DSML｜ calls>", "</｜DSML｜ calls>"), ("<｜DSML｜ tool_calls>", "</｜DSML｜ tool_calls>")],
        &["<｜DSML｜ invoke "],
        "<｜DSML｜ parameter ",
        "</｜DSML｜ parameter~>",
        &["</｜DSML｜ invoke>"],
    )],
    teach: taught(
        WORDS,
        Form::each(
            "<｜DSML｜ invoke name=\"{{name}}\">\n{{arguments}}</｜DSML｜ invoke>",
            "<｜DSML｜ parameter name=\"{{key}}\" string=\"{{is_string}}\">{{value}}</｜DSML｜ parameter>\n",
            "",
            Values::Text,
        )
        .within("<｜DSML｜ calls>\n", "\n", "\n</｜DSML｜ calls>")
        .after_text("\n\n"),
    ),
    ..Format::DEFAULT
};

/// GigaChat 3.5: DSML with another word.
pub static GIGACHAT35: Format = Format {
    name: "gigachat35",
    summary: "GCML tags in <｜GCML｜tool_calls>",
    models: &["*gigachat3.5*", "*gigachat-3.5*"],
    example: "<｜GCML｜tool_calls>\n<｜GCML｜invoke name=\"get_weather\">\n<｜GCML｜parameter name=\"city\" string=\"true\">Paris</｜GCML｜parameter>\n</｜GCML｜invoke>\n</｜GCML｜tool_calls>",
    grammars: &[dsml(
        &[("<｜GCML｜tool_calls>", "</｜GCML｜tool_calls>")],
        &["<｜GCML｜invoke "],
        "<｜GCML｜parameter ",
        "</｜GCML｜parameter~>",
        &["</｜GCML｜invoke>"],
    )],
    teach: taught(
        WORDS,
        Form::each(
            "<｜GCML｜invoke name=\"{{name}}\">\n{{arguments}}</｜GCML｜invoke>",
            "<｜GCML｜parameter name=\"{{key}}\" string=\"{{is_string}}\">{{value}}</｜GCML｜parameter>\n",
            "",
            Values::Text,
        )
        .within("<｜GCML｜tool_calls>\n", "\n", "\n</｜GCML｜tool_calls>"),
    ),
    ..Format::DEFAULT
};
