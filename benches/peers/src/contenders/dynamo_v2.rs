//! `dynamo-parsers-v2`, with its parsers for calls only and with those for reasoning, text and calls. If a parser
//! fails, its unread input and the remaining response count as text.

use dynamo_parsers_v2::{
    Tool, ToolCallDelta, ToolParseResult, UnifiedParserEvent, UnifiedParserOutput,
    create_tool_parser_for_family, create_unified_parser_for_family,
};

use super::{Answer, Clock, Contender, Names, lookup};
use crate::{client::Client, tools::Declared};

const CALLS: Names = &[
    ("deepseek_v4", "deepseek_v4"),
    ("qwen3_coder", "qwen3_coder"),
    ("minimax_m2", "minimax_m2"),
    ("minimax_m3", "minimax_m3"),
    ("gemma4", "gemma4"),
    ("glm45", "glm47"),
    ("glm47", "glm47"),
    ("kimi_k2", "kimi_k2"),
    ("kimi_k3", "kimi_k3"),
    ("muse_atem", "muse_spark"),
    ("harmony", "harmony_text"),
];

const UNIFIED: Names = &[
    ("deepseek_v4", "deepseek_v4"),
    ("deepseek_v41", "deepseek_v41"),
    ("qwen3_coder", "qwen3_coder"),
    ("minimax_m3", "minimax_m3"),
    ("gemma4", "gemma4"),
    ("glm45", "glm47"),
    ("glm47", "glm47"),
    ("kimi_k2", "kimi_k2"),
    ("kimi_k3", "kimi_k3"),
    ("muse_atem", "muse_spark"),
    ("harmony", "harmony"),
];

const VERSION: &str = "dynamo-parsers-v2 0.9.6";

fn declared(tools: &[Declared]) -> Vec<Tool> {
    let tool = |tool: &Declared| Tool {
        name: tool.name.clone(),
        description: None,
        parameters: tool.parameters.clone(),
        strict: None,
    };
    tools.iter().map(tool).collect()
}

fn put(call: &ToolCallDelta, client: &mut dyn Client) {
    if let Some(name) = &call.name {
        client.call(call.tool_index, name);
    }
    if !call.arguments.is_empty() {
        client.arguments(call.tool_index, &call.arguments);
    }
}

/// The parsers for calls only.
pub struct Calls(Vec<Tool>);

impl Calls {
    pub fn new(tools: &[Declared]) -> Self {
        Self(declared(tools))
    }
}

fn put_result(result: &ToolParseResult, client: &mut dyn Client) {
    if !result.normal_text.is_empty() {
        client.text(&result.normal_text);
    }
    result.calls.iter().for_each(|call| put(call, client));
}

impl Contender for Calls {
    fn name(&self) -> &'static str {
        "dynamo v2"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn has(&self, format: &str) -> bool {
        lookup(CALLS, format).is_some_and(|name| create_tool_parser_for_family(name, &self.0).is_ok())
    }

    fn read(&self, answer: Answer<'_>, client: &mut dyn Client, clock: &mut Clock) {
        let Some(name) = lookup(CALLS, answer.format) else { return };
        let Ok(mut parser) = create_tool_parser_for_family(name, &self.0) else { return };
        let mut failed = false;
        clock.start();
        for piece in answer.pieces {
            if !clock.piece() {
                break;
            }
            client.piece();
            match parser.push(piece) {
                _ if failed => client.text(piece),
                Ok(result) => put_result(&result, client),
                Err(_) => {
                    failed = true;
                    client.text(piece);
                }
            }
        }
        if let (false, Ok(result)) = (failed, parser.finish()) {
            put_result(&result, client);
        }
        clock.stop();
    }
}

/// The parsers for reasoning, text and calls.
pub struct Unified(Vec<Tool>);

impl Unified {
    pub fn new(tools: &[Declared]) -> Self {
        Self(declared(tools))
    }
}

fn put_events(output: &mut UnifiedParserOutput, client: &mut dyn Client) {
    for event in output.events.drain(..) {
        match event {
            UnifiedParserEvent::Text(text) => client.text(&text),
            UnifiedParserEvent::ToolCall(call) => put(&call, client),
            _ => {}
        }
    }
}

impl Contender for Unified {
    fn name(&self) -> &'static str {
        "dynamo v2, unified"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn has(&self, format: &str) -> bool {
        lookup(UNIFIED, format).is_some_and(|name| {
            create_unified_parser_for_family(name, &self.0)
                .is_ok_and(|mut parser| parser.initialize(&[]).is_ok())
        })
    }

    fn read(&self, answer: Answer<'_>, client: &mut dyn Client, clock: &mut Clock) {
        let Some(name) = lookup(UNIFIED, answer.format) else { return };
        let Ok(mut parser) = create_unified_parser_for_family(name, &self.0) else { return };
        if parser.initialize(&[]).is_err() {
            return;
        }
        let (mut output, mut failed) = (UnifiedParserOutput::default(), false);
        clock.start();
        for piece in answer.pieces {
            if !clock.piece() {
                break;
            }
            client.piece();
            if failed {
                client.text(piece);
                continue;
            }
            failed = parser.parse_into(piece, &mut output).is_err();
            put_events(&mut output, client);
            if failed {
                client.text(&parser.reset());
            }
        }
        if let (false, Ok(mut rest)) = (failed, parser.finish()) {
            put_events(&mut rest, client);
        }
        clock.stop();
    }
}
