//! Formats whose calls are in Python syntax, in Gemma's notation, or on labelled lines.

use super::{
    Action, CallBody, Calls, Format, GEMMA_FRAME, GEMMA_THOUGHT, Grammar, Place, Python, ReasoningHabits,
    Tag, TagKind,
    json::LFM2_TAG,
    reasoning::UI_TARS_THINK,
    teach::{Form, OBJECT, Quotes, Values, taught},
};

/// Sections that contain Python calls, either as a list or one after another.
const fn sections(sections: &'static [(&'static str, &'static str)]) -> Grammar {
    Grammar::Calls(Calls {
        sections,
        open: &[""],
        naked: false,
        noise: &[",", ";"],
        place: Place::Anywhere,
        body: CallBody::Python(Python::PLAIN),
    })
}

/// Sections that contain one or more `call:NAME{…}`.
const fn gemma(
    sections: &'static [(&'static str, &'static str)],
    open: &'static [&'static str],
    quote: &'static str,
) -> Grammar {
    Grammar::Calls(Calls {
        sections,
        open,
        naked: false,
        noise: &[","],
        place: Place::Anywhere,
        body: CallBody::Dsl { quote },
    })
}

/// The built-in tools of Llama 3.1: `<|python_tag|>brave_search.call(query="…")`. `.call` distinguishes a
/// call from code.
pub const PYTHON_TAG: Grammar = Grammar::Calls(Calls {
    sections: &[("<|python_tag|>", "")],
    open: &[""],
    naked: false,
    noise: &[],
    place: Place::Anywhere,
    body: CallBody::Python(Python { method: ".call", ..Python::PLAIN }),
});

/// A list of Python calls, without markers or between Llama 4's markers.
pub static PYTHONIC: Format = Format {
    name: "pythonic",
    summary: "a Python list of calls to declared tools, optionally in <|python_start|>",
    models: &["llama-3.2*", "llama-4*", "*toolace*"],
    auto: false,
    example: "[get_weather(city='Paris')]",
    grammars: &[
        sections(&[("<|python_start|>", "<|python_end|>")]),
        Grammar::Calls(Calls {
            sections: &[],
            open: &[],
            naked: true,
            noise: &[],
            place: Place::Bracket,
            body: CallBody::Python(Python::PLAIN),
        }),
    ],
    teach: taught(
        "a Python list of calls with named arguments",
        Form::each("{{name}}({{arguments}})", "{{key}}={{value}}", ", ", Values::Python(Quotes::Repr))
            .within("[", ", ", "]"),
    ),
    ..Format::DEFAULT
};

/// LFM2: a Python list between markers, or a JSON list.
pub static LFM2: Format = Format {
    name: "lfm2",
    summary: "a Python list of calls, or a JSON one, in <|tool_call_start|>",
    models: &["lfm2*", "*liquid*"],
    example: r#"<|tool_call_start|>[get_weather(city="Paris")]<|tool_call_end|>"#,
    grammars: &[sections(&[("<|tool_call_start|>", "<|tool_call_end|>")]), Grammar::Tagged(&[LFM2_TAG])],
    teach: taught(
        "a Python list of calls with named arguments between <|tool_call_start|> and <|tool_call_end|>",
        Form::each("{{name}}({{arguments}})", "{{key}}={{value}}", ", ", Values::Python(Quotes::Repr))
            .within("<|tool_call_start|>[", ", ", "]<|tool_call_end|>")
            .after_text(""),
    ),
    ..Format::DEFAULT
};

/// Olmo 3: one call per line.
pub static OLMO3: Format = Format {
    name: "olmo3",
    summary: "Python calls, one on each line, in <function_calls>",
    models: &["olmo-3*"],
    example: "<function_calls>\nget_weather(city=\"Paris\")\n</function_calls>",
    grammars: &[sections(&[("<function_calls>", "</function_calls>")])],
    teach: taught(
        "Python calls with named arguments, one a line, between <function_calls> tags",
        Form::each("{{name}}({{arguments}})", "{{key}}={{value}}", ", ", Values::Python(Quotes::Double))
            .within("<function_calls>\n", "\n", "\n</function_calls>"),
    ),
    ..Format::DEFAULT
};

/// Gemma 2 and 3, if the prompt asks for it.
pub static GEMMA3_TOOL_CODE: Format = Format {
    name: "gemma3_toolcode",
    summary: "a Python call, optionally in print(…), in a tool_code fence",
    models: &["gemma-2*", "gemma-3*", "gemma2*", "gemma3*"],
    example: "```tool_code\nget_weather(city='Paris')\n```",
    grammars: &[Grammar::Code { info: "tool_code", python: Python { prints: true, ..Python::PLAIN } }],
    teach: taught(
        "a Python call with named arguments in a tool_code code block",
        Form::each("{{name}}({{arguments}})", "{{key}}={{value}}", ", ", Values::Python(Quotes::Repr))
            .within("```tool_code\n", "\n", "\n```"),
    ),
    ..Format::DEFAULT
};

