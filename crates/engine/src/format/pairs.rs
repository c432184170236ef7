//! Less common formats in which every argument is a pair of a key and a value, as in GLM's.

use super::{
    Format, Grammar, Key, Params,
    params::{GLM, GLM_FORM, calls},
    teach::{Form, Values, taught},
};

/// LongCat's calls when they are not JSON.
pub(super) const LONGCAT_ARGUMENTS: Grammar = calls(
    &[],
    &["<longcat_tool_call>"],
    Params {
        key: Key::pair("<longcat_arg_key>", "</longcat_arg_key>", "<longcat_arg_value>"),
        close: "</longcat_arg_value>",
        end: &["</longcat_tool_call>"],
        ..GLM
    },
);

const WORDS: &str = "the tool's name and a pair of tags for every argument between the tags of a tool call";

/// IQuest-Q1 and IQuest-Coder V2, which differ in the call's tag.
pub static IQUEST: Format = Format {
    name: "iquest",
    summary: "GLM's tags in <iquest_tool_call> or <iquestcoder_tool_call>",
    models: &["*iquest*"],
    example: "<iquest_tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></iquest_tool_call>",
    grammars: &[calls(
        &[],
        &["<iquest_tool_call>", "<iquestcoder_tool_call>"],
        Params { end: &["</iquest_tool_call>", "</iquestcoder_tool_call>"], ..GLM },
    )],
    teach: taught(
        WORDS,
        Form::each(
            "<iquest_tool_call>{{name}}{{arguments}}</iquest_tool_call>",
            "<arg_key>{{key}}</arg_key><arg_value>{{value}}</arg_value>",
            "",
            Values::Text,
        )
        .within("", "", ""),
    ),
    ..Format::DEFAULT
};

/// TeleChat4 and Xing4.
pub static TELECHAT4: Format = Format {
    name: "telechat4",
    summary: "<tool_call>, the name, <param_key> and <param_value>",
    models: &["*telechat4*", "*telechat-4*", "*xing4*", "*xing-4*"],
    example: "<tool_call>get_weather<param_key>city</param_key><param_value>Paris</param_value></tool_call>",
    grammars: &[calls(
        &[],
        &["<tool_call>"],
        Params {
            key: Key::pair("<param_key>", "</param_key>", "<param_value>"),
            close: "</param_value>",
            ..GLM
        },
    )],
    teach: taught(
        WORDS,
        Form::each(
            "<tool_call>{{name}}{{arguments}}</tool_call>",
            "<param_key>{{key}}</param_key><param_value>{{value}}</param_value>",
            "",
            Values::Text,
        )
        .within("", "", ""),
    ),
    ..Format::DEFAULT
};

/// Solar Open 2. The opener of a value ends its key.
pub static SOLAR_OPEN2: Format = Format {
    name: "solar_open2",
    summary: "Solar's markers: the name, and a key and a value for every argument",
    models: &["*solar-open2*", "*solar-open-2*"],
    example: "<|tool_call:start|>get_weather\n<|tool_arg:start|>city<|tool_arg:value|>Paris<|tool_arg:end|>\n<|tool_call:end|>",
    grammars: &[calls(
        &[],
        &["<|tool_call:start|>"],
        Params {
            key: Key::pair("<|tool_arg:start|>", "", "<|tool_arg:value|>"),
            close: "<|tool_arg:end|>",
            end: &["<|tool_call:end|>"],
            ..GLM
        },
    )],
    teach: taught(
        "the marks of a tool call with the tool's name, and the marks of an argument for every argument",
        Form::each(
            "<|tool_call:start|>{{name}}\n{{arguments}}<|tool_call:end|>",
            "<|tool_arg:start|>{{key}}<|tool_arg:value|>{{value}}<|tool_arg:end|>\n",
            "",
            Values::Text,
        ),
    ),
    ..Format::DEFAULT
};

/// Laguna, which sometimes writes the tag of a user's message instead of the call's.
pub static LAGUNA: Format = Format {
    name: "laguna",
    summary: "as glm45; the call's tag may be <user>",
    models: &["*laguna*"],
    // `<user>` is an ordinary word, and another format already detects the other calls.
    auto: false,
    example: "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
    grammars: &[calls(&[], &["<tool_call>", "<user>"], Params { end: &["</tool_call>", "</user>"], ..GLM })],
    teach: taught(WORDS, GLM_FORM),
    ..Format::DEFAULT
};
