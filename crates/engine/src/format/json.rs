//! Formats whose calls are JSON between markers. Many models use the same markers, so several formats are
//! aliases.

use super::{
    APRIEL, APRIEL_FRAME, COHERE, FENCE_INFOS, FUNCTION, Format, GRANITE, Grammar, HUNYUAN, ReasoningHabits,
    Special, THOUGHT_COHERE, Tag, TagKind,
    pairs::LONGCAT_ARGUMENTS,
    params::IFM,
    python::PYTHON_TAG,
    teach::{Form, OBJECT, TOOL_RESPONSE, taught},
};

/// As in all formats, the closer may be missing.
pub(super) const TOOL_CALL: Tag = marked("<tool_call>", "</tool_call>");
pub(super) const TOOL_CALLS: Tag = marked("<tool_calls>", "</tool_calls>");
const FUNCTION_CALL: Tag = marked("<function_call>", "</function_call>");
const TOOL_CALL_TOKEN: Tag = marked("<|tool_call|>", "<|/tool_call|>");
pub(super) const LFM2_TAG: Tag = marked("<|tool_call_start|>", "<|tool_call_end|>");
const MISTRAL_TOKEN: Tag = marked("[TOOL_CALLS]", "");

const fn marked(open: &'static str, close: &'static str) -> Tag {
    Tag { open, close, kind: TagKind::Marked }
}

const fn special(open: &'static str, close: &'static str, special: Special) -> Tag {
    Tag { open, close, kind: TagKind::Special(special) }
}

const IN_TOOL_CALL: Format = Format {
    name: "hermes",
    summary: "a JSON object or array in <tool_call>, <tool_calls> or <function_call>",
    models: &["*hermes*", "qwen3*", "qwq*", "mimo-vl*", "reka-*", "bielik*", "smollm3*", "*kolibri*"],
    example: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
    grammars: &[Grammar::Tagged(&[TOOL_CALL, TOOL_CALLS, FUNCTION_CALL])],
    teach: taught(
        "a JSON object between <tool_call> tags",
        Form::json("<tool_call>\n{\"name\": {{json_name}}, \"arguments\": {{arguments}}}\n</tool_call>"),
    ),
    ..Format::DEFAULT
};

const IN_TOOL_CALLS: Format = Format {
    name: "jamba",
    summary: "a JSON array in <tool_calls>",
    models: &["*jamba*"],
    example: r#"<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_calls>"#,
    grammars: &[Grammar::Tagged(&[TOOL_CALLS])],
    teach: taught(
        "a JSON array of objects between <tool_calls> tags",
        Form::json(OBJECT).within("<tool_calls>[", ", ", "]</tool_calls>"),
    ),
    ..Format::DEFAULT
};

/// `<tool_call>` and similar markers.
pub static HERMES: Format = IN_TOOL_CALL;

/// Qwen2.5, an alias of Hermes.
pub static QWEN25: Format =
    Format { name: "qwen25", summary: "as hermes", models: &["*qwen2.5*", "*qwen-2.5*"], ..IN_TOOL_CALL };

/// Granite 4, an alias of Hermes.
pub static GRANITE4: Format =
    Format { name: "granite4", summary: "as hermes", models: &["*granite-4*", "*granite4*"], ..IN_TOOL_CALL };

/// Ernie 4.5, an alias of Hermes.
pub static ERNIE45: Format =
    Format { name: "ernie45", summary: "as hermes", models: &["*ernie-4.5*", "*ernie4.5*"], ..IN_TOOL_CALL };

/// LongCat: like Hermes, with other markers.
pub static LONGCAT: Format = Format {
    name: "longcat",
    summary: "a JSON object, or <longcat_arg_key> and <longcat_arg_value>, in <longcat_tool_call>",
    models: &["*longcat*"],
    example: "<longcat_tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</longcat_tool_call>",
    grammars: &[Grammar::Tagged(&[marked("<longcat_tool_call>", "</longcat_tool_call>")]), LONGCAT_ARGUMENTS],
    teach: taught(
        "a JSON object between <longcat_tool_call> tags",
        Form::json(
            "<longcat_tool_call>\n{\"name\": {{json_name}}, \"arguments\": {{arguments}}}\n</longcat_tool_call>",
        ),
    ),
    ..Format::DEFAULT
};

