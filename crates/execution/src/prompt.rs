//! [`Prompt`]: a text that a provider's server offers to people, who fill in its arguments.

use serde_json::{Value, json};

/// A prompt of a server. The server's words are not trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    pub name: String,
    /// May be empty, as the description.
    pub title: String,
    pub description: String,
    pub arguments: Vec<PromptArgument>,
}

/// What a person fills in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    /// May be empty.
    pub description: String,
    pub is_required: bool,
}

/// A prompt with its arguments filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilledPrompt {
    /// May be empty.
    pub description: String,
    pub messages: Vec<PromptMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage {
    /// Whether the model says this, not the user.
    pub is_by_model: bool,
    pub text: String,
}

impl Prompt {
    pub fn json(&self, provider: &str) -> Value {
        let arguments = self.arguments.iter().map(|argument| {
            let PromptArgument { name, description, is_required } = argument;
            json!({"name": name, "description": description, "required": is_required})
        });
        json!({
            "provider": provider, "name": self.name, "title": self.title, "description": self.description,
            "arguments": arguments.collect::<Vec<_>>(),
        })
    }
}

impl PromptMessage {
    pub fn role(&self) -> &'static str {
        if self.is_by_model { "assistant" } else { "user" }
    }
}

impl FilledPrompt {
    pub fn json(&self) -> Value {
        let message = |message: &PromptMessage| json!({"role": message.role(), "content": message.text});
        let messages: Vec<_> = self.messages.iter().map(message).collect();
        json!({"description": self.description, "messages": messages})
    }

    /// The messages as one text. The speakers are named if there are several.
    pub fn text(&self) -> String {
        let has_model = self.messages.iter().any(|message| message.is_by_model);
        let texts = self.messages.iter().map(|message| match has_model {
            true => format!("{}: {}", message.role(), message.text),
            false => message.text.clone(),
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}
