//! The formats in which models write tool calls as text. Each is a table that `detect` interprets.
//!
//! A [`Format`] defines how calls are recognised ([`Grammar`]), which models write them, and an example. The
//! module `teach` describes formats to models and shows them past calls.

mod calls;
mod channels;
mod choose;
mod custom;
mod dsml;
mod elements;
mod families;
mod header;
mod import;
mod json;
mod page;
mod pairs;
mod params;
mod place;
mod python;
mod rare_json;
mod reasoning;
mod table;
mod teach;

pub use calls::{Action, CallBody, Calls, Header, HeaderEnd, Python};
pub use channels::{
    BEAM, Channels, FUNCTIONARY_V2, FUNCTIONARY_V32, GLM4_9B, HARMONY, INKLING, KIMI_K3, MUSE_ATEM, Route,
    Voice,
};
pub use choose::{KnownFormats, auto, matches as glob_matches};
pub use custom::{CustomFormat, Definition, DefinitionError, all_and};
pub use dsml::{DEEPSEEK_V4, DEEPSEEK_V32, DEEPSEEK_V41, GIGACHAT35};
pub use elements::{CLINE, Elements, ElementsName, MINIMAX_M3, MORPH_XML, TOOLBRIDGE, TOOLIFY};
pub use families::prompt_opens_reasoning;
pub use header::{FUNCTION, FUNCTIONARY_V31, PLAMO3, SOLAR_OPEN};
pub use import::{Refused, import};
pub use json::{
    APERTUS, APRIEL_CALLS, COMMAND_R_PLUS, COMMAND_R7B, ERNIE45, GIGACHAT3, GIGACHAT31, GRANITE3, GRANITE4,
    GRANITE20B_FC, HERMES, HUNYUAN_A13B, INTERNLM2, JAMBA, K2_HORIZON, LLAMA3_JSON, LONGCAT, MINIMAX_M1,
    NEMOTRON_TOOLCALL, OPENAI_FUNCTION_CALL, PHI4_MINI, QWEN25, XLAM,
};
pub use page::page;
pub use pairs::{IQUEST, LAGUNA, SOLAR_OPEN2, TELECHAT4};
pub use params::{
    ANTHROPIC_LEGACY, DOTS, GLM45, GLM47, HY_V3, MIMO, MINICPM5, MINICPMV, MINIMAX_M2, QWEN3_CODER, SEED_OSS,
    STEP3,
};
pub use params::{Key, Params, ParamsName};
pub use place::Place;
pub use python::{
    FUNCTION_GEMMA, GEMMA3_TOOL_CODE, GEMMA4, LFM2, OLMO3, PYTHON_TAG, PYTHONIC, REACT, SARASHINA, UI_TARS,
};
pub use rare_json::{CALLING_TOOL, CWM, HYPERCLOVA, PANGU, RWKV, TRINITY};
pub(crate) use reasoning::{
    APRIEL, APRIEL_FRAME, COHERE, GEMMA_FRAME, GEMMA_THOUGHT, GLM_BOX, GRANITE, HUNYUAN, MINIMAX_THINK, SEED,
    THINKING, THOUGHT_COHERE, THOUGHT_K3,
};
pub use reasoning::{ReasoningHabits, SENTENCE_END, THINK, TURN_ENDS, Thought, is_token};
pub use table::{DEEPSEEK_V3, DEEPSEEK_V31, KIMI_K2, MISTRAL};
pub use teach::{
    ArgumentForm, Form, Instructed, Quotes, Teach, Teaching, Values, estimated_tokens, instruct,
    instruct_within,
};
use teach::{OBJECT, TOOL_RESPONSE, taught};

/// A way of writing tool calls as text.
#[derive(Debug)]
pub struct Format {
    /// The name used in configuration files and metrics.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// Globs over the names of models that write this format of their own accord.
    pub models: &'static [&'static str],
    /// Whether `detect = "auto"` searches for this format, because its openers do not occur in ordinary text
    /// or other rules prevent false matches. Other formats are searched for only if they are named in the
    /// configuration or implied by the model's name.
    pub auto: bool,
    /// How models that write this format mark their reasoning.
    pub reasoning: ReasoningHabits,
    /// A call as a model writes it.
    pub example: &'static str,
    /// The grammars that recognise the format.
    pub grammars: &'static [Grammar],
    /// How to teach the format. `None` if it is not a way of writing calls.
    pub teach: Option<Teach>,
}

