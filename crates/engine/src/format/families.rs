//! Families of models whose chat template decides whether a response starts inside reasoning: the defaults, and
//! what changes them in a request (docs/protocols/text-formats.md#reasoning).
//!
//! A family is a name and a range of versions, so that its next model is known when it is released.

use std::iter::once;

use crate::conversation::{Conversation, Thinking, ThinkingSwitch};
use ThinkingSwitch::{AnyEffort, Text};

/// Models whose chat templates treat reasoning alike.
#[derive(Debug)]
struct Family {
    /// How the models' names begin, or any part of them if there is no version. In lower case, without separators.
    name: &'static str,
    /// The first and the last version, as major and minor number. `None` if names have no version.
    versions: Option<[(u16, u16); 2]>,
    /// One of these words must be in the name, unless there are none.
    words: &'static [&'static str],
    /// None of these words may be in the name.
    without: &'static [&'static str],
    /// When the template opens the reasoning.
    opens: Opens,
}

/// When a chat template opens the reasoning.
#[derive(Debug, Clone, Copy)]
enum Opens {
    Always,
    /// The template leaves that to the model.
    Never,
    /// Unless one of these turns thinking off.
    Unless(&'static [ThinkingSwitch]),
    /// Only if one of these turns thinking on.
    If(&'static [ThinkingSwitch]),
}

const fn since(major: u16, minor: u16) -> Option<[(u16, u16); 2]> {
    Some([(major, minor), (u16::MAX, u16::MAX)])
}

const fn between(first: (u16, u16), last: (u16, u16)) -> Option<[(u16, u16); 2]> {
    Some([first, last])
}

const fn family(name: &'static str, versions: Option<[(u16, u16); 2]>, opens: Opens) -> Family {
    Family { name, versions, words: &[], without: &[], opens }
}

/// All families. The first one that fits a name counts.
static FAMILIES: &[Family] = &[
    family("deepseekr", since(1, 0), Opens::Always),
    family("deepseekv", since(3, 1), Opens::If(Thinking::ANY)),
    family("glmz1", None, Opens::Always),
    Family { without: &["v"], ..family("glm", since(4, 7), Opens::Unless(Thinking::ANY)) },
    Family { words: &["thinking"], ..family("kimik", between((2, 0), (2, 0)), Opens::Never) },
    family("kimik", since(2, 5), Opens::Unless(Thinking::ANY)),
    family("qwq", None, Opens::Always),
    Family { words: &["thinking"], ..family("qwen", between((3, 0), (3, 4)), Opens::Always) },
    Family {
        without: &["coder", "instruct", "embedding", "reranker"],
        ..family("qwen", since(3, 5), Opens::Unless(Thinking::ANY))
    },
    Family {
        words: &["nano9bv2", "nano12bv2", "nanov2"],
        ..family("nemotron", None, Opens::Unless(&[Text]))
    },
    Family { without: &["340b", "15b"], ..family("nemotron", since(3, 0), Opens::Unless(Thinking::ANY)) },
    family("step", since(3, 5), Opens::Always),
    family("ling", since(3, 0), Opens::Unless(Thinking::ANY)),
    family("spark", since(2, 5), Opens::Unless(Thinking::ANY)),
    family("minimaxm", between((2, 0), (2, u16::MAX)), Opens::Always),
    Family { words: &["think"], ..family("olmo", since(3, 0), Opens::Always) },
    Family { words: &["thinking"], ..family("ernie", since(4, 5), Opens::Always) },
    family("exaone", since(4, 0), Opens::If(Thinking::ANY)),
    family("minicpm", since(5, 0), Opens::If(Thinking::ANY)),
    family("laguna", None, Opens::If(Thinking::ANY)),
    family("hy", since(3, 0), Opens::If(&[AnyEffort])),
    family("plamo", since(3, 0), Opens::Unless(Thinking::ANY)),
    family("seedoss", None, Opens::Never),
];

/// Whether the chat template of the model `name` is known to open the reasoning of the response to `conversation`, and
/// what that request says about thinking. The first value is `None` if the model belongs to no known family.
pub fn prompt_opens_reasoning(name: &str, conversation: &Conversation) -> (Option<bool>, Thinking) {
    let family = of_name(name);
    let switches = match family.map(|family| family.opens) {
        Some(Opens::Unless(switches) | Opens::If(switches)) => switches,
        Some(Opens::Always | Opens::Never) | None => Thinking::ANY,
    };
    let thinking = Thinking::of(conversation, switches);
    let opens = family.map(|family| match family.opens {
        Opens::Always => true,
        Opens::Never => false,
        Opens::Unless(_) => thinking != Thinking::Off,
        Opens::If(_) => thinking == Thinking::On,
    });
    (opens, thinking)
}

fn of_name(name: &str) -> Option<&'static Family> {
    let plain = name.rsplit_once('/').map_or(name, |(_, plain)| plain).to_ascii_lowercase();
    // A family's name begins with a letter, and is a part of a name that no letter precedes.
    let pairs = once(b'-').chain(plain.bytes()).zip(plain.bytes()).enumerate();
    let starts: Vec<(usize, u8)> = pairs
        .filter(|(_, (before, byte))| byte.is_ascii_alphabetic() && !before.is_ascii_alphabetic())
        .map(|(at, (_, byte))| (at, byte))
        .collect();
    FAMILIES.iter().find(|family| family.fits(&plain, &starts))
}

impl Family {
    /// Whether `name`, which is in lower case and has no vendor, belongs to the family. `starts` has the places at which
    /// its words begin, with the letter there.
    fn fits(&self, name: &str, starts: &[(usize, u8)]) -> bool {
        let first = self.name.as_bytes().first().copied();
        let mut starts = starts.iter().filter(|(_, letter)| Some(*letter) == first);
        starts.any(|&(at, _)| {
            let rest = name.get(at..).and_then(|rest| without_word(rest, self.name));
            rest.is_some_and(|rest| self.fits_version(rest) && self.fits_words(rest))
        })
    }

