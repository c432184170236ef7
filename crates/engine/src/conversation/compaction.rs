//! [`Compaction`]: a request for a summary that later requests send in place of the conversation.

use super::{Conversation, Part, Role, ToolChoice, Turn};

/// A request for a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The form of the response.
    pub form: CompactionForm,
    /// What the model is to be asked, if the client says so.
    pub question: Option<String>,
}

impl Compaction {
    /// A request that leaves the question to toolwire.
    pub fn new(form: CompactionForm) -> Self {
        Self { form, question: None }
    }
}

/// The form in which a client expects a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionForm {
    /// As the only content of a response.
    Content,
    /// As a resource of its own, which repeats the user's messages.
    Resource,
}

/// The type of the item with which a client asks for a summary.
pub const COMPACTION_TRIGGER: &str = "compaction_trigger";

/// What the model is asked. The client itself keeps the instructions at the start of the conversation, so that
/// only those of the user must be in the summary.
const QUESTION: &str = "Summarize the conversation so far. The summary will replace the conversation, so that \
    the work can only be continued from what it says. Include: what the user asked for, with all instructions, \
    preferences and corrections that still apply; decisions and their reasons; the files, commands, names, \
    values and results that matter, exactly as they are; what has been done; and what remains to be done. \
    Do not continue the work and do not call tools. Reply with the summary alone.";

impl Conversation {
    /// Turns a request for a compaction, which only some APIs have, into a request for a message with the
    /// summary, without tools.
    pub fn ask_for_summary(&mut self) {
        for turn in &mut self.turns {
            turn.parts.retain(|part| !is_trigger(part));
        }
        self.turns.retain(|turn| !turn.parts.is_empty());
        let question = self.compaction.as_ref().and_then(|compaction| compaction.question.as_deref());
        self.turns.push(Turn::text(Role::User, question.unwrap_or(QUESTION)));
        self.tools.clear();
        self.late_tools.clear();
        self.custom_tools.clear();
        self.namespaced.clear();
        self.server_tools.clear();
        self.server_choice.clear();
        self.tool_choice = ToolChoice::Auto;
        self.sampling.response_format = None;
        self.sampling.stop.clear();
        for key in ["tools", "tool_choice", "parallel_tool_calls", "text"] {
            self.rest.remove(key);
        }
    }
}

/// Whether a part is the trigger of a compaction.
fn is_trigger(part: &Part) -> bool {
    match part {
        Part::Other(other) => other.parts().1.get("type").is_some_and(|kind| kind == COMPACTION_TRIGGER),
        _ => false,
    }
}
