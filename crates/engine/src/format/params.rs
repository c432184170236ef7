//! Formats with a tag for each argument.

use super::{
    CallBody, Calls, Format, GLM_BOX, Grammar, Place, ReasoningHabits, SEED, Tag, TagKind,
    elements::ANTHROPIC_2023,
    teach::{Form, Teach, Values, taught},
};

/// A call with a tag for each argument. Markers may contain the wildcards of `detect`'s patterns: `<*invoke`
/// allows any namespace, `<tool_call*>` any suffix, and `</parameter~>` a malformed end.
#[derive(Debug)]
pub struct Params {
    /// Where the call's name is.
    pub name: ParamsName,
    /// How a parameter starts.
    pub key: Key,
    /// The text that ends a parameter's value.
    pub close: &'static str,
    /// The closers of the call.
    pub end: &'static [&'static str],
    /// Whether to strip one line break before and after each value.
    pub trim: bool,
    /// Whether values may have CDATA sections.
    pub cdata: bool,
    /// Whether values may have XML entities.
    pub entities: bool,
    /// Whether a JSON object may take the place of the parameters.
    pub json: bool,
    /// Whether the opener also occurs in ordinary text. If so, it starts a call outside of sections only if
    /// the name is declared.
    pub common: bool,
}

/// Where a call's name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamsName {
    /// In the text before the first parameter or the call's closer.
    Text,
    /// In the text before this marker.
    Before(&'static str),
    /// In the attribute named by the first string, in a tag that ends with the second string.
    Attribute(&'static str, &'static str),
}

/// How a parameter starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// With a marker, the key, and another marker.
    Tag(&'static str, &'static str),
    /// With a tag that has the key in one attribute, and possibly the type in another.
    Attribute {
        /// The start of the tag.
        open: &'static str,
        /// The end of the tag.
        end: &'static str,
        /// The name of the attribute with the key.
        key: &'static str,
        /// The name of the attribute with the type.
        kind: &'static str,
    },
    /// With the key in its own element, followed by the opener of the value.
    Pair {
        /// The opener of the key.
        open: &'static str,
        /// The closer of the key.
        close: &'static str,
        /// The opener and closer of a type that may follow the key. Empty if there is none.
        kind: (&'static str, &'static str),
        /// The opener of the value.
        value: &'static str,
    },
}

impl Key {
    /// A pair without a type.
    pub(super) const fn pair(open: &'static str, close: &'static str, value: &'static str) -> Self {
        Self::Pair { open, close, kind: ("", ""), value }
    }

    /// The marker with which every parameter starts.
    pub fn open(&self) -> &'static str {
        match *self {
            Self::Tag(open, _) | Self::Attribute { open, .. } | Self::Pair { open, .. } => open,
        }
    }
}

/// Qwen3-Coder's parameters, on which other formats are based.
const QWEN: Params = Params {
    name: ParamsName::Before(">"),
    key: Key::Tag("<parameter=", ">"),
    close: "</parameter~>",
    end: &["</function>"],
    trim: true,
    cdata: false,
    entities: false,
    json: true,
    common: true,
};

const QWEN_TEACH: Option<Teach> = taught(
    "a tag for the tool and one for every argument between <tool_call> tags",
    Form::each(
        "<tool_call>\n<function={{name}}>\n{{arguments}}</function>\n</tool_call>",
        "<parameter={{key}}>\n{{value}}\n</parameter>\n",
        "",
        Values::Text,
    )
    .after_text("\n\n"),
);

const MIMO_BODY: Params = Params { trim: false, ..QWEN };

/// `<invoke name="…">` with `<parameter name="…">`.
pub(super) const INVOKE: Params = Params {
    name: ParamsName::Attribute("name", ">"),
    key: Key::Attribute { open: "<parameter ", end: ">", key: "name", kind: "" },
    close: "</parameter~>",
    end: &["</invoke>"],
    trim: false,
    ..QWEN
};

/// `<arg_key>…</arg_key><arg_value>…</arg_value>`.
pub(super) const GLM: Params = Params {
    name: ParamsName::Text,
    key: Key::pair("<arg_key>", "</arg_key>", "<arg_value>"),
    close: "</arg_value>",
    end: &["</tool_call>"],
    trim: false,
    cdata: false,
    entities: false,
    json: true,
    common: false,
};

/// GLM's calls with each tag on a line of its own.
pub(super) const GLM_FORM: Form = Form::each(
    "<tool_call>{{name}}\n{{arguments}}</tool_call>",
    "<arg_key>{{key}}</arg_key>\n<arg_value>{{value}}</arg_value>\n",
    "",
    Values::Text,
);

