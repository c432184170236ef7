//! Formats whose arguments are elements: the tag is the key, and elements may be nested.

use super::{
    CallBody, Calls, Format, Grammar, MINIMAX_THINK, Place, ReasoningHabits, THINKING,
    teach::{Form, Values, taught},
};

/// A call whose arguments are elements.
#[derive(Debug)]
pub struct Elements {
    /// Where the call's name is.
    pub name: ElementsName,
    /// The prefix of the name of every tag.
    pub sign: &'static str,
    /// The opener and closer of an id that may precede the name. Empty if there is none.
    pub id: (&'static str, &'static str),
    /// The openers and closers of elements that may enclose the arguments, or separate the name from them.
    pub around: &'static [(&'static str, &'static str)],
    /// The openers and closers of elements that contain all arguments as JSON.
    pub json: &'static [(&'static str, &'static str)],
    /// The closers of the call, in which `%` stands for its name.
    pub end: &'static [&'static str],
    /// Whether to strip one line break before and after each value.
    pub trim: bool,
    /// Whether an array in the schema may be written as a repeated element.
    pub repeats: bool,
    /// Whether values may have CDATA sections.
    pub cdata: bool,
    /// Whether values may have XML entities.
    pub entities: bool,
}

/// Where a call's name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementsName {
    /// In the name of the opening tag.
    Opener,
    /// In the attribute named by the first string. The tag starts with the opener and ends with the second
    /// string.
    Attribute(&'static str, &'static str),
    /// In the content of the first element. These are the openers and closers that the element may have.
    Element(&'static [(&'static str, &'static str)]),
}

const TAGS: Elements = Elements {
    name: ElementsName::Opener,
    sign: "",
    id: ("", ""),
    around: &[("<args>", "</args>")],
    json: &[],
    end: &["</%>"],
    trim: true,
    repeats: false,
    cdata: false,
    entities: false,
};

/// Anthropic's format of 2023, which its format of 2024 includes.
pub(super) const ANTHROPIC_2023: Elements = Elements {
    name: ElementsName::Element(&[("<tool_name>", "</tool_name>")]),
    around: &[("<parameters>", "</parameters>")],
    end: &["</*invoke>"],
    trim: false,
    ..TAGS
};

const fn calls(
    sections: &'static [(&'static str, &'static str)],
    open: &'static [&'static str],
    naked: bool,
    body: Elements,
) -> Grammar {
    let place = if naked && sections.is_empty() { Place::LineStart } else { Place::Anywhere };
    let noise = &["<function_calls>", "<tool_calls>"];
    Grammar::Calls(Calls { sections, open, naked, noise, place, body: CallBody::Elements(body) })
}

/// MiniMax-M3.
pub static MINIMAX_M3: Format = Format {
    name: "minimax_m3",
    summary: "elements that nest, with ]<]minimax[>[ before every tag",
    models: &["minimax-m3*"],
    example: "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    grammars: &[
        calls(
            &[("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>")],
            &["]<]minimax[>[<invoke "],
            true,
            Elements {
                name: ElementsName::Attribute("name", ">"),
                sign: "]<]minimax[>[",
                around: &[],
                end: &["]<]minimax[>[</invoke>"],
                trim: false,
                ..TAGS
            },
        ),
        MINIMAX_THINK,
    ],
    reasoning: ReasoningHabits { ended_by_calls: true },
    teach: taught(
        "a tag for the tool and one for every argument, each behind the mark",
        Form::each(
            r#"]<]minimax[>[<invoke name="{{name}}">{{arguments}}]<]minimax[>[</invoke>"#,
            "]<]minimax[>[<{{key}}>{{value}}]<]minimax[>[</{{key}}>",
            "",
            Values::Elements,
        )
        .within("]<]minimax[>[<tool_call>\n", "\n", "\n]<]minimax[>[</tool_call>")
        .after_text(""),
    ),
    ..Format::DEFAULT
};

/// toolbridge.
pub static TOOLBRIDGE: Format = Format {
    name: "toolbridge",
    summary: "the tool's name and its arguments as tags, in <toolbridge_calls>",
    example: "<toolbridge_calls>\n<get_weather>\n<city>Paris</city>\n</get_weather>\n</toolbridge_calls>",
    grammars: &[calls(
        &[
            ("<toolbridge_calls>", "</toolbridge_calls>"),
            ("<tool_call>", "</tool_call>"),
            ("<wrapper>", "</wrapper>"),
        ],
        &["<%>"],
        false,
        TAGS,
    )],
    auto: false,
    teach: taught(
        "a tag for the tool and one for every argument between <toolbridge_calls> tags",
        Form::each(
            "<{{name}}>\n{{arguments}}</{{name}}>",
            "<{{key}}>{{value}}</{{key}}>\n",
            "",
            Values::Elements,
        )
        .within("<toolbridge_calls>\n", "\n", "\n</toolbridge_calls>"),
    ),
    ..Format::DEFAULT
};

/// Cline and Roo.
pub static CLINE: Format = Format {
    name: "cline",
    summary: "the tool's name and its arguments as tags; reasoning in <thinking>",
    example: "<get_weather>\n<city>Paris</city>\n</get_weather>",
    grammars: &[THINKING, calls(&[], &["<%>"], true, TAGS)],
    auto: false,
    teach: taught(
        "a tag for the tool and one for every argument",
        Form::each(
            "<{{name}}>\n{{arguments}}</{{name}}>",
            "<{{key}}>{{value}}</{{key}}>\n",
            "",
            Values::Elements,
        ),
    ),
    ..Format::DEFAULT
};

/// Morph and Sijawara.
pub static MORPH_XML: Format = Format {
    name: "morph_xml",
    summary: "the tool's name and its arguments as tags; a list is a repeated tag",
    example: "<get_weather>\n<city>Paris</city>\n</get_weather>",
    grammars: &[calls(&[], &["<%>"], true, Elements { repeats: true, ..TAGS })],
    auto: false,
    teach: None,
    ..Format::DEFAULT
};

/// Toolify and toolify-rs.
pub static TOOLIFY: Format = Format {
    name: "toolify",
    summary: "a trigger, then <function_call> with <tool> and <args_json> in <function_calls>",
    example: "<Function_Ab1C_Start/>\n<function_calls>\n<function_call>\n<tool>get_weather</tool>\n<args_json><![CDATA[{\"city\": \"Paris\"}]]></args_json>\n</function_call>\n</function_calls>",
    grammars: &[calls(
        &[("<Function_%/>", "</function_calls>")],
        &["<function_call>", "<invoke>"],
        false,
        Elements {
            name: ElementsName::Element(&[("<tool>", "</tool>"), ("<name>", "</name>")]),
            id: ("<id>", "</id>"),
            around: &[("<args>", "</args>"), ("<parameters>", "</parameters>")],
            json: &[("<args_json>", "</args_json>"), ("<arguments>", "</arguments>")],
            end: &["</function_call>", "</invoke>"],
            trim: false,
            cdata: true,
            entities: true,
            ..TAGS
        },
    )],
    teach: taught("the trigger line, then the tool and its arguments as JSON in tags", Form::json("<function_call>\n<tool>{{name}}</tool>\n<args_json><![CDATA[{{arguments}}]]></args_json>\n</function_call>").within("<Function_Ab1C_Start/>\n<function_calls>\n", "\n", "\n</function_calls>")),
    ..Format::DEFAULT
};
