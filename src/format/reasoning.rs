//! Reasoning between markers, and markup around the answer that means nothing.

use super::{Format, Grammar, Place};

/// A pair of markers with reasoning between them. They are read in any case of their letters; `*` is a checkpoint's
/// suffix, with its colon, or nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct Thought {
    /// The opening marker.
    pub open: &'static str,
    /// The closing markers: one of them.
    pub close: &'static [&'static str],
    /// Where the opener counts.
    pub place: Place,
    /// Where a closer may stand without its opener, at the beginning of the message, and is dropped.
    pub bare: bool,
    /// It is prose: it counts only where the format is chosen by name.
    pub chosen: bool,
}

/// How the models that write a format reason, where that is not the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasoningHabits {
    /// A call's opener inside reasoning ends the reasoning if a call follows it. This holds only where the format is
    /// chosen by name. Everywhere else reasoning is opaque: calls in it are quoted or planned.
    pub ended_by_calls: bool,
    /// Globs over the names of models whose chat template opens the reasoning, so that an answer starts inside it
    /// (docs/protocols/text-formats.md#reasoning).
    /// Only models that always reason are listed: where it depends on the request, the configuration must say so.
    pub opened_by_prompt: &'static [&'static str],
}

impl ReasoningHabits {
    /// Reasoning begins and ends with its own markers.
    pub const DEFAULT: Self = Self { ended_by_calls: false, opened_by_prompt: &[] };
}

/// A word in angle brackets: prose may speak of it, so it begins a line.
const fn word(open: &'static str, close: &'static [&'static str]) -> Thought {
    Thought { open, close, place: Place::LineStart, bare: false, chosen: false }
}

/// A word that documents have for other things, too: it begins the message.
const fn first(open: &'static str, close: &'static [&'static str]) -> Thought {
    Thought { open, close, place: Place::MessageStart, bare: false, chosen: false }
}

/// Words of a sentence.
const fn phrase(open: &'static str, close: &'static [&'static str]) -> Thought {
    Thought { chosen: true, ..first(open, close) }
}

/// A special token.
const fn token(open: &'static str, close: &'static [&'static str]) -> Thought {
    Thought { open, close, place: Place::Anywhere, bare: false, chosen: false }
}

/// Reasoning in the tags of many models.
pub static THINK: Format = Format {
    name: "think",
    summary: "reasoning in <think> or a similar tag at the start of a line; sent to the reasoning channel and not searched for calls",
    models: &["deepseek-r1*", "qwen3*", "qwq*", "glm-4.5*", "kimi*"],
    auto: true,
    reasoning: ReasoningHabits {
        opened_by_prompt: &["deepseek-r1*", "qwq*", "qwen3*thinking*"],
        ..ReasoningHabits::DEFAULT
    },
    example: "<think>The user wants the weather.</think>",
    grammars: &[Grammar::Reasoning(&[
        Thought { bare: true, ..word("<think*>", &["</think*>"]) },
        Thought { bare: true, ..word("<mm:think>", &["</mm:think>"]) },
        word("<seed:think>", &["</seed:think>"]),
        word("<thinking>", &["</thinking>"]),
        word("<reasoning>", &["</reasoning>"]),
        word("<scratch_pad>", &["</scratch_pad>"]),
        first("<analysis>", &["</analysis>"]),
        token("[THINK]", &["[/THINK]"]),
        token("<|START_THINKING|>", &["<|END_THINKING|>"]),
        token("<|channel>thought", &["<channel|>"]),
        token("<|plamo:begin_think:plamo|>", &["<|plamo:end_think:plamo|>"]),
        token("<ifm|think>", &["</ifm|think>"]),
        token("<ifm|think_fast>", &["</ifm|think_fast>"]),
        token("<ifm|think_faster>", &["</ifm|think_faster>"]),
    ])],
    teach: None,
};

/// Cohere's tokens.
pub(crate) const THOUGHT_COHERE: Grammar =
    Grammar::Reasoning(&[token("<|START_THINKING|>", &["<|END_THINKING|>"])]);

/// Seed's tag.
pub(crate) const SEED: Grammar = Grammar::Reasoning(&[word("<seed:think>", &["</seed:think>"])]);

/// MiniMax's tag; a turn without reasoning begins with the bare closer.
pub(crate) const MINIMAX_THINK: Grammar =
    Grammar::Reasoning(&[Thought { bare: true, ..word("<mm:think>", &["</mm:think>"]) }]);

/// The tag of Cline's prompt.
pub(crate) const THINKING: Grammar = Grammar::Reasoning(&[word("<thinking>", &["</thinking>"])]);

/// Gemma 4's channel.
pub(crate) const GEMMA_THOUGHT: Grammar = Grammar::Reasoning(&[token("<|channel>thought", &["<channel|>"])]);

/// Kimi K3's element.
pub(crate) const THOUGHT_K3: Grammar =
    Grammar::Reasoning(&[token("<|open|>think<|sep|>", &["<|close|>think<|sep|>"])]);

/// Granite 3.2's phrases.
pub(crate) const GRANITE: Grammar = Grammar::Reasoning(&[
    phrase("Here is my thought process:", RESPONSE),
    phrase("Here's my thought process:", RESPONSE),
]);

const RESPONSE: &[&str] = &["Here is my response:", "Here's my response:"];

/// Apriel's phrase, and the mark of its answer.
pub(crate) const APRIEL: Grammar =
    Grammar::Reasoning(&[phrase("Here are my reasoning steps:", &["[BEGIN FINAL RESPONSE]"])]);

/// The mark behind Apriel's answer.
pub(crate) const APRIEL_FRAME: Grammar = Grammar::Frame(&["[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"]);

/// Hunyuan's tags around the answer.
pub(crate) const HUNYUAN: Grammar = Grammar::Frame(&["<answer>", "</answer>"]);

/// Cohere's marks around the answer.
pub(crate) const COHERE: Grammar =
    Grammar::Frame(&["<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"]);
