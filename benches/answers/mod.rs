//! The responses that the benches measure, written as upstreams send them, and pipelines that read them.

#![allow(dead_code, unreachable_pub, reason = "each bench takes what it needs")]

use bytes::{Bytes, BytesMut};
use serde_json::json;
use toolwire::{
    conversation::{Conversation, Tool},
    dialect::{Answering, Reader, Stamp, Writer, chat, lumo},
    format::KnownFormats,
    pipeline::{Pipeline, State},
    rules::{Detect, Rules},
};

/// The size of a read, in bytes, when the upstream is fast.
pub const READ: usize = 16 << 10;

const PROSE: &str = "The weather in Paris stays mild through the week, with light winds from the west and a few \
    clouds in the afternoon. Expect around eighteen degrees on most days; evenings are cooler, so a jacket is a good \
    idea if you plan to sit outside. Museums near the river open at nine, and the queues are shortest right after \
    that. Should it rain on Thursday, the covered passages are a pleasant way to cross the centre without an umbrella.\n\n";

const MARKDOWN: &str = "## Steps\n\n1. Read the **config** with `load(path)`.\n2. Check that `a < b` and `x[0]` is set; \
    see [the notes](https://example.org/notes).\n\n```rust\nfn main() {\n    let items: Vec<u32> = vec![1, 2, 3];\n    \
    println!(\"{}\", items.iter().sum::<u32>());\n}\n```\n\n- The result is {\"ok\": true} in most cases.\n- Otherwise \
    see <details> below.\n\n";

/// Returns `tokens` pieces of prose. Each is a word with its leading space, as tokenizers split text, and has five
/// to six bytes.
pub fn prose(tokens: usize) -> Vec<&'static str> {
    PROSE.split_inclusive(' ').cycle().take(tokens).map(blank_first).collect()
}

/// Moves the space of a token from its end to its start. `PROSE` ends with white space, so the byte before each
/// word is a space.
fn blank_first(word: &'static str) -> &'static str {
    let start = word.as_ptr().addr() - PROSE.as_ptr().addr();
    let first = start.saturating_sub(1);
    PROSE.get(first..start + word.trim_end_matches(' ').len()).unwrap_or(word)
}

/// Returns text with everything that the detector must examine more closely, in pieces of four bytes.
pub fn markdown(tokens: usize) -> Vec<&'static str> {
    pieces(MARKDOWN, 4).into_iter().cycle().take(tokens).collect()
}

/// Splits ASCII text into pieces of `size` bytes.
pub fn pieces(text: &str, size: usize) -> Vec<&str> {
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at_checked(size).unwrap_or((rest, ""));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// The format in which an upstream writes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    LumoV1,
    LumoV2,
    Chat,
    /// The format of OpenAI's own servers, which hide the lengths of tokens: each frame contains a member with
    /// random letters, so no two frames are alike.
    Padded,
}

const HEAD: &str =
    r#""id":"chatcmpl-BxYz0123456789abcdef","object":"chat.completion.chunk","created":1718000000"#;

