//! `tool-parser`, from the SMG gateway. If it fails on a delta, that delta is lost. At the end, the gateway fetches
//! what the parser has not returned yet.

use futures::FutureExt;
use openai_protocol::common::{Function, Tool};
use tool_parser::{ParserFactory, types::ToolCallItem};

use super::{Answer, Clock, Contender, Names, lookup};
use crate::{client::Client, tools::Declared};

const NAMES: Names = &[
    ("hermes", "qwen"),
    ("bare", "json"),
    ("llama3_json", "llama"),
    ("mistral", "mistral"),
    ("deepseek_v3", "deepseek"),
    ("deepseek_v31", "deepseek31"),
    ("deepseek_v32", "deepseek32"),
    ("deepseek_v4", "deepseek_v4"),
    ("deepseek_v41", "deepseek_v41"),
    ("kimi_k2", "kimik2"),
    ("kimi_k3", "kimi_k3"),
    ("qwen3_coder", "qwen_xml"),
    ("glm45", "glm45_moe"),
    ("glm47", "glm47_moe"),
    ("hy_v3", "hy_v4"),
    ("minimax_m2", "minimax_m2"),
    ("minimax_m3", "minimax_m3"),
    ("pythonic", "pythonic"),
    ("gemma4", "gemma4"),
    ("step3", "step3"),
    ("command_r7b", "cohere"),
    ("sarashina", "sarashina"),
    ("inkling", "inkling"),
];

pub struct ToolParser {
    factory: ParserFactory,
    tools: Vec<Tool>,
}

impl ToolParser {
    pub fn new(tools: &[Declared]) -> Self {
        let tool = |tool: &Declared| Tool {
            tool_type: "function".to_owned(),
            function: Function {
                name: tool.name.clone(),
                description: None,
                parameters: tool.parameters.clone(),
                strict: None,
                extra: serde_json::Map::new(),
            },
        };
        Self { factory: ParserFactory::new(), tools: tools.iter().map(tool).collect() }
    }
}

fn put(items: Vec<ToolCallItem>, client: &mut dyn Client) {
    for item in items {
        if let Some(name) = &item.name {
            client.call(item.tool_index, name);
        }
        if !item.parameters.is_empty() {
            client.arguments(item.tool_index, &item.parameters);
        }
    }
}

impl Contender for ToolParser {
    fn name(&self) -> &'static str {
        "tool-parser"
    }

    fn version(&self) -> &'static str {
        "tool-parser 1.10.0"
    }

    fn has(&self, format: &str) -> bool {
        lookup(NAMES, format).is_some_and(|name| self.factory.registry().has_parser(name))
    }

    fn read(&self, answer: Answer<'_>, client: &mut dyn Client, clock: &mut Clock) {
        let parser =
            lookup(NAMES, answer.format).and_then(|name| self.factory.registry().create_parser(name));
        let Some(mut parser) = parser else { return };
        clock.start();
        for piece in answer.pieces {
            if !clock.piece() {
                break;
            }
            client.piece();
            let read = parser.parse_incremental(piece, &self.tools).now_or_never();
            if let Some(Ok(result)) = read {
                if !result.normal_text.is_empty() {
                    client.text(&result.normal_text);
                }
                put(result.calls, client);
            }
        }
        put(parser.get_unstreamed_tool_args().unwrap_or_default(), client);
        let rest = parser.take_unstreamed_normal_text();
        if !rest.is_empty() {
            client.text(&rest);
        }
        clock.stop();
    }
}