    fn fits_version(&self, rest: &str) -> bool {
        let Some([first, last]) = self.versions else { return true };
        version(rest).is_some_and(|version| first <= version && version <= last)
    }

    fn fits_words(&self, rest: &str) -> bool {
        let plain: String = rest.chars().filter(|c| !is_separator(*c)).collect();
        let has = |words: &[&str]| {
            words.iter().any(|word| match word.len() {
                // A letter behind the version, as in GLM-4.5V.
                1 => plain.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).starts_with(word),
                _ => plain.contains(word),
            })
        };
        (self.words.is_empty() || has(self.words)) && !has(self.without)
    }
}

const fn is_separator(char: char) -> bool {
    matches!(char, '-' | '_' | ' ' | '.')
}

/// What follows `word` at the start of `name`, which may contain separators.
fn without_word<'n>(name: &'n str, word: &str) -> Option<&'n str> {
    let mut rest = name;
    for letter in word.chars() {
        rest = rest.trim_start_matches(is_separator).strip_prefix(letter)?;
    }
    Some(rest)
}

/// The version at the start of `rest`: `3`, `-4.7`, `2p5`, `-3_1`, or `47` without a separator. A number with a unit, as in `30b`, is the size of
/// the model, and four digits are a date.
fn version(rest: &str) -> Option<(u16, u16)> {
    let (major, rest) = number(rest.trim_start_matches(is_separator).trim_start_matches('v'))?;
    let minor = rest.strip_prefix(['.', 'p', '-', '_']).and_then(number);
    Some(
        minor.map_or(if major < 10 { (major, 0) } else { (major / 10, major % 10) }, |(minor, _)| {
            (major, minor)
        }),
    )
}

