//! [`Command`]: a message such as `/generate-image`, which is answered without the model.
//!
//! The hosted tool runs, and its result becomes the text of a response. The response goes through a pipeline like any
//! other, so it has the format of the client's dialect, streaming or not, with keep-alives while the tool runs.

use std::sync::Arc;

use serde_json::json;

use super::upstream::{Client, Opening};
use toolwire_config::Model;
use toolwire_execution::{Asker, Execution, HostedTurn, Visibility, command_path, providers::images::TOOL};
use toolwire_pipeline::{
    conversation::{Call, Conversation, ToolChoice},
    dialect::{Answering, ClientDialect, Dialect, Ids, Reader, ReaderRules, UpstreamDialect},
    pipeline::Pipeline,
    rules::{Detect, Rules},
};

#[derive(Debug)]
pub(super) struct Command {
    turn: Arc<HostedTurn>,
    name: String,
    description: String,
}

impl Command {
    /// Finds the command in the newest message, if there is one and its tool exists.
    pub(super) fn find(
        execution: &Arc<Execution>,
        conversation: &Conversation,
        asker: &Asker,
    ) -> Option<Self> {
        let (name, description) = Self::parts(execution, conversation)?;
        let (name, description) = (name.to_owned(), description.to_owned());
        Some(Self { turn: Arc::new(execution.by_hand(asker.clone())), name, description })
    }

    /// Splits the newest message into the command and the text after it.
    pub(super) fn parts<'c>(
        execution: &'c Execution,
        conversation: &'c Conversation,
    ) -> Option<(&'c str, &'c str)> {
        let name = execution.settings().image_command.as_deref().filter(|_| !conversation.is_prompt)?;
        let description = command_path::description(conversation, name)?;
        execution.registry().snapshot().find(TOOL)?;
        Some((name, description))
    }

    /// Runs the tool in place of a request to an upstream. Returns its result in the form of a Chat Completions
    /// response.
    pub(super) fn open(self, client: &Arc<Client>, seed: u64) -> Opening {
        let client = Arc::clone(client);
        Box::pin(async move {
            let call = command_path::call(Ids::new(seed, 0).next("call_"), TOOL, &self.description);
            let line = self.turn.progress(&call).filter(|_| self.shows_progress());
            let line = line
                .map(|line| json!({"choices": [{"index": 0, "delta": {"reasoning_content": line + "\n"}}]}));
            let line = line.map_or_else(String::new, |line| format!("data: {line}\n\n"));
            let text = self.answer(call).await;
            let delta = json!({"choices": [{"index": 0, "delta": {"content": text}}]});
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            // No tokens were counted, but clients that request token counts wait for them.
            let usage = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
            let usage = json!({"choices": [], "usage": usage});
            let stream = format!("{line}data: {delta}\n\ndata: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
            Ok(client.made(stream.into()))
        })
    }

    /// Whether the client sees what the tool is doing.
    fn shows_progress(&self) -> bool {
        self.turn.visibility() == Visibility::Reasoning && !self.description.is_empty()
    }

    async fn answer(self, call: Call) -> String {
        if self.description.is_empty() {
            return command_path::usage(&self.name);
        }
        let ran = self.turn.run(vec![call]).await;
        let message = ran.first().map(|ran| command_path::message(&ran.output, &self.description));
        message.unwrap_or_else(|| "The image could not be generated.".to_owned())
    }
}

/// Removes all tools from a request that is not sent to a model.
pub(super) fn drop_tools(conversation: &mut Conversation) {
    conversation.tools.clear();
    conversation.custom_tools.clear();
    conversation.namespaced.clear();
    conversation.built_in.clear();
    conversation.tool_choice = ToolChoice::None;
}

/// Creates the pipeline for the response to a command. Its text is not searched for calls, since no model wrote it.
pub(super) fn pipeline(
    model: &Model,
    dialect: ClientDialect,
    conversation: &Conversation,
    answering: &Answering,
) -> Box<Pipeline> {
    let settings = &model.settings;
    let rules = Rules {
        detect: Detect::Off,
        reasoning: answering.reasoning,
        limits: settings.limits,
        ..Rules::default()
    };
    let writer = dialect.side().writer(answering);
    let reader = reader(&rules, dialect);
    Box::new(Pipeline::new(conversation, &rules, &model.formats, reader, writer, answering))
}

/// Creates the reader for the response of [`Command::open`]. Its rules name a client of another dialect, so that no
/// frame is passed through unchanged.
fn reader(rules: &Rules, dialect: ClientDialect) -> Reader {
    let chat = UpstreamDialect::Chat(Default::default());
    let client = match dialect.dialect() {
        Dialect::Chat => Dialect::Responses,
        other => other,
    };
    chat.side().reader(&ReaderRules { max_frame: rules.limits.max_frame, tolerate_truncation: false, client })
}