/// Granite 3. Version 3.0 uses a special token, and versions 3.1 to 3.3 write the marker as text. There is no
/// closer.
pub static GRANITE3: Format = Format {
    name: "granite3",
    summary: "a JSON array after <|tool_call|> or <tool_call>, without a closer",
    models: &["*granite-3*", "*granite3*"],
    example: r#"<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]"#,
    grammars: &[Grammar::Tagged(&[TOOL_CALL_TOKEN, TOOL_CALL]), GRANITE],
    teach: taught(
        "a JSON array of objects behind <|tool_call|>",
        Form::json(OBJECT).within("<|tool_call|>[", ", ", "]"),
    ),
    ..Format::DEFAULT
};

/// Granite 20B function calling: a marker before each call, and no closer.
pub static GRANITE20B_FC: Format = Format {
    name: "granite20b_fc",
    summary: "JSON objects, <function_call> before each",
    models: &["*granite-20b-function*"],
    example: r#"<function_call> {"name": "get_weather", "arguments": {"city": "Paris"}}"#,
    grammars: &[Grammar::Tagged(&[FUNCTION_CALL])],
    teach: taught(
        "a JSON object behind <function_call>",
        Form::json(r#"<function_call> {"name": {{json_name}}, "arguments": {{arguments}}}"#),
    ),
    ..Format::DEFAULT
};

/// Jamba 1.5 and later.
pub static JAMBA: Format = IN_TOOL_CALLS;

/// Hunyuan A13B.
pub static HUNYUAN_A13B: Format = Format {
    name: "hunyuan_a13b",
    summary: "as jamba; the response may be in <answer>",
    models: &["*hunyuan-a13b*"],
    grammars: &[Grammar::Tagged(&[TOOL_CALLS]), HUNYUAN],
    ..IN_TOOL_CALLS
};

/// Apriel Thinker.
pub static APRIEL_CALLS: Format = Format {
    name: "apriel",
    summary: "as jamba; reasoning ends with [BEGIN FINAL RESPONSE]",
    models: &["*apriel*"],
    grammars: &[Grammar::Tagged(&[TOOL_CALLS]), APRIEL, APRIEL_FRAME],
    ..IN_TOOL_CALLS
};

/// MiniMax-M1: one object per line.
pub static MINIMAX_M1: Format = Format {
    name: "minimax_m1",
    summary: "JSON objects in <tool_calls>, one per line",
    models: &["*minimax-m1*"],
    reasoning: ReasoningHabits { ended_by_calls: true },
    example: "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_calls>",
    grammars: &[Grammar::Tagged(&[TOOL_CALLS])],
    teach: taught(
        "JSON objects, one a line, between <tool_calls> tags",
        Form::json(OBJECT).within("<tool_calls>\n", "\n", "\n</tool_calls>"),
    ),
    ..Format::DEFAULT
};

/// Nemotron.
pub static NEMOTRON_TOOLCALL: Format = Format {
    name: "nemotron_toolcall",
    summary: "a JSON array in <TOOLCALL>",
    models: &["*llama-*nemotron*", "*nemotron-nano*v2*", "*nemotron-nano-9b*", "*nemotron-ultra*"],
    example: r#"<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</TOOLCALL>"#,
    grammars: &[Grammar::Tagged(&[marked("<TOOLCALL>", "</TOOLCALL>")])],
    teach: taught(
        "a JSON array of objects between <TOOLCALL> tags",
        Form::json(OBJECT).within("<TOOLCALL>[", ", ", "]</TOOLCALL>"),
    ),
    ..Format::DEFAULT
};

/// Llama 3.1 to 3.3: calls without markers, calls after a special token, or custom tools, whose name is in
/// the tag.
pub static LLAMA3_JSON: Format = Format {
    name: "llama3_json",
    summary: "bare JSON objects, optionally after <|python_tag|>, joined by `;`; or <function=NAME>",
    models: &["*llama-3*", "*llama3*", "*llama-4*", "*llama4*"],
    example: r#"<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}"#,
    grammars: &[
        Grammar::Bare,
        Grammar::Tagged(&[special(
            "<|python_tag|>",
            "<|eom_id|>",
            Special { inner: &["<|eot_id|>"], ..Special::NONE },
        )]),
        PYTHON_TAG,
        Grammar::Calls(FUNCTION),
    ],
    teach: taught(
        "a JSON object behind <|python_tag|>",
        Form::json(r#"{"name": {{json_name}}, "parameters": {{arguments}}}"#).within(
            "<|python_tag|>",
            "; ",
            "",
        ),
    ),
    ..Format::DEFAULT
};

/// Phi-4-mini and FireFunction v2. The opener is also a Python word, so this format is searched for only if
/// the model's name implies it.
pub static PHI4_MINI: Format = Format {
    name: "phi4_mini",
    summary: "a JSON array after `functools`, or between <|tool_call|> and <|/tool_call|>",
    models: &["*phi-4-mini*", "*phi4-mini*", "*firefunction*"],
    auto: false,
    example: r#"functools[{"name": "get_weather", "arguments": {"city": "Paris"}}]"#,
    grammars: &[Grammar::Tagged(&[marked("functools", ""), TOOL_CALL_TOKEN])],
    teach: taught(
        "a JSON array of objects behind the word functools",
        Form::json(OBJECT).within("functools[", ", ", "]"),
    ),
    ..Format::DEFAULT
};

/// InternLM2 and Intern-S1.
pub static INTERNLM2: Format = Format {
    name: "internlm2",
    summary: "a JSON object between <|action_start|><|plugin|> and <|action_end|>",
    models: &["*internlm2*", "*internlm3*", "*intern-s1*"],
    example: "<|action_start|><|plugin|>\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}<|action_end|>",
    grammars: &[Grammar::Tagged(&[special(
        "<|action_start|>",
        "<|action_end|>",
        Special { inner: &["<|plugin|>"], ..Special::NONE },
    )])],
    teach: taught(
        "a JSON object between <|action_start|><|plugin|> and <|action_end|>",
        Form::json(
            "<|action_start|><|plugin|>\n{\"name\": {{json_name}}, \"parameters\": {{arguments}}}<|action_end|>",
        ),
    ),
    ..Format::DEFAULT
};

/// xLAM, which writes an array in one of several ways.
pub static XLAM: Format = Format {
    name: "xlam",
    summary: "a JSON array: bare, in a json fence, after [TOOL_CALLS], or in <tool_call>",
    models: &["*xlam*"],
    example: r#"[{"name": "get_weather", "arguments": {"city": "Paris"}}]"#,
    grammars: &[
        Grammar::Bare,
        Grammar::Fenced { infos: FENCE_INFOS },
        Grammar::Tagged(&[MISTRAL_TOKEN, TOOL_CALL]),
    ],
    teach: taught("a JSON array of objects on lines of its own", Form::json(OBJECT).within("[", ", ", "]")),
    ..Format::DEFAULT
};

/// Apertus: a call is an object whose single key is the name.
pub static APERTUS: Format = Format {
    name: "apertus",
    summary: "a JSON array of {\"NAME\": {…}} between <|tools_prefix|> and <|tools_suffix|>",
    models: &["*apertus*"],
    example: r#"<|tools_prefix|>[{"get_weather": {"city": "Paris"}}]<|tools_suffix|>"#,
    grammars: &[Grammar::Tagged(&[special(
        "<|tools_prefix|>",
        "<|tools_suffix|>",
        Special { keyed: true, ..Special::NONE },
    )])],
    teach: taught(
        "a JSON array of objects, each with the tool's name as its only key, between <|tools_prefix|> and <|tools_suffix|>",
        Form::json("{{{json_name}}: {{arguments}}}")
            .within("<|tools_prefix|>[", ", ", "]<|tools_suffix|>")
            .after_text(""),
    ),
    ..Format::DEFAULT
};

/// GigaChat 3.
pub static GIGACHAT3: Format = Format {
    name: "gigachat3",
    summary: "a JSON object after <|message_sep|> and `function call<|role_sep|>`",
    models: &["*gigachat3-*", "*gigachat-3-*"],
    example: "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}",
    grammars: &[Grammar::Tagged(&[special(
        "<|message_sep|>",
        "<|message_sep|>",
        Special { inner: &["function call<|role_sep|>"], ..Special::NONE },
    )])],
    teach: taught(
        "a JSON object behind the mark of a function call",
        Form::json(
            "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": {{json_name}}, \"arguments\": {{arguments}}}",
        )
        .after_text(""),
    ),
    ..Format::DEFAULT
};

/// GigaChat 3.1.
pub static GIGACHAT31: Format = Format {
    name: "gigachat31",
    summary: "a JSON object after <|function_call|>",
    models: &["*gigachat3.1*", "*gigachat-3.1*"],
    example: r#"<|function_call|>{"name": "get_weather", "arguments": {"city": "Paris"}}"#,
    grammars: &[Grammar::Tagged(&[marked("<|function_call|>", "")])],
    teach: taught(
        "a JSON object after <|function_call|>",
        Form::json(r#"<|function_call|>{"name": {{json_name}}, "arguments": {{arguments}}}"#).after_text(""),
    ),
    ..Format::DEFAULT
};

/// Command R and R+. `Action:` also occurs in ordinary text.
pub static COMMAND_R_PLUS: Format = Format {
    name: "command_r_plus",
    summary: "a JSON array in a code fence after `Action:`",
    models: &["*command-r", "*command-r-08*", "*command-r-v01*", "*command-r-plus*"],
    auto: false,
    example: "Action:\n```json\n[{\"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}]\n```",
    grammars: &[Grammar::Tagged(&[special(
        "Action:",
        "```",
        Special { common: true, no_tool: &["directly-answer", "directly_answer"], ..Special::NONE },
    )])],
    teach: taught(
        "`Action:` and a JSON array of objects in a json code block",
        Form::json(r#"{"tool_name": {{json_name}}, "parameters": {{arguments}}}"#).within(
            "Action:\n```json\n[",
            ", ",
            "]\n```",
        ),
    ),
    ..Format::DEFAULT
};

/// Command R7B, Command A and related models.
pub static COMMAND_R7B: Format = Format {
    name: "command_r7b",
    summary: "a JSON array between <|START_ACTION|> and <|END_ACTION|>",
    models: &["*command-r7b*", "*command-a*", "*command3*", "*command4*", "north-*"],
    example: "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}\n]<|END_ACTION|>",
    grammars: &[Grammar::Tagged(&[marked("<|START_ACTION|>", "<|END_ACTION|>")]), THOUGHT_COHERE, COHERE],
    teach: taught(
        "a JSON array of objects between <|START_ACTION|> and <|END_ACTION|>",
        Form::json(
            r#"{"tool_call_id": "{{index}}", "tool_name": {{json_name}}, "parameters": {{arguments}}}"#,
        )
        .within("<|START_ACTION|>[\n    ", ",\n    ", "\n]<|END_ACTION|>"),
    ),
    ..Format::DEFAULT
};

/// K2-Horizon: JSON, or a pair of tags for each argument.
pub static K2_HORIZON: Format = Format {
    name: "k2_horizon",
    summary: "JSON objects, or <ifm|arg_key> and <ifm|arg_value>, in <ifm|tool_call>, optionally all in <ifm|tool_calls>",
    models: &["*k2-horizon*", "*ifm-*"],
    example: r#"<ifm|tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</ifm|tool_call>"#,
    grammars: &[
        Grammar::Tagged(&[
            special(
                "<ifm|tool_calls>",
                "</ifm|tool_calls>",
                Special { inner: &["<ifm|tool_call>", "</ifm|tool_call>"], ..Special::NONE },
            ),
            marked("<ifm|tool_call>", "</ifm|tool_call>"),
        ]),
        IFM,
    ],
    teach: taught(
        "a JSON object between <ifm|tool_call> tags",
        Form::json(r#"<ifm|tool_call>{"name": {{json_name}}, "arguments": {{arguments}}}</ifm|tool_call>"#),
    ),
    ..Format::DEFAULT
};

/// The JSON that OpenAI's API itself returns, written as text by a model.
pub static OPENAI_FUNCTION_CALL: Format = Format {
    name: "openai_function_call",
    summary: "the function_call or tool_calls object of OpenAI's API, as text",
    example: r#"{"function_call": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}"#,
    grammars: &[Grammar::Bare],
    teach: taught(
        "a JSON object on lines of its own",
        Form::json(r#"{"function_call": {"name": {{json_name}}, "arguments": {{json_arguments}}}}"#)
            .answered(TOOL_RESPONSE),
    ),
    ..Format::DEFAULT
};