fn number(text: &str) -> Option<(u16, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(digits).filter(|_| (1..=2).contains(&digits))?;
    let is_size = rest.starts_with(['b', 'm', 'x']) || rest.starts_with("k-");
    digits.parse().ok().filter(|_| !is_size).map(|number| (number, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::conversation::{Rest, Sampling};

    fn asked(rest: Value) -> Conversation {
        let Value::Object(rest) = rest else { panic!("the fields of an object") };
        Conversation { rest: Rest::new("chat", rest), ..Conversation::default() }
    }

    fn opens(name: &str, rest: Value) -> Option<bool> {
        prompt_opens_reasoning(name, &asked(rest)).0
    }

    #[test]
    fn default_and_switches_of_each_family() {
        let on = || json!({"chat_template_kwargs": {"enable_thinking": true, "thinking": true}});
        let off = || json!({"chat_template_kwargs": {"enable_thinking": false, "thinking": false}});
        // The columns: nothing said, thinking on, thinking off.
        let (always, never, unless, only_if) =
            ([true, true, true], [false, false, false], [true, true, false], [false, true, false]);
        for (names, expected) in [
            (
                &[
                    "deepseek-ai/DeepSeek-R1-0528",
                    "deepseek-r1:14b",
                    "DeepSeek-R1-Distill-Qwen-32B",
                    "QwQ-32B",
                    "Qwen/Qwen3-30B-A3B-Thinking-2507",
                    "Qwen3-Next-80B-A3B-Thinking",
                    "MiniMaxAI/MiniMax-M2",
                    "MiniMax-M2.5",
                    "stepfun-ai/Step-3.5-Flash",
                    "allenai/Olmo-3-32B-Think",
                    "baidu/ERNIE-4.5-21B-A3B-Thinking",
                    "zai-org/GLM-Z1-9B-0414",
                ][..],
                always,
            ),
            (
                &[
                    "zai-org/GLM-4.7",
                    "glm47",
                    "GLM-4.7-Flash",
                    "zai-org/GLM-5.3",
                    "glm-5",
                    "accounts/fireworks/models/glm-4p7",
                    "moonshotai/Kimi-K2.5",
                    "moonshotai/Kimi-K2.6",
                    "kimi-k2p6",
                    "moonshotai/Kimi-K3",
                    "Qwen/Qwen3.5-9B",
                    "Qwen/Qwen3.6-35B-A3B",
                    "Qwen/Qwen3.8-27B",
                    "qwen3.5:9b",
                    "unsloth/Qwen3.5-4B-GGUF",
                    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
                    "inclusionAI/Ling-3.0-flash",
                    "pfnet/plamo-3-nict-8b",
                    "Spark2.5",
                ],
                unless,
            ),
            (
                &[
                    "deepseek-ai/DeepSeek-V3.1",
                    "deepseek-ai/DeepSeek-V3.2-Exp",
                    "deepseek-ai/DeepSeek-V4-Flash-0731",
                    "deepseek-ai/DeepSeek-V4.1-Flash",
                    "deepseek-v3p1",
                    "LGAI-EXAONE/EXAONE-4.0-32B",
                    "openbmb/MiniCPM5-1B",
                    "poolside/Laguna-S-2.1",
                ],
                only_if,
            ),
            (&["moonshotai/Kimi-K2-Thinking", "ByteDance-Seed/Seed-OSS-36B-Instruct"], never),
        ] {
            for name in names {
                let found = [json!({}), on(), off()].map(|said| opens(name, said));
                assert_eq!(found, expected.map(Some), "{name}");
            }
        }
        for name in [
            "gpt-4o",
            "deepseek-ai/DeepSeek-V3-0324",
            "deepseek-v3",
            "Qwen3-Coder-30B-A3B-Instruct",
            "Qwen/Qwen3-32B",
            "Qwen/Qwen3-4B-Instruct-2507",
            "Qwen/Qwen2.5-7B-Instruct",
            "Qwen3.5-Coder",
            "zai-org/GLM-4.5",
            "zai-org/GLM-4.6",
            "glm-4-9b-chat",
            "glm-4v-9b",
            "zai-org/GLM-4.5V",
            "moonshotai/Kimi-K2-Instruct-0905",
            "MiniMax-M1",
            "allenai/Olmo-3-7B-Instruct",
            "inclusionAI/Ling-mini-2.0",
            "hyperclova",
            "starling-3.0",
            "",
        ] {
            assert_eq!(opens(name, on()), None, "{name}");
        }
    }

    #[test]
    fn words_of_other_apis_switch_too() {
        let none = Conversation {
            sampling: Sampling { reasoning_effort: Some("none".to_owned()), ..Sampling::default() },
            ..Conversation::default()
        };
        for name in ["glm-4.7", "kimi-k3", "qwen3.8-27b"] {
            assert_eq!(opens(name, json!({"thinking": {"type": "disabled"}})), Some(false), "{name}");
            assert_eq!(prompt_opens_reasoning(name, &none), (Some(false), Thinking::Off), "{name}");
        }
        assert_eq!(opens("deepseek-v4", json!({"thinking": {"type": "enabled"}})), Some(true));
        let high = Sampling { reasoning_effort: Some("high".to_owned()), ..Sampling::default() };
        let high = Conversation { sampling: high, ..Conversation::default() };
        assert_eq!(prompt_opens_reasoning("deepseek-v4", &high).0, Some(false));
        assert_eq!(prompt_opens_reasoning("tencent/Hy3", &high).0, Some(true));
    }
}