/// FunctionGemma.
pub static FUNCTION_GEMMA: Format = Format {
    name: "functiongemma",
    summary: "call:NAME{…} with bare keys and <escape> around strings, in <start_function_call>",
    models: &["functiongemma*"],
    example: "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
    grammars: &[gemma(&[("<start_function_call>", "<end_function_call>")], &["call:"], "<escape>")],
    teach: taught(
        "call:NAME with the arguments in braces between <start_function_call> and <end_function_call>",
        Form::each(
            "<start_function_call>call:{{name}}{{{arguments}}}<end_function_call>",
            "{{key}}:{{value}}",
            ",",
            Values::Delimited("<escape>"),
        )
        .within("", "", "")
        .after_text(""),
    ),
    ..Format::DEFAULT
};

/// Gemma 4. The word before the name may be missing.
pub static GEMMA4: Format = Format {
    name: "gemma4",
    summary: "call:NAME{…} with bare keys and <|\"|> around strings, in <|tool_call>",
    models: &["gemma-4*", "gemma4*"],
    example: r#"<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>"#,
    grammars: &[
        gemma(&[("<|tool_call>", "<tool_call|>")], &["call:", ":"], "<|\"|>"),
        GEMMA_THOUGHT,
        GEMMA_FRAME,
    ],
    teach: taught(
        "call:NAME with the arguments in braces between <|tool_call> and <tool_call|>",
        Form::each(
            "<|tool_call>call:{{name}}{{{arguments}}}<tool_call|>",
            "{{key}}:{{value}}",
            ",",
            Values::Delimited("<|\"|>"),
        )
        .within("", "", "")
        .after_text(""),
    ),
    ..Format::DEFAULT
};

/// Sarashina: a list of Python dictionaries, which are repaired to JSON. Servers may remove the marker, which is a
/// special token.
pub static SARASHINA: Format = Format {
    name: "sarashina",
    summary: "a Python list of dictionaries after <|tool_calls|>, or without a marker",
    models: &["*sarashina*"],
    example: "<|tool_calls|>[{'name': 'get_weather', 'arguments': {'city': 'Paris'}}]",
    grammars: &[
        Grammar::Tagged(&[Tag { open: "<|tool_calls|>", close: "", kind: TagKind::Marked }]),
        Grammar::Calls(Calls {
            sections: &[],
            open: &[],
            naked: true,
            noise: &[],
            place: Place::Bracket,
            body: CallBody::Dictionaries,
        }),
    ],
    teach: taught(
        "a Python list of dictionaries after <|tool_calls|>",
        Form::json(OBJECT).within("<|tool_calls|>[", ", ", "]"),
    ),
    ..Format::DEFAULT
};

/// The format of ReAct prompts.
pub static REACT: Format = Format {
    name: "react",
    summary: "Action: and Action Input: on separate lines; text after Observation: is dropped",
    auto: false,
    example: "Action: get_weather\nAction Input: {\"city\": \"Paris\"}",
    grammars: &[Grammar::Calls(Calls {
        sections: &[],
        open: &["Action:"],
        naked: true,
        noise: &[],
        place: Place::LineStart,
        body: CallBody::React,
    })],
    teach: taught(
        "`Action:` with the tool's name, and on the next line `Action Input:` with the arguments as JSON",
        Form::json("Action: {{name}}\nAction Input: {{arguments}}").answered("Observation: {{content}}"),
    ),
    ..Format::DEFAULT
};

/// The actions of UI-TARS, which are functions of the tool that operates a computer. Depending on the version, points
/// are in `point` or in `start_box`.
const COMPUTER: Action = Action {
    tool: "computer",
    key: "action",
    point: |function, key| {
        let (key, start) = match key {
            "point" => ("point", true),
            "start_point" | "start_box" => ("start_point", true),
            "end_point" | "end_box" => ("end_point", false),
            _ => return None,
        };
        let two = matches!(function, "drag" | "select" | "swipe");
        Some(if start && !two { "point" } else { key })
    },
};

/// UI-TARS.
pub static UI_TARS: Format = Format {
    name: "ui_tars",
    summary: "a Python call after Action: on a line, which is an action of the tool computer; Thought: is reasoning",
    models: &["*ui-tars*", "*uitars*"],
    auto: false,
    reasoning: ReasoningHabits { ended_by_calls: true },
    example: "Thought: I click the button.\nAction: click(point='<point>200 300</point>')",
    grammars: &[
        Grammar::Calls(Calls {
            sections: &[],
            open: &["Action:"],
            naked: true,
            noise: &[],
            place: Place::LineStart,
            body: CallBody::Python(Python { action: Some(COMPUTER), ..Python::PLAIN }),
        }),
        UI_TARS_THINK,
    ],
    teach: None,
};