/// GLM's calls when the model writes `NAME key=value`.
const GLM_ATTRIBUTES: Grammar = Grammar::Calls(Calls {
    sections: &[],
    open: &["<tool_call>"],
    naked: true,
    noise: &[],
    place: Place::Anywhere,
    body: CallBody::Attributes { end: &["</tool_call>"] },
});

/// K2-Horizon's calls when they are not JSON.
pub(super) const IFM: Grammar = calls(
    &[("<ifm|tool_calls>", "</ifm|tool_calls>")],
    &["<ifm|tool_call>"],
    Params {
        key: Key::Pair {
            open: "<ifm|arg_key>",
            close: "</ifm|arg_key>",
            kind: ("<ifm|arg_type>", "</ifm|arg_type>"),
            value: "<ifm|arg_value>",
        },
        close: "</ifm|arg_value>",
        end: &["</ifm|tool_call>"],
        ..GLM
    },
);

/// A grammar for calls that are either in these sections or on their own.
pub(super) const fn calls(
    sections: &'static [(&'static str, &'static str)],
    open: &'static [&'static str],
    body: Params,
) -> Grammar {
    noisy(sections, open, &[], body)
}

const fn noisy(
    sections: &'static [(&'static str, &'static str)],
    open: &'static [&'static str],
    noise: &'static [&'static str],
    body: Params,
) -> Grammar {
    Grammar::Calls(Calls {
        sections,
        open,
        naked: true,
        noise,
        place: Place::Anywhere,
        body: CallBody::Params(body),
    })
}

/// Qwen3-Coder.
pub static QWEN3_CODER: Format = Format {
    name: "qwen3_coder",
    summary: "<function=…> with <parameter=…> on lines of their own, in <tool_call>",
    models: &[
        "qwen3-coder*",
        "qwen3.5*",
        "qwen3.6*",
        "qwen3.8*",
        "*nemotron-3*",
        "step-3.5*",
        "step-5*",
        "granite-4.2*",
        "*iquest-coder-v1*",
        "*berrylm*",
    ],
    example: "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
    grammars: &[calls(&[("<tool_call>", "</tool_call>")], &["<function="], QWEN)],
    reasoning: ReasoningHabits { ended_by_calls: true },
    teach: QWEN_TEACH,
    ..Format::DEFAULT
};

/// MiMo v2.
pub static MIMO: Format = Format {
    name: "mimo",
    summary: "Qwen3-Coder's tags with verbatim values",
    models: &["mimo-v2*"],
    example: "<tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>\n</tool_call>",
    grammars: &[calls(&[("<tool_call>", "</tool_call>")], &["<function="], MIMO_BODY)],
    // Another format already detects these calls.
    auto: false,
    teach: taught(
        "a tag for the tool and one for every argument between <tool_call> tags",
        Form::each(
            "<tool_call>\n<function={{name}}>\n{{arguments}}</function>\n</tool_call>",
            "<parameter={{key}}>{{value}}</parameter>\n",
            "",
            Values::Text,
        ),
    ),
    ..Format::DEFAULT
};

/// MiniCPM-V and MiniCPM-o, whose markers around calls are unnamed tokens.
pub static MINICPMV: Format = Format {
    name: "minicpmv",
    summary: "as qwen3_coder, or in <|reserved_14|>; reasoning in <reserved_12>",
    models: &["*minicpm-v*", "*minicpm-o*"],
    example: "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
    grammars: &[calls(
        &[("<|reserved_14|>", "<|reserved_15|>"), ("<tool_call>", "</tool_call>")],
        &["<function="],
        QWEN,
    )],
    teach: QWEN_TEACH,
    ..Format::DEFAULT
};

/// Seed-OSS.
pub static SEED_OSS: Format = Format {
    name: "seed_oss",
    summary: "<function=…> with <parameter=…> in <seed:tool_call>; reasoning in <seed:think>",
    models: &["*seed-oss*"],
    example: "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>",
    grammars: &[calls(&[("<seed:tool_call>", "</seed:tool_call>")], &["<function="], MIMO_BODY), SEED],
    teach: taught(
        "a tag for the tool and one for every argument between <seed:tool_call> tags",
        Form::each(
            "<seed:tool_call>\n<function={{name}}>\n{{arguments}}</function>\n</seed:tool_call>",
            "<parameter={{key}}>{{value}}</parameter>\n",
            "",
            Values::Text,
        )
        .after_text("\n\n"),
    ),
    ..Format::DEFAULT
};

