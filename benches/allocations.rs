//! Counts allocations per token while plain text is being streamed. There must be none.
//!
//! The output is taken in two ways. Clearing the buffer shows what the stages themselves allocate. Splitting the output off
//! and dropping it is what the proxy does when it hands output to hyper: the buffer is shared, and reused once hyper has
//! written it.

#![allow(clippy::print_stdout, reason = "the counts are the result")]

extern crate toolwire_pipeline as toolwire;

mod answers;

use allocation_counter::{AllocationInfo, measure};
use answers::{READ, Upstream};
use bytes::{Bytes, BytesMut};
use toolwire::pipeline::Pipeline;

const TOKENS: usize = 4_000;

fn main() {
    println!("{:<62} {:>10} {:>12}", "allocations in 2,000 tokens", "cleared", "split off");
    let cases = [
        ("lumo v1 → chat, detection", Upstream::LumoV1, true, false),
        ("lumo v2 → chat, detection", Upstream::LumoV2, true, false),
        ("chat → chat, detection, written anew", Upstream::Chat, true, false),
        ("chat → chat, detection, verbatim", Upstream::Chat, true, true),
        ("chat → chat, verbatim", Upstream::Chat, false, true),
        ("chat → chat, frames all different", Upstream::Padded, true, true),
    ];
    let mut sum = 0;
    for (name, upstream, detect, verbatim) in cases {
        for (text, tokens) in [("prose", answers::prose(TOKENS)), ("Markdown", answers::markdown(TOKENS))] {
            let frames = upstream.frames(&tokens);
            for (cut, reads) in
                [("one a read", answers::single(&frames)), ("4 KB reads", answers::reads(&frames, READ / 4))]
            {
                let pipeline = || answers::pipeline(&answers::conversation(), upstream, detect, verbatim);
                let cleared = count(pipeline(), &reads, |out| out.clear());
                let split = count(pipeline(), &reads, |out| drop(out.split().freeze()));
                println!("{:<62} {:>10} {:>12}", format!("{name}, {text}, {cut}"), cleared, split);
                sum += if text == "prose" { cleared + split } else { 0 };
            }
        }
    }
    // A few allocations are tolerated, since a buffer grows whenever it must hold more than ever before.
    println!("none a token in prose: {}", if sum < 10 { "ok" } else { "MISSED" });
}

/// Counts the allocations from the middle of the response to its last token.
fn count(mut pipeline: Pipeline, reads: &[Bytes], take: impl Fn(&mut BytesMut)) -> u64 {
    let mut out = BytesMut::with_capacity(4 * READ);
    let mut push = |read: &Bytes| {
        pipeline.push(read, &mut out);
        take(&mut out);
    };
    // By now, the shapes of frames have been learned, and buffers have reached their final size.
    let (warm, rest) = reads.split_at_checked(reads.len() / 2).unwrap_or_default();
    warm.iter().for_each(&mut push);
    // The end of the response is not part of the steady state.
    let steady = rest.len().saturating_sub(4);
    let AllocationInfo { count_total, .. } = measure(|| rest.iter().take(steady).for_each(&mut push));
    count_total
}
