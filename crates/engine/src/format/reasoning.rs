//! Reasoning between markers, and meaningless markup around responses.

use super::{Format, Grammar, Place};

/// Markers around reasoning. Case is ignored, and `*` stands for a colon and the checkpoint's suffix, or for
/// nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct Thought {
    /// The opening marker.
    pub open: &'static str,
    /// The closing markers. Any of them may end the reasoning.
    pub close: &'static [&'static str],
    /// Where the opener is recognised.
    pub place: Place,
    /// Whether a closer without its opener is dropped: a special token wherever it occurs, a word only at the
    /// start of the message.
    pub bare: bool,
    /// Whether the markers also occur in prose. If so, they are recognised only if the format was chosen by
    /// name.
    pub chosen: bool,
}

impl Thought {
    /// Whether text does not contain the closers for any other reason, so that one without its opener shows that
    /// the prompt had it.
    pub fn closes_anywhere(&self) -> bool {
        let is_distinct = |close: &&str| ["</think*>", "</mm:think>", "</seed:think>"].contains(close);
        !self.chosen && (self.place == Place::Anywhere || self.close.iter().any(is_distinct))
    }
}

/// How models that write a format mark their reasoning, where this differs from the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasoningHabits {
    /// Whether a call ends the reasoning as soon as it begins. Otherwise it does so only if nothing but calls
    /// follows it in the message (docs/protocols/text-formats.md#reasoning). Both apply only if the format was
    /// chosen by name: the calls of other formats in reasoning are quotations, and are not detected.
    pub ended_by_calls: bool,
}

impl ReasoningHabits {
    /// Reasoning starts and ends with its own markers.
    pub const DEFAULT: Self = Self { ended_by_calls: false };
}

