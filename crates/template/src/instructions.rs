//! Extracts instructions for tools from a template, for upstreams that accept messages.
//!
//! A conversation with one system message is rendered with and without the tools. If the only difference is text
//! directly before or after the system message, that text is how the template describes the tools.

use crate::{
    conversation::{Conversation, Role, Tool, Turn},
    failure::{Failure, Kind},
};

use super::{ChatTemplate, TemplateError};

/// The system message of the rendered conversation. It does not occur in any template.
const SYSTEM: &str = "7f3c1e90-system";

/// The user message, since many templates reject a conversation without one.
const USER: &str = "7f3c1e90-user";

impl ChatTemplate {
    /// Returns the template's description of `tools`, without white space around it.
    ///
    /// # Errors
    /// [`Kind::Internal`] if the template fails, or does not describe tools in the system message.
    pub fn tool_instructions(&self, tools: &[Tool], now: u64) -> Result<String, Failure> {
        let turns = vec![Turn::text(Role::System, SYSTEM), Turn::text(Role::User, USER)];
        let mut conversation = Conversation { turns, ..Conversation::default() };
        let without = self.render(&conversation, now)?.text;
        conversation.tools = tools.to_vec();
        let with = self.render(&conversation, now)?.text;
        inserted(&without, &with).map(|text| text.trim().to_owned()).ok_or_else(|| {
            let message = format!(
                "the model's chat template ({}) does not describe tools within the system message, so it \
                 cannot give `instructions`",
                self.origin()
            );
            Failure::new(Kind::Internal, message).with_code("chat_template")
        })
    }

    /// Checks with a sample tool that [`ChatTemplate::tool_instructions`] works.
    ///
    /// # Errors
    /// Explains why it does not work.
    pub fn check_instructions(&self) -> Result<(), TemplateError> {
        let tool = Tool { description: "An example.".to_owned(), ..Tool::named("example") };
        let text =
            self.tool_instructions(&[tool], 0).map_err(|failure| TemplateError::new(failure.message()))?;
        match text.contains("example") {
            true => Ok(()),
            false => Err(TemplateError::new("the chat template does not describe tools")),
        }
    }
}

/// Returns the text directly before or after the system message in `with`, if `without` lacks only this text.
fn inserted<'a>(without: &str, with: &'a str) -> Option<&'a str> {
    let at = without.find(SYSTEM)?;
    [at + SYSTEM.len(), at].into_iter().find_map(|place| {
        let (before, behind) = without.split_at_checked(place)?;
        let text = with.strip_prefix(before)?.strip_suffix(behind)?;
        Some(text).filter(|text| !text.trim().is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_beside_the_system_message_is_taken() {
        let without = format!("<s>{SYSTEM}</s><u>{USER}</u>");
        for (with, expected) in [
            (format!("<s>{SYSTEM}\nTools</s><u>{USER}</u>"), Some("\nTools")),
            (format!("<s>Tools {SYSTEM}</s><u>{USER}</u>"), Some("Tools ")),
            (format!("<t>Tools</t><s>{SYSTEM}</s><u>{USER}</u>"), None),
            (format!("<s>{SYSTEM}</s><u>Tools {USER}</u>"), None),
            (format!("<s>A {SYSTEM} B</s><u>{USER}</u>"), None),
            (without.clone(), None),
        ] {
            assert_eq!(inserted(&without, &with), expected, "{with}");
        }
    }
}
