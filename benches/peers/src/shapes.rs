//! The notation of each format, independent of toolwire's own tables: templates with placeholders such as `$name`
//! and `$args`.

/// A notation for calls.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The name in the tables.
    pub label: &'static str,
    /// toolwire's name for the format.
    pub format: &'static str,
    /// What precedes the first call and follows the last one.
    pub section: (&'static str, &'static str),
    pub between: &'static str,
    /// The template of a call: `$name`, `$n` (its number from 0), and its arguments as `$args` (JSON), `$quoted`
    /// (JSON in a JSON string), `$params` (each in the form of `param`), `$python` (keyword arguments), `$literal`
    /// (a Python dictionary) or `$gemma` (bare keys).
    pub call: &'static str,
    /// The template of a parameter: `$key`, `$value`, `$type` (its JSON type), `$string` (whether it is a string).
    pub param: &'static str,
    pub comma: &'static str,
    /// The quotes around a string in `$gemma`.
    pub quote: &'static str,
    /// What precedes the name in each tag, if lists and objects are written as elements.
    pub elements: Option<&'static str>,
    /// Whether text may precede the calls, and whether it may follow them.
    pub text: (bool, bool),
    pub several: bool,
}

const JSON: Shape = Shape {
    label: "",
    format: "",
    section: ("", ""),
    between: "\n",
    call: r#"{"name": "$name", "arguments": $args}"#,
    param: "",
    comma: "",
    quote: "",
    elements: None,
    text: (true, true),
    several: true,
};

const ARRAY: Shape = Shape { between: ", ", ..JSON };

const fn json(label: &'static str, open: &'static str, close: &'static str) -> Shape {
    Shape { label, format: label, section: (open, close), ..JSON }
}

const fn array(label: &'static str, open: &'static str, close: &'static str) -> Shape {
    Shape { label, format: label, section: (open, close), ..ARRAY }
}

const fn call(label: &'static str, call: &'static str) -> Shape {
    Shape { label, format: label, call, ..JSON }
}

const fn params(
    label: &'static str,
    section: (&'static str, &'static str),
    call: &'static str,
    param: &'static str,
) -> Shape {
    Shape { label, format: label, section, call, param, ..JSON }
}

const fn alone(shape: Shape) -> Shape {
    Shape { text: (false, false), ..shape }
}

const fn last(shape: Shape) -> Shape {
    Shape { text: (true, false), ..shape }
}

const fn single(shape: Shape) -> Shape {
    Shape { several: false, ..shape }
}

const fn joined(shape: Shape, between: &'static str) -> Shape {
    Shape { between, ..shape }
}

const fn of(format: &'static str, shape: Shape) -> Shape {
    Shape { format, ..shape }
}