impl Format {
    /// A format that `detect = "auto"` searches for, and whose models reason in the same way as most models.
    const DEFAULT: Self = Self {
        name: "",
        summary: "",
        models: &[],
        auto: true,
        reasoning: ReasoningHabits::DEFAULT,
        example: "",
        grammars: &[],
        teach: None,
    };
}

/// How a format is recognised in text.
#[derive(Debug)]
pub enum Grammar {
    /// JSON calls between an opening and a closing marker.
    Tagged(&'static [Tag]),
    /// JSON calls in a Markdown code fence.
    Fenced {
        /// The info strings, in lower case, that a fence with calls may have. A fence without an info string
        /// is always accepted.
        infos: &'static [&'static str],
    },
    /// Python calls in a Markdown code fence.
    Code {
        /// The info string of the fence.
        info: &'static str,
        /// The Python syntax.
        python: Python,
    },
    /// JSON calls without a marker.
    Bare,
    /// Calls with their own markers, with or without sections.
    Calls(Calls),
    /// Messages with headers, some of which are calls.
    Channels(Channels),
    /// Not calls: reasoning between markers, which is sent as reasoning.
    Reasoning(&'static [Thought]),
    /// Not calls: meaningless markup around the response, which is dropped. Words count only if the format was
    /// chosen by name.
    Frame(&'static [&'static str]),
}

/// A pair of markers. No opener may be a prefix of another one: the engine relies on this to decide what to
/// hold back, and a test checks it.
#[derive(Debug, PartialEq, Eq)]
pub struct Tag {
    /// The opening marker. For an HTML element it does not include the closing `>`, since attributes may
    /// follow.
    pub open: &'static str,
    /// The closing marker. Empty if there is none and the calls end with their JSON.
    pub close: &'static str,
    /// How strictly calls between the markers are parsed.
    pub kind: TagKind,
}

/// How strictly calls between markers are parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagKind {
    /// The markers occur only around tool calls. Calls to undeclared tools are accepted, and Python-like JSON
    /// is repaired.
    Marked,
    /// Like `Marked`, but with these exceptions.
    Special(Special),
    /// An HTML element. Its name may be in any case, its tag may have attributes, and its content may be in a
    /// `<code>` element. Ordinary text contains such elements too, so the content counts as a call only if it
    /// is strict JSON and names a declared tool.
    Html,
}

/// How a marker differs from other markers that occur only around tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Special {
    /// Whether a call is an object with a single member, whose key is the name and whose value is the
    /// arguments.
    pub keyed: bool,
    /// Whether the opener also occurs in ordinary text. If so, it is recognised only at the start of a line,
    /// and only declared tools can be called.
    pub common: bool,
    /// Meaningless markers that may occur before, between and after the calls.
    pub inner: &'static [&'static str],
    /// Names by which the model says that it calls no tool. Such a call is dropped, unless a tool of that
    /// name is declared.
    pub no_tool: &'static [&'static str],
}

impl Special {
    /// No exceptions.
    pub const NONE: Self = Self { keyed: false, common: false, inner: &[], no_tool: &[] };
}

impl Format {
    /// The markers with which calls start.
    pub fn openers(&self) -> Vec<&'static str> {
        let openers = self.grammars.iter().flat_map(|grammar| match grammar {
            Grammar::Tagged(tags) => tags.iter().map(|tag| tag.open).collect(),
            Grammar::Calls(calls) => {
                let sections = calls.sections.iter().map(|(open, _)| *open);
                sections.chain(calls.open.iter().filter(|_| calls.naked).copied()).collect()
            }
            _ => Vec::new(),
        });
        openers.collect()
    }
}

/// Formats are equal if their names are.
impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl Tag {
    /// Where the opener is recognised. One that occurs in ordinary text must be at the start of a line.
    pub fn place(&self) -> Place {
        if self.special().common { Place::LineStart } else { Place::Anywhere }
    }

    /// How this pair of markers differs from other pairs.
    pub fn special(&self) -> Special {
        if let TagKind::Special(special) = self.kind { special } else { Special::NONE }
    }
}

