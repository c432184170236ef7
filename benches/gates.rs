//! Pushes one response through the pipeline. `.ci/gates` runs it under callgrind to count instructions.
//!
//!     gates SCENARIO TOKENS
//!
//! Only instructions inside `counted` are counted. Without arguments (`cargo bench`, `cargo test --benches`), every
//! scenario runs once, and the size of its output is printed.

#![allow(clippy::print_stdout, reason = "the bytes show that the work was done")]

extern crate toolwire_pipeline as toolwire;

mod answers;

use std::{env, hint::black_box, process::ExitCode};

use answers::{Upstream, conversation, markdown, native_call, pieces, pipeline, prose, single};
use bytes::{Bytes, BytesMut};
use toolwire::pipeline::Pipeline;

const SCENARIOS: [&str; 8] = [
    "lumo-v1-prose",
    "lumo-v2-prose",
    "chat-prose-verbatim",
    "chat-prose-detect",
    "chat-padded-detect",
    "chat-markdown-detect",
    "chat-native-call",
    "chat-hermes-call",
];

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    match arguments.as_slice() {
        [scenario, tokens] => {
            let Some((pipeline, reads)) = tokens.parse().ok().and_then(|tokens| prepare(scenario, tokens))
            else {
                eprintln!("gates SCENARIO TOKENS; scenarios are {}", SCENARIOS.join(", "));
                return ExitCode::from(2);
            };
            println!("{scenario}: {} bytes", counted(pipeline, &reads));
        }
        _ => SCENARIOS
            .into_iter()
            .filter_map(|name| Some((name, prepare(name, 100)?)))
            .for_each(|(name, (pipeline, reads))| println!("{name}: {} bytes", counted(pipeline, &reads))),
    }
    ExitCode::SUCCESS
}

/// Returns the scenario's pipeline and its input, one frame per read.
fn prepare(scenario: &str, tokens: usize) -> Option<(Pipeline, Vec<Bytes>)> {
    let text = "a word and another ".repeat(tokens / 4);
    let (upstream, detect, verbatim, frames) = match scenario {
        "lumo-v1-prose" => (Upstream::LumoV1, true, false, Upstream::LumoV1.frames(&prose(tokens))),
        "lumo-v2-prose" => (Upstream::LumoV2, true, false, Upstream::LumoV2.frames(&prose(tokens))),
        "chat-prose-verbatim" => (Upstream::Chat, false, true, Upstream::Chat.frames(&prose(tokens))),
        "chat-prose-detect" => (Upstream::Chat, true, true, Upstream::Chat.frames(&prose(tokens))),
        "chat-padded-detect" => (Upstream::Padded, true, true, Upstream::Padded.frames(&prose(tokens))),
        "chat-markdown-detect" => (Upstream::Chat, true, true, Upstream::Chat.frames(&markdown(tokens))),
        "chat-native-call" => {
            let arguments = format!(r#"{{"path":"a.txt","content":"{text}"}}"#);
            (Upstream::Chat, true, true, native_call(Upstream::Chat, &pieces(&arguments, 4)))
        }
        "chat-hermes-call" => {
            let call = format!(
                r#"<tool_call>{{"name":"write_file","arguments":{{"path":"a.txt","content":"{text}"}}}}</tool_call>"#
            );
            (Upstream::Chat, true, true, Upstream::Chat.frames(&pieces(&call, 4)))
        }
        _ => return None,
    };
    Some((pipeline(&conversation(), upstream, detect, verbatim), single(&frames)))
}

/// callgrind counts instructions only inside this function, which it finds by name.
#[inline(never)]
fn counted(pipeline: Pipeline, reads: &[Bytes]) -> usize {
    answers::run(black_box(pipeline), reads, &mut BytesMut::with_capacity(4 << 10), || ())
}