/// A word in angle brackets. Prose may mention it, so it must be at the start of a line.
const fn word(open: &'static str, close: &'static [&'static str]) -> Thought {
    Thought { open, close, place: Place::LineStart, bare: true, chosen: false }
}

/// A word that documents also use for other things, so it must be at the start of the message.
const fn first(open: &'static str, close: &'static [&'static str]) -> Thought {
    Thought { open, close, place: Place::MessageStart, bare: true, chosen: false }
}

/// A phrase of ordinary words.
const fn phrase(open: &'static str, close: &'static [&'static str]) -> Thought {
    Thought { bare: false, chosen: true, ..first(open, close) }
}

const fn token(open: &'static str, close: &'static [&'static str]) -> Thought {
    Thought { open, close, place: Place::Anywhere, bare: true, chosen: false }
}

/// Reasoning in tags that many models use.
pub static THINK: Format = Format {
    name: "think",
    summary: "reasoning in <think> or a similar tag at the start of a line; sent to the reasoning channel and not searched for calls",
    models: &["deepseek-r1*", "qwen3*", "qwq*", "glm-4.5*", "kimi*"],
    example: "<think>The user wants the weather.</think>",
    grammars: &[Grammar::Reasoning(&[
        word("<think*>", &["</think*>"]),
        word("<mm:think>", &["</mm:think>"]),
        word("<seed:think>", &["</seed:think>"]),
        word("<thinking>", &["</thinking>"]),
        word("<reasoning>", &["</reasoning>"]),
        word("<scratch_pad>", &["</scratch_pad>"]),
        word("<longcat_think>", &["</longcat_think>"]),
        first("<analysis>", &["</analysis>"]),
        token("[THINK]", &["[/THINK]"]),
        COHERE_THOUGHT,
        GEMMA_CHANNEL,
        token("<|plamo:begin_think:plamo|>", &["<|plamo:end_think:plamo|>"]),
        token("<|inner_prefix|>", &["<|inner_suffix|>"]),
        token("<reserved_12>", &["<reserved_13>"]),
        token("<ifm|think>", &["</ifm|think>"]),
        token("<ifm|think_fast>", &["</ifm|think_fast>"]),
        token("<ifm|think_faster>", &["</ifm|think_faster>"]),
    ])],
    teach: None,
    ..Format::DEFAULT
};

/// The openers of Cohere's response also end the reasoning.
const COHERE_THOUGHT: Thought =
    token("<|START_THINKING|>", &["<|END_THINKING|>", "<|START_RESPONSE|>", "<|START_TEXT|>"]);

pub(crate) const THOUGHT_COHERE: Grammar = Grammar::Reasoning(&[COHERE_THOUGHT]);

pub(crate) const SEED: Grammar = Grammar::Reasoning(&[word("<seed:think>", &["</seed:think>"])]);

/// MiniMax's tag. Turns without reasoning start with the bare closer.
pub(crate) const MINIMAX_THINK: Grammar = Grammar::Reasoning(&[word("<mm:think>", &["</mm:think>"])]);

pub(crate) const THINKING: Grammar = Grammar::Reasoning(&[word("<thinking>", &["</thinking>"])]);

/// The opener of another channel also ends Gemma's reasoning.
const GEMMA_CLOSE: &[&str] = &["<channel|>", "<|channel>response", "<|channel>final"];
const GEMMA_CHANNEL: Thought = token("<|channel>thought", GEMMA_CLOSE);

/// Servers that strip special tokens leave the channel's name.
pub(crate) const GEMMA_THOUGHT: Grammar =
    Grammar::Reasoning(&[GEMMA_CHANNEL, phrase("thought\n", GEMMA_CLOSE)]);

/// Gemma's opener of a channel when no known channel follows.
pub(crate) const GEMMA_FRAME: Grammar = Grammar::Frame(&["<|channel>"]);

/// A response that the model writes while it should reason also ends the reasoning.
pub(crate) const THOUGHT_K3: Grammar = Grammar::Reasoning(&[token(
    "<|open|>think<|sep|>",
    &["<|close|>think<|sep|>", "<|open|>response<|sep|>"],
)]);

pub(crate) const GRANITE: Grammar = Grammar::Reasoning(&[
    phrase("Here is my thought process:", RESPONSE),
    phrase("Here's my thought process:", RESPONSE),
]);

const RESPONSE: &[&str] = &["Here is my response:", "Here's my response:"];

/// Apriel's phrase, and the marker with which its final text starts.
pub(crate) const APRIEL: Grammar =
    Grammar::Reasoning(&[phrase("Here are my reasoning steps:", &["[BEGIN FINAL RESPONSE]"])]);

/// The markers around Apriel's final text.
pub(crate) const APRIEL_FRAME: Grammar = Grammar::Frame(&["[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"]);

/// Hunyuan's tags around the final text.
pub(crate) const HUNYUAN: Grammar = Grammar::Frame(&["<answer>", "</answer>"]);

/// The tokens with which models end a turn. They are dropped at the end of the text and right after a call.
pub const TURN_ENDS: &[&str] = &[
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|end_of_sentence|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|role_end|>",
    "<|user|>",
    "<|observation|>",
    "<|plamo:tag|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<|end▁of▁sentence|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<start_function_response>",
    "<seed:eos>",
];

/// A turn's end that is also an HTML tag, so at the end of the text it counts only if formats were chosen by name.
pub const SENTENCE_END: &str = "</s>";

/// Whether a marker is written like a special token, which does not occur in prose.
pub fn is_token(marker: &str) -> bool {
    let bracketed = || marker.starts_with('[') && !marker.contains(' ');
    marker.contains(['|', '｜']) || marker.starts_with(']') || bracketed()
}

/// Cohere's markers around the final text, and around what a citation supports.
pub(crate) const COHERE: Grammar = Grammar::Frame(&[
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<co>",
    "</co*>",
]);

/// GLM's markers around the result.
pub(crate) const GLM_BOX: Grammar = Grammar::Frame(&["<|begin_of_box|>", "<|end_of_box|>"]);

/// Solar Open's reasoning, which is a message of its own. The opener of the answer also ends it.
pub(crate) const SOLAR_THINK: Grammar =
    Grammar::Reasoning(&[Thought { chosen: true, ..token("<|think|>", &["<|end|>", "<|content|>"]) }]);

/// The start and the end of Solar Open's messages.
pub(crate) const SOLAR_FRAME: Grammar = Grammar::Frame(&["<|begin|>assistant", "<|end|>"]);

/// Pangu's tokens around reasoning.
pub(crate) const PANGU_THINK: Grammar = Grammar::Reasoning(&[phrase("[unused16]", &["[unused17]"])]);

/// HyperCLOVA's reasoning, which is a message of its own.
pub(crate) const HYPERCLOVA_THINK: Grammar = Grammar::Reasoning(&[phrase("/think", &["<|im_end|>"])]);

/// The markers between HyperCLOVA's messages.
pub(crate) const HYPERCLOVA_FRAME: Grammar = Grammar::Frame(&["<|im_end|>", "<|im_start|>assistant"]);

/// UI-TARS's reasoning, which only an action ends.
pub(crate) const UI_TARS_THINK: Grammar =
    Grammar::Reasoning(&[phrase("Thought:", &[]), phrase("Reflection:", &[])]);
