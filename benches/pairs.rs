//! Measures the cost of a text event for every pair of upstream and client dialects. Each cost is relative to the same
//! run's cost of Chat Completions on both sides with rewritten frames. `.ci/pairs` counts their instructions.
//!
//! `--bench pairs` measures. Given an upstream dialect, a client dialect and a number of tokens (and `verbatim` to forward
//! frames unchanged), the program runs one response once so that its instructions can be counted (`valgrind --tool=callgrind
//! --toggle-collect='*counted*'`). Given `list`, it prints the pairs.

#![allow(clippy::print_stdout, reason = "the ratios are the result")]

extern crate toolwire_pipeline as toolwire;

mod answers;
mod turns;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use allocation_counter::measure;
use answers::{conversation, prose, settings, single};
use bytes::{Bytes, BytesMut};
use toolwire::{
    dialect::{Answering, ClientDialect, Dialect, ReaderRules, Stamp, UpstreamDialect},
    format::KnownFormats,
    pipeline::{Pipeline, State},
};

const TOKENS: usize = 2_000;

/// The maximum ratio of every pair.
const MOST: f64 = 1.5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if arguments == ["list"] {
        for pair in pairs().iter().filter(|pair| !pair.verbatim) {
            println!("{} {}", pair.upstream.dialect().name(), pair.client.dialect().name());
        }
        return;
    }
    if let [upstream, client, tokens, how @ ..] = arguments.as_slice() {
        let wanted = |pair: &Pair| {
            pair.upstream.dialect().name() == upstream
                && pair.client.dialect().name() == client
                && pair.verbatim == (how == ["verbatim"])
        };
        match (pairs().into_iter().find(wanted), tokens.parse()) {
            (Some(pair), Ok(tokens)) => println!("{} bytes", counted(pair.pipeline(), &pair.reads(tokens))),
            _ => eprintln!("pairs UPSTREAM CLIENT TOKENS [verbatim]"),
        }
        return;
    }
    let pairs: Vec<(Pair, Vec<Bytes>)> =
        pairs().into_iter().map(|pair| (pair.clone(), pair.reads(TOKENS))).collect();
    let rounds = if turns::wanted() { turns::rounds() } else { 1 };
    let mut best = vec![Duration::MAX; pairs.len()];
    for _ in 0..rounds {
        for ((pair, reads), best) in pairs.iter().zip(&mut best) {
            let pipeline = pair.pipeline();
            let start = Instant::now();
            counted(pipeline, reads);
            *best = start.elapsed().min(*best);
        }
    }
    let is_reference = |pair: &Pair| {
        pair.upstream.dialect() == Dialect::Chat && pair.client == ClientDialect::Chat && !pair.verbatim
    };
    let reference = pairs
        .iter()
        .zip(&best)
        .find(|((pair, _), _)| is_reference(pair))
        .map_or(1.0, |(_, time)| time.as_secs_f64());
    for ((pair, reads), best) in pairs.iter().zip(&best) {
        let figures =
            format!("{:.0} ns, {} allocations", turns::each(*best, TOKENS), pair.allocations(reads));
        turns::tell(&pair.name(), &figures, best.as_secs_f64() / reference, turns::Bound::Most(MOST));
    }
}

#[derive(Debug, Clone)]
struct Pair {
    upstream: UpstreamDialect,
    client: ClientDialect,
    /// Whether frames in the client's own dialect are forwarded unchanged.
    verbatim: bool,
}

/// Returns all pairs of dialects. Those with the same dialect on both sides occur twice, with forwarded and with
/// rewritten frames.
fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for upstream in UpstreamDialect::all().into_iter().filter(|upstream| upstream.absence().is_none()) {
        for client in ClientDialect::all() {
            if upstream.dialect() == client.dialect() {
                pairs.push(Pair { upstream: upstream.clone(), client, verbatim: true });
            }
            pairs.push(Pair { upstream: upstream.clone(), client, verbatim: false });
        }
    }
    pairs
}