/// GLM-4.5 and 4.6.
pub static GLM45: Format = Format {
    name: "glm45",
    summary: "<tool_call>, the name, <arg_key> and <arg_value> on lines of their own",
    models: &["glm-4.5*", "glm-4.6*"],
    example: "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
    grammars: &[calls(&[], &["<tool_call>"], GLM), GLM_ATTRIBUTES, GLM_BOX],
    reasoning: ReasoningHabits { ended_by_calls: true },
    teach: taught("the tool's name and a pair of tags for every argument between <tool_call> tags", GLM_FORM),
    ..Format::DEFAULT
};

/// GLM-4.7 and 5.
pub static GLM47: Format = Format {
    name: "glm47",
    summary: "GLM's tags without line ends",
    models: &["glm-4.7*", "glm-5*", "ling-3*", "*spark-2.5*", "*spark-x2.5*", "*spark-3*", "*spark-x3*"],
    example: "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>",
    grammars: &[calls(&[], &["<tool_call>"], GLM), GLM_ATTRIBUTES, GLM_BOX],
    // Another format already detects these calls.
    auto: false,
    reasoning: ReasoningHabits { ended_by_calls: true },
    teach: taught(
        "the tool's name and a pair of tags for every argument between <tool_call> tags",
        Form::each(
            "<tool_call>{{name}}{{arguments}}</tool_call>",
            "<arg_key>{{key}}</arg_key><arg_value>{{value}}</arg_value>",
            "",
            Values::Text,
        )
        .within("", "", "")
        .after_text(""),
    ),
};

/// HY's calls. Every tag may have the checkpoint's suffix, and quantized checkpoints write another closer.
const HY: Params = Params {
    name: ParamsName::Before("<tool_sep*>"),
    key: Key::pair("<arg_key*>", "</arg_key*>", "<arg_value*>"),
    close: "</arg_value*>",
    end: &["</tool_call*>", "<end_of_tool_call*>"],
    ..GLM
};

/// HY3 and HY4.
pub static HY_V3: Format = Format {
    name: "hy_v3",
    summary: "<tool_calls>, <tool_call>, <tool_sep>, <arg_key>, <arg_value>, each with a suffix of the checkpoint",
    models: &["hy3*", "hy4*", "hunyuan-3*"],
    example: "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Paris</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
    grammars: &[
        calls(&[("<tool_calls*>", "</tool_calls*>")], &["<tool_call*>"], HY),
        // Quantized checkpoints also write calls without a separator, and end them with the wrong closer.
        calls(
            &[],
            &["<tool_call*>"],
            Params {
                name: ParamsName::Text,
                end: &["</tool_call*>", "<end_of_tool_call*>", "</arg_value*>"],
                common: true,
                ..HY
            },
        ),
    ],
    teach: taught(
        "the tool's name and a pair of tags for every argument between <tool_call> tags",
        Form::each(
            "<tool_call:opensource>{{name}}<tool_sep:opensource>\n{{arguments}}</tool_call:opensource>",
            "<arg_key:opensource>{{key}}</arg_key:opensource>\n<arg_value:opensource>{{value}}</arg_value:opensource>\n",
            "",
            Values::Text,
        )
        .within("<tool_calls:opensource>\n", "\n", "\n</tool_calls:opensource>")
        .after_text(""),
    ),
    ..Format::DEFAULT
};

/// MiniMax-M2.
pub static MINIMAX_M2: Format = Format {
    name: "minimax_m2",
    summary: "<invoke> with <parameter> in <minimax:tool_call>",
    models: &["minimax-m2*"],
    example: "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n</minimax:tool_call>",
    grammars: &[calls(
        &[("<minimax:tool_call>", "</minimax:tool_call>"), ("<tool_call>", "</tool_call>")],
        &["<invoke "],
        INVOKE,
    )],
    reasoning: ReasoningHabits { ended_by_calls: true },
    teach: taught(
        "a tag for the tool and one for every argument between <minimax:tool_call> tags",
        Form::each(
            "<invoke name=\"{{name}}\">\n{{arguments}}</invoke>",
            "<parameter name=\"{{key}}\">{{value}}</parameter>\n",
            "",
            Values::Text,
        )
        .within("<minimax:tool_call>\n", "\n", "\n</minimax:tool_call>"),
    ),
    ..Format::DEFAULT
};