impl Upstream {
    /// Returns one frame per token, and the end of the stream. A frame has between 70 (v1) and 190 bytes.
    pub fn frames(self, tokens: &[&str]) -> Vec<String> {
        let body = |token: &str| serde_json::Value::from(token).to_string();
        let frame = |(count, token): (usize, &&str)| match self {
            Self::LumoV1 => format!(
                r#"{{"type":"token_data","target":"message","count":{count},"content":{}}}"#,
                body(token)
            ),
            Self::LumoV2 => format!(
                r#"{{{HEAD},"model":"3b6be88a","choices":[{{"index":0,"delta":{{"content":{}}},"finish_reason":null}}]}}"#,
                body(token)
            ),
            Self::Chat => chat_frame(&format!(r#"{{"content":{}}}"#, body(token)), "null"),
            Self::Padded => {
                let frame = chat_frame(&format!(r#"{{"content":{}}}"#, body(token)), "null");
                let padding = format!("{:x}", count.wrapping_mul(0x9e37_79b9));
                let open = frame.strip_suffix('}').unwrap_or(&frame);
                format!(r#"{open},"obfuscation":"{padding}"}}"#)
            }
        };
        let first = matches!(self, Self::Chat | Self::Padded)
            .then(|| chat_frame(r#"{"role":"assistant","content":""}"#, "null"));
        let last = match self {
            Self::LumoV1 => r#"{"type":"done"}"#.to_owned(),
            Self::LumoV2 => format!(
                r#"{{{HEAD},"model":"3b6be88a","choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}"#
            ),
            Self::Chat | Self::Padded => chat_frame("{}", "\"stop\""),
        };
        let frames = first.into_iter().chain(tokens.iter().enumerate().map(frame)).chain([last]);
        let mut frames: Vec<_> = frames.map(|frame| format!("data: {frame}\n\n")).collect();
        if self != Self::LumoV1 {
            frames.push("data: [DONE]\n\n".to_owned());
        }
        frames
    }

    /// Creates a reader for this format. If `verbatim` is set, frames may be forwarded unchanged.
    pub fn reader(self, verbatim: bool) -> Reader {
        match self {
            Self::LumoV1 | Self::LumoV2 => Reader::Lumo(lumo::Reader::new(lumo::ReaderSettings::default())),
            Self::Chat | Self::Padded => Reader::Chat(chat::Reader::new(chat::ReaderSettings {
                verbatim,
                ..chat::ReaderSettings::default()
            })),
        }
    }
}

fn chat_frame(delta: &str, finish: &str) -> String {
    format!(
        r#"{{{HEAD},"model":"qwen2.5-coder-32b","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
    )
}

/// Returns the frames of a native call whose arguments arrive in these pieces.
pub fn native_call(upstream: Upstream, arguments: &[&str]) -> Vec<String> {
    let head = r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"write_file","arguments":""}}]}"#;
    let piece = |piece: &&str| {
        let body = serde_json::Value::from(*piece);
        format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":{body}}}}}]}}"#)
    };
    let mut frames = vec![chat_frame(head, "null")];
    frames.extend(arguments.iter().map(piece).map(|delta| chat_frame(&delta, "null")));
    frames.push(chat_frame("{}", "\"tool_calls\""));
    frames.push("[DONE]".to_owned());
    if upstream == Upstream::Chat {
        frames.insert(0, chat_frame(r#"{"role":"assistant","content":""}"#, "null"));
    }
    frames.into_iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

pub fn reads(frames: &[String], size: usize) -> Vec<Bytes> {
    frames.concat().as_bytes().chunks(size).map(Bytes::copy_from_slice).collect()
}

/// Returns one read per frame, as if the upstream wrote each token as soon as it is generated.
pub fn single(frames: &[String]) -> Vec<Bytes> {
    frames.iter().map(|frame| Bytes::copy_from_slice(frame.as_bytes())).collect()
}

/// A request that declares four tools.
pub fn conversation() -> Conversation {
    let tool = |name: &str, properties: serde_json::Value| Tool {
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        parameters: Some(json!({"type": "object", "properties": properties}).into()),
        strict: None,
        declared: None,
    };
    let text = || json!({"type": "string"});
    Conversation {
        model: "m".to_owned(),
        tools: vec![
            tool("get_weather", json!({"city": text()})),
            tool("read_file", json!({"path": text()})),
            tool("write_file", json!({"path": text(), "content": text()})),
            tool("search", json!({"query": text(), "limit": {"type": "integer"}})),
        ],
        parallel_calls: true,
        stream: true,
        ..Conversation::default()
    }
}

pub fn settings(detect: bool) -> Rules {
    Rules { detect: if detect { Detect::Auto } else { Detect::Off }, ..Rules::default() }
}

/// A complete pipeline that answers `conversation` for a Chat Completions client.
pub fn pipeline(conversation: &Conversation, upstream: Upstream, detect: bool, verbatim: bool) -> Pipeline {
    let answering = Answering::new(conversation, Stamp { seed: 7, created: 1_718_000_000 });
    let writer = Writer::Chat(chat::Writer::new(&answering));
    Pipeline::new(
        conversation,
        &settings(detect),
        KnownFormats::built_in(),
        upstream.reader(verbatim),
        writer,
        &answering,
    )
}

/// Pushes a response through the pipeline and returns the size of the output. After each read, clears the output
/// and calls `left`.
pub fn run(mut pipeline: Pipeline, reads: &[Bytes], out: &mut BytesMut, mut left: impl FnMut()) -> usize {
    let mut total = 0;
    for read in reads {
        pipeline.push(read, out);
        total += out.len();
        out.clear();
        left();
    }
    assert_eq!(pipeline.state(), State::Done);
    total
}