impl Pair {
    fn name(&self) -> String {
        let how = if self.verbatim { ", verbatim" } else { "" };
        format!("{} → {}{how}", self.upstream.dialect().name(), self.client.dialect().name())
    }

    /// Returns a response of prose with one frame per read.
    fn reads(&self, tokens: usize) -> Vec<Bytes> {
        match self.upstream.dialect() {
            Dialect::Bedrock => prose(tokens).into_iter().map(amazon_frame).chain([amazon_end()]).collect(),
            dialect => single(&frames(dialect, &prose(tokens))),
        }
    }

    fn pipeline(&self) -> Pipeline {
        let conversation = conversation();
        let answering = Answering::new(&conversation, Stamp { seed: 7, created: 1_718_000_000 });
        // Clients never use Lumo's dialect, so this prevents the forwarding of frames.
        let client = if self.verbatim { self.client.dialect() } else { Dialect::Lumo };
        let rules = ReaderRules { max_frame: 8 << 20, tolerate_truncation: false, client };
        let reader = self.upstream.side().reader(&rules);
        let writer = self.client.side().writer(&answering);
        Pipeline::new(&conversation, &settings(true), KnownFormats::built_in(), reader, writer, &answering)
    }

    /// Counts the allocations in the second half of a response, except at its end.
    fn allocations(&self, reads: &[Bytes]) -> u64 {
        let mut pipeline = self.pipeline();
        let mut out = BytesMut::with_capacity(64 << 10);
        let mut push = |read: &Bytes| {
            pipeline.push(read, &mut out);
            out.clear();
        };
        let (warm, rest) = reads.split_at_checked(reads.len() / 2).unwrap_or_default();
        warm.iter().for_each(&mut push);
        let steady = rest.len().saturating_sub(8);
        measure(|| rest.iter().take(steady).for_each(&mut push)).count_total
    }
}

#[inline(never)]
fn counted(mut pipeline: Pipeline, reads: &[Bytes]) -> usize {
    let mut out = BytesMut::with_capacity(4 << 10);
    let mut total = 0;
    for read in reads {
        black_box(&mut pipeline).push(read, &mut out);
        total += out.len();
        out.clear();
    }
    pipeline.finish(&mut out);
    assert_eq!(pipeline.state(), State::Done);
    total + out.len()
}

/// A frame as Bedrock writes it, with a token.
fn amazon_frame(token: &str) -> Bytes {
    let text = serde_json::Value::from(token);
    let payload =
        format!("{{\"contentBlockIndex\":0,\"delta\":{{\"text\":{text}}},\"p\":\"abcdefghijklmnop\"}}");
    amazon_event("contentBlockDelta", &payload)
}

fn amazon_end() -> Bytes {
    amazon_event("messageStop", "{\"stopReason\":\"end_turn\"}")
}