/// Step3.
pub static STEP3: Format = Format {
    name: "step3",
    summary: "<steptml:invoke> with <steptml:parameter> between call markers",
    models: &["step3*", "step-3"],
    example: "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"get_weather\"><steptml:parameter name=\"city\">Paris</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
    grammars: &[noisy(
        &[
            ("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
            ("<｜tool_call_begin｜>", "<｜tool_call_end｜>"),
        ],
        &["<steptml:invoke "],
        &["<｜tool_call_begin｜>", "function", "<｜tool_sep｜>", "<｜tool_call_end｜>"],
        Params {
            key: Key::Attribute { open: "<steptml:parameter ", end: ">", key: "name", kind: "" },
            close: "</steptml:parameter~>",
            end: &["</steptml:invoke>"],
            common: false,
            ..INVOKE
        },
    )],
    teach: taught("the marks of a tool call, a tag for the tool and one for every argument", Form::each(r#"<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{{name}}">{{arguments}}</steptml:invoke><｜tool_call_end｜>"#, r#"<steptml:parameter name="{{key}}">{{value}}</steptml:parameter>"#, "", Values::Text).within("<｜tool_calls_begin｜>", "", "<｜tool_calls_end｜>")),
    ..Format::DEFAULT
};

/// Dots.
pub static DOTS: Format = Format {
    name: "dots",
    summary: "<invoke> with <parameter> or JSON in <dots_function_call>",
    models: &["dots*"],
    example: "<dots_function_call>\n<invoke name=get_weather>\n<parameter name=city>Paris</parameter>\n</invoke>\n</dots_function_call>",
    grammars: &[
        calls(&[("<dots_function_call>", "</dots_function_call>")], &["<invoke "], INVOKE),
        Grammar::Tagged(&[Tag {
            open: "<dots_function_call>",
            close: "</dots_function_call>",
            kind: TagKind::Marked,
        }]),
    ],
    teach: taught(
        "a tag for the tool and one for every argument between <dots_function_call> tags",
        Form::each(
            "<invoke name={{name}}>\n{{arguments}}</invoke>",
            "<parameter name={{key}}>{{value}}</parameter>\n",
            "",
            Values::Text,
        )
        .within("<dots_function_call>\n", "\n", "\n</dots_function_call>"),
    ),
    ..Format::DEFAULT
};

/// MiniCPM5.
pub static MINICPM5: Format = Format {
    name: "minicpm5",
    summary: "<function name=…> with <param name=…>, values optionally in CDATA",
    models: &["minicpm5*"],
    example: "<function name=\"get_weather\"><param name=\"city\">Paris</param></function>",
    grammars: &[calls(
        &[],
        &["<function "],
        Params {
            key: Key::Attribute { open: "<param ", end: ">", key: "name", kind: "" },
            close: "</param~>",
            end: &["</function>"],
            cdata: true,
            ..INVOKE
        },
    )],
    teach: taught(
        "a tag for the tool and one for every argument",
        Form::each(
            r#"<function name="{{name}}">{{arguments}}</function>"#,
            r#"<param name="{{key}}">{{value}}</param>"#,
            "",
            Values::Text,
        ),
    ),
    ..Format::DEFAULT
};

/// Anthropic's format of 2024.
pub static ANTHROPIC_LEGACY: Format = Format {
    name: "anthropic_legacy",
    summary: "<invoke> with <parameter> in <function_calls>, in any namespace",
    models: &["claude-2*", "claude-3*"],
    example: "<function_calls>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n</function_calls>",
    grammars: &[
        calls(
            &[("<*function_calls>", "</*function_calls>")],
            &["<*invoke "],
            Params {
                key: Key::Attribute { open: "<*parameter ", end: ">", key: "name", kind: "" },
                close: "</*parameter>",
                end: &["</*invoke>"],
                ..INVOKE
            },
        ),
        Grammar::Calls(Calls {
            sections: &[("<*function_calls>", "</*function_calls>")],
            open: &["<*invoke>"],
            naked: false,
            noise: &[],
            place: Place::Anywhere,
            body: CallBody::Elements(ANTHROPIC_2023),
        }),
    ],
    teach: taught(
        "a tag for the tool and one for every argument between <function_calls> tags",
        Form::each(
            "<invoke name=\"{{name}}\">\n{{arguments}}</invoke>",
            "<parameter name=\"{{key}}\">{{value}}</parameter>\n",
            "",
            Values::Text,
        )
        .within("<function_calls>\n", "\n", "\n</function_calls>"),
    ),
    ..Format::DEFAULT
};
