//! Tests how reasoning is forwarded when reasoning and text alternate, in any split.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    dialect::ClientDialect,
    rules::{Reasoning, Rules},
};

use crate::laws::{
    soup::{cut_bytes, cuts},
    tries,
};
use crate::support::{
    client::Answer,
    exchange::{Exchange, request},
    upstream::Speech,
};

#[derive(Debug, Clone)]
struct ResponsePiece {
    reasons: bool,
    text: String,
}

/// Generates pieces with tags, partial tags and line endings.
fn said() -> impl Strategy<Value = Vec<ResponsePiece>> {
    let fragments =
        ["a", "é😀", " ", "\n", "<", "</", "</think", ">", "</think>", "</THINK>", "<think>", "\\", "think>"];
    let text = prop::collection::vec(prop::sample::select(fragments.to_vec()), 1..6);
    let said =
        (any::<bool>(), text).prop_map(|(reasons, text)| ResponsePiece { reasons, text: text.concat() });
    prop::collection::vec(said, 0..7)
}

fn events(said: &[ResponsePiece]) -> Vec<Value> {
    let events = said.iter().map(|said| json!([if said.reasons { "r" } else { "m" }, said.text]));
    events.chain([json!(["fin", "stop"]), json!(["done"])]).collect()
}

/// Joins either the reasoning or the text of `said`.
fn joined(said: &[ResponsePiece], reasons: bool) -> String {
    said.iter().filter(|said| said.reasons == reasons).map(|said| said.text.as_str()).collect()
}

/// The text that the client gets: each run of reasoning is wrapped in tags on a new line, and closers within it are
/// escaped.
fn in_tags(said: &[ResponsePiece]) -> String {
    let mut text = String::new();
    for run in said.chunk_by(|one, next| one.reasons == next.reasons) {
        let run_text: String = run.iter().map(|said| said.text.as_str()).collect();
        if run[0].reasons {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            let harmless = run_text.replace("</think>", "</think\\>").replace("</THINK>", "</THINK\\>");
            text += &format!("<think>{harmless}</think>");
        } else {
            text += &run_text;
        }
    }
    text
}

fn answer(exchange: &Exchange, said: &[ResponsePiece], cuts: &[prop::sample::Index]) -> Answer {
    let stream = exchange.speech.stream(&events(said));
    exchange.run(cut_bytes(&stream, cuts)).0
}

fn exchange(reasoning: Reasoning, speech: Speech, whole: bool) -> Exchange {
    let conversation = request(&json!({"stream": !whole}));
    Exchange::new(conversation, Rules { reasoning, ..Rules::default() }, speech)
}

proptest! {
    #![proptest_config(tries(300))]

    #[test]
    fn inline_reasoning_is_in_tags_that_nothing_in_it_closes(
        said in said(),
        cuts in cuts(),
        lumo: bool,
        whole: bool,
    ) {
        // This text contains no markers, because text after reasoning is searched for them. It does not start with
        // white space, because that would be held back.
        let text = |text: String| format!("x{}", text.replace(['<', '>'], "-"));
        let said = said.into_iter().map(|said| ResponsePiece {
            text: if said.reasons { said.text } else { text(said.text) },
            ..said
        });
        let said: Vec<_> = said.collect();
        let speech = if lumo { Speech::LumoV2 } else { Speech::Chat };
        let got = answer(&exchange(Reasoning::Inline, speech, whole), &said, &cuts);
        prop_assert_eq!(&got.text, &in_tags(&said));
        prop_assert_eq!((got.reasoning.as_str(), got.finish.as_deref()), ("", Some("stop")));
    }

    #[test]
    fn dropped_reasoning_leaves_the_text_as_it_is(said in said(), cuts in cuts(), whole: bool) {
        let said: Vec<_> = said
            .into_iter()
            .map(|said| ResponsePiece { text: said.text.replace(['<', '>'], "-"), ..said })
            .collect();
        let got = answer(&exchange(Reasoning::Drop, Speech::Chat, whole), &said, &cuts);
        prop_assert_eq!(got.text, joined(&said, false));
        prop_assert_eq!((got.reasoning.as_str(), got.finish.as_deref()), ("", Some("stop")));
    }

    #[test]
    fn with_detection_off_text_and_field_pass_unchanged(said in said(), cuts in cuts(), whole: bool) {
        let got = answer(&exchange(Reasoning::Off, Speech::Chat, whole), &said, &cuts);
        prop_assert_eq!(got.text, joined(&said, false));
        prop_assert_eq!(got.reasoning, joined(&said, true));
    }
}

/// A reader that understands the tags restores the reasoning.
#[test]
fn inline_reasoning_can_be_read_back() {
    let pieces = [(true, "Hm </think> no.\nYes."), (false, "Hello"), (true, "Again"), (false, " there")];
    let said: Vec<_> = pieces
        .iter()
        .map(|(reasons, text)| ResponsePiece { reasons: *reasons, text: (*text).to_owned() })
        .collect();
    let inline = answer(&exchange(Reasoning::Inline, Speech::Chat, false), &said, &[]);
    assert_eq!(inline.text, "<think>Hm </think\\> no.\nYes.</think>Hello\n<think>Again</think> there");
    let again = [ResponsePiece { reasons: false, text: inline.text }];
    let read = answer(&exchange(Reasoning::Auto, Speech::Chat, false), &again, &[]);
    assert_eq!(read.text, "Hello\n there");
    assert_eq!(read.reasoning, "Hm </think\\> no.\nYes.Again");
}

#[test]
fn tags_in_the_text_become_what_the_rules_say() {
    let said = [ResponsePiece { reasons: false, text: "<think>\nHm.\n</think>\n\nHi".to_owned() }];
    for (reasoning, text, field) in [
        (Reasoning::Auto, "Hi", "Hm."),
        (Reasoning::ReasoningContent, "Hi", "Hm."),
        (Reasoning::Inline, "<think>Hm.</think>Hi", ""),
        (Reasoning::Drop, "Hi", ""),
        (Reasoning::Off, "<think>\nHm.\n</think>\n\nHi", ""),
    ] {
        for whole in [false, true] {
            let got = answer(&exchange(reasoning, Speech::Chat, whole), &said, &[]);
            assert_eq!((got.text.as_str(), got.reasoning.as_str()), (text, field), "{reasoning:?}");
        }
    }
}

#[test]
fn clients_of_other_dialects_get_reasoning_in_its_place_or_in_the_text() {
    let said = [(true, "Hm."), (false, "Hi")]
        .map(|(reasons, text)| ResponsePiece { reasons, text: text.to_owned() });
    for (reasoning, text, thinking) in [
        (Reasoning::Auto, "Hi", "Hm."),
        (Reasoning::Reasoning, "Hi", "Hm."),
        (Reasoning::Inline, "<think>Hm.</think>Hi", ""),
        (Reasoning::Drop, "Hi", ""),
        (Reasoning::Off, "Hi", "Hm."),
    ] {
        for client in ClientDialect::all().filter(|client| *client != ClientDialect::Chat) {
            let exchange = Exchange { client, ..exchange(reasoning, Speech::Chat, false) };
            let got = answer(&exchange, &said, &[]);
            let found = (got.text.as_str(), got.reasoning.as_str());
            assert_eq!(found, (text, thinking), "{client:?} {reasoning:?}");
        }
    }
}
