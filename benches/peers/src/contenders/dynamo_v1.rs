//! `dynamo-parsers`. The chunks of a response pass through its jail, which holds a call back until it is complete.

use dynamo_parsers::tool_calling::{
    ToolDefinition,
    jail::{Annotated, JailedStream},
};
use dynamo_protocols::types::{
    ChatChoiceStream, ChatCompletionMessageContent, ChatCompletionStreamResponseDelta,
    CreateChatCompletionStreamResponse, FinishReason, Role,
};
use futures::{FutureExt, StreamExt, stream};

use super::{Answer, Clock, Contender, Names, lookup};
use crate::{client::Client, tools::Declared};

const NAMES: Names = &[
    ("hermes", "hermes"),
    ("nemotron_toolcall", "nemotron_deci"),
    ("llama3_json", "llama3_json"),
    ("mistral", "mistral"),
    ("phi4_mini", "phi4"),
    ("pythonic", "pythonic"),
    ("deepseek_v3", "deepseek_v3"),
    ("deepseek_v31", "deepseek_v3_1"),
    ("deepseek_v32", "deepseek_v3_2"),
    ("deepseek_v4", "deepseek_v4"),
    ("qwen3_coder", "qwen3_coder"),
    ("jamba", "jamba"),
    ("minimax_m2", "minimax_m2"),
    ("minimax_m3", "minimax_m3"),
    ("glm45", "glm47"),
    ("glm47", "glm47"),
    ("kimi_k2", "kimi_k2"),
    ("kimi_k3", "kimi_k3"),
    ("gemma4", "gemma4"),
    ("inkling", "inkling"),
    ("bare", "default"),
];

type Chunk = Annotated<CreateChatCompletionStreamResponse>;

pub struct Jail(Vec<ToolDefinition>);

impl Jail {
    pub fn new(tools: &[Declared]) -> Self {
        let tool = |tool: &Declared| ToolDefinition {
            name: tool.name.clone(),
            parameters: Some(tool.parameters.clone()),
            strict: None,
        };
        Self(tools.iter().map(tool).collect())
    }
}

fn chunk(content: Option<&str>, finish_reason: Option<FinishReason>) -> Chunk {
    #[allow(deprecated, reason = "the type has the field")]
    let delta = ChatCompletionStreamResponseDelta {
        role: Some(Role::Assistant),
        content: content.map(|content| ChatCompletionMessageContent::Text(content.to_owned())),
        tool_calls: None,
        function_call: None,
        refusal: None,
        reasoning_content: None,
    };
    let choice = ChatChoiceStream { index: 0, delta, finish_reason, logprobs: None };
    let response = CreateChatCompletionStreamResponse {
        id: "answer".to_owned(),
        choices: vec![choice],
        created: 0,
        model: "model".to_owned(),
        system_fingerprint: None,
        object: "chat.completion.chunk".to_owned(),
        usage: None,
        service_tier: None,
    };
    Annotated { data: Some(response), id: None, event: None, comment: None, error: None }
}

fn put(chunk: Chunk, client: &mut dyn Client) {
    for choice in chunk.data.into_iter().flat_map(|data| data.choices) {
        if let Some(ChatCompletionMessageContent::Text(text)) = &choice.delta.content {
            client.text(text);
        }
        for call in choice.delta.tool_calls.into_iter().flatten() {
            let Some(function) = call.function else { continue };
            if let Some(name) = &function.name {
                client.call(call.index as usize, name);
            }
            if let Some(arguments) = &function.arguments {
                client.arguments(call.index as usize, arguments);
            }
        }
    }
}

impl Contender for Jail {
    fn name(&self) -> &'static str {
        "dynamo v1"
    }

    fn version(&self) -> &'static str {
        "dynamo-parsers 11.0.1"
    }

    fn has(&self, format: &str) -> bool {
        lookup(NAMES, format).is_some()
    }

    fn read(&self, answer: Answer<'_>, client: &mut dyn Client, clock: &mut Clock) {
        let Some(name) = lookup(NAMES, answer.format) else { return };
        let finish = if answer.stopped { FinishReason::Stop } else { FinishReason::Length };
        // A server already has the chunks at this point, so creating them is not measured.
        let mut chunks: Vec<Chunk> = answer.pieces.iter().map(|piece| chunk(Some(piece), None)).collect();
        chunks.push(chunk(None, Some(finish)));
        let jail = JailedStream::builder().tool_call_parser(name).tool_definitions(self.0.clone()).build();
        // The jail processes a long call in one step, so the budget is checked where it pulls chunks.
        clock.start();
        let in_time = clock.in_time();
        let mut jailed = Box::pin(jail.apply(stream::iter(chunks.into_iter().take_while(in_time))));
        // The jail never has to wait: either a chunk is available, or the stream has ended.
        while let Some(Some(chunk)) = jailed.next().now_or_never() {
            client.piece();
            put(chunk, client);
        }
        clock.stop();
    }
}
