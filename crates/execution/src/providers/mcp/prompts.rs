//! The prompts of a server, which people fill in.

use std::{collections::HashSet, sync::Arc};

use rmcp::{
    RoleClient, ServiceError,
    model::{
        GetPromptRequest, GetPromptRequestParams, PaginatedRequestParams, Prompt as ServerPrompt, Role,
        ServerResult,
    },
    service::Peer,
};
use serde_json::{Map, Value};
use toolwire_net::untrusted_text::is_unprintable;

use super::{Server, Unanswered, failed, not_a_result, output};
use crate::{ErrorCode, FilledPrompt, Prompt, PromptArgument, PromptMessage, ToolError};

/// Maximum number of pages of the list.
const MAX_PAGES: usize = 10;

const MAX_PROMPTS: usize = 200;

/// Maximum size of all texts in the list, in bytes. Further prompts are left out.
const MAX_LIST: usize = 1 << 20;

/// Maximum number of arguments of a prompt.
const MAX_ARGUMENTS: usize = 32;

/// Maximum size of a name, in bytes. Prompts with longer ones are left out.
const MAX_NAME: usize = 128;

/// Maximum length of other texts in the list, in characters. The rest is cut.
const MAX_TEXT: usize = 500;

/// Maximum size of a filled prompt, and of the values with which it is filled, in bytes.
const MAX_FILLED: usize = 256 << 10;

/// Requests the list. A server without prompts has an empty one.
///
/// # Errors
/// The server does not answer with a list.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Vec<Arc<Prompt>>, ServiceError> {
    if peer.peer_info().is_none_or(|info| info.capabilities.prompts.is_none()) {
        return Ok(Vec::new());
    }
    let (mut prompts, mut names, mut size) = (Vec::new(), HashSet::new(), 0);
    let (mut cursor, mut cursors) = (None, HashSet::new());
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = peer.list_prompts(Some(params)).await?;
        for prompt in page.prompts.into_iter().filter_map(prompt) {
            size += size_of(&prompt);
            let has_room = prompts.len() < MAX_PROMPTS && size <= MAX_LIST;
            if has_room && names.insert(prompt.name.clone()) {
                prompts.push(Arc::new(prompt));
            }
        }
        match page.next_cursor {
            Some(next) if prompts.len() < MAX_PROMPTS && size <= MAX_LIST && cursors.insert(next.clone()) => cursor = Some(next),
            _ => break,
        }
    }
    Ok(prompts)
}

/// `None` if the prompt has no usable name, or too many arguments.
fn prompt(prompt: ServerPrompt) -> Option<Prompt> {
    let arguments = prompt.arguments.unwrap_or_default();
    if !is_name(&prompt.name) || arguments.len() > MAX_ARGUMENTS {
        return None;
    }
    let arguments = arguments.into_iter().map(|argument| {
        is_name(&argument.name).then(|| PromptArgument {
            description: shown(argument.description.or(argument.title)),
            is_required: argument.required.unwrap_or_default(),
            name: argument.name,
        })
    });
    Some(Prompt {
        arguments: arguments.collect::<Option<_>>()?,
        title: shown(prompt.title),
        description: shown(prompt.description),
        name: prompt.name,
    })
}

/// In bytes.
fn size_of(prompt: &Prompt) -> usize {
    let arguments = prompt.arguments.iter();
    let arguments = arguments.map(|argument| argument.name.len() + argument.description.len());
    prompt.name.len() + prompt.title.len() + prompt.description.len() + arguments.sum::<usize>()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(is_unprintable)
}

/// Cuts a text for display on one line.
fn shown(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    text.chars().take(MAX_TEXT).map(|char| if is_unprintable(char) { ' ' } else { char }).collect()
}

impl Server {
    /// Fills in a prompt.
    pub(super) async fn fill_prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<FilledPrompt, ToolError> {
        let (peer, prompt) = self.state(|state| {
            let prompt = state.prompts.iter().find(|prompt| prompt.name == name);
            (state.peer.clone(), prompt.cloned())
        });
        let peer = peer.ok_or_else(|| failed("The server of the prompt is not ready."))?;
        let prompt = prompt.ok_or_else(|| invalid("The server has no prompt of this name.".to_owned()))?;
        check(&prompt, &arguments)?;
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let filled = match self.answer(&peer, GetPromptRequest::new(params).into()).await {
            Ok(ServerResult::GetPromptResult(filled)) => filled,
            Ok(_) => return Err(not_a_result()),
            Err(Unanswered::Said(said)) => return Err(failed(&said)),
            Err(Unanswered::Pages(_)) => return Err(failed("The prompt needs a page to be opened first.")),
            Err(Unanswered::Failed(error)) => return Err(error),
        };
        let covered = |text: &str| match self.host.get() {
            Some(host) => host.redacted(text),
            None => self.redactor.text(text).into_owned(),
        };
        let messages: Vec<_> = filled.messages.into_iter().map(|message| {
            // Files cannot be put into a text. They are named.
            let text = output::text(message.content, &mut Vec::new()).unwrap_or_default();
            PromptMessage { is_by_model: message.role == Role::Assistant, text: covered(&text) }
        }).collect();
        if messages.iter().map(|message| message.text.len()).sum::<usize>() > MAX_FILLED {
            let message = format!("The prompt is larger than {MAX_FILLED} bytes.");
            return Err(ToolError::new(ErrorCode::TooLarge, message));
        }
        Ok(FilledPrompt { description: covered(&shown(filled.description)), messages })
    }
}

/// Checks the values for a prompt.
fn check(prompt: &Prompt, arguments: &Map<String, Value>) -> Result<(), ToolError> {
    let known = |name: &String| prompt.arguments.iter().any(|argument| argument.name == *name);
    if let Some(name) = arguments.keys().find(|name| !known(name)) {
        return Err(invalid(format!("The prompt has no argument `{name}`.")));
    }
    if let Some((name, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
        return Err(invalid(format!("The argument `{name}` is not a text.")));
    }
    let is_missing = |argument: &&PromptArgument| argument.is_required && !arguments.contains_key(&argument.name);
    if let Some(argument) = prompt.arguments.iter().find(is_missing) {
        return Err(invalid(format!("The argument `{}` is missing.", argument.name)));
    }
    let size: usize = arguments.values().filter_map(Value::as_str).map(str::len).sum();
    if size > MAX_FILLED {
        return Err(invalid(format!("The arguments are larger than {MAX_FILLED} bytes.")));
    }
    Ok(())
}

fn invalid(message: String) -> ToolError {
    ToolError::new(ErrorCode::InvalidArguments, message)
}
