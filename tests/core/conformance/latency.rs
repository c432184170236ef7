//! Tests how soon text reaches the client: as little as possible may be held back.

use bytes::BytesMut;
use serde_json::Value;
use toolwire::rules::ArgumentDelivery;

use super::{Kind, id, lumo, run, run_own};
use crate::support::{client::Answer, upstream::Speech};

/// Checks a case after each piece: `released` is the exact text sent so far, `released_min` a minimum, and
/// `released_arguments` the arguments of all calls joined together.
fn check(case: &Value) {
    let pieces = case["pieces"].as_array().expect("pieces").iter().map(|piece| piece.as_str().unwrap());
    for speech in Speech::ALL {
        let mut pipeline = lumo::exchange(case, ArgumentDelivery::Stream, speech).pipeline();
        let mut out = BytesMut::new();
        for (n, piece) in pieces.clone().enumerate() {
            pipeline.push(&speech.stream(&[serde_json::json!(["m", piece])]), &mut out);
            let answer = Answer::of_stream(&out);
            let what = format!("{} {speech:?} after piece {n}, {piece:?}", id(case));
            if let Some(released) = case["released"][n].as_str() {
                assert_eq!(answer.text, released, "{what}");
            }
            if let Some(least) = case["released_min"][n].as_str() {
                assert!(answer.text.starts_with(least), "{what}: only {:?}", answer.text);
            }
            if let Some(released) = case["released_arguments"][n].as_str() {
                let arguments: String = answer.calls.iter().map(|call| call.arguments.as_str()).collect();
                assert_eq!(arguments, released, "{what}");
            }
            if let Some(calls) = case["released_calls"][n].as_u64() {
                assert_eq!(answer.calls.len() as u64, calls, "{what}");
            }
        }
    }
}

#[test]
fn nothing_certain_is_held() {
    assert_eq!(run(Kind::Latency, check), 2);
    assert!(run_own(Kind::Latency, check) > 10);
}
