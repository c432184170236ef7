//! [`FACTS`]: what models and servers refuse, each with its source and the date on which it was read there.
//!
//! `docs/dialects.md` has the table, generated from this one. To add a fact, add it here: nothing else depends on the
//! names of models. A fact is about what is refused with an error: what a server ignores need not be left out.

use super::{
    names::{Models, Name},
    rules::{Accepted, Rule},
};

/// What some models refuse.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) models: &'static [Models],
    /// The providers at which this holds, by the words of the setting `profile`. Empty if it holds everywhere.
    pub(super) at: &'static [&'static str],
    pub(super) rules: &'static [Rule],
    /// The date on which the source was read.
    pub(super) taken: &'static str,
    /// Issues or pull requests (`owner/repository#number`), an SDK with its version, or a page of documentation.
    pub(super) source: &'static str,
}

/// A fact that holds everywhere.
const fn fact(
    models: &'static [Models],
    rules: &'static [Rule],
    taken: &'static str,
    source: &'static str,
) -> Fact {
    Fact { models, at: &[], rules, taken, source }
}

impl Fact {
    /// Whether the fact is about the model with this name.
    pub(super) fn is_about(&self, name: &Name) -> bool {
        self.models.iter().any(|models| models.are(name))
    }

    /// The fact, if it only holds at these providers.
    const fn at(self, providers: &'static [&'static str]) -> Self {
        Self { at: providers, ..self }
    }
}

const fn refused(member: &'static str, accepted: Accepted) -> Rule {
    Rule::Refused { member, accepted }
}

const fn never(member: &'static str) -> Rule {
    refused(member, Accepted::Nothing)
}

/// What OpenAI's reasoning models refuse.
const SAMPLING: &[Rule] = &[
    refused("temperature", Accepted::Only(1.0)),
    refused("top_p", Accepted::Only(1.0)),
    refused("presence_penalty", Accepted::Only(0.0)),
    refused("frequency_penalty", Accepted::Only(0.0)),
    never("logprobs"),
    never("top_logprobs"),
    never("logit_bias"),
];

/// What later ones refuse unless they do not reason.
const fn while_reasoning(member: &'static str, by_default: bool) -> Rule {
    refused(member, Accepted::WithoutReasoning { by_default })
}

/// Words in the names of OpenAI's models that accept other efforts, or do not reason.
const OTHER_KINDS: &[&str] = &["codex", "pro", "chat"];

const fn gpt(major: u32, minor: u32) -> Models {
    Models::of("gpt").since(major, minor).without(OTHER_KINDS)
}