/// All formats that a peer supports. Those that toolwire does not implement are skipped.
pub const ALL: &[Shape] = &[
    call("hermes", "<tool_call>\n{\"name\": \"$name\", \"arguments\": $args}\n</tool_call>"),
    call("qwen25", "<tool_call>\n{\"name\": \"$name\", \"arguments\": $args}\n</tool_call>"),
    call("granite4", "<tool_call>\n{\"name\": \"$name\", \"arguments\": $args}\n</tool_call>"),
    call("ernie45", "<tool_call>\n{\"name\": \"$name\", \"arguments\": $args}\n</tool_call>\n"),
    call("longcat", "<longcat_tool_call>\n{\"name\": \"$name\", \"arguments\": $args}\n</longcat_tool_call>"),
    last(array("granite3", "<|tool_call|>[", "]")),
    last(joined(call("granite20b_fc", "<function_call> {\"name\": \"$name\", \"arguments\": $args}"), " ")),
    array("jamba", "<tool_calls>[\n    ", "\n]</tool_calls>"),
    array("hunyuan_a13b", "<tool_calls>[", "]</tool_calls>"),
    array("apriel", "<tool_calls>[", "]</tool_calls>"),
    json("minimax_m1", "<tool_calls>\n", "\n</tool_calls>"),
    array("nemotron_toolcall", "<TOOLCALL>[", "]</TOOLCALL>"),
    alone(joined(call("llama3_json", "{\"name\": \"$name\", \"parameters\": $args}"), "; ")),
    Shape {
        section: ("<|python_tag|>", ""),
        ..last(of(
            "llama3_json",
            joined(call("llama3_json, tag", "{\"name\": \"$name\", \"parameters\": $args}"), "; "),
        ))
    },
    last(array("phi4_mini", "functools[", "]")),
    call(
        "internlm2",
        "<|action_start|><|plugin|>\n{\"name\": \"$name\", \"parameters\": $args}<|action_end|>",
    ),
    alone(array("xlam", "[", "]")),
    Shape { call: "{\"$name\": $args}", ..array("apertus", "<|tools_prefix|>[", "]<|tools_suffix|>") },
    single(last(call(
        "gigachat3",
        "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"$name\", \"arguments\": $args}",
    ))),
    single(last(call("gigachat31", "<|function_call|>{\"name\": \"$name\", \"arguments\": $args}"))),
    Shape {
        call: "{\"tool_name\": \"$name\", \"parameters\": $args}",
        ..last(array("command_r_plus", "Action:\n```json\n[", "]\n```"))
    },
    Shape {
        call: "{\"tool_call_id\": \"$n\", \"tool_name\": \"$name\", \"parameters\": $args}",
        ..array("command_r7b", "<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>")
    },
    call("k2_horizon", "<ifm|tool_call>{\"name\": \"$name\", \"arguments\": $args}</ifm|tool_call>"),
    of("mistral", last(array("mistral, array", "[TOOL_CALLS] [", "]"))),
    of("mistral", last(joined(call("mistral, [ARGS]", "[TOOL_CALLS]$name[ARGS]$args"), ""))),
    Shape {
        section: ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        ..call(
            "deepseek_v3",
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$args\n```<｜tool▁call▁end｜>",
        )
    },
    Shape {
        section: ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        ..joined(call("deepseek_v31", "<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$args<｜tool▁call▁end｜>"), "")
    },
    Shape {
        section: ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        ..joined(
            call(
                "kimi_k2",
                "<|tool_call_begin|>functions.$name:$n<|tool_call_argument_begin|>$args<|tool_call_end|>",
            ),
            "",
        )
    },
    call("functionary_v31", "<function=$name>$args</function>"),
    alone(joined(call("functionary_v32", "$name\n$args"), ">>>")),
    Shape {
        section: ("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>"),
        ..joined(
            call(
                "plamo3",
                "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>$name<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>$args<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
            ),
            "",
        )
    },
    Shape {
        section: ("<|tool_calls|>", ""),
        ..last(joined(
            call(
                "solar_open",
                "<|tool_call:begin|>abc$n<|tool_call:name|>$name<|tool_call:args|>$args<|tool_call:end|>",
            ),
            "",
        ))
    },
    alone(joined(
        call("harmony", "<|channel|>commentary to=functions.$name <|constrain|>json<|message|>$args<|call|>"),
        "<|start|>assistant",
    )),
    alone(joined(
        call(
            "inkling",
            "<|message_model|>$name<|content_invoke_tool_json|>{\"name\": \"$name\", \"args\": $args}<|end_message|>",
        ),
        "",
    )),
    params(
        "qwen3_coder",
        ("", ""),
        "<tool_call>\n<function=$name>\n$params</function>\n</tool_call>",
        "<parameter=$key>\n$value\n</parameter>\n",
    ),
    params(
        "mimo",
        ("", ""),
        "<tool_call>\n<function=$name>\n$params</function>\n</tool_call>",
        "<parameter=$key>$value</parameter>\n",
    ),
    params(
        "seed_oss",
        ("", ""),
        "<seed:tool_call>\n<function=$name>\n$params</function>\n</seed:tool_call>",
        "<parameter=$key>$value</parameter>\n",
    ),
    params(
        "glm45",
        ("", ""),
        "<tool_call>$name\n$params</tool_call>",
        "<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n",
    ),
    joined(
        params(
            "glm47",
            ("", ""),
            "<tool_call>$name$params</tool_call>",
            "<arg_key>$key</arg_key><arg_value>$value</arg_value>",
        ),
        "",
    ),
    params(
        "hy_v3",
        ("<tool_calls:opensource>\n", "\n</tool_calls:opensource>"),
        "<tool_call:opensource>$name<tool_sep:opensource>\n$params</tool_call:opensource>",
        "<arg_key:opensource>$key</arg_key:opensource>\n<arg_value:opensource>$value</arg_value:opensource>\n",
    ),
    params(
        "minimax_m2",
        ("<minimax:tool_call>\n", "\n</minimax:tool_call>"),
        "<invoke name=\"$name\">\n$params</invoke>",
        "<parameter name=\"$key\">$value</parameter>\n",
    ),
    params(
        "deepseek_v32",
        ("<｜DSML｜function_calls>\n", "\n</｜DSML｜function_calls>"),
        "<｜DSML｜invoke name=\"$name\">\n$params</｜DSML｜invoke>",
        "<｜DSML｜parameter name=\"$key\" string=\"$string\">$value</｜DSML｜parameter>\n",
    ),
    params(
        "deepseek_v4",
        ("<｜DSML｜tool_calls>\n", "\n</｜DSML｜tool_calls>"),
        "<｜DSML｜invoke name=\"$name\">\n$params</｜DSML｜invoke>",
        "<｜DSML｜parameter name=\"$key\" string=\"$string\">$value</｜DSML｜parameter>\n",
    ),
    params(
        "deepseek_v41",
        ("<｜DSML｜ calls>\n", "\n</｜DSML｜ calls>"),
        "<｜DSML｜ invoke name=\"$name\">\n$params</｜DSML｜ invoke>",
        "<｜DSML｜ parameter name=\"$key\" string=\"$string\">$value</｜DSML｜ parameter>\n",
    ),
    joined(
        params(
            "step3",
            ("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
            "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"$name\">$params</steptml:invoke><｜tool_call_end｜>",
            "<steptml:parameter name=\"$key\">$value</steptml:parameter>",
        ),
        "",
    ),
    params(
        "dots",
        ("<dots_function_call>\n", "\n</dots_function_call>"),
        "<invoke name=$name>\n$params</invoke>",
        "<parameter name=$key>$value</parameter>\n",
    ),
    joined(
        params(
            "minicpm5",
            ("", ""),
            "<function name=\"$name\">$params</function>",
            "<param name=\"$key\"><![CDATA[$value]]></param>",
        ),
        "",
    ),
    params(
        "anthropic_legacy",
        ("<function_calls>\n", "\n</function_calls>"),
        "<invoke name=\"$name\">\n$params</invoke>",
        "<parameter name=\"$key\">$value</parameter>\n",
    ),
    alone(joined(
        params(
            "kimi_k3",
            ("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
            "<|open|>call tool=\"$name\" index=\"$n\"<|sep|>$params<|close|>call<|sep|>",
            "<|open|>argument key=\"$key\" type=\"$type\"<|sep|>$value<|close|>argument<|sep|>",
        ),
        "",
    )),
    alone(params(
        "muse_atem",
        (" to=$name<|message|><atem:function_calls>\n", "\n</atem:function_calls><|eom|>"),
        "<atem:invoke name=\"$name\">\n$params</atem:invoke>",
        "<atem:parameter name=\"$key\">$value</atem:parameter>\n",
    )),
    Shape {
        elements: Some("]<]minimax[>["),
        ..params(
            "minimax_m3",
            ("]<]minimax[>[<tool_call>\n", "\n]<]minimax[>[</tool_call>"),
            "]<]minimax[>[<invoke name=\"$name\">$params]<]minimax[>[</invoke>",
            "]<]minimax[>[<$key>$value]<]minimax[>[</$key>",
        )
    },
    Shape {
        elements: Some(""),
        ..params(
            "toolbridge",
            ("<toolbridge_calls>\n", "\n</toolbridge_calls>"),
            "<$name>\n$params</$name>",
            "<$key>$value</$key>\n",
        )
    },
    Shape {
        elements: Some(""),
        ..params("cline", ("", ""), "<$name>\n$params</$name>", "<$key>$value</$key>\n")
    },
    Shape {
        section: ("<Function_Ab1C_Start/>\n<function_calls>\n", "\n</function_calls>"),
        ..last(call(
            "toolify",
            "<function_call>\n<tool>$name</tool>\n<args_json><![CDATA[$args]]></args_json>\n</function_call>",
        ))
    },
    alone(Shape { call: "$name($python)", ..array("pythonic", "[", "]") }),
    Shape { call: "$name($python)", ..array("lfm2", "<|tool_call_start|>[", "]<|tool_call_end|>") },
    json_free("olmo3", "<function_calls>\n", "\n</function_calls>", "$name($python)"),
    json_free("gemma3_toolcode", "```tool_code\n", "\n```", "$name($python)"),
    Shape {
        quote: "<escape>",
        ..joined(call("functiongemma", "<start_function_call>call:$name{$gemma}<end_function_call>"), "")
    },
    Shape { quote: "<|\"|>", ..joined(call("gemma4", "<|tool_call>call:$name{$gemma}<tool_call|>"), "") },
    last(Shape {
        call: "{'name': '$name', 'arguments': $literal}",
        ..array("sarashina", "<|tool_calls|>[", "]")
    }),
    single(last(call("react", "Action: $name\nAction Input: $args"))),
    call("pre", "<pre>{\"name\": \"$name\", \"arguments\": $args}</pre>"),
    call("fenced", "```json\n{\"name\": \"$name\", \"arguments\": $args}\n```"),
    alone(call("bare", "{\"name\": \"$name\", \"arguments\": $args}")),
    single(alone(call(
        "openai_function_call",
        "{\"function_call\": {\"name\": \"$name\", \"arguments\": $quoted}}",
    ))),
];

const fn json_free(
    label: &'static str,
    open: &'static str,
    close: &'static str,
    call: &'static str,
) -> Shape {
    Shape { label, format: label, section: (open, close), call, ..JSON }
}