/// `<pre>{…}</pre>`. Lumo writes this because its output is rendered like HTML.
pub static PRE: Format = Format {
    name: "pre",
    summary: "a JSON object in an HTML <pre> element, optionally with <code> inside",
    models: &["lumo*"],
    example: r#"<pre>{"name": "get_weather", "arguments": {"city": "Paris"}}</pre>"#,
    grammars: &[Grammar::Tagged(&[Tag { open: "<pre", close: "</pre>", kind: TagKind::Html }])],
    teach: taught(
        "a JSON object in a <pre> element",
        Form::json(r#"<pre>{"name": {{json_name}}, "arguments": {{arguments}}}</pre>"#)
            .answered(TOOL_RESPONSE),
    ),
    ..Format::DEFAULT
};

const FENCE_INFOS: &[&str] =
    &["json", "jsonc", "json5", "tool", "tool_call", "tool_calls", "tool_code", "function_call"];

/// JSON in a Markdown fence.
pub static FENCED: Format = Format {
    name: "fenced",
    summary: "JSON in a Markdown code fence of backticks or tildes",
    models: &["lumo*"],
    example: "```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n```",
    grammars: &[Grammar::Fenced { infos: FENCE_INFOS }],
    teach: taught(
        "a JSON object in a json code block of its own",
        Form::json("```json\n{\"name\": {{json_name}}, \"arguments\": {{arguments}}}\n```")
            .answered(TOOL_RESPONSE),
    ),
    ..Format::DEFAULT
};

/// A JSON object or array without markers.
pub static BARE: Format = Format {
    name: "bare",
    summary: "a JSON object, or an array of them, without a marker",
    models: &["qwen2.5-coder*", "llama-3*"],
    example: r#"{"name": "get_weather", "arguments": {"city": "Paris"}}"#,
    grammars: &[Grammar::Bare],
    teach: taught("a JSON object on lines of its own", Form::json(OBJECT).answered(TOOL_RESPONSE)),
    ..Format::DEFAULT
};

/// All formats. `detect = "auto"` searches for all those with [`Format::auto`] at the same time.
pub static ALL: &[&Format] = &[
    &PRE,
    &FENCED,
    &BARE,
    &OPENAI_FUNCTION_CALL,
    &HERMES,
    &QWEN25,
    &GRANITE4,
    &ERNIE45,
    &LONGCAT,
    &TRINITY,
    &PANGU,
    &HYPERCLOVA,
    &RWKV,
    &CALLING_TOOL,
    &CWM,
    &GRANITE3,
    &GRANITE20B_FC,
    &JAMBA,
    &HUNYUAN_A13B,
    &APRIEL_CALLS,
    &MINIMAX_M1,
    &NEMOTRON_TOOLCALL,
    &LLAMA3_JSON,
    &PHI4_MINI,
    &INTERNLM2,
    &XLAM,
    &APERTUS,
    &GIGACHAT3,
    &GIGACHAT31,
    &GIGACHAT35,
    &COMMAND_R_PLUS,
    &COMMAND_R7B,
    &K2_HORIZON,
    &MISTRAL,
    &DEEPSEEK_V31,
    &DEEPSEEK_V3,
    &KIMI_K2,
    &HARMONY,
    &BEAM,
    &MUSE_ATEM,
    &KIMI_K3,
    &FUNCTIONARY_V2,
    &FUNCTIONARY_V32,
    &GLM4_9B,
    &INKLING,
    &FUNCTIONARY_V31,
    &PLAMO3,
    &SOLAR_OPEN,
    &QWEN3_CODER,
    &MIMO,
    &MINICPMV,
    &SEED_OSS,
    &GLM45,
    &GLM47,
    &LAGUNA,
    &IQUEST,
    &TELECHAT4,
    &SOLAR_OPEN2,
    &HY_V3,
    &MINIMAX_M2,
    &DEEPSEEK_V32,
    &DEEPSEEK_V4,
    &DEEPSEEK_V41,
    &STEP3,
    &DOTS,
    &MINICPM5,
    &ANTHROPIC_LEGACY,
    &MINIMAX_M3,
    &TOOLIFY,
    &TOOLBRIDGE,
    &CLINE,
    &MORPH_XML,
    &PYTHONIC,
    &LFM2,
    &OLMO3,
    &GEMMA3_TOOL_CODE,
    &FUNCTION_GEMMA,
    &GEMMA4,
    &SARASHINA,
    &REACT,
    &UI_TARS,
    &THINK,
];

/// The names of these formats.
pub fn names(formats: &[&Format]) -> Vec<&'static str> {
    formats.iter().map(|format| format.name).collect()
}

/// The format with this name.
pub fn by_name(name: &str) -> Option<&'static Format> {
    ALL.iter().copied().find(|format| format.name == name)
}
