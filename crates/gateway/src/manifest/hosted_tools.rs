//! Hosted tools in fixtures: the model's tools, the results of its calls, and the events that the client received. No
//! tools run when a fixture is played.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::ManifestError;
use toolwire_pipeline::{
    conversation::{CallOutput, Conversation, Part, Role, Tool, Turn},
    event::{Event, Media, Reasoning, Runner, ServerCall},
    rules::{HostedRules, MixedTurns},
    wire::json::{Json, Raw},
};

/// `[hosted]`: the tools that toolwire runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedTools {
    /// The setting of the same name in configuration files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mixed_turns: Option<Mixed>,
    /// The setting of the same name in configuration files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    separator: Option<String>,
    tools: Vec<HostedTool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mixed {
    Defer,
    ServerFirst,
    ClientOnly,
}

/// `[[hosted.tools]]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostedTool {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    /// A JSON Schema as JSON text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    parameters: String,
}

/// `[[hops.results]]`: the result of a hosted call before the hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedResult {
    id: String,
    name: String,
    pub(crate) content: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

/// `[[hops.shown]]`: an event that the client received before the hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Shown {
    Reasoning(String),
    Call {
        id: String,
        name: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        server: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// An image produced by the call `id`, in base64.
    Image {
        id: String,
        mime: String,
        data: String,
    },
}

impl HostedTools {
    /// Returns the hosted tools of `conversation`. `None` if there are none.
    pub(crate) fn of(conversation: &Conversation, rules: Option<&HostedRules>) -> Option<Self> {
        let HostedRules { mixed_turns, separator } = rules?.clone();
        let is_hosted = |tool: &&Tool| conversation.hosted_tools.contains(&tool.name);
        let tools = conversation.tools.iter().filter(is_hosted).map(|tool| HostedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.as_ref().map_or_else(String::new, |raw| raw.view().raw().to_owned()),
        });
        let defaults = HostedRules::default();
        let mixed_turns = (mixed_turns != defaults.mixed_turns).then_some(match mixed_turns {
            MixedTurns::Defer => Mixed::Defer,
            MixedTurns::ServerFirst => Mixed::ServerFirst,
            MixedTurns::ClientOnly => Mixed::ClientOnly,
        });
        let separator = (separator != defaults.separator).then_some(separator);
        Some(Self { mixed_turns, separator, tools: tools.collect() })
    }

    /// Declares the tools in `conversation`.
    ///
    /// # Errors
    /// If a schema is not JSON.
    pub fn declare(&self, conversation: &mut Conversation) -> Result<(), ManifestError> {
        for tool in &self.tools {
            let parameters = match tool.parameters.as_str() {
                "" => None,
                text => {
                    let schema = Json::parse(text);
                    Some(Raw::from(schema.map_err(|_| ManifestError::Schema(tool.name.clone()))?))
                }
            };
            let description = tool.description.clone();
            conversation.tools.push(Tool { description, parameters, ..Tool::named(&*tool.name) });
            conversation.hosted_tools.push(tool.name.clone());
        }
        Ok(())
    }

    pub fn rules(&self) -> HostedRules {
        let defaults = HostedRules::default();
        HostedRules {
            mixed_turns: self.mixed_turns.map_or(defaults.mixed_turns, |mixed| match mixed {
                Mixed::Defer => MixedTurns::Defer,
                Mixed::ServerFirst => MixedTurns::ServerFirst,
                Mixed::ClientOnly => MixedTurns::ClientOnly,
            }),
            separator: self.separator.clone().unwrap_or(defaults.separator),
        }
    }
}

impl HostedResult {
    pub(crate) fn all_of(turns: &[Turn]) -> Vec<Self> {
        let parts = turns.iter().flat_map(|turn| &turn.parts);
        let results = parts.filter_map(|part| match part {
            Part::Result(output) => Some(output.clone()),
            _ => None,
        });
        results
            .map(|CallOutput { id, name, content, is_error }| Self { id, name, content, is_error })
            .collect()
    }

    pub fn turn(&self) -> Turn {
        let Self { id, name, content, is_error } = self.clone();
        Turn::of(Role::Tool, vec![Part::Result(CallOutput { id, name, content, is_error })])
    }
}

impl Shown {
    /// `None` for events that never occur between two hops.
    pub(crate) fn of(event: &Event<'_>) -> Option<Self> {
        let text = |text: &Cow<'_, str>| text.clone().into_owned();
        match event {
            Event::Reasoning(reasoning) => Some(Self::Reasoning(text(&reasoning.text))),
            Event::ServerCall(call) => Some(Self::Call {
                id: text(&call.id),
                name: text(&call.name),
                server: text(&call.server),
                arguments: call.arguments.as_ref().map(text),
                content: call.content.as_ref().map(text),
                is_error: call.is_error,
            }),
            Event::Media(media) => {
                Some(Self::Image { id: text(&media.id), mime: text(&media.mime), data: text(&media.data) })
            }
            _ => None,
        }
    }

    pub fn event(&self) -> Event<'_> {
        match self {
            Self::Reasoning(text) => Event::Reasoning(Reasoning::text(text.as_str())),
            Self::Call { id, name, server, arguments, content, is_error } => Event::from(ServerCall {
                id: Cow::Borrowed(id),
                name: Cow::Borrowed(name),
                runner: Runner::Toolwire,
                server: Cow::Borrowed(server),
                arguments: arguments.as_deref().map(Cow::Borrowed),
                content: content.as_deref().map(Cow::Borrowed),
                details: None,
                is_error: *is_error,
                approval: Cow::Borrowed(""),
            }),
            Self::Image { id, mime, data } => Event::Media(Media {
                id: Cow::Borrowed(id),
                mime: Cow::Borrowed(mime),
                data: Cow::Borrowed(data),
            }),
        }
    }
}