fn amazon_event(kind: &str, payload: &str) -> Bytes {
    let crc32 = |bytes: &[u8]| {
        let bit = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
    };
    let mut headers = Vec::new();
    for (name, value) in
        [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")]
    {
        headers.extend(u8::try_from(name.len()).map(u8::to_be_bytes).unwrap_or_default());
        headers.extend([name.as_bytes(), &[7]].concat());
        headers.extend(u16::try_from(value.len()).map(u16::to_be_bytes).unwrap_or_default());
        headers.extend(value.as_bytes());
    }
    let size = |bytes: usize| u32::try_from(bytes).map(u32::to_be_bytes).unwrap_or_default();
    let mut frame = [size(16 + headers.len() + payload.len()), size(headers.len())].concat();
    frame.extend(crc32(&frame).to_be_bytes());
    frame.extend([&headers, payload.as_bytes()].concat());
    frame.extend(crc32(&frame).to_be_bytes());
    frame.into()
}

/// Returns a response as the upstream's servers write it, with one frame per token.
fn frames(dialect: Dialect, tokens: &[&str]) -> Vec<String> {
    let body = |token: &&str| serde_json::Value::from(*token).to_string();
    let each = |frame: &dyn Fn(usize, String) -> String| {
        tokens.iter().enumerate().map(|(count, token)| frame(count, body(token))).collect::<Vec<_>>()
    };
    let around = |before: &[&str], middle: Vec<String>, after: &[&str]| {
        let owned = |frames: &[&str]| frames.iter().map(|frame| (*frame).to_owned()).collect::<Vec<_>>();
        [owned(before), middle, owned(after)].concat()
    };
    match dialect {
        Dialect::Interactions => {
            let event = |kind: &str, members: &str| {
                format!("event: {kind}\ndata: {{{members},\"event_type\":\"{kind}\"}}\n\n")
            };
            let frame = |_, text| {
                event("step.delta", &format!("\"index\":0,\"delta\":{{\"type\":\"text\",\"text\":{text}}}"))
            };
            let start = event("step.start", r#""index":0,"step":{"type":"model_output"}"#);
            let last = event("interaction.completed", r#""interaction":{"id":"v1_1","status":"completed"}"#);
            around(&[&start], each(&frame), &[&last, "event: done\ndata: [DONE]\n\n"])
        }
        Dialect::Lumo => answers::Upstream::LumoV2.frames(tokens),
        Dialect::Bedrock => Vec::new(),
        Dialect::Chat => answers::Upstream::Chat.frames(tokens),
        Dialect::Completions => {
            let frame = |_, text| {
                format!(
                    "data: {{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1718000000,\"model\":\"m\",\
                     \"choices\":[{{\"index\":0,\"text\":{text},\"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
                )
            };
            let last = "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n";
            around(&[], each(&frame), &[last, "data: [DONE]\n\n"])
        }
        Dialect::Gemini => {
            let frame = |count: usize, text| {
                format!(
                    "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": {text}}}],\"role\": \"model\"}},\
                     \"index\": 0}}],\"usageMetadata\": {{\"promptTokenCount\": 9,\"candidatesTokenCount\": {},\
                     \"totalTokenCount\": {},\"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 9}}]}},\
                     \"modelVersion\": \"gemini-3-pro\",\"responseId\": \"x0123456789\"}}\r\n\r\n",
                    count + 1,
                    count + 10
                )
            };
            let last = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"\"}]},\"finishReason\": \"STOP\"}]}\r\n\r\n";
            around(&[], each(&frame), &[last])
        }
        Dialect::Ollama => {
            let frame = |count: usize, text| {
                format!(
                    "{{\"model\":\"qwen3\",\"created_at\":\"2026-11-22T10:00:00.{count:06}Z\",\
                     \"message\":{{\"role\":\"assistant\",\"content\":{text}}},\"done\":false}}\n"
                )
            };
            let last = "{\"model\":\"qwen3\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n";
            around(&[], each(&frame), &[last])
        }
        Dialect::Messages => {
            let frame = |_, text| {
                format!(
                    "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
                     \"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}}}\n\n"
                )
            };
            let before = [
                "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            ];
            let after = [
                "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":9}}\n\n",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            ];
            around(&before, each(&frame), &after)
        }
        Dialect::Responses => {
            let frame = |count: usize, text| {
                format!(
                    "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\
                     \"sequence_number\":{},\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":{text},\
                     \"logprobs\":[]}}\n\n",
                    count + 4
                )
            };
            let response = |status: &str| {
                format!(
                    "event: response.{status}\ndata: {{\"type\":\"response.{status}\",\"sequence_number\":0,\"response\":{{\"id\":\"resp_1\",\
                     \"object\":\"response\",\"created_at\":1718000000,\"status\":\"{}\",\"model\":\"m\",\"output\":[]}}}}\n\n",
                    status.replace("created", "in_progress")
                )
            };
            let item = |kind: &str, status: &str| {
                format!(
                    "event: response.output_item.{kind}\ndata: {{\"type\":\"response.output_item.{kind}\",\"sequence_number\":1,\
                     \"output_index\":0,\"item\":{{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"{status}\",\"role\":\"assistant\",\"content\":[]}}}}\n\n"
                )
            };
            let before = [response("created"), item("added", "in_progress")];
            let after = [item("done", "completed"), response("completed")];
            [before.to_vec(), each(&frame), after.to_vec()].concat()
        }
    }
}