/// All facts. A fact applies to what the facts before it have left of a request.
pub(super) const FACTS: &[Fact] = &[
    fact(
        &[Models::of("claude").since(4, 7), Models::of("claude-mythos-preview")],
        &[
            refused("temperature", Accepted::Only(1.0)),
            refused("top_p", Accepted::AtLeast(0.99)),
            never("top_k"),
        ],
        "2026-11-29",
        "@anthropic-ai/sdk 0.137.0",
    ),
    fact(
        &[Models::of("claude").since(4, 7)],
        &[Rule::NoThinkingBudget],
        "2026-11-29",
        "anomalyco/opencode#23007",
    ),
    fact(
        &[Models::of("claude").since(5, 1).with(&["fable", "mythos"])],
        &[Rule::NoForcedCall, Rule::AlwaysThinks],
        "2026-11-29",
        "anthropics/claude-cookbooks#854, withceleste/celeste-python#393",
    ),
    fact(
        &[gpt(5, 6)],
        &[Rule::NoEffortWithTools { by_default: true }],
        "2026-11-29",
        "BerriAI/litellm#34569, livekit/agents#7169",
    )
    .at(&["openai", "azure"]),
    fact(
        &[gpt(5, 4)],
        &[Rule::NoEffortWithTools { by_default: false }],
        "2026-11-29",
        "openai/openai-openapi#541",
    )
    .at(&["openai", "azure"]),
    fact(
        &[Models::of("gpt").before(5, 0), Models::of("gpt-4o")],
        &[Rule::Efforts(&[])],
        "2026-11-29",
        "AAswordman/Operit#1048, BoundaryML/baml#2708",
    ),
    fact(
        &[gpt(5, 0).before(5, 1)],
        &[Rule::Efforts(&["minimal", "low", "medium", "high"])],
        "2026-11-29",
        "openai/codex#2296",
    ),
    fact(
        &[gpt(5, 1).before(5, 2)],
        &[Rule::Efforts(&["none", "low", "medium", "high"])],
        "2026-11-29",
        "anomalyco/opencode#4451",
    ),
    fact(
        &[gpt(5, 2).before(5, 6)],
        &[Rule::Efforts(&["none", "low", "medium", "high", "xhigh"])],
        "2026-11-29",
        "anomalyco/models.dev#2296",
    ),
    fact(
        &[gpt(5, 6)],
        &[Rule::Efforts(&["none", "low", "medium", "high", "xhigh", "max"])],
        "2026-11-29",
        "livekit/agents#7169, openai 6.49.0 (npm)",
    ),
    fact(
        &[Models::of("gpt").since(5, 0).before(5, 2).with(&["codex"]).without(&["max"])],
        &[Rule::Efforts(&["low", "medium", "high"])],
        "2026-11-29",
        "openai/codex#6647",
    ),
    fact(
        &[Models::of("gpt").since(5, 2).with(&["codex"])],
        &[Rule::Efforts(&["low", "medium", "high", "xhigh"])],
        "2026-11-29",
        "anomalyco/models.dev#2296",
    ),
    fact(
        &[Models::of("gpt").since(5, 2).with(&["pro"])],
        &[Rule::Efforts(&["medium", "high", "xhigh"])],
        "2026-11-29",
        "anomalyco/models.dev#2296",
    ),
    fact(
        &[
            Models::of("gpt").since(5, 0).before(5, 1).without(&["chat"]),
            Models::of("o1"),
            Models::of("o3"),
            Models::of("o4-mini"),
        ],
        SAMPLING,
        "2026-11-29",
        "Sefaria/AppliedAI#47, https://platform.openai.com/docs/guides/reasoning",
    ),
    fact(
        &[gpt(5, 1).before(5, 5)],
        &[
            while_reasoning("temperature", true),
            while_reasoning("top_p", true),
            while_reasoning("logprobs", true),
            while_reasoning("top_logprobs", true),
        ],
        "2026-11-29",
        "langchain-ai/langchain#35424, langgenius/dify-official-plugins#2821",
    ),
    fact(
        &[gpt(5, 5)],
        &[
            while_reasoning("temperature", false),
            while_reasoning("top_p", false),
            while_reasoning("logprobs", false),
            while_reasoning("top_logprobs", false),
        ],
        "2026-11-29",
        "langgenius/dify-official-plugins#2821, BerriAI/litellm#34569",
    ),
    fact(
        &[Models::of("o1"), Models::of("o3"), Models::of("o4-mini")],
        &[Rule::Efforts(&["low", "medium", "high"])],
        "2026-11-29",
        "https://platform.openai.com/docs/guides/reasoning",
    ),
    fact(&[Models::of("o3"), Models::of("o4-mini")], &[never("stop")], "2026-11-29", "openai 6.49.0 (npm)"),
    fact(
        &[Models::of("gpt").since(5, 0), Models::of("o1"), Models::of("o3"), Models::of("o4-mini")],
        &[Rule::LimitIncludesReasoning],
        "2026-11-29",
        "openai 6.49.0 (npm)",
    ),
    fact(
        &[
            Models::of("gpt").since(3, 5),
            Models::of("gpt-4o"),
            Models::of("o1"),
            Models::of("o3"),
            Models::of("o4-mini"),
        ],
        &[Rule::StrictSchemas],
        "2026-11-29",
        "containers/kubernetes-mcp-server#717",
    ),
    fact(
        &[Models::of("gemini").since(2, 5)],
        &[
            refused("presence_penalty", Accepted::Only(0.0)),
            refused("frequency_penalty", Accepted::Only(0.0)),
        ],
        "2026-11-29",
        "google-gemini/cookbook#1290",
    ),
    fact(
        &[Models::of("gemini").since(2, 5).before(3, 0).with(&["pro"])],
        &[Rule::Efforts(&["minimal", "low", "medium", "high"])],
        "2026-11-29",
        "vercel/ai#8027",
    ),
    fact(
        &[Models::of("gemini").since(3, 0).with(&["pro"])],
        &[Rule::Efforts(&["low", "medium", "high"])],
        "2026-11-29",
        "https://ai.google.dev/gemini-api/docs/thinking",
    ),
    fact(
        &[Models::of("grok").since(4, 0), Models::of("grok-3-mini")],
        &[never("presence_penalty"), never("frequency_penalty")],
        "2026-11-29",
        "lobehub/lobehub#13332, lobehub/lobehub#7370",
    ),
    fact(
        &[Models::of("grok").since(4, 0).before(4, 2)],
        &[Rule::Efforts(&[])],
        "2026-11-29",
        "BerriAI/litellm#16265",
    ),
    fact(
        &[Models::of("deepseek-reasoner")],
        &[Rule::NoForcedCallWhileThinking],
        "2026-11-29",
        "pydantic/pydantic-ai#3644",
    ),
    fact(
        &[Models::of("deepseek-v").since(4, 0)],
        &[Rule::NoForcedCallWhileThinking],
        "2026-11-29",
        "deepseek-ai/awesome-deepseek-integration#598",
    )
    .at(&["deepseek"]),
    // The only accepted value depends on whether the model thinks, and is also the default.
    fact(
        &[Models::of("kimi-k").since(2, 5), Models::of("kimi-for-coding"), Models::of("k3")],
        &[never("temperature"), never("top_p"), never("presence_penalty"), never("frequency_penalty")],
        "2026-11-29",
        "iOfficeAI/gemini-cli-pro#30, shandianshuo/shandianshuo-releases#13",
    )
    .at(&["moonshot"]),
    fact(
        &[Models::all()],
        &[never("logprobs"), never("top_logprobs"), never("logit_bias")],
        "2026-11-29",
        "groq/groq-python#31",
    )
    .at(&["groq"]),
    fact(
        &[Models::all()],
        &[Rule::Renamed { member: "seed", name: "random_seed" }],
        "2026-11-29",
        "langchain-ai/langchain-azure#82, simonw/llm-mistral#2",
    )
    .at(&["mistral"]),
    fact(
        &[
            Models::of("qwen").since(3, 5).anywhere(),
            Models::of("minimax").anywhere(),
            Models::of("gemma-2").anywhere(),
            Models::of("gemma-3").anywhere(),
            Models::of("gemma3").anywhere(),
        ],
        &[Rule::OneSystemMessage],
        "2026-11-29",
        "ggml-org/llama.cpp#20733, vllm-project/vllm#41114",
    ),
];
