//! What a request says about the model's thinking, in the words of all APIs.

use serde_json::Value;

use super::{Conversation, Part, Role};

/// A part of a request that can turn a model's thinking on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingSwitch {
    /// `chat_template_kwargs.enable_thinking`, which some servers also accept at the top level.
    EnableThinking,
    /// `chat_template_kwargs.thinking`, or `thinking` as a boolean, or `think` of Ollama's API.
    Thinking,
    /// `thinking`: an object with a `type`, as in Messages and at several providers of Chat Completions.
    ThinkingType,
    /// The effort: `none` turns thinking off. Other words say nothing, since they also go to models whose
    /// thinking is turned on by other means.
    Effort,
    /// The effort, for models whose thinking any word but `none`, `minimal` and `no_think` turns on.
    AnyEffort,
    /// `/think` and `/no_think` in the text of the newest user message or of the instructions.
    Text,
}

/// What a request says about the model's thinking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Thinking {
    /// Nothing: the model's default applies.
    #[default]
    Default,
    /// The model should think.
    On,
    /// The model should not think.
    Off,
}

impl Thinking {
    /// The switches that are read for any model. Most templates read one of the two variables, and servers and providers
    /// translate the rest.
    pub const ANY: &[ThinkingSwitch] = &[
        ThinkingSwitch::EnableThinking,
        ThinkingSwitch::Thinking,
        ThinkingSwitch::ThinkingType,
        ThinkingSwitch::Effort,
    ];

    /// What the first of `switches` that the request uses says.
    pub fn of(conversation: &Conversation, switches: &[ThinkingSwitch]) -> Self {
        match switches.iter().find_map(|switch| switch.of(conversation)) {
            Some(true) => Self::On,
            Some(false) => Self::Off,
            None => Self::Default,
        }
    }
}

impl ThinkingSwitch {
    fn of(self, conversation: &Conversation) -> Option<bool> {
        match self {
            Self::EnableThinking => kwarg(conversation, "enable_thinking"),
            Self::Thinking => {
                kwarg(conversation, "thinking").or_else(|| as_bool(conversation.rest.get("think")?))
            }
            Self::ThinkingType => match conversation.rest.get("thinking")?.get("type")?.as_str()? {
                "disabled" => Some(false),
                "enabled" | "adaptive" => Some(true),
                _ => None,
            },
            Self::Effort => (effort(conversation)? == "none").then_some(false),
            Self::AnyEffort => Some(!matches!(effort(conversation)?, "none" | "minimal" | "no_think")),
            Self::Text => conversation.text_switch(),
        }
    }
}

/// A boolean variable of the chat template, which some servers also accept at the top level.
fn kwarg(conversation: &Conversation, name: &str) -> Option<bool> {
    let rest = &conversation.rest;
    let variable = rest.get("chat_template_kwargs").and_then(|variables| as_bool(variables.get(name)?));
    variable.or_else(|| as_bool(rest.get(name)?))
}

fn as_bool(value: &Value) -> Option<bool> {
    value.as_bool().or_else(|| value.as_i64().map(|number| number != 0))
}

fn effort(conversation: &Conversation) -> Option<&str> {
    let rest = &conversation.rest;
    let variable = rest.get("chat_template_kwargs").and_then(|variables| variables.get("reasoning_effort"));
    let nested = || rest.get("reasoning").and_then(|reasoning| reasoning.get("effort")?.as_str());
    let member = || conversation.sampling.reasoning_effort.as_deref();
    variable.and_then(Value::as_str).or_else(member).or_else(nested)
}

impl Conversation {
    /// What the newest user message says about thinking, or else the instructions. Within a message, the last
    /// word counts.
    fn text_switch(&self) -> Option<bool> {
        let newest = self.turns.iter().rev().filter(|turn| turn.role == Role::User).take(1);
        let system = self.turns.iter().filter(|turn| matches!(turn.role, Role::System | Role::Developer));
        newest.chain(system).find_map(|turn| {
            let texts = turn.parts.iter().rev();
            let mut texts =
                texts.filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None });
            texts.find_map(|text| last_switch(text))
        })
    }
}

/// What the last `/think`, `/no_think` or `/nothink` in `text` says.
fn last_switch(text: &str) -> Option<bool> {
    let mut rest = text;
    while let Some((before, after)) = rest.rsplit_once('/') {
        let word = after.split(|c: char| !c.is_ascii_alphabetic() && c != '_').next().unwrap_or_default();
        match word {
            "think" => return Some(true),
            "no_think" | "nothink" => return Some(false),
            _ => rest = before,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversation::{Rest, Turn};

    fn said(rest: serde_json::Value) -> Thinking {
        let Value::Object(rest) = rest else { panic!("the fields of an object") };
        let conversation = Conversation { rest: Rest::new("chat", rest), ..Conversation::default() };
        Thinking::of(&conversation, Thinking::ANY)
    }

    #[test]
    fn thinking_is_turned_off_in_the_words_of_every_api() {
        for rest in [
            json!({"chat_template_kwargs": {"enable_thinking": false}}),
            json!({"chat_template_kwargs": {"thinking": false}}),
            json!({"chat_template_kwargs": {"reasoning_effort": "none"}}),
            json!({"enable_thinking": false}),
            json!({"thinking": false}),
            json!({"thinking": {"type": "disabled"}}),
            json!({"reasoning": {"effort": "none"}}),
        ] {
            assert_eq!(said(rest.clone()), Thinking::Off, "{rest}");
        }
        for rest in [
            json!({"chat_template_kwargs": {"enable_thinking": true}}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ] {
            assert_eq!(said(rest.clone()), Thinking::On, "{rest}");
        }
        for rest in [json!({}), json!({"chat_template_kwargs": 1, "thinking": "x"}), json!({"reasoning": {}})]
        {
            assert_eq!(said(rest.clone()), Thinking::Default, "{rest}");
        }
    }

    #[test]
    fn the_last_word_of_the_newest_message_counts() {
        let turn =
            |role, text: &str| Turn { role, parts: vec![Part::Text(text.into())], rest: Rest::default() };
        let said = |turns: Vec<Turn>| {
            Thinking::of(&Conversation { turns, ..Conversation::default() }, &[ThinkingSwitch::Text])
        };
        let system = || turn(Role::System, "/no_think");
        assert_eq!(said(vec![system(), turn(Role::User, "hi")]), Thinking::Off);
        assert_eq!(said(vec![system(), turn(Role::User, "hi /think")]), Thinking::On);
        assert_eq!(said(vec![turn(Role::User, "/think, no: /nothink")]), Thinking::Off);
        assert_eq!(
            said(vec![turn(Role::User, "/no_think"), turn(Role::User, "a/thinking/b")]),
            Thinking::Default
        );
    }
}
